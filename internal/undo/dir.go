package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/undo/conflict"
	"github.com/sandboxd/sandboxd/sandbox"
)

// open700 are the rights that an undo needs in a directory in which it restores something.
const open700 = 0o700

// dress gives a directory the mode and the attributes of want. It writes the line of the journal before that.
func (r restorer) dress(ctx context.Context, use guard.PathUse, now, want state) error {
	use.Op = guard.Write
	above, err := r.box.Open(ctx, use, unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer above.Close()
	l := &line{change: change{Path: use.Path, State: kept, Before: now, After: want}}
	rec := recorderOf(ctx)
	if rec != nil {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		if err := rec.add(ctx, l); err != nil {
			return err
		}
	}
	err = r.box.Do(use, func() error { return dressDir(above, filepath.Base(use.Path), now, want) })
	if l.State = made; err != nil {
		l.After, _ = r.look(ctx, use)
		l.drop = l.After.same(now)
		return fmt.Errorf("the mode and the attributes of the directory: %w", err)
	}
	return nil
}

// dressDir changes a directory by its name, because its mode may deny everything to its owner.
func dressDir(above *os.File, name string, now, want state) error {
	at, err := unix.Openat(int(above.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	path := fmt.Sprintf("/proc/self/fd/%d", at)
	chmod := func(mode uint32) error { return unix.Chmod(path, mode) }
	if !sameExtended(now.Extended, want.Extended) {
		if err = chmod(now.Mode | open700); err == nil { // attributes need the right to write
			err = sandbox.SetExtended(path, now.Extended, want.Extended)
		}
	}
	return errors.Join(err, chmod(want.Mode))
}

// opened returns the state of a directory while an undo restores something in it: the rights of open700, and no
// access list. So what the undo makes in it gets neither its group nor its access rights yet.
func opened(s state) state {
	if s.Type != isDir {
		return s
	}
	s.Mode = s.Mode&0o777 | open700
	s.Extended = maps.Clone(s.Extended)
	maps.DeleteFunc(s.Extended, func(name string, _ []byte) bool { return sandbox.IsACL(name) })
	return s
}

// close gives the directories that were opened their modes and access rights back, the deepest first.
func (r restorer) close(ctx context.Context, p plan, why []string) {
	last := map[string]int{} // by path: where in the plan the first state of the directory is
	for at, i := range p.Lines {
		last[r.of.Changes[i].Path] = at
	}
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(last))) {
		at := last[path]
		want := r.of.Changes[p.Lines[at]].Before
		if why[at] != "" || want.Type != isDir || opened(want).same(want) {
			continue
		}
		use := guard.PathUse{Raw: path, Path: path, Op: guard.Read}
		now, err := r.look(ctx, use)
		switch {
		case err == nil && now.same(opened(want)):
			err = r.dress(ctx, use, now, want)
		case err == nil && !now.same(want):
			why[at] = conflict.Changed
		}
		if err != nil {
			why[at] = whyOf(err)
		}
	}
}

// openMade gives the rights of open700 to directories that the call made with fewer, as package managers do: what is
// in them is removed before them. closeMade takes these rights from the directories that stay.
func (r restorer) openMade(ctx context.Context, p plan) {
	for _, i := range slices.Backward(p.Lines) { // the outermost first
		r.dressMade(ctx, r.of.Changes[i], r.of.Changes[i].After, opened(r.of.Changes[i].After))
	}
}

func (r restorer) closeMade(ctx context.Context, p plan) {
	for _, i := range p.Lines {
		r.dressMade(ctx, r.of.Changes[i], opened(r.of.Changes[i].After), r.of.Changes[i].After)
	}
}

func (r restorer) dressMade(ctx context.Context, c change, from, to state) {
	if c.Before.Type != nothing || c.After.Type != isDir || c.After.Mode&open700 == open700 {
		return
	}
	use := guard.PathUse{Raw: c.Path, Path: c.Path, Op: guard.Read}
	if now, err := r.look(ctx, use); err == nil && now.same(from) {
		_ = r.dress(ctx, use, now, to) // the undo reports what it then cannot remove
	}
}

// ours reports whether this undo left a path as it is now, before a crash: a directory that is not restored yet, or
// nothing if the undo had removed what was in the way.
func (r restorer) ours(ctx context.Context, path string, now state) bool {
	rec := recorderOf(ctx)
	if rec == nil || now.Type != isDir && now.Type != nothing {
		return false
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return slices.ContainsFunc(rec.lines, func(l *line) bool {
		return l.Path == path && !l.drop && l.After.Type == now.Type &&
			(now.Type == nothing || between(now, l.Before, l.After))
	})
}

// between reports whether a directory is halfway from state a to state b: each attribute and
// the mode are those of a or of b.
func between(now, a, b state) bool {
	if a.Type != isDir {
		return now.same(b)
	}
	isOf := func(s state, name string) bool { // whatever the mode is, for a change of that changes lists
		value, has := s.Extended[name]
		return has && sameValue(sandbox.WithMode(name, now.Extended[name], 0), sandbox.WithMode(name, value, 0))
	}
	for name := range now.Extended {
		if !isOf(a, name) && !isOf(b, name) {
			return false
		}
	}
	// A list brings the rights of b, and the set-group-id bit of a may go with it.
	return now.Mode&^(a.Mode|b.Mode|0o777) == 0 &&
		slices.Contains([]uint32{a.Mode & 0o777, a.Mode&0o777 | open700, b.Mode & 0o777}, now.Mode&0o777)
}

// lookUnopened returns the state of a file that could not be opened for the reason why. For a directory without
// rights and for a named pipe, the mode alone is the state.
func (r restorer) lookUnopened(ctx context.Context, use guard.PathUse, why error) (state, error) {
	if errors.Is(why, fs.ErrPermission) {
		why = nil
	}
	unread := state{Type: unreadable}
	// What lies above a workspace may be hidden, or a private /tmp. So it is opened as for a change of the
	// workspace.
	write := use
	write.Op = guard.Write
	above, err := r.box.Open(ctx, write, unix.O_NOFOLLOW)
	if err != nil {
		above, err = r.box.Open(ctx, guard.PathUse{Path: filepath.Dir(use.Path), Op: guard.Read}, unix.O_DIRECTORY)
	}
	if err != nil {
		return unread, why
	}
	defer above.Close()
	var st unix.Stat_t
	err = r.box.Do(use, func() error {
		return unix.Fstatat(int(above.Fd()), filepath.Base(use.Path), &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	kind := st.Mode & unix.S_IFMT
	if err != nil {
		return unread, why
	}
	if unread = unreadOf(st); kind != unix.S_IFIFO && (kind != unix.S_IFDIR || why != nil) {
		return unread, why
	}
	s := unread
	err = r.box.Do(use, func() (err error) {
		s, err = unopened(int(above.Fd()), filepath.Base(use.Path))
		return err
	})
	return s, err
}

// unopened returns the state of a named pipe, or of a directory that cannot be opened. above is an open directory or
// unix.AT_FDCWD.
func unopened(above int, name string) (state, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Openat2(above, name, &unix.OpenHow{
		Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return state{Type: unreadable}, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return state{Type: unreadable}, err
	}
	s := state{Type: isDir, Mode: st.Mode & dirMode}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFIFO:
		s = state{Type: isPipe, Mode: st.Mode & 0o777}
	default:
		return state{Type: unreadable}, unix.ENOTDIR
	}
	s.Extended, err = sandbox.ExtendedAt(fmt.Sprintf("/proc/self/fd/%d", at))
	return s, err
}
