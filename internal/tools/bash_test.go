package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

func TestT45_BashTextIsStdoutStderrExitCode(t *testing.T) {
	e := toolstest.New(t)
	for _, tt := range []struct{ name, command, want string }{
		{"stdout without a prefix", "echo hi", "hi\n"},
		{"stderr after stdout", "echo err >&2; echo out", "out\nerr\n"},
		{"stderr on its own line", "printf out; printf err >&2", "out\nerr"},
		{"exit code at the end", "echo x; exit 3", "x\nExit code: 3"},
		{"only an exit code", "exit 3", "Exit code: 3"},
		{"working directory of the session", "pwd", e.Dir + "\n"},
		{"the bytes that were judged run", `echo '$HOME' "a  b" \\`, "$HOME a  b \\\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := e.OK(Bash{}, m{"command": tt.command}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	text, out, err := e.Call(Bash{}, m{"command": "true"})
	if err != nil || text != "" {
		t.Errorf("got %q, %v, want nothing from a command that writes nothing", text, err)
	}
	if d, ok := out.Data.(bashData); !ok || d.ExitCode != 0 || d.TimedOut {
		t.Errorf("got %+v", out.Data)
	}
}

// The clock of the call stands still until the command has written, however late that is.
func TestT42_BashTimeoutIsAnErrorThatSaysSo(t *testing.T) {
	e := toolstest.New(t)
	clock := &tool.Clock{}
	goOn := clock.Pause()
	e.Emit = func(tool.Progress) { goOn() }
	_, _, err := e.CallCtx(tool.WithClock(t.Context(), clock), Bash{},
		m{"command": "echo early; sleep 9999 & echo $! > pid; sleep 9999", "timeout": 300})
	te, ok := errors.AsType[*tool.Error](err)
	if !ok || te.Code != "timeout" {
		t.Fatalf("got %v, want an error with code timeout", err)
	}
	if !strings.Contains(te.Msg, "timeout of 300 ms") || !strings.Contains(te.Msg, "early") ||
		!strings.Contains(te.Hint, "600000") {
		t.Errorf("got %q, hint %q; want the timeout, what was written, and the maximum", te.Msg, te.Hint)
	}
}

// The clock of the call stands still until the command has begun: before that, the error is another one.
func TestATimeoutOfASilentCommandSaysThatItWroteNothing(t *testing.T) {
	e := toolstest.New(t)
	clock := &tool.Clock{}
	box := &begunBox{HostBox: e.Box, goOn: clock.Pause()}
	ctx := tool.WithClock(t.Context(), clock)
	_, err := Bash{}.Run(ctx, e.In(m{"command": "sleep 1000", "timeout": 300}), box)
	te, ok := errors.AsType[*tool.Error](err)
	if !ok || te.Code != "timeout" {
		t.Fatalf("got %v, want an error with code timeout", err)
	}
	if want := "the command was ended after its timeout of 300 ms; it wrote nothing"; te.Msg != want {
		t.Errorf("got %q, want %q", te.Msg, want)
	}
}

// begunBox lets the clock go on when a program has begun.
type begunBox struct {
	*toolstest.HostBox
	goOn func()
}

func (b *begunBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	defer b.goOn()
	return b.HostBox.Start(ctx, s)
}

func TestT42_BashTimeoutIsClamped(t *testing.T) {
	e := toolstest.New(t)
	for _, tt := range []struct {
		args m
		want time.Duration
	}{
		{m{"command": "true"}, 120 * time.Second},
		{m{"command": "true", "timeout": 900_000}, 600 * time.Second},
		{m{"command": "true", "timeout": int64(1) << 52}, 600 * time.Second},
		{m{"command": "true", "timeout": 5000}, 5 * time.Second},
	} {
		box := &deadlineBox{HostBox: e.Box}
		in := e.In(tt.args)
		synctest.Test(t, func(t *testing.T) {
			_, err := (Bash{}).Run(t.Context(), in, box)
			if te, ok := errors.AsType[*tool.Error](err); !ok || te.Code != "timeout" || box.took != tt.want {
				t.Errorf("%v: got %v after %v, want %v", tt.args, err, box.took, tt.want)
			}
		})
	}
}

// deadlineBox starts nothing before its time is up.
type deadlineBox struct {
	*toolstest.HostBox
	took time.Duration
}

func (b *deadlineBox) Start(ctx context.Context, _ sandbox.Spec) (sandbox.Proc, error) {
	began := time.Now()
	<-ctx.Done()
	b.took = time.Since(began)
	return nil, ctx.Err()
}

// TestT46_X08_BashAsksToLeaveTheSandbox: both spellings say so among what the call
// uses, where the floor finds it.
func TestT46_X08_BashAsksToLeaveTheSandbox(t *testing.T) {
	for _, name := range []string{"dangerously_disable_sandbox", "dangerouslyDisableSandbox"} {
		for _, want := range []bool{true, false} {
			args, err := json.Marshal(m{"command": "true", name: want})
			if err != nil {
				t.Fatal(err)
			}
			u, err := Bash{}.Uses(t.Context(), tool.In{Dir: "/", Args: args})
			if err != nil || u.Unconfined != want {
				t.Errorf("%s %v: %v, %v", name, want, u.Unconfined, err)
			}
		}
	}
}

func TestBash_ArgumentsOfJobsThatDoNothing(t *testing.T) {
	for _, args := range []m{
		{"command": "true", "run_in_background": true, "on_timeout": "background"},
		{"command": "true", "tty": true},
		{"command": "true", "tty": true, "on_timeout": "background"},
		{"command": "true", "run_in_background": true, "rows": 10},
		{"command": "true", "run_in_background": true, "columns": 10},
		{"command": "true", "run_in_background": true, "output_file": "x"},
		{"command": "true", "on_timeout": "background", "output_file": "x"},
	} {
		var te *tool.Error
		if _, err := (Bash{}).Uses(t.Context(), toolstest.New(t).In(args)); !errors.As(err, &te) || te.Code != "invalid_arguments" || te.Hint == "" {
			t.Errorf("%v: got %v", args, err)
		}
	}
}

// TestBash_WhatIsTypedIntoAJobIsNotKnown: a shell in the background executes what TaskInput
// sends, which nobody has judged.
func TestBash_WhatIsTypedIntoAJobIsNotKnown(t *testing.T) {
	for _, tt := range []struct {
		args   m
		opaque bool
	}{
		{m{"command": "bash"}, false},
		{m{"command": "bash", "run_in_background": true}, true},
		{m{"command": "npm run dev", "run_in_background": true}, false},
		{m{"command": "bash", "on_timeout": "background"}, false}, // its input is empty
	} {
		uses, err := Bash{}.Uses(t.Context(), toolstest.New(t).In(tt.args))
		if err != nil || (len(uses.Script.Opaque) > 0) != tt.opaque {
			t.Errorf("%v: got %+v, %v", tt.args, uses.Script, err)
		}
	}
}

func TestBash_CancelEndsTheCommand(t *testing.T) {
	e := toolstest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	in := e.In(m{"command": "echo started; sleep 30"})
	in.Emit = func(tool.Progress) { cancel() }
	_, err := Bash{}.Run(ctx, in, e.Box)
	if te, ok := err.(*tool.Error); !ok || te.Code != "cancelled" || !strings.Contains(te.Msg, "started") {
		t.Errorf("got %v, want cancelled with what was written", err)
	}
}

func TestBash_StreamsWhileItRuns(t *testing.T) {
	e := toolstest.New(t)
	var mu sync.Mutex
	got := map[string]string{}
	in := e.In(m{"command": "echo out; echo err >&2"})
	in.Emit = func(p tool.Progress) {
		mu.Lock()
		got[p.Stream] += string(p.Output)
		mu.Unlock()
	}
	if _, err := (Bash{}).Run(t.Context(), in, e.Box); err != nil {
		t.Fatal(err)
	}
	if got["stdout"] != "out\n" || got["stderr"] != "err\n" {
		t.Errorf("got %v", got)
	}
}

func TestT43_OutputKeepsHeadAndTail(t *testing.T) {
	for _, tt := range []struct {
		name  string
		total int // characters
		unit  string
		cut   bool
	}{
		{"exactly the cap", 100_000, "x", false},
		{"one more", 100_001, "x", true},
		{"three times the cap", 300_000, "x", true},
		{"many times the cap", 3_000_000, "x", true},
		{"characters, not bytes", 100_000, "汉", false},
		{"wide characters", 400_000, "汉", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c capture
			text := "<" + strings.Repeat(tt.unit, tt.total-2) + ">"
			for len(text) > 0 {
				n := min(len(text), 4099)
				if _, err := c.Write([]byte(text[:n])); err != nil {
					t.Fatal(err)
				}
				text = text[n:]
			}
			got, cut := c.text(math.MaxInt64)
			if cut != tt.cut {
				t.Errorf("cut is %v", cut)
			}
			want := tt.total
			if tt.cut {
				want = 100_000 + len("...(truncated)...")
			}
			if n := utf8.RuneCountInString(got); n != want {
				t.Errorf("got %d characters, want %d", n, want)
			}
			if !strings.HasPrefix(got, "<") || !strings.HasSuffix(got, ">") ||
				strings.Contains(got, "...(truncated)...") != tt.cut || !utf8.ValidString(got) {
				t.Errorf("got %.20q … %q", got, got[len(got)-20:])
			}
			if len(c.head)+cap(c.tail) > 8*captureHalf {
				t.Errorf("holds %d bytes", len(c.head)+cap(c.tail))
			}
		})
	}
}

func TestBash_SandboxNotes(t *testing.T) {
	denials := []sandbox.Denial{{Act: "connect 127.0.0.1:80", Layer: "netns", Setting: "network.allowLocalBinding"}}
	got := bashData{Stderr: "boom\n", ExitCode: 1, denials: denials}.text()
	if want := "boom\n[sandbox: stopped connect 127.0.0.1:80; allowed by network.allowLocalBinding]\nExit code: 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	mount := []sandbox.Denial{{Act: "mount at /mnt", Layer: "seccomp"}}
	if got, want := (bashData{
		ExitCode: 1,
		denials:  mount,
	}).text(), "[sandbox: stopped mount at /mnt; no setting allows it]\nExit code: 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (bashData{Stdout: "x", denials: mount}).text(); got != "x" {
		t.Errorf("got %q, want no word of what a command did without", got)
	}
	got = bashData{Stderr: "sh: /etc/x: Read-only file system\n", ExitCode: 2}.text()
	if !strings.Contains(got, "[sandbox: that place cannot be written") {
		t.Errorf("got %q, want a note", got)
	}
	if got := (bashData{Stdout: "Read-only file system\n"}).text(); strings.Contains(got, "[sandbox") {
		t.Errorf("got %q, want no note for a command that succeeded", got)
	}
	if got := (bashData{
		Stdout: "x", ExitCode: 137, Limit: "memory",
	}).text(); got != "x\n[sandbox: the command was ended at its limit: memory]\nExit code: 137" {
		t.Errorf("got %q", got)
	}
}

