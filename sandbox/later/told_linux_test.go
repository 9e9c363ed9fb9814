package later

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/identity"
)

// asOwner runs f with the rights of an ordinary user, who owns the directories: root can read everything.
func asOwner(t *testing.T, f func(sh func(dir, script string)), dirs ...string) {
	t.Helper()
	sh := func(as *syscall.Credential) func(dir, script string) {
		return func(dir, script string) {
			t.Helper()
			cmd := exec.Command("bash", "-c", script)
			cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", script, err, out)
			}
		}
	}
	if os.Getuid() != 0 {
		f(sh(nil))
		return
	}
	const ordinary = 4242
	for _, dir := range dirs {
		if err := errors.Join(os.Chown(dir, ordinary, ordinary), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	id := identity.ID{UID: ordinary, GID: ordinary}
	as := &syscall.Credential{Uid: ordinary, Gid: ordinary}
	if err := id.Do(func() error { f(sh(as)); return nil }); err != nil {
		t.Fatal(err)
	}
}

// TestWhatACallIsTold: each act has a line of its own, and the layer says whether the file was moved away.
func TestWhatACallIsTold(t *testing.T) {
	const opts = ".git/sequencer/opts"
	for _, tt := range []struct {
		name         string
		before, call string
		told, never  string
	}{
		{
			"a .git file that cannot be read", "mkdir sub", "echo 'gitdir: ../x' > sub/.git; chmod 0 sub/.git",
			"denied_path_created create WS/sub/.git, which cannot be read; it was moved to quarantine", "protected",
		},
		{
			"a directory that cannot be read", "true", "mkdir sub; chmod 0 sub",
			"protected_path_created make WS/sub, in which nobody can see what runs later\n", "denied",
		},
		{
			"another file in the place of a link", "echo > rc; ln -s rc .envrc", "echo evil > e; mv e .envrc",
			"denied_path_created put another file in the place of WS/.envrc, a link to rc; it was moved", "protected",
		},
		{
			"a directory that is moved to where nobody looks", "mkdir -p a node_modules; echo > a/.envrc",
			"mv a node_modules/a",
			"protected_path_created move away the directory of WS/a/.envrc\n", "denied",
		},
		{
			"a kept file that is moved", "mkdir a; echo > a/.envrc", "mv a b",
			"protected_path_created move WS/a/.envrc to WS/b/.envrc\n", "denied",
		},
		{
			"a change of a pointer that a call made", "mkdir w",
			"echo 'gitdir: ../x' > w/.git; LOOK; echo 'gitdir: ../y' > w/.git",
			"protected_path_created change WS/w/.git\n", "denied",
		},
		{
			"a strategy that is a program", "mkdir -p .git/rebase-merge; echo ort > .git/rebase-merge/strategy",
			"echo evil >> .git/rebase-merge/strategy",
			"denied_path_created create WS/.git/rebase-merge/strategy, from which git would run a program outside " +
				"the sandbox (evil); it was moved", "ort",
		},
		{
			"a strategy of git's", "mkdir -p .git/rebase-merge",
			"echo octopus > .git/rebase-merge/strategy", "", "denied",
		},
		{
			"a cherry-pick with a strategy that is a program", "mkdir -p .git/sequencer",
			"printf '[options]\\n\\tstrategy = ours\\n\\tstrategy = evil\\n' > " + opts,
			"denied_path_created create WS/" + opts + ", from which git would run a program outside the " +
				"sandbox (evil); it was moved", "ours",
		},
		{
			"a cherry-pick with a strategy of git's", "mkdir -p .git/sequencer",
			"printf '[options]\\n\\tstrategy = ours\\n' > " + opts, "", "denied",
		},
		{
			"a cherry-pick that git cannot read", "mkdir -p .git/sequencer", "printf '[options\\n' > " + opts,
			"(a file that cannot be read); it was moved", "protected",
		},
		{
			"a cherry-pick that nobody can read", "mkdir -p .git/sequencer", "echo > " + opts + "; chmod 0 " + opts,
			"(a file that cannot be read); it was moved", "protected",
		},
		{
			"a rebase that nobody can read", "mkdir -p .git/rebase-merge",
			"echo > .git/rebase-merge/strategy; chmod 0 .git/rebase-merge/strategy",
			"(a file that cannot be read); it was moved", "protected",
		},
		{
			"more text of a program than fits", "mkdir -p .git/rebase-merge",
			"printf %0300d 1 > .git/rebase-merge/strategy", "(" + strings.Repeat("0", 200) + "…)", "protected",
		},
		{
			"more than 32 files", "true",
			"for i in $(seq 10 49); do mkdir $i; echo > $i/.envrc; done; mkdir -p .git; echo > .git/what",
			"protected_path_created create 9 more files that decide what runs\n", "WS/49/",
		},
		{
			"more than 32 files, of which one was moved away", "true",
			"for i in $(seq 10 49); do mkdir $i; echo > $i/.envrc; done; mkdir -p zz/.git; echo > zz/.git/what",
			"denied_path_created create WS/zz/.git/what, which is no file of git's; it was moved", "WS/49/",
		},
		{
			"a configuration with a section on two lines", "mkdir .git", "printf '[core\\n]\\n' > .git/config",
			"denied_path_created create WS/.git/config, from which git would run a program", "protected",
		},
		{
			"a configuration with a subsection on two lines", "mkdir .git",
			"printf '[core \"x\\ny\"]\\n' > .git/config",
			"denied_path_created create WS/.git/config, from which git would run a program", "protected",
		},
		{
			"a directory of hooks that can be entered and not listed", "mkdir .git",
			"mkdir .git/hooks; echo > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; chmod 311 .git/hooks",
			"denied_path_created create WS/.git/hooks, from which git would run a program outside the sandbox; " +
				"it was moved", "protected",
		},
		{
			"hooks of a pointer that cannot be listed", "true",
			"mkdir -p evil/hooks; echo ref > evil/HEAD; chmod 311 evil/hooks; echo 'gitdir: evil' > .git",
			"denied_path_created create WS/evil/hooks, from which git would run a program outside the sandbox; " +
				"it was moved", "",
		},
		{
			"a common directory of a repository that cannot be listed", "mkdir .git evil; echo ref > .git/HEAD",
			"echo ../evil > .git/commondir; chmod 311 .git",
			"denied_path_created create WS/.git/commondir, from which git would run a program outside the sandbox " +
				"(commondir WS/evil); it was moved", "",
		},
		{
			"a repository in a directory that cannot be listed", "true",
			"mkdir -p sub/.git; printf '[alias]\\n\\tst = !x\\n' > sub/.git/config; chmod 311 sub",
			"denied_path_created create WS/sub/.git/config, from which git would run a program outside the sandbox; " +
				"it was moved", "",
		},
		{
			"a person's repository that cannot be listed any more",
			"mkdir -p .git/hooks; echo ref > .git/HEAD; printf '[alias]\\n\\tst = !x\\n' > .git/config",
			"chmod 311 .git", "", "denied",
		},
		{
			"a pointer to a directory whose worktrees have one of their own", "mkdir -p gd/worktrees/w",
			"echo ref > gd/HEAD; printf '[alias]\\n\\tst = !x\\n' > gd/worktrees/w/config.worktree; " +
				"echo 'gitdir: gd' > .git",
			"denied_path_created create WS/gd/worktrees/w/config.worktree, from which git would run a program", "",
		},
		{
			"a link that leads to itself", "true", "ln -s .envrc .envrc",
			"protected_path_created create WS/.envrc\n", "denied",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, x *Index) {
				ws, quarantine := t.TempDir(), t.TempDir()
				asOwner(t, func(sh func(dir, script string)) {
					sh(ws, tt.before)
					trees := x.Trees([]string{ws})
					before, began := trees.State(), time.Now()
					first, rest, twice := strings.Cut(tt.call, "; LOOK; ")
					sh(ws, first)
					if twice {
						trees.Quarantine(before, began, quarantine)
						before = trees.State()
						sh(ws, rest)
					}
					told := acts(trees.Quarantine(before, began, quarantine))
					want, never := strings.ReplaceAll(tt.told, "WS", ws), strings.ReplaceAll(tt.never, "WS", ws)
					if !strings.Contains(told, want) || never != "" && strings.Contains(told, never) {
						t.Errorf("told:\n%swant %s\nnever %s", told, want, never)
					}
					if n := strings.Count(told, "\n"); n > maxCreated+1 {
						t.Errorf("%d acts", n)
					}
				}, ws, quarantine)
			})
		})
	}
}

