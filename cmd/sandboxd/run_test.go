package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/replay"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// Every command is tried here in this process, as far as it goes without a daemon. What
// commands do with one is in tests/integration, with the real program.
func TestEveryCommandAnswers(t *testing.T) {
	home := t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "SANDBOXD_STATE_DIR": filepath.Join(home, "state"), "SANDBOXD_RUNTIME_DIR": filepath.Join(home, "run"),
		"SANDBOXD_KEY_DIR": filepath.Join(home, "key"), "SANDBOXD_CONFIG": "", "SANDBOXD_SOCKET": "", "SANDBOXD_OPERATOR_SOCKET": "",
	} {
		t.Setenv(name, value)
	}
	work := t.TempDir()
	t.Chdir(work)
	conf := filepath.Join(home, "sandboxd.yaml")
	bad := filepath.Join(home, "bad.yaml")
	for file, text := range map[string]string{
		filepath.Join(work, "settings.yaml"): "deniedPaths: [secret.env]\n",
		filepath.Join(work, "no.yaml"):       "filesystems: {}\n",
		filepath.Join(home, "kept.yaml"):     "policy: {keepDecisions: 36h}\n",
		filepath.Join(work, "fails/a.rego"): "package sandboxd.policies.acme.a\n\n" +
			`findings contains {"id": "acme.a", "effect": "deny", "message": "m"} if input.tool.name == "No"` + "\n",
		filepath.Join(work, "fails/a_test.rego"): "package sandboxd.policies.acme.a_test\n\n" +
			"test_one if 1 == 2\n\ntodo_test_two if true\n",
		filepath.Join(home, "old/state.db"): "",
		conf:                                "sessions: {mode: plan}\n", bad: "sesions: {}\n", filepath.Join(work, "secret.env"): "A=b\n",
	} {
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	const (
		noAgents    = "no daemon answers on %/run/agent.sock"
		noOperators = "no daemon answers on %/run/operator.sock"
	)
	for _, tt := range []struct {
		args string
		exit int
		want string // in either stream
	}{
		{"version", 0, "sandboxd"},
		{"--help", 0, "Available Commands"},
		{"nothing", 2, "unknown command"},
		{"version --nothing", 2, "unknown flag: --nothing\nsandboxd: hint: sandboxd version --help lists the flags"},
		{"log -n abc", 2, `error: --lines: "abc" is not a number`},
		{"log -n 99999999999999999999", 2, `error: --lines: "99999999999999999999" is out of range`},
		{"log --follow=abc", 2, `error: --follow: "abc" is neither true nor false`},
		{"version nothing", 2, "hint: usage: sandboxd version"},
		{"tools", 0, "Available Commands"},
		{"tools nothing", 2, `unknown command "nothing" for "sandboxd tools"`},
		{"tools --help nothing", 0, "Available Commands"},
		{"vars --session s nothing", 2, "hint: sandboxd vars has the commands get, ls, origins, rm, set"},
		{"call", 2, "hint: usage: sandboxd call TOOL JSON"},
		{"call Bash {", 2, "hint: quote them for your shell"},
		{"completion nothing", 2, "hint: sandboxd completion has the commands bash, fish, powershell, zsh"},
		{"completion bash", 0, "bash completion"},

		{"config check --config " + conf, 0, ""},
		{"config check --config " + bad, 1, `unknown key "sesions"`},
		{"config show --config " + conf, 0, "plan"},
		{"config env", 0, "SANDBOXD_"},
		{"tools ls", 0, "Bash"},
		{"tools show Read", 0, "file_path"},
		{"tools show Raed", 1, "Raed"},

		{"check command ls", 0, "allow"},
		{"check command --json rm", 0, `"verdict"`},
		{"check path --op write /etc/x", 3, "/etc/x"},
		{"check path --op change x", 1, "op"},
		{"check path secret.env", 0, "allow"},
		{"check path", 1, "no path: give one, or --jsonl"},
		{"check path --settings settings.yaml secret.env", 3, "deny: read secret.env"},
		{"check path --settings none.yaml secret.env", 1, "none.yaml: no such file"},
		{"check path --settings no.yaml secret.env", 1, `no.yaml: unknown`},
		{"check path --cwd fails x", 0, "/fails/x"},
		{"check command", 1, "no command line: give one in quotes, or --jsonl"},
		{"check command $x", 3, "runs    $x (not known)"},

		{"policy check", 0, ""},
		{"policy rules", 0, "developer."},
		{"policy eval -c ls", 0, `"verdict"`},
		{"policy explain -c ls", 0, "allow"},
		{"policy explain --json -c id", 0, `"findings"`},
		{"policy bench --count 2 -c ls", 0, "median"},
		{"policy init mine --owner acme", 0, "branches.rego"},
		{"policy init mine --owner acme", 1, "exists"},
		{"policy fmt mine", 0, ""},
		{"policy test mine", 0, "3 of 3 tests passed, and the examples of all rules hold"},
		{"policy test fails", 1, "policy tests failed"},
		{"policy test --json fails", 1, `"pass": false`},
		{"--config " + home + "/kept.yaml policy replay --since 2d", 2, "decisions are kept for 36h0m0s"},
		{"store migrate --json " + home + "/old", 0, `"changed": [`},
		{"store migrate " + home + "/old", 0, ": up to date"},
		{"store status --json " + home + "/old", 0, `"kind": "sqlite"`},
		{"policy export out", 0, ""},
		{"policy export out", 1, "not an empty directory"},

		{"call Bash {}", 1, noAgents},
		{"status", 1, noAgents},
		{"reload", 1, noOperators},
		{"stop-all", 1, noOperators},
		// Agents take 2 for a denial, and any other failure of a hook for nothing.
		{"hook", 2, "the hook call is not valid JSON"},
		{"hook --agent emacs", 2, `unknown agent "emacs"`},
		{"hook --on-error allow", 2, `unknown --on-error "allow"`},
		{"hook --ask nobody", 2, `unknown --ask "nobody"`},
		{"hooks", 1, noOperators},
		{"hooks test stop", 1, noOperators},
		{"sessions list", 1, noAgents},
		{"sessions show s", 1, noAgents},
		{"sessions export s", 1, noAgents},
		{"sessions fork s", 1, noAgents},
		{"sessions resume", 1, noAgents},
		{"sessions ls", 1, noAgents},
		{"sessions mode s auto", 1, noOperators},
		{"sessions delete s", 1, noAgents},
		{"sessions rm s", 1, noAgents},
		{"vars ls", 1, noAgents},
		{"vars get a", 1, noAgents},
		{"vars set a b", 1, noAgents},
		{"vars rm a", 1, noAgents},
		{"vars origins", 1, noAgents},
		{"approvals list", 1, noOperators},
		{"approvals show a", 1, noOperators},
		{"approvals approve a", 1, noOperators},
		{"approvals deny a", 1, noOperators},
		{"approvals grants", 1, noOperators},
		{"approvals revoke a", 1, noOperators},
		{"audit tail", 1, ""},
		{"audit verify", 1, ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			if got := run(t.Context(), strings.Fields(tt.args), &out, &errs); got != tt.exit {
				t.Errorf("exit %d, want %d\n%s%s", got, tt.exit, out.String(), errs.String())
			}
			if want := strings.Replace(tt.want, "%", home, 1); !strings.Contains(out.String()+errs.String(), want) {
				t.Errorf("want %q in\n%s%s", tt.want, out.String(), errs.String())
			}
			if tt.exit != 0 && !strings.HasPrefix(tt.args, "check ") && !strings.Contains(errs.String(), "sandboxd: error: ") {
				t.Errorf("it fails and says no error: %s%s", out.String(), errs.String())
			}
		})
	}
}

