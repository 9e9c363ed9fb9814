package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// server is an MCP server with one tool.
const server = `while read -r line; do
	id=$(expr "$line" : '.*"id":\([0-9]*\)')
	case $line in
	*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
	*'"tools/list"'*) result='{"tools":[{"name":"tell","description":"tells","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*) result='{"content":[{"type":"text","text":"TOLD-BY-SERVER"}]}' ;;
	*) continue ;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
`

// The tools of MCP servers are tools of the daemon: the model is offered them, and calls them.
func TestL20_AToolOfAnMCPServer(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "policy: {rules: {allow: [mcp__one]}}\nmcp: {servers: {one: {command: sh, args: [server.sh]}}}\n")
		d.Write("ws/server.sh", server)
		session := d.session(t)
		d.Eventually("the server is connected", func() bool {
			var tools []struct{ Name string }
			err := d.Agent.Do(t.Context(), "GET", "/sessions/"+session+"/tools?format=mcp", nil, &tools)
			return err == nil && slices.ContainsFunc(tools, func(x struct{ Name string }) bool { return x.Name == "mcp__one__tell" })
		})
		m := NewModel(t,
			Step{Calls: []Call{{ID: "b", Name: "mcp__one__tell", Args: `{}`}}}, Step{Text: "done"})
		r := d.Command(m, "--provider", provider, "--json", "--resume", session, "go")
		ends(t, r, 0, "success")
		if !slices.Contains(offered(m.Asked()[0]), "mcp__one__tell") {
			t.Errorf("the model is offered %q\n%s\n%s", offered(m.Asked()[0]), r.Out, d.Log)
		}
		result := r.Messages(t, "toolResult")[0]
		if result["verdict"] != "allow" || result["is_error"] != false || !strings.Contains(m.Asked()[1].Raw, "TOLD-BY-SERVER") {
			t.Errorf("the call: %v", result)
		}
	})
}

// A skill says which model works until the prompt is done, and what may be called meanwhile.
func TestASkillChoosesModelAndTools(t *testing.T) {
	d := NewDaemon(t, bin, "")
	d.Write("home/.claude/skills/cheap/SKILL.md", "---\ndescription: d\nmodel: claude-haiku-4-5\nallowed-tools: Read\n---\nBE-CHEAP\n")
	d.Write("home/.claude/skills/odd/SKILL.md", "---\ndescription: d\nmodel: nobody-knows-it\n---\nBE-ODD\n")
	skill := func(id, name string) Call { return Call{ID: id, Name: "Skill", Args: `{"skill": "` + name + `"}`} }
	m := NewModel(t,
		Step{Text: "I begin", In: 10, Out: 1, Calls: []Call{skill("a", "cheap")}},
		Step{In: 10, Out: 1, Calls: []Call{bash("b", "touch ran")}}, Step{Text: "cheaply done", In: 10, Out: 1},
		Step{Calls: []Call{bash("c", "true"), skill("d", "odd")}}, Step{Text: "done"})
	r := d.Command(m, "--json", "--input", "-")
	r.Stdin = strings.NewReader("first\nsecond\n")
	if code := r.Finish(); code != 0 {
		t.Fatalf("exit %d: %s\n%s", code, r.Err, r.Out)
	}
	var models []string
	for _, asked := range m.Asked() {
		models = append(models, asked.Body["model"].(string))
	}
	own, skills := "claude-sonnet-4-6", "claude-haiku-4-5"
	if want := []string{own, skills, skills, own, own}; !slices.Equal(models, want) {
		t.Errorf("asked %q, want %q", models, want)
	}
	if raw := m.Asked()[1].Raw; !strings.Contains(raw, "BE-CHEAP") {
		t.Errorf("the skill is not in %s", raw)
	}
	if refused := r.Messages(t, "toolResult")[1]; refused["is_error"] != true || !strings.Contains(refused["content"].(string), "skill") {
		t.Errorf("the skill lets be called: %v", refused)
	}
	if free := r.Messages(t, "toolResult")[2]; free["is_error"] != false {
		t.Errorf("the skill goes on: %v", free)
	}
	costs, _ := json.Marshal(r.Messages(t, "result")[0]["cost_breakdown"])
	if !strings.Contains(string(costs), `"input_tokens":20,"model":"claude-haiku-4-5"`) {
		t.Errorf("the costs are %s", costs)
	}
	if !strings.Contains(r.Out.String(), "the skill odd wants the model nobody-knows-it, whose price is not known") {
		t.Errorf("nothing is said of a model without a price: %s", r.Out)
	}
}

