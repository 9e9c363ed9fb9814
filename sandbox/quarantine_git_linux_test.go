package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX39_GitRunsNothingThatACallLeft makes repositories in which git would run a
// program outside, and asks git on the host afterwards.
func TestX39_GitRunsNothingThatACallLeft(t *testing.T) {
	needs.Program(t, "git")
	for _, tt := range []struct {
		name, script string
		repository   bool // there before the call
		taken        string
	}{
		{"another common directory", `cp -r .git evil; printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch MARK;false\n' > evil/config; echo ../evil > .git/commondir`, true, ".git/commondir"},
		{"a configuration of the worktree", `printf '[core]\n\tfsmonitor = touch MARK;false\n' > .git/config.worktree`, true, ".git/config.worktree"},
		{"a new repository", `git init -q . && git config core.fsmonitor 'touch MARK;false'`, false, ".git/config"},
		{"a new repository below", `git init -q sub && git -C sub config core.fsmonitor 'touch MARK;false'`, true, "sub/.git/config"},
		{"a hook of a new repository", `git init -q . && printf '#!/bin/sh\ntouch MARK\n' > .git/hooks/post-index-change && chmod +x .git/hooks/post-index-change`, false, ".git/hooks"},
		{"a pointer to a repository by its side", `git init -q --bare evil; git -C evil config core.bare false; git -C evil config core.fsmonitor 'touch MARK;false'; mkdir sub; echo 'gitdir: ../evil' > sub/.git`, false, "evil/config"},
		{"a link to a repository by its side", `git init -q r; git -C r config core.fsmonitor 'touch MARK;false'; mv r/.git evil; ln -s evil .git`, false, "evil/config"},
		{"a repository without a worktree", `git init -q --bare r; mv r/* .; git config -f config core.worktree "$PWD"; git config -f config core.fsmonitor 'touch MARK;false'; git config -f config core.bare false`, false, "config"},
		{"a directory in the place of a link to one", `cp -r .git copy; rm -r .git 2>/dev/null; rm linked/.git; mv copy linked/.git; git -C linked config core.fsmonitor 'touch MARK;false'`, true, "linked/.git/config"},
		{"a submodule whose files are elsewhere", `git init -q --bare .git/modules/a/b && git -C .git/modules/a/b config core.worktree /`, true, ".git/modules/a/b/config"},
		{"a key on the line of its section", `git init -q . && echo '[core] fsmonitor = touch MARK;false' >> .git/config`, false, ".git/config"},
		{"a pointer whose path ends in a blank", `mkdir -p sub com/objects com/refs/heads "gd "; echo 'ref: refs/heads/m' > "gd "/HEAD; echo ../com > "gd "/commondir; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = touch MARK;false\n' > com/config; printf 'gitdir: ../gd ' > sub/.git`, false, "com/config"},
		{"a pointer whose path has a line break", `mkdir -p sub com/objects com/refs/heads "$(printf 'gd\nx')"; echo 'ref: refs/heads/m' > "$(printf 'gd\nx')"/HEAD; echo ../com > "$(printf 'gd\nx')"/commondir; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = touch MARK;false\n' > com/config; printf 'gitdir: ../gd\nx' > sub/.git`, false, "com/config"},
		{"a long pointer", `mkdir -p sub com/objects com/refs/heads gd; echo 'ref: refs/heads/m' > gd/HEAD; echo ../com > gd/commondir; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = touch MARK;false\n' > com/config; (printf 'gitdir: ../gd'; head -c 9000 /dev/zero | tr '\0' '\n') > sub/.git`, false, "com/config"},
		{"a bracket in the name of a driver", `git init -q . && git config user.name a && git config user.email a@b.c && echo 1 > f.c && git add f.c && git commit -qm x && echo 2 > f.c; printf '[diff "]renames=x"]command=touch MARK;false\n' >> .git/config; echo '*.c diff=]renames=x' > .gitattributes`, false, ".git/config"},
		{"a repository in two directories", `git init -q r; mkdir com sub; mv r/.git/objects r/.git/refs com; mv r/.git/HEAD sub; rm -r r; echo ../com > sub/commondir; printf '[core]\n\trepositoryformatversion = 0\n[alias]\n\tdiff = !x\n[diff]\n\texternal = touch MARK;false\n' > com/config`, false, "com/config"},
		{"a repository named node_modules", `git init -q node_modules && git -C node_modules config core.fsmonitor 'touch MARK;false'`, false, "node_modules/.git/config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cage := newCage(t, Options{})
			needCage(t, cage)
			ws := shortTemp(t)
			mark := filepath.Join(shortTemp(t), "ran")
			if tt.repository {
				gitIn(t, ws, "init", "-q", ".")
				gitIn(t, ws, "commit", "-q", "--allow-empty", "-m", "x")
				if err := errors.Join(os.Mkdir(ws+"/linked", 0o755), os.Symlink("../.git",
					ws+"/linked/.git")); err != nil {
					t.Fatal(err)
				}
			}
			box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil))
			e, out := runIn(t, box, ws, "sh", "-c", strings.ReplaceAll(tt.script, "MARK", mark))
			taken := ""
			for _, d := range e.Denials {
				if d.Layer == "denied_path_created" {
					taken += d.Act + "\n"
				}
			}
			if !strings.Contains(taken, "create "+filepath.Join(ws, tt.taken)) {
				t.Errorf("exit %d, %q; taken away: %q, want %s", e.Code, out, taken, tt.taken)
			}
			for _, dir := range []string{"", "sub", "linked", "node_modules"} {
				for _, act := range []string{"status", "diff"} {
					cmd := exec.Command("git", "-c", "safe.directory=*", act)
					cmd.Dir = filepath.Join(ws, dir)
					_ = cmd.Run() // what is left may be no repository
				}
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("git ran it on the host")
			}
		})
	}
}

