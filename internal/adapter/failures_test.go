package adapter

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// answerWith runs the hook with options of a test, and returns what it says.
func answerWith(ctx context.Context, t *testing.T, api Caller, in string, o Options) string {
	t.Helper()
	var out bytes.Buffer
	o.Exe = testExe
	if err := Answer(ctx, api, strings.NewReader(in), &out, o); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// TestACallThatCannotBeJudgedSaysWhatToDo: denied, or asked where the operator said so.
func TestACallThatCannotBeJudgedSaysWhatToDo(t *testing.T) {
	late, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no answer in 50 s"))
	busy := &client.Error{Code: "overloaded", Msg: "too many calls", Hint: "try again"}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		ask  bool
		want string
	}{
		{
			"a hint of the daemon", t.Context(), false,
			preToolUse("deny", "sandboxd denied this call: this call cannot be judged: "+busy.Error()+
				". What to do: try again."),
		},
		{
			"asked where the daemon is away", t.Context(), true,
			preToolUse("ask", "sandboxd asks a person before this call: this call cannot be judged: "+busy.Error()+
				". What to do: try again."),
		},
		{
			"the time is over", late, false,
			preToolUse("deny", "sandboxd denied this call: no answer in 50 s. What to do: "+goOn+"."),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Agent: clients.ClaudeCode, AskOnError: tt.ask}
			if got := answerWith(tt.ctx, t, &decider{err: busy}, claudeEdit, o); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	for _, tt := range []struct{ agent, in, want string }{
		{clients.Gemini, geminiEdit, `"decision":"ask"`},
		{clients.Codex, codexBash, `"permissionDecision":"deny"`}, // neither of these asks from a hook
		{clients.OpenCode, call(clients.OpenCode, "read", `{"filePath":"/src/a"}`), `"permissionDecision":"deny"`},
	} {
		o := Options{Agent: tt.agent, AskOnError: true}
		if got := answerWith(t.Context(), t, &decider{err: busy}, tt.in, o); !strings.Contains(got, tt.want) {
			t.Errorf("%s, asked where the daemon is away: got %s", tt.agent, got)
		}
	}
}

// racer is a daemon in which another hook makes the session first, or that makes none.
type racer struct {
	decider
	err error
}

func (r *racer) Do(ctx context.Context, method, path string, in, out any) error {
	if path == "/sessions" {
		if err := r.decider.Do(ctx, method, path, in, out); err != nil {
			return err
		}
		return r.err
	}
	return r.decider.Do(ctx, method, path, in, out)
}

// TestTwoHooksMakeOneSession: that another was first is no failure, and anything else is one.
func TestTwoHooksMakeOneSession(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&client.Error{Code: "session_exists", Msg: "it is there"}, preToolUse("allow", allowed)},
		{&client.Error{Code: "too_many_sessions", Msg: "full"}, "make a session: "},
		{errors.New("connection refused"), "make a session: connection refused"},
	} {
		r := &racer{decider{verdict: tool.Allow, sessions: map[string]bool{}}, tt.err}
		got := answerWith(t.Context(), t, r, claudeEdit, Options{Agent: clients.ClaudeCode})
		if !strings.Contains(got, tt.want) {
			t.Errorf("%v: got %s, want %s", tt.err, got, tt.want)
		}
	}
}

// beginner is a daemon with a workspace.
type beginner struct {
	decider
	workspace string
	begun     []string
}

func (b *beginner) Do(ctx context.Context, method, path string, in, out any) error {
	if path == "/sessions" {
		dir := in.(map[string]any)["cwd"].(string)
		b.begun = append(b.begun, dir)
		if !strings.HasPrefix(dir, b.workspace) {
			return &client.Error{Code: "cwd_outside_workspace", Msg: "outside"}
		}
	}
	return b.decider.Do(ctx, method, path, in, out)
}

