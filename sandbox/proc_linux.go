package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/later"
	"github.com/sandboxd/sandboxd/sandbox/launch"
	"github.com/sandboxd/sandboxd/sandbox/limit"
	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/stdio"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// proc is one running call.
type proc struct {
	box      *box
	launcher *launch.Launcher
	id       uint64
	script   *script.Script
	limits   guard.Limits
	started  time.Time
	before   *later.State // the files that a person's tools would run
	disk     limit.DiskUse
	streams  stdio.Streams
	clock    *clock

	authority  *egress.Authority  // that of its root
	network    *egress.Call       // nil: the call has no way out
	disconnect context.CancelFunc // ends its connections

	ending   sync.Once
	killing  sync.Once
	ended    chan struct{} // closed when the launcher has said how the call ended, or has ended itself
	timedOut atomic.Bool
	limit    atomic.Pointer[string] // the limit that the call has exceeded
	apart    atomic.Bool            // see Apart
	name     string                 // see Spec.Name

	sweeps chan chan<- []Denial // see Sweep

	done chan struct{}
	exit Exit  // after done
	err  error // after done
}

// startTime is how long a program without a limit of the wall clock may take to begin.
const startTime = time.Minute

func (p *proc) wall() time.Duration { return time.Duration(p.limits.WallSeconds) * time.Second }

// start sends the call to its launcher as long as entering lasts, and watches it from then on.
func (p *proc) start(ctx, entering context.Context, s Spec, c script.Call, e launch.Entry) error {
	most := stdio.Limit{Bytes: p.limits.OutputBytes, Whole: s.Bounded}
	if p.limits.OutputAction == guard.OutputKill {
		most.Whole, most.Exceeded = false, func() { p.stopAt("output") }
	}
	if u := p.box.prepared.user.ID(); u != nil {
		p.streams.Owner = u.UID
	}
	if err := p.streams.Open(s.Stdin, s.Stdout, s.Stderr, most, func() { p.Terminate(0) }); err != nil {
		return err
	}
	c.Devices = p.streams.Devices
	absent := p.box.absentDenied()
	answer, err := p.enter(ctx, entering, c, e)
	p.streams.Start()
	if err != nil {
		close(p.ended)
		return err
	}
	p.box.mu.Lock()
	p.box.running[p] = true
	p.exit.Apart = p.box.cage.began(p)
	closed := p.box.closed
	p.box.mu.Unlock()
	if closed {
		p.Terminate(0)
	}
	p.disk = limit.DiskUse{
		Session: p.box.session, Places: p.box.prepared.view.Writable(s.Dir), Private: p.box.prepared.view.Own(),
		Since: p.started, Limit: p.limits.DiskBytes, Exceeded: func() { p.stopAt("disk") },
		Exempt:  p.box.cage.opts.Reserve.Exempt != nil && p.box.cage.opts.Reserve.Exempt(ctx),
		Deleted: func(device uint64) int64 { return limit.DeletedBytes(p.launcher.Process.Pid, device) },
	}
	p.box.cage.disk.Watch(&p.disk)
	if p.wall() > 0 {
		p.clock.start(p.wall()-time.Since(p.started), func() {
			p.timedOut.Store(true)
			p.Terminate(graceTime)
		})
	}
	stopWaiting := context.AfterFunc(ctx, func() { p.Terminate(0) })
	go func() {
		reply, ok := p.await(answer, s.Lasting, absent)
		close(p.ended)
		p.clock.stop()
		stopWaiting()
		if p.network != nil {
			p.exit.Network = p.network.End()
			p.disconnect()
			p.box.connected(p.exit.Network)
		}
		removed := p.unwatch()
		p.streams.Wait()
		p.finish(reply, ok)
		p.exit.Denials = append(p.exit.Denials, removed...)
		p.takeAway(absent)
		p.launcher.Release()
		p.forget()
		close(p.done)
	}()
	return nil
}

