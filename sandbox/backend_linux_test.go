package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// A backend that nobody uses starts no launcher: sandboxd check and the hook make one for its settings alone.
func TestABackendStartsNothingBeforeItIsAsked(t *testing.T) {
	dir := t.TempDir()
	child, began := filepath.Join(dir, "child"), filepath.Join(dir, "began")
	if err := os.WriteFile(child, []byte("#!/bin/sh\n: >"+began+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := NewBackend(Options{Runtime: filepath.Join(dir, "run"), Child: child})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := os.Stat(began); !os.IsNotExist(err) {
		t.Errorf("a launcher began with the backend: %v", err)
	}
	b.Probe()
	if _, err := os.Stat(began); err != nil {
		t.Errorf("Probe started no launcher: %v", err)
	}
}
