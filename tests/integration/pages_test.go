package integration

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/pgtest"
)

// TestThePagesRun runs every console block of README and docs: in order, each page with a
// repository and a daemon of its own. In the expected output … is any text, on a line of
// its own any lines, and a number any number. Ids may differ from those of the page, but
// the same id means the same thing on the whole page. A command goes on in lines that begin
// with "> ", as in a shell. One that says that it waits goes on beside the next; what the page
// shows below that has come when the page ends.
func TestThePagesRun(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps := stepsOf(string(text))
		if len(steps) == 0 {
			continue
		}
		pages++
		t.Run(filepath.Base(file), func(t *testing.T) {
			p := newPage(t, filepath.Base(file))
			for _, s := range steps {
				p.step(s)
			}
			for _, end := range p.ends {
				end()
			}
		})
	}
	if pages < 4 {
		t.Errorf("%d pages have console blocks, want 4: the pattern does not find them", pages)
	}
}

// step is one command of a page with the output that it shows.
type step struct{ command, want string }

var console = regexp.MustCompile("(?s)\n```console\n(.*?)\n```")

func stepsOf(page string) (steps []step) {
	for _, block := range console.FindAllStringSubmatch(page, -1) {
		for _, s := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(s, "\n")
			for strings.HasSuffix(command, "\\") {
				var more string
				more, want, _ = strings.Cut(want, "\n")
				command += "\n" + more
			}
			for strings.HasPrefix(want, "> ") || strings.HasPrefix(want, ">\n") {
				var more string
				more, want, _ = strings.Cut(want, "\n")
				command += "\n" + strings.TrimPrefix(more[1:], " ")
			}
			steps = append(steps, step{command, want})
		}
	}
	return steps
}

// page is a reader who tries everything, in one shell after the other that know what the
// ones before exported.
type page struct {
	t   *testing.T
	d   *running
	dir string            // in which the reader is
	ids map[string]string // of the page, to those of this run

	ends []func() // wait for what commands that go on print
}

// pageConfig is the configuration that a page says it is about.
var pageConfig = map[string]string{
	"agents.md":     "{}\n", // these pages write it
	"hooks.md":      "{}\n",
	"mcp.md":        "{}\n",
	"network.md":    "{}\n",
	"operations.md": "{}\n",
	"undo.md":       "policy: {undoable: allow}\n",
	"web.md":        "web: {listen: 127.0.0.1:0}\n",
}

// pageGives are variables for what a page takes for there, beside a daemon.
var pageGives = map[string]func(testing.TB) []string{
	"agent.md":   pageModel,
	"fleet.md":   func(t testing.TB) []string { return []string{"SANDBOXD_STORE_URL=" + pgtest.URL(t)} },
	"network.md": pageServers,
}

// newPage is a reader in a repository that is served, or, of the first page, at home with a
// daemon that serves nothing yet.
func newPage(t *testing.T, name string) *page {
	d, first := newPlaces(t, pageConfig[name]), name == "README.md"
	p := &page{t: t, d: d, dir: d.ws, ids: map[string]string{}}
	if gives := pageGives[name]; gives != nil {
		d.env = append(d.env, gives(t)...)
	}
	if first {
		d.unserved()
		d.unstarted()
		if err := os.Rename(d.ws, filepath.Join(d.home, "repo")); err != nil {
			t.Fatal(err)
		}
		d.ws, p.dir = filepath.Join(d.home, "repo"), d.home
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", d.log)
		}
	})
	for name, text := range map[string]string{
		"go.mod":      "module example.com/small\n\ngo 1.26\n",
		"add.go":      "package small\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n",
		"add_test.go": "package small\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(d.ws, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main", "--template="}, {"add", "."}, {"commit", "-q", "-m", "first"}} {
		if out, err := d.exec("git", args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if first { // beside other tests, the standard library takes longer than a call may
		d.compiled()
		if out, err := d.exec("env", "GOFLAGS=", "go", "test", "-count=1", "./..."); err != nil {
			t.Fatalf("go test: %v\n%s", err, out)
		}
	}
	if first && os.Geteuid() == 0 { // most who read it are not root
		d.give(64150)
	}
	d.start()
	return p
}

// hashLine is what go says of each step of a build, with GODEBUG=gocachehash=1.
var hashLine = regexp.MustCompile(`(?m)^HASH\[.*\]: (([0-9a-f]{2})[0-9a-f]{62})$`)

// compiled puts what go test needs here into the reader's cache of go from that of this host. What is not found is
// compiled again.
func (d *running) compiled() {
	d.t.Helper()
	out, err := d.exec("env", "GOFLAGS=", "GOCACHE="+built, "GODEBUG=gocachehash=1", "go", "test", "-count=1", "./...")
	if err != nil {
		d.t.Fatalf("go test: %v\n%s", err, out)
	}
	take := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(built, name))
		if err == nil {
			d.write(filepath.Join("home/.cache/go-build", name), string(b))
		}
		return b
	}
	for _, step := range hashLine.FindAllStringSubmatch(string(out), -1) {
		action := strings.Fields(string(take(step[2] + "/" + step[1] + "-a"))) // v1 ACTION OUTPUT size time
		if len(action) > 2 && len(action[2]) == 64 {
			take(action[2][:2] + "/" + action[2] + "-d")
		}
	}
}

