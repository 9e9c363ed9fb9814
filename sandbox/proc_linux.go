package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// proc is one running call.
type proc struct {
	box      *box
	launcher *launcher
	id       uint64
	limits   Limits
	started  time.Time
	room     atomic.Int64      // output that may still come
	places   []string          // where it may write on the host
	free     map[uint64]uint64 // of their file systems, when it began
	pumps    sync.WaitGroup

	ending   sync.Once
	timedOut atomic.Bool
	limit    atomic.Pointer[string]

	done chan struct{}
	exit Exit  // after done
	err  error // after done
}

func (p *proc) start(ctx context.Context, s Spec, r child.Request) error {
	p.id = p.launcher.newID()
	r.ID = p.id
	std, closeStd, err := p.streams(s)
	if err != nil {
		return err
	}
	absent, guarded := p.box.absentDenied(), p.box.guardedNow()
	p.started = time.Now()
	answer, err := p.launcher.call(r, std)
	closeStd()
	if err != nil {
		return err
	}
	p.box.mu.Lock()
	p.box.running[p] = true
	closed := p.box.closed
	p.box.mu.Unlock()
	if closed {
		p.Terminate(0)
	}
	p.places = p.box.places(s.Dir)
	p.box.cage.watchDisk(p)
	timer := time.AfterFunc(time.Duration(p.limits.WallSeconds)*time.Second, func() {
		p.timedOut.Store(true)
		p.Terminate(politely)
	})
	stop := context.AfterFunc(ctx, func() { p.Terminate(0) })
	go func() {
		reply, ok := <-answer
		timer.Stop()
		stop()
		p.box.cage.unwatchDisk(p)
		p.pumps.Wait()
		p.finish(reply, ok)
		p.exit.Denials = append(p.exit.Denials, p.box.quarantine(absent)...)
		p.exit.Denials = append(p.exit.Denials, p.box.quarantineGit(guarded)...)
		p.launcher.release()
		p.forget()
		close(p.done)
	}()
	return nil
}

// politely is how long a program that ran out of time may clean up.
const politely = 250 * time.Millisecond

func (p *proc) forget() {
	p.box.mu.Lock()
	delete(p.box.running, p)
	p.box.mu.Unlock()
}

// streams are the three descriptors of the program. The second result closes the
// ends that are not needed here once they are sent.
func (p *proc) streams(s Spec) ([]*os.File, func(), error) {
	p.room.Store(p.limits.OutputBytes)
	var mine []*os.File
	closeMine := func() {
		for _, f := range mine {
			f.Close()
		}
	}
	std := make([]*os.File, 3)
	for _, given := range []any{s.Stdin, s.Stdout, s.Stderr} {
		// From a directory of the host openat would reach what lies under it,
		// without the mounts that hide and protect.
		if f, ok := given.(*os.File); ok && f != nil {
			if info, err := f.Stat(); err == nil && info.IsDir() {
				return nil, nil, fmt.Errorf("%s is a directory, and no program in the sandbox may hold one of the host", f.Name())
			}
		}
	}
	var err error
	if std[0] = s.Stdin; s.Stdin == nil {
		std[0] = p.box.cage.null
	}
	for i, w := range []io.Writer{s.Stdout, s.Stderr} {
		f, isFile := w.(*os.File)
		switch {
		case i == 1 && w != nil && same(s.Stdout, s.Stderr):
			std[2] = std[1]
		case w == nil || isFile && f == nil:
			std[i+1] = p.box.cage.null
		case isFile:
			std[i+1] = f
		default:
			var r, pw *os.File
			if r, pw, err = os.Pipe(); err == nil {
				std[i+1] = pw
				mine = append(mine, pw)
				p.pumps.Go(func() { p.pump(r, w) })
			}
		}
		if err != nil {
			closeMine()
			return nil, nil, fmt.Errorf("prepare the output of a program: %w", err)
		}
	}
	return std, closeMine, nil
}

// same compares as os/exec does: values that cannot be compared differ.
func same(a, b io.Writer) (equal bool) {
	defer func() { _ = recover() }()
	return a == b
}

// pump copies until everybody who could write is gone, and ends the call when it
// writes too much or nobody listens.
func (p *proc) pump(r *os.File, w io.Writer) {
	defer r.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			keep := int64(n)
			left := p.room.Add(-keep)
			if left < 0 {
				keep = max(0, keep+left)
				p.stopAt("output")
			}
			if _, werr := w.Write(buf[:keep]); werr != nil {
				p.Terminate(0)
				w = io.Discard
			}
			if left < 0 {
				w = io.Discard
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proc) stopAt(limit string) {
	p.limit.CompareAndSwap(nil, &limit)
	p.Terminate(0)
}

// Wait returns when the whole tree is gone and its output is read.
func (p *proc) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Terminate ends the tree. The force is the death of its init process.
func (p *proc) Terminate(grace time.Duration) {
	select {
	case <-p.done:
		return
	default:
	}
	if grace <= 0 {
		p.launcher.signal(p.id, unix.SIGKILL)
		return
	}
	p.ending.Do(func() {
		p.launcher.signal(p.id, unix.SIGTERM)
		go func() {
			t := time.NewTimer(grace)
			defer t.Stop()
			select {
			case <-p.done:
			case <-t.C:
				p.launcher.signal(p.id, unix.SIGKILL)
			}
		}()
	})
}

// finish turns the launcher's answer into an Exit.
func (p *proc) finish(r child.Reply, ok bool) {
	p.exit.Usage = Usage{Wall: time.Since(p.started), CPU: time.Duration(r.CPUUsec) * time.Microsecond, MaxRSSBytes: r.MaxRSS}
	p.exit.TimedOut = p.timedOut.Load()
	if r.Deaf && r.Error == "" {
		p.box.lacks("denials: what the filter stops is not known, for this kernel gives no second listener for system calls")
	}
	for _, d := range r.Denied {
		p.exit.Denials = append(p.exit.Denials, Denial{Act: oneLine(d.Act), Layer: d.Layer})
	}
	if l := p.limit.Load(); l != nil {
		p.exit.Limit = *l
	}
	switch {
	case !ok:
		p.exit.Code, p.exit.Signal, p.err = 128+int(unix.SIGKILL), "SIGKILL", errLauncherGone
		return
	case r.Error != "":
		p.exit.Code, p.err = 125, errors.New(r.Error)
		return
	case r.NotFound != "":
		p.exit.Code, p.err = 127, &StartError{127, r.NotFound}
		return
	case r.NotExecutable != "":
		p.exit.Code, p.err = 126, &StartError{126, r.NotExecutable}
		return
	}
	if r.NoProcess {
		p.exit.Denials = append(p.exit.Denials, Denial{Act: "fork", Layer: p.box.cage.groups.layer(), Setting: "limits.processes"})
	}
	if r.OutOfMemory && p.exit.Limit == "" {
		p.exit.Limit = "memory"
	}
	ws := syscall.WaitStatus(r.Status)
	if !ws.Signaled() {
		p.exit.Code = ws.ExitStatus()
		return
	}
	p.exit.Code, p.exit.Signal = 128+int(ws.Signal()), unix.SignalName(ws.Signal())
	if p.exit.Limit != "" {
		return
	}
	switch ws.Signal() {
	case unix.SIGXCPU:
		p.exit.Limit = "cpu"
	case unix.SIGXFSZ:
		p.exit.Limit = "file_size"
	}
}

// oneLine keeps the words of a program from looking like anything else.
func oneLine(act string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(act, string(utf8.RuneError)))
}
