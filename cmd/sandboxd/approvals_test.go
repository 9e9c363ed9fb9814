package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
)

// queueAPI answers as the daemon does, from a queue in memory.
type queueAPI struct{ q *approvals.Queue }

func (a queueAPI) Do(ctx context.Context, method, path string, in, out any) error {
	u, err := url.Parse(path)
	if err != nil {
		return err
	}
	id := strings.TrimPrefix(strings.TrimPrefix(u.Path, "/approvals"), "/")
	var answer any
	switch {
	case method == http.MethodGet && id == "":
		var page approvals.Page
		f := approvals.Filter{Status: u.Query().Get("status")}
		if _, err := fmt.Sscanf(u.Query().Get("limit")+" "+u.Query().Get("offset"), "%d %d", &f.Limit, &f.Offset); err != nil {
			return err
		}
		page, err = a.q.List(ctx, f)
		answer = page.Items
	case method == http.MethodGet:
		answer, err = a.q.Get(ctx, id)
	case method == http.MethodPost:
		d := in.(approvalDecision)
		answer, err = a.q.Decide(ctx, id, approvals.Decision{
			Approved: d.Approved, Reason: d.Reason, Remember: d.Remember, Args: d.Args, By: "tester",
		})
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, out)
}

// terminal drives a watcher as a person does.
type terminal struct {
	t    *testing.T
	q    *approvals.Queue
	out  *lockedBuffer
	keys chan rune
	done chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func onTerminal(t *testing.T, f func(*terminal)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, approvals.Schema())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		q, err := approvals.New(t.Context(), db, approvals.Options{Approver: true})
		if err != nil {
			t.Fatal(err)
		}
		term := &terminal{t: t, q: q, out: &lockedBuffer{}, keys: make(chan rune), done: make(chan error, 1)}
		w := &watcher{api: approvalsAPI{queueAPI{q}}, out: term.out, screen: screen{width: 80}}
		go func() { term.done <- w.run(t.Context(), term.keys) }()
		f(term)
		close(term.keys)
		if err := <-term.done; err != nil {
			t.Error(err)
		}
		if err := q.Close("end of test"); err != nil {
			t.Error(err)
		}
	})
}

// wait lets the watcher see what is new and the person read it.
func (x *terminal) wait() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

func (x *terminal) press(keys string) {
	for _, k := range keys {
		x.keys <- k
	}
	synctest.Wait()
}

func (x *terminal) see(want ...string) {
	x.t.Helper()
	for _, text := range want {
		if !strings.Contains(x.out.String(), text) {
			x.t.Errorf("the screen lacks %q:\n%s", text, x.out.String())
		}
	}
}

func (x *terminal) call(command string) <-chan tool.Approval {
	done := make(chan tool.Approval, 1)
	go func() {
		a, err := x.q.Execution(context.Background(), askedCall(command))
		if err != nil {
			x.t.Error(err)
		}
		done <- a
	}()
	synctest.Wait()
	return done
}

func askedCall(command string) *tool.Call {
	args, _ := json.Marshal(map[string]string{"command": command})
	c := tool.NewCall(tool.Request{Tool: "Bash", Args: args})
	c.Session = tool.Session{ID: "ses_1", Account: "default-admin"}
	c.Spec = tool.Spec{Name: "Bash", Description: "Runs a command.", Class: tool.ClassExec}
	c.In.Dir = "/src"
	c.Facts = tool.Facts{Class: tool.ClassExec, Mode: "default", Uses: sandbox.Uses{
		Script: &shellparse.Script{Commands: []shellparse.Command{{Name: "git", Args: []shellparse.Word{{Text: "push"}, {Text: "--force"}}, Via: []string{"pipeline"}}}},
		Paths:  []sandbox.PathUse{{Path: "/src/log", Op: sandbox.Write}, {Path: "/src/in", Op: sandbox.Read}},
		Hosts:  []string{"git.example.com"},
	}}
	c.Settings.AllowedWritePaths = []string{"/src"}
	c.Decision = tool.Decision{By: tool.ByMode, Reasons: []tool.Reason{{Rule: "mode:default", Message: "the mode asks before programs run"}}}
	c.Digest = command
	return c
}

func TestWatchShowsWhatWillRun(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		done := x.call("git push --force | tee log")
		x.wait()
		x.see("may this call run?", "git push --force | tee log", "^^^^ ^^^^^^^", "(via pipeline)",
			"reads    /src/in", "writes   /src/log", "hosts    git.example.com",
			"why      the mode asks before programs run (mode:default)",
			"stops writes outside /src; stops all network but loopback", "[1/1] y once · s session")
		x.press("y")
		if a := <-done; !a.Approved || a.By != "tester" {
			t.Errorf("got %+v, want an approval", a)
		}
	})
}

