package identity_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/identity"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// The kernel takes -1 for "as before", so nobody gets rights by it, in whatever place.
func TestWhichIDsAProcessCanHave(t *testing.T) {
	for _, tt := range []struct {
		id   identity.ID
		want bool
	}{
		{identity.ID{}, true},
		{identity.ID{UID: math.MaxUint32 - 1, GID: 1, Groups: []int{2, 3}}, true},
		{identity.ID{UID: -1}, false},
		{identity.ID{GID: -1}, false},
		{identity.ID{Groups: []int{1, -1}}, false},
		{identity.ID{UID: math.MaxUint32}, false},
		{identity.ID{GID: math.MaxUint32}, false},
		{identity.ID{Groups: []int{math.MaxUint32}}, false},
	} {
		if got := tt.id.Valid(); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.id, got, tt.want)
		}
	}
}

// IDs that the kernel does not tell apart have one text, and others have not.
func TestTheTextOfAnID(t *testing.T) {
	for _, tt := range []struct {
		id   identity.ID
		want string
	}{
		{identity.ID{UID: 1, GID: 2}, "uid 1, gid 2"},
		{identity.ID{UID: 1, GID: 2, Groups: []int{9, 3, 9}}, "uid 1, gid 2, groups 3 9"},
		{identity.ID{UID: 1, GID: 2, Groups: []int{3, 9}}, "uid 1, gid 2, groups 3 9"},
	} {
		if got := tt.id.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// A user namespace has the ids of its map, and no process has -1.
func TestWhichIDsANamespaceHas(t *testing.T) {
	if !identity.HasUID(os.Getuid()) || !identity.HasGID(os.Getgid()) {
		t.Error("it has not the ids of this process")
	}
	if identity.HasUID(-1) || identity.HasGID(-1) || identity.HasUID(math.MaxUint32) {
		t.Error("it has ids that no process can have")
	}
}

// rights are what the kernel says of this thread: the ids for files, the groups, the capabilities.
func rights(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); f[0] {
		case "Uid:", "Gid:":
			all = append(all, f[0]+f[4])
		case "Groups:", "CapEff:":
			all = append(all, strings.Join(f, " "))
		}
	}
	return strings.Join(all, "; ")
}

// A thread has the rights of a user to files and none of root's, also where the kernel is told to leave the
// capabilities as they are, and its own rights again afterwards.
func TestAThreadHasTheRightsOfAUser(t *testing.T) {
	needs.Root(t, "to take the rights of others")
	for _, bits := range []uintptr{0, 1 << 2} { // SECBIT_NO_SETUID_FIXUP
		ended := make(chan struct{})
		go func() { // its thread ends with it
			defer close(ended)
			runtime.LockOSThread()
			if err := unix.Prctl(unix.PR_SET_SECUREBITS, bits, 0, 0, 0); err != nil {
				t.Errorf("securebits %d: %v", bits, err)
				return
			}
			before := rights(t)
			err := identity.ID{UID: 4711, GID: 4712, Groups: []int{4713, 4714}}.Do(func() error {
				got := rights(t)
				if !strings.HasPrefix(got, "Uid:4711; Gid:4712; Groups: 4713 4714; CapEff: ") {
					t.Errorf("it has %q", got)
				}
				var caps uint64
				fmt.Sscanf(got[strings.LastIndex(got, " ")+1:], "%x", &caps)
				const files = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER |
					1<<unix.CAP_CHOWN | 1<<unix.CAP_FSETID | 1<<unix.CAP_MKNOD | 1<<unix.CAP_LINUX_IMMUTABLE |
					1<<unix.CAP_MAC_OVERRIDE
				if caps&files != 0 {
					t.Errorf("with securebits %d it has the capabilities %x", bits, caps)
				}
				return nil
			})
			if after := rights(t); err != nil || after != before {
				t.Errorf("%v: afterwards it has %q, had %q", err, after, before)
			}
		}()
		<-ended
	}
}
