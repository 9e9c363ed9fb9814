package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// answers makes a call that must answer with this text.
func (d *running) answers(session, name, args, want string) {
	d.t.Helper()
	if r := d.call(session, name, args); r.FinalText != want {
		d.t.Errorf("%s %s: %s\ngot  %q\nwant %q", name, args, r.Status, r.FinalText, want)
	}
}

// refuses makes a call that must end with an error of this code, and a message that says this.
func (d *running) refuses(session, name, args, code, says string) {
	d.t.Helper()
	r := d.call(session, name, args)
	if r.Status != client.StatusError || r.Error == nil || r.Error.Code != code || !strings.Contains(r.FinalText, says) {
		d.t.Errorf("%s %s: got %s %+v %q, want %s %q", name, args, r.Status, r.Error, r.FinalText, code, says)
	}
}

func TestN15_N17_N19_TaskTools(t *testing.T) {
	d := newDaemon(t, "")
	root := d.session()
	kid := d.child(root, "kid", `{}`)
	d.answers(root, "TaskList", `{}`, "No tasks found.")
	d.answers(root, "TaskCreate", `{"subject":"port \"the\" parser"}`, `Task created: task_1 - "port "the" parser" (pending)`)
	d.answers(kid, "TaskCreate", `{"subject":"S","owner":"o","description":"d","status":"in_progress"}`,
		`Task created: task_2 - "S" (inProgress)`)
	d.answers(root, "TaskList", `{}`, "[task_1] PENDING - port \"the\" parser\n[task_2] INPROGRESS - S (owner: o)")
	d.answers(root, "TaskList", `{"owner":"o","status":"inProgress"}`, "[task_2] INPROGRESS - S (owner: o)")
	d.answers(root, "TaskUpdate", `{"id":"task_2","status":"completed","output":"fixed"}`, `Task updated: task_2 - completed - "S"`)
	if r := d.call(kid, "TaskOutput", `{"task_id":"task_2"}`); r.Status != client.StatusSuccess ||
		!strings.HasPrefix(r.FinalText, "fixed\n") {
		t.Errorf("got %+v", r)
	}
	d.refuses(root, "TaskUpdate", `{"id":"task_2","status":"in_progress","owner":"x"}`, "invalid_status_transition",
		"Error: Cannot transition task from completed to inProgress")
	d.refuses(root, "TaskStop", `{"id":"task_2"}`, "invalid_status_transition", "from completed to cancelled")
	d.refuses(root, "TaskUpdate", `{"id":"task_9"}`, "task_not_found", "Task not found: task_9")
	d.refuses(root, "TaskUpdate", `{"id":"task_1","status":"done"}`, "validation_error", "unknown status")
	d.refuses(root, "TaskList", `{"status":"open"}`, "validation_error", "unknown status")
	d.refuses(root, "TaskCreate", `{"subject":" "}`, "validation_error", "subject is empty")
	d.refuses(root, "TaskUpdate", `{"id":"task_1","status":"inProgress","owner":"a","expected_owner":"b"}`, "task_changed", "owner")
	d.refuses(root, "TaskOutput", `{"id":"task_1","task_id":"task_1"}`, "invalid_arguments", "exactly one")
	d.refuses(root, "TaskOutput", `{"id":"7"}`, "job_not_found", "")
	d.answers(root, "TaskStop", `{"id":"task_1","reason":"no need"}`, "Task stopped: task_1")
	if r := d.call(kid, "TaskGet", `{"id":"task_1"}`); !strings.Contains(r.FinalText, `"status": "cancelled"`) ||
		!strings.Contains(r.FinalText, `"output": "Stopped: no need"`) || !strings.Contains(r.FinalText, `"created_at"`) {
		t.Errorf("got %q", r.FinalText)
	}
	// Jobs follow the tasks of their session, unless the list is filtered.
	job := d.begin(kid, `{"command":"sleep 60","run_in_background":true}`)
	if r := d.call(kid, "TaskList", `{}`); !strings.Contains(r.FinalText, "[task_2] COMPLETED") ||
		!strings.HasSuffix(r.FinalText, "\n"+job+" running  sleep 60") {
		t.Errorf("got %q", r.FinalText)
	}
	for _, x := range []struct{ session, args string }{{kid, `{"status":"pending"}`}, {root, `{}`}} {
		if r := d.call(x.session, "TaskList", x.args); strings.Contains(r.FinalText, "job_") {
			t.Errorf("%s: %q", x.args, r.FinalText)
		}
	}
	if r := d.call(kid, "TaskStop", `{"id":"`+job+`"}`); !strings.Contains(r.FinalText, "killed by the agent") {
		t.Errorf("got %+v", r)
	}

	stranger := d.session()
	d.answers(stranger, "TaskList", `{}`, "No tasks found.")
	d.answers(stranger, "TaskCreate", `{"subject":"mine"}`, `Task created: task_1 - "mine" (pending)`)

	d.stop(syscall.SIGKILL)
	d.start()
	d.answers(root, "TaskList", `{"status":"completed"}`, "[task_2] COMPLETED - S (owner: o)")
	out, err := d.exec("sandboxd", "tasks", "list", "--session", kid)
	if lines := strings.Split(out, "\n"); err != nil || !strings.HasPrefix(lines[2], "task_2  completed  o ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := d.exec("sandboxd", "tasks", "list", "--session", "nobody"); err == nil || !strings.Contains(out, "hint:") {
		t.Errorf("an unknown session: %v\n%s", err, out)
	}
	d.does(d.agent, http.MethodDelete, "/sessions/"+kid, nil, nil)
	d.answers(root, "TaskList", `{"status":"completed"}`, "[task_2] COMPLETED - S (owner: o)")
}

