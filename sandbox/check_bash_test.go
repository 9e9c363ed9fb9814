package sandbox

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// vocabulary are the pieces of random scripts. Nothing in it names a path outside
// of the working directory.
var vocabulary = []string{
	"canary", "canary x", "can", "ary", "echo", "a", "b", "x", "$x", "${x}", "\"$x\"", "'", "\"", "\\", "\\\n", "\n", " ", " ", " ", "\t", ";", ";;", "&", "&&", "|", "||", "|&", "!", "(", ")", "{ ", "; }", "$(", ")", "`", "${x:-", "${x:=", "${x#", "${x//a/", "}", "$((", "))", "((", "[[ ", " ]]", "[ ", " ]", "<(", ">(", "<<A\n", "\nA\n", "<<'A'\n", "<<-A\n", "<<\\A\n", "<<\"A\"\n", "A", "<<<", ">f", "<f", "2>&1", ">&2", "&>f", "#", "# ", "$'", "\\'", "\\x63anary", "\\143anary", "$\"", "{a,b}", "{canary,x}", "{a..c}", "x=", "x=canary", "x=(", "x+=", "if ", "then ", "else ", "fi", "while ", "do ", "done", "for x in ", "case x in ", "x) ", "esac", "function f ", "f() ", "f", "eval ", "exec ", "command ", "builtin ", "env ", "xargs ", "sh -c ", "bash -c ", "bash", "trap ", " EXIT", "let ", "let x=1", "declare ", "local ", "export ", "read x", "set -- ", "\"$@\"", "$1", "shift", "time ", "coproc ", "test -v ", "a[$(canary)]", "'a[$(canary)]'", "printf -v ", "unset ", "@(a|", "+(", "?(", "~", "*", "?", "[a]", "=~ ", "== ", "-eq ", "${!x}", "${x@P}", "$0", "$?", "source ", ". ", "true", "false", ":", "cat", "timeout 1 ", "nice ", "find . -exec ", " {} \\;", " +", "sed 1e", "awk 'BEGIN{system(\"canary\")}'", "printf canary", "echo canary",
}

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

// TestGuardAgainstBash runs scripts in real bash with a canary program: whatever
// starts the canary must have been refused under deniedCommands [canary].
// SANDBOXD_FUZZ_SHELL is how many random scripts to try.
func TestGuardAgainstBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash on this machine")
	}
	count, seed := 150, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("SANDBOXD_FUZZ_SHELL")); err == nil {
		count, seed = n, uint64(time.Now().UnixNano())
	}
	if n, err := strconv.ParseUint(os.Getenv("SANDBOXD_FUZZ_SEED"), 10, 64); err == nil {
		seed = n
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	yard := newYard(t, bash)
	rules := NewRules(Settings{DeniedCommands: []string{"canary"}})

	seeds := bashSeeds(t)
	scripts := append([]string{}, parserDifferences...)
	for range count {
		scripts = append(scripts, randomScript(rnd, seeds))
	}
	ran, missed := 0, 0
	for _, script := range scripts {
		if strings.IndexByte(script, 0) >= 0 || strings.Contains(script, "/") {
			continue
		}
		if !yard.sings(t, script) {
			continue
		}
		ran++
		j := rules.JudgeCommand(script, yard.dir, yard.dir)
		if len(j.Reasons) > 0 && j.Reasons[0].Code == "internal" {
			t.Errorf("%q: %s", script, j.Reasons[0].Message)
		}
		// A program of an earlier script may have sung late: once more.
		if j.Verdict == Allow && yard.sings(t, script) {
			missed++
			t.Errorf("bash ran the canary and the guard allowed it (seed %d): %q", seed, script)
		}
	}
	t.Logf("seed %d: %d scripts, %d ran the canary, %d were missed", seed, len(scripts), ran, missed)
	if ran == 0 {
		t.Error("no script ran the canary: the test shows nothing")
	}
}

// bashSeeds are the attacks of the corpora with the canary in place of rm.
func bashSeeds(t *testing.T) []string {
	var out []string
	for _, name := range []string{"commands.jsonl", "guard.jsonl"} {
		for _, l := range readCorpus(t, name) {
			if l.Expect != "deny" || l.Profile != "" && l.Profile != "deny-rm" || len(l.Command) > 200 {
				continue
			}
			if !strings.Contains(l.Command, "rm") || strings.ContainsAny(l.Command, "/~") || strings.Contains(l.Command, "while ") || strings.Contains(l.Command, "until ") {
				continue
			}
			out = append(out, strings.ReplaceAll(l.Command, "rm", "canary"))
		}
	}
	return out
}

func randomScript(rnd *rand.Rand, seeds []string) string {
	var b strings.Builder
	if rnd.IntN(3) > 0 {
		// A mutation of an attack.
		s := seeds[rnd.IntN(len(seeds))]
		for range 1 + rnd.IntN(3) {
			at := rnd.IntN(len(s) + 1)
			switch rnd.IntN(4) {
			case 0: // cut
				end := min(len(s), at+1+rnd.IntN(3))
				s = s[:at] + s[end:]
			case 1: // splice another one in
				other := seeds[rnd.IntN(len(seeds))]
				s = s[:at] + other[:rnd.IntN(len(other)+1)] + s[at:]
			default:
				s = s[:at] + vocabulary[rnd.IntN(len(vocabulary))] + s[at:]
			}
		}
		return s
	}
	for range 2 + rnd.IntN(12) {
		b.WriteString(vocabulary[rnd.IntN(len(vocabulary))])
		if rnd.IntN(3) == 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// yard is where scripts run: an empty directory, a PATH with a few harmless
// programs and the canary.
type yard struct {
	bash, dir, bin, song string
}

func newYard(t *testing.T, bash string) *yard {
	t.Helper()
	root := t.TempDir()
	y := &yard{bash: bash, dir: filepath.Join(root, "work"), bin: filepath.Join(root, "bin"), song: filepath.Join(root, "song")}
	for _, d := range []string{y.dir, y.bin} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	canary := "#!" + bash + "\n: > " + y.song + "\n"
	if err := os.WriteFile(filepath.Join(y.bin, "canary"), []byte(canary), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bash", "sh", "cat", "env", "xargs", "nice", "timeout", "find", "sed", "awk", "tr", "sort", "true", "setsid", "nohup", "stdbuf", "base64", "tee"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(y.bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return y
}

// sings reports whether the canary ran.
func (y *yard) sings(t *testing.T, script string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	cmd := exec.CommandContext(ctx, y.bash, "--norc", "--noprofile", "-c", script)
	cmd.Dir = y.dir
	cmd.Env = []string{"PATH=" + y.bin, "HOME=" + y.dir, "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond
	_ = cmd.Run() // its status says nothing
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	_, err := os.Stat(y.song)
	_ = os.Remove(y.song)
	y.clean(t)
	return err == nil
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
