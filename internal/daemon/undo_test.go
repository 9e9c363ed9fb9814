package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// undoing is a daemon over a directory, and what an undo answers.
type undoing struct {
	t               *testing.T
	dir             string
	daemon          *daemon
	agent, operator *client.Client
}

type undoAnswer struct {
	CallID, Undone, Status string
	Restored               []string
	Conflicts              []struct{ Path, Why string }
	Error                  *client.Error
}

func (a *undoAnswer) UnmarshalJSON(b []byte) error {
	var x struct {
		CallID    string                       `json:"call_id"`
		Undone    string                       `json:"undone"`
		Status    string                       `json:"status"`
		Restored  []string                     `json:"restored"`
		Conflicts []struct{ Path, Why string } `json:"conflicts"`
		Error     *client.Error                `json:"error"`
	}
	err := json.Unmarshal(b, &x)
	a.CallID, a.Undone, a.Status, a.Restored, a.Conflicts, a.Error = x.CallID, x.Undone, x.Status, x.Restored,
		x.Conflicts, x.Error
	return err
}

func newUndoing(t *testing.T, more ...string) *undoing {
	t.Helper()
	dir := siteDir(t, strings.Join(more, ""))
	ctx, stop := context.WithCancelCause(t.Context())
	site, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDaemon(ctx, site, stop)
	if err != nil {
		t.Fatal(err)
	}
	u := &undoing{t: t, dir: filepath.Join(dir, "work"), daemon: d}
	u.agent, u.operator = serveBoth(t, ctx, d, site)
	t.Cleanup(func() {
		stop(nil)
		d.close()
	})
	u.session("s1")
	return u
}

func (u *undoing) session(id string) {
	u.t.Helper()
	do(u.t, u.agent, "POST", "/sessions", map[string]any{"id": id, "cwd": u.dir}, nil)
}

func (u *undoing) call(session, tool string, args map[string]any) client.Result {
	u.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	b, err := json.Marshal(args)
	if err != nil {
		u.t.Fatal(err)
	}
	r, err := u.agent.Call(u.t.Context(), session, tool, b)
	if err != nil {
		u.t.Fatal(err)
	}
	return r
}

func (u *undoing) write(session, name, content string) client.Result {
	u.t.Helper()
	r := u.call(session, "Write", map[string]any{"file_path": name, "content": content})
	if r.Status != "SUCCESS" {
		u.t.Fatalf("%+v", r)
	}
	return r
}

func (u *undoing) undo(c *client.Client, id string, in map[string]any) (a undoAnswer) {
	u.t.Helper()
	if in == nil {
		in = map[string]any{}
	}
	do(u.t, c, "POST", "/calls/"+id+"/undo", in, &a)
	return a
}

func (u *undoing) read(name string) string {
	b, err := os.ReadFile(filepath.Join(u.dir, name))
	if err != nil {
		return "nothing"
	}
	return string(b)
}

