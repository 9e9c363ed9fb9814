package later

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// plant makes files, given as pairs of a path below ws and a text.
func plant(t *testing.T, ws string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(ws, files[i])
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(files[i+1]), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// keptBelow lists what is kept, by paths below ws.
func keptBelow(x *Index, ws string) []string {
	var out []string
	for _, k := range x.Trees([]string{ws}).State().Trees[0].Kept {
		out = append(out, strings.TrimPrefix(k.Path, ws+"/"))
	}
	return out
}

// TestX39_WhatAConfigurationNamesIsKept: includes, hooks and programs, however git's format
// writes them.
func TestX39_WhatAConfigurationNamesIsKept(t *testing.T) {
	for _, tt := range []struct{ name, config, kept string }{
		{"an include", "[include]\n\tpath = ../x/file\n", "x/file"},
		{"with a comment", "[include]\n\tpath = ../x/file # of the team\n", "x/file"},
		{"with a comment without a blank", "[include]path=../x/file;c\n", "x/file"},
		{"quoted in parts", "[include]\n\tpath = \"../x\"/file\n", "x/file"},
		{"on two lines", "[include]\n\tpath = ../x/\\\nfile\n", "x/file"},
		{"with CRLF and a BOM", "\ufeff[include]\r\npath = ../x/file\r\n", "x/file"},
		{"behind a bracket in quotes", "[a \"]\"]b\n[include]path=../x/file\n", "x/file"},
		{"of a condition", "[includeIf \"gitdir:**]x/\"]\n\tPATH = ../x/file\n", "x/file"},
		{"with white space inside", "[include]\n\tpath = ../x/a\tfile\n", "x/a\tfile"},
		{"the same for an older git", "[include]\n\tpath = ../x/a\tfile\n", "x/a file"},
		{"by the home of the owner", "[include]\n\tpath = ~/WS/x/file\n", "x/file"},
		{"by the home of somebody", "[include]\n\tpath = ~nobody-here/WS/x/file\n", "x/file"},
		{"through a link", "[include]\n\tpath = ../l/../file\n", "x/file"},
		{"nested", "[include]\n\tpath = ../x/more.cfg\n", "x/file"},
		{"nested in one of a condition", "[includeIf \"gitdir:**]x/\"]\n\tpath = ../x/more.cfg\n", "x/file"},
		{"a program of files elsewhere", "[core]\n\tworktree = ../x/deep\n\tfsmonitor = ./program.cfg\n", "x/deep/program.cfg"},
		{"hooks", "[core]\n\thooksPath = x ; ours\n", "x"},
		{"a link to a hook", "[core]\n\thooksPath = h\n", "z/y/file"},
		{"a link to what a hook may use", "[core]\n\thooksPath = h\n", "x/file"},
		{"hooks of an include", "[include]\n\tpath = ../x/hooks.cfg\n", "x/y"},
		{"a program", "[core]\n\tfsmonitor = ./x/file\n", "x/file"},
		{"a program of an include", "[include]\n\tpath = ../x/deep/program.cfg\n", "x/file"},
		{"a filter", "[filter \"a]b\"]\n\tclean = python3 -u x/file %f\n", "x/file"},
		{"a script without a slash", "[diff \"a\"]\n\ttextconv = sh file\n", "file"},
		{"a program in quotes", "[gpg]\n\tprogram = 'x/a file' -x\n", "x/a file"},
		{"a program with a blank", "[gpg]\n\tprogram = x/a file\n", "x/a file"},
		{"a command of a shell", "[credential]\n\thelper = \"!f() { cat; ./x/file; }; f\"\n", "x/file"},
		{"from the top", "[core]\n\teditor = $(git rev-parse --show-toplevel)/x/file\n", "x/file"},
		{"an alias", "[alias]\n\tst = !x/file\n", "x/file"},
		{"a key that is not known", "[new]\n\tkey = x/file\n", "x/file"},
		{"an alias of git", "[alias]\n\tst = log x/file\n", ""},
		{"a directory", "[core]\n\teditor = vi x/deep\n", ""},
		{"a key that runs nothing", "[user]\n\tname = x/file\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws, outer := filepath.Join(t.TempDir(), "ws"), []string{".git/config", ".git/HEAD"}
			plant(t, ws, ".git/HEAD", "ref: refs/heads/m\n", ".git/config",
				strings.ReplaceAll(tt.config, "WS", "ws"), "file", "", "x/file", "", "x/a file", "", "x/a\tfile", "",
				"x/y/hook", "", "x/more.cfg", "[include]\n\tpath = file\n", "x/hooks.cfg", "[core]hooksPath = x/y\n",
				"x/deep/program.cfg", "[core]fsmonitor = x/file\n", "z/y/file", "")
			for path, to := range map[string]string{
				"l": "x/deep", "h/pre-commit": "../z/y/file", "h/lib/common": "../../x/file",
			} {
				err := os.MkdirAll(filepath.Dir(filepath.Join(ws, path)), 0o755)
				if err = errors.Join(err, os.Symlink(to, filepath.Join(ws, path))); err != nil {
					t.Fatal(err)
				}
			}
			kept := keptBelow(newIndex(t, true), ws)
			if tt.kept != "" && !slices.Contains(kept, tt.kept) {
				t.Errorf("kept %q, want %s", kept, tt.kept)
			}
			if tt.kept == "" && slices.ContainsFunc(kept, func(p string) bool { return !slices.Contains(outer, p) }) {
				t.Errorf("kept %q", kept)
			}
		})
	}
}

