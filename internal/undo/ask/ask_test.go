package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo/conflict"
)

// answers gives each request its answer, and notes it.
type answers struct {
	bodies map[string]any // by the begin of the path
	asked  []string
}

func (d *answers) Do(_ context.Context, method, path string, in, out any) error {
	text, _ := json.Marshal(in)
	d.asked = append(d.asked, fmt.Sprintf("%s %s %s", method, path, text))
	for begin, body := range d.bodies {
		if strings.HasPrefix(path, begin) {
			if err, failed := body.(error); failed {
				return err
			}
			raw, _ := json.Marshal(body)
			return json.Unmarshal(raw, out)
		}
	}
	return errors.New("not asked for: " + path)
}

func TestUndoableReadsEveryPage(t *testing.T) {
	page := make([]Changed, 100)
	for i := range page {
		page[i] = Changed{CallID: fmt.Sprint("call_", i), UndoneBy: "call_x"}
	}
	d := &answers{bodies: map[string]any{
		"/sessions/s1/changes?limit=100&offset=0":   page,
		"/sessions/s1/changes?limit=100&offset=100": []Changed{{CallID: "call_old"}},
	}}
	ids, err := Undo{Daemon: d}.Undoable(t.Context(), "s1", 0)
	if err != nil || len(ids) != 1 || ids[0] != "call_old" || len(d.asked) != 2 {
		t.Errorf("got %q after %q, %v", ids, d.asked, err)
	}
	d.bodies = map[string]any{"/sessions/": []Changed{
		{CallID: "call_4"}, {CallID: "call_3", Undoes: "call_0"}, {CallID: "call_2"}, {CallID: "call_1"},
	}}
	ids, err = Undo{Daemon: d}.Undoable(t.Context(), "s1", 2)
	if err != nil || strings.Join(ids, " ") != "call_4 call_2" {
		t.Errorf("the last two, without undos: got %q, %v", ids, err)
	}
	d.bodies = map[string]any{"/sessions/": []Changed{{CallID: "call_1", UndoneBy: "call_2"}}}
	_, err = Undo{Daemon: d, Flag: " --exec"}.Undoable(t.Context(), "s1", 1)
	var said *tool.Error
	if !errors.As(err, &said) || !strings.Contains(said.Hint, "sandboxd changes --exec lists") {
		t.Errorf("nothing to undo: %v", err)
	}
}

// A list has the newest hundred calls.
func TestAListAsksForAHundred(t *testing.T) {
	d := &answers{bodies: map[string]any{"/": []Changed{}}}
	_, one := OfSession(t.Context(), d, "s/1")
	_, two := OfPath(t.Context(), d, "/w/a b")
	want := "GET /sessions/s%2F1/changes?limit=100 null, GET /changes?limit=100&path=%2Fw%2Fa+b null"
	if got := strings.Join(d.asked, ", "); one != nil || two != nil || got != want {
		t.Errorf("asked %s, want %s; %v, %v", got, want, one, two)
	}
}

func TestAllEndsWithTheFirstErrorAndSaysWhatWasLeft(t *testing.T) {
	refused := &tool.Error{Code: "denied", Msg: "no"}
	for _, tt := range []struct {
		name   string
		second any
		show   error
		left   bool
		want   error
		asked  int
	}{
		{"all", Answer{}, nil, true, nil, 2},
		{"the daemon is gone", errors.ErrUnsupported, nil, true, errors.ErrUnsupported, 2},
		{"the second is refused", Answer{Error: refused}, nil, true, refused, 2},
		{"nothing can be shown", Answer{}, os.ErrClosed, false, os.ErrClosed, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := json.RawMessage(`{"conflicts": [{"path": "a", "why": "b"}]}`)
			d := &answers{bodies: map[string]any{"/calls/call_1/": first, "/calls/call_2/": tt.second}}
			u := Undo{Daemon: d, Force: true}
			left, err := u.All(t.Context(), []string{"call_1", "call_2"}, func(Answer) error { return tt.show })
			if err == nil && tt.want != nil || err != nil && err.Error() != fmt.Sprint(tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if left != tt.left || len(d.asked) != tt.asked {
				t.Errorf("left %v after %q", left, d.asked)
			}
			if d.asked[0] != `POST /calls/call_1/undo {"force":true}` {
				t.Errorf("asked %s", d.asked[0])
			}
		})
	}
}