// unwatch stops measuring what the call writes. Call it when no process of the call is left. It
// returns a denial if written files were removed.
func (p *proc) unwatch() []Denial {
	exceeded, removed := p.box.cage.disk.Unwatch(&p.disk)
	if !exceeded {
		return nil
	}
	disk := "disk"
	p.limit.CompareAndSwap(nil, &disk)
	if removed == 0 {
		return nil
	}
	return []Denial{{
		Act:   fmt.Sprintf("keep %d bytes that it wrote to /tmp, /var/tmp and caches: they were removed", removed),
		Layer: "disk", Setting: "limits.diskReserve",
	}}
}

// await waits for the end of the call. Files that a lasting program must not make are moved away
// while it runs.
func (p *proc) await(answer <-chan wire.Reply, lasting bool, absent []string) (wire.Reply, bool) {
	if !lasting {
		reply, ok := <-answer
		return reply, ok
	}
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case reply, ok := <-answer:
			return reply, ok
		case <-look.C:
			p.takeAway(absent)
		case found := <-p.sweeps:
			before := len(p.exit.Denials)
			p.takeAway(absent)
			found <- slices.Clone(p.exit.Denials[before:])
		}
	}
}

// lookTime is how often a lasting program's new files are looked at.
const lookTime = 2 * time.Second

// maxDenials bounds what is reported of one program.
const maxDenials = 256

// takeAway moves files that the program must not make into quarantine, and reports each once.
func (p *proc) takeAway(absent []string) {
	for _, d := range append(p.box.quarantine(absent), p.box.quarantineLater(p.before, p.started)...) {
		if len(p.exit.Denials) < maxDenials && !slices.Contains(p.exit.Denials, d) {
			p.exit.Denials = append(p.exit.Denials, d)
		}
	}
}

var errNoStart = errors.New("the launcher of this session gave no process for the call before its time was over")

// enter takes a slot and sends the script. The process behind it may have been killed while
// it waited, by a person or because memory ran out. Then enter takes another slot.
func (p *proc) enter(ctx, entering context.Context, c script.Call, e launch.Entry) (<-chan wire.Reply, error) {
	e.Limits, e.Room = c.Limits, c.Room()
	if p.launcher.Groups != nil {
		// The group counts all processes together, and says when a process was killed
		// because of the limit.
		c.Limits.Memory = 0
	}
	for again := 2; ; again-- {
		slot, err := p.launcher.Enter(entering, e)
		if err != nil {
			return nil, err
		}
		p.id, p.script = slot.Call, script.Compile(slot.Slot, c)
		p.connect(ctx)
		if err = p.launcher.Begin(slot, p.script, p.streams.Files); err != nil && p.network != nil {
			p.disconnect()
			p.network.End()
		}
		if again == 0 || !errors.Is(err, unix.EPIPE) {
			return slot.End, err
		}
	}
}

// connect opens the way out for the call, before its program runs.
func (p *proc) connect(ctx context.Context) {
	n, ok := p.launcher.Network.(*egress.Network)
	if !ok {
		if p.launcher.NoNetwork != "" {
			p.box.lacks("egress: " + p.launcher.NoNetwork)
		}
		return
	}
	ctx, p.disconnect = context.WithCancel(egress.WithClock(ctx, p.clock))
	o := p.box.connecting(ctx, p.limits)
	o.Authority = p.authority
	p.network = n.Begin(uint32(p.id), o)
}

// graceTime is how long a program that ran out of time has to clean up.
const graceTime = 250 * time.Millisecond

// forget removes the call from those that its box ends.
func (p *proc) forget() {
	p.box.mu.Lock()
	delete(p.box.running, p)
	p.box.mu.Unlock()
	p.box.cage.mu.Lock()
	delete(p.box.cage.lasting, p)
	p.box.cage.mu.Unlock()
}

// stopAt ends the call because of a limit. The first limit counts.
func (p *proc) stopAt(limit string) {
	p.limit.CompareAndSwap(nil, &limit)
	p.Terminate(0)
}