// TestX39_AWordBehindAnInterpreterIsAProgram: it needs no slash.
func TestX39_AWordBehindAnInterpreterIsAProgram(t *testing.T) {
	for name := range strings.FieldsSeq(". source exec env sh bash dash zsh ksh fish python python2 python3 perl ruby node deno " +
		"bun php lua awk tclsh Rscript") {
		for _, line := range []string{name + " -x file", "!/usr/bin/" + name + " file"} {
			if got := programs(line); !slices.Contains(got, "file") {
				t.Errorf("%s: %q", line, got)
			}
		}
	}
	if got := programs("cat file"); len(got) != 0 {
		t.Errorf("a word behind another program: %q", got)
	}
}

// TestHalfOfTheWatchesOfTheUser is what the daemon takes at most.
func TestHalfOfTheWatchesOfTheUser(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		needs.Missing(t, "%v", err)
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if got := watchBudget(); err != nil || got != most/2 {
		t.Errorf("%d watches of %d, %v", got, most, err)
	}
}

// TestHome: the home of an owner and of an account by name.
func TestHome(t *testing.T) {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		needs.Missing(t, "this account has no entry: %v", err)
	}
	dir := t.TempDir()
	if got := home(dir, ""); got != u.HomeDir {
		t.Errorf("%q, want %q", got, u.HomeDir)
	}
	if got := home(dir, u.Username); got != u.HomeDir {
		t.Errorf("%q, want %q", got, u.HomeDir)
	}
	if got := home(dir, "nobody-here"); got != "" {
		t.Errorf("%q", got)
	}
}

// TestX39_ProgramsOfAWorktree: what the common configuration names is meant from each worktree.
func TestX39_ProgramsOfAWorktree(t *testing.T) {
	ws := t.TempDir()
	plant(t, ws, "r/.git/HEAD", "", "r/.git/config", "[core]\n\tfsmonitor = ./fsm\n\thooksPath = hk\n",
		"r/.git/worktrees/w/commondir", "../..\n", "r/.git/worktrees/w/HEAD", "", "w/.git",
		"gitdir: ../r/.git/worktrees/w\n", "w/fsm", "", "w/hk/a", "")
	kept := keptBelow(newIndex(t, true), ws)
	if !slices.Contains(kept, "w/fsm") || !slices.Contains(kept, "w/hk") {
		t.Errorf("kept %q", kept)
	}
}