// A command whose arguments nobody checks would take a wrong one without a word. Those that take a
// list of anything say so in their usage.
func TestEveryCommandChecksItsArguments(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.HasParent() && c.Args == nil && !strings.Contains(c.Use, "...]") {
			t.Errorf("%s does not check its arguments", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	root := rootCmd()
	wrapUsage(root)
	check(root)
}

// TestSetupIsConfirmedAtATerminalAlone: what a pipe says is nobody's yes.
func TestSetupIsConfirmedAtATerminalAlone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer r.Close()
	stdin := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = stdin }()
	cmd := setupCmd()
	cmd.SetIn(r)
	yes, err := confirmed(cmd)
	if e, ok := errors.AsType[*tool.Error](err); yes || !ok || e.Code != "not_confirmed" || e.Hint == "" {
		t.Errorf("got %v, %v", yes, err)
	}
}

// saysCode wants an error with a code, words in its message and a hint.
func saysCode(t *testing.T, err error, code, words string) {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Msg, words) || e.Hint == "" {
		t.Errorf("got %v, want %s with %q", err, code, words)
	}
}

// A service of the system is for root to make, who lets it start only what no other user can replace.
func TestWhatSetupNeeds(t *testing.T) {
	needs.Root(t, "to own the program as root does")
	saysCode(t, runTool(t.Context(), setupCmd(), []string{"sandboxd-no-such-tool"}), "not_installed",
		"sandboxd-no-such-tool is not installed")

	var err error
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 64101, 64101, 64101); errno != 0 {
			err = errno
			return
		}
		_, err = hostOf(setupCmd(), false)
	})
	done.Wait()
	saysCode(t, err, "not_root", "for root to make")

	dir := filepath.Join(t.TempDir(), "bin")
	program := filepath.Join(dir, "sandboxd")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(program, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := onlyRootWrites(program); err != nil { // although anybody may write to /tmp
		t.Errorf("where only root writes: %v", err)
	}
	for _, tt := range []struct {
		name   string
		change func() error
		undo   func() error
		at     string
	}{
		{
			"others write it", func() error { return os.Chmod(program, 0o757) },
			func() error { return os.Chmod(program, 0o755) }, program,
		},
		{
			"it is another user's", func() error { return os.Chown(program, 64101, -1) },
			func() error { return os.Chown(program, 0, -1) }, program,
		},
		{
			"a group writes its directory", func() error { return os.Chmod(dir, 0o775) },
			func() error { return os.Chmod(dir, 0o755) }, dir,
		},
		{
			"anybody may put a file beside it", func() error { return os.Chmod(dir, 0o777|os.ModeSticky) },
			func() error { return os.Chmod(dir, 0o755) }, dir,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.change(); err != nil {
				t.Fatal(err)
			}
			saysCode(t, onlyRootWrites(program), "program_unsafe", tt.at+" can be changed by others than root")
			if err := tt.undo(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A replay that judged nothing, and a shadow that there is not, are errors and no empty tables.
func TestWhereThereIsNothingToShow(t *testing.T) {
	saysCode(t, nothingJudged(replay.Report{}, "7d"), "nothing_recorded", "no call of the last 7d is recorded")
	if err := nothingJudged(replay.Report{Calls: 1}, "7d"); err != nil {
		t.Error(err)
	}
	const unknown = "no recorded call of the last 7d can be judged again"
	err := nothingJudged(replay.Report{Unknown: []replay.Unknown{{Calls: 1}}}, "7d")
	if err == nil || err.Error() != unknown {
		t.Errorf("got %v, want %s", err, unknown)
	}

	socket := filepath.Join(t.TempDir(), "o")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		io.WriteString(w, `{"data":{}}`)
	})}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	t.Setenv("SANDBOXD_OPERATOR_SOCKET", socket)
	c := policyShadowCmd()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs([]string{"-n", "7"})
	saysCode(t, c.ExecuteContext(t.Context()), "no_shadow", "no policies judge in the shadow")
	if got := <-asked; !strings.HasSuffix(got, "/policies/shadow?limit=7") {
		t.Errorf("it asked for %s", got)
	}
}