func code(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

// An undo is a call: judged, recorded, kept, and told to the model whose call it was.
func TestAnUndoIsACall(t *testing.T) {
	u := newUndoing(t)
	one := u.write("s1", "f", "one")
	if len(one.Changes) != 1 || one.Changes[0].Kind != "create" || one.Undo == nil || !one.Undo.Kept {
		t.Fatalf("the answer: %+v, %+v", one.Changes, one.Undo)
	}
	two := u.write("s1", "f", "two")
	a := u.undo(u.agent, two.CallID, nil)
	if a.Status != "SUCCESS" || len(a.Restored) != 1 || u.read("f") != "one" {
		t.Errorf("%+v: %s", a, u.read("f"))
	}
	r := u.call("s1", "Read", map[string]any{"file_path": "f"})
	if len(r.SystemMessages) != 1 || !strings.Contains(r.SystemMessages[0], two.CallID) || r.Undo != nil {
		t.Errorf("the model is told %q", r.SystemMessages)
	}
	if r = u.call("s1", "Read", map[string]any{"file_path": "f"}); len(r.SystemMessages) != 0 {
		t.Errorf("it is told twice: %q", r.SystemMessages)
	}
	if a = u.undo(u.agent, a.CallID, nil); u.read("f") != "two" {
		t.Errorf("the undo of the undo: %+v: %s", a, u.read("f"))
	}
	var lines []struct {
		Event, Call, Tool, Verdict string
		Changed                    int
		Changes                    string `json:"changes_sha256"`
		Kept                       bool   `json:"undo_kept"`
	}
	do(t, u.operator, "GET", "/audit", nil, &lines)
	last := lines[len(lines)-1]
	if last.Tool != "Undo" || last.Event != "end" || last.Call != a.CallID || last.Changed != 1 || len(last.Changes) != 64 ||
		!last.Kept || last.Verdict != "allow" {
		t.Errorf("the record: %+v", last)
	}
	r = u.call("s1", "Bash", map[string]any{"command": "echo x > g"})
	if r.Undo == nil || !r.Undo.Kept || len(r.Changes) != 1 || r.Changes[0].Path != "g" {
		t.Errorf("of a command: %+v, %+v", r.Undo, r.Changes)
	}
	do(t, u.operator, "PATCH", "/sessions/s1", map[string]any{"mode": "dontAsk"}, nil)
	if a = u.undo(u.agent, one.CallID, nil); a.Status != "ERROR" || a.Error == nil || u.read("f") != "two" {
		t.Errorf("in a mode that denies: %+v", a)
	}
}

// What runs outside of the sandbox comes back by the undo of an operator, and no other: a command can remove it.
func TestAnOperatorsUndoRestoresWhatRunsOutside(t *testing.T) {
	u := newUndoing(t, "policy: {profile: observe}\nsessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n")
	module := filepath.Join(u.dir, ".git/modules/lib")
	if err := os.MkdirAll(filepath.Join(module, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tbare = false\n", "hooks/x": "#!/bin/sh\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gone := u.call("s1", "Bash", map[string]any{"command": "rm -rf .git/modules"})
	if u.read(".git/modules/lib/HEAD") != "nothing" {
		t.Fatalf("the command removed nothing: %+v", gone)
	}
	a := u.undo(u.agent, gone.CallID, nil)
	if len(a.Conflicts) == 0 || u.read(".git/modules/lib/HEAD") != "nothing" {
		t.Errorf("by the agent: %+v", a)
	}
	if a = u.undo(u.operator, gone.CallID, nil); a.Status != "SUCCESS" || len(a.Conflicts) > 0 {
		t.Errorf("by an operator: %+v, %+v", a, a.Error)
	}
	for name, want := range files {
		if got := u.read(".git/modules/lib/" + name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The model is told of each undo by others with its next call, also where one came after the other.
func TestAModelIsToldOfEveryUndo(t *testing.T) {
	u := newUndoing(t)
	r := u.call("s1", "Bash", map[string]any{"command": "echo x > f; echo x > g"})
	u.undo(u.operator, r.CallID, map[string]any{"paths": []string{"f"}})
	u.undo(u.operator, r.CallID, map[string]any{"paths": []string{"g"}})
	r = u.call("s1", "Read", map[string]any{"file_path": "f"})
	told := strings.Join(r.SystemMessages, "\n")
	if !strings.Contains(told, "removed f") || !strings.Contains(told, "removed g") {
		t.Errorf("it is told %q", told)
	}
}

// docs/metrics.md lists every series.
func TestEverySeriesIsInTheDocuments(t *testing.T) {
	u := newUndoing(t)
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	u.call("s1", "Read", map[string]any{"file_path": "f"}) // a series appears with its first value
	res := httptest.NewRecorder()
	u.daemon.metrics.Handler().ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	series := regexp.MustCompile(`(?m)^# HELP (sandboxd_\w+) (.+)$`).FindAllStringSubmatch(res.Body.String(), -1)
	if len(series) < 20 {
		t.Errorf("%d series: %.300s", len(series), res.Body)
	}
	for _, s := range series {
		row := regexp.MustCompile("(?m)^\\| `" + s[1] + "` \\| [a-z, ]* \\| " + regexp.QuoteMeta(s[2]) + " \\|$")
		if !row.Match(text) {
			t.Errorf("%s is not in docs/metrics.md, or other words are: %s", s[1], s[2])
		}
	}
}

// An agent undoes calls of its account, the model those of its session; nobody but an
// operator forces one.
func TestWhoMayUndo(t *testing.T) {
	u := newUndoing(t)
	u.session("s2")
	one := u.write("s1", "f", "one")
	if r := u.call("s2", "Undo", map[string]any{"call_id": one.CallID}); r.Error == nil || r.Error.Code != "undo_not_kept" {
		t.Errorf("of another session: %+v", r.Error)
	}
	if r := u.call("s2", "Undo", nil); r.Error == nil || r.Error.Code != "undo_nothing" {
		t.Errorf("with nothing to undo: %+v", r.Error)
	}
	if r := u.call("s1", "Undo", map[string]any{"force": true}); r.Error == nil || r.Error.Code != "undo_force_denied" {
		t.Errorf("force by the model: %+v", r.Error)
	}
	for _, in := range []map[string]any{{"force": true}, {"session_id": "s2"}} {
		if err := u.agent.Do(t.Context(), "POST", "/calls/"+one.CallID+"/undo", in, nil); code(err) != "operator_only" {
			t.Errorf("%v by an agent: %v", in, err)
		}
	}
	if err := os.WriteFile(filepath.Join(u.dir, "f"), []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if a := u.undo(u.operator, one.CallID, nil); len(a.Conflicts) != 1 || u.read("f") != "theirs" {
		t.Errorf("over a change of a person: %+v", a)
	}
	if a := u.undo(u.operator, one.CallID, map[string]any{"force": true}); len(a.Restored) != 1 || u.read("f") != "nothing" {
		t.Errorf("forced: %+v", a)
	}
	u.write("s1", "g", "one")
	if r := u.call("s1", "Undo", nil); r.Status != "SUCCESS" || u.read("g") != "nothing" {
		t.Errorf("by the model: %+v", r)
	}
}

// Who asks for an undo over the operator socket has answered the question of a rule, and the record names that person;
// what a rule denies stays denied.
func TestRulesAboutAnUndoOfAnOperator(t *testing.T) {
	for verdict, want := range map[string]string{"ask": "SUCCESS", "deny": "ERROR"} {
		u := newUndoing(t, "policy: {rules: {"+verdict+": [Undo]}}\napprovals: {approver: false}\n")
		one := u.write("s1", "f", "one")
		a := u.undo(u.operator, one.CallID, nil)
		if a.Status != want || (u.read("f") == "nothing") != (want == "SUCCESS") {
			t.Errorf("%s: %+v, %+v", verdict, a, a.Error)
		}
		var lines []struct {
			Call     string
			Approval struct {
				Approved bool
				By       string
			}
		}
		do(t, u.operator, "GET", "/audit", nil, &lines)
		last, by := lines[len(lines)-1], ""
		if want == "SUCCESS" {
			by = fmt.Sprintf("uid:%d", os.Getuid())
		}
		if last.Call != a.CallID || last.Approval.Approved != (by != "") || last.Approval.By != by {
			t.Errorf("%s: the record: %+v, want %q", verdict, last, by)
		}
	}
}

// TestTheProgramOfAnAnchorGetsTheHead on its standard input.
func TestTheProgramOfAnAnchorGetsTheHead(t *testing.T) {
	to := filepath.Join(t.TempDir(), "heads")
	u := newUndoing(t, "audit: {anchor: {command: [/bin/sh, -c, 'cat >> "+to+"'], every: 1s}}\n")
	u.write("s1", "f", "one")
	u.until(t, func() bool {
		text, _ := os.ReadFile(to)
		return strings.Contains(string(text), `"signature":`)
	})
}

// Of a session that was deleted operators alone can undo calls, and a new one of the same name
// has none of them.
func TestUndoOfADeletedSession(t *testing.T) {
	u := newUndoing(t)
	one := u.write("s1", "f", "one")
	do(t, u.agent, "DELETE", "/sessions/s1", nil, nil)
	u.session("s1")
	var list []struct{}
	do(t, u.agent, "GET", "/sessions/s1/changes", nil, &list)
	if len(list) != 0 {
		t.Errorf("a new session has %d calls", len(list))
	}
	err := u.agent.Do(t.Context(), "POST", "/calls/"+one.CallID+"/undo", map[string]any{}, nil)
	if code(err) != "session_not_found" {
		t.Errorf("by an agent: %v", err)
	}
	if a := u.undo(u.operator, one.CallID, map[string]any{"session_id": "s1"}); len(a.Restored) != 1 || u.read("f") != "nothing" {
		t.Errorf("by an operator: %+v", a)
	}
}

// What a session had for itself alone is not there for a new one of its name.
func TestPrivateFilesOfADeletedSession(t *testing.T) {
	u := newUndoing(t)
	run := func(command, want string) {
		t.Helper()
		r := u.call("s1", "Bash", map[string]any{"command": command})
		if r.Status != "SUCCESS" || !strings.Contains(r.FinalText, want) {
			t.Errorf("%s: %+v", command, r)
		}
	}
	run("echo mine > /tmp/private; cat /tmp/private", "mine")
	run("cat /tmp/private", "mine")
	do(t, u.agent, "DELETE", "/sessions/s1", nil, nil)
	u.session("s1")
	run("test -e /tmp/private || echo gone", "gone")
}

// Of a call that changed much, the history of a file begins with what happened to this file.
func TestHistoryBeginsWithTheFile(t *testing.T) {
	u := newUndoing(t)
	u.call("s1", "Bash", map[string]any{"command": "mkdir d && touch a b c d/f z"})
	for path, want := range map[string]string{"/d/f": "d/f", "/d": "d/", "/z": "z", "": "d/"} {
		var list []struct {
			Changes []struct{ Path string }
			Total   int `json:"changes_total"`
		}
		do(t, u.agent, "GET", "/changes?path="+u.dir+path, nil, &list)
		if len(list) != 1 || list[0].Total != 6 || len(list[0].Changes) != 6 || list[0].Changes[0].Path != want {
			t.Errorf("%q: %+v, want %q first", path, list, want)
		}
	}
}

func TestHistoryDiffAndPurge(t *testing.T) {
	u := newUndoing(t)
	one := u.write("s1", "d/f", "one\n")
	two := u.write("s1", "d/f", "two\ntoken ghp_"+strings.Repeat("a1B2", 9)+"\n")
	u.write("s1", "else", "x")
	var list []struct {
		CallID   string `json:"call_id"`
		UndoneBy string `json:"undone_by"`
	}
	for path, want := range map[string]int{"/d": 2, "/d/f": 2, "": 3, "/e": 0, "/else": 1} {
		do(t, u.agent, "GET", "/changes?path="+u.dir+path, nil, &list)
		if len(list) != want {
			t.Errorf("%q: %d calls, want %d", path, len(list), want)
		}
	}
	for _, path := range []string{"", "d", u.dir + "/../work"} {
		if err := u.agent.Do(t.Context(), "GET", "/changes?path="+path, nil, nil); code(err) != "validation_error" {
			t.Errorf("%q: %v", path, err)
		}
	}
	var d struct{ Diff string }
	do(t, u.agent, "GET", "/calls/"+two.CallID+"/diff", nil, &d)
	if !strings.Contains(d.Diff, "-one\n+two\n") || strings.Contains(d.Diff, "ghp_a1B2") {
		t.Errorf("the diff: %s", d.Diff)
	}
	u.write("s1", "d/f", "three\n")
	before := d.Diff
	do(t, u.agent, "GET", "/calls/"+two.CallID+"/diff", nil, &d)
	if d.Diff != before {
		t.Errorf("the diff after a later change: %s", d.Diff)
	}
	var gone struct {
		Calls int
		Bytes int64
	}
	if err := u.agent.Do(t.Context(), "POST", "/undo/purge", map[string]any{}, nil); code(err) != "operator_only" {
		t.Errorf("purge by an agent: %v", err)
	}
	u.session("s2")
	other := u.write("s2", "theirs", "x")
	do(t, u.operator, "POST", "/undo/purge", map[string]any{"session_id": "s1"}, &gone)
	if gone.Calls != 4 || gone.Bytes == 0 {
		t.Errorf("purged %+v", gone)
	}
	if a := u.undo(u.agent, other.CallID, nil); len(a.Restored) != 1 || u.read("theirs") != "nothing" {
		t.Errorf("what another session changed is gone, too: %+v", a)
	}
	for _, at := range []string{"POST /calls/%s/undo", "GET /calls/%s/diff"} {
		method, path, _ := strings.Cut(fmt.Sprintf(at, one.CallID), " ")
		if err := u.agent.Do(t.Context(), method, path, map[string]any{}, nil); code(err) != "undo_not_kept" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Whatever a command does to a repository, one undo brings it back.
func TestARepositoryComesBack(t *testing.T) {
	git := needs.Program(t, "git")
	commands := []string{
		"git checkout . && rm -f src/*.go", "rm -rf .git src",
		"find . -type f -exec truncate -s 0 {} + ; mv src other; ln -s other src",
	}
	u := newUndoing(t, "policy: {profile: observe}\n",
		"sessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n")
	for _, words := range [][]string{
		{"init", "-q"}, {"add", "-A"}, {"-c", "user.email=a@b", "-c", "user.name=a", "commit", "-qm", "one"},
	} {
		for i := range 20 {
			name := fmt.Sprintf("%s/src/f%d.go", u.dir, i)
			_ = os.MkdirAll(filepath.Dir(name), 0o755)
			if err := os.WriteFile(name, []byte(fmt.Sprint(words, i)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := runIn(u.dir, git, words...); err != nil {
			t.Fatalf("git %v: %v: %s", words, err, out)
		}
	}
	want := u.tree()
	for _, command := range commands {
		r := u.call("s1", "Bash", map[string]any{"command": command})
		if r.Undo == nil || !r.Undo.Kept || len(r.Changes) == 0 {
			t.Fatalf("%s: %s: %+v", command, r.FinalText, r.Undo)
		}
		if maps.Equal(u.tree(), want) {
			t.Errorf("%s changed nothing", command)
		}
		a := u.undo(u.agent, r.CallID, nil)
		if got := u.tree(); !maps.Equal(got, want) || len(a.Conflicts) > 0 || a.Error != nil {
			t.Errorf("%s: %d of %d paths are there again, %+v, %v", command, len(got), len(want), a.Conflicts, a.Error)
		}
	}
}

// A command that deletes what is in no commit, and does not say so, is asked about when it has run: with the diff, and
// where a person refuses, or nobody answers in time, it is undone.
func TestChangesAreAskedAbout(t *testing.T) {
	git := needs.Program(t, "git")
	for _, tt := range []struct {
		name, more string
		answer     string // of the person; "" is nobody
		command    string
		stays      bool
	}{
		{"refused", "", `{"approved": false, "reason": "I need it"}`, "sh clean.sh", false},
		{"approved", "", `{"approved": true}`, "sh clean.sh", true},
		{"nobody is there", "approvals: {approver: false}\n", "", "sh clean.sh", false},
		{"undoable", "policy: {undoable: allow}\n", "", "sh clean.sh", true},
		{"a job", "", `{"approved": false, "reason": "I need it"}`, "sh clean.sh #job", false},
		{"what it made itself", "", "", "touch x && rm x && rm -f build/a.o", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newUndoing(t, tt.more)
			if out, err := runIn(u.dir, git, "init", "-q"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for name, content := range map[string]string{
				"notes.md": "mine\n", "clean.sh": "rm notes.md", ".gitignore": "build/\n", "build/a.o": "x",
			} {
				path := filepath.Join(u.dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			before := u.tree()
			done := make(chan client.Result)
			args := map[string]any{"command": tt.command}
			if strings.HasSuffix(tt.command, "#job") {
				args["run_in_background"] = true
			}
			go func() { done <- u.call("s1", "Bash", args) }()
			if tt.answer != "" {
				item := u.question(t)
				if item.Type != "changes" || !strings.Contains(item.Changes.Diff, "-mine") || !item.Changes.Kept ||
					item.Why[0].Rule != "developer.changes.deleted" {
					t.Errorf("the question: %+v", item)
				}
				do(t, u.operator, "POST", "/approvals/"+item.ID, json.RawMessage(tt.answer), nil)
			}
			r := <-done
			if args["run_in_background"] == true {
				u.until(t, func() bool { return maps.Equal(u.tree(), before) })
				return
			}
			switch stays := !maps.Equal(u.tree(), before); {
			case stays != tt.stays:
				t.Errorf("the changes are there: %v: %+v", stays, r)
			case stays && r.Status != "SUCCESS":
				t.Errorf("got %+v", r)
			case !stays && (r.Status != "EXECUTION_REJECTED" || r.Error.Code != "changes_rejected" || len(r.Changes) > 0):
				t.Errorf("got %+v, %+v", r, r.Error)
			case !stays:
				by := regexp.MustCompile(`call_\w+`).FindString(r.RejectReason)
				if a := u.undo(u.agent, by, nil); maps.Equal(u.tree(), before) {
					t.Errorf("a person cannot have the changes again: %s: %+v", r.RejectReason, a)
				}
			}
		})
	}
}

// With policy.undoable: allow nobody is asked before a command loses files that are kept; where one is not, a person is.
func TestWhatIsKeptMayBeLost(t *testing.T) {
	for _, tt := range []struct {
		name, more, command string
		large               bool
		asked               bool
	}{
		{"kept", "policy: {undoable: allow}\n", "rm -rf src", false, false},
		{"asked about otherwise", "", "rm -rf src", false, true},
		{"one file is too large", "policy: {undoable: allow}\nundo: {perCallBytes: 1000}\n", "rm -rf src", true, true},
		{"something else, too", "policy: {undoable: allow}\n", "rm -rf src; git push --force", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newUndoing(t, tt.more)
			if err := os.MkdirAll(u.dir+"/src", 0o755); err != nil {
				t.Fatal(err)
			}
			text := "mine"
			if tt.large {
				text = strings.Repeat("x", 2000)
			}
			for i := range 5 {
				if err := os.WriteFile(fmt.Sprint(u.dir, "/src/f", i), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before := u.tree()
			done := make(chan client.Result)
			go func() { done <- u.call("s1", "Bash", map[string]any{"command": tt.command}) }()
			if tt.asked {
				do(t, u.operator, "POST", "/approvals/"+u.question(t).ID, map[string]any{"approved": false}, nil)
			}
			r := <-done
			if tt.asked {
				if r.Status != "EXECUTION_REJECTED" || !maps.Equal(u.tree(), before) {
					t.Errorf("got %+v", r)
				}
				return
			}
			if r.Status != "SUCCESS" || maps.Equal(u.tree(), before) || r.Undo == nil || !r.Undo.Kept {
				t.Fatalf("got %+v, %+v", r, r.Undo)
			}
			if a := u.undo(u.agent, r.CallID, nil); len(a.Conflicts) > 0 || !maps.Equal(u.tree(), before) {
				t.Errorf("the undo: %+v", a)
			}
		})
	}
}

// asked is a question that waits.
type asked struct {
	ID, Type string
	Changes  struct {
		Diff string
		Kept bool
	}
	Why []struct{ Rule string }
}

// question waits for one.
func (u *undoing) question(t *testing.T) (item asked) {
	t.Helper()
	u.until(t, func() bool {
		var list []asked
		do(t, u.operator, "GET", "/approvals", nil, &list)
		if len(list) > 0 {
			item = list[0]
		}
		return len(list) > 0
	})
	return item
}

func (u *undoing) until(t *testing.T, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("it does not happen")
		}
	}
}

// tree is what lies in the directory: mode, time and content of each file. What goes away
// meanwhile is not there.
func (u *undoing) tree() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(u.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
		case d.IsDir():
			all[path] = info.Mode().String()
		case d.Type() == fs.ModeSymlink:
			all[path], err = os.Readlink(path)
		default:
			var b []byte
			b, err = os.ReadFile(path)
			all[path] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), string(b))
		}
		if errors.Is(err, fs.ErrNotExist) {
			delete(all, path)
			return nil
		}
		return err
	})
	if err != nil {
		u.t.Fatal(err)
	}
	return all
}

func runIn(dir, program string, words ...string) ([]byte, error) {
	cmd := exec.Command(program, words...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}
