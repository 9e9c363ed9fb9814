package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sandboxd/sandboxd/tests/prebuilt"
)

// bin is where the programs under test are, and built what go has compiled on this host: half a
// minute for each test that would compile the standard library again.
var bin, built string

func TestMain(m *testing.M) {
	if socket := os.Getenv(judgeSocket); socket != "" {
		serveJudge(socket)
		return
	}
	if socket := os.Getenv(echoSocket); socket != "" {
		serveEcho(socket)
		return
	}
	if socket := os.Getenv(callerSocket); socket != "" {
		callAsBob(socket)
		return
	}
	if os.Getenv(notesServer) != "" {
		serveNotes(os.Stdin, os.Stdout)
		return
	}
	if os.Getenv(mcpEcho) != "" {
		_ = echoServer().Run(context.Background(), &mcp.StdioTransport{}) // until its client has gone
		return
	}
	if script := os.Getenv(mcpServer); script != "" {
		serveMCP(script, os.Stdin, os.Stdout)
		return
	}
	if layer := os.Getenv(lackEnv); layer != "" {
		without(layer, os.Args[1:])
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	// Not below /tmp: that is private and writable in a sandbox, so what lies
	// there is no test of a workspace.
	dir, err := newDir("/var/tmp", "sandboxd-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	bin = dir
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "go env GOCACHE:", err)
		return 1
	}
	built = strings.TrimSpace(string(out))
	err = prebuilt.Programs(dir)
	if err == nil {
		err = warm(filepath.Join(dir, "warm"))
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "scripts"), 0o755)
	}
	if err == nil {
		err = keepAnswers(filepath.Join(dir, "scripts"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// warm tests a small module in dir, so that go has compiled what tests of calls need. On a new machine it has
// nothing, and the standard library takes longer than a call may.
func warm(dir string) error {
	for name, text := range map[string]string{
		"go.mod":    "module warm\n",
		"a_test.go": "package warm\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc Test(*testing.T) { fmt.Print() }\n",
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", "test", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("test a small module: %w\n%s", err, out)
	}
	return nil
}

// newDir makes a directory whose name always has the same length: what is printed of it is
// cut in the same places.
func newDir(parent, prefix string) (string, error) {
	dir := filepath.Join(parent, prefix+strings.ToLower(rand.Text()[:10]))
	return dir, os.Mkdir(dir, 0o700)
}

// TestScripts runs every script against a daemon of its own. The curl of scripts
// holds every answer against docs/openapi.json.
func TestScripts(t *testing.T) {
	t.Cleanup(func() { checkAnswers(t) })
	root, err := os.MkdirTemp(bin, "r") // another one for each -count
	if err == nil {
		err = os.Chmod(root, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               setup,
		WorkdirRoot:         root,
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":   daemon,
			"killd":    killDaemon,
			"hupd":     signalDaemon(syscall.SIGHUP),
			"termd":    signalDaemon(syscall.SIGTERM),
			"waitd":    waitDaemon,
			"eventual": eventual,
		},
		Condition: func(cond string) (bool, error) {
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// daemonKey is where a script keeps its daemon.
type daemonKey struct{}

// setup makes a small Go module in a git repository, a home with a secret, and
// the places of a daemon.
func setup(env *testscript.Env) error {
	work := env.Getenv("WORK")
	repo, home := filepath.Join(work, "repo"), filepath.Join(work, "home")
	files := map[string]string{
		repo + "/go.mod": "module example.com/small\n\ngo 1.26\n",
		repo + "/add.go": "package small\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n",
		repo + "/add_test.go": "package small\n\nimport \"testing\"\n\n" +
			"func TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
		repo + "/README.md":     "# small\n\nline three\nline four\n",
		home + "/.ssh/id_rsa":   "PLANTED-SECRET-KEY\n",
		home + "/.gitconfig":    "[user]\n\tname = t\n\temail = t@example.com\n[safe]\n\tdirectory = *\n",
		work + "/outside/a.txt": "outside\n",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	env.Setenv("HOME", home)
	env.Setenv("REPO", repo)
	// Seconds that nothing else on this machine sleeps: its processes are looked for by them.
	env.Setenv("NAP", fmt.Sprint(time.Now().UnixNano()))
	env.Setenv("PATH", filepath.Join(bin, "scripts")+":"+bin+":"+os.Getenv("PATH"))
	env.Setenv("GOTOOLCHAIN", "local")
	env.Setenv("GOFLAGS", "-mod=mod")
	env.Setenv("BUILT", built)
	for _, name := range []string{"SANDBOXD_SOCKET", "SANDBOXD_OPERATOR_SOCKET"} {
		env.Setenv(name, filepath.Join(work, "run", strings.ToLower(name)+".sock"))
	}
	env.Setenv("SANDBOXD_STATE_DIR", filepath.Join(work, "state"))
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(work, "config"))
	if err := os.Mkdir(filepath.Join(work, "run"), 0o700); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main", "--template="}, {"add", "."}, {"commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", append([]string{"-C", repo}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	env.Values[daemonKey{}] = new(*exec.Cmd)
	env.Defer(func() {
		if d := *env.Values[daemonKey{}].(**exec.Cmd); d != nil {
			d.Process.Kill()
			d.Wait()
		}
	})
	return nil
}

// daemon starts sandboxd serve over $REPO and waits until it answers; its log is
// $WORK/log. With $ALLOWED it serves only what was allowed.
func daemon(ts *testscript.TestScript, neg bool, args []string) {
	slot := ts.Value(daemonKey{}).(**exec.Cmd)
	log, err := os.OpenFile(ts.MkAbs(ts.Getenv("WORK")+"/log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer log.Close()
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), append([]string{"serve"}, args...)...)
	cmd.Dir = ts.Getenv("REPO")
	cmd.Stdout, cmd.Stderr = log, log
	for _, name := range []string{
		"HOME", "PATH", "SANDBOXD_SOCKET", "SANDBOXD_OPERATOR_SOCKET", "SANDBOXD_STATE_DIR",
		"SANDBOXD_CONFIG", "XDG_CONFIG_HOME", "GOTOOLCHAIN", "GOFLAGS", "GOCACHE", "SECRET_TOKEN",
	} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+strings.TrimPrefix(v, filepath.Join(bin, "scripts")+":"))
		}
	}
	conf, err := os.ReadFile(ts.Getenv("SANDBOXD_CONFIG"))
	if named := err == nil && strings.Contains(string(conf), "roots:"); !named && ts.Getenv("ALLOWED") == "" {
		cmd.Env = append(cmd.Env, "SANDBOXD_WORKSPACE_ROOTS="+ts.Getenv("REPO"))
	}
	ts.Check(cmd.Start())
	*slot = cmd
	probe := func() bool {
		out, err := exec.Command("curl", "-sf", "--unix-socket", ts.Getenv("SANDBOXD_SOCKET"),
			"http://x/healthz").Output()
		return err == nil && strings.Contains(string(out), "ok")
	}
	if !waitFor(probe) {
		text, _ := os.ReadFile(log.Name())
		ts.Fatalf("the daemon did not answer:\n%s", text)
	}
}

// killDaemon sends KILL, or with the argument "term" TERM, and waits for the end.
func killDaemon(ts *testscript.TestScript, neg bool, args []string) {
	slot := ts.Value(daemonKey{}).(**exec.Cmd)
	if *slot == nil {
		ts.Fatalf("no daemon runs")
	}
	sig := os.Kill
	if len(args) == 1 && args[0] == "term" {
		sig = syscall.SIGTERM
	}
	ts.Check((*slot).Process.Signal(sig))
	(*slot).Wait()
	*slot = nil
}

// signalDaemon sends a signal and does not wait.
func signalDaemon(sig os.Signal) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		ts.Check((*ts.Value(daemonKey{}).(**exec.Cmd)).Process.Signal(sig))
	}
}

// waitDaemon waits until the daemon has ended, with success unless negated.
func waitDaemon(ts *testscript.TestScript, neg bool, _ []string) {
	slot := ts.Value(daemonKey{}).(**exec.Cmd)
	err := (*slot).Wait()
	*slot = nil
	if (err != nil) != neg {
		ts.Fatalf("the daemon ended with %v", err)
	}
}

// eventual runs a command until its output holds the text: eventual TEXT CMD ARG…
func eventual(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventual TEXT CMD [ARG...]")
	}
	ok := waitFor(func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && strings.Contains(ts.ReadFile("stdout"), args[0])
	})
	if !ok {
		ts.Fatalf("%v never printed %q, last: %s", args[1:], args[0], ts.ReadFile("stdout"))
	}
}

// waitFor polls: the other side is another process, so there is nothing to wait on but its answer.
// It asks more seldom the longer it takes, since asking takes the processor from who is to answer.
func waitFor(ok func() bool) bool {
	pause := time.Millisecond
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(pause) {
		if ok() {
			return true
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
	return false
}

// TestDaemonsOfTestsHaveTheirTables: one that starts makes none, which package prebuilt is for.
func TestDaemonsOfTestsHaveTheirTables(t *testing.T) {
	d := newPlaces(t, "")
	state, err := os.ReadFile(filepath.Join(d.work, "state/state.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"hook_permissions", "decisions", "approval_questions", "callables"} {
		if !bytes.Contains(state, []byte("CREATE TABLE "+table+" ")) {
			t.Errorf("the database has no table %s", table)
		}
	}
}