// TestASessionBeginsInTheProject of the agent, if the agent names one that is in our workspace: the directory of the
// call is where the model went.
func TestASessionBeginsInTheProject(t *testing.T) {
	for _, tt := range []struct {
		name, agent, in, project, workspace string
		want                                []string
	}{
		{"a project", clients.ClaudeCode, claudeEdit, "/", "/", []string{"/"}},
		{"no project", clients.ClaudeCode, claudeEdit, "", "/", []string{"/src"}},
		{"the same", clients.ClaudeCode, claudeEdit, "/src", "/", []string{"/src"}},
		{"a relative one", clients.ClaudeCode, claudeEdit, "src", "/", []string{"/src"}},
		{"one outside of the workspace", clients.ClaudeCode, claudeEdit, "/other", "/src", []string{"/other", "/src"}},
		{"of Gemini", clients.Gemini, geminiEdit, "/", "/", []string{"/"}},
		{"of an agent that sets none", clients.Codex, codexBash, "/", "/", []string{"/src"}},
	} {
		t.Setenv("CLAUDE_PROJECT_DIR", tt.project)
		b := &beginner{decider: decider{verdict: tool.Allow, sessions: map[string]bool{}}, workspace: tt.workspace}
		answerWith(t.Context(), t, b, tt.in, Options{Agent: tt.agent})
		if !slices.Equal(b.begun, tt.want) || len(b.asked) != 1 {
			t.Errorf("%s: asked to begin in %q, and %d calls; want %q", tt.name, b.begun, len(b.asked), tt.want)
		}
	}
}