func TestBash_ProtectedFilesAreExplained(t *testing.T) {
	const why = " is write-protected, because it decides what runs outside the sandbox; a person has to change it"
	const onlyThere = "[sandbox: that place cannot be written; write inside the workspace or /tmp, " +
		"and leave files that decide what runs outside (.git/hooks, .envrc) to a person]"
	for _, tt := range []struct {
		stderr string
		code   int
		want   string
	}{
		{
			"error: could not write config file .git/config: Device or resource busy\n", 4,
			"[sandbox: .git/config" + why + "; git -c NAME=VALUE sets a value for one command]",
		},
		{
			"error: could not write config file /w/.git/config: Device or resource busy\n", 0,
			"[sandbox: /w/.git/config" + why + "; git -c NAME=VALUE sets a value for one command]",
		},
		{
			"cp: cannot create regular file '.git/hooks/pre-commit': Read-only file system\n", 1,
			"[sandbox: .git/hooks/pre-commit" + why + "]",
		},
		{"sh: 1: cannot create .vscode/tasks.json: Read-only file system\n", 2, "[sandbox: .vscode/tasks.json" + why + "]"},
		{"OSError: [Errno 30] Read-only file system: 'pkg/.envrc'\n", 1, "[sandbox: pkg/.envrc" + why + "]"},
		{"OSError: [Errno 30] Read-only file system: 'pkg/.npmrc'\n", 1, onlyThere},
		{
			"cp: cannot create regular file 'a': Read-only file system\ncp: cannot create regular file " +
				"'.git/hooks/pre-commit': Read-only file system", 1,
			"[sandbox: .git/hooks/pre-commit" + why + "]",
		},
		{
			"x\n" + strings.Repeat("long", 1<<20) + " .git/config: Device or resource busy" + strings.Repeat("long", 1<<20), 1,
			"[sandbox: .git/config" + why + "; git -c NAME=VALUE sets a value for one command]",
		},
		{"umount: /mnt: Device or resource busy\n", 1, ""},
		{".git/config: No such file or directory\n", 1, ""},
		{
			"sh: /etc/x: Read-only file system\n", 2,
			onlyThere,
		},
	} {
		got := strings.Join(sandboxNotes(bashData{Stderr: tt.stderr, ExitCode: tt.code}), "\n")
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.stderr, got, tt.want)
		}
	}
}

