package integration

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// overHanded sends one request as bob, over a connection that somebody else has made.
func overHanded(t *testing.T, c net.Conn, request string) string {
	t.Helper()
	f, err := c.(*net.UnixConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.Close() // bob's process alone has it then
	cmd := exec.Command("sh", "-c", `printf '%s' "$0" >&3; cat <&3`, request)
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: bob, Gid: bob}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// A connection belongs to who made it, as the kernel says it (docs/security.md): who gets it handed
// over acts as them, and who has not got it cannot.
func TestAConnectionBelongsToWhoMadeIt(t *testing.T) {
	d := newShared(t, "accounts:\n  64101: team\n")
	of := func(id string) string {
		return "GET /v1/sessions/" + id + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	}
	hers, his := d.as(alice).session(""), d.as(bob).session("")
	socket := filepath.Join(d.work, "run/a.sock")
	for _, tt := range []struct {
		name, id string
		maker    int
		seen     bool
	}{
		{"alice's session over what alice made", hers, alice, true},
		{"his own session over what alice made", his, alice, false},
		{"alice's session over what he made", hers, bob, false},
		{"his own session over what he made", his, bob, true},
	} {
		c, err := dialAs(tt.maker, socket)
		if err != nil {
			t.Fatal(err)
		}
		if got := overHanded(t, c, of(tt.id)); strings.Contains(got, " 200 OK") != tt.seen {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
	// The same on the operator socket, which bob cannot reach himself.
	if c, err := dialAs(bob, filepath.Join(d.work, "run/o.sock")); err == nil {
		c.Close()
		t.Error("bob reaches the operator socket")
	}
	c, err := net.Dial("unix", filepath.Join(d.work, "run/o.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if got := overHanded(t, c, "GET /v1/approvals HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(got, " 200 OK") {
		t.Errorf("over what root made: %s", got)
	}
}

// A file that a tool opens over such a connection is opened as who made it, not as who uses it.
func TestAConnectionOpensFilesAsWhoMadeIt(t *testing.T) {
	d := newShared(t, "")
	for uid, name := range map[int]string{alice: "hers.txt", bob: "his.txt"} {
		path := filepath.Join(d.ws, name)
		if err := os.WriteFile(path, []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	session := d.as(alice).session("")
	for name, readable := range map[string]bool{"hers.txt": true, "his.txt": false} {
		c, err := dialAs(alice, filepath.Join(d.work, "run/a.sock"))
		if err != nil {
			t.Fatal(err)
		}
		body := `{"tool":"Read","args":{"file_path":"` + name + `"}}`
		got := overHanded(t, c, "POST /v1/sessions/"+session+"/calls HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+
			"Content-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		if strings.Contains(got, "of "+name) != readable {
			t.Errorf("%s: %s", name, got)
		}
	}
}
