package undo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo/conflict"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// Whatever calls did, undoing them from the last to the first brings back each tree that there
// was between, byte for byte, with modes, times and attributes; so does undoing the undos.
func TestEveryTreeComesBack(t *testing.T) {
	names := []string{"a", "b", "d/a", "d/e/b", "d/e/c", "x y/ü", "d2/f/g/h"}
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "undo")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		if root, err = filepath.EvalSymlinks(root); err != nil {
			t.Fatal(err)
		}
		w := openWorld(t, root, defaults())
		defer w.db.Close()
		trees := []map[string]state{w.tree()}
		var ids []string
		for i := range rapid.IntRange(1, 6).Draw(t, "calls") {
			id := fmt.Sprintf("call_%d", i)
			c := w.call(id, func(ctx context.Context, b sandbox.Box) error {
				for range rapid.IntRange(1, 4).Draw(t, "acts") {
					name := rapid.SampledFrom(names).Draw(t, "name")
					w.act(t, ctx, b, name)
				}
				return nil
			})
			if c.Changes.Total > 0 {
				ids, trees = append(ids, id), append(trees, w.tree())
			}
		}
		w.undoAll(ids, trees)
	})
}

// act does something to a file, or to the directory above it.
func (w *world) act(t *rapid.T, ctx context.Context, b sandbox.Box, name string) {
	use := w.use(name)
	switch rapid.SampledFrom([]string{"write", "write", "dress", "remove", "rmdir"}).Draw(t, "act") {
	case "write":
		content := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "content")
		w.must(sandbox.WriteFile(ctx, b, use, content, 0o600))
	case "dress":
		f, err := sandbox.Create(ctx, b, use, 0o644)
		w.must(err)
		a := sandbox.Attributes{
			Mode:     os.FileMode(rapid.SampledFrom([]int{0o600, 0o755, 0o444}).Draw(t, "mode")),
			Modified: time.Unix(rapid.Int64Range(0, 1<<31).Draw(t, "time"), 123_456_789),
		}
		if rapid.Bool().Draw(t, "attribute") {
			a.Extended = map[string][]byte{"user.note": []byte("\x00x")}
		}
		f.Give(a)
		w.must(f.Commit())
	case "remove":
		if _, err := os.Stat(use.Path); err == nil {
			w.must(sandbox.Remove(ctx, b, use))
		}
	case "rmdir":
		dir := w.use(filepath.Dir(name))
		if left, err := os.ReadDir(dir.Path); err == nil && len(left) == 0 && dir.Path != w.work {
			w.must(sandbox.Remove(ctx, b, dir))
		}
	}
}