func TestBash_UsesNameProgramsAndFiles(t *testing.T) {
	e := toolstest.New(t)
	uses, err := Bash{}.Uses(t.Context(), e.In(m{"command": "cat in.txt | tee out.txt"}))
	if err != nil {
		t.Fatal(err)
	}
	if uses.Script == nil || len(uses.Script.Commands) != 2 {
		t.Fatalf("got %+v, want two commands", uses.Script)
	}
	var got []string
	for _, p := range uses.Paths {
		got = append(got, fmt.Sprintf("%s %s", p.Op, filepath.Base(p.Path)))
	}
	if want := "read in.txt write out.txt"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	_, err = Bash{}.Uses(t.Context(), e.In(m{"command": "true\necho 'open"}))
	te, ok := err.(*tool.Error)
	if !ok || te.Code != "command_syntax" || !strings.HasPrefix(te.Msg, "line 2, column 6: ") {
		t.Fatalf("got %v, want a refusal of text that is no command, with the place", err)
	}
	if at, ok := te.Details.(shellparse.Pos); !ok || at.Offset != 10 {
		t.Errorf("got details %+v, want the place of the quote", te.Details)
	}
	if _, err := os.Stat(e.Dir + "/out.txt"); err == nil {
		t.Error("Uses ran the command")
	}
}

