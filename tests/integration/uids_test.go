package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

// Two uids that no database of users names.
const (
	alice = 64101
	bob   = 64102
)

// newShared is a daemon of root whose agent socket every uid can reach, as with a group
// of a service manager.
func newShared(t testing.TB, config string) *running {
	t.Helper()
	needs.Root(t, "to call as other users")
	d := newDaemon(t, config)
	d.share()
	return d
}

// share opens the agent socket to all; a restart closes it again.
func (d *running) share() {
	d.t.Helper()
	for path, mode := range map[string]os.FileMode{"": 0o711, "run": 0o711, "run/a.sock": 0o666, "ws": 0o777} {
		if err := os.Chmod(filepath.Join(d.work, path), mode); err != nil {
			d.t.Fatal(err)
		}
	}
}

// caller is one uid on the agent socket.
type caller struct {
	t    testing.TB
	uid  int
	http http.Client
}

func (d *running) as(uid int) *caller {
	socket := filepath.Join(d.work, "run/a.sock")
	dial := func(context.Context, string, string) (net.Conn, error) { return dialAs(uid, socket) }
	return &caller{t: d.t, uid: uid, http: http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// dialAs connects as another uid: the kernel keeps that of the thread that connects.
func dialAs(uid int, socket string) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		for _, id := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			if _, _, errno := unix.RawSyscall(id, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
				err = errno
				return
			}
		}
		c, err = net.Dial("unix", socket)
	}()
	<-done
	return c, err
}

// answered is one answer of the daemon.
type answered struct {
	Status int
	Data   json.RawMessage
	Error  client.Error
	Raw    string
}

// ask sends a request and reads the answer, whatever its status.
func (c *caller) ask(method, path, body string) answered {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, "http://sandboxd/v1"+path, bytes.NewBufferString(body))
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatalf("uid %d, %s %s: %v", c.uid, method, path, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	a := answered{Status: res.StatusCode, Raw: string(raw)}
	if err := json.Unmarshal(raw, &a); err != nil {
		c.t.Fatalf("uid %d, %s %s: %q: %v", c.uid, method, path, raw, err)
	}
	return a
}

// session makes one, with this id if it is not empty.
func (c *caller) session(id string) string {
	c.t.Helper()
	body := "{}"
	if id != "" {
		body = fmt.Sprintf(`{"id":%q}`, id)
	}
	a := c.ask("POST", "/sessions", body)
	var s client.Session
	if err := json.Unmarshal(a.Data, &s); err != nil || a.Status != http.StatusCreated {
		c.t.Fatalf("uid %d: a session: %d %s", c.uid, a.Status, a.Raw)
	}
	return s.ID
}

// call runs one tool.
func (c *caller) call(session, name string, args any) client.Result {
	c.t.Helper()
	in, err := json.Marshal(map[string]any{"tool": name, "args": args})
	if err != nil {
		c.t.Fatal(err)
	}
	a := c.ask("POST", "/sessions/"+session+"/calls", string(in))
	var r client.Result
	if err := json.Unmarshal(a.Data, &r); err != nil || a.Status != http.StatusOK {
		c.t.Fatalf("uid %d: %s %s: %d %s", c.uid, name, in, a.Status, a.Raw)
	}
	return r
}

