package integration

import (
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/cron"
	"github.com/sandboxd/sandboxd/internal/store"
)

// cronJob is a cron job as routes show it.
type cronJob struct {
	ID, Name, Schedule, Command string
	Session                     string    `json:"session_id"`
	Next                        time.Time `json:"next_at"`
	Last                        *struct {
		Status, Code, Reason string
		Call                 string `json:"call_id"`
	}
	Missed *struct {
		Count  int
		Reason string
	}
}

func (d *running) crons(session string) (all []cronJob) {
	d.t.Helper()
	d.does(d.agent, http.MethodGet, "/sessions/"+session+"/cron", nil, &all)
	return all
}

// onCron makes a job that comes once a year, and returns its id.
func (d *running) onCron(session, name, command string) string {
	d.t.Helper()
	args, err := json.Marshal(map[string]string{"name": name, "schedule": "@yearly", "command": command})
	if err != nil {
		d.t.Fatal(err)
	}
	r := d.call(session, "CronCreate", string(args))
	id := strings.Fields(strings.TrimPrefix(r.FinalText, "Cron job created: ") + " ?")[0]
	if r.Status != client.StatusSuccess {
		d.t.Fatalf("%+v", r)
	}
	return id
}

// isDue stops the daemon, makes all its cron jobs due since this time, and starts it again.
func (d *running) isDue(how os.Signal, since time.Duration) {
	d.t.Helper()
	d.stop(how)
	d.due(since)
	d.start()
}

