package review

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/shellparse"
)

func TestWatchShowsWhatWillRun(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		done := x.call("git push --force | tee log")
		x.wait()
		x.see("may this call run?", "git push --force | tee log", "^^^^ ^^^^^^^", "(via pipeline)",
			"reads    /src/in", "writes   /src/log", "hosts    git.example.com",
			"why      the mode asks before programs run (mode:default)",
			"stops writes outside /src; stops all network except loopback", "[1/1] 4m58s · ? · y once · s session")
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
		{
			"e edits", "e\x15ls\x04y",
			tool.Approval{Approved: true, Remember: "once", Args: json.RawMessage(`{"command":"ls"}`)},
		},
		{
			"over several lines", "e\x01first\r\x05 -n\r\"last\" && <x>\x04y",
			tool.Approval{
				Approved: true, Remember: "once",
				Args: json.RawMessage(`{"command":"first\ngit push -n\n\"last\" && <x>"}`),
			},
		},
		{
			"an edit can be edited", "e\x15l\x04es\x04y",
			tool.Approval{Approved: true, Remember: "once", Args: json.RawMessage(`{"command":"ls"}`)},
		},
		{"an edit can be left", "e\x15rm\x1by", tool.Approval{Approved: true, Remember: "once"}},
		{"and at the end, too", "e\x15rm\x04\x1by", tool.Approval{Approved: true, Remember: "once"}},
		{"help answers nothing", "?y", tool.Approval{Approved: true, Remember: "once"}},
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

// TestWatchEditsOneArgumentAfterTheOther: text as text, the rest as JSON that must be
// JSON; what is not touched stays as it is.
func TestWatchEditsOneArgumentAfterTheOther(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		c := askedCall("make")
		c.In.Args = json.RawMessage(`{"command": "make", "timeout": 5, "n": 12345678901234567890, ` +
			`"description": "tab\tand \u001b", "x": null}`)
		done := make(chan tool.Approval, 1)
		go func() {
			a, err := x.q.Execution(context.Background(), c)
			if err != nil {
				t.Error(err)
			}
			done <- a
		}()
		synctest.Wait()
		x.wait()
		x.press("e")
		x.see("edit which? 1 command · 2 timeout · 3 n · 4 description · 5 x · esc back")
		x.press("9013 more\x04e2\x15{\x04")
		x.see("edit timeout (this is not valid JSON)")
		x.press("\x15[1, 2]\x04y")
		const want = `{"command":"make3 more","description":"tab\tand \u001b","n":12345678901234567890,` +
			`"timeout":[1,2],"x":null}`
		if a := <-done; !a.Approved || string(a.Args) != want {
			t.Errorf("got %s, want %s", a.Args, want)
		}
	})
}

// TestAQuestionOfTheModelTakesText: the answer goes to the model, and an empty one is none.
func TestAQuestionOfTheModelTakesText(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		done := make(chan tool.Output, 1)
		go func() {
			in := tool.In{Session: "ses_1", CallID: "c1", Args: json.RawMessage(`{"question":"Tabs or spaces?"}`)}
			out, err := approvals.Tools(x.q)[0].Run(context.Background(), in, nil)
			if err != nil {
				t.Error(err)
			}
			done <- out
		}()
		synctest.Wait()
		x.wait()
		x.see("the model asks you", "Tabs or spaces?", "y answer · n refuse")
		x.press("eay\r")
		x.see("your answer · enter done · esc back")
		x.press("ytabs\r")
		if out := <-done; out.Text != "tabs" {
			t.Errorf("the model got %q", out.Text)
		}
	})
}

func TestWatchHelpNamesEveryKey(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		x.call("make")
		x.wait()
		x.press("?")
		x.see("== keys", "  y        run this call, once", "equal calls of this session", "every session of this account",
			"the model reads the reason", "over several lines", "previous question", "what waits, waits on")
	})
}

// TestWatchClockGoes: while nothing else happens, and during an edit.
func TestWatchClockGoes(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		x.call("make")
		x.wait()
		x.see("4m58s")
		time.Sleep(10 * time.Second)
		x.see("4m57s", "4m49s")
		x.press("e")
		time.Sleep(100 * time.Second)
		synctest.Wait()
		x.see("edit command · ^D done · esc back · 4m40s", "3m8s")
		x.press("\x1b")
	})
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

// A key that was meant for the question before answers nothing for 0.7 s.
func TestWatchIgnoresKeysForAMoment(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		x.call("make first")
		time.Sleep(time.Second)
		second := x.call("make second")
		x.wait()
		x.press("j")
		time.Sleep(700*time.Millisecond - 1)
		x.press("y")
		select {
		case a := <-second:
			t.Fatalf("too early: %+v", a)
		default:
		}
		time.Sleep(time.Nanosecond)
		x.press("y")
		if a := <-second; !a.Approved {
			t.Errorf("got %+v", a)
		}
	})
}

