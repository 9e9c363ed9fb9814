package sandbox

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/stdio"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX39_StreamsAreNoFilesOfTheHost: a program reads and writes files that the
// caller gives it as streams, and can do nothing else with them.
func TestX39_StreamsAreNoFilesOfTheHost(t *testing.T) {
	bothUsers(t, func(t *testing.T) { bothLevels(t, streamsAreNoFiles) })
}

func streamsAreNoFiles(t *testing.T, cage Backend) {
	keepDevices(t)
	base := shortTemp(t)
	ws := base + "/ws"
	if err := os.MkdirAll(ws+"/.git/hooks", 0o755); err != nil {
		t.Fatal(err)
	}
	settings := guard.Settings{AllowedWritePaths: []string{ws}, DeniedPaths: []string{ws + "/secret"}}
	for _, profile := range Profiles {
		box := newBox(t, cage, profile, settings)
		for _, tt := range []struct{ name, path string }{
			{"a file outside", base + "/file"},
			{"a protected file", ws + "/.git/config"},
			{"a denied file", ws + "/secret"},
			{"a file of the workspace", ws + "/file"},
		} {
			t.Run(string(profile)+": "+tt.name, func(t *testing.T) {
				if err := os.WriteFile(tt.path, []byte("line\nrest\n"), 0o640); err != nil {
					t.Fatal(err)
				}
				in, err := os.Open(tt.path)
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				if _, err := in.Seek(5, io.SeekStart); err != nil { // the caller has read a line
					t.Fatal(err)
				}
				var out bytes.Buffer
				e := runSpec(t, box, Spec{
					Argv: []string{"sh", "-c", "cat; (echo evil > /proc/self/fd/0; echo evil >> /dev/stdin; chmod 777 /proc/self/fd/0) 2>/dev/null; true"},
					Dir:  ws, Stdin: in, Stdout: &out, Stderr: &out,
				})
				if e.Code != 0 || out.String() != "rest\n" {
					t.Errorf("exit %+v, %q", e, out.String())
				}
				info, err := os.Stat(tt.path)
				text, rerr := os.ReadFile(tt.path)
				if err != nil || rerr != nil || info.Mode() != 0o640 || string(text) != "line\nrest\n" {
					t.Errorf("afterwards %v %q, %v %v", info.Mode(), text, err, rerr)
				}
			})
		}
		t.Run(string(profile)+": a file for the output", func(t *testing.T) {
			f, err := os.OpenFile(base+"/out", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o640)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			e := runSpec(t, box, Spec{Argv: []string{
				"sh", "-c",
				"echo out; echo err >&2; chmod 777 /proc/self/fd/1 2>/dev/null; true",
			}, Dir: ws, Stdout: f, Stderr: f})
			info, err := f.Stat()
			text, rerr := os.ReadFile(base + "/out")
			if e.Code != 0 || err != nil || rerr != nil || info.Mode() != 0o640 || string(text) != "out\nerr\n" {
				t.Errorf("exit %+v, %v %q, %v %v", e, info.Mode(), text, err, rerr)
			}
		})
		t.Run(string(profile)+": more than is copied", func(t *testing.T) {
			const size = stdio.MaxCopied + 100_001
			if err := os.WriteFile(base+"/large", bytes.Repeat([]byte("x"), size), 0o600); err != nil {
				t.Fatal(err)
			}
			for script, want := range map[string]string{"wc -c": fmt.Sprintln(size), "head -c 1": "x"} {
				in, err := os.Open(base + "/large")
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				var out bytes.Buffer
				if e := runSpec(t, box, Spec{
					Argv: []string{"sh", "-c", script}, Dir: ws, Stdin: in,
					Stdout: &out,
				}); e.Code != 0 || out.String() != want {
					t.Errorf("%s: exit %+v, %.20q, want %q", script, e, out.String(), want)
				}
			}
		})
		t.Run(string(profile)+": devices of the host", func(t *testing.T) {
			for name, minor := range map[string]uint32{"/dev/null": 3, "/dev/zero": 5, "/dev/full": 7} {
				// A node of its own: what goes wrong must not be the machine's.
				node := shortTemp(t) + "/node"
				if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
					needs.Root(t, "to make a device")
					needs.Missing(t, "make a device: %v", err)
				}
				f, err := os.OpenFile(node, os.O_RDWR, 0)
				if err != nil {
					needs.Missing(t, "open a device: %v", err)
				}
				before, err := f.Stat()
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				const script = `for i in 0 2; do readlink /proc/self/fd/$i; touch -d @1 /proc/self/fd/$i; chmod 640 /proc/self/fd/$i; done; head -c 3 | wc -c; echo x >&2; echo $?`
				runSpec(t, box, Spec{Argv: []string{"sh", "-c", script}, Dir: ws, Stdin: f, Stdout: &out, Stderr: f})
				after, err := f.Stat()
				if err != nil || !after.ModTime().Equal(before.ModTime()) || after.Mode() != before.Mode() {
					t.Errorf("the host's %s has changed: %v %v, before %v %v; %v", name, after.Mode(), after.ModTime(),
						before.Mode(), before.ModTime(), err)
				}
				read, written := 3, 0
				switch name {
				case "/dev/null":
					read = 0
				case "/dev/full":
					written = 1
				}
				if want := fmt.Sprintf("%s\n%s\n%d\n%d\n", name, name, read, written); out.String() != want {
					t.Errorf("%s: %q, want %q", name, out.String(), want)
				}
				f.Close()
			}
		})
		t.Run(string(profile)+": no stream at all", func(t *testing.T) {
			var out bytes.Buffer
			runSpec(t, box, Spec{Argv: []string{
				"sh", "-c",
				"readlink /proc/self/fd/0; touch -d @1 /proc/self/fd/0 /dev/null 2>/dev/null",
			}, Dir: ws, Stdout: &out})
			info, err := os.Stat(os.DevNull)
			if err != nil || info.ModTime().Before(time.Unix(10, 0)) {
				t.Errorf("the host's %s has changed: %v, %v", os.DevNull, info.ModTime(), err)
			}
			if out.String() != os.DevNull+"\n" {
				t.Errorf("standard input is %q", out.String())
			}
		})
	}
}

