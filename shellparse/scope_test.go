package shellparse

import "testing"

// TestScopesAreUsedAgain: a line of many branches needs the memory of the ones that are open at once.
func TestScopesAreUsedAgain(t *testing.T) {
	w, from := &walker{}, &scope{}
	ended := w.borrow(from)
	open := w.borrow(from)
	if open == ended {
		t.Error("two open scopes have the same memory")
	}
	w.giveBack(ended)
	if got := w.borrow(from); got != ended {
		t.Error("a new scope does not have the memory of one that has ended")
	}
}
