package tools

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/search"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/child"
	"github.com/sandboxd/sandboxd/tests/bench"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestMain lets the test binary be the launcher of the cage.
func TestMain(m *testing.M) {
	if child.IsChild() {
		child.Main()
	}
	os.Exit(m.Run())
}

// cageBox is a real box over a directory.
func cageBox(tb testing.TB, s guard.Settings) sandbox.Box {
	tb.Helper()
	backend, err := sandbox.NewBackend(sandbox.Options{Runtime: filepath.Join(tb.TempDir(), "run")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { backend.Close() })
	box, err := backend.Box(tb.Context(), "s", "strict", s)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { box.Close() })
	return box
}

// judgedCall is a call with the floor held against it, as the pipeline does.
func judgedCall(tb testing.TB, t tool.Tool, in tool.In, box sandbox.Box, s guard.Settings) (string, error) {
	tb.Helper()
	uses, err := t.Uses(tb.Context(), in)
	if err != nil {
		return "", err
	}
	if refused := guard.NewRules(s).Check(uses); refused != nil {
		return "", &guard.Denied{Refusals: refused}
	}
	in.Judged = uses
	out, err := t.Run(tb.Context(), in, box)
	return tool.Format(t, out, in.Args), err
}

func TestTools_InTheRealCage(t *testing.T) {
	e := toolstest.New(t)
	e.Write("src/a.txt", "hello needle\n")
	e.Write("src/secret/key", "needle\n")
	e.Write("other/b.txt", "outside needle\n")
	root := e.Dir + "/src"
	s := guard.Settings{
		AllowedWritePaths: []string{root},
		AllowedReadPaths:  []string{root, "/usr", "/bin", "/lib", "/lib64", "/etc", "/dev"},
		DeniedPaths:       []string{root + "/secret"},
	}
	box := cageBox(t, s)
	call := func(tl tool.Tool, args m) (string, error) {
		in := e.In(args)
		in.Dir = root
		return judgedCall(t, tl, in, box, s)
	}
	for _, tt := range []struct {
		name string
		tool tool.Tool
		args m
		want string
	}{
		{"read", Read{}, m{"file_path": "a.txt"}, "1\thello needle"},
		{"edit", Edit{}, m{"file_path": "a.txt", "old_string": "hello", "new_string": "bye"}, "+bye needle"},
		{"write", Write{}, m{"file_path": "new/c.txt", "content": "x"}, "created"},
		{"glob without what is denied", search.Glob{}, m{"pattern": "**/*"}, "new/c.txt\na.txt"},
		{"grep without what is denied", search.Grep{}, m{"pattern": "needle"}, "a.txt"},
		{"bash", Bash{}, m{"command": "cat a.txt; echo done > out.txt; cat out.txt"}, "bye needle\ndone\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call(tt.tool, tt.args)
			if te, ok := err.(*tool.Error); ok && te.Code == "sandbox_layer_missing" {
				needs.Missing(t, "%s", te.Msg)
			}
			if err != nil || !strings.Contains(got, tt.want) || strings.Contains(got, "secret") {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		name string
		tool tool.Tool
		args m
	}{
		{"read of what is denied", Read{}, m{"file_path": "secret/key"}},
		{"read outside", Read{}, m{"file_path": "../other/b.txt"}},
		{"write outside", Write{}, m{"file_path": "../other/new", "content": "x"}},
		{"edit outside", Edit{}, m{"file_path": "../other/b.txt", "old_string": "outside", "new_string": "x"}},
		{"grep of what is denied", search.Grep{}, m{"pattern": "needle", "path": "secret"}},
		{"bash", Bash{}, m{"command": "cat secret/key"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call(tt.tool, tt.args)
			var denied *guard.Denied
			if !errors.As(err, &denied) {
				t.Errorf("got %q, %v, want a refusal of the floor", got, err)
			}
		})
	}
	// The kernel holds where the text does not show it.
	got, err := call(Bash{}, m{"command": "x=secret/key; f() { cat \"$1\"; }; f ./sec*/key 2>&1; true"})
	if err == nil && strings.Contains(got, "needle") {
		t.Errorf("a denied file was read: %q", got)
	}
	if e.Read("other/b.txt") != "outside needle\n" {
		t.Error("a file outside was changed")
	}
}

// BenchmarkTree compares Grep and Glob with rg over GOROOT.
func BenchmarkTree(b *testing.B) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	root, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	if err != nil {
		b.Fatal(err)
	}
	s := guard.Settings{AllowedReadPaths: []string{root}, AllowedWritePaths: []string{b.TempDir()}}
	box := cageBox(b, s)
	for _, tt := range []struct {
		name string
		tool tool.Tool
		args string
		rg   []string
	}{
		{"grep literal", search.Grep{}, `{"pattern":"ErrUnexpectedEOF","head_limit":0}`, []string{"-l", "ErrUnexpectedEOF"}},
		{
			"grep regexp",
			search.Grep{},
			`{"pattern":"func \\w+\\(ctx context","output_mode":"content","head_limit":0}`,
			[]string{"-n", `func \w+\(ctx context`},
		},
		{
			"grep no literal",
			search.Grep{},
			`{"pattern":"[A-Z]{12}[0-9]","output_mode":"content","head_limit":0}`,
			[]string{"-n", `[A-Z]{12}[0-9]`},
		},
		{"glob", search.Glob{}, `{"pattern":"**/*.go"}`, []string{"--files", "-g", "*.go"}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			ours := calls(b, tt.tool, box, s, root, tt.args)
			bench.Compare(b, []bench.Case{
				{Name: "ours", Run: ours},
				{Name: "rg", Run: bare(b, root, "rg", append([]string{"--no-config"}, tt.rg...)...)},
			}, bench.Limit{Case: "ours", Over: "rg", AtMost: 6})
			bench.Value(b, "allocated", allocated(ours)/(1<<20), "MiB", 64)
		})
	}
}