func TestBash_WorkingDirectoryIsKept(t *testing.T) {
	e := toolstest.New(t)
	e.Write("sub/deep/f", "")
	e.Write("secret/f", "")
	e.Box.Denied = []string{e.Dir + "/secret"}
	const failed, unknown = "the command failed", "where the command ends up cannot be told from its text"
	for _, tt := range []struct{ command, want, lost string }{
		{"cd sub", "sub", ""},
		{"cd sub && cd deep && true", "sub/deep", ""},
		{"cd sub/deep && ls | cat", "sub/deep", ""},
		{"cd sub; cd ..", "", unknown},
		{"true", "", ""},
		{"(cd sub)", "", ""},
		{"(cd sub; false)", "", ""},
		{"cd sub && false", "", failed},
		{"cd nowhere", "", failed},
		{"cd sub; exit 3", "", failed},
		{"cd sub # comment", "", unknown},
		{"(cd sub) # comment", "", ""},
		{"cd secret", "", e.Dir + "/secret cannot be entered by file tools"},
		{"cd /", "", "/ is outside the workspace"},
		{"cd ..", "", filepath.Dir(e.Dir) + " is outside the workspace"},
		{"cd $(echo sub)", "sub", ""},
		{"cd $(ls -d su*)", "", unknown},
		{"cat <<E\ncd sub\nE", "", ""},
		{"cd sub && cat <<E\nhello\nE", "", unknown},
	} {
		text, out, err := e.Call(Bash{}, m{"command": tt.command})
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if tt.want != "" {
			want = e.Dir + "/" + tt.want
		}
		if out.Dir != want {
			t.Errorf("%s: got %q, want %q", tt.command, out.Dir, want)
		}
		if strings.Contains(text, "[working directory:") != (want != "") {
			t.Errorf("%s: got text %q", tt.command, text)
		}
		still := "[the working directory is still " + e.Dir + ": "
		if strings.Contains(text, still) != (tt.lost != "") || !strings.Contains(text, tt.lost) {
			t.Errorf("%s: got text %q, want %q in it", tt.command, text, tt.lost)
		}
	}
}

// A run of a cron job does not say that it took the session elsewhere.
func TestT51_AScheduledCommandLeavesTheSession(t *testing.T) {
	e := toolstest.New(t)
	e.Write("sub/f", "")
	in := e.In(m{"command": "cd sub"})
	uses, err := Bash{}.Uses(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	in.Judged = uses
	for scheduled, want := range map[bool]string{
		true: "[the working directory is still " + e.Dir + ": a run of a cron job", false: "[working directory: ",
	} {
		in.Scheduled = scheduled
		out, err := Bash{}.Run(t.Context(), in, e.Box)
		text := tool.Format(Bash{}, out, in.Args)
		if err != nil || (out.Dir == "") != scheduled || !strings.Contains(text, want) || strings.Count(text, "working directory") != 1 {
			t.Errorf("scheduled %v: %q in %q, %v", scheduled, text, out.Dir, err)
		}
	}
}

// A model that meets a closed network is told who can open it, once.
func TestBash_NothingPromisesANetwork(t *testing.T) {
	for _, sign := range []string{
		"curl: (6) Could not resolve host: a.org", "Temporary failure in name resolution",
		"connect: Network is unreachable",
	} {
		got := sandboxNotes(bashData{ExitCode: 6, Stderr: sign})
		if len(got) != 1 || got[0] != noNetwork {
			t.Errorf("%q: got %q", sign, got)
		}
	}
	said := noNetwork + Bash{}.Spec().Description + shellPrompt(nil)
	if strings.Count(said, "hosts are reached only where the operator allows them") != 2 {
		t.Errorf("the model is told %s", said)
	}
}
