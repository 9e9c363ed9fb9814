package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// spawner is a program that runs agents. What an agent does is in the file do beside it.
const spawner = `#!/bin/bash
here=${0%/*}
order=$(cat)
field() { printf %s "$order" | grep -o "\"$1\":\"[^\"]*\"" | head -1 | cut -d'"' -f4; }
id=$(field session_id) socket=$(field socket) agent=$(field agent) cwd=$(field cwd)
ask() { curl -s --unix-socket "$socket" "$@"; }
call() { ask -d "{\"tool\":\"$1\",\"args\":$2}" "http://x/sessions/$id/calls"; }
printf '%s\n' "$order" > "$here/order-$agent"
. "$here/do"
`

// newAgents is a daemon that starts agents, which do this.
func newAgents(t testing.TB, do, more string) *running {
	t.Helper()
	needs.Program(t, "curl")
	d := newPlaces(t, "")
	d.write("spawn/spawner", spawner)
	d.write("spawn/do", do)
	if err := os.Chmod(filepath.Join(d.work, "spawn/spawner"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.write("config.yaml", fmt.Sprintf("agents:\n  spawner: {command: [%s], timeout: 60s, passEnv: [TEST_KEY]}\n%s",
		filepath.Join(d.work, "spawn/spawner"), more))
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"), "TEST_KEY=given", "TEST_OTHER=not given")
	d.start()
	return d
}

// agentData is the data of an answer of Agent.
type agentData struct {
	Session  string   `json:"session_id"`
	Agent    string   `json:"agent"`
	Text     string   `json:"text"`
	Calls    []string `json:"tool_calls"`
	IsError  bool     `json:"is_error"`
	Job      string   `json:"job_id"`
	Worktree *struct{ Path, Branch string }
}

func dataOf(t testing.TB, r client.Result) (d agentData) {
	t.Helper()
	b, err := json.Marshal(r.Data)
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const ask = `{"prompt":"who calls Open?","description":"search"`

func TestN08_WithoutASpawner(t *testing.T) {
	d := newDaemon(t, "")
	d.refuses(d.session(), "Agent", ask+`}`, "spawner_unavailable", "Error: Agent spawner not available.")
}

// TestN01_N03_N04_AnAgentWorksInASessionOfItsOwn: its program gets the whole order, and nothing of the daemon's.
func TestN01_N03_N04_AnAgentWorksInASessionOfItsOwn(t *testing.T) {
	d := newAgents(t, `
call Read '{"file_path":"notes"}' > "$here/read"
env > "$here/env"; pwd > "$here/pwd"
echo "to the log" >&2
echo '{"text":"three files","tool_calls":["Read","Grep","Read"]}'
`, "  types: {Reviewer: {description: reads, systemPrompt: Be strict., tools: [Read, Agent, Task, Bash], disallowedTools: [Bash], model: m-1, maxTurns: 3}}\n")
	d.write("ws/notes", "secret of the workspace\n")
	root := d.session()
	r := d.call(root, "Agent", ask+`,"subagent_type":"Reviewer","name":"anna","mode":"plan"}`)
	data := dataOf(t, r)
	if r.Status != client.StatusSuccess || r.FinalText != "three files\n[Tools used: Read, Grep]" ||
		data.Agent != "anna" || data.Text != "three files" || len(data.Calls) != 3 || data.IsError {
		t.Fatalf("got %+v\n%s", r, d.log)
	}
	var order map[string]any
	if err := json.Unmarshal([]byte(d.read("spawn/order-anna")), &order); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"session_id": data.Session, "socket": filepath.Join(d.work, "run/a.sock"), "agent": "anna", "agent_type": "Reviewer",
		"parent_session_id": root, "prompt": "who calls Open?", "description": "search", "system_prompt": "Be strict.",
		"model": "m-1", "max_turns": 3.0, "mcp_servers": nil, "skills": nil, "run_in_background": nil, "isolation": nil,
		"team_name": nil, "mode": "plan", "resume": nil, "cwd": d.ws,
	} {
		if got, ok := order[key]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if len(order) != 20 || fmt.Sprint(order["allowed_tools"], order["disallowed_tools"]) != "[Read Agent Task Bash] [Bash]" {
		t.Errorf("the order is %v", order)
	}
	if read := d.read("spawn/read"); !strings.Contains(read, "secret of the workspace") {
		t.Errorf("its call was answered by %s", read)
	}
	env := d.read("spawn/env")
	if !strings.Contains(env, "TEST_KEY=given") || strings.Contains(env, "TEST_OTHER") || strings.Contains(env, "SANDBOXD_OPERATOR") ||
		d.read("spawn/pwd") != "/\n" {
		t.Errorf("it began in %s with\n%s", d.read("spawn/pwd"), env)
	}
	var s struct{ Parent, Agent, Mode string }
	d.does(d.agent, http.MethodGet, "/sessions/"+data.Session, nil, &s)
	if s.Parent != root || s.Agent != "anna" || s.Mode != "plan" {
		t.Errorf("its session is %+v", s)
	}
	for _, name := range []string{"Agent", "Task", "Bash", "Write"} {
		if r := d.call(data.Session, name, `{}`); r.Status != client.StatusNotFound {
			t.Errorf("%s is %s: %s", name, r.Status, r.FinalText)
		}
	}
	if !strings.Contains(d.log.String(), "to the log") {
		t.Error("the log has nothing of what it said")
	}
	// N04, N07: without anything named; the built-in types.
	for _, x := range []struct{ args, agent, tools string }{
		{``, "general-purpose-1", "<nil>"},
		{`,"subagent_type":"Explore"`, "Explore-1", "[Read Glob Grep Bash]"},
		{`,"subagent_type":"Explore"`, "Explore-2", "[Read Glob Grep Bash]"},
		{`,"subagent_type":"Plan"`, "Plan-1", "[Read Glob Grep Bash]"},
	} {
		if r := d.call(root, "Agent", ask+x.args+`}`); dataOf(t, r).Agent != x.agent {
			t.Errorf("%s: got %+v", x.args, r)
		}
		var order map[string]any
		if err := json.Unmarshal([]byte(d.read("spawn/order-"+x.agent)), &order); err != nil {
			t.Fatal(err)
		}
		if order["max_turns"] != 10.0 || fmt.Sprint(order["allowed_tools"]) != x.tools || order["model"] != nil {
			t.Errorf("%s: %v", x.agent, order)
		}
	}
}

// read is a file below the places of the daemon.
func (d *running) read(name string) string {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.work, name))
	if err != nil {
		d.t.Error(err)
	}
	return string(b)
}

func TestN06_WhatIsWrongStartsNoAgent(t *testing.T) {
	d := newAgents(t, `echo '{"text":"no"}'`, "")
	root := d.session()
	for _, tt := range []struct{ args, code, says string }{
		{`,"mode":"bypassPermissions"}`, "mode_not_allowed", "looser"},
		{`,"mode":"wild"}`, "invalid_arguments", "unknown mode"},
		{`,"subagent_type":"Nobody"}`, "invalid_arguments", "Explore, Plan, general-purpose"},
		{`,"team_name":"nobody"}`, "team_not_found", "nobody"},
		{`,"isolation":"container"}`, "invalid_arguments", "isolation"},
		{`,"isolation":"worktree"}`, "no_repository", "no git repository"},
		{`,"resume":"` + root + `"}`, "agent_not_found", ""},
		{`,"resume":"x","name":"y"}`, "invalid_arguments", "exclude"},
		{`,"name":""}`, "invalid_arguments", "name"},
		{`,"name":"a/b"}`, "validation_error", "name"},
		{`,"maxTurns":0}`, "invalid_arguments", "maxTurns"},
		{`,"max_turns":3}`, "invalid_arguments", "max_turns"},
		{`,"colour":"red"}`, "invalid_arguments", "colour"},
	} {
		d.refuses(root, "Agent", ask+tt.args, tt.code, tt.says)
	}
	d.refuses(root, "Agent", `{"prompt":"x"}`, "invalid_arguments", "description")
	d.refuses(root, "Agent", `{"prompt":" ","description":"x"}`, "invalid_arguments", "prompt")
	found, _ := filepath.Glob(filepath.Join(d.work, "spawn/order-*"))
	var all []any
	d.does(d.agent, http.MethodGet, "/agents", nil, &all)
	if len(found) != 0 || len(all) != 1 {
		t.Errorf("programs ran: %v; there are %d sessions", found, len(all))
	}
}

// TestN05_WhatProgramsAnswer: everything but one good object is an error, and the daemon goes on.
func TestN05_WhatProgramsAnswer(t *testing.T) {
	d := newAgents(t, `. "$cwd/act"`, "")
	root := d.session()
	for _, tt := range []struct{ name, act, code, says string }{
		{"nothing", ``, "spawner_failed", "not one JSON object"},
		{"no JSON", `echo hello`, "spawner_failed", "not one JSON object"},
		{"two objects", `echo '{"text":"a"}{"text":"b"}'`, "spawner_failed", "after the end of the JSON value"},
		{"text behind it", `echo '{"text":"a"} done'`, "spawner_failed", "after the end of the JSON value"},
		{"a wrong type", `echo '{"text":1}'`, "spawner_failed", "form"},
		{"an unknown key", `echo '{"text":"a","x":1}'`, "spawner_failed", "form"},
		{"no text", `echo '{"is_error":false}'`, "spawner_failed", "no text"},
		{"an exit code", `echo '{"text":"a"}'; exit 3`, "spawner_failed", "exit status 3"},
		{"a signal", `kill -9 $$`, "spawner_failed", "killed"},
		{"100 MB", `yes 1234567890 | head -c 100000000`, "spawner_failed", "larger than"},
		{"an error", `echo '{"text":"it broke","is_error":true}'`, "agent_failed", "it broke"},
	} {
		d.write("ws/act", tt.act)
		t.Log(tt.name)
		d.refuses(root, "Agent", ask+`}`, tt.code, tt.says)
	}
	d.write("ws/act", `echo '{"text":""}'`)
	if r := d.call(root, "Agent", ask+`}`); r.FinalText != "(Subagent completed with no text output)" {
		t.Errorf("got %+v", r)
	}
	if rss := residentMB(t, d.cmd.Process.Pid); rss > 250 {
		t.Errorf("the daemon has %d MB", rss)
	}
}

func residentMB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb / 1024
}

