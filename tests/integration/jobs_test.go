package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// begin starts a job and returns its id.
func (d *running) begin(session, args string) string {
	d.t.Helper()
	r := d.call(session, "Bash", args)
	data, _ := r.Data.(map[string]any)
	id, _ := data["job_id"].(string)
	if r.Status != client.StatusSuccess || !strings.HasPrefix(id, "job_") {
		d.t.Fatalf("%s: got %+v", args, r)
	}
	return id
}

// job is what the daemon knows of a job when it has ended.
func (d *running) ended(id string) client.Job {
	d.t.Helper()
	var j client.Job
	if !waitFor(func() bool {
		var err error
		j, err = d.agent.Job(d.t.Context(), id)
		return err == nil && j.State != "running"
	}) {
		d.t.Fatalf("the job does not end: %+v", j)
	}
	return j
}

func errorCode(err error) string {
	var e *client.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

// TestT44_ABackgroundCallIsAnsweredAtOnce: its output and its exit code can be had later, and
// its end is in the record and in a variable.
func TestT44_ABackgroundCallIsAnsweredAtOnce(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	// It ends when it is told, and it is told only after it was answered.
	id := d.begin(s, `{"command":"echo begun; until [ -e go ]; do sleep 0.01; done; echo done >&2; exit 7","run_in_background":true}`)
	if j, err := d.agent.Job(t.Context(), id); err != nil || j.State != "running" || j.ExitCode != nil {
		t.Errorf("got %+v, %v", j, err)
	}
	if r := d.call(s, "TaskOutput", `{"task_id":"`+id+`","block":true,"timeout":10}`); !strings.Contains(r.FinalText, id+" running") {
		t.Errorf("got %q", r.FinalText)
	}
	d.write("ws/go", "")
	j := d.ended(id)
	if j.State != "exited" || *j.ExitCode != 7 || j.Status != "SUCCESS" {
		t.Errorf("got %+v", j)
	}
	if r := d.call(s, "TaskOutput", `{"id":"`+id+`"}`); !strings.Contains(r.FinalText, "exited, exit code 7\nbegun\ndone\n") {
		t.Errorf("got %q", r.FinalText)
	}
	if r := d.call(s, "ReadVar", `{"name":"`+j.Variable+`"}`); !strings.Contains(r.FinalText, "begun\ndone\nExit code: 7") {
		t.Errorf("the variable has %q", r.FinalText)
	}
	out, err := d.exec("sandboxd", "audit", "tail", "-n", "50", "--json")
	if err != nil || strings.Count(out, `"call":"`+j.Call+`"`) != 2 || !strings.Contains(out, `"exit":7`) {
		t.Errorf("the record: %v\n%s", err, out)
	}
}

// TestACommandBecomesAJobAtItsTimeout: if its caller wants that; one that ends in time is
// answered as ever, and is no job.
func TestACommandBecomesAJobAtItsTimeout(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	r := d.call(s, "Bash", `{"command":"mkdir sub; echo quick; exit 3","timeout":60000,"on_timeout":"background"}`)
	if r.Status != client.StatusSuccess || !strings.HasPrefix(r.FinalText, "quick\nExit code: 3") {
		t.Errorf("got %+v", r)
	}
	if all, err := d.agent.Jobs(t.Context(), s); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
	args := `{"command":"echo slow; until [ -e go ]; do sleep 0.01; done; echo end","timeout":%d,"on_timeout":"background"}`
	data := d.becomesJob(s, "Bash", args, "slow\n")
	id, _ := data["job_id"].(string)
	d.write("ws/go", "")
	if j := d.ended(id); j.State != "exited" || *j.ExitCode != 0 {
		t.Errorf("got %+v", j)
	}
	if r := d.call(s, "exec_command", `{"cmd":"pwd","workdir":"sub"}`); !strings.Contains(r.FinalText, "ws/sub\n") {
		t.Errorf("got %+v", r)
	}
	data = d.becomesJob(s, "exec_command", `{"cmd":"echo on; sleep 600","yield_time_ms":%d}`, "on\n")
	if data["session_id"] != data["job_id"] {
		t.Errorf("got %+v", data)
	}
	if r := d.call(s, "write_stdin", fmt.Sprintf(`{"session_id":%q,"yield_time_ms":0}`, data["job_id"])); !strings.Contains(r.FinalText, " running") {
		t.Errorf("got %+v", r)
	}
}

// becomesJob makes a call that becomes a job after the milliseconds that are put into args, and is
// answered with the output so far. On a busy machine the program may not have written by then: it is
// called again with more time.
func (d *running) becomesJob(session, name, args, output string) map[string]any {
	d.t.Helper()
	for ms := 300; ; ms *= 20 {
		r := d.call(session, name, fmt.Sprintf(args, ms))
		data, _ := r.Data.(map[string]any)
		id, _ := data["job_id"].(string)
		printed, _ := data["output"].(string)
		if id != "" && printed == output {
			return data
		}
		if id == "" || printed != "" || ms > 60_000 {
			d.t.Fatalf("%s after %d ms: got %+v", name, ms, r)
		}
	}
}

// TestADayWithADevServer: an agent starts a server, edits, sees it reload, asks it, reads its
// log and stops it.
func TestADayWithADevServer(t *testing.T) {
	d := newDaemon(t, "")
	d.write("ws/server.py", `
import http.server, importlib, os, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        at = os.stat("page.py").st_mtime_ns
        if at != H.at:
            print("reloaded page.py", flush=True); H.at = at; importlib.reload(page)
        self.send_response(200); self.end_headers(); self.wfile.write(page.text.encode())
sys.dont_write_bytecode = True
sys.path.insert(0, ".")
import page
H.at = os.stat("page.py").st_mtime_ns
s = http.server.HTTPServer(("127.0.0.1", 8317), H)
print("listening on 8317", flush=True)
s.serve_forever()
`)
	d.write("ws/page.py", "text = 'good morning'\n")
	needs.Program(t, "python3")
	s := d.session()
	id := d.begin(s, `{"command":"exec python3 server.py","run_in_background":true}`)
	logs := func() string {
		o, err := d.agent.ReadJob(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		return o.Output
	}
	if !waitFor(func() bool { return strings.Contains(logs(), "listening") }) {
		t.Fatalf("the log: %s", logs())
	}
	ask := `{"command":"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8317/\").read().decode())'"}`
	if r := d.call(s, "Bash", ask); !strings.HasPrefix(r.FinalText, "good morning\n") {
		t.Fatalf("the server said %+v", r)
	}
	d.call(s, "Read", `{"file_path":"page.py"}`)
	if r := d.call(s, "Edit", `{"file_path":"page.py","old_string":"good morning","new_string":"good evening, all"}`); r.Status != client.StatusSuccess {
		t.Fatalf("the edit: %+v", r)
	}
	if r := d.call(s, "Bash", ask); !strings.HasPrefix(r.FinalText, "good evening, all\n") {
		t.Errorf("after the edit the server said %+v", r)
	}
	if r := d.call(s, "BashOutput", `{"bash_id":"`+id+`","filter":"reloaded"}`); !strings.HasSuffix(strings.TrimSpace(r.FinalText), "reloaded page.py") &&
		!strings.Contains(r.FinalText, "\nreloaded page.py\n") {
		t.Errorf("the log: %q", r.FinalText)
	}
	if r := d.call(s, "TaskStop", `{"task_id":"`+id+`"}`); !strings.Contains(r.FinalText, "killed by the agent") {
		t.Errorf("got %q", r.FinalText)
	}
	if r := d.call(s, "Bash", ask); !strings.Contains(r.FinalText, "Connection refused") {
		t.Errorf("the server still answers: %+v", r)
	}
	if r := d.call(s, "TaskList", `{}`); !strings.Contains(r.FinalText, id+" killed by the agent") {
		t.Errorf("got %q", r.FinalText)
	}
}

// TestNothingOfAJobIsLeft: whatever it does against that, and however it is ended.
func TestNothingOfAJobIsLeft(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	for _, tt := range []struct {
		name, command string
		end           func(session, id string)
		state         string
	}{
		{"it ignores TERM", "trap '' TERM HUP INT; while :; do sleep 0.05; done", nil, "killed"},
		{"it forks away", "for i in 1 2 3; do setsid sh -c 'trap \\\"\\\" TERM; setsid sleep 100000 & sleep 100000' & done; wait", nil, "killed"},
		{"it is stopped", "sleep 100000 & until [ \\\"$(cat /proc/$!/comm)\\\" = sleep ]; do :; done; kill -STOP $! $$", nil, "killed"},
		{"its call is cancelled", "sleep 100000", func(_, id string) {
			j, err := d.agent.Job(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.agent.Do(t.Context(), "POST", "/calls/"+j.Call+"/cancel", nil, nil); err != nil {
				t.Fatal(err)
			}
		}, "killed"},
		{"its session is deleted", "trap '' TERM; sleep 100000", func(session, _ string) {
			if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+session, nil, nil); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := d.session()
			mark := fmt.Sprintf("MARK_%d=%d", time.Now().UnixNano(), os.Getpid())
			id := d.begin(s, `{"command":"export `+mark+`; echo up; `+tt.command+`","run_in_background":true}`)
			if !waitFor(func() bool { return len(withEnv(mark)) > 0 || tt.state == "" }) {
				t.Fatal("it is not there")
			}
			if tt.end == nil {
				if j, err := d.agent.StopJob(t.Context(), id); err != nil || j.By != "the agent" {
					t.Errorf("got %+v, %v", j, err)
				}
			} else {
				tt.end(s, id)
			}
			if tt.state == "" {
				if _, err := d.agent.Job(t.Context(), id); errorCode(err) != "job_not_found" {
					t.Errorf("got %v", err)
				}
			} else if j := d.ended(id); j.State != tt.state {
				t.Errorf("got %+v", j)
			}
			if left := withEnv(mark); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// withEnv are the processes that have this in their environment.
func withEnv(v string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && slices.Contains(strings.Split(string(b), "\x00"), v) {
			pids = append(pids, path)
		}
	}
	return pids
}

// TestADaemonThatIsKilledWithFiftyJobs: nothing of them is left, each is told as lost, and
// what they printed can be read.
func TestADaemonThatIsKilledWithFiftyJobs(t *testing.T) {
	d := newDaemon(t, "jobs: {perSession: 50}\n")
	s := d.session()
	mark := fmt.Sprintf("MARK_%d=%d", time.Now().UnixNano(), os.Getpid())
	for i := range 50 {
		d.begin(s, fmt.Sprintf(`{"command":"export %s; echo job %d; sleep 100000 & wait","run_in_background":true}`, mark, i))
	}
	if r := d.call(s, "Bash", `{"command":"true","run_in_background":true}`); r.Error == nil || r.Error.Code != "too_many_jobs" {
		t.Errorf("one more: %+v", r)
	}
	if !waitFor(func() bool { return len(withEnv(mark)) >= 50 }) {
		t.Fatal("they are not there")
	}
	d.stop(syscall.SIGKILL)
	if !waitFor(func() bool { return len(withEnv(mark)) == 0 }) {
		t.Errorf("left: %v", withEnv(mark))
	}
	d.start()
	all, err := d.agent.Jobs(t.Context(), s)
	if err != nil || len(all) != 50 {
		t.Fatalf("got %d, %v", len(all), err)
	}
	for _, j := range all {
		o, err := d.agent.ReadJob(t.Context(), j.ID, 0)
		if err != nil || j.State != "lost" || !strings.HasPrefix(o.Output, "job ") {
			t.Errorf("got %+v, %v", o, err)
		}
	}
	out, err := d.exec("sandboxd", "audit", "tail", "-n", "200", "--json")
	if err != nil || strings.Count(out, `"event":"job_lost"`) != 50 {
		t.Errorf("the record: %v, %d", err, strings.Count(out, `"event":"job_lost"`))
	}
}

// TestTypingIntoAJob: and its end; a program that executes what is typed asks first.
func TestTypingIntoAJob(t *testing.T) {
	d := newDaemon(t, "approvals: {approver: false}\n")
	s := d.session()
	id := d.begin(s, `{"command":"read x; echo got $x; cat","run_in_background":true}`)
	for _, args := range [][]string{{"input", id, "hello"}, {"input", id, "rest", "--end"}} {
		if out, err := d.exec("sandboxd", append([]string{"jobs"}, args...)...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if j := d.ended(id); j.State != "exited" || *j.ExitCode != 0 {
		t.Errorf("got %+v", j)
	}
	if out, err := d.exec("sandboxd", "jobs", "output", id); err != nil || !strings.Contains(out, "got hello\nrest\n") {
		t.Errorf("got %q, %v", out, err)
	}
	if err := d.agent.TypeIntoJob(t.Context(), id, "x", false); errorCode(err) != "job_ended" {
		t.Errorf("after the end: %v", err)
	}
	if r := d.call(s, "Bash", `{"command":"bash","run_in_background":true}`); r.Status != client.StatusExecutionRejected {
		t.Errorf("a shell to type into: %+v", r)
	}
}

// TestWhatAJobPrintsIsBounded: a program that prints without end costs neither disk nor
// memory, and its reader sees what it missed.
func TestWhatAJobPrintsIsBounded(t *testing.T) {
	d := newDaemon(t, "jobs: {outputBytes: 65536, outputRate: 104857600}\n")
	s := d.session()
	id := d.begin(s, `{"command":"head -c 50000000 /dev/zero | tr '\\0' x; printf '\\xc3'; echo; echo end","run_in_background":true}`)
	j := d.ended(id)
	if j.State != "exited" || j.Printed != 50_000_006 {
		t.Fatalf("got %+v", j)
	}
	o, err := d.agent.ReadJob(t.Context(), id, 0)
	if err != nil || o.Offset != j.Printed-65536 || !strings.HasSuffix(o.Output, "x\uFFFD\nend\n") {
		t.Errorf("got %d bytes from %d, %v", len(o.Output), o.Offset, err)
	}
	files, _ := filepath.Glob(filepath.Join(d.work, "state/jobs/*.out"))
	if len(files) != 1 {
		t.Fatalf("got %v", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Size() > 65536+64<<10+16 {
		t.Errorf("the disk has %d bytes, %v", info.Size(), err)
	}
	var followed bytes.Buffer
	if _, err := d.agent.FollowJob(t.Context(), id, j.Printed-4, func(o client.Output) { followed.WriteString(o.Text) }); err != nil || followed.String() != "end\n" {
		t.Errorf("got %q, %v", &followed, err)
	}
}

// TestTheOutputOfJobsIsOnTheAccount: it counts like private files, until the session is deleted.
func TestTheOutputOfJobsIsOnTheAccount(t *testing.T) {
	d := newDaemon(t, "limits: {accountDisk: 1048576, diskReserve: 1048576}\n")
	s := d.session()
	id := d.begin(s, `{"command":"head -c 4000000 /dev/zero | tr '\\0' x","run_in_background":true}`)
	d.ended(id) // by itself, or by the limit, which may see it while it runs
	create := func() error { return d.agent.Do(t.Context(), "POST", "/sessions", map[string]any{}, nil) }
	refused := func() bool { return errorCode(create()) == "account_disk" }
	if !waitFor(refused) {
		t.Fatal("it is not counted")
	}
	if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+s, nil, nil); err != nil {
		t.Fatal(err)
	}
	if !waitFor(func() bool { return create() == nil }) {
		t.Error("there is no room again")
	}
}

// TestA02_HooksMayWithholdAJob: nobody reads what it prints before a hook has seen it.
func TestA02_HooksMayWithholdAJob(t *testing.T) {
	d := newPlaces(t, "")
	d.write("hook", "#!/bin/sh\ngrep -q SECRET && { echo no >&2; exit 2; }\nexit 0\n")
	if err := os.Chmod(filepath.Join(d.work, "hook"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.write("config.yaml", "hooks:\n  postToolUse:\n    - {name: look, matcher: '^Bash$', command: "+filepath.Join(d.work, "hook")+", onError: block}\n")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.start()
	s := d.session()
	for _, tt := range []struct {
		word     string
		released bool
	}{{"SECRET", false}, {"harmless", true}} {
		id := d.begin(s, `{"command":"echo `+tt.word+` | tr -d X; until [ -e `+tt.word+` ]; do sleep 0.01; done","run_in_background":true}`)
		if !waitFor(func() bool { j, err := d.agent.Job(t.Context(), id); return err == nil && j.Printed > 0 }) {
			t.Fatal("it prints nothing")
		}
		o, err := d.agent.ReadJob(t.Context(), id, 0)
		if err != nil || !o.Withheld || o.Output != "" {
			t.Errorf("while it runs: %+v, %v", o, err)
		}
		d.write("ws/"+tt.word, "")
		j := d.ended(id)
		o, err = d.agent.ReadJob(t.Context(), id, 0)
		if err != nil || (o.Output == tt.word+"\n") != tt.released || j.Withheld == tt.released {
			t.Errorf("afterwards: %+v, %v", o, err)
		}
	}
}

// TestAJobThatIsForbiddenLater: it is ended when the settings in force would deny its call, or
// refuse a path that it can reach; or it is marked, and goes on.
func TestAJobThatIsForbiddenLater(t *testing.T) {
	for _, tt := range []struct{ name, before, after, why string }{
		{"a rule", "", "policy: {rules: {deny: ['Bash(sleep *)']}}\n", "Bash(sleep *)"},
		{"a path", "", "sandbox: {deniedPaths: [/opt]}\n", "/opt"},
		{"nothing", "", "policy: {rules: {deny: ['Bash(rm *)']}}\n", ""},
		{"it is asked", "", "policy: {rules: {ask: ['Bash(sleep *)']}}\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newPlaces(t, "")
			d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
			for _, what := range []string{"mark", "end"} {
				d.write("config.yaml", "jobs: {forbidden: "+what+"}\n")
				if what == "mark" {
					d.start()
				} else if err := d.operator.Do(t.Context(), "POST", "/reload", nil, nil); err != nil {
					t.Fatal(err)
				}
				id := d.begin(d.session(), `{"command":"sleep 100000","run_in_background":true}`)
				d.write("config.yaml", "jobs: {forbidden: "+what+"}\n"+tt.after)
				for range 2 { // the second changes nothing, and is not noted
					if err := d.operator.Do(t.Context(), "POST", "/reload", nil, nil); err != nil {
						t.Fatal(err)
					}
				}
				ended := what == "end" && tt.why != ""
				if ended {
					d.ended(id)
				}
				j, err := d.agent.Job(t.Context(), id)
				if err != nil || (j.State == "killed") != ended || !strings.Contains(j.Forbidden, tt.why) ||
					(j.Forbidden == "") != (tt.why == "") || ended && !strings.HasPrefix(j.By, "a change of settings") {
					t.Errorf("%s: got %+v, %v", what, j, err)
				}
				if !ended {
					d.write("config.yaml", "jobs: {forbidden: "+what+"}\n")
					if err := d.operator.Do(t.Context(), "POST", "/reload", nil, nil); err != nil {
						t.Fatal(err)
					}
					if j, err := d.agent.StopJob(t.Context(), id); err != nil || j.Forbidden != "" || j.By != "the agent" {
						t.Errorf("allowed again: %+v, %v", j, err)
					}
				}
			}
			want := 0
			if tt.why != "" {
				want = 2 // one for each job
			}
			record := d.read("state/audit.jsonl")
			if got := strings.Count(record, `"job_forbidden"`); got != want {
				t.Errorf("the record says %d times that a job is forbidden, want %d", got, want)
			}
		})
	}
}

// TestAJobThatItsSessionForbids ends as well, when an operator has changed the session.
func TestAJobThatItsSessionForbids(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	id := d.begin(s, `{"command":"sleep 100000","run_in_background":true}`)
	for _, change := range []map[string]any{
		{"mode": "dontAsk"}, // which ends nothing: it would have been the first reason
		{"sandbox": map[string]any{"deniedPaths": []string{"/opt"}}},
	} {
		if err := d.operator.Do(t.Context(), "PATCH", "/sessions/"+s, change, nil); err != nil {
			t.Fatal(err)
		}
	}
	if j := d.ended(id); !strings.Contains(j.Forbidden, "/opt") {
		t.Errorf("got %+v", j)
	}
}

// TestJobsOfOthers: another session of the account does not reach a job by its tools, and an
// operator ends any.
func TestJobsOfOthers(t *testing.T) {
	d := newDaemon(t, "")
	s, other := d.session(), d.session()
	id := d.begin(s, `{"command":"sleep 100000","run_in_background":true}`)
	for _, tool := range []string{"TaskOutput", "TaskStop"} {
		if r := d.call(other, tool, `{"id":"`+id+`"}`); r.Error == nil || r.Error.Code != "job_not_found" {
			t.Errorf("%s: %+v", tool, r)
		}
	}
	events, err := d.operator.Events(t.Context(), client.EventFilter{Types: []string{"job_started", "job_ended"}})
	if err != nil {
		t.Fatal(err)
	}
	if j, err := d.operator.StopJob(t.Context(), id); err != nil || !strings.HasPrefix(j.By, "operator uid:") {
		t.Errorf("got %+v, %v", j, err)
	}
	for e, err := range events {
		if err != nil || e.Type != "job_ended" || e.Job != id || e.Status != "killed" {
			t.Errorf("got %+v, %v", e, err)
		}
		break
	}
}
