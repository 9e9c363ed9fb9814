package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/golden"
)

const transcript = "../../docs/transcript-agent.md"

// recorded is one call of an agent, in the form of one of two APIs.
type recorded struct {
	Say       string `json:"say"`
	Anthropic *struct {
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"anthropic"`
	OpenAI *struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"openai"`
	Approve bool `json:"approve"`
}

func (r recorded) call() (id, name string, args json.RawMessage) {
	if r.Anthropic != nil {
		return r.Anthropic.ID, r.Anthropic.Name, r.Anthropic.Input
	}
	return r.OpenAI.ID, r.OpenAI.Function.Name, json.RawMessage(r.OpenAI.Function.Arguments)
}

// TestScriptedAgent_TranscriptIsGenerated does a day's work with recorded calls: it clones a real
// repository, reads, changes several files, runs the tests, sees a failure, mends
// it, commits, and publishes with the leave of a person.
func TestScriptedAgent_TranscriptIsGenerated(t *testing.T) {
	golden.Slow(t, "it compiles and tests a Go program in a sandbox")
	t.Parallel()
	d := newPlaces(t, "")
	d.env = append(d.env, "GOCACHE="+built)
	d.start()
	bareRepository(t, d)
	text, err := os.ReadFile("testdata/agent/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var steps []recorded
	if err := json.Unmarshal(text, &steps); err != nil {
		t.Fatal(err)
	}
	session := d.session()

	var page bytes.Buffer
	page.WriteString("# A day of an agent\n\nWritten by a test from what a daemon answered to recorded calls; ids and times are replaced.\n")
	results := map[string]client.Result{}
	for _, s := range steps {
		id, name, args := s.call()
		knowsTool(t, d, session, s)
		for of, r := range results {
			args = bytes.ReplaceAll(args, []byte("RESULT_OF_"+of), []byte(r.VarResult))
		}
		if s.Approve {
			go approveNext(t, d)
		}
		var r client.Result
		in := map[string]any{"tool": name, "args": args, "tool_use_id": id}
		if err := d.agent.Do(t.Context(), "POST", "/sessions/"+session+"/calls", in, &r); err != nil {
			t.Fatalf("%s: %v\n%s", id, err, d.log)
		}
		if r.ToolUseID != id {
			t.Errorf("%s: the answer is for %q", id, r.ToolUseID)
		}
		results[id] = r
		writeStep(&page, s, r)
	}
	golden.Check(t, transcript, normal(page.String(), d))
	if pushed, err := exec.Command("git", "-c", "safe.directory=*", "-C", filepath.Join(d.ws, "origin.git"), "show", "suffix:ordinals.go").Output(); err != nil || !strings.Contains(string(pushed), "tens >= 11") {
		t.Errorf("the published file is %q, %v", pushed, err)
	}
}

// bareRepository makes a repository in the workspace out of a module that the
// tests have anyway.
func bareRepository(t *testing.T, d *running) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dustin/go-humanize").Output()
	if err != nil || len(bytes.TrimSpace(dir)) == 0 {
		t.Fatalf("the module is not in the module cache: %q, %v", dir, err)
	}
	src := filepath.Join(d.work, "src")
	if err := os.CopyFS(src, os.DirFS(string(bytes.TrimSpace(dir)))); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-C", src, "init", "-q"},
		{"-C", src, "add", "."},
		{"-C", src, "commit", "-q", "-m", "import"},
		{"clone", "-q", "--bare", src, filepath.Join(d.ws, "origin.git")},
	} {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "HOME="+d.home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// knowsTool checks that the agent was told of the tool that it calls, in the form
// that it uses.
func knowsTool(t *testing.T, d *running, session string, s recorded) {
	t.Helper()
	form := "openai"
	if s.Anthropic != nil {
		form = "anthropic"
	}
	var list json.RawMessage
	if err := d.agent.Do(t.Context(), "GET", "/sessions/"+session+"/tools?format="+form, nil, &list); err != nil {
		t.Fatal(err)
	}
	if _, name, _ := s.call(); !bytes.Contains(list, []byte(`"name":"`+name+`"`)) {
		t.Errorf("the %s definitions do not name %s", form, name)
	}
}

// approveNext is the operator, who answers the next question with yes.
func approveNext(t *testing.T, d *running) {
	var waiting []struct {
		ID string `json:"id"`
	}
	ok := waitFor(func() bool {
		err := d.operator.Do(context.Background(), "GET", "/approvals", nil, &waiting)
		return err == nil && len(waiting) == 1
	})
	if !ok {
		t.Error("no question came")
		return
	}
	if err := d.operator.Do(context.Background(), "POST", "/approvals/"+waiting[0].ID, map[string]any{"approved": true}, nil); err != nil {
		t.Errorf("approve: %v", err)
	}
}

func writeStep(w *bytes.Buffer, s recorded, r client.Result) {
	if s.Say != "" {
		fmt.Fprintf(w, "\n%s\n", s.Say)
	}
	_, name, args := s.call()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, args, "", "  "); err != nil {
		pretty.Write(args)
	}
	form := "openai"
	if s.Anthropic != nil {
		form = "anthropic"
	}
	fmt.Fprintf(w, "\n**%s** (%s form)\n\n```json\n%s\n```\n\n", name, form, pretty.String())
	if s.Approve {
		fmt.Fprintf(w, "A person approves it.\n\n")
	}
	fmt.Fprintf(w, "%s\n\n````\n%s\n````\n", r.Status, strings.TrimRight(r.FinalText, "\n"))
	if r.Error != nil {
		fmt.Fprintf(w, "\n`%s` at stage %s: %s\n\nhint: %s\n", r.Error.Code, r.Error.Stage, r.Error.Msg, r.Error.Hint)
	}
}

// replacements are what differs from run to run.
var replacements = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{14}-[a-z0-9]{10}`), "NODE"},
	{regexp.MustCompile(`(?m)^(ok|FAIL|---? FAIL:.*?)(\s+\S+)?\s+\(?(\d+\.\d+s|cached)\)?$`), "$1$2 TIME"},
	{regexp.MustCompile(`\(\d+\.\d+s\)`), "(TIME)"},
	{regexp.MustCompile(`\t\d+\.\d+s`), "\tTIME"},
}

func normal(s string, d *running) string {
	s = strings.ReplaceAll(s, d.ws, "/home/dev/project")
	s = strings.ReplaceAll(s, d.home, "/home/dev")
	for _, r := range replacements {
		s = r.find.ReplaceAllString(s, r.with)
	}
	return s
}
