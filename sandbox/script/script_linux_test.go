package script

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestScriptIsWhatTheCallSays compiles calls for arenas at other addresses and reads
// the operations as the process behind the slot does. Whatever the words are, they fit
// the room that the call has asked for.
func TestScriptIsWhatTheCallSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[^\x00]{0,300}`)
		c := Call{
			Argv:   append([]string{rapid.StringMatching(`/?[a-z]{0,40}`).Draw(t, "name")}, rapid.SliceOfN(word, 0, 60).Draw(t, "argv")...),
			Env:    rapid.SliceOfN(rapid.StringMatching(`[A-Z]{1,9}=[^\x00]{0,60}`), 0, 60).Draw(t, "env"),
			Dir:    "/" + word.Draw(t, "dir"),
			Limits: wire.Limits{CPUSeconds: 1, Memory: 1, FileSize: 1, OpenFiles: 1, Processes: 1},
		}
		path := rapid.SliceOfN(rapid.StringMatching(`/?[a-z/]{0,30}`), 0, 200).Draw(t, "path")
		c.Env = append(c.Env, "PATH="+strings.Join(path, ":"))
		for i := range c.Devices {
			if rapid.Bool().Draw(t, "device") {
				c.Devices[i] = Device{Path: "/dev/null"}
			}
		}
		const arena = 0x7000_0000_0000
		d := wire.Slot{
			Arena: arena, Area: arena + uint64(1024) + 64*rapid.Uint64Range(0, 1000).Draw(t, "from"),
			OtherThreads: 5,
		}
		s := Compile(d, c)
		if int(s.head.Size) > c.Room() {
			t.Fatalf("%d bytes do not fit the room of %d", s.head.Size, c.Room())
		}
		text := func(at uintptr) string {
			return unix.ByteSliceToString(s.area.Buf[at-uintptr(d.Area):])
		}
		texts := func(at uintptr) (out []string) {
			for ; ; at += 8 {
				p := *(*uintptr)(unsafe.Pointer(&s.area.Buf[at-uintptr(d.Area)]))
				if p == 0 {
					return out
				}
				out = append(out, text(p))
			}
		}
		var sent, opened, programs int
		var last Raw
		for i := range int(s.head.Count) {
			last = *(*Raw)(unsafe.Pointer(&s.area.Buf[int(s.head.Ops)+i*RawSize]))
			switch last.NR {
			case unix.SYS_OPENAT:
				if opened++; text(last.Arg[1]) != "/dev/null" || uint64(last.Out) < d.Area-d.Arena {
					t.Fatalf("opens %q into %d", text(last.Arg[1]), last.Out)
				}
			case unix.SYS_DUP3:
				if last.In == received(sent) {
					sent++
				}
			case unix.SYS_CHDIR:
				if text(last.Arg[0]) != c.Dir {
					t.Fatalf("changes to %q, not to %q", text(last.Arg[0]), c.Dir)
				}
			case unix.SYS_EXECVE:
				programs++
				if got := texts(last.Arg[1]); !slices.Equal(got, c.Argv) {
					t.Fatalf("argv %q, not %q", got, c.Argv)
				}
				if got := texts(last.Arg[2]); !slices.Equal(got, c.Env) {
					t.Fatalf("env %q, not %q", got, c.Env)
				}
				p := text(last.Arg[0])
				if strings.Contains(c.Argv[0], "/") && p != c.Argv[0] || !strings.Contains(c.Argv[0], "/") && p != "" &&
					p[0] != '/' {
					t.Fatalf("executes %q for %q", p, c.Argv[0])
				}
			}
		}
		if sent+opened != 3 {
			t.Fatalf("%d streams are sent and %d opened", sent, opened)
		}
		if last.NR != unix.SYS_EXECVE || last.Ignore != 0 {
			t.Fatalf("a script that ends with call %d goes on when that fails", last.NR)
		}
		if strings.Contains(c.Argv[0], "/") != (programs == 1) && len(path) > 0 &&
			slices.ContainsFunc(path, func(p string) bool { return strings.HasPrefix(p, "/") }) {
			t.Fatalf("%d places are tried for %q", programs, c.Argv[0])
		}
	})
}

// TestFailedProgram: what a shell would say.
func TestFailedProgram(t *testing.T) {
	path := []string{"PATH=/a:/b"}
	for _, tt := range []struct {
		name   string
		argv0  string
		env    []string
		op     string // that failed; "" is the last
		errno  unix.Errno
		status int
		why    string
	}{
		{
			name: "not in PATH", argv0: "x", env: path, errno: unix.ENOENT, status: 127,
			why: "x: not found in PATH (or the interpreter of a script there)",
		},
		{
			name: "no PATH", argv0: "x", errno: unix.ENOENT, status: 127,
			why: "x: not found in PATH (or the interpreter of a script there)",
		},
		{
			name: "no name", argv0: "", env: path, errno: unix.ENOENT, status: 127,
			why: "the name of the program is empty",
		},
		{
			name: "too many words", argv0: "x", env: path, op: "execve /a/x", errno: unix.E2BIG, status: 126,
			why: "/a/x: argument list too long",
		},
		{
			name: "a path", argv0: "/p/x", env: path, errno: unix.ENOENT, status: 127,
			why: "/p/x: no such file or directory",
		},
		{
			name: "not executable", argv0: "./x", env: path, errno: unix.EACCES, status: 126,
			why: "./x: permission denied",
		},
		{
			name: "no directory", argv0: "x", env: path, op: "chdir /d", errno: unix.ENOENT, status: 125,
			why: "start the program: op 5 chdir /d: no such file or directory",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Compile(wire.Slot{}, Call{Argv: []string{tt.argv0}, Env: tt.env, Dir: "/d"})
			at := len(s.Ops)
			if tt.op != "" {
				at = 1 + slices.IndexFunc(s.Ops, func(o Op) bool { return o.Name == tt.op })
			}
			if status, why := s.Failed(wire.Reply{Failed: wire.Failure{
				Op:    int32(at),
				Errno: int32(tt.errno),
			}}); status != tt.status || why != tt.why {
				t.Errorf("%d %q, want %d %q", status, why, tt.status, tt.why)
			}
		})
	}
}

// TestOpenFilesAreFewerThanOurs: by 512, or half of ours if that is more.
func TestOpenFilesAreFewerThanOurs(t *testing.T) {
	if os.Getenv("LIMITED") != "" {
		fmt.Println("allowed:", fewerThanOurs(1<<30), fewerThanOurs(64))
		return
	}
	for limit, want := range map[string]string{"600": "300 64", "1400": "888 64"} {
		cmd := exec.Command("sh", "-c", `ulimit -n "$1" && exec "$0" -test.run='^TestOpenFilesAreFewerThanOurs$'`, os.Args[0], limit)
		cmd.Env = append(os.Environ(), "LIMITED=yes")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "allowed: "+want+"\n") {
			t.Errorf("with %s files: %s, %v, want %s", limit, out, err, want)
		}
	}
}
