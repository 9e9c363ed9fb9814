package audit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/store"
)

// TestAcceptBeginsAgain: after a loss, and only then, an operator can go on from what is there.
// The record says so for ever.
func TestAcceptBeginsAgain(t *testing.T) {
	h := newHistory(t)
	for _, tt := range []struct {
		name    string
		how     map[string]string
		problem string // a part of it
		stays   uint64 // lines of the log before
		moved   bool   // the log before was moved aside
	}{
		{"the log was lost", map[string]string{"log": "removed"}, "cut off", 0, false},
		{"the log was restored", map[string]string{"log": "an older copy"}, "cut off", 28, false},
		{"the log is another daemon's", map[string]string{"log": "another daemon's"}, "rewritten", 0, true},
		{"the database was lost", map[string]string{"database": "removed"}, "the database knows no line", 57, false},
		{"the database was restored", map[string]string{"database": "an older copy"}, "older one", 57, false},
		{"the database is another daemon's", map[string]string{"database": "another daemon's"}, "not signed", 57, false},
		{"the head was lost", map[string]string{"head": "removed"}, "head beside the key is missing", 57, false},
		{"the head was restored", map[string]string{"head": "an older copy"}, "older one", 57, false},
		{"the anchor was lost", map[string]string{"anchor": "removed"}, "anchor", 57, false},
		{"the anchor is another daemon's", map[string]string{"anchor": "another daemon's"}, "replaced", 57, false},
		{
			"a new record begins",
			map[string]string{"log": "removed", "database": "removed"},
			"cut off", 0, false,
		},
		{
			"only the key is left",
			map[string]string{"log": "removed", "database": "removed", "head": "removed", "anchor": "removed"},
			"missing", 0, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := h.attack(t, h.now["stopped"], tt.how)
			if _, _, err := w.open(t); !errors.Is(err, ErrTampered) {
				t.Fatalf("before: %v", err)
			}
			db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(w.dir, dbFile)}, Schema())
			must(t, err)
			a, err := Accept(t.Context(), w.Options, NewMirror(db), "uid:7", "restored, ticket 12")
			must(t, err)
			if a.Line != tt.stays+1 || !strings.Contains(a.Problem, tt.problem) || (a.Moved != "") != tt.moved {
				t.Errorf("got %+v, want line %d and %q", a, tt.stays+1, tt.problem)
			}
			if _, err := Accept(t.Context(), w.Options, NewMirror(db), "uid:7", "again"); !errors.Is(err, ErrWhole) {
				t.Errorf("a second time: %v", err)
			}
			must(t, db.Close())
			lost := lineAt(t, w, a.Line)
			if tt.moved {
				text, err := os.ReadFile(a.Moved)
				must(t, err)
				if want := fmt.Sprintf("%s sha256:%x", a.Moved, sha256.Sum256(text)); lost["moved"] != want {
					t.Errorf("the line says %q of the log that was moved, want %q", lost["moved"], want)
				}
			}
			for part, knew := range map[string]string{"head": "57 ", "database": "57 ", "anchor": "57 "} {
				_, changed := tt.how[part]
				if !changed && !strings.HasPrefix(lost[part], knew) || lost["lines"] != fmt.Sprint(tt.stays) {
					t.Errorf("the line says of %s %q, want %q; %q lines", part, lost[part], knew, lost["lines"])
				}
			}
			w.run(t, 3, false)
			rep, err := Verify(t.Context(), w.Options, MirrorAt(filepath.Join(w.dir, dbFile)))
			if err != nil || rep.Bad != nil || len(rep.Accepted) != 1 {
				t.Fatalf("afterwards: %+v, %v", rep, err)
			}
			if got := rep.Accepted[0]; got.Reason != "restored, ticket 12" || got.By != "uid:7" ||
				got.Problem != a.Problem || got.Line != a.Line || got.Moved != a.Moved {
				t.Errorf("the record says %+v", got)
			}
		})
	}
}

// A daemon that died in the middle of a line leaves half of it. The record goes on behind the last whole line.
func TestAcceptCutsOffHalfOfALine(t *testing.T) {
	h := newHistory(t)
	w := h.attack(t, h.now["stopped"], map[string]string{"database": "removed"})
	log, err := os.OpenFile(w.Path(), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = log.WriteString(`{"seq":58,"ti`)
	must(t, errors.Join(err, log.Close()))
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(w.dir, dbFile)}, Schema())
	must(t, err)
	a, err := Accept(t.Context(), w.Options, NewMirror(db), "uid:7", "restored")
	must(t, errors.Join(err, db.Close()))
	if a.Line != 58 {
		t.Errorf("got %+v, want line 58", a)
	}
	w.run(t, 3, false)
	if rep, err := Verify(t.Context(), w.Options, MirrorAt(filepath.Join(w.dir, dbFile))); err != nil || rep.Bad != nil {
		t.Errorf("afterwards: %+v, %v", rep, err)
	}
}