// TestX39_PointersAsGitReadsThem: the end of a .git file is no white space to git.
func TestX39_PointersAsGitReadsThem(t *testing.T) {
	for text, want := range map[string]string{
		"gitdir: ../gd\n": "/sub/../gd", "gitdir: ../gd\r\n\n": "/sub/../gd", "gitdir: ../gd ": "/sub/../gd ",
		"gitdir: ../gd\u00a0": "/sub/../gd\u00a0", "gitdir: ../gd\nx\n": "/sub/../gd\nx", "gitdir: ../gd\x00x": "/sub/../gd",
		"gitdir: ../gd" + strings.Repeat("\n", 9000): "/sub/../gd", "gitdir:../gd": "", " gitdir: ../gd": "", "gitdir: \n": "",
	} {
		ws := t.TempDir()
		plant(t, ws, "sub/.git", text, "sub/text", text)
		got, known := pointed(ws+"/sub/.git", found{})
		if !known || strings.TrimPrefix(got, ws) != want {
			t.Errorf("%.40q: %q, %v, want %q", text, got, known, want)
		}
		// A link to such a file is one too.
		if err := os.Symlink("text", ws+"/sub/link"); err != nil {
			t.Fatal(err)
		}
		if got, _ := pointed(ws+"/sub/link", found{link: "text"}); strings.TrimPrefix(got, ws) != want {
			t.Errorf("a link to %.40q: %q, want %q", text, got, want)
		}
	}
}

// TestX39_WhatComesToExist: a call makes what a kept name leads to, with its directory.
func TestX39_WhatComesToExist(t *testing.T) {
	bothWays(t, func(t *testing.T, x *Index) {
		ws := t.TempDir()
		plant(t, ws, ".git/config", "[core]\n\tfsmonitor = ./tools/new/fsm\n\thooksPath = hk\n", "hk/README", "")
		err := errors.Join(os.Symlink("later/on/rc", ws+"/.envrc"), os.MkdirAll(ws+"/node_modules/a", 0o755),
			os.Symlink("../later/hook", ws+"/hk/pre-commit"))
		if err != nil {
			t.Fatal(err)
		}
		trees := x.Trees([]string{ws})
		before := trees.State()
		plant(t, ws, "later/on/rc", "evil", "later/hook", "evil", "tools/new/fsm", "evil", "node_modules/a/.envrc", "",
			"node_modules/.git/config", "[core]\n\tfsmonitor = evil\n", "old/config", "", ".git/unknown", "")
		told := acts(trees.Quarantine(before, time.Now(), t.TempDir()))
		for _, want := range []string{
			"protected_path_created create " + ws + "/later/on/rc\n",
			"protected_path_created create " + ws + "/later/hook\n",
			"protected_path_created create " + ws + "/tools/new/fsm\n",
			"denied_path_created create " + ws + "/node_modules/.git/config, from which",
			"denied_path_created create " + ws + "/.git/unknown, which is no file of git's",
		} {
			if !strings.Contains(told, want) {
				t.Errorf("told:\n%swant %s", told, want)
			}
		}
		if strings.Contains(told, "node_modules/a") {
			t.Errorf("told:\n%s", told)
		}
	})
}

// TestX39_ACommonDirectoryIsNotTaken: a call makes git look into an old directory of a
// person's. Taken away is what leads there.
func TestX39_ACommonDirectoryIsNotTaken(t *testing.T) {
	ws := t.TempDir()
	plant(t, ws, "com/config", "[alias]\n\tst = !x\n", "com/objects/x", "", "com/refs/x", "")
	trees := newIndex(t, true).Trees([]string{ws})
	before := trees.State()
	plant(t, ws, "gd/HEAD", "ref: refs/heads/m\n", "gd/commondir", "../com\n")
	told := acts(trees.Quarantine(before, time.Now().Add(time.Hour), t.TempDir()))
	if !exists(ws+"/com/config") || exists(ws+"/gd/commondir") {
		t.Errorf("told:\n%s", told)
	}
}
