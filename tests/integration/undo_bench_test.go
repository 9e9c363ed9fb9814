package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkUndo is commands whose changes are kept, beside the same without, in workspaces of 1,000 and
// of 10,000 files; and an undo of deleting all files of the large one, beside deleting them.
func BenchmarkUndo(b *testing.B) {
	var cases []bench.Case
	var limits []bench.Limit
	more := "policy: {profile: observe}\nsessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n" +
		"api: {perSecond: 1000000}\n"
	for _, files := range []int{1000, 10_000} {
		daemons := map[string]func(command string){}
		for _, mode := range []string{"off", "auto"} {
			d, s := newTree(b, "undo: {mode: "+mode+"}\n"+more, files)
			daemons[mode] = func(command string) {
				r := d.call(s, "Bash", fmt.Sprintf(`{"command":%q}`, command))
				if r.Status != "SUCCESS" || strings.Contains(r.FinalText, "Exit code") {
					b.Fatalf("%s: %+v", command, r)
				}
			}
			daemons[mode]("true") // the first look reads everything
			if mode == "off" || files < 10_000 {
				continue
			}
			// What is wrecked is a tree of its own: the others measure with their files there.
			wrecked, session := newTree(b, more, files)
			wreck := func() string {
				r := wrecked.call(session, "Bash", `{"command":"rm -rf d*"}`)
				if r.Status != "SUCCESS" || r.ChangesTotal < files {
					b.Fatalf("%+v: %d changes", r.Error, r.ChangesTotal)
				}
				return r.CallID
			}
			var id string
			undo := func() {
				var out struct {
					Restored  []string
					Conflicts []struct{ Path, Why string }
				}
				if err := wrecked.agent.Do(b.Context(), "POST", "/calls/"+id+"/undo", map[string]any{}, &out); err != nil {
					b.Fatal(err)
				}
				if len(out.Conflicts) > 0 || len(out.Restored) < files {
					b.Fatalf("%d paths restored, %d not: %v", len(out.Restored), len(out.Conflicts),
						out.Conflicts[:min(3, len(out.Conflicts))])
				}
			}
			cases = append(cases,
				bench.Case{Name: "10,000 deleted", N: 7, Run: func() { id = wreck() }, Before: func() {
					if id != "" {
						undo()
						id = ""
					}
				}},
				bench.Case{Name: "10,000 undone", N: 7, Run: func() { undo(); id = "" }, Before: func() {
					if id == "" {
						id = wreck()
					}
				}})
			limits = append(limits, bench.Limit{Case: "10,000 undone", Over: "10,000 deleted"})
		}
		for _, act := range []struct {
			name, command string
			most          float64
			n             int // what is near its limit is measured more often
		}{
			{"true", "true", 1.1, 700},
			{"one change", "date +%N > d0/f0", 1.6, 350},
			{"100 changes", "for f in d1/*; do date +%N > $f; done", 6, 14},
		} {
			of := func(mode string) string { return fmt.Sprintf("%s, %s, %d files", act.name, mode, files) }
			for mode, call := range daemons {
				cases = append(cases, bench.Case{Name: of(mode), N: act.n, Run: func() { call(act.command) }})
			}
			limits = append(limits, bench.Limit{Case: of("auto"), Over: of("off"), AtMost: act.most})
		}
	}
	limits = append(limits, bench.Limit{
		Case: "true, auto, 10000 files", Over: "true, auto, 1000 files", AtMost: 1.1,
	})
	bench.Compare(b, cases, limits...)
}

// newTree is a daemon with a session in a workspace of so many small files.
func newTree(b *testing.B, config string, files int) (d *running, session string) {
	b.Helper()
	d = newDaemon(b, config)
	for i := range files {
		name := filepath.Join(d.ws, fmt.Sprintf("d%d", i/100), fmt.Sprintf("f%d", i))
		_ = os.Mkdir(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, fmt.Append(nil, "file ", i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return d, d.session()
}