// Who makes a summary is told, and may be refused it.
func TestL22_L25_HooksAroundTheSummary(t *testing.T) {
	steps := func() *Model {
		return NewModel(t, Step{Text: "I look", In: 15_000, Out: 10, Calls: []Call{bash("t", "echo found-it")}},
			Step{Text: "SUMMARY", In: 1, Out: 1}, Step{Text: "done", In: 1, Out: 1})
	}
	d := NewDaemon(t, bin, "hooks:\n"+hooksThatLog("preToolUse", "preCompact", "postCompact", "stop"))
	ends(t, d.Command(steps(), withQuick("--context-window", "25000", "go")...), 0, "success")
	if got := strings.Join(strings.Fields(d.Read("log")), " "); got != "preToolUse preCompact postCompact stop" {
		t.Errorf("the hooks are %s", got)
	}
	d = NewDaemon(t, bin, "hooks:\n  preCompact:\n    - command: echo keep it >&2; exit 2\n"+hooksThatLog("postCompact", "stop"))
	m := steps()
	r := d.Command(m, withQuick("--context-window", "25000", "go")...)
	ends(t, r, 0, "success")
	if d.Read("log") != "stop\n" || !strings.Contains(r.Out.String(), "a hook refuses it: keep it") {
		t.Errorf("the log is %s, and it says %s", d.Read("log"), r.Out)
	}
	if asked := m.Asked(); len(asked) != 2 || !strings.Contains(asked[1].Raw, "found-it") || asked[1].Body["tools"] == nil {
		t.Errorf("%d requests", len(asked))
	}
}

// occupy takes the two requests that this account may have under way, with calls that wait.
func (d *Daemon) occupy(session string) (leave func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var held sync.WaitGroup
	for _, name := range []string{"one", "other"} {
		args, _ := json.Marshal(map[string]string{"command": "touch " + name + "; sleep 1000"})
		held.Go(func() {
			for ctx.Err() == nil { // the agent may have the place now
				_, _ = d.Agent.Call(ctx, session, "Bash", args)
			}
		})
		d.Eventually("a place is taken", func() bool { return os.Remove(filepath.Join(d.Workspace, name)) == nil })
	}
	return func() { cancel(); held.Wait() }
}

// A daemon that is full took nothing: it is asked again, three times.
func TestTheDaemonIsFull(t *testing.T) {
	d := NewDaemon(t, bin, "api: {concurrent: 2}\n")
	session := d.session(t)
	full := make(chan func(), 1)
	held := func(then Step) Step {
		return Step{Make: func(Asked) Step {
			full <- d.occupy(session)
			return then
		}}
	}
	m := NewModel(t, held(Step{Text: "I call", Calls: []Call{bash("a", "echo it ran")}}), Step{Text: "done"})
	r := d.Command(m, "--json", "--retry-base-ms", "500", "go")
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	leave := <-full
	d.Eventually("the daemon is asked again", func() bool {
		return strings.Contains(r.Out.String(), `"subtype":"retry","text":"2 requests of account`)
	})
	leave()
	r.Wait()
	if end := r.Result(t); end["subtype"] != "success" || r.Messages(t, "toolResult")[0]["is_error"] != false {
		t.Errorf("%v\n%s", end, r.Out)
	}

	// It stays full: nothing runs, and the end says why.
	m = NewModel(t, held(Step{Text: "I call", Calls: []Call{bash("a", "touch ran")}}), Step{Text: "done"})
	r = d.Command(m, withQuick("--resume", r.Result(t)["session_id"].(string), "go")...)
	end := ends(t, r, 1, "errorDuringExecution")
	(<-full)()
	if result := r.Messages(t, "toolResult")[0]; result["is_error"] != true || !strings.Contains(result["content"].(string), "did not run") ||
		!strings.Contains(end["errors"].([]any)[0].(string), "at most") || len(m.Asked()) != 1 {
		t.Errorf("%v\n%v", result, end)
	}
	// So does one that is full from the beginning.
	leave = d.occupy(session)
	refuses(t, d, d.Command(NewModel(t), withQuick("go")...), 1, "api.concurrent")
	leave()
}