func TestAPathThatIsReadOtherwiseSaysWhy(t *testing.T) {
	for _, tt := range []struct{ path, why, todo string }{
		{" x", "begins or ends with white space", "leave the white space out"},
		{"e\u0301", "it is not NFC", "write it in NFC"},
		{"~/x", "begins with ~", "write the path out from /"},
		{"@x", "begins with @", "put ./ in front"},
		{"%41", "in the form %XX", "write the character itself"},
	} {
		in := call(clients.ClaudeCode, "Read", `{"file_path":`+string(jsonText(tt.path))+`}`)
		got := answerWith(t.Context(), t, &decider{}, in, Options{Agent: clients.ClaudeCode})
		for _, want := range []string{`"deny"`, "file_path", tt.why, "What to do: " + tt.todo, "with a shell command"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q: got %s, want %s", tt.path, got, want)
			}
		}
		if e, ok := errors.AsType[*tool.Error](plainPath("path", tt.path)); !ok || e.Code != "path_ambiguous" {
			t.Errorf("%q: got %+v, want path_ambiguous", tt.path, e)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "there.txt"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]bool{"no-such.txt": true, "there.txt": false} {
		in := call(clients.Gemini, "replace", `{"file_path":"`+name+`","old_string":"a","new_string":"b"}`)
		in = strings.Replace(in, `"/src"`, string(jsonText(dir)), 1)
		api := &decider{verdict: tool.Allow, sessions: map[string]bool{}}
		got := answerWith(t.Context(), t, api, in, Options{Agent: clients.Gemini})
		if strings.Contains(got, `may take another file of that name`) != wrong ||
			strings.Contains(got, "write the path out from /") != wrong {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestHooksAreToldOneMebibyteOfAResult, whole characters of it.
func TestHooksAreToldOneMebibyteOfAResult(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{strings.Repeat("x", maxToldOutput), strings.Repeat("x", maxToldOutput)},
		{strings.Repeat("x", maxToldOutput+1), strings.Repeat("x", maxToldOutput)},
		{strings.Repeat("x", maxToldOutput-1) + "é", strings.Repeat("x", maxToldOutput-1)},
	} {
		if got := resultText(jsonText(tt.text)); got != tt.want {
			t.Errorf("of %d bytes %d are told, want %d", len(tt.text), len(got), len(tt.want))
		}
	}
}

// TestHooksAreToldTheEvent, and of a call that is several of ours what the agent calls it.
func TestHooksAreToldTheEvent(t *testing.T) {
	patch := "*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch\n"
	for _, tt := range []struct{ agent, event, name, input, wantEvent, wantName string }{
		{clients.ClaudeCode, "PostToolUse", "Read", `{"file_path":"/src/a"}`, "postToolUse", "Read"},
		{clients.ClaudeCode, "PostToolUseFailure", "Read", `{"file_path":"/src/a"}`, "postToolUseFailure", "Read"},
		{clients.ClaudeCode, "PostToolUse", "Bash", `{"command":"ls","new":1}`, "postToolUse", "Bash"},
		{
			clients.Codex, "PostToolUse", "apply_patch", `{"command":` + string(jsonText(patch)) + `}`,
			"postToolUse", "apply_patch",
		},
	} {
		d := &decider{sessions: map[string]bool{}, said: "{}"}
		in := `{"session_id":"a","cwd":"/src","hook_event_name":"` + tt.event + `","tool_name":"` + tt.name +
			`","tool_input":` + tt.input + `,"tool_response":"ok"}`
		answerWith(t.Context(), t, d, in, Options{Agent: tt.agent})
		if len(d.asked) != 1 {
			t.Fatalf("%s: told %d times", in, len(d.asked))
		}
		told := d.asked[0]["input"].(map[string]any)
		if d.asked[0]["event"] != tt.wantEvent || told["toolName"] != tt.wantName {
			t.Errorf(
				"%s: told %v of %v, want %s of %s",
				in,
				d.asked[0]["event"],
				told["toolName"],
				tt.wantEvent,
				tt.wantName,
			)
		}
	}
}

// TestOnlyAnAllowedCallIsRewritten: a denial carries no arguments, and a permission that is
// granted carries those that were judged.
func TestOnlyAnAllowedCallIsRewritten(t *testing.T) {
	perm := strings.Replace(claudeEdit, "PreToolUse", "PermissionRequest", 1)
	const z = `{"new_string":"z"}`
	for _, tt := range []struct {
		agent, in string
		verdict   tool.Verdict
		want      string
	}{
		{clients.ClaudeCode, claudeEdit, tool.Deny, preToolUse("deny", denied)},
		{clients.Gemini, geminiEdit, tool.Deny, `{"decision":"deny","reason":"` + denied + `"}`},
		{
			clients.ClaudeCode, perm, tool.Allow,
			`{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":` +
				`{"file_path":"/src/a","new_string":"z","old_string":"x"}},"hookEventName":"PermissionRequest"}}`,
		},
	} {
		d := &decider{verdict: tt.verdict, args: z, sessions: map[string]bool{}}
		if got := answerWith(t.Context(), t, d, tt.in, Options{Agent: tt.agent}); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// TestOpenCodeCannotAskFromAHook, so that a question is a denial that says so.
func TestOpenCodeCannotAskFromAHook(t *testing.T) {
	got := unasked("OpenCode", outcome{verdict: tool.Ask, reason: "because", todo: "use another file"})
	if got.verdict != tool.Deny || !strings.HasSuffix(got.todo, "; or use another file") {
		t.Errorf("got %+v", got)
	}
	var out bytes.Buffer
	asks, allows := outcome{verdict: tool.Ask, reason: "because"}, outcome{verdict: tool.Allow, reason: "because"}
	if err := writeOutcome(&out, clients.OpenCode, "PreToolUse", asks); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"deny"`) ||
		!strings.Contains(out.String(), "OpenCode cannot ask from a hook: because") {
		t.Errorf("got %s", &out)
	}
	out.Reset()
	if err := writeOutcome(&out, clients.OpenCode, "PreToolUse", allows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"allow"`) {
		t.Errorf("got %s", &out)
	}
}

func TestAnUnknownAgentIsToldTheKnownOnes(t *testing.T) {
	err := Answer(t.Context(), &decider{}, strings.NewReader(claudeBash), &bytes.Buffer{}, Options{Agent: "emacs"})
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != "unknown_agent" || !strings.Contains(e.Msg, `"emacs"`) ||
		!strings.Contains(e.Hint, clients.ClaudeCode) {
		t.Errorf("got %+v", e)
	}
}

// TestWhatADaemonIsToldOfACommand: which ones it holds for sandboxd exec, which may be typed into, and where the home of
// the others is.
func TestWhatADaemonIsToldOfACommand(t *testing.T) {
	t.Setenv("HOME", "/elsewhere")
	server := `{"command":"` + cage(testExe, testCall) + `"}`
	for _, tt := range []struct {
		name, agent, in string
		hold, typed     bool
		want            string
	}{
		{"of Claude Code", clients.ClaudeCode, claudeBash, true, false, `"allow"`},
		{"of Codex", clients.Codex, codexBash, false, true, ``},
		{"a file", clients.ClaudeCode, claudeEdit, false, false, `"allow"`},
		{"a file, of Codex", clients.Codex, call(clients.Codex, "mcp__db__x", `{}`), false, false, ``},
		{
			"of a server, with a judged command", clients.ClaudeCode, call(clients.ClaudeCode, "mcp__db__x", server),
			false, false, `"allow"`,
		},
		{
			"outside of the sandbox", clients.ClaudeCode,
			call(clients.ClaudeCode, "Bash", `{"command":"ls","dangerouslyDisableSandbox":true}`), false, false, `"ask"`,
		},
		{
			"not outside", clients.ClaudeCode,
			call(clients.ClaudeCode, "Bash", `{"command":"ls","dangerouslyDisableSandbox":false}`), true, false, `"allow"`,
		},
		{
			"not said", clients.ClaudeCode,
			call(clients.ClaudeCode, "Bash", `{"command":"ls","dangerouslyDisableSandbox":null}`), true, false, `"allow"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &decider{verdict: tool.Allow, sessions: map[string]bool{}}
			got := answerWith(t.Context(), t, d, tt.in, Options{Agent: tt.agent})
			if len(d.asked) != 1 || !strings.Contains(got, tt.want) {
				t.Fatalf("asked %d times, got %s", len(d.asked), got)
			}
			if typed := d.asked[0]["typed"] == true; d.asked[0]["hold"] != tt.hold || typed != tt.typed {
				t.Errorf("hold is %v, typed %v", d.asked[0]["hold"], d.asked[0]["typed"])
			}
			if home, ok := d.asked[0]["home"]; ok == tt.hold || ok && home != "/elsewhere" { // the sandbox has its own
				t.Errorf("HOME is %v", home)
			}
		})
	}
	// What the rules deny is denied, however it would run.
	in := call(clients.ClaudeCode, "Bash", `{"command":"ls","dangerouslyDisableSandbox":true}`)
	d := &decider{verdict: tool.Deny, sessions: map[string]bool{}}
	if got := answerWith(t.Context(), t, d, in, Options{Agent: clients.ClaudeCode}); got != preToolUse("deny", denied) {
		t.Errorf("got %s", got)
	}
}

// TestAnAgentIsAProgramOnThePath: a file that can be run, and no directory of its name.
func TestAnAgentIsAProgramOnThePath(t *testing.T) {
	first, second, third := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("PATH", strings.Join([]string{first, second, third}, string(filepath.ListSeparator)))
	if err := os.Mkdir(filepath.Join(first, "claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, mode := range map[string]os.FileMode{second: 0o644, third: 0o755} {
		if err := os.WriteFile(filepath.Join(dir, "claude"), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := onPath("claude"); got != filepath.Join(third, "claude") {
		t.Errorf("got %s", got)
	}
	if got := onPath("codex"); got != "" {
		t.Errorf("got %s", got)
	}
}

// TestAPluginThatIsNotOursIsBroken, and so is one whose program is gone.
func TestAPluginThatIsNotOursIsBroken(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "sandboxd")
	if err := os.WriteFile(exe, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(text string) string
		hook   Hook
		why    string
	}{
		{"as written", func(s string) string { return s }, Installed, ""},
		{
			"another beginning", func(s string) string { return "x" + s }, Broken,
			"is not what sandboxd wrote: sandboxd hook install",
		},
		{"another end", func(s string) string { return s + "x" }, Broken, "is not what sandboxd wrote"},
		{
			"the program is gone", func(s string) string { return strings.Replace(s, exe, "/gone/sandboxd", 1) },
			Broken, "/gone/sandboxd is not there: sandboxd hook install --write opencode",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			n := d.installation(clients.OpenCode)
			n.Exe = exe
			d.install(n)
			for _, s := range States(exe, d.project) {
				if s.Agent != clients.OpenCode || s.Hook == Absent {
					continue
				}
				d.write(s.File, tt.change(d.read(s.File)))
			}
			for _, s := range States(exe, d.project) {
				if s.Agent == clients.OpenCode && (s.Hook != tt.hook || !strings.Contains(s.Why, tt.why)) {
					t.Errorf("got %+v, want %s and %q", s, tt.hook, tt.why)
				}
			}
		})
	}
}
