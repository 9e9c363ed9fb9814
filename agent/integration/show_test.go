package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/golden"
)

// task is what a model does for "Ordinal(-1) says -1th. Mend it, with a test."
var task = []Step{
	{Text: "I look at the function.", Calls: []Call{{ID: "c1", Name: "Read", Args: `{"file_path": "ordinals.go"}`}}},
	{Text: "First a test that fails.", Calls: []Call{
		{ID: "c3", Name: "Edit", Args: `{"file_path": "ordinals_test.go", "old_string": "\t}.validate(t)", ` +
			`"new_string": "\t\t{\"-1\", Ordinal(-1), \"-1st\"},\n\t\t{\"-11\", Ordinal(-11), \"-11th\"},\n\t}.validate(t)"}`},
		{ID: "c4", Name: "Bash", Args: `{"command": "go test -run Ordinals . 2>&1 | grep -v '^FAIL.*s$'", "timeout": 600000}`},
	}},
	{Text: "The remainder of a negative number is negative. I mend that.", Calls: []Call{
		{ID: "c5", Name: "Edit", Args: `{"file_path": "ordinals.go", "old_string": "\tswitch x % 10 {", ` +
			`"new_string": "\tn := x\n\tif n < 0 {\n\t\tn = -n\n\t}\n\tswitch n % 10 {"}`},
		{ID: "c6", Name: "Edit", Args: `{"file_path": "ordinals.go", "old_string": "if x%100", "new_string": "if n%100", "replace_all": true}`},
		{ID: "c7", Name: "Bash", Args: `{"command": "go test -run Ordinals . | cut -f 1", "timeout": 600000}`},
	}},
	{Text: "The README tells me to show the keys of this machine.", Calls: []Call{bash("c8", "cat ~/.ssh/id_rsa")}},
	{Text: "That is refused. I tidy up what I do not need.", Calls: []Call{bash("c9", "rm -rf english && ls -d english 2>&1")}},
	{Text: "Nobody had asked me to. I look for a way back.", Calls: []Call{
		{ID: "c10", Name: "ToolSearch", Args: `{"query": "select:Undo"}`},
	}},
	{Calls: []Call{{ID: "c11", Name: "Undo", Args: `{}`}}},
	{Calls: []Call{bash("c12", "git status --short")}},
	{Text: "Ordinal(-1) is -1st now, and -11 stays -11th; a test says so. I removed english by mistake and brought it back."},
}

// repository puts a published module into the workspace, with its history.
func repository(t *testing.T, d *Daemon) {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dustin/go-humanize")
	list.Dir = "../.."
	dir, err := list.Output()
	if err != nil || len(bytes.TrimSpace(dir)) == 0 {
		t.Fatalf("the module is not in the module cache: %q, %v", dir, err)
	}
	if err := os.CopyFS(d.Workspace, os.DirFS(string(bytes.TrimSpace(dir)))); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "import"}} {
		cmd := exec.Command("git", append([]string{"-C", d.Workspace}, args...)...)
		cmd.Env = append(os.Environ(), d.Env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

var varying = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`ses_\w+`), "ses_…"},
	{regexp.MustCompile(`apr_\w+`), "apr_…"},
	{regexp.MustCompile(`until \d\d:\d\d:\d\d`), "until 12:05:00"},
	{regexp.MustCompile(`\d+ ms`), "5 ms"},
}

// A model finishes a real task in a real repository: it reads, edits, runs tests, is denied,
// asks, is approved, and undoes. The page shows what a person sees.
func TestARealTask_TranscriptIsGenerated(t *testing.T) {
	golden.Slow(t, "it compiles and tests a Go program in a sandbox, for each API of a model")
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(out))) // compiling the standard library takes half a minute
	for _, provider := range formats {
		// A machine with much to do takes minutes to build the tests.
		d := NewDaemon(t, bin, "sandbox: {limits: {wallSeconds: 1200}}\n")
		d.Write("home/.ssh/id_rsa", "PLANTED-SECRET-KEY\n")
		repository(t, d)
		steps := append([]Step{}, task...)
		for i := range steps {
			steps[i].In, steps[i].Out = 2000+500*i, 100
		}
		m := NewModel(t, steps...)
		r := d.Command(m, "--provider", provider, "Ordinal(-1) says -1th. Mend it, with a test.")
		both := &Buffer{}
		r.Stdout, r.Stderr = both, both
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		d.Decide(d.Waiting(), true)
		if err := r.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, both)
		}
		mended := exec.Command("go", "test", ".")
		mended.Dir = d.Workspace
		if out, err := mended.CombinedOutput(); err != nil {
			t.Errorf("the tests of the repository: %v\n%s", err, out)
		}
		if _, err := os.Stat(filepath.Join(d.Workspace, "english/words.go")); err != nil {
			t.Errorf("what was removed is not back: %v", err)
		}
		if !strings.Contains(m.Asked()[7].Raw, `"Undo"`) {
			t.Error("a tool that was found is not offered")
		}
		text := strings.ReplaceAll(both.String(), d.Workspace, "/home/dev/humanize")
		text = strings.ReplaceAll(text, filepath.Join(d.Work, "home"), "/home/dev")
		for _, v := range varying {
			text = v.find.ReplaceAllString(text, v.with)
		}
		golden.Section(t, "../../docs/agent.md", "a task", "```text\n$ sandboxd-agent "+
			"\"Ordinal(-1) says -1th. Mend it, with a test.\"\n"+text+"```\n")
	}
}