func TestConflictsStayAsTheyAre(t *testing.T) {
	for _, tt := range []struct {
		name    string
		between func(w *world)
		want    string // content afterwards
		why     string // "": restored
	}{
		{"nothing happened", func(*world) {}, "one", ""},
		{"a person wrote", func(w *world) { w.person("f", "theirs") }, "theirs", "it changed since"},
		{"a person wrote the same", func(w *world) { w.person("f", "two") }, "one", ""},
		{"a person put the old content back", func(w *world) { w.person("f", "one") }, "one", ""},
		{"a person changed the mode", func(w *world) { w.must(os.Chmod(w.work+"/f", 0o600)) }, "two", "it changed since"},
		{
			"a person removed it", func(w *world) { w.must(os.Remove(w.work + "/f")) },
			"open WORK/f: no such file or directory", "it is gone",
		},
		{"another call wrote", func(w *world) { w.write("later", "f", "three") }, "three", "it changed since, by call later"},
		{"a person wrote behind another call", func(w *world) {
			w.write("later", "f", "three")
			w.person("f", "four")
		}, "four", "it changed since, by somebody else than calls"},
		{"a person wrote behind an undo of it", func(w *world) {
			w.undo("first", "call")
			w.person("f", "four")
		}, "four", "it changed since, by somebody else than calls"},
		{"another call, which was undone", func(w *world) {
			w.write("later", "f", "three")
			w.undo("undo later", "later")
		}, "one", ""},
		{"a link is there now", func(w *world) {
			w.must(os.Rename(w.work+"/f", w.work+"/g"))
			w.must(os.Symlink("g", w.work+"/f"))
		}, "two", "it changed since"},
		{"the directory became a link", func(w *world) {
			w.must(os.Rename(w.work, w.work+"2"))
			w.must(os.Symlink(w.work+"2", w.work))
		}, "two", "too many levels of symbolic links"},
		{"the store was altered", func(w *world) {
			for _, e := range must(os.ReadDir(w.root + "/undo/objects")) {
				w.must(os.WriteFile(w.root+"/undo/objects/"+e.Name(), []byte("ONE"), 0o600))
			}
		}, "two", "not what was kept"},
		{"the store lost it", func(w *world) {
			for _, e := range must(os.ReadDir(w.root + "/undo/objects")) {
				w.must(os.Remove(w.root + "/undo/objects/" + e.Name()))
			}
		}, "two", "the store has lost the content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.person("f", "one")
			w.write("call", "f", "two")
			tt.between(w)
			out := w.undo("undo", "call")
			if got := w.read("f"); got != strings.ReplaceAll(tt.want, "WORK", w.work) {
				t.Errorf("the file is %q, want %q", got, tt.want)
			}
			switch {
			case tt.why == "" && len(out.Conflicts) > 0, tt.why != "" && len(out.Conflicts) != 1:
				t.Errorf("conflicts %v, want %q", out.Conflicts, tt.why)
			case tt.why != "" && !strings.Contains(out.Conflicts[0].Why, tt.why):
				t.Errorf("got %q, want %q", out.Conflicts[0].Why, tt.why)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAPartOfACallIsUndone(t *testing.T) {
	w := newWorld(t)
	w.person("a", "1")
	w.person("b", "1")
	w.write("call", "a", "2", "b", "2", "d/c", "2", "d/e", "2")
	w.undo("u1", "call", "b", "d/c")
	if got := w.read("a") + w.read("b") + w.read("d/e"); got != "212" {
		t.Errorf("got %s", got)
	}
	if last, err := w.j.last(t.Context(), "a", "s"); err != nil || last != "call" {
		t.Errorf("the last call is %s, %v", last, err)
	}
	w.undo("u2", "call")
	if got := w.tree(); len(got) != 3 || w.read("a") != "1" {
		t.Errorf("got %v", got)
	}
	if _, err := w.j.last(t.Context(), "a", "s"); err == nil {
		t.Error("there is something to undo left")
	}
	w.undo("u3", "u2") // the call is not undone any more
	if last, err := w.j.last(t.Context(), "a", "s"); err != nil || last != "call" {
		t.Errorf("the last call is %s, %v", last, err)
	}
}

// TestACallThatRunsIsNotUndone: nobody knows yet what it changes.
func TestACallThatRunsIsNotUndone(t *testing.T) {
	w := newWorld(t)
	w.call("runs", func(ctx context.Context, b sandbox.Box) error {
		w.must(sandbox.WriteFile(ctx, b, w.use("f"), []byte("x"), 0o644))
		in := tool.In{Args: json.RawMessage(`{"call_id":"runs"}`), Account: "a", Session: "s", Dir: w.work}
		_, err := undo{w.j}.Uses(ctx, in)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "undo_running" {
			t.Errorf("got %v", err)
		}
		return nil
	})
}

// A file that a call made is removed by an undo, not restored; and who is told that something stays is told
// what to do.
func TestTheTextSaysWhatAnUndoDid(t *testing.T) {
	w := newWorld(t)
	w.person("old", "1")
	w.write("call", "old", "2", "new", "2", "kept", "2")
	w.write("later", "kept", "3")
	out := w.undo("undo", "call")
	want := "undid a part of call call (Write)\nremoved new\nrestored old\nleft kept: it changed since, by call later\n" +
		"What changed since the call stays. Undo the later call first, or let an operator use --force."
	if got := out.text("Write"); got != want {
		t.Errorf("got %s", got)
	}
	if !slices.Equal(out.Removed, []string{"new"}) || !slices.Equal(out.Restored, []string{"new", "old"}) {
		t.Errorf("restored %v, removed %v", out.Restored, out.Removed)
	}
}

// TestWhatACallMovedStaysWhereItsOldPlaceIsTaken: without it the content would lie nowhere.
func TestWhatACallMovedStaysWhereItsOldPlaceIsTaken(t *testing.T) {
	for _, tt := range []struct {
		name string
		take func(w *world)
		left string // the tree afterwards
	}{
		{"a file", func(w *world) { w.person("old", "new work") }, "new:text old:new work"},
		{"a directory", func(w *world) { w.must(os.Mkdir(filepath.Join(w.work, "old"), 0o755)) }, "new:text old:"},
		{"the same again", func(w *world) { w.person("old", "text") }, "old:text"},
		{"nothing", func(*world) {}, "old:text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.person("old", "text")
			w.call("call", func(ctx context.Context, b sandbox.Box) error {
				return errors.Join(sandbox.WriteFile(ctx, b, w.use("new"), []byte("text"), 0o644), sandbox.Remove(ctx, b, w.use("old")))
			})
			tt.take(w)
			w.undo("undo", "call")
			var left []string
			entries, err := os.ReadDir(w.work)
			w.must(err)
			for _, e := range entries {
				text, _ := os.ReadFile(filepath.Join(w.work, e.Name()))
				left = append(left, e.Name()+":"+string(text))
			}
			if got := strings.Join(left, " "); got != tt.left {
				t.Errorf("%q is left, want %q", got, tt.left)
			}
			if strings.HasPrefix(tt.left, "new:") {
				w.must(os.RemoveAll(filepath.Join(w.work, "old")))
				w.undo("again", "call")
				if got := w.read("old"); got != "text" {
					t.Errorf("then it is %q", got)
				}
				if _, err := os.Lstat(filepath.Join(w.work, "new")); err == nil {
					t.Error("the new place is left")
				}
			}
		})
	}
}

// TestWhatWasUndoneIsToldOnce: an undo of a call that another undo has undone does nothing, and says so. The other one
// can still be undone.
func TestWhatWasUndoneIsToldOnce(t *testing.T) {
	w := newWorld(t)
	w.person("old", "1")
	w.write("call", "old", "2", "new", "2")
	w.undo("undo", "call")
	out := w.undo("second", "call")
	if want := "nothing to do: call call (Write) was undone before"; out.text("Write") != want {
		t.Errorf("got %q, want %q", out.text("Write"), want)
	}
	if got := w.undo("back", "undo"); len(got.Conflicts) > 0 || w.read("old")+w.read("new") != "22" {
		t.Errorf("got %+v, %s, %s", got, w.read("old"), w.read("new"))
	}
}

// A file that a program has open for writing is left: what it writes would go to a file without a name. The rest is
// undone, and the file when the program has ended.
func TestAFileThatIsOpenForWritingStays(t *testing.T) {
	w := newWorld(t)
	w.person("db", "one")
	w.person("f", "one")
	w.command("call", func() {
		w.person("db", "two")
		w.person("f", "two")
		w.person("log", "two")
	})
	var held []*os.File
	for _, name := range []string{"db", "log"} {
		f, err := os.OpenFile(w.work+"/"+name, os.O_RDWR, 0)
		w.must(err)
		held = append(held, f)
	}
	reads, err := os.Open(w.work + "/f")
	w.must(err)
	defer reads.Close()
	out := w.undo("undo", "call")
	if len(out.Conflicts) != 2 || out.Conflicts[0].Why != conflict.InUse || w.read("db") != "two" || w.read("f") != "one" {
		t.Errorf("got %+v: %s", out, w.read("db"))
	}
	if text := out.text("Bash"); !strings.Contains(text, "End the programs") || strings.Contains(text, "later call") {
		t.Errorf("it says %s", text)
	}
	w.person("g", "one")
	refused := w.command("refused", func() { w.person("g", "two") })
	job, err := os.OpenFile(w.work+"/g", os.O_RDWR, 0)
	w.must(err)
	defer job.Close()
	if _, left, err := refused.Changes.Made.Undo(t.Context()); err != nil || len(left) > 0 || w.read("g") != "one" {
		t.Errorf("what was refused stays: %v, %v: %s", left, err, w.read("g"))
	}
	for _, f := range held {
		_, err := f.WriteString("!!")
		w.must(errors.Join(err, f.Close()))
	}
	if w.read("db") != "!!o" || w.read("log") != "!!o" {
		t.Errorf("what was written is lost: %s, %s", w.read("db"), w.read("log"))
	}
	w.person("db", "two")
	w.person("log", "two")
	if out := w.undo("again", "call"); len(out.Conflicts) > 0 || w.read("db") != "one" {
		t.Errorf("when nobody has it open: %+v: %s", out, w.read("db"))
	}
}

// What lies in a directory that a call made stays, and the directory with it.
func TestADirectoryWithFilesOfOthersStays(t *testing.T) {
	w := newWorld(t)
	w.write("call", "d/e/f", "1")
	w.person("d/theirs", "x")
	out := w.undo("undo", "call")
	if len(out.Conflicts) != 1 || out.Conflicts[0].Path != "d" || w.read("d/theirs") != "x" {
		t.Errorf("got %+v", out)
	}
	if got := w.tree(); len(got) != 3 {
		t.Errorf("left %v", got)
	}
}

func TestTheAnswerSaysWhatIsKept(t *testing.T) {
	w := newWorld(t)
	now := time.Date(2026, 11, 22, 9, 38, 31, 0, time.UTC)
	w.j.now = func() time.Time { return now }
	w.person("f", "one")
	c := w.write("call", "f", "three", "d/new", "")
	want := []tool.Change{
		{Path: "f", Kind: tool.ChangeModify, BytesBefore: 3, BytesAfter: 5},
		{Path: "d/", Kind: tool.ChangeCreate},
		{Path: "d/new", Kind: tool.ChangeCreate},
	}
	if u := c.Changes.Undo; !slices.Equal(c.Changes.List, want) || !u.Kept || !u.Until.Equal(now.AddDate(0, 0, 14)) {
		t.Errorf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	c = w.newCommand("elsewhere")
	c.Session.Dir = w.work + "/d"
	ctx := w.keep(t.Context(), c)
	w.must(errors.Join(os.Chmod(w.work+"/f", 0o600), os.Remove(w.work+"/d/new")))
	w.must(w.j.Collect(ctx, c))
	want = []tool.Change{ // a path outside of the directory of the session is absolute
		{Path: "new", Kind: tool.ChangeDelete},
		{Path: w.work + "/f", Kind: tool.ChangeModify, BytesBefore: 5, BytesAfter: 5, ModeBefore: "0644"},
	}
	if !slices.Equal(c.Changes.List, want) {
		t.Errorf("got %+v", c.Changes.List)
	}
	if c := w.write("same", "f", "three"); c.Changes.Total != 1 || c.Changes.List[0].Kind != tool.ChangeModify {
		t.Errorf("a write of the same content, which changes the time: %+v", c.Changes)
	}
	if c := w.call("nothing", func(context.Context, sandbox.Box) error { return nil }); c.Changes.Undo != nil {
		t.Errorf("a call that changes nothing: %+v", c.Changes)
	}
	failed, err := w.try("failed", func(ctx context.Context, b sandbox.Box) error {
		return errors.Join(sandbox.WriteFile(ctx, b, w.use("f"), nil, 0), errors.New("no"))
	})
	if err == nil || failed.Changes.Total != 1 {
		t.Errorf("a call that failed after it wrote: %+v", failed.Changes)
	}
	many := []string{}
	for i := range maxListed + 1 {
		many = append(many, fmt.Sprintf("m%04d", i), strings.Repeat("x", i))
	}
	c = w.write("many", many...)
	if len(c.Changes.List) != maxListed || c.Changes.Total != maxListed+1 || c.Changes.List[0].Path != "m1000" {
		t.Errorf("got %d of %d changes, the first is %v", len(c.Changes.List), c.Changes.Total, c.Changes.List[0])
	}
}

func TestManyPathsAreJudgedAsTrees(t *testing.T) {
	var paths []string
	for i := range 3000 {
		paths = append(paths, fmt.Sprintf("/w/d%d/f%d", i%7, i), fmt.Sprintf("/w/e%d/f", i%100))
	}
	paths = append(paths, "/w/alone", "/w/d1/deep/f")
	uses := usesOf(paths)
	if len(uses.Paths) > maxUses || !slices.ContainsFunc(uses.Paths, func(u guard.PathUse) bool { return u.Path == "/w/alone" }) {
		t.Errorf("%d uses: %v", len(uses.Paths), uses.Paths[:3])
	}
	for _, path := range paths {
		if !judged(uses, path) {
			t.Errorf("%s is not judged", path)
		}
	}
	for _, path := range []string{"/w/other", "/w", "/w/d77/f", "/v"} {
		if judged(uses, path) {
			t.Errorf("%s is judged", path)
		}
	}
	var flat []string
	for i := range 501 {
		flat = append(flat, fmt.Sprintf("/w/d/f%d", i))
	}
	if uses := usesOf(flat[:500]); len(uses.Paths) != 500 || uses.Paths[0].Recursive {
		t.Errorf("500 paths: %v", uses.Paths)
	}
	if uses := usesOf(flat); len(uses.Paths) != 1 || uses.Paths[0].Path != "/w/d" || !uses.Paths[0].Recursive {
		t.Errorf("501 paths: %v", uses.Paths)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{
		{"snapshots", 1, 1, 1, nil},
		{"", 1, 1, 1, nil},
		{"auto", 0, 1, 1, nil},
		{"auto", 1, 1, 2, nil},
		{"auto", 1, 1, 0, nil},
		{"auto", -1, 1, 1, nil},
	} {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if err := defaults().Check(); err != nil {
		t.Error(err)
	}
}

// Off keeps nothing, and says so.
func TestModeOff(t *testing.T) {
	c := defaults()
	c.Mode = "off"
	w := openWorld(t, physicalDir(t), c)
	defer w.db.Close()
	if got := w.write("call", "f", "x").Changes; got.Undo == nil || got.Undo.Kept || got.Undo.Why == "" {
		t.Errorf("got %+v", got.Undo)
	}
	if _, err := w.j.call(t.Context(), "call"); err == nil {
		t.Error("it is in the journal")
	}
}

// A file that cannot be read can be replaced, and the answer says that it is not kept.
func TestAFileThatCannotBeRead(t *testing.T) {
	needs.Root(t, "to be another user")
	w := newWorld(t)
	w.must(os.Chown(w.work, 12345, 12345))
	w.must(os.Chown(w.root, 12345, 12345))
	w.openAbove()
	w.person("f", "secret")
	w.must(os.Chmod(w.work+"/f", 0))
	w.user = sandbox.NewUser(12345, 12345, nil, "", "")
	c := w.write("call", "f", "new")
	if c.Changes.Undo.Kept || !strings.Contains(c.Changes.Undo.Why, "could not be read") {
		t.Errorf("got %+v", c.Changes.Undo)
	}
	if out := w.undo("undo", "call"); len(out.Conflicts) != 1 || w.read("f") != "new" {
		t.Errorf("got %+v", out)
	}
	if fd, err := unix.Open(w.root+"/undo/objects", unix.O_RDONLY, 0); err == nil {
		unix.Close(fd)
	}
	w.must(os.WriteFile(w.work+"/g", []byte("old"), 0o644))
	w.must(os.Chown(w.work+"/g", 12345, 12345))
	w.write("g", "g", "new")
	w.undo("undo g", "g")
	var st unix.Stat_t
	w.must(unix.Stat(w.work+"/g", &st))
	if st.Uid != 12345 || w.read("g") != "old" {
		t.Errorf("the file is of uid %d: %s", st.Uid, w.read("g"))
	}
}

// openAbove lets other users into the directories above the world.
func (w *world) openAbove() {
	for dir := w.root; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		w.must(os.Chmod(dir, 0o755))
	}
}

// growing makes the file longer whenever something of it is copied.
type growing struct{ *os.File }

func (g growing) Write(p []byte) (int, error) {
	if _, err := g.WriteString("more"); err != nil {
		return 0, err
	}
	return len(p), nil
}

// What an undo of many files has put back is marked for each of them, and so is what undoing that takes away.
func TestAllOfManyIsMarked(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	defer w.close()
	const files = maxMarked + 50
	for i := range files {
		w.person(fmt.Sprintf("f%d", i), "x")
	}
	c := w.command("gone", func() {
		for i := range files {
			w.must(os.Remove(fmt.Sprintf("%s/f%d", w.work, i)))
		}
	})
	marked := func(id string) (n int) {
		w.must(w.db.Read(t.Context(), func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM undo_changes WHERE call_id = $1 AND undone <> ''`, id).Scan(&n)
		}))
		return n
	}
	w.undo("back", c.ID)
	if n := marked(c.ID); n != files {
		t.Errorf("%d of %d are marked", n, files)
	}
	w.undo("again", "back")
	if gone, back := marked(c.ID), marked("back"); gone != 0 || back != files {
		t.Errorf("after the undo of the undo %d and %d are marked", gone, back)
	}
}

// cancellingBox cancels the call when its first file is opened.
type cancellingBox struct {
	makingBox
	cancel context.CancelFunc
}

func (b cancellingBox) Open(ctx context.Context, use guard.PathUse, flag int) (*os.File, error) {
	b.cancel()
	if err := ctx.Err(); err != nil { // as the box of a sandbox does
		return nil, err
	}
	return b.makingBox.Open(ctx, use, flag)
}

// Who cancels an undo that has begun gets all of it, in the workspace and in the journal.
func TestACancelledUndoIsDoneToItsEnd(t *testing.T) {
	w := newWorld(t)
	w.write("first", "a", "1", "b", "1", "c", "1")
	before := w.tree()
	w.write("second", "a", "2", "b", "2", "c", "2")
	in := tool.In{
		Args: json.RawMessage(`{"call_id":"second"}`), CallID: "back", Account: "a", Session: "s", Dir: w.work,
	}
	var out tool.Output
	w.call("back", func(ctx context.Context, _ sandbox.Box) (err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if in.Judged, err = (undo{w.j}).Uses(ctx, in); err != nil {
			return err
		}
		out, err = undo{w.j}.Run(ctx, in, cancellingBox{makingBox{bareBox{w.user}}, cancel})
		if ctx.Err() == nil {
			t.Error("nothing was cancelled")
		}
		return err
	})
	if got := out.Data.(undone); len(got.Restored) != 3 || len(got.Conflicts) > 0 || !sameTree(w.tree(), before) {
		t.Errorf("got %+v", got)
	}
	var marked int
	w.must(w.db.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM undo_changes WHERE call_id = 'second' AND undone = 'back'`).Scan(&marked)
	}))
	if marked != 3 {
		t.Errorf("the journal has %d of 3 files undone", marked)
	}
}

func TestADiffSaysThatAModeChanged(t *testing.T) {
	w := newWorld(t)
	w.write("made", "f", "one\n")
	w.write("changed", "f", "two\n")
	of, err := w.j.call(t.Context(), "changed")
	if err != nil {
		t.Fatal(err)
	}
	of.Changes[0].After.Mode = 0o755 // as after a command; a file tool keeps the mode
	got, err := w.j.diff(of, maxDiff)
	want := "diff f\nold mode 0644\nnew mode 0755\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n"
	if err != nil || got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

// A diff shows texts, and says of everything else why it is not shown (docs/undo.md).
func TestADiffSaysWhatItDoesNotShow(t *testing.T) {
	const unknown = "0000000000000000000000000000000000000000000000000000000000000000"
	for _, tt := range []struct {
		name   string
		change func(w *world, c *change)
		want   string
	}{
		{"another time", func(_ *world, c *change) { c.After = c.Before }, "[another time]\n"},
		{"a directory is gone", func(_ *world, c *change) {
			c.Before, c.After = state{Type: isDir}, state{}
		}, "deleted directory\n"},
		{"a directory is new", func(_ *world, c *change) {
			c.Before, c.After = state{}, state{Type: isDir}
		}, "new directory\n"},
		{"a pipe", func(_ *world, c *change) {
			c.Before, c.After = state{}, state{Type: isPipe}
		}, "[a named pipe: 0 bytes before, 0 after]\n"},
		{"what could not be read", func(_ *world, c *change) {
			c.After.Type, c.After.Size = unreadable, 5
		}, "[not readable: 4 bytes before, 5 after]\n"},
		{"more than 1 MiB", func(_ *world, c *change) {
			c.After.Size = 1<<20 + 1
		}, "[too large to be shown: 4 bytes before, 1048577 after]\n"},
		{"a size that the file has no more", func(_ *world, c *change) {
			c.After.Sum, c.After.Size = unknown, 9
		}, "[what it became is not known any more: 4 bytes before, 9 after]\n"},
		{"a person wrote as many bytes since", func(w *world, _ *change) {
			w.person("f", "six\n")
		}, "[what it became is not known any more: 4 bytes before, 4 after]\n"},
		{"no text", func(w *world, c *change) {
			w.write("binary", "f", "a\x00b")
			w.write("text", "f", "two\n")
			of, err := w.j.call(context.Background(), "text")
			w.must(err)
			c.Before = of.Changes[0].Before
		}, "[not a text: 3 bytes before, 4 after]\n"},
		{"a file is new", func(_ *world, c *change) {
			c.Before = state{}
		}, "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+two\n"},
		{"a file is gone", func(_ *world, c *change) {
			c.After = state{}
		}, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"},
	} {
		w := newWorld(t)
		w.write("made", "f", "one\n")
		w.write("changed", "f", "two\n")
		of, err := w.j.call(t.Context(), "changed")
		if err != nil {
			t.Fatal(err)
		}
		tt.change(w, &of.Changes[0])
		got, err := w.j.diff(of, maxDiff)
		if want := "diff f\n" + tt.want; err != nil || got != want {
			t.Errorf("%s: got %q (%v), want %q", tt.name, got, err, want)
		}
		of.Changes = append(of.Changes, of.Changes[0])
		first := len(got)
		got, err = w.j.diff(of, first)
		if want := "[1 more files are not shown]\n"; err != nil || got[first:] != want {
			t.Errorf("%s, twice, in the room for one: got %q (%v)", tt.name, got, err)
		}
	}
}

// Of a chain of undos each second one holds, and what it undid is undone.
func TestAChainOfUndos(t *testing.T) {
	w := newWorld(t)
	w.person("f", "one")
	w.command("u0", func() { w.person("f", "two") })
	for i := 1; i < 6; i++ {
		w.undo(fmt.Sprint("u", i), fmt.Sprint("u", i-1))
		want := "one"
		if i%2 == 0 {
			want = "two"
		}
		if got := w.read("f"); got != want {
			t.Errorf("after %d undos: %q, want %q", i, got, want)
		}
		for k := 0; k <= i; k++ {
			of, err := w.j.call(t.Context(), fmt.Sprint("u", k))
			w.must(err)
			// The last holds, the one that it undid does not, and so on.
			undone := of.Changes[0].Undone
			if holds := (i-k)%2 == 0; holds != (undone == "") {
				t.Errorf("after %d undos u%d is undone by %q", i, k, undone)
			}
		}
	}
}

// A model reads of an undo of many files a part, and how many there are.
func TestATextOfManyPaths(t *testing.T) {
	var u undone
	for i := range maxSaid + 7 {
		u.Restored = append(u.Restored, fmt.Sprint("r", i))
		u.Conflicts = append(u.Conflicts, conflict.Entry{Path: fmt.Sprint("c", i), Why: conflict.Changed})
	}
	text := u.text("Bash")
	last := fmt.Sprintf("\nrestored r%d\nand 7 more\nleft c0: ", maxSaid-1)
	if !strings.Contains(text, last) || !strings.Contains(text, "\nand left 7 more\n") ||
		strings.Count(text, "\n") != 2*maxSaid+3 {
		t.Errorf("%s", text)
	}
}

// The doctor names what an operator gave up.
func TestTheDoctorSaysThatNothingCanBeUndone(t *testing.T) {
	c := defaults()
	if found := doctor(t.Context(), c); found != nil {
		t.Errorf("auto: %+v", found)
	}
	c.Mode = "off"
	found := doctor(t.Context(), c)
	if len(found) != 1 || found[0].OK || !strings.Contains(found[0].Why, "rules about changes") {
		t.Errorf("off: %+v", found)
	}
}

// What the sandbox refuses by its code is told as package conflict knows it, so that whoever shows it finds what helps.
func TestAProtectedPathIsTold(t *testing.T) {
	for code, want := range map[string]bool{"path_protected": true, "path_denied": false} {
		err := fmt.Errorf("open it: %w", &guard.Denied{
			Value: "/w/.envrc", Refusals: []guard.Refusal{{Code: code, Message: "worded anew"}},
		})
		e := conflict.Entry{Path: ".envrc", Why: whyOf(err)}
		if e.IsProtected() != want || e.IsLater() || !want && e.Why != err.Error() {
			t.Errorf("%s: got %q", code, e.Why)
		}
	}
}
