package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/guard/obeyed"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// keptNames has one file for each name of the table that the sandbox keeps, in a directory
// of its own.
func keptNames() []string {
	var out []string
	for i, n := range obeyed.Names() {
		if n.Kept() {
			out = append(out, fmt.Sprintf("pkg/deep/%d/%s", i, strings.ReplaceAll(n.Name, "*", "x")))
		}
	}
	return out
}

// TestX39_WhatRunsLaterIsKept: no program and no file tool changes, removes, renames or
// links a file of any name of the table, at any depth.
func TestX39_WhatRunsLaterIsKept(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		bothLevels(t, func(t *testing.T, cage Backend) {
			ws := shortTemp(t)
			names := keptNames()
			for _, name := range names {
				writeTree(t, filepath.Join(ws, name))
			}
			was := contents(t, ws)
			box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil))
			const script = `while read f; do
	{ echo evil > "$f"; echo evil > "$f.new" && mv -f "$f.new" "$f"; rm -rf "$f"; mv "$f" "$f.moved"
	  ln "$f" "$f.link" && echo evil > "$f.link"; chmod 777 "$f"; } 2>&-
done < list; rm -f list; true`
			if err := os.WriteFile(ws+"/list", []byte(strings.Join(names, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if e, out := runIn(t, box, ws, "sh", "-c", script); e.Code != 0 {
				t.Fatalf("exit %d, %s", e.Code, out)
			}
			now := contents(t, ws)
			for path, text := range was {
				if now[path] != text {
					t.Errorf("%s was %q and is %q", path, text, now[path])
				}
			}
			for _, name := range names {
				use := guard.PathUse{Path: filepath.Join(ws, name), Op: guard.Write}
				if err := WriteFile(t.Context(), box, use, []byte("evil"), 0o644); !isProtected(err) {
					t.Errorf("a file tool writes %s: %v", name, err)
				}
			}
		})
	})
}

func isProtected(err error) bool {
	var refused *guard.Denied
	return errors.As(err, &refused) && refused.Refusals[0].Code == "path_protected"
}

// contents returns the text of every file below a directory, with its mode.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if info, err := d.Info(); err == nil {
			out[path] = info.Mode().String() + " " + string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestX39_WhatRunsLaterIsNamed: a file of any name of the table that a call makes is told,
// and is kept from the next call on. A file tool makes none.
func TestX39_WhatRunsLaterIsNamed(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	names := keptNames()
	for chunk := range slices.Chunk(names, 20) { // more than 32 are counted and not named
		ws := shortTemp(t)
		box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil))
		for _, name := range chunk {
			use := guard.PathUse{Path: filepath.Join(ws, name), Op: guard.Write}
			if err := WriteFile(t.Context(), box, use, []byte("evil"), 0o644); !isProtected(err) {
				t.Errorf("a file tool makes %s: %v", name, err)
			}
		}
		script := "mkdir -p"
		for _, name := range chunk {
			script += " '" + filepath.Dir(name) + "'"
		}
		for _, name := range chunk {
			script += "; echo first > '" + name + "'"
		}
		e, out := runIn(t, box, ws, "sh", "-c", script)
		acts := ""
		for _, d := range e.Denials {
			if d.Layer == "protected_path_created" {
				acts += d.Act + "\n"
			}
		}
		for _, name := range chunk {
			// The name of a directory is told once, for all that is in it.
			if !strings.Contains(acts, "create "+filepath.Join(ws, name)+"\n") {
				t.Errorf("%s is not told (%s):\n%s", name, out, acts)
			}
		}
		_, _ = runIn(t, box, ws, "sh", "-c", strings.ReplaceAll(script, "echo first", "echo second"))
		for path, text := range contents(t, ws) {
			if !strings.Contains(text, "first") {
				t.Errorf("%s has become %q", path, text)
			}
		}
	}
}

