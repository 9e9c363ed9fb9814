package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkNoHooks is what the stages of hooks cost a call where none is
// configured, in units of a whole call; the call itself includes it.
func BenchmarkNoHooks(b *testing.B) {
	a := benchStack(b)
	file := filepath.Join(a.dir, "small.txt")
	if err := os.WriteFile(file, []byte("one line\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	args := json.RawMessage(`{"file_path": "` + file + `"}`)
	c := tool.NewCall(tool.Request{Account: "a", Session: a.session, Tool: "Read", Args: args})
	c.Spec.Name, c.Result.Status = "Read", tool.StatusSuccess
	h := hookStage{a.parts.hooks}
	bench.Compare(b, []bench.Case{
		{Name: "call of Read", Run: a.run("Read", args)},
		{Name: "stages of hooks", Run: func() {
			if _, err := h.Before(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			h.Moved(b.Context(), c)
			h.Changed(b.Context(), c)
			h.Posts()
			if _, err := h.After(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}},
	}, bench.Limit{Case: "stages of hooks", Over: "call of Read", AtMost: 0.01})
}
