package review

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Each kind of question asks something else, and a connection what is sent where.
func TestWhatAQuestionAsks(t *testing.T) {
	for _, tt := range []struct {
		kind approvals.Type
		to   *tool.Connecting
		want string
	}{
		{approvals.TypeExecution, nil, "Bash: may this call run?"},
		{approvals.TypeResult, nil, "Bash: may the model see this result?"},
		{approvals.TypeQuestion, nil, "Bash: the model asks you"},
		{approvals.TypeChanges, nil, "Bash: may its changes stay?"},
		{
			approvals.TypeConnection, &tool.Connecting{Host: "a.test", Port: 443},
			"Bash: may it connect to a.test, port 443?",
		},
		{
			approvals.TypeConnection, &tool.Connecting{Host: "a.test", Port: 80, Method: "POST"},
			"Bash: may it send POST to a.test, port 80?",
		},
	} {
		if got := Heading(approvals.Item{Tool: "Bash", Type: tt.kind, Connection: tt.to}); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// A person reads everything that a question has, in this order.
func TestWhatAQuestionShows(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	item := approvals.Item{
		ID: "apr_1", SessionID: "ses_1", Agent: "tester", RunsAs: "ann", Tool: "Bash", Description: "runs a command",
		Parents:     []tool.Ancestor{{Session: "ses_0", Agent: "lead"}, {Session: "ses_9"}},
		Type:        approvals.TypeResult,
		Args:        json.RawMessage(`{"command":"ls","timeout":3}`),
		ResultState: tool.StatusSuccess, Result: "a.go", Why: []tool.Reason{{Rule: "r.one", Message: "one"}, {Rule: "r.two", Message: "two"}},
		Connection: &tool.Connecting{Host: "a.test", Port: 80, Protocol: "http", Via: "proxy", Method: "GET", Path: "/x"},
		Changes:    &tool.Changing{Changes: []tool.Change{{Path: "/w/a", Kind: "modified", BytesBefore: 1, BytesAfter: 2}}, Total: 3, Diff: "+b", Unkept: "too large"},
		Status:     approvals.StatusPending, Waiting: 2, ExpiresAt: now.Add(time.Minute),
	}
	show := func(i approvals.Item) (text string) {
		for _, f := range Fields(i, now) {
			text += f.Label + ": " + f.Text + "\n"
		}
		return text
	}
	const head = `id: apr_1
session: ses_1
agent: tester, started by lead, started by ses_9
rights: those of ann
tool is: runs a command
connects: a.test:80, http, proxy
request: GET /x
command: ls
timeout: 3
status: SUCCESS
result: a.go
modified: /w/a (1 bytes before, 2 after)
changes: and 2 more
careful: a no does not bring all of it back: too large
diff: +b
why: one (r.one)
: two (r.two)
`
	if got, want := show(item), head+"calls: 2 connections wait for this answer\nwaits: 1m0s more, then it is refused\n"; got != want {
		t.Errorf("it waits:\n%swant:\n%s", got, want)
	}
	item.Status, item.DecidedBy, item.Reason, item.Waiting = approvals.StatusRefused, "ann", "not now", 0
	if got, want := show(item), head+"answer: refused by ann: not now\n"; got != want {
		t.Errorf("it is answered:\n%swant:\n%s", got, want)
	}
	gone := approvals.Item{ID: "apr_2", Status: approvals.StatusPending, ExpiresAt: now.Add(time.Second), Args: json.RawMessage(`{}`)}
	if got := show(gone); !strings.Contains(got, "calls: "+Gone+"\n") {
		t.Errorf("nobody waits:\n%s", got)
	}
}

// A terminal takes no row for one row.
func TestTheCursorStaysForNoRow(t *testing.T) {
	for rows, want := range map[int]string{0: "", 1: "\x1b[1A", 3: "\x1b[3A"} {
		var b strings.Builder
		if up(&b, rows); b.String() != want {
			t.Errorf("%d rows: %q, want %q", rows, b.String(), want)
		}
	}
}

// A question says which limits of the sandbox hold after a yes as well.
func TestWhatTheSandboxStillStops(t *testing.T) {
	for want, f := range map[string]approvals.Facts{
		"": {Domains: []string{"a.test"}},
		"writes are not limited to directories; stops all network except loopback": {Class: tool.ClassExec},
		"stops every write; stops all network except loopback": {
			Class: tool.ClassExec, WritePaths: []string{"/w"}, Domains: []string{"a.test"}, Unlisted: guard.UnlistedAsk,
			Obligations: guard.Obligations{ReadOnly: true, NoNetwork: true},
		},
		"stops writes outside /w, /x; stops all hosts except a.test, b.test": {
			Class: tool.ClassExec, WritePaths: []string{"/w", "/x"}, Domains: []string{"a.test", "b.test"},
		},
		"writes are not limited to directories; asks before it connects to a host": {
			Class: tool.ClassExec, Unlisted: guard.UnlistedAsk,
		},
		"writes are not limited to directories; asks before it connects to a host other than a.test": {
			Class: tool.ClassExec, Unlisted: guard.UnlistedAsk, Domains: []string{"a.test"},
		},
	} {
		if got := stillStops(f); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// A question says which files the answer binds, that a missing one stays so, and what is not bound.
func TestWhatAnAnswerBinds(t *testing.T) {
	text := Render(approvals.Item{
		Type: approvals.TypeExecution, Tool: "Bash", Args: json.RawMessage(`[1]`), Status: approvals.StatusPending,
		Facts: approvals.Facts{
			Bound: []sandbox.Approved{
				{Path: "/w/run.sh", Bytes: 7, Sum: "0123456789abcdef"},
				{Path: "/w/a", Absent: true},
				{Path: "/w/b", Absent: true},
			},
			NotBound: []string{"/w/far: it is too large"},
			Commands: []shellparse.Command{{Args: []shellparse.Word{{Text: "x"}}, Via: []string{"sudo", "env"}}},
		},
	}, time.Now(), Screen{Width: 120})
	for _, want := range []string{
		"/w/run.sh (7 bytes, sha256 0123456789ab…)", "absent, and stays so: /w/a, /w/b",
		"not bound: /w/far: it is too large",
		"(unknown program) x   (via sudo, env)",
		"args:\n    [1]\n", // arguments that are no object are shown as they are
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the question lacks %q:\n%s", want, text)
		}
	}
}

// What a yes becomes when it is remembered: where, for whom, and with whose rights.
func TestWhatIsRemembered(t *testing.T) {
	call := approvals.Item{Tool: "Bash", SessionID: "s", Account: "team", Facts: approvals.Facts{Dir: "/w"}}
	other := call
	other.RunsAs = "uid:7"
	connection := other
	connection.Connection = &tool.Connecting{Endpoint: "a.test:443", Workspace: "/w"}
	for _, tt := range []struct {
		item        approvals.Item
		scope, want string
	}{
		{call, approvals.RememberSession, "allow Bash in /w, for session s, where the arguments are exactly:"},
		{
			call, approvals.RememberAlways,
			"allow Bash in /w, for every session of team, where the arguments are exactly:",
		},
		{
			other, approvals.RememberAlways,
			"allow Bash in /w, for every session of team as uid:7, where the arguments are exactly:",
		},
		{
			connection, approvals.RememberSession,
			"programs may connect to a.test:443 in /w, for session s as uid:7",
		},
	} {
		if got := Rule(tt.item, tt.scope); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

// A list says of a call what it does: its command line, its file, or else its first text.
func TestWhatACallDoes(t *testing.T) {
	for args, want := range map[string]string{
		`{"argv":["rm","a b"],"command":"true"}`: `rm 'a b'`,
		`{"note":"n","path":"/p"}`:               "/p",
		`{"note":"n","url":"u","name":"m"}`:      "u",
		`{"name":"n","query":"q"}`:               "q",
		`{"note":"n","name":"m"}`:                "m",
		`{"name":"n","question":"why"}`:          "why",
		`{"path":"p","file_path":"/f"}`:          "/f",
		`{"url":"u","pattern":"*.go"}`:           "*.go",
		`{"note":"","first":"f","second":"s"}`:   "f",
		`{"count":3}`:                            `{"count":3}`,
		`["x"]`:                                  `["x"]`,
	} {
		if got := What(json.RawMessage(args)); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	words := asWords(approvals.Item{SessionID: "s", Description: "d", Args: json.RawMessage(`{"argv":["ls","a b"]}`)})
	if string(words.Args) != `{"command":"ls 'a b'"}` || words.SessionID != "" || words.Description != "" {
		t.Errorf("on the terminal: %s of %q, %q", words.Args, words.SessionID, words.Description)
	}
	if other := asWords(approvals.Item{Args: json.RawMessage(`{"argv":[]}`)}); string(other.Args) != `{"argv":[]}` {
		t.Errorf("without words: %s", other.Args)
	}
}

// What is no terminal has 80 columns and no colours, and a row without a text is none.
func TestTheScreenOfAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := ScreenOf(f)
	if s != (Screen{Width: 80}) {
		t.Errorf("got %+v", s)
	}
	var b strings.Builder
	s.Row(&b, "label", 9, "")
	if b.Len() != 0 {
		t.Errorf("an empty row is %q", b.String())
	}
}