func (d *running) due(since time.Duration) {
	d.t.Helper()
	db, err := store.Open(d.t.Context(), store.Options{Path: filepath.Join(d.work, "state/state.db")}, cron.Definition().Schema)
	if err != nil {
		d.t.Fatal(err)
	}
	err = db.Write(d.t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE cron_jobs SET next = $1`, time.Now().Add(-since).UnixMilli())
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// cronRan waits until a run of the only job of a session has ended, after the run of this call.
func (d *running) cronRan(session, after string) cronJob {
	d.t.Helper()
	var j cronJob
	if !waitFor(func() bool {
		all := d.crons(session)
		if len(all) == 1 {
			j = all[0]
		}
		return j.Last != nil && j.Last.Status != "running" && (after == "" || j.Last.Call != after)
	}) {
		d.t.Fatalf("the job does not run: %+v\n%s", j, d.log)
	}
	return j
}

const cronConfig = "sessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n"

func TestT51_CronJobsOfADaemon(t *testing.T) {
	d := newDaemon(t, cronConfig)
	s, stranger := d.session(), d.session()
	d.answers(s, "CronList", `{}`, "No cron jobs found.")
	d.answers(s, "CronCreate", `{"name":"n","schedule":"@yearly","command":"echo ran >> out && mkdir -p sub && cd sub"}`,
		`Cron job created: cron_1 "n"`)
	for _, tt := range []struct{ args, code, says string }{
		{`{"name":"n","schedule":"* * * * * *","command":"true"}`, "invalid_schedule", "6 fields"},
		{`{"name":"n","schedule":"@every 1s","command":"true"}`, "invalid_schedule", "shorthand"},
		{`{"name":"n","schedule":"61 * * * *","command":"true"}`, "invalid_schedule", "minute"},
		{`{"name":"n","schedule":"0 0 30 2 *","command":"true"}`, "invalid_schedule", "never comes"},
		{`{"name":"n\u001b[2J","schedule":"@daily","command":"true"}`, "invalid_arguments", "name"},
		{`{"name":"n","schedule":"@daily"}`, "invalid_arguments", "command"},
		{`{"name":"n","schedule":"@daily","command":"true","account":"root"}`, "invalid_arguments", "account"},
	} {
		d.refuses(s, "CronCreate", tt.args, tt.code, tt.says)
	}
	d.refuses(stranger, "CronDelete", `{"id":"cron_1"}`, "cron_not_found", "Cron job not found: cron_1")
	d.answers(stranger, "CronList", `{}`, "No cron jobs found.")

	d.isDue(syscall.SIGKILL, 10*time.Second)
	j := d.cronRan(s, "")
	if j.Last.Status != "SUCCESS" || j.Missed != nil || !j.Next.After(time.Now()) {
		t.Errorf("got %+v, %+v", j.Last, j.Missed)
	}
	if got, err := os.ReadFile(filepath.Join(d.ws, "out")); string(got) != "ran\n" || err != nil {
		t.Errorf("the command wrote %q, %v", got, err)
	}
	var call struct {
		Result struct {
			Tool string `json:"tool"`
			Use  string `json:"tool_use_id"`
			Text string `json:"final_text"`
		} `json:"result"`
	}
	d.does(d.agent, http.MethodGet, "/calls/"+j.Last.Call, nil, &call)
	if call.Result.Tool != "Bash" || call.Result.Use != "cron_1" ||
		!strings.Contains(call.Result.Text, "[the working directory is still "+d.ws+": a run of a cron job leaves") {
		t.Errorf("the call is %+v", call)
	}
	var sess client.Session
	d.does(d.agent, http.MethodGet, "/sessions/"+s, nil, &sess)
	if sess.Dir != d.ws {
		t.Errorf("a run took the session to %s", sess.Dir)
	}

	// What is long past is said, and does not run.
	d.isDue(os.Interrupt, 48*time.Hour)
	if !waitFor(func() bool { j = d.crons(s)[0]; return j.Missed != nil }) || j.Missed.Count != 1 {
		t.Errorf("got %+v", j)
	}
	for _, name := range []string{`"cron_run"`, `"cron_missed"`} { // the last is written when the list has told of it
		n := 0
		if !waitFor(func() bool {
			record, _ := os.ReadFile(filepath.Join(d.work, "state/audit.jsonl"))
			n = strings.Count(string(record), name)
			return n > 0
		}) || n != 1 {
			t.Errorf("the record has %d lines %s", n, name)
		}
	}
	out, err := d.exec("sandboxd", "cron", "list")
	if lines := strings.Split(out, "\n"); err != nil || len(lines) < 2 || !strings.Contains(lines[1], "cron_1") ||
		!strings.Contains(lines[1], "SUCCESS") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := d.exec("sandboxd", "cron", "list", "--session", "nobody"); err == nil || !strings.Contains(out, "hint:") {
		t.Errorf("an unknown session: %v\n%s", err, out)
	}
	if out, err := d.exec("sandboxd", "cron", "delete", "cron_1", "--session", s, "--operator"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := d.exec("sandboxd", "cron", "delete", "cron_1", "--session", s); err == nil || !strings.Contains(out, "cron_1") {
		t.Errorf("a second time: %v\n%s", err, out)
	}
	if got := d.crons(s); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	if got, _ := os.ReadFile(filepath.Join(d.ws, "out")); string(got) != "ran\n" {
		t.Errorf("the command wrote %q", got)
	}
}

// A run has the rights of its session at the time of the run, not those of the call that made the job.
func TestT51_ARunHasTheRightsOfThen(t *testing.T) {
	d := newDaemon(t, cronConfig)
	mode := func(session, to string) {
		d.does(d.operator, http.MethodPatch, "/sessions/"+session, map[string]any{"mode": to}, nil)
	}
	top := d.session()
	kid := d.child(top, "kid", `{}`)
	d.onCron(kid, "n", "echo ran >> out")
	mode(top, "dontAsk") // of its parent
	d.isDue(os.Interrupt, 10*time.Second)
	first := d.cronRan(kid, "")
	if first.Last.Code != "mode_deny" || first.Last.Call == "" {
		t.Errorf("after the mode was tightened: %+v", first.Last)
	}
	mode(top, "bypassPermissions")
	d.does(d.operator, http.MethodPut, "/sessions/"+kid+"/tools/Bash", map[string]any{"enabled": false}, nil)
	d.isDue(os.Interrupt, 10*time.Second)
	if j := d.cronRan(kid, first.Last.Call); j.Last.Status != "NOT_FOUND" {
		t.Errorf("without Bash: %+v", j.Last)
	}
	if _, err := os.Stat(filepath.Join(d.ws, "out")); err == nil {
		t.Error("the command ran")
	}

	// A job goes with its session, and with the parent of that.
	d.does(d.agent, http.MethodDelete, "/sessions/"+top, nil, nil)
	d.does(d.agent, http.MethodPost, "/sessions", map[string]any{"id": kid}, nil)
	if got := d.crons(kid); len(got) != 0 {
		t.Errorf("a session with the same id has %+v", got)
	}
}

// A daemon that is killed in a run says that the run is lost, and does not repeat it. Deleting the session ends a run.
func TestT51_AKillInARun(t *testing.T) {
	d := newDaemon(t, cronConfig)
	s := d.session()
	d.onCron(s, "n", "echo begun >> out; sleep 100")
	begun := func() string { b, _ := os.ReadFile(filepath.Join(d.ws, "out")); return string(b) }
	d.isDue(syscall.SIGKILL, 10*time.Second)
	if !waitFor(func() bool { return begun() == "begun\n" }) {
		t.Fatalf("no run: %+v\n%s", d.crons(s), d.log)
	}
	if text := d.metrics(); !strings.Contains(text, "\nsandboxd_cron_running 1\n") ||
		!strings.Contains(text, "\nsandboxd_cron_missed 0\n") {
		t.Errorf("one run is going on, none was missed: %s", text)
	}
	d.stop(syscall.SIGKILL)
	d.start()
	if j := d.cronRan(s, ""); j.Last.Status != "lost" {
		t.Errorf("got %+v", j.Last)
	}
	if got := begun(); got != "begun\n" {
		t.Errorf("it ran again: %q", got)
	}
	d.isDue(syscall.SIGKILL, 10*time.Second)
	if !waitFor(func() bool { return begun() == "begun\nbegun\n" }) {
		t.Fatalf("no run: %+v\n%s", d.crons(s), d.log)
	}
	d.does(d.agent, http.MethodDelete, "/sessions/"+s, nil, nil)
	var calls []any
	d.does(d.agent, http.MethodGet, "/calls", nil, &calls)
	if len(calls) != 0 {
		t.Errorf("the run goes on: %v", calls)
	}
	d.verify()
}
