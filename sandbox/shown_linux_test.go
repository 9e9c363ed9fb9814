package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/view"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX36_HomeBelowAPrivateDirectory has the caller's home below the /tmp that the
// cage has of its own: it is shown for reading, and no byte leaves through it.
func TestX36_HomeBelowAPrivateDirectory(t *testing.T) {
	needs.Program(t, "python3")
	bothUsers(t, func(t *testing.T) {
		for _, below := range []string{"/tmp", "/var/tmp"} {
			t.Run(below, func(t *testing.T) {
				base, err := os.MkdirTemp(below, "cage-")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(base) })
				home, ws := base+"/home", base+"/home/ws"
				if err := os.MkdirAll(ws, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(home+"/file", []byte("of the host"), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := unix.Mkfifo(home+"/fifo", 0o666); err != nil {
					t.Fatal(err)
				}
				// A reader, so that a writer need not wait for one.
				pipe, err := unix.Open(home+"/fifo", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { unix.Close(pipe) })
				l, err := net.Listen("unix", home+"/h.sock")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				for _, p := range []string{home + "/h.sock", home + "/fifo"} { // whatever the umask is
					if err := os.Chmod(p, 0o777); err != nil {
						t.Fatal(err)
					}
				}

				cage := newCage(t, Options{Home: home})
				needCage(t, cage)
				box := newBox(t, cage, "strict", guard.DefaultSettings(ws, home, nil))
				script := `
import socket, os, errno, sys
def tell(what, f):
    try: f(); print(what, "done")
    except OSError as e: print(what, errno.errorcode[e.errno])
h = sys.argv[1]
tell("connect", lambda: socket.socket(socket.AF_UNIX).connect(h + "/h.sock"))
tell("fifo", lambda: os.write(os.open(h + "/fifo", os.O_WRONLY | os.O_NONBLOCK), b"x"))
tell("write", lambda: open(h + "/new", "w"))
print(open(h + "/file").read())
`
				_, out := runIn(t, box, ws, "python3", "-c", script, home)
				if want := "connect EACCES\nfifo EACCES\nwrite EROFS\nof the host\n"; out != want {
					t.Errorf("a program has\n%swant\n%s", out, want)
				}
				if n, err := unix.Read(pipe, make([]byte, 8)); n > 0 {
					t.Errorf("%d bytes came through the FIFO (%v)", n, err)
				}
				f, err := box.Open(context.Background(), guard.PathUse{Path: home + "/file", Op: guard.Read},
					os.O_RDONLY)
				if err != nil {
					t.Fatalf("a file tool does not see what a program sees: %v", err)
				}
				defer f.Close()
				text := make([]byte, 32)
				if n, _ := f.Read(text); string(text[:n]) != "of the host" {
					t.Errorf("a file tool reads %q", text[:n])
				}
				// The list names /tmp, which is the cage's own and not this one.
				var denied *guard.Denied
				if _, err := box.Open(context.Background(), guard.PathUse{Path: home + "/new", Op: guard.Write},
					os.O_WRONLY); !errors.As(err, &denied) {
					t.Errorf("a file tool writes what a program may only read: %v", err)
				}
				if _, err := box.Open(context.Background(), guard.PathUse{Path: ws + "/new", Op: guard.Write},
					os.O_WRONLY); err != nil {
					t.Errorf("a file tool in the workspace: %v", err)
				}
			})
		}
	})
}

// TestX36_DirectoryOfACallBelowTmp: where a call starts is shown, its sockets are not.
func TestX36_DirectoryOfACallBelowTmp(t *testing.T) {
	needs.Program(t, "python3")
	dir, ws := shortTemp(t), shortTemp(t)
	l, err := net.Listen("unix", dir+"/h.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cage := newCage(t, Options{Home: ws})
	needCage(t, cage)
	box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	_, out := runIn(t, box, dir, "python3", "-c", `
import socket, os
print(os.listdir("."))
try: socket.socket(socket.AF_UNIX).connect("h.sock")
except OSError as e: print(type(e).__name__)
`)
	if want := "['h.sock']\nPermissionError\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestX36_HomesThatAreNotShown: file tools refuse what the cage leaves empty.
func TestX36_HomesThatAreNotShown(t *testing.T) {
	other := ""
	for _, h := range []string{"/root", "/home"} {
		found, _ := filepath.Glob(h + "/.[a-z]*")
		more, _ := filepath.Glob(h + "/*")
		for _, p := range append(found, more...) {
			if info, err := os.Stat(p); err == nil && (info.Mode().IsRegular() || info.IsDir()) &&
				unix.Access(p, unix.R_OK) == nil {
				other = p
			}
		}
	}
	if other == "" {
		needs.Elsewhere(t, "this host has nothing readable in /root or /home")
	}
	ws := shortTemp(t)
	cage := newCage(t, Options{Home: ws, Roots: are(ws)})
	needCage(t, cage)
	box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	var denied *guard.Denied
	if _, err := box.Open(context.Background(), guard.PathUse{Path: other, Op: guard.Read},
		os.O_RDONLY); !errors.As(err, &denied) || denied.Refusals[0].Code != "path_denied" {
		t.Errorf("a file tool opens %s: %v", other, err)
	}
	if e, out := runIn(t, box, ws, "ls", "-d", other); e.Code == 0 || !strings.Contains(out, "No such file") {
		t.Errorf("a program sees %s: %q", other, out)
	}
	// Where it is a root of the workspace, both see it.
	cage = newCage(t, Options{Home: ws, Roots: are(ws, other)})
	box = newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	f, err := box.Open(context.Background(), guard.PathUse{Path: other, Op: guard.Read}, os.O_RDONLY)
	if err != nil {
		t.Fatalf("a root of the workspace: %v", err)
	}
	f.Close()
	if e, out := runIn(t, box, ws, "ls", "-d", other); e.Code != 0 {
		t.Errorf("a program does not see the root %s: %q", other, out)
	}
}

// TestX39_LinksInThePrivateTmp: a program leaves a link where the next root of its
// session needs a mount point, so that the launcher makes files on the host.
func TestX39_LinksInThePrivateTmp(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		base, out := shortTemp(t), shortTemp(t)
		ws := base + "/a/ws"
		if err := os.MkdirAll(ws, 0o755); err != nil {
			t.Fatal(err)
		}
		if !view.BelowTmp(ws) {
			needs.Missing(t, "temporary files of this host are not below /tmp")
		}
		cage := newCage(t, Options{Home: ws})
		needCage(t, cage)
		s := guard.Settings{AllowedWritePaths: []string{ws}}
		for i, script := range []string{
			`cd /tmp; mv "$1" moved && ln -s "$2" "$1"`,
			`cd /tmp; mv "$1" moved2 && touch "$1"`,
			`cd /tmp; ls "$1/a/ws" && mv "$1/a" moved3 && ln -s "$2" "$1/a"`,
			`ls "$1/a/ws"`,
		} {
			s.DeniedPaths = []string{fmt.Sprint(base, "/none", i)} // another launcher
			box := newBox(t, cage, "strict", s)
			if err := os.WriteFile(ws+"/file", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if e, text := runIn(t, box, "/", "sh", "-c", script, "sh", base, out); e.Code != 0 {
				t.Fatalf("%s: exit %d\n%s", script, e.Code, text)
			}
		}
		if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
			t.Errorf("the launcher made %v on the host (%v)", left, err)
		}
	})
}
