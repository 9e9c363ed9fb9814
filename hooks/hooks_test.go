package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func newRegistry(t testing.TB, event Event, defs ...Definition) *Registry {
	t.Helper()
	r, err := New(Options{Hooks: map[string][]Definition{string(event): defs}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// says is a function hook with a fixed answer.
func says(o Output) Definition {
	return Definition{Handler: func(context.Context, Input) (*Output, error) { return &o, nil }}
}

func bash(command string) *tool.Call {
	args, _ := json.Marshal(map[string]string{"command": command})
	c := tool.NewCall(tool.Request{Tool: "Bash", Session: "s1", ToolUseID: "toolu_1", Args: args})
	c.Spec = tool.Spec{Name: "Bash"}
	c.Session = tool.Session{ID: "s1", Dir: "/src", Mode: "auto"}
	c.In.Dir = "/src"
	return c
}

func before(t *testing.T, r *Registry, c *tool.Call) tool.Advice {
	t.Helper()
	a, err := r.Before(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestH01_CX28_TwentyThreeEventsByName(t *testing.T) {
	names := strings.Fields(`preToolUse postToolUse postToolUseFailure sessionStart sessionEnd stop subagentStart
		subagentStop userPromptSubmit permissionRequest permissionDenied taskCreated taskCompleted configChange
		cwdChanged fileChanged notification preCompact postCompact teammateIdle setup worktreeCreate worktreeRemove`)
	if len(names) != 23 || len(Events) != 23 {
		t.Fatalf("%d names, %d events", len(names), len(Events))
	}
	for _, name := range names {
		for _, spelled := range []string{name, strings.ToUpper(name[:1]) + name[1:]} {
			if _, err := New(Options{Hooks: map[string][]Definition{spelled: {says(Output{})}}}); err != nil {
				t.Error(err)
			}
		}
	}
	for _, bad := range []string{"", "preTool", "PRETOOLUSE", "pre_tool_use", "é"} {
		if _, err := New(Options{Hooks: map[string][]Definition{bad: {says(Output{})}}}); err == nil {
			t.Errorf("event %q was accepted", bad)
		}
	}
}

func TestH07_H15_WrongDefinitionsDoNotLoad(t *testing.T) {
	ok := func(context.Context, Input) (*Output, error) { return nil, nil }
	for _, tt := range []struct {
		name string
		d    Definition
		want string
	}{
		{"neither command nor handler", Definition{}, "exactly one"},
		{"blank command", Definition{Command: "  "}, "exactly one"},
		{"both", Definition{Command: "true", Handler: ok}, "exactly one"},
		{"command and url", Definition{Command: "true", URL: "https://x/"}, "exactly one"},
		{"invalid matcher", Definition{Handler: ok, Matcher: "("}, "matcher"},
		{"negative timeout", Definition{Handler: ok, TimeoutMS: -1}, "negative"},
		{"unknown onError", Definition{Handler: ok, OnError: "ignore"}, "onError"},
		{"relative program", Definition{Command: "./check.sh"}, "relative"},
		{"quoted relative program", Definition{Command: "'bin/check'"}, "relative"},
		{"program in the workspace", Definition{Command: "/ws/hooks/check --fast"}, "agents can write"},
		{"program in the workspace by dots", Definition{Command: "/usr/../ws/check"}, "agents can write"},
		{"plain http to another machine", Definition{URL: "http://example.com/"}, "plain http"},
		{"url without host", Definition{URL: "file:///etc/passwd"}, "https"},
		{"https without host", Definition{URL: "https:///hook"}, "and a host"},
		{"another scheme", Definition{URL: "ftp://localhost/hook"}, "https"},
	} {
		_, err := New(Options{Writable: []string{"/ws"}, Hooks: map[string][]Definition{"preToolUse": {tt.d}}})
		if err == nil || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), "hooks.preToolUse[0]") {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if d := (Definition{Command: "true"}); d.timeout() != 30*time.Second {
		t.Errorf("default timeout is %v", d.timeout())
	}
}

// A hook that fails blocks where a block keeps something from happening, unless it says otherwise.
func TestWhatAFailureDoesIfNobodySaysSo(t *testing.T) {
	blocks := []Event{
		PreToolUse, UserPromptSubmit, PermissionRequest, SubagentStart, TaskCreated, TaskCompleted, ConfigChange,
		PreCompact, WorktreeCreate,
	}
	for _, event := range Events {
		list := newRegistry(t, event, says(Output{})).List()
		want := FailContinue
		if slices.Contains(blocks, event) {
			want = FailBlock
		}
		if len(list) != 1 || list[0].OnError != want {
			t.Errorf("%s: got %+v, want %s", event, list, want)
		}
	}
}

// A hook that could never run, or whose failure could never do what it says, is a mistake.
func TestHooksThatWouldDoNothingDoNotLoad(t *testing.T) {
	for _, event := range Events {
		for _, d := range []Definition{
			{Command: "true"},
			{Command: "true", Matcher: "*"},
			{Command: "true", Matcher: "^Bash$"},
			{Command: "true", OnError: FailContinue},
			{Command: "true", OnError: FailAsk},
			{Command: "true", OnError: FailBlock},
		} {
			_, err := New(Options{Hooks: map[string][]Definition{string(event): {d}}})
			toolless := event == SessionStart || event == SessionEnd || event == ConfigChange || event == NotificationEvent
			told := event == PermissionDenied || event == FileChanged || event == CwdChanged || toolless && event != ConfigChange
			wrong := toolless && d.Matcher == "^Bash$" || told && d.OnError == FailBlock ||
				d.OnError == FailAsk && (told || event == PostToolUse || event == PostToolUseFailure || event == ConfigChange)
			if (err != nil) != wrong {
				t.Errorf("%s %+v: error %v, want one: %v", event, d, err, wrong)
			}
		}
	}
}

func TestAReplaceThatFailsKeepsTheOldHooks(t *testing.T) {
	r := newRegistry(t, PreToolUse, says(Output{Block: true}))
	if err := r.Replace(map[string][]Definition{"stop": {says(Output{})}, "nonsense": {says(Output{})}}); err == nil {
		t.Fatal("a wrong set was accepted")
	}
	if !r.Has(PreToolUse) || r.Has(Stop) {
		t.Error("a wrong set changed the hooks")
	}
}

func TestH15_Matcher(t *testing.T) {
	for _, tt := range []struct {
		matcher, tool string
		want          bool
	}{
		{"", "Bash", true},
		{"", "", true},
		{"*", "Bash", true},
		{"Bash", "Bash", true},
		{"Bash", "BashX", true},
		{"^Bash$", "BashX", false},
		{"Edit|Write", "Write", true},
		{"bash", "Bash", false},
		{".*", "", false},
	} {
		ran := false
		r := newRegistry(t, PreToolUse,
			Definition{Matcher: tt.matcher, Handler: func(context.Context, Input) (*Output, error) {
				ran = true
				return nil, nil
			}})
		if _, err := r.Fire(t.Context(), PreToolUse, Input{ToolName: tt.tool}); err != nil || ran != tt.want {
			t.Errorf("matcher %q, tool %q: ran %v, %v", tt.matcher, tt.tool, ran, err)
		}
	}
}

func TestH16_H18_SerialInOrderWithAllOutputs(t *testing.T) {
	r := newRegistry(t, Stop, says(Output{Message: "1"}), says(Output{}), Definition{Handler: func(context.Context, Input) (*Output, error) { return nil, nil }}, says(Output{Message: "2"}))
	a, err := r.Fire(t.Context(), Stop, Input{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range a.Outputs() {
		got = append(got, o.Message)
	}
	if !slices.Equal(got, []string{"1", "2"}) || len(a.Runs) != 4 {
		t.Errorf("got %q of %d runs", got, len(a.Runs))
	}
}

func TestH17_ATimedOutHookDoesNotAffectTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		r := newRegistry(t, PreToolUse,
			Definition{Name: "slow", TimeoutMS: 100, OnError: FailContinue, Handler: func(context.Context, Input) (*Output, error) {
				<-stuck // ignores its context
				return &Output{Block: true}, nil
			}},
			says(Output{SystemMessage: "second"}))
		began := time.Now()
		a, err := r.Before(t.Context(), bash("ls"))
		if err != nil || a.Block || !slices.Equal(a.Messages, []string{"second"}) ||
			time.Since(began) != 100*time.Millisecond {
			t.Errorf("got %+v, %v after %v", a, err, time.Since(began))
		}
		close(stuck)
	})
}

func TestH12_FailureFailsClosedUnlessToldOtherwise(t *testing.T) {
	fails := func(context.Context, Input) (*Output, error) { return nil, errors.New("secret internals") }
	panics := func(context.Context, Input) (*Output, error) { panic("secret internals") }
	for _, h := range []Handler{fails, panics} {
		for _, tt := range []struct {
			event Event
			on    FailureAction
			want  tool.Advice
		}{
			{PreToolUse, "", tool.Advice{Block: true, Reason: `hook "guard" failed, and blocks when it fails`}},
			{PreToolUse, FailBlock, tool.Advice{Block: true, Reason: `hook "guard" failed, and blocks when it fails`}},
			{PreToolUse, FailAsk, tool.Advice{Ask: true, Reason: `hook "guard" failed`}},
			{PreToolUse, FailContinue, tool.Advice{}},
			{PermissionRequest, "", tool.Advice{Block: true, Reason: `hook "guard" failed, and blocks when it fails`}},
			{PostToolUse, "", tool.Advice{}},
			{PostToolUse, FailBlock, tool.Advice{Block: true, Reason: `hook "guard" failed, and blocks when it fails`}},
		} {
			r := newRegistry(t, tt.event, Definition{Name: "guard", Handler: h, OnError: tt.on})
			a, err := r.Fire(t.Context(), tt.event, Input{})
			if err != nil || fmt.Sprint(a.Advice) != fmt.Sprint(tt.want) {
				t.Errorf("%s onError %q: got %+v, %v, want %+v", tt.event, tt.on, a.Advice, err, tt.want)
			}
			if !strings.Contains(a.Runs[0].Err, "secret internals") {
				t.Errorf("the run does not say why: %+v", a.Runs[0])
			}
		}
	}
}

func TestH23_P21_PermissionUpdateHoldsForTheSession(t *testing.T) {
	say := Output{PermissionUpdate: &PermissionUpdate{Tool: "Bash", Behavior: "deny"}}
	r := newRegistry(t, PreToolUse, Definition{Handler: func(context.Context, Input) (*Output, error) {
		o := say
		say = Output{}
		return &o, nil
	}})
	c := bash("ls")
	for i := range 3 {
		if a := before(t, r, c); !a.Block || !strings.Contains(a.Reason, "for this session") {
			t.Errorf("call %d: got %+v, want a block", i, a)
		}
	}
	other := bash("ls")
	other.Request.Session = "s2"
	if a := before(t, r, other); a.Block {
		t.Errorf("another session is blocked: %+v", a)
	}
	read := bash("ls")
	read.Spec.Name = "Read"
	if a := before(t, r, read); a.Block {
		t.Errorf("another tool is blocked: %+v", a)
	}
	for behavior, want := range map[string]tool.Advice{"ask": {Ask: true}, "allow": {Allow: true}} {
		say = Output{PermissionUpdate: &PermissionUpdate{Tool: "Bash", Behavior: behavior}}
		before(t, r, c)
		r.Clear()
		if a := before(t, r, c); a.Ask != want.Ask || a.Allow != want.Allow || a.Block {
			t.Errorf("%s: got %+v", behavior, a)
		}
		r = newRegistry(t, PreToolUse, Definition{
			Handler: func(context.Context, Input) (*Output, error) { o := say; return &o, nil },
		})
	}
	for _, bad := range []PermissionUpdate{{"", "deny"}, {"Bash", "sometimes"}} {
		if a := before(t, newRegistry(t, PreToolUse, says(Output{PermissionUpdate: &bad})), c); !a.Block {
			t.Errorf("update %+v was accepted", bad)
		}
	}
}

func TestH25_NotificationReachesPeopleAndHooksOnce(t *testing.T) {
	var seen []Notification
	hooked := 0
	notes := Output{Notification: &Notification{Title: "t", Body: "b", Level: "loud"}}
	r, err := New(Options{
		Notify: func(session string, n Notification) { seen = append(seen, n) },
		Hooks: map[string][]Definition{
			"preToolUse": {says(notes)},
			"notification": {{Handler: func(_ context.Context, in Input) (*Output, error) {
				hooked++
				if in.Title != "t" || in.Message != "b" || in.SessionID != "s1" {
					t.Errorf("got %+v", in)
				}
				o := notes
				return &o, nil // would go round for ever
			}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	before(t, r, bash("ls"))
	if hooked != 1 || len(seen) != 2 || seen[0].Level != "info" {
		t.Errorf("hook ran %d times, people saw %+v", hooked, seen)
	}
	notes.Notification.Level = "warning"
	before(t, r, bash("ls"))
	if want := (Notification{"t", "b", "warning"}); len(seen) != 4 || seen[2] != want {
		t.Errorf("people saw %+v, want %+v", seen, want)
	}
}

func TestH02_H27_H28_ExactlyOnePostEvent(t *testing.T) {
	var fired []string
	note := func(e Event) []Definition {
		return []Definition{{Handler: func(_ context.Context, in Input) (*Output, error) {
			fired = append(fired, string(in.Event)+":"+in.ToolOutput+":"+in.Error)
			return &Output{
				Block: in.ToolOutput == "hide me", Reason: "private", UpdatedInput: json.RawMessage(`{}`),
			}, nil
		}}}
	}
	r, err := New(Options{
		Hooks: map[string][]Definition{
			"postToolUse": note(PostToolUse), "postToolUseFailure": note(PostToolUseFailure),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		status tool.Status
		text   string
		err    *tool.Error
		want   string
		block  bool
	}{
		{tool.StatusSuccess, "fine", nil, "postToolUse:fine:", false},
		{tool.StatusSuccess, "hide me", nil, "postToolUse:hide me:", true},
		{tool.StatusError, "", &tool.Error{Msg: "exit 1"}, "postToolUseFailure::exit 1", false},
		{tool.StatusExecutionRejected, "", nil, "postToolUseFailure::EXECUTION_REJECTED", false},
	} {
		fired = nil
		c := bash("ls")
		c.Result.Status, c.Result.FormattedText, c.Result.Error = tt.status, tt.text, tt.err
		a, err := r.After(t.Context(), c)
		if err != nil || !slices.Equal(fired, []string{tt.want}) || a.Block != tt.block || a.Args != nil {
			t.Errorf("%s: fired %q, %+v, %v", tt.status, fired, a, err)
		}
	}
}

func TestH14_H29_SafeForConcurrentUse(t *testing.T) {
	r := newRegistry(t, PreToolUse)
	if r.Has(PreToolUse) {
		t.Error("an empty list counts as hooks")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := r.Register(PreToolUse,
					says(Output{SystemMessage: "x", PermissionUpdate: &PermissionUpdate{"Bash", "ask"}})); err != nil {
					t.Error(err)
				}
				if _, err := r.Before(t.Context(), bash("ls")); err != nil {
					t.Error(err)
				}
				_ = r.List()
				r.Clear()
			}
		})
	}
	wg.Wait()
	if r.Has(PreToolUse) {
		t.Error("Clear left hooks")
	}
	if err := r.Register("nonsense", says(Output{})); err == nil {
		t.Error("an unknown event was registered")
	}
}

func TestACancelledCallIsNoAdvice(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	count := Definition{OnError: FailContinue, Handler: func(context.Context, Input) (*Output, error) {
		ran++
		cancel()
		return &Output{Decision: "approve"}, nil
	}}
	r := newRegistry(t, PreToolUse, count, count)
	a, err := r.Before(ctx, bash("ls"))
	if !errors.Is(err, context.Canceled) || !a.Block || a.Allow || ran != 1 {
		t.Errorf("got %+v, %v after %d hooks", a, err, ran)
	}
}

func TestH08_InputIsCamelCaseAndAbsentWhenEmpty(t *testing.T) {
	text, err := Input{Event: PreToolUse, ToolName: "Bash", ToolInput: json.RawMessage(`{"command":"ls"}`), SessionID: "s1", Cwd: "/src"}.encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"event":"preToolUse","toolName":"Bash","toolInput":{"command":"ls"},"sessionId":"s1","cwd":"/src",` +
		`"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"session_id":"s1"}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// The names are those of docs/hooks.md and, for hooks of other agents, of their own documents.
func TestFurtherFieldsOfTheInput(t *testing.T) {
	for _, tt := range []struct {
		in   Input
		want string
	}{
		{
			Input{Event: SubagentStart, SessionID: "s", AgentID: "a", AgentType: "Plan"},
			`{"event":"subagentStart","sessionId":"s","agentId":"a","agentType":"Plan",` +
				`"hook_event_name":"SubagentStart","session_id":"s","agent_id":"a","agent_type":"Plan"}`,
		},
		{
			Input{Event: TeammateIdle, TeammateName: "ann", TeamName: "crew"},
			`{"event":"teammateIdle","teammateName":"ann","teamName":"crew","hook_event_name":"TeammateIdle"}`,
		},
		{
			Input{Event: TaskCreated, TaskID: "task_1", TaskSubject: "fix"},
			`{"event":"taskCreated","taskId":"task_1","taskSubject":"fix","hook_event_name":"TaskCreated"}`,
		},
		{
			Input{Event: WorktreeRemove, WorktreePath: "/w"},
			`{"event":"worktreeRemove","worktreePath":"/w","hook_event_name":"WorktreeRemove"}`,
		},
		{
			Input{Event: PostToolUse, ToolUseID: "t", PermissionMode: "auto", TranscriptPath: "/t", Reported: true},
			`{"event":"postToolUse","toolUseId":"t","transcriptPath":"/t","permissionMode":"auto","reported":true,` +
				`"hook_event_name":"PostToolUse","tool_use_id":"t","permission_mode":"auto","transcript_path":"/t"}`,
		},
		{
			Input{Event: FileChanged, FilePath: "/f"},
			`{"event":"fileChanged","filePath":"/f","hook_event_name":"FileChanged"}`,
		},
	} {
		if text, err := tt.in.encode(); err != nil || string(text) != tt.want {
			t.Errorf("got  %s, %v\nwant %s", text, err, tt.want)
		}
	}
}

// TestHooksOfOtherAgentsAreToldTheAnswer under the name that they know.
func TestHooksOfOtherAgentsAreToldTheAnswer(t *testing.T) {
	text, err := Input{Event: PostToolUse, ToolOutput: "done"}.encode()
	if err != nil || !strings.Contains(string(text), `"tool_response":"done"`) {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestP26_DeniedCallFiresBothPermissionEvents(t *testing.T) {
	var got []string
	note := []Definition{{Handler: func(_ context.Context, in Input) (*Output, error) {
		got = append(got, string(in.Event)+" "+in.Error)
		return nil, nil
	}}}
	r, err := New(Options{Hooks: map[string][]Definition{"PermissionRequest": note, "PermissionDenied": note}})
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := r.Fire(t.Context(), PermissionRequest, Input{ToolName: "Bash"})
	_, err2 := r.Fire(t.Context(), PermissionDenied, Input{ToolName: "Bash", Error: "rm is denied"})
	if err := errors.Join(err1, err2); err != nil ||
		!slices.Equal(got, []string{"permissionRequest ", "permissionDenied rm is denied"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

// After a reload the hooks are others; a denial for the session holds.
func TestNextKeepsWhatHooksSaid(t *testing.T) {
	say := Output{PermissionUpdate: &PermissionUpdate{Tool: "Bash", Behavior: "deny"}}
	r := newRegistry(t, PreToolUse, says(say))
	before(t, r, bash("ls"))
	next, err := r.Next(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a := before(t, next, bash("ls")); !a.Block || next.Has(PreToolUse) {
		t.Errorf("got %+v", a)
	}
	if next.running != r.running {
		t.Error("a hook that still runs could call the daemon that waits for it")
	}
}
