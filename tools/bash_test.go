package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

func TestT45_BashTextIsStdoutStderrExitCode(t *testing.T) {
	e := newEnv(t)
	for _, tt := range []struct{ name, command, want string }{
		{"stdout without a prefix", "echo hi", "hi\n"},
		{"stderr after stdout", "echo err >&2; echo out", "out\nerr\n"},
		{"stderr on its own line", "printf out; printf err >&2", "out\nerr"},
		{"exit code at the end", "echo x; exit 3", "x\nExit code: 3"},
		{"only an exit code", "exit 3", "Exit code: 3"},
		{"working directory of the session", "pwd", e.dir + "\n"},
		{"the bytes that were judged run", `echo '$HOME' "a  b" \\`, "$HOME a  b \\\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := e.ok(Bash{}, m{"command": tt.command}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	text, out, err := e.call(Bash{}, m{"command": "true"})
	if err != nil || text != "" {
		t.Errorf("got %q, %v, want nothing from a command that writes nothing", text, err)
	}
	if d, ok := out.Data.(bashData); !ok || d.ExitCode != 0 || d.TimedOut {
		t.Errorf("got %+v", out.Data)
	}
}

func TestT42_BashTimeoutIsAnErrorThatSaysSo(t *testing.T) {
	e := newEnv(t)
	start := time.Now()
	te := e.fails(Bash{}, m{"command": "echo early; sleep 30 & echo $! > pid; sleep 30", "timeout": 300}, "timeout")
	if took := time.Since(start); took > 25*time.Second {
		t.Errorf("took %v", took)
	}
	if !strings.Contains(te.Msg, "timeout of 300 ms") || !strings.Contains(te.Msg, "early") || !strings.Contains(te.Hint, "600000") {
		t.Errorf("got %q, hint %q; want the timeout, what was written, and the maximum", te.Msg, te.Hint)
	}
}

func TestT42_BashTimeoutIsClamped(t *testing.T) {
	e := newEnv(t)
	for _, tt := range []struct {
		args m
		want time.Duration
	}{
		{m{"command": "true"}, 120 * time.Second},
		{m{"command": "true", "timeout": 900_000}, 600 * time.Second},
		{m{"command": "true", "timeout": int64(1) << 52}, 600 * time.Second},
		{m{"command": "true", "timeout": 5000}, 5 * time.Second},
	} {
		box := &deadlineBox{hostBox: e.box}
		if _, err := (Bash{}).Run(t.Context(), e.in(tt.args), box); err != nil {
			t.Fatal(err)
		}
		if d := box.left; d > tt.want || d < tt.want-time.Minute {
			t.Errorf("%v: got %v, want %v", tt.args, d, tt.want)
		}
	}
}

type deadlineBox struct {
	*hostBox
	left time.Duration
}

func (b *deadlineBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	at, _ := ctx.Deadline()
	b.left = time.Until(at)
	return b.hostBox.Start(ctx, s)
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

func TestT44_BashBackgroundIsAnsweredClearly(t *testing.T) {
	e := newEnv(t)
	if te := e.fails(Bash{}, m{"command": "true", "run_in_background": true}, "background_unavailable"); te.Hint == "" {
		t.Error("no hint")
	}
}

func TestBash_CancelEndsTheCommand(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	in := e.in(m{"command": "echo started; sleep 30"})
	in.Emit = func(string, []byte) { cancel() }
	_, err := Bash{}.Run(ctx, in, e.box)
	if te, ok := err.(*tool.Error); !ok || te.Code != "cancelled" || !strings.Contains(te.Msg, "started") {
		t.Errorf("got %v, want cancelled with what was written", err)
	}
}

func TestBash_StreamsWhileItRuns(t *testing.T) {
	e := newEnv(t)
	var mu sync.Mutex
	got := map[string]string{}
	in := e.in(m{"command": "echo out; echo err >&2"})
	in.Emit = func(stream string, b []byte) {
		mu.Lock()
		got[stream] += string(b)
		mu.Unlock()
	}
	if _, err := (Bash{}).Run(t.Context(), in, e.box); err != nil {
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
			got := c.String()
			want := tt.total
			if tt.cut {
				want = 100_000 + len("...(truncated)...")
			}
			if n := utf8.RuneCountInString(got); n != want {
				t.Errorf("got %d characters, want %d", n, want)
			}
			if !strings.HasPrefix(got, "<") || !strings.HasSuffix(got, ">") || strings.Contains(got, "...(truncated)...") != tt.cut || !utf8.ValidString(got) {
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
	if got, want := (bashData{ExitCode: 1, denials: mount}).text(), "[sandbox: stopped mount at /mnt; no setting allows it]\nExit code: 1"; got != want {
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
	if got := (bashData{Stdout: "x", ExitCode: 137, Limit: "memory"}).text(); got != "x\n[sandbox: the command was ended at its limit: memory]\nExit code: 137" {
		t.Errorf("got %q", got)
	}
}

func TestBash_UsesNameProgramsAndFiles(t *testing.T) {
	e := newEnv(t)
	uses, err := Bash{}.Uses(t.Context(), e.in(m{"command": "cat in.txt | tee out.txt"}))
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
	_, err = Bash{}.Uses(t.Context(), e.in(m{"command": "echo 'open"}))
	if te, ok := err.(*tool.Error); !ok || !strings.HasPrefix(te.Code, "command_") {
		t.Errorf("got %v, want a refusal of text that is no command", err)
	}
	if _, err := os.Stat(e.dir + "/out.txt"); err == nil {
		t.Error("Uses ran the command")
	}
}

func TestBash_WorkingDirectoryIsKept(t *testing.T) {
	e := newEnv(t)
	e.write("sub/deep/f", "")
	e.write("secret/f", "")
	e.box.denied = []string{e.dir + "/secret"}
	for _, tt := range []struct{ command, want string }{
		{"cd sub", "sub"},
		{"cd sub && cd deep && true", "sub/deep"},
		{"cd sub/deep && ls | cat", "sub/deep"},
		{"cd sub; cd ..", ""},
		{"true", ""},
		{"(cd sub)", ""},
		{"cd sub && false", ""},
		{"cd sub # comment", ""},
		{"cd secret", ""},
		{"cd $(echo sub)", "sub"},
		{"cd $(ls -d su*)", ""},
		{"cat <<E\ncd sub\nE", ""},
	} {
		text, out, err := e.call(Bash{}, m{"command": tt.command})
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if tt.want != "" {
			want = e.dir + "/" + tt.want
		}
		if out.Dir != want {
			t.Errorf("%s: got %q, want %q", tt.command, out.Dir, want)
		}
		if strings.Contains(text, "[working directory:") != (want != "") {
			t.Errorf("%s: got text %q", tt.command, text)
		}
	}
}
