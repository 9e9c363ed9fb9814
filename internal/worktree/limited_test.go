package worktree

import (
	"bytes"
	"testing"
)

// TestWhatGitPrintsIsBounded: a megabyte is kept, and git is told that all of it was taken.
func TestWhatGitPrintsIsBounded(t *testing.T) {
	var l limited
	part := bytes.Repeat([]byte("x"), 700<<10)
	for range 3 {
		if n, err := l.Write(part); n != len(part) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if l.Len() != 1<<20 {
		t.Errorf("%d bytes are kept, want %d", l.Len(), 1<<20)
	}
}
