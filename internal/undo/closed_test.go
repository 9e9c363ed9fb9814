package undo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// ofUser is a world whose files and calls are those of a user who is not root.
func ofUser(t *testing.T) (w *world, as func(func() error)) {
	needs.Root(t, "to be another user")
	w = openWorld(t, physicalDir(t), defaults())
	t.Cleanup(func() { w.close() })
	w.needsACL(t)
	w.openAbove()
	w.must(os.Chown(w.work, 12345, 12345))
	w.user = userNumber(12345)
	return w, func(f func() error) { t.Helper(); w.must(w.user.Do(f)) }
}

func write(path string) error { return os.WriteFile(path, []byte("x"), 0o644) }

func list(path, attribute string, value []byte) error {
	return unix.Setxattr(path, attribute, value, 0)
}

// TestWhatTheOwnerIsShutOutOfComesBack: a command changes files, and then denies its own user the directory. What the
// user cannot read any more is neither a change by others nor lost.
func TestWhatTheOwnerIsShutOutOfComesBack(t *testing.T) {
	for _, name := range []string{"d", "."} {
		for _, mode := range []os.FileMode{0, 0o100, 0o500} {
			w, as := ofUser(t)
			d := w.work + "/" + name
			as(func() error {
				return errors.Join(os.MkdirAll(d, 0o755), write(d+"/f"), write(d+"/gone"), list(d, "user.a", []byte("x")),
					list(d, aclAccess, acl(7, 5)), list(d, aclDefault, acl(7, 5)))
			})
			before := w.tree()
			c := w.command("call", func() {
				as(func() error {
					return errors.Join(os.Mkdir(d+"/made", 0o755), write(d+"/made/f"), write(d+"/new"), os.Remove(d+"/gone"),
						os.WriteFile(d+"/f", nil, 0), list(d, "user.b", []byte("y")), os.Chmod(d, mode))
				})
			})
			if !c.Changes.Undo.Kept {
				t.Errorf("%s, %v: got %+v", name, mode, c.Changes.Undo)
			}
			after := w.tree()
			if out := w.undo("undo", "call"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
				t.Errorf("%s, %v: got %+v and %v, want %v", name, mode, out, w.tree(), before)
			}
			if out := w.undo("again", "undo"); len(out.Conflicts) > 0 || !sameTree(w.tree(), after) {
				t.Errorf("%s, %v, again: got %+v and %v, want %v", name, mode, out, w.tree(), after)
			}
			if out := w.undo("back", "again"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
				t.Errorf("%s, %v, back: got %+v and %v, want %v", name, mode, out, w.tree(), before)
			}
		}
	}
}

// TestWhatWasClosedBeforeIsNotNew: a command opens a directory in which nobody could look before. What is in it then
// is not removed, and the answer says that nothing is known of it. The directory keeps its attributes.
func TestWhatWasClosedBeforeIsNotNew(t *testing.T) {
	w, as := ofUser(t)
	d := w.work + "/d"
	as(func() error {
		return errors.Join(os.Mkdir(d, 0o755), write(d+"/f"), write(d+"/lost"), list(d, "user.a", []byte("x")),
			list(d, aclDefault, acl(7, 5)), os.Chmod(d, 0))
	})
	before := w.tree()
	c := w.command("call", func() { as(func() error { return errors.Join(os.Chmod(d, 0o755), os.Remove(d+"/lost")) }) })
	if c.Changes.Undo.Kept || !strings.Contains(c.Changes.Undo.Why, d+" could not be") {
		t.Errorf("got %+v", c.Changes.Undo)
	}
	out := w.undo("undo", "call")
	delete(before, "d/lost")
	if len(out.Removed) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v and %v, want %v", out, w.tree(), before)
	}
}

// TestAttributesOfWhatMayNotBeWritten: where a list denies its owner to write, the other attributes come back too.
func TestAttributesOfWhatMayNotBeWritten(t *testing.T) {
	w, as := ofUser(t)
	f := w.work + "/f"
	as(func() error {
		err := errors.Join(write(f), os.Mkdir(w.work+"/d", 0o755))
		for i := range 5 {
			err = errors.Join(err, list(f, fmt.Sprintf("user.%d", i), []byte("x")),
				list(w.work+"/d", fmt.Sprintf("user.%d", i), []byte("x")))
		}
		return errors.Join(err, list(f, aclAccess, acl(4, 4)), list(w.work+"/d", aclAccess, acl(5, 0)))
	})
	before := w.tree()
	w.command("call", func() { as(func() error { return errors.Join(os.Remove(f), os.Remove(w.work+"/d")) }) })
	if out := w.undo("undo", "call"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v and %v, want %v", out, w.tree(), before)
	}
}