// TestN02_AnAgentReachesItsOwnSessionAlone: whatever its program asks for, and however it starts others.
func TestN02_AnAgentReachesItsOwnSessionAlone(t *testing.T) {
	d := newAgents(t, `
code() { ask "$@" | grep -o '"code":"[a-z_]*"' | head -1; }
{
	echo parent $(code "http://x/sessions/$(field parent_session_id)")
	echo list $(code http://x/sessions)
	echo new $(code -d '{}' http://x/sessions)
	echo agents $(code http://x/agents)
	echo versioned $(code "http://x/v1/sessions/$(field parent_session_id)/tasks")
	echo decide $(code -d "{\"session_id\":\"$(field parent_session_id)\",\"tool\":\"Read\",\"args\":{}}" http://x/decide)
	echo operator $(socket=${socket%a.sock}o.sock; code http://x/status)
	echo child $(env -i /bin/bash -c "curl -s --unix-socket $socket http://x/sessions" | grep -o '"code":"[a-z_]*"')
	echo own $(code "http://x/sessions/$id")
	echo loose $(code -X PATCH -d '{"mode":"bypassPermissions"}' "http://x/sessions/$id")
	echo spawn $(call Agent '{"prompt":"x","description":"y"}' | grep -o '"status":"[A-Z_]*"')
} > "$here/answers"
echo '{"text":"done"}'
`, "")
	if r := d.call(d.session(), "Agent", ask+`}`); r.Status != client.StatusSuccess {
		t.Fatalf("got %+v\n%s", r, d.log)
	}
	want := `parent "code":"not_its_session"
list "code":"not_its_session"
new "code":"not_its_session"
agents "code":"not_its_session"
versioned "code":"not_its_session"
decide "code":"not_its_session"
operator "code":"not_an_operator"
child "code":"not_its_session"
own
loose "code":"operator_only"
spawn "status":"NOT_FOUND"
`
	if got := d.read("spawn/answers"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestN09_AnAgentInTheBackground: the call is answered at once, and its job has the answer.
func TestN09_AnAgentInTheBackground(t *testing.T) {
	d := newAgents(t, `until [ -e "$cwd/go" ]; do sleep 0.05; done; echo '{"text":"found it"}'`, "")
	root := d.session()
	r := d.call(root, "Agent", ask+`,"run_in_background":true}`)
	data := dataOf(t, r)
	if r.Status != client.StatusSuccess || !strings.HasPrefix(data.Job, "job_") || data.Session == "" ||
		!strings.Contains(r.FinalText, data.Job) || data.Agent != "general-purpose-1" {
		t.Fatalf("got %+v\n%s", r, d.log)
	}
	var all []struct {
		Session string `json:"session_id"`
		State   string
	}
	d.does(d.agent, http.MethodGet, "/agents", nil, &all)
	if len(all) != 2 || all[1].State != "running" {
		t.Errorf("got %+v", all)
	}
	d.refuses(root, "Agent", ask+`,"resume":"`+data.Session+`"}`, "agent_runs", "already")
	d.write("ws/go", "")
	if r := d.call(root, "TaskOutput", `{"task_id":"`+data.Job+`","block":true}`); !strings.Contains(r.FinalText, "found it") {
		t.Errorf("got %+v", r)
	}
	// The same session goes on.
	if r := d.call(root, "Agent", ask+`,"resume":"`+data.Session+`"}`); dataOf(t, r).Session != data.Session {
		t.Errorf("got %+v", r)
	}
	if err := os.Remove(filepath.Join(d.ws, "go")); err != nil {
		t.Fatal(err)
	}
	stopped := dataOf(t, d.call(root, "Agent", ask+`,"run_in_background":true}`)).Job
	if r := d.call(root, "TaskStop", `{"task_id":"`+stopped+`"}`); !strings.Contains(r.FinalText, "killed by the agent") {
		t.Errorf("got %+v", r)
	}
}

// TestN09_AnAgentInAWorktree: hooks of the repository do not run, and only a worktree that was changed
// stays.
func TestN09_AnAgentInAWorktree(t *testing.T) {
	d := newAgents(t, `
call Bash '{"command":"pwd; git status --porcelain"}' > "$here/seen"
[ -e "$cwd/../../change" ] && call Write '{"file_path":"new.txt","content":"x"}' > "$here/wrote"
echo '{"text":"done","tool_calls":["Write"]}'
`, "")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = d.ws, append(os.Environ(), "HOME="+d.home)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	d.write("ws/a", "a\n")
	git("init", "-q")
	git("add", "a")
	git("commit", "-qm", "one")
	for _, hook := range []string{"post-checkout", "pre-commit", "reference-transaction"} {
		d.write("ws/.git/hooks/"+hook, "#!/bin/sh\necho ran >> "+d.ws+"/hooked\n")
		if err := os.Chmod(filepath.Join(d.ws, ".git/hooks", hook), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root := d.session()
	r := d.call(root, "Agent", ask+`,"isolation":"worktree","name":"w"}`)
	if r.Status != client.StatusSuccess || dataOf(t, r).Worktree != nil || strings.Contains(r.FinalText, "Worktree") {
		t.Fatalf("got %+v\n%s", r, d.log)
	}
	if seen := d.read("spawn/seen"); !strings.Contains(seen, d.ws+"/.worktrees/w") {
		t.Errorf("it worked in %s", seen)
	}
	if list := git("worktree", "list"); strings.Count(list, "\n") != 1 || strings.Contains(git("branch"), "worktree") {
		t.Errorf("something is left: %s%s", list, git("branch"))
	}
	d.write("ws/change", "")
	r = d.call(root, "Agent", ask+`,"isolation":"worktree","name":"x"}`)
	data := dataOf(t, r)
	if data.Worktree == nil || data.Worktree.Path != d.ws+"/.worktrees/x" || data.Worktree.Branch != "worktree-x" ||
		r.FinalText != "done\n[Worktree kept: "+d.ws+"/.worktrees/x (branch: worktree-x)]\n[Tools used: Write]" {
		t.Errorf("got %+v\n%s", r, d.read("spawn/wrote"))
	}
	if text := d.read("ws/.worktrees/x/new.txt"); text != "x" {
		t.Errorf("got %q", text)
	}
	if _, err := os.Stat(filepath.Join(d.ws, "hooked")); err == nil {
		t.Error("a hook of the repository ran")
	}
	if status := git("status", "--porcelain"); status != "?? change\n" {
		t.Errorf("the repository has %q", status)
	}
}

// TestN39_HooksOfAgents, and events: people see who starts and who ends, and in which team it was.
func TestN39_HooksOfAgents(t *testing.T) {
	d := newAgents(t, `[ "$agent" = bad ] && exit 1; echo '{"text":"secret words"}'`, `hooks:
  subagentStart: [{command: 'read -r in; case "$in" in *agentType*Plan*) echo "not now" >&2; exit 2;; esac'}]
  subagentStop: [{command: 'cat >> HERE/stop; echo >> HERE/stop'}]
  teammateIdle: [{command: 'cat >> HERE/idle; echo >> HERE/idle'}]
`)
	config := strings.ReplaceAll(d.read("config.yaml"), "HERE", filepath.Join(d.work, "spawn"))
	d.stop(os.Interrupt)
	d.write("config.yaml", config)
	d.start()
	root := d.session()
	watched, err := d.operator.Events(t.Context(), client.EventFilter{Types: []string{"agent_started", "agent_ended"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan client.Event, 10)
	go func() {
		for e, err := range watched {
			if err != nil {
				return
			}
			seen <- e
		}
	}()
	d.refuses(root, "Agent", ask+`,"subagent_type":"Plan"}`, "hook_blocked", "not now")
	d.call(root, "TeamCreate", `{"name":"crew","members":["anna"]}`)
	good := d.call(root, "Agent", ask+`,"name":"anna","team_name":"crew"}`)
	d.refuses(root, "Agent", ask+`,"name":"bad","team_name":"crew"}`, "spawner_failed", "exit status 1")
	stop := d.read("spawn/stop")
	if strings.Count(stop, "\n") != 2 || !strings.Contains(stop, `"agentId":"`+dataOf(t, good).Session+`"`) ||
		!strings.Contains(stop, `"sessionId":"`+root+`"`) || !strings.Contains(stop, `"agentType":"general-purpose"`) {
		t.Errorf("subagentStop heard %s", stop)
	}
	if idle := d.read("spawn/idle"); strings.Count(idle, "\n") != 2 || !strings.Contains(idle, `"teammateName":"anna"`) ||
		!strings.Contains(idle, `"teammateName":"bad"`) || !strings.Contains(idle, `"teamName":"crew"`) {
		t.Errorf("teammateIdle heard %s", idle)
	}
	var got []string
	for range 4 { // nothing of the one that was blocked
		select {
		case e := <-seen:
			got = append(got, strings.Join([]string{e.Type, e.Agent, e.Status}, " "))
		case <-time.After(time.Minute):
			t.Fatalf("the watcher saw %q", got)
		}
	}
	want := "agent_started anna , agent_ended anna success, agent_started bad , agent_ended bad error"
	if strings.Join(got, ", ") != want {
		t.Errorf("the watcher saw %q", got)
	}
}

// TestN01_AgentsEndWithWhoeverStartedThem: with the session above, with the call, and with the daemon,
// also when that is killed. What their programs started ends too.
func TestN01_AgentsEndWithWhoeverStartedThem(t *testing.T) {
	mark := newNap()
	d := newAgents(t, `trap '' TERM; sleep `+mark+` & sleep `+mark+`; echo '{"text":"done"}'`, "")
	begin := func(root string, n int) {
		t.Helper()
		for range n {
			if r := d.call(root, "Agent", ask+`,"run_in_background":true}`); r.Status != client.StatusSuccess {
				t.Fatalf("got %+v", r)
			}
		}
		if !waitFor(func() bool { return len(withWord(mark)) == 2*n }) {
			t.Fatalf("%d programs run", len(withWord(mark)))
		}
	}
	gone := func(what string) {
		t.Helper()
		if !waitFor(func() bool { return len(withWord(mark)) == 0 }) {
			t.Errorf("%s: %d programs run on", what, len(withWord(mark)))
		}
	}
	root := d.session()
	begin(root, 3)
	d.does(d.agent, http.MethodDelete, "/sessions/"+root, nil, nil)
	if n := len(withWord(mark)); n != 0 {
		t.Errorf("the session was deleted, and %d programs run on", n)
	}
	root = d.session()
	begin(root, 10)
	d.stop(syscall.SIGKILL)
	gone("the daemon was killed")
	d.start()
	var all []any
	d.does(d.agent, http.MethodGet, "/agents", nil, &all)
	if len(all) != 11 {
		t.Errorf("there are %d sessions", len(all))
	}
}

// TestN38_AgentsWorkAtTheSameTime: a leader makes tasks, starts an agent for each, and they do them.
func TestN38_AgentsWorkAtTheSameTime(t *testing.T) {
	d := newAgents(t, `
echo here > "$here/at-$agent"
until [ $(ls "$here"/at-* | wc -l) = 4 ]; do sleep 0.05; done   # all of them work
n=${agent##*-}
call TaskUpdate "{\"id\":\"task_$n\",\"status\":\"in_progress\",\"owner\":\"$agent\",\"expected_status\":\"pending\"}" > /dev/null
call TaskUpdate "{\"id\":\"task_$n\",\"status\":\"completed\",\"output\":\"module $n\"}" > /dev/null
call SendMessage "{\"to\":\"self\",\"message\":\"$n is done\"}" > /dev/null
echo "{\"text\":\"module $n is fine\",\"tool_calls\":[\"TaskUpdate\"]}"
`, "")
	root := d.session()
	var wg sync.WaitGroup
	d.call(root, "TeamCreate", `{"name":"crew"}`)
	for i := 1; i <= 4; i++ {
		d.call(root, "TaskCreate", fmt.Sprintf(`{"subject":"module %d"}`, i))
	}
	for i := 1; i <= 4; i++ {
		wg.Go(func() {
			r := d.call(root, "Agent", ask+fmt.Sprintf(`,"name":"worker-%d","team_name":"crew"}`, i))
			if want := fmt.Sprintf("module %d is fine", i); !strings.HasPrefix(r.FinalText, want) {
				t.Errorf("got %+v\n%s", r, d.log)
			}
		})
	}
	wg.Wait()
	list := d.call(root, "TaskList", `{"status":"completed"}`).FinalText
	mail := d.call(root, "ReadMailbox", `{}`).FinalText
	for i := 1; i <= 4; i++ {
		if !strings.Contains(list, fmt.Sprintf("[task_%d] COMPLETED - module %d (owner: worker-%d)", i, i, i)) ||
			!strings.Contains(mail, fmt.Sprintf("worker-%d to self (text): %d is done", i, i)) {
			t.Errorf("got %s\n%s", list, mail)
		}
	}
}