func TestPhysicalFollowsLinksAboveTheFileAlone(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "real/deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"link": "real", "real/file": "elsewhere", "broken": "gone/dir", "real/deep/up": "../gone", "far": dir + "/gone",
		"two": "broken", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, path, want string }{
		{"a link above", "link/file", "real/file"},
		{"the directory is gone", "link/old/file", "real/old/file"},
		{"all above it is gone", "link/old/older/file", "real/old/older/file"},
		{"what a link leads to is gone", "broken/file", "gone/dir/file"},
		{"and it leads there by its own directory", "link/deep/up/x/file", "real/gone/x/file"},
		{"and by an absolute path", "far/file", "gone/file"},
		{"a link leads to such a link", "two/file", "gone/dir/file"},
		{"a link leads to itself", "loop/file", "loop/file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Physical(filepath.Join(dir, tt.path))
			if want := filepath.Join(dir, tt.want); err != nil || got != want {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		})
	}
}

func TestChangesAreATable(t *testing.T) {
	var b strings.Builder
	four := []tool.Change{{Path: "a", Kind: "modify"}, {Path: "b", Kind: "modify"}, {Path: "c", Kind: "modify"}, {Path: "d"}}
	err := PrintChanges(&b, []Changed{
		{CallID: "call_1", Tool: "Write", Changes: four[:1], Total: 1, Undo: tool.Undo{Kept: true}},
		{CallID: "call_2", Tool: "Bash", Changes: four, Total: 4},
		{CallID: "call_3", Tool: "Edit", UndoneBy: "call_4"},
	})
	lines := strings.Split(b.String(), "\n")
	if err != nil || len(lines) != 5 {
		t.Fatalf("got %q, %v", lines, err)
	}
	for i, want := range []string{"", "  kept          modify a", "  not all kept  modify a, modify b, modify c, and 1 more", "  undone"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("got %q, want %q in it", lines[i], want)
		}
	}
}

// TestPrintSaysWhatToDo: who is told that something was left is told what helps, and nobody that an undo was made where
// there was nothing to do.
func TestPrintSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct{ why, want string }{
		{conflict.Changed + conflict.ByCall + "call_2", "undo the later call first, or use --force (operator)"},
		{conflict.Changed + conflict.ByOthers, "--force (operator) puts the old content back"},
		{conflict.Gone, "--force (operator) puts the old content back"},
		{conflict.Holds + "a" + conflict.Taken, "move what lies in the old places away, and undo the call again"},
		{conflict.InUse, "end the programs that write these files, and undo the call again"},
		{"path 'f' " + conflict.Protected, "comes back by the operator socket alone"},
		{"", "nothing to do: call_1, or what you named of it, was undone before"},
	} {
		a := Answer{CallID: "call_3", Undone: "call_1"}
		if tt.why != "" {
			a.Conflicts = []conflict.Entry{{Path: "f", Why: tt.why}}
		}
		var b strings.Builder
		Undo{Newest: true}.Print(&b, a)
		if !strings.Contains(b.String(), tt.want+"\n") || strings.Contains(b.String(), "undid") {
			t.Errorf("%s: got %q, want %q", tt.why, b.String(), tt.want)
		}
		if past := strings.Contains(b.String(), "--last 2 goes on"); past != (tt.why != "") {
			t.Errorf("%s: got %q", tt.why, b.String())
		}
	}
	var older, none strings.Builder
	kept := []conflict.Entry{{Path: "f", Why: conflict.Changed}}
	Undo{}.Print(&older, Answer{CallID: "call_3", Undone: "call_1", Conflicts: kept})
	if got := older.String(); !strings.HasSuffix(got, "\nnothing of call_1 was undone\n") {
		t.Errorf("a call that somebody named: got %q", got)
	}
	Undo{}.Print(&none, Answer{CallID: "call_3", Undone: "call_1", Error: &tool.Error{Msg: "denied"}})
	if none.Len() > 0 {
		t.Errorf("an undo that failed says %q", none.String())
	}
	var b strings.Builder
	Undo{}.Print(&b, Answer{CallID: "call_3", Undone: "call_1", Restored: []string{"g"}, Conflicts: kept})
	if want := "undid a part of call_1; "; !strings.Contains(b.String(), want) {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
