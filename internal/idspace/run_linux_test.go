package idspace

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestTheGroupOfRootIsNotThere: it would open what only root may read. The uid of the daemon and those of the accounts are
// there, each under its own number.
func TestTheGroupOfRootIsNotThere(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, and its uid with it
		if os.Geteuid() == 0 {
			if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 64110, ^uintptr(0)); err != 0 {
				t.Error(err)
				return
			}
		}
		uids, gids, err := IDs{UIDs: []int{64111}, GIDs: []int{0, 64112}}.all()
		if err != nil {
			t.Error(err)
			return
		}
		found := map[int]bool{}
		for _, m := range append(uids, gids...) {
			found[m.HostID] = true
			if m.HostID == 0 || m.ContainerID != m.HostID || m.Size != 1 {
				t.Errorf("mapped %+v", m)
			}
		}
		for _, id := range []int{os.Geteuid(), 64111, 64112} {
			if !found[id] {
				t.Errorf("%d is not mapped: %v, %v", id, uids, gids)
			}
		}
	}()
	<-done
}

// TestGroupsAreThoseOfTheProcessWhenItConnected: not those that the database of users gives its uid, and not those that it
// has joined or left since.
func TestGroupsAreThoseOfTheProcessWhenItConnected(t *testing.T) {
	needs.Root(t, "to join groups")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, and its groups with it
		join := func(groups ...uint32) bool {
			_, _, err := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
			if err != 0 {
				t.Error(err)
			}
			return err == 0
		}
		if !join(64113, 64114) {
			return
		}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) // which connects them
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		if !join(64115) {
			return
		}
		p, err := PeerOf(fds[0])
		if err != nil || p.PID != os.Getpid() || !slices.Equal(p.Groups, []int{64113, 64114}) {
			t.Errorf("got %+v, %v; want groups 64113 and 64114", p, err)
		}
	}()
	<-done
}
