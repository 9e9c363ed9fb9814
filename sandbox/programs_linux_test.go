package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// aliceID has a group beside her own.
const aliceID, aliceGroup = 64101, 64110

// usersBox is a box over a workspace that everybody may write, with a directory and files of root.
func usersBox(t *testing.T, profile Profile, o Options) (all Box, ws string) {
	t.Helper()
	needs.Root(t, "to be other users")
	base := shortTemp(t)
	ws = filepath.Join(base, "ws")
	err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(ws, 0o777), os.Chmod(ws, 0o777),
		os.WriteFile(filepath.Join(ws, "roots"), []byte("PLANTED\n"), 0o600),
		os.Mkdir(filepath.Join(ws, "closed"), 0o700),
		os.MkdirAll(filepath.Join(ws, "closed", "open"), 0o777),
		os.WriteFile(filepath.Join(ws, "closed", "open", "file"), []byte("PLANTED\n"), 0o644),
		os.WriteFile(filepath.Join(ws, "groups"), []byte("ours\n"), 0o640),
		os.Chown(filepath.Join(ws, "groups"), 0, aliceGroup))
	if err != nil {
		t.Fatal(err)
	}
	// A directory that is named by itself, below one that only root enters: a mount must not
	// open what modes close.
	inner := filepath.Join(base, "roots", "named")
	if err := errors.Join(os.MkdirAll(inner, 0o777), os.Chmod(inner, 0o777), os.Chmod(filepath.Dir(inner), 0o700),
		os.WriteFile(filepath.Join(inner, "file"), []byte("PLANTED\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	o.Roots = are(ws)
	cage := newCage(t, o)
	needCage(t, cage, "mountns")
	return newBox(t, cage, profile, guard.Settings{
		AllowedWritePaths: []string{ws, inner, "/tmp"},
	}), ws
}

func alice() User {
	return NewUser(aliceID, aliceID, []int{aliceGroup}, "alice", "/nonexistent")
}

// A program for a user is that user to the kernel in every way, has no capability, and cannot
// become the daemon again.
func TestAProgramForAUserIsThatUser(t *testing.T) {
	for name, o := range map[string]Options{"user namespace": {}, "none": {NoUserns: true}} {
		for _, profile := range Profiles {
			t.Run(name+"/"+string(profile), func(t *testing.T) {
				all, ws := usersBox(t, profile, o)
				box := all.As(alice())
				exit, out := runIn(t, box, ws, "sh", "-c",
					`grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs):' /proc/self/status | tr -s '\t ' ' '; echo $USER $LOGNAME`)
				want := "Uid: 64101 64101 64101 64101\nGid: 64101 64101 64101 64101\nGroups: 64110 \n" +
					"CapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\n" +
					"CapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nalice alice\n"
				if exit.Code != 0 || out != want {
					t.Errorf("status %d, got\n%s, want\n%s", exit.Code, out, want)
				}
				// The daemon's own programs are as before.
				if _, out := runIn(t, all, ws, "id", "-u"); out != "0\n" {
					t.Errorf("a program of the daemon has uid %s", out)
				}
			})
		}
	}
}

// What the kernel refuses to a user it refuses to the user's programs, and what they make
// belongs to the user.
func TestAProgramForAUserHasItsRights(t *testing.T) {
	all, ws := usersBox(t, "strict", Options{})
	box := all.As(alice())
	for _, tt := range []struct {
		name, script string
		ok           bool
	}{
		{"a file of root", "cat roots", false},
		{"a directory of root", "ls closed", false},
		{"what is open in it", "cat closed/open/file", false},
		{"a named directory below one of root", "cat ../roots/named/file", false},
		{"to write there", "echo x >../roots/named/new", false},
		{"a file of the group", "grep ours groups", true},
		{"to change the owner", "chown 0 groups", false},
		{"to be root", "python3 -c 'import os; os.setuid(0)' 2>/dev/null", false},
		{"a new file", "mkdir dir && echo x >dir/file && ln -s file dir/link", true},
		{"a file in /tmp", "echo x >/tmp/mine && test -O /tmp/mine", true},
		{"a cache", `mkdir -p "$XDG_CACHE_HOME/a" "$GOCACHE/a" "$CARGO_HOME/a" && echo x >"$GOCACHE/a/file"`, true},
		{"its streams", "echo x >/dev/stdout && echo x >/dev/stderr && cat </dev/stdin", true},
		{"shared memory", "echo x >/dev/shm/mine", true},
		{"a script of its own", "printf '#!/bin/sh\nexit 0\n' >run && chmod +x run && ./run", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, err := os.Open("/dev/null")
			if err == nil {
				in.Close()
				in, err = os.Open(filepath.Join(ws, "groups")) // copied into memory
			}
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			var out strings.Builder
			exit := runSpec(t, box, Spec{Argv: []string{"sh", "-c", tt.script}, Dir: ws, Stdin: in, Stdout: &out, Stderr: &out})
			if (exit.Code == 0) != tt.ok || strings.Contains(out.String(), "PLANTED") {
				t.Errorf("status %d: %s", exit.Code, out.String())
			}
		})
	}
	for _, name := range []string{"dir", "dir/file", "dir/link", "run"} {
		info, err := os.Lstat(filepath.Join(ws, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != aliceID || st.Gid != aliceID {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
}

// File tools and programs of a user see the same private files, and those of another user of the
// session see none of them. All go with the session.
func TestPrivateFilesOfTheUsersOfASession(t *testing.T) {
	all, ws := usersBox(t, "strict", Options{})
	hers, other := all.As(alice()), all.As(NewUser(64102, 64102, nil, "", ""))
	use := guard.PathUse{Path: "/tmp/dir/notes", Op: guard.Read}
	if err := WriteFile(t.Context(), hers, use, []byte("hers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if exit, out := runIn(t, hers, ws, "sh", "-c", "cat /tmp/dir/notes && echo x >/tmp/dir/more && rm /tmp/dir/notes"); exit.Code != 0 {
		t.Errorf("a program of the same user: %d %s", exit.Code, out)
	}
	for name, b := range map[string]Box{"another user": other, "the daemon": all} {
		if exit, out := runIn(t, b, ws, "ls", "-A", "/tmp"); exit.Code != 0 || strings.Contains(out, "dir") {
			t.Errorf("%s sees %d %s", name, exit.Code, out)
		}
	}
	backend := all.(*box).cage
	must := backend.sessionDir(t.Name(), alice())
	if _, err := os.Stat(must); err != nil {
		t.Fatal(err)
	}
	if err := backend.Forget(t.Name()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(backend.runtime, sessionPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// Nothing runs for nobody, and nothing for an id that cannot be taken.
func TestNoProgramForNobody(t *testing.T) {
	all, ws := usersBox(t, "strict", Options{})
	for name, u := range map[string]User{"nobody": {}, "an id that nobody can have": NewUser(-1, -1, nil, "", "")} {
		p, err := all.As(u).Start(t.Context(), Spec{Argv: []string{"touch", "ran"}, Dir: ws})
		if err == nil {
			_, err = p.Wait()
		}
		if err == nil {
			t.Errorf("for %s a program ran", name)
		}
	}
	if _, err := os.Stat(filepath.Join(ws, "ran")); err == nil {
		t.Error("it did something")
	}
}

// What a person approved is executed for a user as for the daemon: with its content, and with the
// rights of the user.
func TestBoundFilesOfAUser(t *testing.T) {
	all, ws := usersBox(t, "strict", Options{})
	needBinding(t, all.(*box).cage)
	script, program := filepath.Join(ws, "script.sh"), filepath.Join(ws, "program")
	writeFile(t, script, evilScript)
	copyFile(t, "/bin/cat", program, 0o755)
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, script, evilScript)
	files := []Bound{
		sealed(t, "#!/bin/sh\nid -u\n./program groups\n./program roots\n", script), sealed(t, string(content), program),
	}
	exit, out, err := runBound(t, all.As(alice()), ws, files, script)
	if err != nil || exit.Code == 0 || !strings.HasPrefix(out, "64101\nours\n") || strings.Contains(out, "PLANTED") {
		t.Errorf("status %d, %v: %s", exit.Code, err, out)
	}
}
