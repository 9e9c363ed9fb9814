package guard

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpusLine is one line of testdata/*.jsonl.
type corpusLine struct {
	ID, Technique, Command, Path, Op, Cwd, Home, Expect, Why string
	Profile                                                  string // of testdata/profiles.json, instead of settings
	Code                                                     string // of the first reason; "" is any
	Runs                                                     bool   // real bash runs what the profile denies
	Settings                                                 json.RawMessage
	ResolvesTo                                               *string
	Setup                                                    []map[string]json.RawMessage
}

func readCorpus(t testing.TB, name string) []corpusLine {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var out []corpusLine
	sc := bufio.NewScanner(bytes.NewReader(raw))
	sc.Buffer(nil, 1<<22)
	for sc.Scan() {
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		var l corpusLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// TestX22_CorpusOfCommands holds every line against its verdict: ask counts as
// deny, because nobody is there to ask.
func TestX22_CorpusOfCommands(t *testing.T) {
	for _, name := range []string{"commands.jsonl", "guard.jsonl", "differences.jsonl"} {
		t.Run(name, func(t *testing.T) {
			lines := readCorpus(t, name)
			profiles := readProfiles(t)
			refusedBenign := 0
			for _, l := range lines {
				if l.Profile != "" {
					l.Settings, l.Cwd = profiles[l.Profile], "/home/dev/app"
				}
				s, err := ParseSettings(l.Settings)
				if err != nil {
					t.Fatal(err)
				}
				j := JudgeCommand(l.Command, l.Cwd, "/home/dev", s) // HOME: A7
				switch {
				case l.Expect == "deny" && j.Verdict == Allow:
					t.Errorf("%s %s: allowed: %q (%s)", l.ID, l.Technique, l.Command, l.Why)
				case l.Expect == "allow" && j.Verdict != Allow:
					refusedBenign++
					t.Logf("%s %s: refused: %q: %+v", l.ID, l.Technique, l.Command, j.Reasons)
				}
			}
			t.Logf("%d lines, %d benign ones refused", len(lines), refusedBenign)
			if refusedBenign > 0 {
				t.Errorf("%d benign lines are refused", refusedBenign)
			}
		})
	}
}

func readProfiles(t testing.TB) map[string]json.RawMessage {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "profiles.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestX17_CorpusOfPaths(t *testing.T) {
	for _, l := range readCorpus(t, "paths.jsonl") {
		t.Run(l.ID+" "+l.Technique, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			at := func(s string) string { return strings.ReplaceAll(s, "$T", root) }
			for _, step := range l.Setup {
				for what, raw := range step {
					prepareFile(t, what, raw, at)
				}
			}
			settings := bytes.ReplaceAll(l.Settings, []byte("$T"), []byte(root))
			s, err := ParseSettings(settings)
			if err != nil {
				t.Fatal(err)
			}
			j := JudgePath(at(l.Path), Op(l.Op), at(l.Cwd), at(l.Home), s)
			if got := j.Verdict == Allow; got != (l.Expect == "allow") {
				t.Errorf("verdict %s, want %s (%s): %+v", j.Verdict, l.Expect, l.Why, j.Reasons)
			}
			if l.ResolvesTo != nil && j.Resolved != "" && j.Resolved != at(*l.ResolvesTo) {
				t.Errorf("resolved to %s, want %s", j.Resolved, at(*l.ResolvesTo))
			}
		})
	}
}

func prepareFile(t *testing.T, what string, raw json.RawMessage, at func(string) string) {
	t.Helper()
	var one string
	var two []string
	if json.Unmarshal(raw, &one) != nil && json.Unmarshal(raw, &two) != nil {
		t.Fatalf("setup %s: %s", what, raw)
	}
	var err error
	switch what {
	case "mkdir":
		err = os.MkdirAll(at(one), 0o755)
	case "file":
		err = os.WriteFile(at(one), []byte("x"), 0o644)
	case "symlink":
		err = os.Symlink(at(two[0]), at(two[1]))
	default:
		t.Fatalf("setup step %q is not known", what)
	}
	if err != nil {
		t.Fatal(err)
	}
}
