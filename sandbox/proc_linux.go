package sandbox

import (
	"context"
	"errors"
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
	script   *child.Script
	limits   Limits
	started  time.Time
	guarded  map[string]string // box.guardedNow before it
	room     atomic.Int64      // output that may still come
	places   []string          // where it may write on the host
	free     map[uint64]uint64 // of their file systems, when it began
	outputs  []func()          // copy what comes through pipes; they may end the call
	pumps    sync.WaitGroup
	input    *os.File // what standard input is written to, or nil

	ending   sync.Once
	timedOut atomic.Bool
	limit    atomic.Pointer[string]

	done chan struct{}
	exit Exit  // after done
	err  error // after done
}

func (p *proc) start(ctx context.Context, s Spec, c child.Call, masks []string) error {
	std, closeStd, err := p.streams(s)
	if err != nil {
		return err
	}
	c.Devices, std = devices(std)
	absent := p.box.absentDenied()
	p.started = time.Now()
	// The limit holds for the start as well: the launcher may be stopped.
	wall := time.Duration(p.limits.WallSeconds) * time.Second
	entering, cancel := context.WithTimeoutCause(ctx, wall, errNoStart)
	answer, err := p.enter(entering, c, std, masks)
	cancel()
	closeStd()
	for _, copyOut := range p.outputs {
		p.pumps.Go(copyOut)
	}
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
	timer := time.AfterFunc(wall-time.Since(p.started), func() {
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
		if p.input != nil {
			p.input.Close()
		}
		p.finish(reply, ok)
		p.exit.Denials = append(p.exit.Denials, p.box.quarantine(absent)...)
		p.exit.Denials = append(p.exit.Denials, p.box.quarantineGit(p.guarded)...)
		p.launcher.release()
		p.forget()
		close(p.done)
	}()
	return nil
}

var errNoStart = errors.New("the launcher of this session gave no process for the call before its time was over")

// enter lets a process become the program. One that has waited long may have been
// killed, by a person or for want of memory; then there is another.
func (p *proc) enter(ctx context.Context, c child.Call, std []*os.File, masks []string) (<-chan child.Reply, error) {
	limits := c.Limits
	if p.launcher.groups != nil {
		// The group counts all processes together, and what is over the limit
		// ends with a reason that can be told.
		c.Limits.Memory = 0
	}
	for again := 2; ; again-- {
		d, err := p.launcher.enter(ctx, limits, c.Room(), masks)
		if err != nil {
			return nil, err
		}
		p.id, p.script = d.Call, d.Script(c)
		if err = p.launcher.begin(d, p.script, std); again == 0 || !errors.Is(err, unix.EPIPE) {
			return d.end, err
		}
	}
}

// politely is how long a program that ran out of time may clean up.
const politely = 250 * time.Millisecond

func (p *proc) forget() {
	p.box.mu.Lock()
	delete(p.box.running, p)
	p.box.mu.Unlock()
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
	case r.Failed.Op != 0:
		var why string
		if p.exit.Code, why = p.script.Failed(r); p.exit.Code == 125 {
			p.err = errors.New(why)
		} else {
			p.err = &StartError{p.exit.Code, why}
		}
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
