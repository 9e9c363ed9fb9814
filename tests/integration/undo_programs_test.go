package integration

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// programs is a daemon with a session in which commands run and are undone.
type programs struct {
	*running
	t       *testing.T
	session string
}

func newPrograms(t *testing.T, more ...string) *programs {
	d := newPlaces(t, "policy: {profile: observe}\nsessions: {mode: bypassPermissions, maxMode: bypassPermissions}\n"+
		strings.Join(more, ""))
	d.env = append(d.env, "GOCACHE="+built)
	d.start()
	return &programs{d, t, d.session()}
}

// run runs a command, whose changes must be kept.
func (p *programs) run(command string) client.Result {
	p.t.Helper()
	r := p.mustCall(p.session, "Bash", fmt.Sprintf(`{"command":%q,"timeout":120000}`, command))
	if strings.Contains(r.FinalText, "Exit code") || r.Undo != nil && !r.Undo.Kept {
		p.t.Fatalf("%s: %s: %+v", command, r.FinalText, r.Undo)
	}
	return r
}

type undoOutcome struct {
	Restored  []string
	Conflicts []struct{ Path, Why string }
}

func (p *programs) undo(r client.Result) (out undoOutcome) {
	p.t.Helper()
	if err := p.agent.Do(p.t.Context(), "POST", "/calls/"+r.CallID+"/undo", map[string]any{}, &out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// files is what lies in the workspace.
func (p *programs) files() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(p.ws, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// undone undoes a call and compares the workspace with what it was.
func (p *programs) undone(r client.Result, before map[string]string) {
	p.t.Helper()
	if len(r.Changes) == 0 {
		p.t.Fatal("it changed nothing")
	}
	if out := p.undo(r); len(out.Conflicts) > 0 || !maps.Equal(p.files(), before) {
		p.t.Errorf("%d of %d files are there, conflicts: %v", len(p.files()), len(before), out.Conflicts)
	}
}

// A database that a program outside of the sandbox has open works on, and what a command did to it is undone when
// that program has ended.
func TestUndoOfADatabase(t *testing.T) {
	sqlite := needs.Program(t, "sqlite3")
	p := newPrograms(t)
	db := filepath.Join(p.ws, "app.db")
	const rows = "SELECT group_concat(x) FROM t;"
	sql := func(text string) string {
		out, err := exec.Command(sqlite, db, text).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", text, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	sql("PRAGMA journal_mode=WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1);")
	outside := exec.Command(sqlite, "-batch", db)
	in, err := outside.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := outside.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	ask := func(text string) string {
		fmt.Fprintln(in, text)
		lines.Scan()
		return lines.Text()
	}
	ask("INSERT INTO t VALUES (2); SELECT 0;")
	r := p.run("sqlite3 app.db 'INSERT INTO t VALUES (3);'")
	if got := ask(rows); got != "1,2,3" {
		t.Errorf("outside of the sandbox the rows are %s", got)
	}
	if got := p.undo(r); len(got.Conflicts) == 0 || ask(rows) != "1,2,3" {
		t.Errorf("an undo while it is open: %+v", got)
	}
	in.Close()
	if err := outside.Wait(); err != nil {
		t.Error(err)
	}
	// Closing it has put the log into the database: that was no call.
	r = p.run("sqlite3 app.db 'DELETE FROM t;'")
	if got := sql(rows); got != "" {
		t.Fatalf("the rows are %s", got)
	}
	if got := p.undo(r); len(got.Conflicts) > 0 || sql(rows) != "1,2,3" {
		t.Errorf("got %+v: %s", got, sql(rows))
	}
}

// What a program outside of the sandbox watches and locks is what commands write and see locked.
func TestUndoBesideProgramsOutside(t *testing.T) {
	needs.Program(t, "flock")
	p := newPrograms(t)
	p.write("ws/f", "one")
	p.write("ws/lock", "")
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, p.ws, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	hears := func(what string) {
		t.Helper()
		b := make([]byte, 64<<10)
		n, err := unix.Read(fd, b)
		if err != nil || !strings.Contains(string(b[:n]), "f\x00") {
			t.Errorf("a watcher does not hear of %s: %v", what, err)
		}
	}
	r := p.run("echo two > f")
	hears("the command")
	if out := p.undo(r); len(out.Conflicts) > 0 || p.files()[p.ws+"/f"] != "one" {
		t.Errorf("got %+v", out)
	}
	hears("the undo")
	lock, err := os.Open(filepath.Join(p.ws, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if r := p.run("flock -n lock echo free || echo held"); !strings.Contains(r.FinalText, "held") {
		t.Errorf("while it is locked outside: %s", r.FinalText)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if r := p.run("flock -n lock echo free || echo held"); !strings.Contains(r.FinalText, "free") {
		t.Errorf("when it is not: %s", r.FinalText)
	}
}

// A worktree of git that a command has wrecked is one again.
func TestUndoOfAWorktree(t *testing.T) {
	git := needs.Program(t, "git")
	p := newPrograms(t)
	p.write("ws/f", "one")
	for _, words := range []string{
		"init -q -b main", "add -A", "-c user.email=a@b -c user.name=a commit -qm one", "worktree add -q -b side tree",
	} {
		if out, err := exec.Command(git, append([]string{"-C", p.ws}, strings.Fields(words)...)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", words, err, out)
		}
	}
	p.write("ws/tree/f", "not committed")
	before := p.files()
	wreck := "git -C tree checkout -q . && rm tree/f .git/worktrees/tree/index && git update-ref -d refs/heads/side && echo x > f"
	p.undone(p.run(wreck), before)
	out, err := exec.Command(git, "-C", p.ws+"/tree", "status", "--short", "--branch").CombinedOutput()
	if err != nil || string(out) != "## side\n M f\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// A server that runs as a job serves what commands write and undos put back; of what it writes itself nothing is lost.
func TestUndoBesideAServer(t *testing.T) {
	needs.Program(t, "python3")
	p := newPrograms(t)
	p.write("ws/page", "one")
	p.write("ws/serve.py", `
import http.server, sys
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a):
        open("access.log", "a").write(self.path + "\n")
s = http.server.HTTPServer(("127.0.0.1", 0), H)
open("port", "w").write(str(s.server_port))
s.serve_forever()
`)
	job := p.mustCall(p.session, "Bash", `{"command":"python3 serve.py","run_in_background":true}`)
	if !waitFor(func() bool { return p.files()[p.ws+"/port"] != "" }) {
		t.Fatal("it does not serve")
	}
	reads := func(want string) {
		t.Helper()
		read := func() bool { return p.files()[p.ws+"/page"] == want }
		if !read() {
			t.Errorf("the page is %q, want %q", p.files()[p.ws+"/page"], want)
		}
	}
	r := p.run("echo two > page; rm serve.py")
	reads("two\n")
	if out := p.undo(r); len(out.Conflicts) > 0 || p.files()[p.ws+"/serve.py"] == "" {
		t.Errorf("while the job runs: %+v", out)
	}
	reads("one")
	data, _ := job.Data.(map[string]any)
	p.mustCall(p.session, "TaskStop", fmt.Sprintf(`{"task_id":%q}`, data["job_id"]))
	var calls []struct {
		CallID  string `json:"call_id"`
		Changes []struct{ Path string }
	}
	ended := func() bool {
		err := p.agent.Do(t.Context(), "GET", "/sessions/"+p.session+"/changes", nil, &calls)
		return err == nil && len(calls) == 3
	}
	if !waitFor(ended) {
		t.Fatalf("what the job changed is not known: %+v", calls)
	}
	if out := p.undo(job); len(out.Conflicts) > 0 || p.files()[p.ws+"/port"] != "" {
		t.Errorf("of the job: %+v", out)
	}
}

// A language server hears of the files that a command changed, and of those that an undo put back.
func TestUndoBesideALanguageServer(t *testing.T) {
	p := newPrograms(t, "lsp: {servers: {text: {command: bash, args: [./server], extensions: [.txt]}}}\n")
	p.write("ws/server", shellServer+`
  case $body in *didChangeWatchedFiles*) heard=; for f in a.txt b.txt; do case $body in *"/$f\""*) heard="$heard $f";; esac; done;; esac
  [ -z "$id" ] && continue
  answer "{\"contents\":\"heard:$heard\"}"; heard=
done
`)
	p.write("ws/a.txt", "one\n")
	p.write("ws/b.txt", "one\n")
	hears := func(want string) {
		t.Helper()
		if got := p.good(p.session, "LSP", `{"operation":"hover","file_path":"a.txt","line":0}`); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	hears("heard:")
	r := p.run("rm b.txt; echo two > a.txt")
	hears("heard: a.txt b.txt")
	hears("heard:")
	if out := p.undo(r); len(out.Conflicts) > 0 {
		t.Errorf("%+v", out)
	}
	hears("heard: a.txt b.txt")
}

// Builds and installations work twice and are undone; their caches, which are the session's, serve the next one.
func TestUndoOfBuilds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ program, files, build, works string }{
		{"go", "go.mod=module a\nmain.go=package main; func main() { println(1) }", "go build -o app .", "./app"},
		{
			"cargo", "Cargo.toml=[package]\\nname = \"a\"\\nversion = \"0.1.0\"\nsrc/main.rs=fn main() {}",
			"cargo build -q --offline", "target/debug/a",
		},
		{
			"npm", "dep/package.json={\"name\":\"dep\",\"version\":\"1.0.0\"}\npackage.json={\"name\":\"a\"}",
			"npm install --silent --offline --install-links ./dep", "ls node_modules/dep/package.json",
		},
	} {
		t.Run(tt.program, func(t *testing.T) {
			if _, err := exec.LookPath(tt.program); err != nil {
				needs.Elsewhere(t, "no %s on this host", tt.program)
			}
			more := ""
			if tt.program == "cargo" { // it may lie in the home of whoever installed it
				out, err := exec.Command("rustc", "--print", "sysroot").Output()
				if err != nil {
					needs.Elsewhere(t, "rustc does not run: %v", err)
				}
				sysroot := strings.TrimSpace(string(out))
				more = "sandbox: {allowedReadPaths: [/, " + sysroot + "]}\n"
				tt.build = fmt.Sprintf("PATH=%s/bin:$PATH; %s", sysroot, tt.build)
			}
			p := newPrograms(t, more)
			for line := range strings.SplitSeq(tt.files, "\n") {
				name, text, _ := strings.Cut(line, "=")
				p.write("ws/"+name, strings.ReplaceAll(text, `\n`, "\n"))
			}
			before := p.files()
			for range 2 {
				r := p.run(tt.build + " && " + tt.works)
				p.undone(r, before)
			}
		})
	}
}
