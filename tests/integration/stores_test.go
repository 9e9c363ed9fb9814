package integration

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/tests/pgtest"
)

// stores runs a command about databases, and returns all that it prints.
func (d *running) stores(words ...string) (string, error) {
	return d.loneSays(append([]string{"store"}, words...)...)
}

func (d *running) mustStores(words ...string) string {
	d.t.Helper()
	out, err := d.stores(words...)
	if err != nil {
		d.t.Fatalf("store %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return out
}

// storeRefuses is a command about databases that must fail and say so.
func (d *running) storeRefuses(want string, words ...string) {
	d.t.Helper()
	if out, err := d.stores(words...); err == nil || !strings.Contains(out, want) {
		d.t.Errorf("store %s: got %v, want an error with %q\n%s", strings.Join(words, " "), err, want, out)
	}
}

// over makes the daemon keep what is shared at an address, "" is its file.
func (d *running) over(url string) {
	d.env = slices.DeleteFunc(d.env, func(v string) bool { return strings.HasPrefix(v, "SANDBOXD_STORE_URL=") })
	if url != "" {
		d.env = append(d.env, "SANDBOXD_STORE_URL="+url)
	}
}

// everything is what the daemon answers about its state; which daemon it is of differs.
func (d *running) everything(sessions []string) string {
	d.t.Helper()
	paths := []string{
		"/sessions?limit=100", "/variables?limit=100", "/approvals?limit=100&status=all", "/grants", "/mcp/pins",
	}
	for _, s := range sessions {
		paths = append(paths, "/sessions/"+s, "/sessions/"+s+"/messages", "/sessions/"+s+"/vars?limit=1000",
			"/sessions/"+s+"/tasks", "/sessions/"+s+"/teams", "/sessions/"+s+"/branches",
			"/floors?session_id="+s, "/variables/resolve?session_id="+s)
	}
	var all strings.Builder
	for _, path := range paths {
		var v any
		err := d.operator.Do(d.t.Context(), "GET", path, nil, &v)
		text, _ := json.Marshal(ofNoDaemon(v))
		fmt.Fprintf(&all, "%s %v %s\n", path, err, text)
	}
	return all.String()
}

func ofNoDaemon(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "daemon")
		delete(v, "waiting") // who waits is of the moment
		for name, one := range v {
			v[name] = ofNoDaemon(one)
		}
	case []any:
		for i := range v {
			v[i] = ofNoDaemon(v[i])
		}
	}
	return v
}