// A uid without a name is an account of its own: another one sees nothing of it, and
// neither does the daemon's own uid. An operator sees all of them.
func TestAccounts_UnnamedUIDsAreStrangers(t *testing.T) {
	d := newShared(t, "accounts:\n  64103: team\n  64104: team\n")
	a := d.as(alice)
	id := a.session("")
	if r := a.ask("PUT", "/sessions/"+id+"/vars/plan", `{"value":"of alice"}`); r.Status != http.StatusCreated {
		t.Fatalf("alice writes a variable: %s", r.Raw)
	}
	call := a.call(id, "Bash", map[string]any{"command": "true"})
	if call.Status != "SUCCESS" {
		t.Fatalf("alice runs a command: %+v", call)
	}
	for _, uid := range []int{bob, 64103, 0} {
		other := d.as(uid)
		for _, ask := range []struct{ method, path, body string }{
			{"GET", "/sessions/" + id, ""},
			{"GET", "/sessions/" + id + "/vars/plan", ""},
			{"PUT", "/sessions/" + id + "/vars/plan", `{"value":"of another"}`},
			{"POST", "/sessions/" + id + "/calls", `{"tool":"ReadVar","args":{"name":"plan"}}`},
			{"POST", "/decide", `{"session_id":"` + id + `","tool":"Bash","args":{"command":"true"}}`},
			{"GET", "/calls/" + call.CallID, ""},
			{"POST", "/calls/" + call.CallID + "/cancel", ""},
			{"DELETE", "/sessions/" + id, ""},
		} {
			if r := other.ask(ask.method, ask.path, ask.body); r.Status != http.StatusNotFound {
				t.Errorf("uid %d, %s %s: %s", uid, ask.method, ask.path, r.Raw)
			}
		}
		if r := other.ask("GET", "/sessions", ""); string(r.Data) != "[]" {
			t.Errorf("uid %d lists %s", uid, r.Raw)
		}
		if r := other.ask("POST", "/sessions", `{"id":"`+id+`"}`); r.Error.Code != "session_exists" {
			t.Errorf("uid %d takes the id: %s", uid, r.Raw)
		}
	}
	shared := d.as(64103).session("")
	if r := d.as(64104).ask("GET", "/sessions/"+shared, ""); r.Status != http.StatusOK {
		t.Errorf("two uids of one name: %s", r.Raw)
	}
	var v struct{ Value string }
	if err := d.operator.Do(t.Context(), "GET", "/sessions/"+id+"/vars/plan", nil, &v); err != nil || v.Value != "of alice" {
		t.Errorf("an operator reads %+v, %v", v, err)
	}
	if err := d.operator.Do(t.Context(), "GET", "/decisions/"+call.CallID, nil, nil); err != nil {
		t.Errorf("an operator asks for a decision: %v", err)
	}
}

// A daemon in a user namespace, as in a container, has one number for all users who have none there.
// They are nobody: one of them must not have what another one made.
func TestAccounts_UIDsWithoutANumberAreNobody(t *testing.T) {
	needs.Root(t, "to call as other users")
	d := newPlaces(t, "")
	d.command = []string{needs.Program(t, "unshare"), "--user", "--map-root-user", filepath.Join(bin, "sandboxd"), "serve"}
	d.start()
	d.share()
	d.as(0).session("")
	for _, uid := range []int{alice, bob} {
		for _, path := range []string{"/sessions", "/status"} {
			if r := d.as(uid).ask("GET", path, ""); r.Status != http.StatusForbidden || r.Data != nil {
				t.Errorf("uid %d asks for %s: %d %s", uid, path, r.Status, r.Raw)
			}
		}
	}
}

// With accounts.others: refuse only named uids are let in.
func TestAccounts_StrangersAreRefused(t *testing.T) {
	d := newShared(t, "accounts:\n  64101: alice\n  others: refuse\n")
	d.as(alice).session("")
	d.as(0).session("") // the daemon's own
	for _, path := range []string{"/healthz", "/status", "/sessions", "/check"} {
		method := "GET"
		if path == "/check" {
			method = "POST"
		}
		if r := d.as(bob).ask(method, path, ""); r.Status != http.StatusForbidden || r.Error.Code != "account_refused" {
			t.Errorf("%s: %s", path, r.Raw)
		}
	}
}

// Nobody learns from an answer which names there are in a denied place, and where links in
// it lead: not by the daemon's settings, and not by settings of their own.
func TestAccounts_CheckTellsNothingOfDeniedPlaces(t *testing.T) {
	d := newShared(t, "")
	ssh := filepath.Join(d.home, ".ssh")
	c := d.as(alice)
	session := c.session("")
	ask := func() string {
		var said []string
		for _, name := range []string{"out", "out/x", "none", "dir/out", "id_rsa"} {
			path := filepath.Join(ssh, name)
			for _, settings := range []string{
				"", `,"settings":{}`, fmt.Sprintf(`,"settings":{"allowedReadPaths":[%q]}`, d.ws),
				fmt.Sprintf(`,"settings":{"allowedReadPaths":[%q],"allowedWritePaths":[%q]}`, path, ssh),
			} {
				said = append(said,
					c.ask("POST", "/check", fmt.Sprintf(`{"path":%q,"op":"read"%s}`, path, settings)).Raw,
					c.ask("POST", "/check", fmt.Sprintf(`{"command":"cd %s || cat x; cat %s","cwd":%q%s}`, path, path, ssh, settings)).Raw,
					c.ask("POST", "/check", fmt.Sprintf(`{"path":"~/x","op":"write","home":%q%s}`, path, settings)).Raw)
			}
			said = append(said, c.ask("POST", "/sessions", fmt.Sprintf(`{"cwd":%q}`, path)).Raw)
			for _, call := range []string{
				fmt.Sprintf(`"tool":"Read","args":{"file_path":%q}`, path),
				fmt.Sprintf(`"tool":"Bash","args":{"command":"cat %s"}`, path),
			} {
				a := c.ask("POST", "/decide", fmt.Sprintf(`{"session_id":%q,%s}`, session, call))
				var decided map[string]json.RawMessage
				if err := json.Unmarshal(a.Data, &decided); err != nil {
					t.Fatalf("%s: %v", a.Raw, err)
				}
				said = append(said, string(decided["decision"]), string(decided["facts"]))
			}
		}
		return strings.Join(said, "\n")
	}
	before := ask()
	for link, to := range map[string]string{"out": d.ws, "none": "/etc/os-release"} {
		if err := os.Symlink(to, filepath.Join(ssh, link)); err != nil {
			t.Fatal(err)
		}
	}
	d.write("home/.ssh/dir/out/x", "")
	if after := ask(); before != after {
		t.Errorf("the answers tell what is in %s:\n%s\n%s", ssh, before, after)
	}
	if !strings.Contains(before, "path_denied") || !strings.Contains(before, "path_closed") {
		t.Errorf("nothing was denied: %s", before)
	}
}

