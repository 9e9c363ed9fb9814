package provenance_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/provenance"
)

// TestForgottenTextsLeaveRoom: what a session that has gone held counts no more, so the texts of
// the others stay in memory.
func TestForgottenTextsLeaveRoom(t *testing.T) {
	page := []byte(strings.Repeat("a page of the web. ", 20))
	x := provenance.Index{Bound: 2 * len(page)}
	look := func(session string, read provenance.Reader) error {
		by, err := x.Copied(session, 1, string(page[:200]), read)
		if err == nil && by != provenance.ByWeb {
			t.Errorf("%s: copied from %v, want the web", session, by)
		}
		return err
	}
	read := func(_ int64, add func(provenance.Authors, []byte)) error {
		add(provenance.ByWeb, page)
		return nil
	}
	for _, session := range []string{"gone", "stays"} {
		if err := look(session, read); err != nil {
			t.Fatal(err)
		}
	}
	x.Forget("gone")
	if err := look("new", read); err != nil {
		t.Fatal(err)
	}
	if err := look("stays", nil); err != nil {
		t.Errorf("there is room for two sessions, but the text of the second is gone: %v", err)
	}
	if err := look("one more", read); err != nil {
		t.Fatal(err)
	}
	if err := look("stays", nil); !errors.Is(err, provenance.ErrBehind) {
		t.Errorf("three texts are held where two have room: %v", err)
	}
}