// TestX39_OrdinaryGitIsLeftAlone does what developers do; nothing is taken away,
// and what is new is named.
func TestX39_OrdinaryGitIsLeftAlone(t *testing.T) {
	needs.Program(t, "git")
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil))
	for _, script := range []string{
		"git init -q . && git config user.name a && git config user.email a@b.c && git commit -q --allow-empty -m x",
		"git clone -q . copy && git -C copy log --oneline",
		"git worktree add -q tree && git -C tree status --short",
		"git init -q super && cd super && git -c protocol.file.allow=always submodule add -q ../copy libs/copy && git submodule status",
		"git checkout -q -b topic && git commit -q --allow-empty -m y && git status --short",
		"echo 1 > f && git add f && git commit -q -m f && git switch -q -c left && echo 2 > f && git commit -q -am left && git switch -q topic && echo 3 > f && git commit -q -am right",
		"! git merge left && git merge --abort && ! git rebase left && echo 4 > f && git add f && GIT_EDITOR=true git rebase --continue",
		"! git cherry-pick left~1..left && git cherry-pick --abort || git cherry-pick --quit; git reset -q --hard",
		"echo 5 > f && git stash -q && git stash pop -q && git checkout -q f && git notes add -m n && git tag -a t -m t && git gc -q",
		"git bisect start -q HEAD HEAD~2 && git bisect run true; git bisect reset -q; GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~1",
		"git format-patch -q -1 && git reset -q --hard HEAD~1 && git am -q 0001-*.patch && git fsck && git repack -qad && git reflog",
		"git worktree add -q w2 && git worktree remove w2 && git worktree prune",
	} {
		e, out := runIn(t, box, ws, "sh", "-c", script)
		if e.Code != 0 {
			t.Errorf("%s: exit %d, %s", script, e.Code, out)
		}
		for _, d := range e.Denials {
			// Who has no user.email is asked for by the name of the machine.
			if d.Layer != "protected_path_created" && !strings.HasPrefix(d.Act, "connect ") {
				t.Errorf("%s: %+v", script, d)
			}
		}
		if strings.HasPrefix(script, "git init") && len(e.Denials) == 0 {
			t.Error("a new repository is not named")
		}
	}
}

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{
		"-c", "user.name=a", "-c", "user.email=a@b.c", "-c",
		"init.defaultBranch=main",
	}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// TestX03_QuarantineInAnotherFileSystem: what cannot be moved into the private directory
// of the session loses its name where it is.
func TestX03_QuarantineInAnotherFileSystem(t *testing.T) {
	run, err := os.MkdirTemp("/dev/shm", "cage-")
	if err != nil {
		needs.Missing(t, "no other file system: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	cage := newCage(t, Options{Runtime: run})
	needCage(t, cage)
	ws := shortTemp(t)
	box := newBox(t, cage, "strict", guard.Settings{
		AllowedWritePaths: []string{ws},
		DeniedPaths:       []string{ws + "/.env", ws + "/conf/key"},
	})
	e, _ := runIn(t, box, ws, "sh", "-c", "mkdir -p .git/objects other; touch .env .git/HEAD other/key; printf '[alias]\n\tst = !x\n' > .git/config; ln -s other conf")
	if len(e.Denials) != 3 {
		t.Errorf("denials %+v", e.Denials)
	}
	for _, p := range []string{".env", "conf", ".git/config"} {
		if exists(filepath.Join(ws, p)) {
			t.Errorf("%s is still there", p)
		}
	}
	if !exists(ws + "/other/key") {
		t.Error("what a link of the program led to is gone")
	}
}

// TestX39_RepositoryOfAnotherCall: what one call makes is protected from those that
// begin later, of its own session while it still runs, and of another one.
func TestX39_RepositoryOfAnotherCall(t *testing.T) {
	needs.Program(t, "git")
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	s := guard.DefaultSettings(ws, "", nil)
	boxes := map[string]Box{}
	for _, session := range []string{"first", "second"} {
		box, err := cage.Box(t.Context(), session, "strict", s)
		if err != nil {
			t.Fatal(err)
		}
		boxes[session] = box
		if e, out := runIn(t, box, ws, "true"); e.Code != 0 { // a template is there
			t.Fatalf("exit %+v, %s", e, out)
		}
	}
	// start runs a script up to the word that it says, and then waits to be let go on.
	start := func(session, script string) (goOn func()) {
		t.Helper()
		inR, inW, err := os.Pipe()
		outR, outW, err2 := os.Pipe()
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		p, err := boxes[session].Start(t.Context(), Spec{
			Argv: []string{"sh", "-c", script}, Dir: ws, Stdin: inR,
			Stdout: outW,
		})
		if err != nil {
			t.Fatal(err)
		}
		inR.Close()
		outW.Close()
		if _, err := outR.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		outR.Close()
		return func() {
			t.Helper()
			inW.Close()
			if _, err := p.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const evil = "echo; read x; printf '[core]\\n\\tfsmonitor = x\\n' >> sub/.git/config"
	first := start("first", "git init -q sub; echo; read x")
	same, other := start("first", evil), start("second", evil)
	first()
	same()
	other()
	if text, err := os.ReadFile(ws + "/sub/.git/config"); err != nil || strings.Contains(string(text), "fsmonitor") {
		t.Error("another call has written the configuration")
	}
}
