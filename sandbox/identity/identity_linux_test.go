package identity_test

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/identity"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestRightsThatCannotBeGivenBack: who goes on would do so with the rights of somebody else.
func TestRightsThatCannotBeGivenBack(t *testing.T) {
	needs.Root(t, "to take the rights of others")
	errOfF := errors.New("what f says")
	result := make(chan error)
	go func() { // its thread ends with it
		result <- identity.ID{UID: 65534, GID: 65534}.Do(func() error {
			head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var none [2]unix.CapUserData
			if err := unix.Capset(&head, &none[0]); err != nil {
				t.Error(err)
			}
			return errOfF
		})
	}()
	err := <-result
	if !errors.Is(err, errOfF) || !errors.Is(err, unix.EPERM) || !errors.Is(err, identity.ErrNotGivenBack) {
		t.Errorf("Do returned %v; it must also say that the rights were not given back", err)
	}
	if err := (identity.ID{UID: 65534, GID: 65534}).Do(func() error { return nil }); err != nil {
		t.Errorf("another thread has its own rights: %v", err)
	}
}

// TestAThreadThatCannotTakeRightsGoesOn: a thread without CAP_SETGID changes nothing, so there is nothing to give back.
func TestAThreadThatCannotTakeRightsGoesOn(t *testing.T) {
	needs.Root(t, "to have the capability to lose")
	result := make(chan error)
	go func() { // its thread ends with it
		runtime.LockOSThread()
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		err := unix.Capget(&head, &caps[0])
		caps[0].Effective &^= 1 << unix.CAP_SETGID
		if err = errors.Join(err, unix.Capset(&head, &caps[0])); err != nil {
			t.Error(err)
		}
		before := rights(t)
		err = identity.ID{UID: 65534, GID: 65534}.Do(func() error { return errors.New("it ran") })
		if after := rights(t); after != before {
			t.Errorf("afterwards it has %q, had %q", after, before)
		}
		result <- err
	}()
	err := <-result
	if !errors.Is(err, identity.ErrNotTaken) || !errors.Is(err, unix.EPERM) || errors.Is(err, identity.ErrNotGivenBack) {
		t.Errorf("Do returned %v, want only that nothing was taken", err)
	}
}