// TestTheTimeZeroComesBack: archives that are the same each time they are made have files of 1970.
func TestTheTimeZeroComesBack(t *testing.T) {
	w := newWorld(t)
	w.person("f", "one")
	w.must(os.Chtimes(w.work+"/f", time.Unix(0, 0), time.Unix(0, 0)))
	before := w.tree()
	w.command("call", func() { w.must(os.Remove(w.work + "/f")) })
	if w.undo("undo", "call"); !sameTree(w.tree(), before) {
		t.Errorf("got %v, want %v", w.tree(), before)
	}
}

// TestAPartComesBackInItsDirectories: who takes one file back gets no directory that others may read now.
func TestAPartComesBackInItsDirectories(t *testing.T) {
	w := newWorld(t)
	w.must(os.MkdirAll(w.work+"/d/private", 0o700))
	w.person("d/private/f", "one")
	w.person("d/g", "one")
	before := w.tree()
	w.command("call", func() { w.must(os.RemoveAll(w.work + "/d")) })
	w.undo("part", "call", "d/private/f")
	got := w.tree()
	if _, more := got["d/g"]; more || !got["d/private"].same(before["d/private"]) || w.read("d/private/f") != "one" {
		t.Errorf("got %v, want a part of %v", got, before)
	}
	if out := w.undo("rest", "call"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v and %v, want %v", out, w.tree(), before)
	}
}

// TestACrashAfterADirectoryWasClosed: an undo that has closed a directory, and was killed before it ended, ends.
func TestACrashAfterADirectoryWasClosed(t *testing.T) {
	w, as := ofUser(t)
	d := w.work + "/d"
	as(func() error { return errors.Join(os.Mkdir(d, 0o755), write(d+"/f"), list(d, "user.a", []byte("x"))) })
	before := w.tree()
	w.command("call", func() {
		as(func() error { return errors.Join(os.WriteFile(d+"/f", nil, 0), write(d+"/g"), os.Chmod(d, 0)) })
	})
	after := w.tree()
	w.undo("undo", "call")
	of := must(w.j.call(t.Context(), "undo"))
	p := must(planOf(of, nil, false))
	c := newTestCall(w, "again")
	c.Spec = undo{}.Spec()
	r := &recorder{j: w.j, call: c, config: w.j.settings(), at: w.j.now(), undoes: of.ID, plan: encode(p)}
	ctx := sandbox.WithKeeper(context.WithValue(t.Context(), recorderKey{}, r), r)
	out := must(restorer{j: w.j, box: bareBox{w.user}, by: c.ID, of: of}.restore(ctx, p)) // and nothing is settled
	if len(out.Conflicts) > 0 || !sameTree(w.tree(), after) {
		t.Errorf("got %+v and %v, want %v", out, w.tree(), after)
	}
	w.must(w.db.Close())
	next := openWorld(t, w.root, defaults())
	w.j, w.db = next.j, next.db
	if got := w.tree(); !must(w.j.call(t.Context(), "again")).Settled || !sameTree(got, after) {
		t.Errorf("got %v, want %v", got, after)
	}
	if out := w.undo("back", "again"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v and %v, want %v", out, w.tree(), before)
	}
}

// TestADirectoryHalfway: an undo that was killed while it gave a directory its list and its mode goes on.
func TestADirectoryHalfway(t *testing.T) {
	w := newWorld(t)
	w.needsACL(t)
	d := w.work + "/d"
	w.must(os.Mkdir(d, 0o755))
	look := func() state {
		return must(restorer{box: bareBox{w.user}}.look(t.Context(), guard.PathUse{Path: d, Op: guard.Read}))
	}
	w.must(errors.Join(list(d, aclAccess, acl(5, 0)), list(d, "user.a", []byte("x"))))
	a := look()
	w.must(errors.Join(list(d, aclAccess, acl(4, 4)), unix.Removexattr(d, "user.a"), unix.Chmod(d, 0o2540)))
	b := look()
	w.must(errors.Join(list(d, aclAccess, acl(5, 0)), list(d, "user.a", []byte("x")), unix.Chmod(d, 0o550)))
	for step, f := range []func() error{
		func() error { return unix.Chmod(d, a.Mode|open700) },
		func() error { return unix.Removexattr(d, "user.a") },
		func() error { return list(d, aclAccess, b.Extended[aclAccess]) },
		func() error { return unix.Chmod(d, b.Mode) },
	} {
		if w.must(f()); !between(look(), a, b) {
			t.Errorf("%d: %+v is not between %+v and %+v", step, look(), a, b)
		}
	}
	w.must(list(d, aclAccess, acl(6, 6)))
	w.must(list(d, aclDefault, acl(6, 6)))
	if between(look(), a, b) {
		t.Errorf("%+v is between %+v and %+v", look(), a, b)
	}
}