// Wait returns when all processes are gone and their output is read.
func (p *proc) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Terminate ends all processes of the call. SIGKILL ends their init process, and with it
// all others.
func (p *proc) Terminate(grace time.Duration) {
	select {
	case <-p.done:
		return
	default:
	}
	if p.network != nil {
		p.disconnect() // first, so that nobody waits for a program that is stopped
	}
	if grace <= 0 {
		p.kill()
		return
	}
	p.ending.Do(func() {
		p.launcher.Signal(p.id, unix.SIGTERM)
		go func() {
			t := time.NewTimer(grace)
			defer t.Stop()
			select {
			case <-p.ended:
			case <-t.C:
				p.kill()
			}
		}()
	})
}

// Dial connects to a port on the loopback of the call.
func (p *proc) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if p.box.cage.noNamespaces {
		return nil, &MissingError{Layer: "netns", Why: "without it programs open no sockets, so none serves a port"}
	}
	return p.launcher.Dial(ctx, port)
}

// Sweep implements [Proc].
func (p *proc) Sweep() []Denial {
	found := make(chan []Denial, 1)
	select {
	case p.sweeps <- found:
		return <-found
	case <-p.ended:
		return nil
	}
}

// Apart implements [Proc].
func (p *proc) Apart() bool { return p.apart.Load() }

// began returns the lasting programs of the session that p cannot reach. Each launcher has a
// network namespace of its own.
func (c *cage) began(p *proc) (apart []string) {
	if c.noNamespaces { // there no program serves a port
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, session := range c.lasting {
		if session != p.box.session {
			continue
		}
		other.apart.Store(other.launcher != p.launcher)
		if other.launcher != p.launcher {
			apart = append(apart, other.name)
		}
	}
	if p.name != "" {
		c.lasting[p] = p.box.session
	}
	slices.Sort(apart)
	return apart
}

func (p *proc) kill() {
	p.killing.Do(func() { go p.launcher.Kill(p.id, p.ended) })
}

// finish turns the reply of the launcher into an Exit. ok is false if the launcher ended.
func (p *proc) finish(r wire.Reply, ok bool) {
	p.exit.Usage = Usage{
		Wall:        time.Since(p.started),
		CPU:         time.Duration(r.CPUUsec) * time.Microsecond,
		MaxRSSBytes: r.MaxRSS,
	}
	p.exit.TimedOut = p.timedOut.Load()
	if r.NoListener && r.Error == "" {
		p.box.lacks("denials: what the filter stops is not known, " +
			"for this kernel gives no second listener for system calls")
		if p.network != nil {
			p.box.lacks("egress: this kernel gives no second listener for system calls, so nobody knows who connects")
		}
	}
	for _, d := range r.Denied {
		p.exit.Denials = append(p.exit.Denials, Denial{Act: oneLine(d.Act), Layer: d.Layer})
	}
	if l := p.limit.Load(); l != nil {
		p.exit.Limit = *l
	}
	if p.streams.Exceeded() && p.limits.OutputAction != guard.OutputKill {
		p.exit.Overflow = p.limits.OutputBytes
	}
	switch {
	case !ok:
		p.exit.Code, p.exit.Signal = 128+int(unix.SIGKILL), "SIGKILL"
		if !p.exit.TimedOut && p.exit.Limit == "" { // otherwise the launcher was ended to end the call
			p.err = launch.ErrGone
		}
		return
	case r.Error != "":
		p.exit.Code, p.err = 125, errors.New(r.Error)
		return
	case r.Replaced != "":
		p.exit.Code, p.exit.Signal, p.err = 128+int(unix.SIGKILL), "SIGKILL", &ReplacedError{r.Replaced}
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
		layer := p.box.cage.groups.Layer()
		p.exit.Denials = append(p.exit.Denials, Denial{Act: "fork", Layer: layer, Setting: "limits.processes"})
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

// oneLine replaces what a program could use to make its words look like other output.
func oneLine(act string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(act, string(utf8.RuneError)))
}