// TestX39_DirectoryAboveAKeptFile: a directory above may be moved. The file goes with it and
// cannot be written there, and what is put in its place is taken away.
func TestX39_DirectoryAboveAKeptFile(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	writeTree(t, ws+"/a/b/.envrc")
	was := contents(t, ws)[ws+"/a/b/.envrc"]
	box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil))
	e, out := runIn(t, box, ws, "sh", "-c",
		"mv a c && mkdir -p a/b && echo evil > a/b/.envrc; echo evil 2>&- > c/b/.envrc || echo refused")
	if out != "refused\n" || contents(t, ws)[ws+"/c/b/.envrc"] != was {
		t.Errorf("exit %+v, %s", e, out)
	}
	acts := fmt.Sprint(e.Denials)
	for _, want := range []string{
		"put another file in the place of " + ws + "/a/b/.envrc; it was moved to quarantine",
		"move " + ws + "/a/b/.envrc to " + ws + "/c/b/.envrc",
	} {
		if !strings.Contains(acts, want) {
			t.Errorf("%q is not in %s", want, acts)
		}
	}
	if exists(ws + "/a/b/.envrc") {
		t.Error("it is still there")
	}
	// Another session, with a root of its own, finds it where it is now.
	other, err := cage.Box(t.Context(), "other", "strict", guard.DefaultSettings(ws, "", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, out := runIn(t, other, ws, "sh", "-c", "echo evil 2>&- > c/b/.envrc || echo refused"); out != "refused\n" {
		t.Error(out)
	}
}

// TestX39_SeveralTrees: what appears in any of the writable trees is kept in calls that
// begin later, in all sessions.
func TestX39_SeveralTrees(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	one, two := shortTemp(t), shortTemp(t)
	s := guard.DefaultSettings(one, "", nil)
	s.AllowedWritePaths = append(s.AllowedWritePaths, two)
	boxes := []Box{newBox(t, cage, "strict", s)}
	other, err := cage.Box(t.Context(), "other", "strict", s)
	if err != nil {
		t.Fatal(err)
	}
	boxes = append(boxes, other)
	for i, dir := range []string{one, two, one, two} {
		for _, box := range boxes { // each has a root
			if e, out := runIn(t, box, one, "true"); e.Code != 0 {
				t.Fatalf("exit %+v, %s", e, out)
			}
		}
		path := fmt.Sprintf("%s/n%d/.envrc", dir, i)
		writeTree(t, path) // by a person
		for _, box := range boxes {
			if _, out := runIn(t, box, one, "sh", "-c", "echo evil 2>&- > "+path+" || echo refused"); out != "refused\n" {
				t.Errorf("%s: %s", path, out)
			}
		}
	}
}

// TestX39_RebaseRunsNothingThatACallLeft: a person is in the middle of a rebase, which the
// call gives a program to run.
func TestX39_RebaseRunsNothingThatACallLeft(t *testing.T) {
	needs.Program(t, "git")
	for _, tt := range []struct{ name, script string }{
		{"a line more", `echo 'exec touch MARK' >> .git/rebase-merge/git-rebase-todo`},
		{"the short form", `printf 'x touch MARK\n' > t && mv t .git/rebase-merge/git-rebase-todo`},
		{"a tab", `printf 'exec\ttouch MARK\n' > .git/rebase-merge/git-rebase-todo`},
		{"a strategy", `echo /../MARK > .git/rebase-merge/strategy`},
		{"another directory", `cp -r .git/rebase-merge m; echo 'exec touch MARK' >> m/git-rebase-todo; mv .git/rebase-merge old; mv m .git/rebase-merge`},
		{"a link", `echo 'exec touch MARK' > t; ln -sf ../../t .git/rebase-merge/git-rebase-todo`},
		{"a link to the directory", `cp -r .git/rebase-merge m; echo 'exec touch MARK' >> m/git-rebase-todo; mv .git/rebase-merge old; ln -s ../m .git/rebase-merge`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cage := newCage(t, Options{})
			needCage(t, cage)
			ws := shortTemp(t)
			mark := filepath.Join(shortTemp(t), "ran")
			gitIn(t, ws, "init", "-q", ".")
			for _, c := range []string{"one", "two", "three"} {
				gitIn(t, ws, "commit", "-q", "--allow-empty", "-m", c)
			}
			start := exec.Command("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c",
				"sequence.editor=sed -i 1s/^pick/edit/", "rebase", "-q", "-i", "HEAD~2")
			start.Dir = ws
			if out, err := start.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil))
			e, out := runIn(t, box, ws, "sh", "-c", strings.ReplaceAll(tt.script, "MARK", mark))
			if e.Code != 0 {
				t.Fatalf("exit %+v, %s", e, out)
			}
			if !slices.ContainsFunc(e.Denials, func(d Denial) bool { return d.Layer == "denied_path_created" }) {
				t.Errorf("denials %+v", e.Denials)
			}
			goOn := exec.Command("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "rebase", "--continue")
			goOn.Dir = ws
			text, _ := goOn.CombinedOutput() // there may be nothing to go on with
			if exists(mark) {
				t.Errorf("git ran it: %s", text)
			}
		})
	}
}

