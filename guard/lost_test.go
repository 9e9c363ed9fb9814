package guard

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/shellparse"
)

// work is a repository with clean.go as it was added, changed.go that has changed since, staged.go whose change was
// added, and new.go, which git does not know. empty.go is empty, and link leads to new.go.
func work(t *testing.T) string {
	t.Helper()
	dir := tracking(t)
	for _, f := range []string{"clean.go", "changed.go", "staged.go", "sub/clean.go"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, f), "old "+f)
	}
	runGit(t, dir, "add", "clean.go", "changed.go", "staged.go", "sub/clean.go")
	write(t, filepath.Join(dir, "changed.go"), "new content")
	write(t, filepath.Join(dir, "staged.go"), "new content")
	runGit(t, dir, "add", "staged.go")
	write(t, filepath.Join(dir, "new.go"), "new")
	write(t, filepath.Join(dir, "sub/new.go"), "new")
	write(t, filepath.Join(dir, "empty.go"), "")
	if err := os.Symlink("new.go", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lostBy are the files that a line destroys, below the directory.
func lostBy(t *testing.T, r *Rules, line, dir string) string {
	t.Helper()
	s, err := shellparse.Parse(line, shellparse.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	u := r.ScriptUses(s, dir)
	var got []string
	for _, l := range u.Losses {
		if use := u.Paths[l.Use]; use.Op != Write {
			t.Errorf("%s: %s is lost by reading %s", line, l.Path, use.Path)
		}
		got = append(got, strings.TrimPrefix(l.Path, dir+"/"))
	}
	return strings.Join(got, " ")
}

func TestAFileIsLostWhereGitHasNoCopy(t *testing.T) {
	dir := work(t)
	if err := os.Link(filepath.Join(dir, "new.go"), filepath.Join(dir, "hard.go")); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"rm hard.go": "hard.go", "rm new.go hard.go": "hard.go new.go",
		"> new.go": "new.go", ": > changed.go": "changed.go", "echo x >| new.go": "new.go", "x &> new.go": "new.go",
		"> clean.go": "", "> staged.go": "", "> empty.go": "", "> missing.go": "", "> sub/clean.go": "",
		"> link": "new.go", "{ x; } > new.go": "new.go", "exec > new.go": "new.go", "cd sub && > new.go": "sub/new.go",
		"echo x >> new.go": "", "x 3<> new.go": "", "f=new.go; echo > $f": "new.go",
		"rm new.go": "new.go", "rm -rf new.go": "new.go", "rm link": "", "rm clean.go": "", "unlink changed.go": "changed.go",
		"shred new.go": "new.go", "truncate -s 0 link": "new.go", "fallocate -p -l 1 new.go": "new.go",
		"touch new.go": "", "chmod 600 new.go": "", "mkdir new.go": "", "git restore --staged new.go": "",
		"cp clean.go new.go": "new.go", "cp -n clean.go new.go": "", "cp -b clean.go new.go": "",
		"cp clean.go clean2.go": "", "cp /x/new.go sub": "sub/new.go", "cp -t sub /x/new.go": "sub/new.go",
		"install clean.go new.go": "new.go", "ln -sf clean.go new.go": "new.go", "ln -s clean.go new.go": "",
		"ln -sf clean.go link": "", "mv clean.go new.go": "new.go", "mv -f clean.go link": "", "mv new.go x.go": "",
		"mv new.go x.go && rm x.go": "new.go", "mv new.go /dev/null": "new.go", "git mv -f clean.go new.go": "new.go",
		"rsync clean.go new.go": "new.go", "rsync clean.go h:new.go": "", "scp h:x new.go": "new.go",
		"dd if=x of=new.go": "new.go", "dd if=x of=new.go oflag=append conv=notrunc": "", "dd if=x of=new.go oflag=append": "new.go", "echo x | tee new.go": "new.go",
		"mv -nf x new.go": "new.go", "mv -fn x new.go": "", "cp -ni x new.go": "new.go", "cp -b --backup=none x new.go": "new.go",
		"cp --backup=none -b x new.go": "new.go", "cp --backup=numbered x new.go": "", "install -obin x new.go": "new.go",
		"mv -Sb x new.go": "new.go", "git bundle create new.go HEAD": "new.go", "git bundle verify new.go": "",
		"echo x | tee -a new.go": "", "curl -o new.go x.example": "new.go", "gcc -o new.go a.c": "new.go",
		"tar cf new.go src": "new.go", "tar xf a.tar new.go": "new.go", "awk '{print > \"new.go\"}' a": "new.go",
		"awk '{print >> \"new.go\"}' a": "", "wget -a new.go x.example": "",
		"gzip new.go": "", "gzip new.go; rm new.go.gz": "new.go", "gzip -k new.go": "",
		"sed -i s/a/b/ new.go": "", "sed -i d new.go": "new.go", "sed -ni p new.go": "", "sed -ni '' new.go": "new.go",
		"sed -n -i 'p;d' new.go": "", "perl -pi -e 's/a/b/' new.go": "", "perl -pi -e '$_=\"\"' new.go": "new.go",
		"gawk -i inplace '{}' new.go": "new.go", "gawk -i inplace '{print}' new.go": "", "gofmt -w new.go": "",
		"ed -s new.go <<< $',d\\nw'":                    "new.go",
		"python3 -c 'open(\"new.go\", \"w\").write(x)'": "new.go", "python3 -c 'print(open(\"new.go\").read())'": "",
		"python3 -c 's = open(\"new.go\").read(); open(\"new.go\", \"w\").write(s)'": "",
		"python3 - <<< 'open(\"new.go\",\"w\").close()'":                             "new.go", "python3 -c 'open(\"new.go\", \"a\").write(x)'": "",
		"node -e 'fs.writeFileSync(\"new.go\", \"\")'": "new.go", "ruby -e 'File.write(\"new.go\", \"\")'": "new.go",
		"node -e 'fs.copyFileSync(\"clean.go\", \"new.go\")'": "new.go",
		"node -e 'fs.copyFileSync(\"new.go\", \"copy.go\")'":  "",
		"node -e 'fs.renameSync(\"clean.go\", \"new.go\")'":   "new.go",
		"node -e 'fs.rename(from, \"new.go\", () => {})'":     "new.go",
		"node -e 'fs.promises.copyFile(from, `new.go`)'":      "new.go",
		"perl -e 'open F, \">\", \"new.go\"'":                 "new.go", "perl -e 'open F, \">>\", \"new.go\"'": "",
		"php -r 'file_put_contents(\"new.go\", \"\");'": "new.go",
	} {
		if got := lostBy(t, nil, line, dir); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// New content that the line makes from the old one is an edit.
func TestAnEditLosesNothing(t *testing.T) {
	dir := work(t)
	for line, want := range map[string]string{
		"sort -o new.go new.go":                      "",
		"sort -o new.go clean.go":                    "new.go",
		"jq . new.go > tmp && mv tmp new.go":         "",
		"jq . clean.go > tmp && mv tmp new.go":       "new.go",
		"cat new.go | jq . > tmp; cat tmp > new.go":  "",
		"jq . new.go | sponge new.go":                "",
		"grep x new.go > new.go":                     "new.go",
		"cat new.go | tee new.go":                    "new.go",
		"cp new.go a; sed s/x/y/ a > b; mv b new.go": "",
	} {
		if got := lostBy(t, nil, line, dir); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// What cannot be looked at has no copy, and outside of a repository nothing has one.
func TestWhereNothingIsKnownAFileIsLost(t *testing.T) {
	plain, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(plain, "a"), "x")
	if got := lostBy(t, nil, "> a", plain); got != "a" {
		t.Errorf("outside of a repository: %q", got)
	}
	dir := work(t)
	r := NewRules(Settings{DeniedPaths: []string{filepath.Join(dir, "sub")}})
	if got := lostBy(t, r, "> sub/missing.go", dir); got != "sub/missing.go" {
		t.Errorf("in a closed place: %q", got)
	}
	r = NewRules(Settings{DeniedPaths: []string{filepath.Join(dir, ".git")}})
	if got := lostBy(t, r, "> clean.go", dir); got != "clean.go" {
		t.Errorf("with an index that is closed: %q", got)
	}
	write(t, filepath.Join(dir, ".git", "index"), "x")
	if got := lostBy(t, nil, "> clean.go", dir); got != "clean.go" {
		t.Errorf("with an index that cannot be read: %q", got)
	}
}

// Times alone are believed only where they are older than the index, and the content decides otherwise.
func TestAFileIsComparedByItsContent(t *testing.T) {
	dir := work(t)
	file := filepath.Join(dir, "clean.go")
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(file, future, future); err != nil {
		t.Fatal(err)
	}
	if got := lostBy(t, nil, "> clean.go", dir); got != "" {
		t.Errorf("touched: %q", got)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Repeat("x", int(info.Size())))
	if err := os.Chtimes(file, future, future); err != nil {
		t.Fatal(err)
	}
	if got := lostBy(t, nil, "> clean.go", dir); got != "clean.go" {
		t.Errorf("other content of the same size and time: %q", got)
	}
}

// A filter of git changes what it keeps, so that of such a file only times and size can tell.
func TestAFileThatAFilterChangesIsComparedByItsTimes(t *testing.T) {
	dir := work(t)
	file, past := filepath.Join(dir, "crlf.txt"), time.Now().Add(-time.Hour)
	put := func(text string) {
		write(t, file, text)
		if err := os.Chtimes(file, past, past); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, ".gitattributes"), "crlf.txt text eol=crlf\n")
	put("a\r\nb\r\n")
	runGit(t, dir, "add", "crlf.txt")
	if got := lostBy(t, nil, "> crlf.txt", dir); got != "" {
		t.Errorf("as it was added: %q", got)
	}
	put("x\r\ny\r\n")
	if got := lostBy(t, nil, "> crlf.txt", dir); got != "crlf.txt" {
		t.Errorf("changed, with the same size and time: %q", got)
	}
}

// A checkout of what git has loses nothing. It loses what has changed, what another repository or the line itself may put
// there, and what stands in the way of the files of the index.
func TestACheckoutOfWhatGitHasLosesNothing(t *testing.T) {
	dir := work(t)
	for _, f := range []string{"inway/a.go", "other/b.go"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, f), "old")
	}
	runGit(t, dir, "add", "inway", "other")
	for _, gone := range []string{"inway", "other/b.go"} {
		if err := os.RemoveAll(filepath.Join(dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "inway"), "a file where the index has a directory")
	if err := os.MkdirAll(filepath.Join(dir, "other/b.go"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "other/b.go/new"), "a directory where the index has a file")
	for line, want := range map[string]int{
		"git checkout -- clean.go": 0, "git checkout clean.go": 0, "git checkout ./clean.go": 0, "git restore clean.go": 0,
		"git checkout -- sub": 0, "git restore sub": 0, "git checkout -- clean.go staged.go": 0, "cd sub; git restore .": 0,
		"git -C sub checkout -- .": 0, "rm -f clean.go; git checkout clean.go": 0, "git checkout -- missing.go": 0,
		"git checkout -- changed.go": 1, "git restore clean.go changed.go": 1, "git checkout -- .": 1, "git restore .": 1,
		"git checkout -- new.go": 1, "git checkout HEAD -- clean.go": 1, "git checkout HEAD clean.go": 1,
		"git restore -s HEAD clean.go": 1, "git restore -SW clean.go": 1, "git checkout -- '*.go'": 1,
		"git checkout -- ':!x'": 1, "git -c core.worktree=x checkout -- clean.go": 1, "git --git-dir=x checkout -- clean.go": 1,
		"git --work-tree x restore clean.go": 1, "GIT_DIR=x git restore clean.go": 1, "export GIT_DIR=x; git restore clean.go": 1,
		"git checkout -- inway": 1, "git checkout -- inway/a.go": 1, "git checkout -- other": 1, "git checkout -- \"$F\"": 1,
		"git checkout clean.go staged.go": 0, "git checkout clean.go changed.go": 1, "git checkout main clean.go": 1,
		"mv new.go clean.go; git checkout -- clean.go": 1, "git stash pop; git checkout -- clean.go": 1,
	} {
		s, err := shellparse.Parse(line, shellparse.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if u := (*Rules)(nil).ScriptUses(s, dir); len(u.Discards) != want {
			t.Errorf("%s: %v, want %d", line, u.Discards, want)
		}
	}
}

// What an archive puts over files of which git has no copy is read in the archive.
func TestAnArchiveReplacesFiles(t *testing.T) {
	dir := work(t)
	for _, line := range [][]string{
		{"tar", "cf", "a.tar", "new.go", "clean.go"},
		{"tar", "czf", "a.tgz", "./changed.go"},
		{"tar", "cf", "sub.tar", "sub/new.go"},
		{"tar", "cf", "clean.tar", "clean.go", "sub/clean.go"},
	} {
		cmd := exec.Command(line[0], line[1:]...)
		if cmd.Dir = dir; cmd.Run() != nil {
			t.Fatalf("%v fails", line)
		}
	}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	if _, err := z.Create("new.go"); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.zip"), packed.String())
	// tar with new.go in it; Go writes no bzip2.
	const bz2 = "QlpoOTFBWSZTWUhbPfYAAC7bgMmAQAFPgAAQZoWegAgIIABUUAAABo0Ekp6hoHqGgA3EjX9FYzICOouIxvkIYG+hxOwidSJvp" +
		"hkiyzmJ3gZyoBAR8LCl+LuSKcKEgkLZ77A="
	squeezed, err := base64.StdEncoding.DecodeString(bz2)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.tbz"), string(squeezed))
	write(t, filepath.Join(dir, "no.tar"), "this is none")
	for line, want := range map[string]string{
		"tar xf a.tar": "new.go", "tar -xf a.tar -C .": "new.go", "tar --extract --file=a.tar": "new.go", "tar xzf a.tgz": "changed.go",
		"tar xjf a.tbz":  "new.go",
		"tar xf sub.tar": "sub/new.go", "tar xf sub.tar --strip-components=1": "new.go", "tar xf a.tar -C sub": "sub/new.go",
		"unzip -o a.zip": "new.go", "unzip -oq a.zip -d sub": "sub/new.go", "perl unzip -o a.zip": "new.go", "git archive HEAD | tar x": "changed.go",
		"git archive HEAD . | tar -x -C .": "changed.go", "tar xf clean.tar": "", "tar tf a.tar": "", "tar xf a.tar -C empty": "",
		"tar xkf a.tar": "", "tar xOf a.tar": "", "tar xf no.tar": "", "tar xf missing.tar": "", "unzip -n a.zip": "",
		"unzip -l a.zip": "", "git archive HEAD | tar x -C /tmp/out": "", "tar cf - . | tar x -C sub2": "",
	} {
		if got := lostBy(t, nil, line, dir); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// A small archive may hold names without end, and files that are long once they are unpacked.
func TestAnArchiveThatIsTooLongReplacesAnything(t *testing.T) {
	var packed bytes.Buffer
	g := gzip.NewWriter(&packed)
	w := tar.NewWriter(g)
	if err := w.WriteHeader(&tar.Header{Name: "a", Size: 32<<20 + 1, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, io.LimitReader(zeroes{}, 32<<20+1)); err != nil || w.Close() != nil || g.Close() != nil {
		t.Fatal(err)
	}
	if _, err := namesIn(packed.Bytes()); !errors.Is(err, errLong) {
		t.Errorf("%v", err)
	}
	dir := work(t)
	write(t, filepath.Join(dir, "a.tgz"), packed.String())
	if got := lostBy(t, nil, "tar xf a.tgz", dir); got != "changed.go" {
		t.Errorf("%q is lost", got)
	}

	const most = 4096 // guard.md says so
	for names, want := range map[int]error{most: nil, most + 1: errLong} {
		var zipped, tarred bytes.Buffer
		z, w := zip.NewWriter(&zipped), tar.NewWriter(&tarred)
		for i := range names {
			name := strconv.Itoa(i)
			_, err := z.Create(name)
			if err := errors.Join(err, w.WriteHeader(&tar.Header{Name: name})); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(z.Close(), w.Close()); err != nil {
			t.Fatal(err)
		}
		for kind, archive := range map[string][]byte{"zip": zipped.Bytes(), "tar": tarred.Bytes()} {
			if got, err := namesIn(archive); len(got) != most || !errors.Is(err, want) {
				t.Errorf("%s of %d: %d names, %v, want %d and %v", kind, names, len(got), err, most, want)
			}
		}
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }
