package audit

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/golden"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// world is everything that a record consists of, in files.
type world struct {
	dir string
	Options
}

// The files of a world, by name below its directory.
const (
	logFile    = "state/audit.jsonl"
	dbFile     = "state/state.db"
	walFile    = "state/state.db-wal"
	headPath   = "key/audit.head"
	keyFile    = "key/audit.key"
	anchorFile = "anchor/head"
)

var worldFiles = []string{logFile, dbFile, walFile, headPath, keyFile, anchorFile}

func newWorld(t testing.TB, dir string) world {
	t.Helper()
	for _, name := range []string{"state", "key", "anchor"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return world{dir, Options{
		Dir: filepath.Join(dir, "state"), KeyFile: filepath.Join(dir, keyFile),
		SyncEvery: time.Millisecond, KeepEvery: time.Millisecond, testOnlyCheckpoints: 10,
		Anchor: Anchor{File: filepath.Join(dir, anchorFile), Every: time.Millisecond},
	}}
}

// copyOf is a snapshot: the content of the files that there are.
type copyOf map[string][]byte

func (w world) copy(t testing.TB) copyOf {
	t.Helper()
	out := copyOf{}
	for _, name := range worldFiles {
		text, err := os.ReadFile(filepath.Join(w.dir, name))
		if err == nil {
			out[name] = text
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return out
}

// put makes a world of a snapshot, in the place of the one that is in dir.
func (c copyOf) put(t testing.TB, dir string) world {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, dir)
	for name, text := range c {
		if err := os.WriteFile(filepath.Join(w.dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// open opens the record as the daemon does.
func (w world) open(t testing.TB) (*Log, *store.DB, error) {
	t.Helper()
	path := filepath.Join(w.dir, dbFile)
	if err := w.CheckDatabase(path); err != nil {
		return nil, nil, err
	}
	db, err := store.Open(t.Context(), store.Options{Path: path}, Schema())
	if err != nil {
		return nil, nil, err
	}
	l, err := Open(t.Context(), w.Options, NewMirror(db))
	if err != nil {
		err = errors.Join(err, db.Close())
	}
	return l, db, err
}

// run writes n lines and waits until everybody knows them. before runs then; killed ends the
// daemon as kill -9 would, and the snapshot is what that leaves.
func (w world) run(t testing.TB, n int, killed bool) (running, after copyOf) {
	t.Helper()
	l, db, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := l.Append(t.Context(), tool.Note{Name: "operator", Message: fmt.Sprint("event ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if k := l.newest(); k.Seq == l.Status().Line && k.Anchored == k.Seq {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the line is not known: %+v", l.Status())
		}
	}
	running = w.copy(t)
	if killed {
		l.anchoring.stop()
		<-l.anchoring.done
		l.kill(t)
		after = w.copy(t)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if !killed {
		after = w.copy(t)
	}
	return running, after
}

// history is what an attacker has to work with.
type history struct {
	dir  string
	now  map[string]copyOf       // "stopped" and "killed": the record, after a clean stop and after kill -9
	from map[string]copyOf       // by manner: copies that can be put in its place
	rows map[string][]Checkpoint // that are in the databases of those
}

func newHistory(t testing.TB) history {
	t.Helper()
	h := history{
		dir: filepath.Join(t.TempDir(), "w"), now: map[string]copyOf{}, from: map[string]copyOf{},
		rows: map[string][]Checkpoint{},
	}
	running, stopped := newWorld(t, h.dir).run(t, 25, false)
	_, h.now["stopped"] = stopped.put(t, h.dir).run(t, 25, false)
	_, h.now["killed"] = stopped.put(t, h.dir).run(t, 25, true)
	h.from["an older copy"], h.from["an older copy, of a running daemon"] = stopped, running
	_, h.from["another daemon's"] = newWorld(t, filepath.Join(t.TempDir(), "other")).run(t, 60, false)
	for manner, c := range h.from {
		seen, err := MirrorAt(filepath.Join(c.put(t, h.dir).dir, dbFile)).Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.rows[manner] = seen.Checkpoints
	}
	return h
}

// piece is a part of a record that somebody can change.
type piece struct {
	name  string
	files []string
	cut   int // bytes that are left when it is cut short; negative: that are not
}

var pieces = []piece{
	{"log", []string{logFile}, -1500},
	{"database", []string{dbFile, walFile}, 6000},
	{"checkpoints", nil, 0}, // rows of the database
	{"head", []string{headPath}, 100},
	{"anchor", []string{anchorFile}, 100},
}

// manners are what somebody can do with a part.
var manners = []string{
	"removed", "emptied", "cut short", "an older copy", "an older copy, of a running daemon", "another daemon's",
}

// attack does it to some parts of a record.
func (h history) attack(t testing.TB, now copyOf, how map[string]string) world {
	t.Helper()
	c := maps.Clone(now)
	for _, p := range pieces {
		for _, file := range p.files {
			switch how[p.name] {
			case "removed":
				delete(c, file)
			case "emptied":
				if file == walFile {
					delete(c, file)
				} else {
					c[file] = nil
				}
			case "cut short":
				if text := c[file]; p.cut < 0 {
					c[file] = text[:len(text)+p.cut]
				} else {
					c[file] = text[:min(p.cut, len(text))]
				}
			case "":
			default:
				c.take(h.from[how[p.name]], file)
			}
		}
	}
	w := c.put(t, h.dir)
	if how["checkpoints"] != "" {
		h.attackRows(t, w, how["checkpoints"])
	}
	return w
}

func (c copyOf) take(from copyOf, file string) {
	delete(c, file)
	if text, ok := from[file]; ok {
		c[file] = text
	}
}

// attackRows changes the checkpoints in the database, if there is one.
func (h history) attackRows(t testing.TB, w world, how string) {
	t.Helper()
	path := filepath.Join(w.dir, dbFile)
	if empty, err := isEmpty(path); err != nil || empty {
		return
	}
	db, err := store.Open(t.Context(), store.Options{Path: path}, Schema())
	if errors.Is(err, store.ErrCorrupt) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		where := ""
		if how == "cut short" {
			where = " WHERE seq = (SELECT max(seq) FROM audit_checkpoints)"
		}
		if _, err := tx.Exec("DELETE FROM audit_checkpoints" + where); err != nil {
			return err
		}
		for _, c := range h.rows[how] {
			_, err := tx.Exec("INSERT INTO audit_checkpoints VALUES ($1, $2, $3, $4)", c.Seq, c.Hash, c.End, c.Signature)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// outcome is what a start and audit verify say, which must be the same.
func outcome(t testing.TB, h history, now copyOf, how map[string]string) string {
	t.Helper()
	attacked := h.attack(t, now, how)
	verified, err := Verify(t.Context(), attacked.Options, MirrorAt(filepath.Join(attacked.dir, dbFile)))
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("%v: verify: %v", how, err)
	}
	told := err != nil || verified.Bad != nil
	before := attacked.copy(t)
	l, db, err := attacked.open(t)
	switch {
	case err == nil:
		if err := errors.Join(l.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	case !errors.Is(err, ErrTampered) && !errors.Is(err, store.ErrCorrupt):
		t.Errorf("%v: start: %v", how, err)
	default:
		// What was refused is evidence. The database is only tidied: its log is moved into it.
		for _, file := range []string{logFile, headPath, keyFile, anchorFile} {
			if after := attacked.copy(t); !bytes.Equal(before[file], after[file]) || (before[file] == nil) != (after[file] == nil) {
				t.Errorf("%v: a start that was refused has changed %s", how, file)
			}
		}
	}
	if told != (err != nil) {
		t.Errorf("%v: verify tells %v (%+v), start: %v", how, told, verified, err)
	}
	if told {
		return "refused"
	}
	return "starts"
}

// TestGeneratedTableOfAttacks: whatever is done to whichever files, the start refuses it and
// audit verify tells it, or it is a line of the table that says otherwise.
func TestGeneratedTableOfAttacks(t *testing.T) {
	golden.Slow(t, "it changes a record in each way, for each set of its files")
	h := newHistory(t)
	var table strings.Builder
	table.WriteString("| changed | " + strings.Join(manners, " | ") + " |\n|" + strings.Repeat(" --- |", len(manners)+1) + "\n")
	for subset := 1; subset < 1<<len(pieces); subset++ {
		var names []string
		for i, p := range pieces {
			if subset&(1<<i) != 0 {
				names = append(names, p.name)
			}
		}
		table.WriteString(rowOf(t, h, names) + "\n")
	}
	golden.Section(t, "../../docs/audit.md", "attacks", table.String())
}

// rowOf is what comes of changing these files, in each manner.
func rowOf(t *testing.T, h history, names []string) string {
	row := "| " + strings.Join(names, ", ") + " |"
	for _, manner := range manners {
		how := map[string]string{}
		for _, name := range names {
			how[name] = manner
		}
		stopped := outcome(t, h, h.now["stopped"], how)
		killed := outcome(t, h, h.now["killed"], how)
		switch {
		case stopped != killed:
			row += fmt.Sprintf(" stopped: %s, killed: %s |", stopped, killed)
		case stopped == "refused":
			row += " refused |"
		default:
			row += " **" + stopped + "** |"
		}
	}
	return row
}

// TestOneFileThatIsChanged: the rows of the table for one file, which make test would leave out with the rest.
func TestOneFileThatIsChanged(t *testing.T) {
	text, err := os.ReadFile("../../docs/audit.md")
	must(t, err)
	h := newHistory(t)
	for _, p := range pieces {
		if row := rowOf(t, h, []string{p.name}); !strings.Contains(string(text), "\n"+row+"\n") {
			t.Errorf("docs/audit.md does not say %s", row)
		}
	}
}

// TestNothingWithoutTheHead: whoever leaves the head beside the key alone cannot change anything
// else, each part in its own way, without being seen.
func TestNothingWithoutTheHead(t *testing.T) {
	h := newHistory(t)
	r := tier.Rand(t)
	for range tier.Rounds(t, 50, 150) {
		how := map[string]string{}
		for _, p := range pieces {
			if n := r.IntN(len(manners) + 2); n < len(manners) && p.name != "head" {
				how[p.name] = manners[n]
			}
		}
		for name, now := range h.now {
			got := outcome(t, h, now, how)
			if want := map[bool]string{true: "starts", false: "refused"}[len(how) == 0]; got != want {
				t.Errorf("%s, %v: %s, want %s", name, how, got, want)
			}
		}
	}
}

// TestAnOlderDatabaseWithoutACheckpointBetween: the checkpoints do not say that it is older.
func TestAnOlderDatabaseWithoutACheckpointBetween(t *testing.T) {
	w := newWorld(t, filepath.Join(t.TempDir(), "w"))
	w.testOnlyCheckpoints = 1000
	_, older := w.run(t, 5, true)
	_, now := w.run(t, 5, true)
	for _, file := range []string{dbFile, walFile} {
		now.take(older, file)
	}
	if got := outcome(t, history{dir: w.dir}, now, nil); got != "refused" {
		t.Errorf("an older database: %s", got)
	}
}

// TestTheLogOfTheDatabaseAlone: without its -wal a database is an older one.
func TestTheLogOfTheDatabaseAlone(t *testing.T) {
	h := newHistory(t)
	c := maps.Clone(h.now["killed"])
	if len(c[walFile]) == 0 {
		t.Fatal("the daemon that was killed left no -wal")
	}
	for name, wal := range map[string][]byte{
		"removed": nil, "emptied": {}, "cut short": c[walFile][:len(c[walFile])/2],
	} {
		if c[walFile] = wal; name == "removed" {
			delete(c, walFile)
		}
		if got := outcome(t, h, c, nil); got != "refused" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestWhatAnAttackerCanGain: after a crash, exactly the lines behind the head beside the key can
// be cut off unseen, and no line up to it. After a clean stop, none.
func TestWhatAnAttackerCanGain(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.KeepEvery = time.Hour // so that the head stays behind
	l, db, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	line := func() {
		t.Helper()
		if err := l.Append(t.Context(), tool.Note{Name: "operator"}); err != nil {
			t.Fatal(err)
		}
		if err := l.waitSynced(t.Context(), l.Status().Line); err != nil {
			t.Fatal(err)
		}
	}
	line()
	for end := time.Now().Add(time.Minute); l.Status().Kept == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the head is not written")
		}
	}
	kept := l.Status().Kept
	var copies []copyOf
	for range 8 {
		line()
		copies = append(copies, w.copy(t))
	}
	if l.Status().Kept != kept {
		t.Fatal("the head was written twice in an hour")
	}
	l.anchoring.stop()
	<-l.anchoring.done
	l.kill(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h := history{dir: w.dir}
	for i, c := range copies {
		if got := outcome(t, h, c, nil); got != "starts" {
			t.Errorf("back to line %d, behind the head: %s", int(kept)+i+1, got)
		}
		c = maps.Clone(c)
		c[logFile] = c[logFile][:bytes.IndexByte(c[logFile], '\n')] // no whole line
		if got := outcome(t, h, c, nil); got != "refused" {
			t.Errorf("back to before the head: %s", got)
		}
	}
}

// TestNothingFollowsACleanStop: a line that fits is one that an attacker made.
func TestNothingFollowsACleanStop(t *testing.T) {
	h := newHistory(t)
	for name, want := range map[string]string{"stopped": "refused", "killed": "starts"} {
		c := maps.Clone(h.now[name])
		lines := bytes.SplitAfter(c[logFile], []byte("\n"))
		last, err := decode(lines[len(lines)-2])
		if err != nil {
			t.Fatal(err)
		}
		forged, _, err := Entry{Seq: last.Seq + 1, Prev: last.Hash, Event: "operator", Message: "all is well"}.encode()
		if err != nil {
			t.Fatal(err)
		}
		for what, more := range map[string][]byte{"a line": forged, "half of a line": forged[:20]} {
			c[logFile] = append(bytes.Join(lines, nil), more...)
			if got := outcome(t, h, c, nil); got != want {
				t.Errorf("%s, %s was added: %s, want %s", name, what, got, want)
			}
		}
	}
}