func TestN12_TasksOverHTTP(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	var task map[string]any
	d.does(d.agent, http.MethodPost, "/sessions/"+s+"/tasks",
		map[string]any{"subject": "S", "blocked_by": []string{"task_7"}, "metadata": map[string]string{"k": "v"}}, &task)
	if task["id"] != "task_1" || task["status"] != "pending" || task["created_at"] != task["updated_at"] {
		t.Errorf("got %v", task)
	}
	at := "/sessions/" + s + "/tasks/task_1"
	d.does(d.operator, http.MethodPatch, at, map[string]any{"status": "in_progress", "owner": "me", "expect": map[string]any{"status": "pending", "owner": ""}}, &task)
	if task["status"] != "inProgress" || task["owner"] != "me" {
		t.Errorf("got %v", task)
	}
	for _, tt := range []struct {
		method, path, code string
		in                 any
	}{
		{http.MethodPatch, at, "task_changed", map[string]any{"owner": "you", "expect": map[string]any{"owner": ""}}},
		{http.MethodPatch, at, "validation_error", map[string]any{"status": "done"}},
		{http.MethodPatch, at, "validation_error", map[string]any{"colour": "red"}},
		{http.MethodPost, "/sessions/" + s + "/tasks", "validation_error", map[string]any{"subject": ""}},
		{http.MethodPost, "/sessions/" + s + "/tasks", "validation_error", map[string]any{}},
		{http.MethodGet, "/sessions/" + s + "/tasks/task_2", "task_not_found", nil},
		{http.MethodGet, "/sessions/" + s + "/tasks/x", "task_not_found", nil},
		{http.MethodGet, "/sessions/" + s + "/tasks?status=done", "validation_error", nil},
		{http.MethodGet, "/sessions/nobody/tasks", "session_not_found", nil},
		{http.MethodGet, "/sessions/" + s + "/teams/team_1", "team_not_found", nil},
	} {
		if err := d.agent.Do(t.Context(), tt.method, tt.path, tt.in, nil); errorCode(err) != tt.code {
			t.Errorf("%s %s %v: %v", tt.method, tt.path, tt.in, err)
		}
	}
	d.does(d.agent, http.MethodPatch, at, map[string]any{"status": "completed"}, nil)
	err := d.agent.Do(t.Context(), http.MethodPatch, at, map[string]any{"status": "pending"}, nil)
	if errorCode(err) != "invalid_status_transition" {
		t.Errorf("got %v", err)
	}
}

func TestN28_N37_TeamTools(t *testing.T) {
	d := newDaemon(t, "")
	root := d.session()
	a, b := d.child(root, "a", `{}`), d.child(root, "b", `{}`)
	d.answers(root, "TeamCreate", `{"name":"n","members":["a","b","c"]}`, `Team created: team_1 "n" with 3 members`)
	d.refuses(root, "TeamCreate", `{"name":"n","members":["*"]}`, "validation_error", "no name")
	d.answers(root, "SendMessage", `{"to":"a","message":"begin"}`, "Message sent to a")
	d.answers(a, "SendMessage", `{"to":"*","message":"done","type":"text"}`, "Message sent to self, b, c")
	d.refuses(a, "SendMessage", `{"to":"x","message":"m"}`, "recipient_not_found", "self, b, c")
	d.refuses(a, "SendMessage", `{"to":"b","message":"m","from":"root"}`, "invalid_arguments", "from")
	if r := d.call(a, "ReadMailbox", `{}`); !strings.Contains(r.FinalText, "self to a (text): begin") {
		t.Errorf("got %q", r.FinalText)
	}
	if r := d.call(a, "ReadMailbox", `{}`); !strings.HasPrefix(r.FinalText, "No messages.") {
		t.Errorf("got %q", r.FinalText)
	}
	var seen []struct{ From, To, Content, Type, Timestamp string }
	for range 2 {
		d.does(d.agent, http.MethodGet, "/sessions/"+b+"/mailbox", nil, &seen)
	}
	d.does(d.agent, http.MethodPost, "/sessions/"+b+"/mailbox/read", map[string]any{}, &seen)
	if len(seen) != 1 || seen[0].From != "a" || seen[0].Content != "done" || seen[0].To != "b" {
		t.Errorf("got %+v", seen)
	}
	d.does(d.agent, http.MethodPost, "/sessions/"+b+"/mailbox", map[string]any{"to": "self", "message": "x"}, nil)
	if r := d.call(root, "ReadMailbox", `{}`); strings.Count(r.FinalText, " to self (text): ") != 2 {
		t.Errorf("the leader got %q", r.FinalText)
	}
	err := d.agent.Do(t.Context(), http.MethodPost, "/sessions/"+b+"/mailbox", map[string]any{"to": "x", "message": "x"}, nil)
	if errorCode(err) != "recipient_not_found" {
		t.Errorf("got %v", err)
	}
	team := "/sessions/" + root + "/teams/team_1/members"
	d.does(d.agent, http.MethodPost, team, map[string]any{"name": "d"}, nil)
	if err := d.agent.Do(t.Context(), http.MethodPost, team, map[string]any{"name": "d"}, nil); errorCode(err) != "member_exists" {
		t.Errorf("got %v", err)
	}
	d.does(d.agent, http.MethodDelete, team+"/d", nil, nil)
	if err := d.agent.Do(t.Context(), http.MethodDelete, team+"/d", nil, nil); errorCode(err) != "member_not_found" {
		t.Errorf("got %v", err)
	}
	d.refuses(d.session(), "SendMessage", `{"to":"a","message":"m"}`, "not_in_team", "self")
}

