package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/launch"
	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/view"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// box is the Box of Linux for one user.
type box struct {
	cage     *cage
	session  string
	profile  Profile
	settings guard.Settings
	prepared *prepared
	private  func() error // makes the private directory, at the first call
	broken   error        // why the box could not be prepared for the user
	judge    egress.Judge

	*boxState
}

// boxState is what a box shares among its users.
type boxState struct {
	mu      sync.Mutex
	report  Report         // Missing is guarded by mu
	running map[*proc]bool // guarded by mu
	closed  bool           // guarded by mu
	dialled *egress.Call   // guarded by mu; for Dial, which makes it
	ledger  egress.Ledger  // guarded by mu; of the connections that have ended
}

// As returns this box for another user.
func (b *box) As(u User) Box {
	if u.known && u.own && b.prepared.user.own {
		return b
	}
	other := *b
	if other.broken = other.become(u); other.broken != nil {
		other.prepared = b.prepared
	}
	return &other
}

// become prepares the box for a user.
func (b *box) become(u User) (err error) {
	if b.prepared, err = b.cage.prepare(b.session, b.profile, b.settings, u); err == nil {
		dir := b.prepared.dir
		b.private = sync.OnceValue(func() error { return makeSessionDir(dir) })
	}
	return err
}

// runs returns an error if no program can run for the user of the box.
func (b *box) runs() error {
	switch u := b.prepared.user; {
	case b.broken != nil:
		return b.broken
	case !u.known:
		return errors.New("start a program: it is not known for whom")
	case u.Missing() != nil:
		return u.Missing()
	case !u.own && b.cage.noNamespaces:
		return &MissingError{
			Layer: "mountns", Why: fmt.Sprintf("programs of uid %d need it, because their private files lie in a "+
				"directory of the daemon", u.id.UID),
		}
	}
	return nil
}

func (b *box) Report() Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.report.clone()
}

// lacks adds to the report a layer that a call has found to be missing.
func (b *box) lacks(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.report.Missing, what) {
		b.report.Missing = append(b.report.Missing, what)
	}
}

// Start runs a program through the session's launcher.
func (b *box) Start(ctx context.Context, s Spec) (Proc, error) {
	if err := errors.Join(b.Report().cageable(), b.runs()); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(s.Argv) == 0 {
		return nil, errors.New("start a program: no words given")
	}
	if !filepath.IsAbs(s.Dir) {
		return nil, fmt.Errorf("start %q: working directory %q is not absolute", s.Argv[0], s.Dir)
	}
	for _, word := range slices.Concat(s.Argv, s.Env, []string{s.Dir}) {
		if strings.Contains(word, "\x00") {
			return nil, fmt.Errorf("start %q: a word holds a NUL byte", s.Argv[0])
		}
	}
	show := b.prepared.view.MustShow(s.Dir)
	before := b.prepared.trees.State()
	r, err := b.root(show, before)
	if err != nil {
		return nil, err
	}
	for _, m := range before.Missing {
		b.lacks(m)
	}
	limits := b.prepared.settings.Limits.WithDefaults().Tighten(s.Limits)
	if s.Lasting {
		limits.WallSeconds, limits.CPUSeconds = s.Limits.WallSeconds, s.Limits.CPUSeconds
		limits.OutputBytes, limits.OutputAction = math.MaxInt64, guard.OutputTruncate
	}
	p := &proc{
		box: b, name: s.Name, limits: limits, authority: r.authority, started: time.Now(), before: before,
		clock: newClock(), ended: make(chan struct{}), done: make(chan struct{}), sweeps: make(chan chan<- []Denial),
	}
	// The clock also runs during the start, because the launcher may be stopped.
	entering, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.wall(), startTime), errNoStart)
	defer cancel()
	entry := launch.Entry{Masks: b.prepared.view.Masks(b.cage.sockets, show), Limits: kernelLimits(limits)}
	if !b.cage.noNamespaces { // else Landlock grants the right to read them
		entry.Kept = b.prepared.keep(before)
	}
	if p.launcher, err = b.cage.pool.Get(entering, b.session, r.config, entry); err != nil {
		return nil, err
	}
	if len(s.Bound) > 0 {
		entry.Bound, entry.Listen = s.Bound, b.cage.filters.Bound(b.cage.noNamespaces)
		s.Argv = b.traceable(s)
	}
	c := script.Call{
		Argv: s.Argv, Env: view.WithEnv(b.prepared.view.Env, s.Env), Dir: s.Dir,
		Limits: kernelLimits(limits), Terminal: s.Terminal,
	}
	if err := p.start(ctx, entering, s, c, entry); err != nil {
		p.launcher.Release()
		return nil, err
	}
	return p, nil
}

func kernelLimits(l guard.Limits) wire.Limits {
	return wire.Limits{
		CPUSeconds: uint64(l.CPUSeconds), Memory: uint64(l.MemoryBytes), FileSize: uint64(l.FileSizeBytes),
		OpenFiles: uint64(l.OpenFiles), Processes: uint64(l.Processes),
	}
}

// Close ends what runs in this box.
func (b *box) Close() error {
	b.mu.Lock()
	b.closed = true
	var all []*proc
	for p := range b.running {
		all = append(all, p)
	}
	b.mu.Unlock()
	b.Ledger()
	for _, p := range all {
		p.Terminate(0)
		<-p.done
	}
	return nil
}