// TestWatchGoesBothWays: j to the next question and k to the one before, around the end.
func TestWatchGoesBothWays(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		var answers []<-chan tool.Approval
		for _, target := range []string{"one", "two", "three"} {
			answers = append(answers, x.call("make "+target))
			time.Sleep(time.Second)
		}
		x.wait()
		for _, tt := range []struct{ key, at string }{{"k", "[3/3]"}, {"k", "[2/3]"}, {"j", "[3/3]"}, {"j", "[1/3]"}} {
			before := len(x.out.String())
			x.press(tt.key)
			if got := x.out.String()[before:]; !strings.Contains(got, tt.at) {
				t.Errorf("after %s: %q, want %s", tt.key, got, tt.at)
			}
		}
		for _, done := range answers {
			x.wait()
			x.press("y")
			<-done
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
		if _, err := x.q.Decide(x.t.Context(), page.Keys[0].ID, approvals.Decision{}); err != nil {
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
	item := approvals.Item{
		Type:        approvals.TypeExecution,
		Status:      approvals.StatusPending,
		Tool:        hostile,
		SessionID:   hostile,
		Description: hostile,
	}
	item.Args, _ = json.Marshal(map[string]string{"command": hostile, hostile: "x"})
	item.Facts = approvals.Facts{
		Dir: hostile, Mode: tool.Mode(hostile), Reads: []string{hostile}, Hosts: []string{hostile},
		Commands: []shellparse.Command{{Name: hostile}}, Opaque: []shellparse.Opaque{{Message: hostile}},
	}
	item.Why = []tool.Reason{{Rule: hostile, Message: hostile}}
	item.Connection = &tool.Connecting{Host: hostile, Endpoint: hostile, Protocol: hostile, Via: hostile, Workspace: hostile}
	text := Render(item, time.Now(), Screen{Width: 80})
	for _, bad := range []string{"\x1b", "\r", "\u202e", "\u200b", "\x07", "\u009b", "\u2028"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q reaches the terminal", bad)
		}
	}
	if !strings.Contains(text, `\u{1b}[2J`) {
		t.Error("what was hidden is not shown")
	}
	if got := visible.Text(Summary(item)); strings.Contains(got, "\x1b") {
		t.Errorf("the list shows %q", got)
	}
}

// The question about a connection names the host, the port and the command.
func TestAQuestionAboutAConnection(t *testing.T) {
	item := approvals.Item{
		ID: "apr_1", Type: approvals.TypeConnection, Tool: "Bash", Status: approvals.StatusPending, Waiting: 2,
		Args: json.RawMessage(`{"command":"npm ci"}`), Remember: []string{"once", "session", "always"},
		Connection: &tool.Connecting{Host: "a.test", Port: 8443, Protocol: "tcp", Via: "transparent", Endpoint: "a.test:8443"},
		Facts:      approvals.Facts{Class: tool.ClassExec, Domains: []string{"b.test"}, Unlisted: "ask"},
	}
	text := Render(item, time.Now(), Screen{Width: 120})
	for _, want := range []string{
		"Bash: may it connect to a.test, port 8443?", "connects a.test:8443, tcp, transparent", "npm ci",
		"2 connections wait for this answer", "asks before it connects to a host other than b.test",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the question lacks %q:\n%s", want, text)
		}
	}
	if got := Summary(item); got != "connect to a.test:8443: npm ci" {
		t.Errorf("in the list: %q", got)
	}
	one := item
	one.Connection = &tool.Connecting{Host: "a.test", Port: 443, Protocol: "tls", Method: "DELETE", Path: "/repos/x"}
	text = Render(one, time.Now(), Screen{Width: 120})
	if !strings.Contains(text, "may it send DELETE to a.test, port 443?") || !strings.Contains(text, "DELETE /repos/x") {
		t.Errorf("the question about a request is\n%s", text)
	}
	if got := Summary(one); got != "DELETE /repos/x of a.test:443: npm ci" {
		t.Errorf("in the list: %q", got)
	}
	if keys := (Screen{Width: 120}).help(item); !strings.Contains(keys, "let all calls of this session connect") ||
		strings.Contains(keys, "change the arguments") {
		t.Errorf("the keys are\n%s", keys)
	}
}

