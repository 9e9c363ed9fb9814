package idspace

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
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