// workspaceBox shows nothing outside of a workspace, as the box of a sandbox does.
type workspaceBox struct {
	bareBox
	work string
}

func (b workspaceBox) Open(ctx context.Context, use guard.PathUse, flag int) (*os.File, error) {
	if !guard.Within(use.Path, b.work) {
		return nil, &guard.Denied{Type: "path", Value: use.Path}
	}
	return b.bareBox.Open(ctx, use, flag)
}

// TestAClosedWorkspaceIsSeen: what is above a workspace is hidden, and the workspace is a directory all the same.
func TestAClosedWorkspaceIsSeen(t *testing.T) {
	w, as := ofUser(t)
	as(func() error { return os.Chmod(w.work, 0) })
	x := restorer{box: workspaceBox{bareBox{w.user}, w.work}}
	if s, err := x.look(t.Context(), guard.PathUse{Path: w.work, Op: guard.Read}); err != nil || s.Type != isDir {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestReadOnlyDirectoriesThatACallMade go with what is in them, as those of a module cache; one in which a person has put
// something stays as it was.
func TestReadOnlyDirectoriesThatACallMade(t *testing.T) {
	for _, theirs := range []bool{false, true} {
		w, as := ofUser(t)
		c := w.command("call", func() {
			as(func() error {
				return errors.Join(os.MkdirAll(w.work+"/mod/v1/sub", 0o755), write(w.work+"/mod/v1/f"),
					write(w.work+"/mod/v1/sub/f"), os.Chmod(w.work+"/mod/v1/sub", 0o555), os.Chmod(w.work+"/mod/v1", 0o555))
			})
		})
		if !c.Changes.Undo.Kept {
			t.Errorf("got %+v", c.Changes.Undo)
		}
		after := w.tree()
		if theirs {
			w.must(os.WriteFile(w.work+"/mod/v1/theirs", nil, 0o644))
		}
		out := w.undo("undo", "call")
		if left := len(w.tree()); theirs && left != 4 || !theirs && (left != 1 || len(out.Conflicts) > 0) {
			t.Errorf("got %+v and %v", out, w.tree())
		}
		if theirs {
			if now := w.tree()["mod/v1"]; now.Mode != 0o555 {
				t.Errorf("the directory that stays is %+v", now)
			}
			continue
		}
		if w.undo("again", "undo"); !sameTree(w.tree(), after) {
			t.Errorf("the undone undo leaves %v, want %v", w.tree(), after)
		}
	}
}

// TestWhatComesBackBelowAListThatDeniesItsOwner: what is new in the directory is closed to its owner, until it has its
// own rights.
func TestWhatComesBackBelowAListThatDeniesItsOwner(t *testing.T) {
	w, as := ofUser(t)
	deny := acl(0, 5)
	d := w.work + "/d"
	as(func() error {
		return errors.Join(os.MkdirAll(d+"/sub/deep", 0o755), write(d+"/sub/deep/f"), write(d+"/f"),
			unix.Mkfifo(d+"/sub/pipe", 0o640), os.Symlink("f", d+"/sub/link"), list(d, aclDefault, deny))
	})
	before := w.tree()
	w.command("call", func() {
		as(func() error { return errors.Join(os.RemoveAll(d+"/sub"), os.Remove(d+"/f")) })
	})
	if out := w.undo("undo", "call"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v and %v, want %v", out, w.tree(), before)
	}
}

// TestAFileThatIsOnlyWritten: its owner may not read it. A change is told, although it is not kept; one that the command
// has made goes with its undo.
func TestAFileThatIsOnlyWritten(t *testing.T) {
	w, as := ofUser(t)
	f := w.work + "/f"
	as(func() error { return errors.Join(write(f), os.Chmod(f, 0o200)) })
	w.command("first", func() {})
	c := w.command("call", func() { as(func() error { return os.WriteFile(f, []byte("another"), 0) }) })
	if c.Changes.Total != 1 || c.Changes.Undo.Kept || !strings.Contains(c.Changes.Undo.Why, f) {
		t.Errorf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	before := w.tree()
	c = w.command("made", func() { as(func() error { return errors.Join(write(w.work+"/g"), os.Chmod(w.work+"/g", 0)) }) })
	if out := w.undo("undo", "made"); !c.Changes.Undo.Kept || len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v, %+v: %v", c.Changes.Undo, out, w.tree())
	}
}