func TestTextFitsEightyColumnsAndIsWhole(t *testing.T) {
	command := strings.Repeat("word ", 100) + strings.Repeat("x", 300)
	item := approvals.Item{Type: approvals.TypeExecution, Tool: "Bash", Status: approvals.StatusPending}
	item.Args, _ = json.Marshal(map[string]string{"command": command})
	var joined strings.Builder
	for _, line := range strings.Split(Render(item, time.Now(), Screen{Width: 80}), "\n") {
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

// However long they are, arguments, a result and a diff stand whole in their blocks.
func TestLongTextsOfAQuestionAreWhole(t *testing.T) {
	long := func(what string) string { return strings.Repeat(what+" ", 50_000) + "the end of " + what }
	item := approvals.Item{
		Type: approvals.TypeResult, Tool: "Write", Status: approvals.StatusPending, Result: long("result"),
		Changes: &tool.Changing{Kept: true, Diff: long("diff")},
	}
	item.Args, _ = json.Marshal(map[string]string{"file_path": "/w/a", "content": long("content")})
	text := Render(item, time.Now(), Screen{Width: 80})
	for _, label := range []string{"content", "result", "diff"} {
		_, below, found := strings.Cut(text, "\n  "+label+":\n")
		var joined strings.Builder
		for line := range strings.Lines(below) {
			part, inside := strings.CutPrefix(line, "    ")
			if !inside {
				break
			}
			joined.WriteString(strings.TrimSuffix(part, "\n"))
		}
		if got, want := joined.String(), long(label); !found || got != want {
			t.Errorf("of %s, %d characters are shown, want %d", label, len(got), len(want))
		}
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
		for _, w := range Words(tt.in) {
			if w.Risky {
				got = append(got, w.Text)
			}
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
		go func() { done <- WatchJSON(ctx, NewQueue(queueAPI{x.q}), in, out) }()
		asked := x.call("make")
		x.wait()
		var line watchLine
		if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line.Event != "asked" || line.Item == nil {
			t.Fatalf("got %q, %v, want the question", out.String(), err)
		}
		for _, bad := range []string{
			"garbage", "{}", `{"id":"` + line.ID + `","aproved":true}`,
			`{"id":"` + line.ID + `","approved":false,"Approved":true}`, `{"id":"` + line.ID + `","approved":true} {}`,
			`{"id":"apr_x","approved":true}`,
		} {
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
		for answer, want := range map[string]tool.Approval{
			`"approved":false,"reason":"not now"`: {Reason: "not now", Remember: "once"},
			`"approved":true,"remember":"session","args":{"command":"ls"}`: {
				Approved: true, Remember: "session", Args: json.RawMessage(`{"command":"ls"}`),
			},
		} {
			asked := x.call("make more")
			x.wait()
			page, err := x.q.List(x.t.Context(), approvals.Filter{Status: "pending"})
			if err != nil || len(page.Keys) != 1 {
				t.Fatalf("got %+v, %v, want one question", page, err)
			}
			if _, err := io.WriteString(answers, `{"id":"`+page.Keys[0].ID+`",`+answer+"}\n"); err != nil {
				t.Fatal(err)
			}
			a := <-asked
			got := tool.Approval{Approved: a.Approved, Reason: a.Reason, Remember: a.Remember, Args: a.Args}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("%s: got %+v, want %+v", answer, got, want)
			}
			x.wait()
		}
		answers.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		got := out.String()
		for event, want := range map[string]int{"error": 6, "answered": 3, "gone": 3, "asked": 3} {
			if n := strings.Count(got, `"event":"`+event+`"`); n != want {
				t.Errorf("got %d lines of %q, want %d:\n%s", n, event, want, got)
			}
		}
		if n := strings.Count(got, `"code":"invalid_answer"`); n != 5 { // the sixth is of a question that is not there
			t.Errorf("got %d lines of what is no answer, want 5:\n%s", n, got)
		}
	})
}

func TestListReadsEveryPage(t *testing.T) {
	onTerminal(t, func(x *terminal) {
		for i := range pageSize {
			x.call(fmt.Sprint("make ", i))
		}
		for _, want := range []int{pageSize, pageSize + 1} {
			items, err := NewQueue(queueAPI{x.q}).List(x.t.Context(), "pending")
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
		Screen{Width: 80}.block(&b, Field{text, text, true, true})
		for _, r := range b.String() {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%q shows %q", text, r)
			}
		}
		whole := ""
		for _, w := range Words(text) {
			whole += w.Text
		}
		if whole != text {
			t.Fatalf("the words of %q are %q", text, whole)
		}
	})
}

// The question about changes shows what changed, the diff, and whether all of it can be undone.
func TestAQuestionAboutChanges(t *testing.T) {
	item := approvals.Item{
		ID: "apr_1", Type: approvals.TypeChanges, Tool: "Bash", Status: approvals.StatusPending,
		Args: json.RawMessage(`{"command":"make tidy"}`), Remember: []string{"once"},
		Changes: &tool.Changing{
			Changes: []tool.Change{{Path: "notes\x1b[2Jmd", Kind: tool.ChangeDelete, BytesBefore: 7}}, Total: 3, Diff: "-my \x1bnotes\n",
			Unkept: "big.bin is too large",
		},
	}
	text := Render(item, time.Now(), Screen{Width: 120})
	for _, want := range []string{
		"Bash: may its changes stay?", "make tidy", "delete", "(7 bytes before, 0 after)", "and 2 more", "-my ",
		"a no does not bring all of it back: big.bin is too large",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the question lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a name can draw on the terminal")
	}
	if keys := (Screen{Width: 120}).help(item); !strings.Contains(keys, "undo them") || strings.Contains(keys, "change the arguments") {
		t.Errorf("the keys are\n%s", keys)
	}
}