func TestWatchKeys(t *testing.T) {
	for _, tt := range []struct {
		name, keys string
		want       tool.Approval
	}{
		{"y is once", "y", tool.Approval{Approved: true, Remember: "once"}},
		{"n with a reason", "nno pushing\r", tool.Approval{Reason: "no pushing", Remember: "once"}},
		{"n without a reason", "n\r", tool.Approval{Reason: "Execution rejected by user", Remember: "once"}},
		{"the reason can be corrected", "nabc\x7f\x7f\x7fok\r", tool.Approval{Reason: "ok", Remember: "once"}},
		{"escape goes back", "n\x1by", tool.Approval{Approved: true, Remember: "once"}},
		{"s asks for a yes", "syes\r", tool.Approval{Approved: true, Remember: "session"}},
		{"s without yes is nothing", "sy\ry", tool.Approval{Approved: true, Remember: "once"}},
		{"a is always", "ayes\r", tool.Approval{Approved: true, Remember: "always"}},
		{"other keys are nothing", "xYNE[A y", tool.Approval{Approved: true, Remember: "once"}},
		{"e edits", "e\x15{\"command\":\"ls\"}\r", tool.Approval{Approved: true, Remember: "once", Args: json.RawMessage(`{"command":"ls"}`)}},
		{"a bad edit answers nothing", "e}\ry", tool.Approval{Approved: true, Remember: "once"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onTerminal(t, func(x *terminal) {
				done := x.call("git push")
				x.wait()
				x.press(tt.keys)
				a := <-done
				got := tool.Approval{Approved: a.Approved, Reason: a.Reason, Remember: a.Remember, Args: a.Args}
				if got.Approved != tt.want.Approved || got.Reason != tt.want.Reason ||
					got.Remember != tt.want.Remember || string(got.Args) != string(tt.want.Args) {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
			})
		})
	}
}

func TestWatchGoesThroughSeveralQuestions(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		first := x.call("make first")
		time.Sleep(time.Second)
		second := x.call("make second")
		x.wait()
		x.see("[1/2]")
		x.press("j")
		x.see("[2/2]", "make second")
		x.press("y")
		select {
		case a := <-second:
			t.Fatalf("a key in the first moments answered: %+v", a)
		default:
		}
		x.wait()
		x.press("n\r")
		if a := <-second; a.Approved {
			t.Errorf("got %+v, want the second refused", a)
		}
		x.wait()
		x.press("y")
		if a := <-first; !a.Approved {
			t.Errorf("got %+v, want the first approved", a)
		}
	})
}

func TestWatchSaysThatSomebodyElseAnswered(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		done := x.call("make")
		x.wait()
		page, err := x.q.List(x.t.Context(), approvals.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.q.Decide(x.t.Context(), page.Items[0].ID, approvals.Decision{}); err != nil {
			t.Fatal(err)
		}
		x.press("y")
		x.see("already", "nothing waits")
		if a := <-done; a.Approved {
			t.Errorf("got %+v, want the other's refusal", a)
		}
	})
}

func TestWatchLeavingAnswersNothing(t *testing.T) {
	for _, key := range []string{"q", "\x03", "\x04"} {
		onTerminal(t, func(x *terminal) {
			x.call("make")
			x.wait()
			x.press(key)
			if err := <-x.done; err != nil {
				t.Error(err)
			}
			x.done <- nil
			if x.q.Pending() != 1 {
				t.Errorf("leaving with %q answered", key)
			}
		})
	}
}

func TestModelTextCannotDrawOnTheTerminal(t *testing.T) {
	hostile := "ls \x1b[2J\x1b[1;1H\rfake \u202egnp.exe\u200b \x07\x9b31m\u2028 \xff"
	item := approvals.Item{Type: approvals.TypeExecution, Status: approvals.StatusPending, Tool: hostile, SessionID: hostile, Description: hostile}
	item.Args, _ = json.Marshal(map[string]string{"command": hostile, hostile: "x"})
	item.Facts = approvals.Facts{
		Dir: hostile, Mode: hostile, Reads: []string{hostile}, Hosts: []string{hostile},
		Commands: []shellparse.Command{{Name: hostile}}, Opaque: []shellparse.Opaque{{Message: hostile}},
	}
	item.Why = []tool.Reason{{Rule: hostile, Message: hostile}}
	text := renderItem(item, time.Now(), screen{width: 80})
	for _, bad := range []string{"\x1b", "\r", "\u202e", "\u200b", "\x07", "\u009b", "\u2028"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q reaches the terminal", bad)
		}
	}
	if !strings.Contains(text, `\u{1b}[2J`) {
		t.Error("what was hidden is not shown")
	}
	if got := safeLine(summary(item)); strings.Contains(got, "\x1b") {
		t.Errorf("the list shows %q", got)
	}
}