// TestN39_HooksOfTasks: one may refuse a task, and the other hears of each that is completed, once.
func TestN39_HooksOfTasks(t *testing.T) {
	d := newPlaces(t, "")
	said := filepath.Join(d.work, "said")
	d.write("config.yaml", fmt.Sprintf(`hooks:
  taskCreated: [{command: 'read -r in; case "$in" in *forbidden*) echo "no such work" >&2; exit 2;; esac'}]
  taskCompleted: [{command: 'cat >> %s; echo >> %s'}]
`, said, said))
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.start()
	s := d.session()
	d.refuses(s, "TaskCreate", `{"subject":"forbidden"}`, "hook_blocked", "no such work")
	d.answers(s, "TaskList", `{}`, "No tasks found.")
	var task struct{ ID string }
	d.does(d.agent, http.MethodPost, "/sessions/"+s+"/tasks", map[string]any{"subject": "good"}, &task)
	for _, c := range []string{`"owner":"a"`, `"status":"inProgress"`, `"status":"completed"`, `"output":"x"`} {
		d.call(s, "TaskUpdate", `{"id":"`+task.ID+`",`+c+`}`)
	}
	text, err := os.ReadFile(said)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"taskId":"`+task.ID+`"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestN38_AWorkQueueOfThreeWorkers: a leader makes tasks, three workers claim them one by one, and a
// watcher sees each step.
func TestN38_AWorkQueueOfThreeWorkers(t *testing.T) {
	d := newDaemon(t, "")
	root := d.session()
	watched, err := d.operator.Events(t.Context(), client.EventFilter{Types: []string{"task_created", "task_updated"}})
	if err != nil {
		t.Fatal(err)
	}
	const tasks = 30
	steps := make(chan string, 3*tasks)
	go func() {
		defer close(steps)
		n := 0
		for e, err := range watched {
			if err != nil || n == 3*tasks {
				return
			}
			n++
			steps <- e.Status
			if n == 3*tasks {
				return
			}
		}
	}()
	for i := range tasks {
		d.call(root, "TaskCreate", fmt.Sprintf(`{"subject":"fix bug %d"}`, i))
	}
	var wg sync.WaitGroup
	for i := range 3 {
		name := fmt.Sprintf("worker-%d", i)
		me := d.child(root, name, `{}`)
		wg.Go(func() {
			for {
				list := d.call(me, "TaskList", `{"status":"pending"}`).FinalText
				if list == "No tasks found." {
					return
				}
				id, _, _ := strings.Cut(strings.TrimPrefix(list, "["), "]")
				r := d.call(me, "TaskUpdate", `{"id":"`+id+`","status":"in_progress","owner":"`+name+`","expected_status":"pending"}`)
				if r.Status != client.StatusSuccess {
					if r.Error.Code != "task_changed" {
						t.Errorf("got %+v", r.Error)
					}
					continue
				}
				d.call(me, "TaskUpdate", `{"id":"`+id+`","status":"completed","output":"by `+name+`","expected_owner":"`+name+`"}`)
			}
		})
	}
	wg.Wait()
	var all []struct{ ID, Status, Owner, Output string }
	d.does(d.agent, http.MethodGet, "/sessions/"+root+"/tasks?limit=100", nil, &all)
	for _, task := range all {
		if task.Status != "completed" || task.Output != "by "+task.Owner {
			t.Errorf("got %+v", task)
		}
	}
	if len(all) != tasks {
		t.Errorf("there are %d tasks", len(all))
	}
	seen := map[string]int{}
	timeout := time.After(time.Minute)
	for n := 0; n < 3*tasks; n++ {
		select {
		case status, ok := <-steps:
			if !ok {
				t.Fatalf("the watcher saw %v", seen)
			}
			seen[status]++
		case <-timeout:
			t.Fatalf("the watcher saw %v", seen)
		}
	}
	for _, status := range []string{"pending", "inProgress", "completed"} {
		if seen[status] != tasks {
			t.Errorf("the watcher saw %v", seen)
		}
	}
}
