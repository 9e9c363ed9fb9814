package undo

import (
	"context"
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/needs"
)

const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// acl is a list of access rights that lets the user 12345 in: version 2, then a tag, rights and an id each.
func acl(owner, other uint16) []byte {
	const none = 1<<32 - 1
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, rights uint16
		id          uint32
	}{{1, owner, none}, {2, 6, 12345}, {4, 4, none}, {16, 6, none}, {32, other, none}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.rights)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

func (w *world) needsACL(t *testing.T) {
	w.t.Helper()
	w.person("probe", "")
	if err := unix.Setxattr(w.work+"/probe", aclAccess, acl(6, 0), 0); err != nil {
		needs.Missing(t, "the file system keeps no lists of access rights: %v", err)
	}
	w.must(os.Remove(w.work + "/probe"))
}

func (w *world) access(name string) map[string][]byte {
	w.t.Helper()
	f := must(bareBox{sandbox.Daemon()}.open(w.work+"/"+name, 0))
	defer f.Close()
	return must(sandbox.Extended(int(f.Fd())))
}

// TestAccessRightsComeBack: lists of access rights of files and directories, also of those that give their owner less
// than an undo needs; and what a directory gives to new files is not given to those that come back.
func TestAccessRightsComeBack(t *testing.T) {
	w := newWorld(t)
	w.needsACL(t)
	w.j.setConfig(*defaults())
	set := func(name, attribute string, list []byte) { w.must(unix.Setxattr(w.work+"/"+name, attribute, list, 0)) }
	w.must(os.MkdirAll(w.work+"/shared/sub", 0o755))
	w.must(os.Mkdir(w.work+"/closed", 0o755))
	for _, name := range []string{"plain", "own", "shared/plain", "shared/sub/own", "closed/f"} {
		w.person(name, name)
	}
	set("own", aclAccess, acl(6, 0))
	set("shared/sub/own", aclAccess, acl(4, 4))
	set("shared/sub", aclAccess, acl(7, 5))
	set("shared", aclDefault, acl(7, 0))
	set("closed", aclAccess, acl(5, 0))
	before := w.tree()
	if len(w.access("own")) != 1 || len(w.access("shared/plain")) != 0 || len(w.access("closed")) != 1 {
		t.Fatalf("the file system keeps something else: %v, %v", w.access("own"), w.access("shared/plain"))
	}
	w.command("remove", func() {
		w.must(os.Chmod(w.work+"/closed", 0o700))
		for _, name := range []string{"own", "plain", "shared", "closed"} {
			w.must(os.RemoveAll(w.work + "/" + name))
		}
	})
	after := w.tree()
	w.undo("undo", "remove")
	if got := w.tree(); !sameTree(got, before) {
		t.Errorf("the tree is\n%v, was\n%v", got, before)
	}
	w.undo("again", "undo")
	if got := w.tree(); !sameTree(got, after) {
		t.Errorf("the undone undo leaves %v, want %v", got, after)
	}
	w.undo("back", "again")
	w.command("change", func() {
		set("own", aclAccess, acl(7, 7))
		w.must(unix.Removexattr(w.work+"/shared", aclDefault))
		w.must(unix.Removexattr(w.work+"/shared/sub", aclAccess))
		set("plain", aclAccess, acl(7, 7))
	})
	w.undo("undo change", "change")
	if got := w.tree(); !sameTree(got, before) {
		t.Errorf("after the change the tree is\n%v, was\n%v", got, before)
	}
}

// TestAFileToolKeepsAccessRights: what replaces a file has its list, and gets none from the directory.
func TestAFileToolKeepsAccessRights(t *testing.T) {
	w := newWorld(t)
	w.needsACL(t)
	w.person("own", "1")
	w.person("plain", "1")
	w.must(unix.Setxattr(w.work+"/own", aclAccess, acl(6, 0), 0))
	w.must(unix.Setxattr(w.work+"/own", "user.note", []byte("x"), 0))
	w.must(unix.Setxattr(w.work, aclDefault, acl(7, 7), 0))
	before := w.tree()
	w.call("write", func(ctx context.Context, b sandbox.Box) error {
		for _, name := range []string{"own", "plain"} {
			if err := sandbox.WriteFile(ctx, b, w.use(name), []byte("2"), 0o600); err != nil {
				return err
			}
		}
		return nil
	})
	for _, name := range []string{"own", "plain"} {
		now, was := w.tree()[name], before[name]
		if now.Sum == was.Sum || now.Mode != was.Mode || len(now.Extended) != len(was.Extended) ||
			string(now.Extended[aclAccess]) != string(was.Extended[aclAccess]) {
			t.Errorf("%s is %+v, was %+v", name, now, was)
		}
	}
	w.undo("undo", "write")
	if got := w.tree(); !sameTree(got, before) {
		t.Errorf("the tree is\n%v, was\n%v", got, before)
	}
}

// TestTheWorkspaceItselfComesBack: its mode, its attributes and what directories give to new files; also where the command
// has shut its owner out.
func TestTheWorkspaceItselfComesBack(t *testing.T) {
	for _, mode := range []os.FileMode{0o711, 0o500, 0} {
		w := newWorld(t)
		w.needsACL(t)
		w.j.setConfig(*defaults())
		w.person("f", "1")
		w.must(os.Chmod(w.work, 0o750|os.ModeSetgid))
		w.must(unix.Setxattr(w.work, "user.note", []byte("x"), 0))
		before, top := w.tree(), must(os.Stat(w.work)).Mode()
		c := w.command("call", func() {
			w.person("f", "2")
			w.must(unix.Setxattr(w.work, aclDefault, acl(7, 7), 0))
			w.must(unix.Removexattr(w.work, "user.note"))
			w.must(os.Chmod(w.work, mode))
		})
		if c.Changes.Total != 2 || !c.Changes.Undo.Kept {
			t.Errorf("%v: got %+v, %+v", mode, c.Changes.List, c.Changes.Undo)
		}
		w.undo("undo", "call")
		rights := w.access("")
		if now := must(os.Stat(w.work)).Mode(); now != top || string(rights["user.note"]) != "x" || len(rights) != 1 {
			t.Errorf("%v: the workspace is %v with %v, was %v", mode, now, rights, top)
		}
		if got := w.tree(); !sameTree(got, before) {
			t.Errorf("%v: the tree is\n%v, was\n%v", mode, got, before)
		}
	}
}

// TestTheListOfANamedPipeComesBack: without it the group of the file would have the rights that the mask gave to others.
func TestTheListOfANamedPipeComesBack(t *testing.T) {
	w := newWorld(t)
	w.needsACL(t)
	w.j.setConfig(*defaults())
	pipes := []string{w.work + "/removed", w.work + "/changed", w.work + "/by a tool"}
	for _, path := range pipes {
		w.must(unix.Mkfifo(path, 0o640))
		w.must(unix.Setxattr(path, aclAccess, acl(6, 0), 0))
	}
	c := w.command("call", func() {
		w.must(os.Remove(pipes[0]))
		w.must(unix.Removexattr(pipes[1], aclAccess))
	})
	if c.Changes.Total != 2 {
		t.Errorf("got %+v", c.Changes.List)
	}
	w.call("tool", func(ctx context.Context, b sandbox.Box) error { return sandbox.Remove(ctx, b, w.use("by a tool")) })
	w.undo("undo tool", "tool")
	w.undo("undo", "call")
	for _, path := range pipes {
		if got, err := sandbox.ExtendedAt(path); err != nil || string(got[aclAccess]) != string(acl(6, 0)) {
			t.Errorf("%s has %v, %v", path, got, err)
		}
	}
}