// TestX39_NothingIsMountedOnTheHost: without namespaces a mount would be the host's.
func TestX39_NothingIsMountedOnTheHost(t *testing.T) {
	cage := newCage(t, Options{NoNamespaces: true})
	needNoNamespaces(t, cage)
	ws := shortTemp(t)
	writeTree(t, ws+"/pkg/.envrc")
	box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil))
	for _, name := range []string{"sub", "other"} {
		if e, out := runIn(t, box, ws, "sh", "-c", "cat pkg/.envrc"); e.Code != 0 {
			t.Fatalf("exit %+v, %s", e, out)
		}
		writeTree(t, ws+"/"+name+"/.envrc")
	}
	if text, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(text), ws) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestX39_CallsAtOnce: calls make, move and remove directories of kept names while others
// begin and end. Nothing that was there is changed.
func TestX39_CallsAtOnce(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	for i := range 8 {
		writeTree(t, fmt.Sprintf("%s/d%d/sub/.envrc", ws, i))
	}
	was := contents(t, ws)
	errs := make(chan error, 4)
	for i := range cap(errs) {
		box, err := cage.Box(t.Context(), fmt.Sprint(i%2), "strict", guard.DefaultSettings(ws, "", nil))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for j := range 10 {
				name := fmt.Sprintf("n%d-%d", i, j)
				script := fmt.Sprintf("mkdir -p %s/x; echo new > %s/x/.envrc; mv %s m%s; for f in d*/sub/.envrc; do echo evil > $f; done",
					name, name, name, name)
				p, err := box.Start(context.Background(), Spec{Argv: []string{"sh", "-c", script}, Dir: ws})
				if err == nil {
					_, err = p.Wait()
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	now := contents(t, ws)
	for path, text := range was {
		if now[path] != text {
			t.Errorf("%s was %q and is %q", path, text, now[path])
		}
	}
}

// TestX39_WhatRunsLaterOfAnotherUser: calls of another uid than the daemon's keep the files
// that they could write, and what they make is told.
func TestX39_WhatRunsLaterOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		needs.Missing(t, "only root becomes another user")
	}
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	writeTree(t, ws+"/pkg/.envrc")
	was := contents(t, ws)[ws+"/pkg/.envrc"]
	for _, p := range []string{"", "/pkg", "/pkg/.envrc"} {
		if err := os.Chown(ws+p, 64101, 64101); err != nil {
			t.Fatal(err)
		}
	}
	box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil)).As(newUser(64101, 64101, nil))
	e, out := runIn(t, box, ws, "sh", "-c", "id -u; echo evil 2>&- > pkg/.envrc || echo refused; mkdir n && echo > n/.envrc")
	if out != "64101\nrefused\n" || contents(t, ws)[ws+"/pkg/.envrc"] != was ||
		!strings.Contains(fmt.Sprint(e.Denials), "create "+ws+"/n/.envrc") {
		t.Errorf("%q, denials %v", out, e.Denials)
	}
	use := guard.PathUse{Path: ws + "/pkg/.envrc", Op: guard.Write}
	if err := WriteFile(t.Context(), box, use, []byte("evil"), 0o644); !isProtected(err) {
		t.Error(err)
	}
}

// TestX39_MadeAnewWithTheSameInode: a file system may give a new file the inode of one that
// was just removed. The mount that kept the old one is gone with it.
func TestX39_MadeAnewWithTheSameInode(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage, "landlock")
	makes := map[string]func(string) error{
		"directory": func(p string) error { return os.Mkdir(p, 0o755) },
		"file":      func(p string) error { return os.WriteFile(p, nil, 0o644) },
	}
	for what, name := range map[string]string{"directory": ".vscode", "file": ".envrc"} {
		t.Run(what, func(t *testing.T) {
			ws, err := os.MkdirTemp("/var/tmp", "cage-") // on a disk: in memory no number is given twice
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(ws) })
			path := filepath.Join(ws, name)
			if err := makes[what](path); err != nil {
				t.Fatal(err)
			}
			box := newBox(t, cage, "strict", guard.DefaultSettings(ws, "", nil))
			again := false
			for try := 0; try < 20 || !again && try < 2000; try++ { // others may take the number meanwhile
				if e, out := runIn(t, box, ws, "mv", name, "moved"); e.Code == 0 {
					t.Fatalf("%s was moved: %s", name, out)
				}
				was, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if err := makes[what](path); err != nil {
					t.Fatal(err)
				}
				is, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				again = again || os.SameFile(was, is)
			}
			if e, out := runIn(t, box, ws, "mv", name, "moved"); e.Code == 0 {
				t.Fatalf("%s was moved: %s", name, out)
			}
			if !again {
				needs.Elsewhere(t, "no inode of %s was given again in 2000 tries", ws)
			}
		})
	}
}
