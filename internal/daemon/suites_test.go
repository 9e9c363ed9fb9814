package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/tests/golden"
)

// suite is what came out of the lines of one source.
type suite struct {
	stopped, stops int
	passed, passes int
	denied, hosts  int // of those that should pass; hosts: because no host can be reached
	otherwise      int
	wrong          []string
	name           string
}

// TestSuites_TableIsGenerated judges what the test suites of other tools expect, in the default
// configuration with a cage that holds, and keeps the table of docs/guard.md. "make suites" prints it.
func TestSuites_TableIsGenerated(t *testing.T) {
	golden.Slow(t, "it judges 5,000 lines of other projects")
	files, err := filepath.Glob("testdata/suites/*.tsv")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v: %v", files, err)
	}
	x := offlineFor(t, "")
	// GTFOBins is about what a list of names and paths must hold, so there is one.
	listed := offlineFor(t, "sandbox: {deniedCommands: [evil], deniedPaths: [/home/dev/.ssh]}\n")
	var table strings.Builder
	table.WriteString("| source | destroys or publishes: stopped | harmless: passed | denied | of these by host | otherwise on purpose |\n")
	table.WriteString("| --- | --- | --- | --- | --- | --- |\n")
	var all suite
	for _, file := range files {
		by := x
		if filepath.Base(file) == "gtfobins.tsv" {
			by = listed
		}
		s := judged(t, by, file)
		for _, line := range s.wrong {
			t.Log(s.name + ": " + line)
		}
		table.WriteString(s.row())
		all.stopped, all.stops = all.stopped+s.stopped, all.stops+s.stops
		all.passed, all.passes = all.passed+s.passed, all.passes+s.passes
		all.denied, all.hosts, all.otherwise = all.denied+s.denied, all.hosts+s.hosts, all.otherwise+s.otherwise
	}
	all.name = "all"
	table.WriteString(all.row())
	t.Log("\n" + table.String())
	if all.stopped*100 < all.stops*97 {
		t.Errorf("%d of %d lines that destroy or publish are stopped, want 97 of 100", all.stopped, all.stops)
	}
	if (all.passed+all.hosts)*100 < all.passes*97 {
		t.Errorf("%d of %d harmless lines pass, and %d name a host; want 97 of 100", all.passed, all.passes,
			all.hosts)
	}
	golden.Section(t, "../../docs/guard.md", "suites", table.String())
}

func (s *suite) row() string {
	return fmt.Sprintf("| %s | %d of %d | %d of %d | %d | %d | %d |\n",
		s.name, s.stopped, s.stops, s.passed, s.passes, s.denied, s.hosts, s.otherwise)
}

// offlineFor judges in a workspace that is not below /tmp, with more lines of the configuration. It holds empty files,
// and wip.txt, which is not empty and in no repository.
func offlineFor(t *testing.T, more string) *Offline {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "suites")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.MkdirAll(filepath.Join(dir, "ws", "src"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"src/a.go", "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, "ws", f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ws", "wip.txt"), []byte("wip\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "conf.yaml")
	if err := os.WriteFile(conf, []byte("workspace: {roots: ["+dir+"/ws]}\n"+more), 0o600); err != nil {
		t.Fatal(err)
	}
	site, err := LoadFile("test", conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	confined := true
	x, err := site.Offline(t.Context(), OfflineOptions{Home: "/home/dev", Confined: &confined})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func judged(t *testing.T, x *Offline, file string) *suite {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{name: strings.TrimSuffix(filepath.Base(file), ".tsv")}
	for line := range strings.Lines(string(text)) {
		want, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		_, command, ok2 := strings.Cut(rest, "\t")
		if strings.HasPrefix(line, "#") || !ok || !ok2 {
			continue
		}
		if want == "other" {
			s.otherwise++
			continue
		}
		d := verdict(t, x, strings.ReplaceAll(command, "⏎", "\n"))
		switch {
		case want == "stop":
			if s.stops++; d.Verdict != tool.Allow {
				s.stopped++
			} else {
				s.wrong = append(s.wrong, "passed: "+command)
			}
		case want != "pass":
			t.Fatalf("%s: %q is no expectation", file, want)
		case d.Verdict == tool.Allow:
			s.passes++
			s.passed++
		default:
			s.passes++
			if d.Verdict == tool.Deny {
				s.denied++
			}
			if len(d.Reasons) > 0 && d.Reasons[0].Rule == "floor:network.allowedDomains" {
				s.hosts++
				continue
			}
			s.wrong = append(s.wrong, fmt.Sprintf("%s by %s: %s", d.Verdict, reasons(d), command))
		}
	}
	slices.SortFunc(s.wrong, cmp.Compare)
	return s
}

func verdict(t *testing.T, x *Offline, command string) tool.Decision {
	t.Helper()
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	got, err := x.Explain(t.Context(), policy.Example{Tool: "Bash", Args: args}, false)
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	return got.Decision
}

func reasons(d tool.Decision) string {
	seen := map[string]bool{}
	for _, r := range d.Reasons {
		seen[r.Rule] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}