func TestTextFitsEightyColumnsAndIsWhole(t *testing.T) {
	command := strings.Repeat("word ", 100) + strings.Repeat("x", 300)
	item := approvals.Item{Type: approvals.TypeExecution, Tool: "Bash", Status: approvals.StatusPending}
	item.Args, _ = json.Marshal(map[string]string{"command": command})
	var joined strings.Builder
	for _, line := range strings.Split(renderItem(item, time.Now(), screen{width: 80}), "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("a line has %d columns: %q", n, line)
		}
		if text, ok := strings.CutPrefix(line, "    "); ok {
			joined.WriteString(text)
		}
	}
	if joined.String() != command {
		t.Errorf("the command is not shown whole: %q", joined.String())
	}
}

func TestRiskyWords(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"git push --force origin", []string{"push", "--force"}},
		{"rm -rf build", []string{"rm", "-rf"}},
		{"/bin/rm x", []string{"rm"}},
		{"curl x|sh", []string{"curl", "sh"}},
		{"sudo sudo rm", []string{"sudo", "sudo", "rm"}},
		{"farm term form --forced-x", []string{"--forced-x"}},
		{"go test ./...", nil},
		{"echo $(eval x)", []string{"eval"}},
		{"", nil},
	} {
		var got []string
		for _, m := range riskySpans(tt.in) {
			got = append(got, tt.in[m.start:m.end])
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestWatchJSON(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		ctx, cancel := context.WithCancel(x.t.Context())
		in, answers := io.Pipe()
		out := &lockedBuffer{}
		done := make(chan error, 1)
		go func() { done <- watchJSON(ctx, approvalsAPI{queueAPI{x.q}}, in, out) }()
		asked := x.call("make")
		x.wait()
		var line watchLine
		if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line.Event != "asked" || line.Item == nil {
			t.Fatalf("got %q, %v, want the question", out.String(), err)
		}
		for _, bad := range []string{"garbage", "{}", `{"id":"` + line.ID + `","aproved":true}`, `{"id":"apr_x","approved":true}`} {
			if _, err := io.WriteString(answers, bad+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.WriteString(answers, `{"id":"`+line.ID+`","approved":true}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if a := <-asked; !a.Approved {
			t.Errorf("got %+v, want an approval", a)
		}
		x.wait()
		answers.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		got := out.String()
		for event, want := range map[string]int{"error": 4, "answered": 1, "gone": 1, "asked": 1} {
			if n := strings.Count(got, `"event":"`+event+`"`); n != want {
				t.Errorf("got %d lines of %q, want %d:\n%s", n, event, want, got)
			}
		}
	})
}

func TestListReadsEveryPage(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		for i := range pageSize {
			x.call(fmt.Sprint("make ", i))
		}
		for _, want := range []int{pageSize, pageSize + 1} {
			items, err := approvalsAPI{queueAPI{x.q}}.list(x.t.Context(), "pending")
			if err != nil || len(items) != want {
				t.Errorf("got %d, %v, want %d", len(items), err, want)
			}
			if want == pageSize {
				other := askedCall("one more")
				other.Session.ID = "ses_2"
				go func() { _, _ = x.q.Execution(context.Background(), other) }()
				synctest.Wait()
			}
		}
	})
}

func FuzzShownText(f *testing.F) {
	f.Add("git push --force\x1b[2J\u202e\xff")
	f.Add("rm rm rm -rf-rf --force=")
	f.Fuzz(func(t *testing.T, text string) {
		var b strings.Builder
		screen{width: 80}.block(&b, text, text, true)
		for _, r := range b.String() {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%q shows %q", text, r)
			}
		}
		last := 0
		for _, m := range riskySpans(text) {
			if m.start < last || m.end <= m.start || m.end > len(text) {
				t.Fatalf("%q has the mark %+v after %d", text, m, last)
			}
			last = m.end
		}
	})
}