// opened is a database, of PostgreSQL or in a file, beside those who use it.
func opened(t testing.TB, where string) (db *store.DB) {
	t.Helper()
	var err error
	if strings.Contains(where, "://") {
		db, err = store.OpenShared(t.Context(), store.SharedOptions{URL: where, Daemon: "test", AsIs: true})
	} else {
		db, err = store.Open(t.Context(), store.Options{Path: where, AsIs: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// at runs statements in a database.
func at(t testing.TB, where string, statements ...string) {
	t.Helper()
	db := opened(t, where)
	defer db.Close()
	err := db.Write(t.Context(), func(tx *sql.Tx) error {
		for _, text := range statements {
			if _, err := tx.Exec(text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantNumber is what a query must find in a database.
func wantNumber(t testing.TB, where, query string, want int64) {
	t.Helper()
	db := opened(t, where)
	defer db.Close()
	var n int64
	err := db.Read(t.Context(), func(tx *sql.Tx) error { return tx.QueryRow(query).Scan(&n) })
	if err != nil || n != want {
		t.Errorf("%s: got %d, %v, want %d", query, n, err, want)
	}
}

// A daemon with some of everything moves to PostgreSQL by a copy that is killed, finds a row that was
// changed meanwhile, and ends; it answers there as before, and again over its file.
func TestStore_CopyThereAndBackAnswersTheSame(t *testing.T) {
	d := newPlaces(t, "sessions: {mode: default, maxMode: default}\nsandbox: {autoAllowBashIfSandboxed: false}\n"+
		"api: {perSecond: 1000000}\npolicy: {rules: {allow: [TaskCreate, TeamCreate, SendMessage, ReadMailbox]}}\nmcp: {servers: {one: "+
		mcpConfig(t, mcpScript{Tools: []json.RawMessage{mcpTool("echo", "Repeats words.")}})+"}}\n")
	d.linkMCP()
	d.over("")
	d.start()
	sessions := d.fill()
	d.stop(os.Interrupt) // which ends what waits
	d.start()
	state, url := filepath.Join(d.work, "state"), pgtest.URL(t)
	before := d.everything(sessions)
	d.storeRefuses("is in use by process", "copy", state, url)
	d.storeRefuses("is in use by process", "migrate")
	if out := d.mustStores("status"); !strings.Contains(out, "process ") || !strings.Contains(out, "vars ") {
		t.Errorf("the status does not say what there is:\n%s", out)
	}
	d.stop(os.Interrupt)
	file := filepath.Join(state, "state.db")
	// As if the rows with the last numbers had gone.
	at(t, file, `DELETE FROM sqlite_sequence WHERE name = 'var_untrusted'`,
		`INSERT INTO sqlite_sequence (name, seq) VALUES ('var_untrusted', 7000)`)
	d.mustStores("migrate", url)
	d.killedCopy(state, url)
	d.over(url)
	if out, err := d.loneSays("serve"); err == nil || !strings.Contains(out, "has not ended") {
		t.Fatalf("a daemon over half a copy: %v\n%s", err, out)
	}
	d.over("")
	if out := d.mustStores("status", url); !strings.Contains(out, "a copy from "+state) {
		t.Errorf("the status does not name the copy:\n%s", out)
	}

	at(t, url, `UPDATE approval_grants SET reason = reason || 'x'`)
	d.storeRefuses("approval_grants is not the same", "copy", state, url)
	at(t, url, `UPDATE approval_grants SET reason = left(reason, -1)`,
		`UPDATE transcript_parts SET part = overlay(part PLACING 'sax' FROM position('say' IN part) FOR 3)
			WHERE position('say' IN part) > 0`)
	d.storeRefuses("transcripts is not the same", "copy", state, url)
	at(t, url, `UPDATE transcript_parts SET part = overlay(part PLACING 'say' FROM position('sax' IN part) FOR 3)
		WHERE position('sax' IN part) > 0`)
	if out := d.mustStores("copy", state, url); !strings.Contains(out, "goes on") || !strings.Contains(out, "SHA-256") {
		t.Errorf("the copy did not go on:\n%s", out)
	}
	d.storeRefuses("is not empty", "copy", state, url)
	if out := d.mustStores("status", state); !regexp.MustCompile(`sessions_here +5 +this daemon`).MatchString(out) {
		t.Errorf("the daemon does not know of which sessions it keeps something:\n%s", out)
	}

	wantNumber(t, url, `SELECT last_value FROM `+numbers, 7000)
	wantNumber(t, url, `SELECT last_value - (SELECT max(rowid) FROM vars) FROM `+numbersOfVars, 0)
	wantNumber(t, url, `SELECT count(*) FROM vars JOIN var_large ON id = large`, 1)

	d.over(url)
	d.start()
	sameAnswers(t, before, d.everything(sessions))
	id := d.ofThisDaemon(url, len(sessions))
	d.reads(sessions[3], "begin")
	d.answers(sessions[0], "TaskCreate", `{"subject":"more"}`, `Task created: task_3 - "more" (pending)`)
	d.allowed(sessions[0], "Bash", `{"command":"seq 9"}`) // it is the daemon that made the session
	d.do("POST", "/sessions/"+sessions[1]+"/messages", said("more"), nil)
	d.readsLarge(sessions[0])
	after := d.everything(sessions)
	d.storeRefuses("is in use by daemon", "copy", url, filepath.Join(d.work, "elsewhere"))
	d.stop(os.Interrupt)
	at(t, url, `DELETE FROM approval_daemons`, // as half a minute later
		`UPDATE sessions SET data = jsonb_set(data::jsonb, '{daemon}', '"elsewhere"') WHERE id = '`+sessions[2]+`'`)

	d.over("")
	d.storeRefuses("is not empty", "copy", url, state)
	d.mustStores("copy", "--replace", url, state)
	d.start()
	sameAnswers(t, after, d.everything(sessions))
	d.readsLarge(sessions[0])
	d.allowed(sessions[0], "Bash", `{"command":"seq 8"}`)
	d.reads(sessions[4], "then you")
	d.stop(os.Interrupt)
	d.onlyElsewhere(file, sessions[2])

	fresh := filepath.Join(d.work, "fresh") // as on another machine
	d.storeRefuses(`is of the daemon "another"`, "copy", "--daemon", "another", url, fresh)
	d.storeRefuses("it is of the daemon", "copy", "--replace", "--daemon", "elsewhere", url, state)
	d.mustStores("copy", "--daemon", id, url, fresh)
	file = filepath.Join(fresh, "state.db")
	d.onlyElsewhere(file, sessions[2])
	wantNumber(t, file, `SELECT max(seq) FROM sqlite_sequence WHERE name = 'var_untrusted'`, 7000)
	d.env = append(d.env, "SANDBOXD_STATE_DIR="+fresh)
	d.start()
	sameAnswers(t, after, d.everything(sessions))
	d.allowed(sessions[0], "Bash", `{"command":"seq 7"}`)
	d.stop(os.Interrupt)
	wantNumber(t, file, `SELECT count(*) FROM this_daemon WHERE id = '`+id+`'`, 1)
}

var largeVar = strings.Repeat("large ", 20_000)

// Where PostgreSQL keeps the last number that rows were given.
const (
	numbers       = `var_untrusted_id_seq`
	numbersOfVars = `vars_rowid_seq`
)

// ofThisDaemon returns the id of the daemon over PostgreSQL, of which all rows must be.
func (d *running) ofThisDaemon(url string, sessions int) string {
	d.t.Helper()
	var status struct {
		Parts struct{ Store struct{ Daemon string } }
	}
	d.do("GET", "/status", nil, &status)
	id := status.Parts.Store.Daemon
	wantNumber(d.t, url, `SELECT count(*) FROM sessions WHERE data::jsonb->>'daemon' = '`+id+`'`, int64(sessions))
	wantNumber(d.t, url, `SELECT count(*) FROM approval_questions WHERE daemon <> '`+id+
		`' OR item::jsonb->>'daemon' <> daemon`, 0)
	return id
}

// onlyElsewhere wants that rows of a file name no daemon, but the session of another one.
func (d *running) onlyElsewhere(file, session string) {
	d.t.Helper()
	wantNumber(d.t, file, `SELECT count(*) FROM sessions WHERE data ->> 'daemon' IS NOT NULL`, 1)
	wantNumber(d.t, file, `SELECT count(*) FROM sessions WHERE data ->> 'daemon' = 'elsewhere'
		AND id = '`+session+`'`, 1)
	wantNumber(d.t, file, `SELECT count(*) FROM approval_questions WHERE daemon <> ''
		OR item ->> 'daemon' IS NOT NULL`, 0)
}

func sameAnswers(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Errorf("answered otherwise:\n%s\nbefore\n%s", g[i], w[i])
		}
	}
}

// fill makes some of everything that daemons share.
func (d *running) fill() (sessions []string) {
	d.t.Helper()
	for i := range 3 {
		var made struct{ ID string }
		d.does(d.agent, "POST", "/sessions", map[string]any{ // for the servers of one need rights
			"cwd": d.ws, "tag": fmt.Sprint("tag", i), "title": "Ünï <code> & \u2028", "metadata": map[string]any{"n": i},
		}, &made)
		sessions = append(sessions, made.ID)
	}
	s := sessions[0]
	for _, id := range sessions[:2] {
		d.do("PUT", "/sessions/"+id+"/messages", said(strings.Repeat("long ", 60000), "2"), nil)
	}
	d.manyVars(s)
	d.do("PUT", "/sessions/"+s+"/vars/empty", map[string]any{"value": ""}, nil)
	d.do("PUT", "/sessions/"+s+"/vars/large", map[string]any{"value": largeVar}, nil)
	d.do("POST", "/sessions/"+s+"/branches", map[string]any{"branch_id": "other"}, nil)
	var floor struct{ ID string }
	d.do("POST", "/floors", map[string]any{"session_id": s, "floor_no": 1}, &floor)
	for i := range 3 { // results that become variables, with an empty one
		d.write("ws/f", strings.Repeat("line\n", i*4000))
		d.allowed(s, "Read", `{"file_path":"`+d.ws+`/f"}`)
	}
	d.allowed(s, "Bash", `{"command":"echo granted"}`)
	d.ask(s, "Bash", `{"command":"echo waits > f"}`)
	d.waiting(1)
	d.mcpIs(s, "one", "connected") // which pins its tools
	for _, kid := range []string{"kid", "other"} {
		sessions = append(sessions, d.child(s, kid, `{}`))
	}
	d.answers(s, "TaskCreate", `{"subject":"port it"}`, `Task created: task_1 - "port it" (pending)`)
	d.answers(s, "TaskCreate", `{"subject":"ship it"}`, `Task created: task_2 - "ship it" (pending)`)
	d.answers(s, "TeamCreate", `{"name":"n","members":["kid","other"]}`,
		`Team created: team_1 "n" with 2 members`)
	d.answers(s, "SendMessage", `{"to":"kid","message":"begin"}`, "Message sent to kid")
	d.answers(s, "SendMessage", `{"to":"other","message":"then you"}`, "Message sent to other")
	return sessions
}

// manyVars are those that no batch of a copy has at once.
func (d *running) manyVars(s string) {
	d.t.Helper()
	for i := range 30 {
		var items []map[string]any
		for j := range 20 {
			items = append(items, map[string]any{
				"scope": "chat", "scope_id": s, "key": fmt.Sprintf("k%d_%d", i, j), "value": strings.Repeat("v", 100*j),
			})
		}
		d.do("PUT", "/variables/batch", map[string]any{"items": items}, nil)
	}
}

// readsLarge reads the value that has a row of its own.
func (d *running) readsLarge(session string) {
	d.t.Helper()
	var v struct{ Value string }
	d.do("GET", "/sessions/"+session+"/vars/large", nil, &v)
	if v.Value != largeVar {
		d.t.Errorf("the large variable has %d bytes", len(v.Value))
	}
}

// reads says what is in the mailbox of a session.
func (d *running) reads(session, want string) {
	d.t.Helper()
	if r := d.call(session, "ReadMailbox", `{}`); !strings.Contains(r.FinalText, want) {
		d.t.Errorf("the mailbox has %q, want %q", r.FinalText, want)
	}
}

// allowed makes a call that a person allows for the session.
func (d *running) allowed(session, name, args string) {
	d.t.Helper()
	waits := d.ask(session, name, args)
	yes := map[string]any{"approved": true, "remember": "session"}
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		select {
		case r := <-waits:
			if r.Error != nil {
				d.t.Fatalf("%s: %v", name, r.Error)
			}
			return
		case <-time.After(50 * time.Millisecond):
			page, _ := d.questions("")
			for _, q := range page {
				d.do("POST", "/approvals/"+q.ID, yes, nil)
			}
		}
	}
	d.t.Fatalf("%s was not answered", name)
}

// stuckCopy begins a copy, and waits until it stands still at some row of the variables.
func (d *running) stuckCopy(from, url string) (*exec.Cmd, *lockedBuffer) {
	d.t.Helper()
	at(d.t, url, `CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM scope_vars) > 300 THEN PERFORM pg_sleep(600); END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER stuck BEFORE INSERT ON scope_vars FOR EACH ROW EXECUTE FUNCTION stuck()`)
	log := &lockedBuffer{}
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "store", "copy", from, url)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.ws, d.env, log, log
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	db := opened(d.t, url)
	defer db.Close()
	stuck := func() bool {
		var n int
		_ = db.Read(d.t.Context(), func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'`).Scan(&n)
		})
		return n == 1
	}
	if !waitFor(stuck) {
		d.t.Fatalf("the copy did not come to the variables:\n%s", log)
	}
	return cmd, log
}

// unstuck lets copies into a database go on.
func unstuck(t testing.TB, url string) {
	t.Helper()
	at(t, url, `DROP TRIGGER stuck ON scope_vars`, `DROP FUNCTION stuck`)
}

// killedCopy begins a copy, and kills it in the middle.
func (d *running) killedCopy(from, url string) {
	d.t.Helper()
	cmd, _ := d.stuckCopy(from, url)
	if err := cmd.Process.Kill(); err != nil {
		d.t.Fatal(err)
	}
	_ = cmd.Wait()
	db := opened(d.t, url)
	defer db.Close()
	// A server that sleeps does not see that its client has gone.
	err := db.Read(d.t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE wait_event = 'PgSleep'`)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	unstuck(d.t, url)
}
