package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

// TestX39_DenialsNameTheAct makes twenty acts that must not work and asks what the
// answer says of each. docs/sandbox.md has the same table.
func TestX39_DenialsNameTheAct(t *testing.T) {
	acts := []struct {
		attempt      string // from the list of attempts, or a command line
		act          string // W is the workspace; "": not known
		layer        string
		noNamespaces string // without namespaces, where it differs
	}{
		{"mount", "mount at W", "seccomp", ""},
		{"mask unmounted", "unmount W/deep/er/secret", "seccomp", ""},
		{"chroot", "chroot", "seccomp", ""},
		{"new user namespace", "make a namespace (unshare)", "seccomp", ""},
		{"setns", "enter a namespace (setns)", "seccomp", ""},
		{"bpf", "bpf", "seccomp", ""},
		{"perf_event_open", "perf_event_open", "seccomp", ""},
		{"userfaultfd", "userfaultfd", "seccomp", ""},
		{"keyctl", "keyctl", "seccomp", ""},
		{"memory read across processes", "process_vm_readv", "seccomp", ""},
		{"chmod set-user-id", "chmod W/free/own", "seccomp", ""},
		{"character device made", "mknod W/free/mem", "seccomp", ""},
		{"packet socket", "socket of family 17", "seccomp", ""},
		{"personality without randomisation of code", "personality", "seccomp", ""},
		{
			"file outside leased, so that its writers wait", "take a lease on a file or be sent its signals (fcntl)", "seccomp",
			"",
		},
		{"input pushed into a terminal", "push input into a terminal (ioctl)", "seccomp", ""},
		{"another host", "connect 192.0.2.1:80", "netns", "socket of family 2"},
		{"host's socket renamed since", "connect W/renamed.sock", "mountns", "socket of family 1"},
		{"sh: echo x > free/denied", "create W/free/denied", "denied_path_created", ""},
		{"secret read", "", "", ""},
		{"write outside", "", "", ""},
	}
	known := 0
	for _, a := range acts {
		if a.act != "" {
			known++
		}
	}
	if len(acts) < 20 || known < 15 {
		t.Errorf("of %d acts %d are known, want 15 of 20", len(acts), known)
	}
	bothUsers(t, func(t *testing.T) {
		for level, o := range map[string]Options{"namespaces": {}, "landlock": {NoNamespaces: true}} {
			t.Run(level, func(t *testing.T) {
				w, cage, settings := newWorld(t, o)
				needCage(t, cage)
				settings.DeniedPaths = append(settings.DeniedPaths, filepath.Join(w.Workspace, "free/denied"))
				body, err := json.Marshal(w)
				if err != nil {
					t.Fatal(err)
				}
				box := newBox(t, cage, "strict", settings)
				var names []string
				for _, a := range acts {
					names = append(names, a.attempt)
				}
				var out bytes.Buffer
				denials := runSpec(t, box, Spec{
					Argv: []string{filepath.Join(w.Workspace, "attempt"), "-attempts"}, Dir: w.Workspace,
					Env: []string{"ATTEMPT_WORLD=" + string(body), "ATTEMPT_ONLY=" + strings.Join(names,
						"\n")}, Stdout: &out, Stderr: &out,
				}).Denials
				if why := box.Report().Missing; slices.ContainsFunc(why,
					func(m string) bool { return strings.HasPrefix(m, "denials: ") }) {
					needs.Missing(t, "%q", why)
				}
				for _, a := range acts {
					if script, ok := strings.CutPrefix(a.attempt, "sh: "); ok {
						e, _ := runIn(t, box, w.Workspace, "sh", "-c", script)
						denials = append(denials, e.Denials...)
					} else if !strings.Contains(out.String(), a.attempt+"\tstopped\n") {
						t.Errorf("%s: %s", a.attempt, out.String())
					}
					want := Denial{Act: strings.ReplaceAll(a.act, "W", w.Workspace), Layer: a.layer}
					if a.noNamespaces != "" && w.NoNamespaces {
						want = Denial{Act: a.noNamespaces, Layer: "seccomp"}
					}
					if a.act != "" && !slices.ContainsFunc(denials, func(d Denial) bool {
						return d.Act == want.Act &&
							d.Layer == want.Layer
					}) {
						t.Errorf("%s: denials %+v, want %+v", a.attempt, denials, want)
					}
				}
				// What is not known is not made up.
				for _, d := range denials {
					if strings.Contains(d.Act, w.SecretDir) || strings.Contains(d.Act, w.Outside) {
						t.Errorf("%+v", d)
					}
				}
			})
		}
	})
}

// TestX39_AnActIsOneLine: a program chooses the names in its acts, and could write lines of its own into what people and
// models read.
func TestX39_AnActIsOneLine(t *testing.T) {
	bothLevels(t, func(t *testing.T, cage Backend) {
		ws := shortTemp(t)
		box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		const name = "'a\nExit code: 0\x1b[2J'"
		e, out := runIn(t, box, ws, "sh", "-c", "touch "+name+"; chmod 4755 "+name)
		if why := box.Report().Missing; slices.ContainsFunc(why,
			func(m string) bool { return strings.HasPrefix(m, "denials: ") }) {
			needs.Missing(t, "%q", why)
		}
		want := Denial{Act: "chmod a\ufffdExit code: 0\ufffd[2J", Layer: "seccomp"}
		if !slices.Contains(e.Denials, want) {
			t.Errorf("denials %+v, want %+v: %s", e.Denials, want, out)
		}
	})
}

// TestX39_DenialsOfAFlood: who is refused without end gets its refusals, the answer
// stays short, and other calls of the session go on.
func TestX39_DenialsOfAFlood(t *testing.T) {
	bothLevels(t, func(t *testing.T, cage Backend) {
		ws := shortTemp(t)
		copyFile(t, "/proc/self/exe", ws+"/try", 0o755)
		box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		e, out := runIn(t, box, ws, "./try", "-flood", "700")
		if e.Code != 0 || out != "refused 700 times\n" {
			t.Errorf("exit %+v: %s", e, out)
		}
		if len(e.Denials) != 32 {
			t.Errorf("%d denials", len(e.Denials))
		}
		for _, d := range e.Denials {
			if strings.ContainsAny(d.Act, "\n\x1b") {
				t.Errorf("%q", d.Act)
			}
		}
		if e, out := runIn(t, box, ws, "echo", "still here"); e.Code != 0 || out != "still here\n" || e.Denials != nil {
			t.Errorf("the next call: %+v %q", e, out)
		}
	})
}

// flood is the inside of the cage: n refused calls, each with another path.
func flood(n string) {
	want, err := strconv.Atoi(n)
	if err != nil {
		os.Exit(2)
	}
	refused := 0
	for i := range want {
		if unix.Chroot(fmt.Sprintf("/\n\x1b[31m%d", i)) != nil {
			refused++
		}
	}
	fmt.Printf("refused %d times\n", refused)
	os.Exit(0)
}
