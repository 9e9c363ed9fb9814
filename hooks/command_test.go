package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"

	"github.com/sandboxd/sandboxd/tests/bench"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// fire runs one command as the only hook of preToolUse.
func fire(t testing.TB, d Definition, in Input) Answer {
	t.Helper()
	if d.TimeoutMS == 0 {
		d.TimeoutMS = 20_000
	}
	a, err := newRegistry(t, PreToolUse, d).Fire(t.Context(), PreToolUse, in)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestH06_H09_H10_CommandGetsJSONAndFourVariables(t *testing.T) {
	t.Setenv("DAEMON_SECRET", "hidden")
	t.Setenv("BASH_ENV", "/nonexistent/should-not-be-read")
	dir := t.TempDir()
	a := fire(t, Definition{Command: "cat > " + dir + "/in; env > " + dir + "/env; pwd > " + dir + "/pwd"}, Input{
		ToolName: "Bash", ToolInput: json.RawMessage(`{"command":"ls"}`), SessionID: "s1", Cwd: "/src", ToolUseID: "t1",
	})
	if a.Runs[0].Err != "" {
		t.Fatal(a.Runs[0].Err)
	}
	text, _ := os.ReadFile(dir + "/in")
	var in Input
	if err := json.Unmarshal(text, &in); err != nil || in.ToolName != "Bash" || in.SessionID != "s1" ||
		in.ToolUseID != "t1" {
		t.Errorf("stdin was %s: %v", text, err)
	}
	env, _ := os.ReadFile(dir + "/env")
	for _, want := range []string{
		"HOOK_EVENT=preToolUse\n", "HOOK_TOOL_NAME=Bash\n", "HOOK_SESSION_ID=s1\n",
		"HOOK_CWD=/src\n", "PATH=" + safePath + "\n",
	} {
		if !strings.Contains(string(env), want) {
			t.Errorf("the environment lacks %q:\n%s", want, env)
		}
	}
	if strings.Contains(string(env), "DAEMON_SECRET") || strings.Contains(string(env), "BASH_ENV") {
		t.Errorf("the environment is not clean:\n%s", env)
	}
	if pwd, _ := os.ReadFile(dir + "/pwd"); string(pwd) != "/\n" {
		t.Errorf("it ran in %q", pwd)
	}
}

// TestTheEnvironmentDoesNotSpeakForTheCall: what an operator adds cannot say of
// which call a hook is told, nor hide whose child it is.
func TestTheEnvironmentDoesNotSpeakForTheCall(t *testing.T) {
	out := filepath.Join(t.TempDir(), "env")
	r, err := New(Options{
		Hooks: map[string][]Definition{"preToolUse": {{Command: "env > " + out}}},
		Env: map[string]string{
			"HOOK_EVENT": "postToolUse", "HOOK_TOOL_NAME": "Read", "HOOK_SESSION_ID": "s2", "HOOK_CWD": "/",
			"HOOK_MORE": "x",
			"OWN":       "yes", "PATH": safePath + ":/opt/bin", "LANG": "de_DE.UTF-8",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fire(t.Context(), PreToolUse, Input{ToolName: "Bash", SessionID: "s1", Cwd: "/src"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, pair := range strings.Split(string(text), "\n") {
		name, value, _ := strings.Cut(pair, "=")
		got[name] = value
	}
	for name, want := range map[string]string{
		"HOOK_EVENT": "preToolUse", "HOOK_TOOL_NAME": "Bash", "HOOK_SESSION_ID": "s1", "HOOK_CWD": "/src",
		"HOOK_MORE": "",
		"OWN":       "yes", "PATH": safePath + ":/opt/bin", "LANG": "de_DE.UTF-8",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestH13_InputIsNeverPartOfTheCommand(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "x")
	evil := "$(touch " + marker + "); `touch " + marker + "`; touch " + marker
	args, _ := json.Marshal(map[string]string{"command": evil})
	fire(t, Definition{Command: `echo "$HOOK_TOOL_NAME" "$HOOK_CWD"; cat`}, Input{
		ToolName: evil, Cwd: evil, ToolInput: args,
	})
	if _, err := os.Stat(marker); err == nil {
		t.Error("the input was executed")
	}
}

func TestH11_H12_H19_WhatCommandsPrint(t *testing.T) {
	const failed = `hook "preToolUse#1" failed, and blocks when it fails`
	for _, tt := range []struct {
		name, command string
		want          tool.Advice
		message       string // of the output
	}{
		{"nothing", "true", tool.Advice{}, ""},
		{"H11 text is a message", "echo '  hi '", tool.Advice{}, "hi"},
		{"H12 exit 1 blocks", "echo no >&2; exit 1", tool.Advice{Block: true, Reason: failed}, ""},
		{
			"exit 1 with an allow blocks", `echo '{"decision":"approve"}'; exit 1`,
			tool.Advice{Block: true, Reason: failed},
			"",
		},
		{"H12 exit 2 blocks with stderr", "echo not today >&2; exit 2", tool.Advice{Block: true, Reason: "not today"}, ""},
		{
			"exit 2 with an allow on stdout", `echo '{"decision":"approve"}'; echo no >&2; exit 2`,
			tool.Advice{Block: true, Reason: "no"},
			"",
		},
		{"exit 2 without a text", "exit 2", tool.Advice{Block: true, Reason: defaultReason}, ""},
		{"killed by a signal", "kill -9 $$", tool.Advice{Block: true, Reason: failed}, ""},
		{"not found", "/nonexistent/hook", tool.Advice{
			Block:  true,
			Reason: `hook "preToolUse#1" failed (exit status 127: a program was not found), and blocks when it fails`,
		}, ""},
		{"not executable", "/etc/passwd", tool.Advice{
			Block:  true,
			Reason: `hook "preToolUse#1" failed (exit status 126: a program could not be started), and blocks when it fails`,
		}, ""},
		{"syntax error", "if", tool.Advice{Block: true, Reason: "/bin/bash: -c: line 2: syntax error: unexpected end of file from `if' command on line 1"}, ""},
		{"block", `echo '{"block":true,"message":"stop"}'`, tool.Advice{Block: true, Reason: "stop"}, "stop"},
		{"unknown fields are ignored", `echo '{"foo":{"block":true},"message":"m"}'`, tool.Advice{}, "m"},
		{"half JSON", `printf '{"block":fal'`, tool.Advice{Block: true, Reason: failed}, ""},
		{"two answers", `echo '{"decision":"approve"}{"block":true}'`, tool.Advice{Block: true, Reason: failed}, ""},
		{"a doubled key", `echo '{"block":true,"block":false}'`, tool.Advice{Block: true, Reason: failed}, ""},
		{
			"a doubled key in another case", `echo '{"block":true,"Block":false}'`,
			tool.Advice{Block: true, Reason: failed},
			"",
		},
		{"a field of another type", `echo '{"block":"yes"}'`, tool.Advice{Block: true, Reason: failed}, ""},
		{"invalid UTF-8", `printf '\xff\xfe{'`, tool.Advice{Block: true, Reason: failed}, ""},
		{"invalid UTF-8 in JSON", `printf '{"message":"\xff"}'`, tool.Advice{Block: true, Reason: failed}, ""},
		{"100 MB", "head -c 100000000 /dev/zero", tool.Advice{Block: true, Reason: failed}, ""},
		{"endless", "yes", tool.Advice{Block: true, Reason: failed}, ""},
		{"100 MB on stderr", "head -c 100000000 /dev/zero >&2; echo hi", tool.Advice{}, "hi"},
		{"closes its output", `exec >&- 2>&-; true`, tool.Advice{}, ""},
		{
			"Claude Code deny",
			`echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"r"}}'`,
			tool.Advice{Block: true, Reason: "r"},
			"",
		},
		{
			"Claude Code ask", `echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"r"}}'`,
			tool.Advice{Ask: true, Reason: "r"},
			"",
		},
		{
			"Claude Code allow with input",
			`echo '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"echo safe"},"additionalContext":"c"}}'`,
			tool.Advice{Allow: true, Args: json.RawMessage(`{"command":"echo safe"}`), Messages: []string{"c"}},
			"",
		},
		{
			"Claude Code continue false", `echo '{"continue":false,"stopReason":"enough"}'`,
			tool.Advice{Block: true, Reason: "enough"},
			"",
		},
		{
			"Claude Code permission request",
			`echo '{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"no"}}}'`,
			tool.Advice{Block: true, Reason: "no"},
			"",
		},
		{"a decision object", `echo '{"decision":{"behavior":"allow","updatedInput":{"a":1}}}'`, tool.Advice{Allow: true, Args: json.RawMessage(`{"a":1}`)}, ""},
		{"Gemini CLI", `echo '{"decision":"deny","reason":"r"}'`, tool.Advice{Block: true, Reason: "r"}, ""},
		{
			"Gemini CLI input", `echo '{"hookSpecificOutput":{"tool_input":{"command":"ls"}}}'`,
			tool.Advice{Args: json.RawMessage(`{"command":"ls"}`)},
			"",
		},
		{
			"deny beats allow inside one answer",
			`echo '{"permissionDecision":"deny","hookSpecificOutput":{"permissionDecision":"allow"}}'`,
			tool.Advice{Block: true, Reason: defaultReason},
			"",
		},
		{
			"a permission update without a tool", `echo '{"permissionUpdate":{"tool":" ","behavior":"allow"}}'`,
			tool.Advice{Block: true, Reason: failed},
			"",
		},
		{"an unknown decision", `echo '{"decision":"perhaps"}'`, tool.Advice{Block: true, Reason: failed}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := fire(t, Definition{Command: tt.command}, Input{ToolName: "Bash"})
			if tt.name == "syntax error" { // the text is bash's; that it blocks is ours
				a.Advice.Reason = tt.want.Reason
			}
			if fmt.Sprintf("%+v", a.Advice) != fmt.Sprintf("%+v", tt.want) {
				t.Errorf("got %+v (%s), want %+v", a.Advice, a.Runs[0].Err, tt.want)
			}
			message := ""
			if o := a.Runs[0].Output; o != nil {
				message = o.Message
			}
			if message != tt.message {
				t.Errorf("got message %q, want %q", message, tt.message)
			}
		})
	}
}

// waitGone waits until no process has this word in its command line.
func waitGone(t *testing.T, word string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		out, _ := exec.Command("pgrep", "-f", word).Output()
		if len(out) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running: %s", out)
		}
	}
}

func TestH17_ATimeoutKillsTheWholeTree(t *testing.T) {
	needs.Program(t, "pgrep")
	for i, tt := range []struct{ name, command string }{
		{"a child", "sleep %d"},
		{"ignores TERM", "trap '' TERM INT HUP; sleep %d; sleep %d"},
		{"background children", "sleep %d & sleep %d & wait"},
		{"detached into its own session", "setsid sleep %d & wait; sleep %d"},
		{"detached twice", "(setsid bash -c 'sleep %d & disown; sleep %d' &) ; sleep %d"},
		{"forks on and on", "f() { sleep %d & f; }; (ulimit -u 4000; for i in $(seq 40); do sleep %d & done; wait)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			word := strconv.Itoa(987000000 + os.Getpid()%100000*10 + i)
			// Each sleeps for years: a hook that is not killed never ends.
			a := fire(t, Definition{Command: strings.ReplaceAll(tt.command, "%d", word), TimeoutMS: 300}, Input{})
			if !a.Advice.Block || !strings.Contains(a.Runs[0].Err, "timed out after 300ms") {
				t.Errorf("got %+v, %q", a.Advice, a.Runs[0].Err)
			}
			waitGone(t, "sleep "+word)
		})
	}
}

// TestADetachedHolderOfStdoutDoesNotDelay: a hook that starts a daemon and ends
// has ended.
func TestADetachedHolderOfStdoutDoesNotDelay(t *testing.T) {
	dir := t.TempDir()
	// Its timeout is over before the sleep: had it waited, it would have failed.
	a := fire(t, Definition{
		Command:   "sleep 6000 & echo $! > " + dir + "/pid; echo '{\"systemMessage\":\"done\"}'",
		TimeoutMS: 300_000,
	}, Input{})
	text, _ := os.ReadFile(dir + "/pid")
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		defer syscall.Kill(pid, syscall.SIGKILL)
	}
	if len(a.Advice.Messages) != 1 || a.Runs[0].Err != "" {
		t.Errorf("got %+v, %q", a.Advice, a.Runs[0].Err)
	}
}

func TestAHookThatDoesNotReadALargeInputIsFine(t *testing.T) {
	big, _ := json.Marshal(map[string]string{"content": strings.Repeat("x", 8<<20)})
	if a := fire(t, Definition{Command: "echo hi"}, Input{ToolInput: big}); a.Runs[0].Err != "" ||
		a.Runs[0].Output.Message != "hi" {
		t.Errorf("got %+v", a.Runs[0])
	}
	if a := fire(t, Definition{Command: "wc -c"}, Input{ToolInput: big}); a.Runs[0].Err != "" ||
		len(a.Runs[0].Output.Message) < 8 {
		t.Errorf("got %+v", a.Runs[0])
	}
}

func TestAToolNameWithNULFailsClosed(t *testing.T) {
	if a := fire(t, Definition{Command: "true"}, Input{ToolName: "a\x00b"}); !a.Advice.Block {
		t.Errorf("got %+v", a.Advice)
	}
}

func TestACancelledCallKillsTheHook(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = os.ReadFile(fifo) // until the hook has begun
		cancel()
	}()
	r := newRegistry(t, PreToolUse, Definition{Command: "echo > " + fifo + "; sleep 600", OnError: FailContinue})
	a, err := r.Before(ctx, bash("ls"))
	if !errors.Is(err, context.Canceled) || !a.Block {
		t.Errorf("got %+v, %v", a, err)
	}
}

// TestACallFromAHookIsKnown: it would wait for itself.
func TestACallFromAHookIsKnown(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t, PreToolUse, Definition{
		Command: "echo $BASHPID; (env -i /bin/bash -c 'echo $$ > " + fifo + "; read x < " + fifo + ".go')",
	})
	if err := syscall.Mkfifo(fifo+".go", 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.Before(t.Context(), bash("ls"))
		done <- err
	}()
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Descends(pid); !ok {
		t.Error("a grandchild of a running hook is not recognised")
	}
	descends := func(pid int) bool { _, ok := r.Descends(pid); return ok }
	if descends(os.Getpid()) || descends(1) || descends(0) || descends(-1) {
		t.Error("a process that no hook started is taken for one")
	}
	if err := os.WriteFile(fifo+".go", []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func FuzzParseOutput(f *testing.F) {
	for _, s := range []string{
		"hi", "{}", `{"block":true}`, `{"decision":{"behavior":"deny"}}`,
		`{"hookSpecificOutput":{"updatedInput":[]}}`, `{"a":{"a":1,"a":2}}`,
		"\ufeff{\"block\":true}", "\x1b[0m{\"block\":true}", `[{"block":true}]`, "x\n{\"block\":true}", "x\n{\"a\":\n{}",
		`{"permission_decision":"deny"}`, `{"blocked":1}`, `"block"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := parseOutput(text)
		if err != nil || o == nil {
			return
		}
		// An answer that was understood as JSON holds every block that is in it.
		var plain struct {
			Block bool `json:"block"`
		}
		if json.Unmarshal(text, &plain) == nil && plain.Block && !o.blocks() {
			t.Errorf("%q blocks, and was read as %+v", text, o)
		}
	})
}

// BenchmarkOneCommandHook is a command hook over its shell alone.
func BenchmarkOneCommandHook(b *testing.B) {
	r := newRegistry(b, PreToolUse, Definition{Command: "true"})
	c := bash("ls")
	bench.Compare(b, []bench.Case{
		{Name: "shell", N: 200, Run: func() {
			if err := exec.Command("/bin/bash", "-c", "true").Run(); err != nil {
				b.Fatal(err)
			}
		}},
		{Name: "hook", N: 200, Run: func() {
			if a, err := r.Before(b.Context(), c); err != nil || a.Block {
				b.Fatal(a, err)
			}
		}},
	}, bench.Limit{Case: "hook", Over: "shell", AtMost: 1.5})
}