// TestWhatCannotBePromised: whoever reads the state hears of what is too much to be known or kept.
func TestWhatCannotBePromised(t *testing.T) {
	const most = maxFollowed + 1
	many := func(ws, format string) {
		for i := range most {
			plant(t, ws, fmt.Sprintf(format, i), "")
		}
	}
	for _, tt := range []struct {
		name  string
		plant func(ws string)
		want  string
	}{
		{"little", func(ws string) { plant(t, ws, ".envrc", "", ".git/hooks/x", "", ".git/config", "") }, ""},
		{
			"more files than a sandbox has mounts for", func(ws string) { many(ws, "d%d/.envrc") },
			"later: of 4097 files of WS that other programs obey, 1 are not read-only",
		},
		{
			"a configuration that is too large to be read",
			func(ws string) { plant(t, ws, ".git/config", strings.Repeat("#\n", maxGitConfig/2+1)) },
			"later: WS has more files that other programs obey than can be known; those that came last are not kept",
		},
		{
			"a directory of hooks that is too large to look for links", func(ws string) { many(ws, ".git/hooks/%d") },
			"later: WS has more files that other programs obey than can be known; those that came last are not kept",
		},
		{
			"more includes than are followed", func(ws string) {
				var text strings.Builder
				for i := range most {
					fmt.Fprintf(&text, "[include]path=../x%d\n", i)
				}
				plant(t, ws, ".git/config", text.String())
			},
			"later: WS has more files that other programs obey than can be known; those that came last are not kept",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws := t.TempDir()
			if dir, err := os.MkdirTemp("/dev/shm", "later-"); err == nil { // a disk makes thousands of files slowly
				ws = dir
				t.Cleanup(func() { os.RemoveAll(ws) })
			}
			tt.plant(ws)
			got := strings.Join(newIndex(t, true).Trees([]string{ws}).State().Missing, "\n")
			if want := strings.ReplaceAll(tt.want, "WS", ws); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestX39_FileToolsKeepWhatOthersLeadTo: also what does not exist yet, and what lies below a directory.
func TestX39_FileToolsKeepWhatOthersLeadTo(t *testing.T) {
	ws := t.TempDir()
	plant(t, ws, ".git/config", "[include]\n\tpath = ../x/file\n[core]\n\thooksPath = h\n",
		"x/file", "", "h/a", "", "y/z", "")
	if err := os.Symlink("later/rc", ws+"/.envrc"); err != nil {
		t.Fatal(err)
	}
	trees := newIndex(t, true).Trees([]string{ws})
	for path, want := range map[string]bool{
		"x/file": true, "h": true, "h/a": true, "h/new": true, "later/rc": true, ".envrc": true, "sub/.envrc": true,
		"x": false, "x/other": false, "y/z": false, "later/other": false, "../x/file": false,
	} {
		if got := trees.Keeps(filepath.Join(ws, path)); got != want {
			t.Errorf("%s: kept %v, want %v", path, got, want)
		}
	}
}
