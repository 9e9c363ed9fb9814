package prebuilt

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestStateHasTheTables: State copies the tables that Programs made.
func TestStateHasTheTables(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(t.TempDir(), "a", "state")
	if err := State(dir, state); err == nil {
		t.Error("a directory without programs gives a state")
	}
	made := filepath.Join(dir, tables)
	if err := errors.Join(os.MkdirAll(filepath.Dir(made), 0o700), os.WriteFile(made, []byte("tables"), 0o600), State(dir, state)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(state, "state.db"))
	if err != nil || string(got) != "tables" {
		t.Errorf("got %q, %v", got, err)
	}
}
