package approvals

import (
	"encoding/json"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestAGrantOfAFileToolIsForThatFile: a name that becomes a link, or a link that leads elsewhere, is asked about again.
func TestAGrantOfAFileToolIsForThatFile(t *testing.T) {
	write := func(raw, path string) *tool.Call {
		c := bashCall("")
		c.Spec.Name, c.In.Home = "Write", "/home/u"
		c.In.Args = json.RawMessage(`{"content":"x","file_path":"` + raw + `"}`)
		c.Facts.Uses = guard.Uses{Paths: []guard.PathUse{{Raw: raw, Path: path, Op: guard.Write}}}
		return c
	}
	shell := func(path string) *tool.Call {
		c := bashCall("cd sub && ls > g.txt")
		c.Facts.Uses.Paths = []guard.PathUse{{Raw: "g.txt", Path: path, Op: guard.Write}}
		return c
	}
	for _, tt := range []struct {
		name         string
		first, later *tool.Call
		asked        bool
	}{
		{"the same file", write("g.txt", "/src/g.txt"), write("g.txt", "/src/g.txt"), false},
		{"spelled with a dot", write("./g.txt", "/src/g.txt"), write("./g.txt", "/src/g.txt"), false},
		{"an absolute path", write("/src/g.txt", "/src/g.txt"), write("/src/g.txt", "/src/g.txt"), false},
		{"a file below home", write("~/g", "/home/u/g"), write("~/g", "/home/u/g"), false},
		{"a name that became a link", write("g.txt", "/src/g.txt"), write("g.txt", "/src/real/x.txt"), true},
		{"a link to the same name", write("g.txt", "/src/g.txt"), write("g.txt", "/src/real/g.txt"), true},
		{"a directory that became a link", write("d/g", "/src/d/g"), write("d/g", "/src/e/g"), true},
		{"a link below home", write("~/g", "/home/u/g"), write("~/g", "/src/g"), true},
		{"the same link", write("l", "/src/g.txt"), write("l", "/src/g.txt"), false},
		{"a link that leads elsewhere", write("l", "/src/g.txt"), write("l", "/src/h.txt"), true},
		{"a link that became a file", write("l", "/src/g.txt"), write("l", "/src/l"), true},
		{"a command, of whose words where they lead is not known", shell("/src/sub/g.txt"), shell("/src/real/g.txt"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, q *Queue) {
				answerNext(t, q, tt.first, Decision{Approved: true, Remember: RememberAlways, By: "ann"})
				if asked, a := asks(t, q, tt.later); asked != tt.asked {
					t.Errorf("asked %v, want %v: %+v", asked, tt.asked, a)
				}
			})
		})
	}
}
