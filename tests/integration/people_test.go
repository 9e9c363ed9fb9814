package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/golden"
)

const peopleTranscript = "../../docs/transcript-people.md"

// people writes down what is typed on two terminals, and what is answered.
type people struct {
	t    *testing.T
	d    *running
	page bytes.Buffer
}

func (p *people) say(text string) { fmt.Fprintf(&p.page, "\n%s\n", text) }

func (p *people) command(line, stdin string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env, cmd.Stdin = p.d.ws, p.d.env, strings.NewReader(stdin)
	return cmd
}

func (p *people) shown(line, stdin string, out []byte) {
	p.page.WriteString("\n```\n$ " + line + "\n")
	if stdin != "" {
		p.page.WriteString("< " + stdin + "\n")
	}
	p.page.WriteString(strings.TrimRight(string(out), "\n") + "\n```\n")
}

// run types a line and shows what came.
func (p *people) run(line, stdin string) string {
	out, _ := p.command(line, stdin).CombinedOutput() // a refusal is told in the text
	p.shown(line, stdin, out)
	return string(out)
}

// waiting types a line that waits for a person, lets the person act, and shows
// what came of it.
func (p *people) waiting(line, stdin string, act func(id string)) string {
	p.t.Helper()
	var out bytes.Buffer
	cmd := p.command(line, stdin)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.say("An agent calls, and waits:")
	p.page.WriteString("\n```\n$ " + line + "\n")
	if stdin != "" {
		p.page.WriteString("< " + stdin + "\n")
	}
	p.page.WriteString("```\n")
	var questions []struct {
		ID string `json:"id"`
	}
	ok := waitFor(func() bool {
		return p.d.operator.Do(p.t.Context(), "GET", "/approvals", nil, &questions) == nil && len(questions) == 1
	})
	if !ok {
		p.t.Fatalf("no question came: %s", &out)
	}
	act(questions[0].ID)
	_ = cmd.Wait() // a refusal is told in the text
	p.page.WriteString("\nThe agent is answered:\n\n```\n" + strings.TrimRight(out.String(), "\n") + "\n```\n")
	return out.String()
}

func (p *people) must(text, want string) {
	p.t.Helper()
	if !strings.Contains(text, want) {
		p.t.Errorf("got %s, want %q in it", text, want)
	}
}

// TestPeople_TranscriptIsGenerated shows people and hooks at work, and holds
// docs/transcript-people.md against it.
func TestPeople_TranscriptIsGenerated(t *testing.T) {
	guard := "        case $(cat) in\n" +
		"        *'make deploy'*) echo 'not on a Friday' >&2; exit 2 ;;\n" +
		"        *'go test'*) echo '{\"updatedInput\": {\"command\": \"echo go test -short ./...\"}}' ;;\n" +
		"        esac\n"
	d := newDaemon(t, "sandbox:\n  env: {PATH: \"/usr/bin:/bin\"}\nhooks:\n  preToolUse:\n    - name: guard\n      matcher: ^Bash$\n      command: |\n"+guard)
	p := &people{t: t, d: d}
	p.page.WriteString("# People and hooks at work\n\nWritten by a test from what was typed and answered; ids and places are replaced.\n")

	p.say("## Asked, edited, approved and run")
	out := p.waiting(`sandboxd call Bash '{"command": "git push --force origin main; echo pushed"}'`, "", func(id string) {
		p.say("Somebody sees the question, and lets another command run instead:")
		p.must(p.run("sandboxd approvals show "+id, ""), "git push --force")
		p.run(`sandboxd approvals approve `+id+` --args '{"command": "echo git push --force-with-lease origin main"}'`, "")
	})
	p.must(out, "git push --force-with-lease origin main")

	p.say("## Refused, and the model reads why")
	out = p.waiting(`sandboxd call Bash '{"command": "git push --force origin main"}'`, "", func(id string) {
		p.say("Somebody says no:")
		p.run(`sandboxd approvals deny `+id+` --reason "use a branch, main is protected"`, "")
	})
	p.must(out, "use a branch, main is protected")

	p.say("## A hook that rewrites")
	p.say("The configuration has this hook:\n\n```sh\n" + strings.ReplaceAll(strings.TrimRight(guard, "\n"), "        ", "") + "\n```")
	p.must(p.run(`sandboxd call Bash '{"command": "go test ./..."}'`, ""), "go test -short ./...")

	p.say("## A hook that blocks")
	p.must(p.run(`sandboxd call Bash '{"command": "make deploy"}'`, ""), "not on a Friday")
	p.say("The operator tries the same without a call:")
	p.must(p.run(`sandboxd hooks test preToolUse --tool Bash --input '{"command": "make deploy"}'`, ""),
		"outcome: block: not on a Friday")

	p.say("## The hook of another agent")
	p.say("Claude Code runs `sandboxd hook` before its tool. A command that may run comes back as one that runs it in the cage:")
	call := func(command string) string {
		b, err := json.Marshal(map[string]any{
			"session_id": "s1", "cwd": d.ws, "hook_event_name": "PreToolUse", "tool_name": "Bash",
			"tool_input": map[string]string{"command": command},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	line := p.updated(p.run("sandboxd hook", call("echo hello from $(basename $PWD)")))
	p.must(p.run(line, ""), "hello from ws")
	p.say("It runs once:")
	p.must(p.run(line, ""), "call_")
	p.say("Where the rules ask, the hook waits:")
	out = p.waiting("sandboxd hook", call("git push --force origin main 2>&-; echo pushed by Claude Code"), func(id string) {
		p.say("Somebody approves:")
		p.run("sandboxd approvals approve "+id, "")
	})
	p.say("and what was approved is what runs:")
	p.must(p.run(p.updated(out), ""), "pushed by Claude Code")

	golden.Check(t, peopleTranscript, p.normal())
}

// updated is the command of an answer of the hook.
func (p *people) updated(answer string) string {
	p.t.Helper()
	var a struct {
		Specific struct {
			Input struct {
				Command string `json:"command"`
			} `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Specific.Input.Command == "" {
		p.t.Fatalf("no command in %s: %v", answer, err)
	}
	return a.Specific.Input.Command
}

// normal takes out what differs from run to run.
func (p *people) normal() string {
	text := p.page.String()
	for _, r := range [][2]string{
		{regexp.QuoteMeta(filepath.Join(bin, "sandboxd")), "/usr/local/bin/sandboxd"},
		{`\b(apr|call|ses)_[A-Z2-7]{20,}`, "${1}_ID"},
		{`Bash_\d{14}-[a-z0-9]{10}_`, "Bash_NODE_"},
		{`uid:\d+`, "uid:1000"},
		{`(?m)^(guard\s+)\S+`, "${1}3ms"},
		{`(?m)^  (in|sandbox)  .*\n(?: {11}.*\n)*`, ""}, // where lines break depends on the places
		{` +\n`, "\n"},
		{`\d+m\d+s more`, "5m0s more"},
		{regexp.QuoteMeta(p.d.ws), "/home/dev/project"},
	} {
		text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
	}
	return text
}