// give makes a daemon that has not started, and what is in its places, those of a user.
func (d *running) give(uid int) {
	d.t.Helper()
	d.uid = uid
	err := filepath.WalkDir(d.work, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (p *page) step(s step) {
	p.t.Helper()
	command := s.command
	for shown, id := range p.ids {
		command = strings.ReplaceAll(command, shown, id)
	}
	exported, left := filepath.Join(p.d.work, "exported"), filepath.Join(p.d.work, "left")
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	p.t.Cleanup(cancel)
	script := "set -a; [ ! -e " + exported + " ] || . " + exported + "\n" + command
	waits := strings.Contains(s.want, "waiting")
	if !waits { // what a shell leaves in the environment is there for the next, and where it was left
		script += "\nstatus=$?; export -p > " + exported + ".new && mv " + exported + ".new " + exported +
			"; pwd > " + left + "; exit $status"
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = p.dir, p.d.env
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.d.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.d.uid), Gid: uint32(p.d.uid)}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	first, more, _ := strings.Cut(s.want, "\n")
	for {
		select {
		case <-ended:
		case <-time.After(5 * time.Millisecond): // polls: what a program prints tells nobody
			if strings.Contains(out.String(), "waiting up to") && !waits {
				p.t.Fatalf("$ %s\n%s\nwaits for an answer that the page does not give", command, out)
			}
			if more != "" && strings.Contains(first, "waiting") && p.matches(first, out.String()) {
				p.ends = append(p.ends, func() {
					p.t.Helper()
					waitFor(func() bool { return p.matches(s.want, out.String()) })
					p.compare(command, s.want, out.String())
				})
				return
			}
			if !waits || !p.matches(s.want, out.String()) {
				continue
			}
		}
		p.compare(command, s.want, out.String())
		if dir, err := os.ReadFile(left); err == nil {
			p.dir = strings.TrimSpace(string(dir))
		}
		return
	}
}

func (p *page) compare(command, want, got string) {
	p.t.Helper()
	if !p.matches(want, got) {
		p.t.Errorf("$ %s\n%s\nwant\n%s", command, p.shown(got), want)
	}
}

var (
	anID     = `(?:call|apr|ses|grant|job)_[A-Z2-7]{26}|[0-9]{14}-[a-z0-9]{10}`
	variable = regexp.MustCompile(anID + `|\n…(?:\n|\z)|…| {2,}|[0-9]+(?:\.[0-9]+)?(?:µs|ms|m[0-9]+s|s)\b|[0-9]+(?:\.[0-9]+)?`)
	blanks   = regexp.MustCompile(`(?m)[ ]+$`) // a table has them where its last column is empty
)

// shown is output with the names of the page.
func (p *page) shown(out string) string { return strings.ReplaceAll(out, p.d.home, "/home/dev") }

// matches compares output with what a page shows, and learns the ids.
func (p *page) matches(want, got string) bool {
	got = blanks.ReplaceAllString(strings.TrimRight(p.shown(got), "\n"), "")
	want = blanks.ReplaceAllString(strings.TrimRight(want, "\n"), "")
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	var ids []string
	last := 0
	for _, m := range variable.FindAllStringIndex(want, -1) {
		pattern.WriteString(regexp.QuoteMeta(want[last:m[0]]))
		last = m[1]
		switch word := want[m[0]:m[1]]; {
		case word == "…":
			pattern.WriteString(`.*?`)
		case word[0] == ' ':
			pattern.WriteString(` {2,}`) // columns are as wide as what is in them
		case word == "\n…":
			pattern.WriteString(`(?s:\n.*)?`)
		case word == "\n…\n":
			pattern.WriteString(`(?s:\n.*\n|\n)`)
		case strings.HasSuffix(word, "s"):
			pattern.WriteString(`[0-9.]+(?:µs|ms|m[0-9]+s|s)`)
		case word[0] >= '0' && word[0] <= '9' && !strings.Contains(word, "-"):
			pattern.WriteString(`[0-9]+(?:\.[0-9]+)?`)
		case p.ids[word] != "":
			pattern.WriteString(regexp.QuoteMeta(p.ids[word]))
		default:
			ids = append(ids, word)
			pattern.WriteString(`(` + anID + `)`)
		}
	}
	pattern.WriteString(regexp.QuoteMeta(want[last:]) + `\z`)
	m := regexp.MustCompile(pattern.String()).FindStringSubmatch(got)
	if m == nil {
		return false
	}
	for i, id := range ids {
		p.ids[id] = m[i+1]
	}
	return true
}
