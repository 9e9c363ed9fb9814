//go:build linux

package guard

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// parserDifferences are shapes that bash and the parser read differently; each
// run begins with them.
var parserDifferences = []string{
	"echo a\r# ; canary x",
	"echo a \\\r\ncanary x",
	"let a|canary x", "let a&canary x", "let a;canary x", "let a||canary x",
	"[[ x == @(a|$(canary x)) ]]",
	"echo a >& '$(canary x)'", "x='$(canary x)'; echo a >& \"$x\"", "echo a >& 'b[$(canary)]'",
	"echo \"${u:-'$(canary x)'}\"",
	"cat <<A\n\\\nA\ncanary x\nA",
	"cat <<A\nx\n$?A\ncat <<'B'\nA\ncanary x\nB\n",
	"coproc bash <<< 'canary x'",
	"cat <<A\nx\\\nA\ncat <<'B'\nA\ncanary x\nB\n",
}

// TestGuardAgainstBash runs random scripts in real bash: of each program that bash starts, the guard must have refused the script when the
// program is denied. Bash is the second reader: what it starts is told by the programs
// themselves and, where there is none of that name, by command_not_found_handle, so
// that nothing has to be understood twice in here.
func TestGuardAgainstBash(t *testing.T) {
	bash := needs.Program(t, "bash")
	count := tier.Rounds(t, 500, 60_000)

	scripts := make(chan string)
	go func() {
		defer close(scripts)
		for _, s := range parserDifferences {
			scripts <- s
		}
		rnd, seeds := tier.Rand(t), bashSeeds(t)
		for n := 0; n < count; {
			if s := aScript(rnd, seeds); runnable(s) {
				scripts <- s
				n++
			}
		}
	}()
	var ran, starts, missed atomic.Int64
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		yard := newYard(t, bash)
		wg.Go(func() {
			for script := range scripts {
				started := yard.starts(t, script)
				if len(started) > 0 {
					ran.Add(1)
				}
				starts.Add(int64(len(started)))
				if unseen := yard.unseen(t, script, started); len(unseen) > 0 {
					missed.Add(1)
					t.Errorf("bash started %q and the guard did not see it: %q (from %q)", unseen,
						yard.shrink(t, script, unseen[0]), script)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d scripts, of which %d started %d programs; %d were missed", count+len(parserDifferences),
		ran.Load(), starts.Load(), missed.Load())
	if missed.Load() > 0 {
		t.Log("mend the guard, and add each script to testdata/differences.jsonl")
	}
	if ran.Load() < int64(count)/5 {
		t.Errorf("%d of %d scripts started a program: the test shows too little", ran.Load(), count)
	}
}

// runnable passes over what would leave the yard or end other processes.
func runnable(script string) bool {
	return !strings.ContainsAny(script, "/\x00") && !strings.Contains(script, "..") &&
		!strings.Contains(script, "-delete") && !strings.Contains(script, "kill")
}

// bashSeeds are the lines of the corpora, with the canary in place of rm.
func bashSeeds(t *testing.T) []string {
	var out []string
	for _, name := range []string{"commands.jsonl", "guard.jsonl", "differences.jsonl"} {
		for _, l := range readCorpus(t, name) {
			if len(l.Command) <= 200 && !strings.Contains(l.Command, "~") && runnable(l.Command) {
				out = append(out, strings.ReplaceAll(l.Command, "rm", "canary"))
			}
		}
	}
	return out
}

// yard is where scripts run: an empty directory, and a PATH with a few harmless
// programs that say that they were started.
type yard struct {
	bash, sh, env, dir, bin, log string
	apart                        *syscall.SysProcAttr // what ends with a script
	patience                     time.Duration        // how long a script may run
}

func newYard(t *testing.T, bash string) *yard {
	t.Helper()
	root := t.TempDir()
	y := &yard{
		bash: bash, dir: filepath.Join(root, "work"), bin: filepath.Join(root, "bin"),
		log: filepath.Join(root, "log"),
	}
	for _, d := range []string{y.dir, y.bin} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	y.sh, y.env = sh, env
	for _, name := range []string{"canary", "rm", "p1", "p2", "p3", "p4"} {
		y.install(t, name, "#!"+sh+"\necho "+name+" >> "+y.log+"\n")
	}
	for _, name := range []string{
		"bash", "sh", "cat", "env", "xargs", "nice", "timeout", "find", "sed", "awk", "tr",
		"sort", "nohup", "stdbuf", "base64", "tee",
	} {
		if path, err := exec.LookPath(name); err == nil {
			y.install(t, name, "#!"+sh+"\n"+notText+"echo "+name+" >> "+y.log+"\nexec "+path+" \"$@\"\n")
		}
	}
	y.patience = time.Minute // on a busy machine there are namespaces too
	// Where there are namespaces, all that a script has started ends with it.
	y.apart = &syscall.SysProcAttr{
		Setpgid: true, Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		Pdeathsig: syscall.SIGKILL, // some of them fork for ever: they end with a test that is killed
	}
	id := []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	y.apart.UidMappings, y.apart.GidMappings = id, []syscall.SysProcIDMap{{
		ContainerID: os.Getgid(),
		HostID:      os.Getgid(), Size: 1,
	}}
	if !y.sings(t, "canary", "canary") {
		y.apart = &syscall.SysProcAttr{Setpgid: true}
	}
	// One random script in a thousand does not end by itself, and none of the gate.
	y.patience = 10 * time.Second
	return y
}

// notText keeps a wrapper of a program, which is no text, from being read as one: only
// the sh that it names may run it.
const notText = `case $BASH_VERSION:$SHELLOPTS in :* | *posix*) ;; *) return 2>&-; exit ;; esac
`

func (y *yard) install(t *testing.T, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(y.bin, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// notFound makes bash tell of a program that is not there, a line for each.
func notFound(log string) string {
	return "BASH_FUNC_command_not_found_handle%%=() {  case $1 in *$'\\n'*) ;; *) echo \"$1\" >> " + log + ";; esac; }"
}

// awaitAll waits a little for what a script leaves running, which ends with it: a
// program in the background may not have told yet that it was started.
const awaitAll = `"$@"; PATH=$PATH:/bin:/usr/bin; n=0; ` +
	`while kill -0 -1 2>/dev/null && [ $n -lt 20 ]; do n=$((n+1)); sleep 0.005; done`

// starts runs a script and returns the programs that were started, found or not.
func (y *yard) starts(t *testing.T, script string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), y.patience)
	defer cancel()
	// Other shells drop such a name from the environment: env brings it back.
	words := []string{y.env, notFound(y.log), y.bash, "--norc", "--noprofile", "-c", script}
	if y.apart.Cloneflags != 0 {
		words = append([]string{y.sh, "-c", awaitAll, "init"}, words...)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = y.dir
	cmd.Env = []string{"PATH=" + y.bin, "HOME=" + y.dir, "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = y.apart
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond
	_ = cmd.Run() // its status says nothing
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	log, _ := os.ReadFile(y.log) // none: nothing was started
	_ = os.Remove(y.log)
	y.clean(t)
	names := strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" || strings.Contains(n, "/") })
}

// sings reports whether a script starts a program.
func (y *yard) sings(t *testing.T, script, program string) bool {
	t.Helper()
	return slices.Contains(y.starts(t, script), program)
}

// unseen are the programs of started that the guard allows the script to start
// although they are denied.
func (y *yard) unseen(t *testing.T, script string, started []string) []string {
	t.Helper()
	return slices.DeleteFunc(started, func(name string) bool {
		rules := NewRules(Settings{DeniedCommands: []string{name}})
		j := rules.JudgeCommand(script, y.dir, y.dir)
		if len(j.Reasons) > 0 && j.Reasons[0].Code == "internal" {
			t.Errorf("%q: %s", script, j.Reasons[0].Message)
		}
		// A program of an earlier script may have told late: once more.
		return j.Verdict != Allow || !y.sings(t, script, name)
	})
}

// shrink cuts a script down while bash still starts the program unseen.
func (y *yard) shrink(t *testing.T, script, program string) string {
	t.Helper()
	for size := len(script) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(script); {
			shorter := script[:at] + script[at+size:]
			if runnable(shorter) && len(y.unseen(t, shorter, []string{program})) > 0 {
				script = shorter
			} else {
				at += size
			}
		}
	}
	return script
}

// clean empties the working directory, so that scripts do not see each other.
func (y *yard) clean(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(y.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		_ = os.RemoveAll(filepath.Join(y.dir, e.Name()))
	}
}