// Secrets in the homes of others are denied, wherever those lie; a person is not asked.
func TestAccounts_SecretsOfOthersAreDenied(t *testing.T) {
	d := newShared(t, "")
	secrets := []string{".netrc", ".git-credentials", ".ssh/config", ".aws/credentials", ".config/gh/hosts.yml", ".pgpass"}
	for _, name := range secrets {
		d.write("homes/carol/"+name, "PLANTED\n")
		if err := os.Chmod(filepath.Join(d.work, "homes/carol", name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, uid := range []int{alice, 0} {
		c := d.as(uid)
		session := c.session("")
		for _, name := range secrets {
			path := filepath.Join(d.work, "homes/carol", name)
			for tool, args := range map[string]any{
				"Read": map[string]any{"file_path": path},
				"Bash": map[string]any{"command": "cat " + path},
				"Grep": map[string]any{"pattern": "P", "path": path, "output_mode": "content"},
			} {
				r := c.call(session, tool, args)
				if r.Status != "ERROR" || r.Error == nil || r.Error.Stage != "judge" || strings.Contains(r.FinalText, "PLANTED") {
					t.Errorf("uid %d, %s %s: %s %s", uid, tool, name, r.Status, r.FinalText)
				}
			}
		}
	}
	if r := d.as(alice); r.call(r.session(""), "Read", map[string]any{"file_path": d.work + "/homes/carol/notes"}).Error.Code != "file_not_found" {
		t.Error("everything is refused there, so the test shows nothing")
	}
}

// File tools have the rights of the uid that calls, and what they make belongs to it. The
// daemon's own uid has the daemon's rights.
func TestAccounts_FileToolsHaveTheRightsOfTheCaller(t *testing.T) {
	d := newShared(t, "accounts:\n  64101: team\n  64102: team\n")
	own := func(name string, uid int, mode os.FileMode) {
		d.write("ws/"+name, "PLANTED\n")
		path := filepath.Join(d.ws, name)
		if err := errors.Join(os.Chown(path, uid, uid), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	own("alices", alice, 0o600)
	own("bobs", bob, 0o600)
	own("roots", 0, 0o600)
	own("everybodys", 0, 0o644)
	own("closed/inner", alice, 0o644)
	if err := os.Chmod(filepath.Join(d.ws, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	session := d.as(alice).session("") // of both: one account
	for _, tt := range []struct {
		uid   int
		reads string
	}{
		{alice, "alices everybodys"},
		{bob, "bobs everybodys"},
	} {
		c := d.as(tt.uid)
		for _, name := range []string{"alices", "bobs", "roots", "everybodys", "closed/inner"} {
			path := filepath.Join(d.ws, name)
			want := strings.Contains(tt.reads, name)
			r := c.call(session, "Read", map[string]any{"file_path": path})
			if (r.Status == "SUCCESS") != want || strings.Contains(r.FinalText, "PLANTED") != want {
				t.Errorf("uid %d reads %s: %s %s", tt.uid, name, r.Status, r.FinalText)
			}
			if !want && (r.Error == nil || r.Error.Code != "permission_denied") {
				t.Errorf("uid %d is told of %s: %+v", tt.uid, name, r.Error)
			}
			r = c.call(session, "Grep", map[string]any{"pattern": "PLANTED", "path": path, "output_mode": "content"})
			if strings.Contains(r.FinalText, "PLANTED") != want {
				t.Errorf("uid %d searches %s: %s %s", tt.uid, name, r.Status, r.FinalText)
			}
		}
		found := c.call(session, "Grep", map[string]any{"pattern": "PLANTED", "path": d.ws}).FinalText
		for _, name := range []string{"alices", "bobs", "roots", "everybodys", "inner"} {
			if strings.Contains(found, name) != strings.Contains(tt.reads, name) {
				t.Errorf("uid %d finds %s", tt.uid, found)
			}
		}
		made := filepath.Join(d.ws, fmt.Sprint("made-", tt.uid), "file")
		for tool, args := range map[string]map[string]any{
			"Write": {"file_path": made, "content": "x"},
			"Bash":  {"command": "true"}, // programs start after a thread had other rights
		} {
			if r := c.call(session, tool, args); r.Status != "SUCCESS" {
				t.Errorf("uid %d, %s: %s", tt.uid, tool, r.FinalText)
			}
		}
		for _, path := range []string{made, filepath.Dir(made)} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != tt.uid || int(st.Gid) != tt.uid {
				t.Errorf("what uid %d made belongs to %d:%d", tt.uid, st.Uid, st.Gid)
			}
		}
		if r := c.call(session, "Write", map[string]any{"file_path": filepath.Join(d.ws, "closed/new"), "content": "x"}); r.Status != "ERROR" {
			t.Errorf("uid %d writes where it cannot: %s", tt.uid, r.FinalText)
		}
	}
	root := d.as(0)
	if r := root.call(root.session(""), "Read", map[string]any{"file_path": filepath.Join(d.ws, "alices")}); r.Status != "SUCCESS" {
		t.Errorf("the daemon's own uid: %s", r.FinalText)
	}
	// What the guard says of a path is what the caller could see: not where links in a closed
	// directory lead.
	if err := os.Symlink("/etc/os-release", filepath.Join(d.ws, "closed/link")); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[int]string{alice: "closed/link", 0: "os-release"} {
		body := fmt.Sprintf(`{"path":%q,"op":"read"}`, filepath.Join(d.ws, "closed/link"))
		if r := d.as(uid).ask("POST", "/check", body); !strings.Contains(r.Raw, want) {
			t.Errorf("uid %d is told %s, want %s", uid, r.Raw, want)
		}
	}
}

// Programs have the rights of the uid that calls, and what they make belongs to it.
func TestAccounts_ProgramsHaveTheRightsOfTheCaller(t *testing.T) {
	d := newShared(t, "accounts:\n  64101: team\n  64102: team\n")
	for name, uid := range map[string]int{"alices": alice, "bobs": bob, "roots": 0} {
		d.write("ws/"+name, "PLANTED\n")
		if err := os.Chown(filepath.Join(d.ws, name), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	session := d.as(alice).session("") // of both: one account
	for uid, own := range map[int]string{alice: "alices", bob: "bobs"} {
		c := d.as(uid)
		for _, name := range []string{"alices", "bobs", "roots"} {
			r := c.call(session, "Bash", map[string]any{"command": "cat " + name})
			if want := name == own; strings.Contains(r.FinalText, "PLANTED") != want {
				t.Errorf("uid %d, cat %s: %s %s", uid, name, r.Status, r.FinalText)
			}
		}
		made := fmt.Sprint("by-", uid)
		r := c.call(session, "Bash", map[string]any{"command": "id -u && mkdir " + made + " && echo x > " + made + "/file"})
		if r.Status != "SUCCESS" || !strings.Contains(r.FinalText, fmt.Sprintln(uid)) {
			t.Errorf("uid %d: %s %s", uid, r.Status, r.FinalText)
		}
		for _, path := range []string{made, made + "/file"} {
			info, err := os.Stat(filepath.Join(d.ws, path))
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != uid || int(st.Gid) != uid {
				t.Errorf("what a program of uid %d made belongs to %d:%d", uid, st.Uid, st.Gid)
			}
		}
	}
	root := d.as(0)
	if r := root.call(root.session(""), "Bash", map[string]any{"command": "id -u"}); !strings.HasPrefix(r.FinalText, "0\n") {
		t.Errorf("the daemon's own uid: %s", r.FinalText)
	}
}