// Who has the key can put back all of this host, and go on from there. The anchor knows another line.
func TestTheAnchorKnowsARecordThatWasWrittenAnew(t *testing.T) {
	h := newHistory(t)
	w := h.from["an older copy"].put(t, h.dir)
	_, anew := w.run(t, 60, false)
	anew.take(h.now["stopped"], anchorFile)
	w = anew.put(t, h.dir)
	if _, _, err := w.open(t); !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), "the anchor") {
		t.Errorf("got %v, want that the anchor differs", err)
	}
}

// lineAt is what a line of the log says beside its message.
func lineAt(t *testing.T, w world, n uint64) map[string]string {
	t.Helper()
	var found map[string]string
	must(t, Tail(t.Context(), w.Path(), 1<<30, false, func(line []byte) error {
		e, err := decode(line)
		if e.Seq == n {
			found = e.Detail
		}
		return err
	}))
	return found
}

// TestAcceptWhenTheKeyIsLost: nothing that is signed can be checked any more. A new key signs from
// there on.
func TestAcceptWhenTheKeyIsLost(t *testing.T) {
	h := newHistory(t)
	c := h.now["stopped"]
	delete(c, keyFile)
	w := c.put(t, h.dir)
	if _, _, err := w.open(t); !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), "key") {
		t.Fatalf("before: %v", err)
	}
	if _, err := os.Stat(w.KeyFile); err == nil {
		t.Fatal("a new key was made beside an old record")
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(w.dir, dbFile)}, Schema())
	must(t, err)
	a, err := Accept(t.Context(), w.Options, NewMirror(db), "uid:7", "the disk of the keys is gone")
	must(t, errors.Join(err, db.Close()))
	if a.Line != 1 || a.Moved == "" {
		t.Errorf("got %+v, want a new log", a)
	}
	w.run(t, 3, false)
}

// TestNoKeyIsMadeBesideAPartOfARecord, whichever part is left.
func TestNoKeyIsMadeBesideAPartOfARecord(t *testing.T) {
	h := newHistory(t)
	for _, left := range []string{logFile, anchorFile, dbFile} {
		c := maps.Clone(h.now["stopped"])
		for name := range c {
			if name != left {
				delete(c, name)
			}
		}
		if len(c) == 0 {
			t.Fatalf("there is no %s", left)
		}
		w := c.put(t, h.dir)
		if _, _, err := w.open(t); !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), "there is a record already") {
			t.Errorf("%s: %v", left, err)
		}
	}
}

// TestAcceptThatFailsCanBeTriedAgain: until all is done, the record is refused as before.
func TestAcceptThatFailsCanBeTriedAgain(t *testing.T) {
	h := newHistory(t)
	w := h.attack(t, h.now["killed"], map[string]string{"log": "an older copy"})
	must(t, os.RemoveAll(filepath.Join(w.dir, "anchor")))
	for range 2 {
		db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(w.dir, dbFile)}, Schema())
		must(t, err)
		if _, err := Accept(t.Context(), w.Options, NewMirror(db), "uid:7", "x"); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("without the disk of the anchor: %v", err)
		}
		must(t, db.Close())
	}
	must(t, os.Mkdir(filepath.Join(w.dir, "anchor"), 0o700))
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(w.dir, dbFile)}, Schema())
	must(t, err)
	_, err = Accept(t.Context(), w.Options, NewMirror(db), "uid:7", "x")
	must(t, errors.Join(err, db.Close()))
	w.run(t, 3, false)
}

// TestAcceptNeedsAReason, and something to accept.
func TestAcceptNeedsAReason(t *testing.T) {
	p := newPlace(t)
	if _, err := Accept(t.Context(), p.Options, p.mirror, "uid:7", " \n"); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("without a reason: %v", err)
	}
	p.fill(t, 3)
	if _, err := Accept(t.Context(), p.Options, p.mirror, "uid:7", "why not"); !errors.Is(err, ErrWhole) {
		t.Errorf("a record that is whole: %v", err)
	}
}

// TestTheOldHistoryIsNotTakenBack: log and database of before a loss was accepted are signed, longer
// than what is there now, and fit together.
func TestTheOldHistoryIsNotTakenBack(t *testing.T) {
	h := newHistory(t)
	old := h.now["stopped"]
	w := h.attack(t, old, map[string]string{"log": "an older copy"})
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(w.dir, dbFile)}, Schema())
	must(t, err)
	_, err = Accept(t.Context(), w.Options, NewMirror(db), "uid:7", "x")
	must(t, errors.Join(err, db.Close()))
	_, now := w.run(t, 3, true) // so that the head does not say where the log ends
	for _, file := range []string{logFile, dbFile, walFile} {
		now.take(old, file)
	}
	if got := outcome(t, h, now, nil); got != "refused" {
		t.Errorf("the old history: %s", got)
	}
}