// TestProgramTracedByNobody: a program that asks to be traced by who started it, the
// init process of its call, goes on and ends as any other.
func TestProgramTracedByNobody(t *testing.T) {
	bothLevels(t, func(t *testing.T, cage Backend) {
		ws := shortTemp(t)
		copyFile(t, "/proc/self/exe", ws+"/traced", 0o755)
		box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		if e, out := runIn(t, box, ws, "./traced", "-traced"); e.Code != 7 || !strings.HasSuffix(out, "went on\n") {
			t.Errorf("exit %+v, %q", e, out)
		}
	})
}

// beTraced is that program. Go itself takes the signal, and does nothing on it.
func beTraced() {
	err := sys(unix.SYS_PTRACE, unix.PTRACE_TRACEME)
	if err == nil {
		err = unix.Kill(os.Getpid(), unix.SIGURG)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	fmt.Println("went on")
	os.Exit(7)
}

// TestX39_NoDirectoryAsAStream: openat from one would go round every mask.
func TestX39_NoDirectoryAsAStream(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	dir, err := os.Open(ws)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	if _, err := box.Start(t.Context(), Spec{Argv: []string{"true"}, Dir: ws, Stdin: dir}); err == nil {
		t.Error("a directory was passed on")
	}
}

// TestCallsShareNoIPC: in the profile strict, each call has an ipc namespace of its own, so that calls of one session
// leave each other no System V memory. In the profile light they share one.
func TestCallsShareNoIPC(t *testing.T) {
	for _, profile := range Profiles {
		t.Run(string(profile), func(t *testing.T) {
			ws := shortTemp(t)
			b := newCage(t, Options{Roots: are(ws)})
			if b.Probe().Isolation != "namespaces" {
				needs.Missing(t, "namespaces: %v", b.Probe().Missing)
			}
			box := newBox(t, b, profile, guard.Settings{AllowedWritePaths: []string{ws}})
			first, end := ipcOf(t, box, ws)
			_, second := runIn(t, box, ws, "readlink", "/proc/self/ns/ipc") // the first one runs still
			if !strings.HasPrefix(first, "ipc:[") || (first == second) != (profile == ProfileLight) {
				t.Errorf("the calls are in %q and %q", first, second)
			}
			end()
		})
	}
}

// ipcOf returns the ipc namespace of a call, which runs until end: the kernel gives the number of a namespace that is
// gone to the next one.
func ipcOf(t *testing.T, box Box, ws string) (ipc string, end func()) {
	t.Helper()
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := box.Start(t.Context(), Spec{
		Argv: []string{"sh", "-c", "readlink /proc/self/ns/ipc; exec cat"}, Dir: ws, Stdin: in, Stdout: told,
	})
	in.Close()
	told.Close()
	if err != nil {
		t.Fatal(err)
	}
	if ipc, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return ipc, func() {
		hold.Close()
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestALauncherServesOneProfile: a strict call after a light one of the same session and settings is a strict one, and
// the other way round.
func TestALauncherServesOneProfile(t *testing.T) {
	ws := shortTemp(t)
	b := newCage(t, Options{Roots: are(ws)})
	if b.Probe().Isolation != "namespaces" {
		needs.Missing(t, "namespaces: %v", b.Probe().Missing)
	}
	in := map[Profile][]string{}
	for range 2 {
		for _, profile := range Profiles {
			box, err := b.Box(t.Context(), "one", profile, guard.Settings{AllowedWritePaths: []string{ws}})
			if err != nil {
				t.Fatal(err)
			}
			ipc, end := ipcOf(t, box, ws)
			in[profile] = append(in[profile], ipc)
			defer func() {
				end()
				box.Close()
			}()
		}
	}
	for profile, calls := range in {
		if slices.ContainsFunc(Profiles, func(p Profile) bool { return p != profile && slices.Contains(in[p], calls[0]) }) {
			t.Errorf("%s calls are in a namespace of another profile: %q", profile, in)
		}
	}
	if light := in[ProfileLight]; light[0] != light[1] {
		t.Errorf("light calls are in %q: not in that of their launcher", light)
	}
}
