package identity_test

import (
	"errors"
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
