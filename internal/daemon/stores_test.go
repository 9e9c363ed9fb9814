package daemon

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestACommandGivesThePasswordOfTheDatabase: commands of store read store.passwordFile as the daemon does. The database
// here speaks the first messages of PostgreSQL: it asks for a password in clear text, and ends the connection.
func TestACommandGivesThePasswordOfTheDatabase(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	passwords := make(chan string, 1)
	ctx, enough := context.WithCancel(t.Context()) // it would be asked again for a minute
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if password, err := askPassword(c); err == nil {
				select {
				case passwords <- password:
				default:
				}
				enough()
			}
			c.Close()
		}
	}()
	s := &Site{Config: &config.Config{Store: config.Store{
		URL: "postgres://sandboxd@" + l.Addr().String() + "/db?sslmode=disable", Password: "from the file", Timeout: time.Second,
	}}}
	p, err := s.openPlace(ctx, s.Config.Store.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.db.Read(ctx, func(*sql.Tx) error { return nil }); err == nil {
		t.Error("a database that ends each connection was read")
	}
	select {
	case got := <-passwords:
		if got != "from the file" {
			t.Errorf("the password is %q", got)
		}
	default:
		t.Error("no password was given")
	}
}

// What is no state directory of this user is not opened, and no database is made in it.
func TestAPlaceThatIsNoStoreOfThisUser(t *testing.T) {
	needs.Root(t, "to give a directory to another user")
	s := &Site{Config: &config.Config{}}
	s.Paths.Database = "state.db"
	dir := t.TempDir()
	file := filepath.Join(dir, "state.db")
	for _, tt := range []struct {
		code   string
		change func() error
	}{
		{"store_not_found", func() error { return nil }},
		{"store_of_another", func() error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(dir, 12345, -1))
		}},
	} {
		if err := tt.change(); err != nil {
			t.Fatal(err)
		}
		p, err := s.openPlace(t.Context(), dir, "")
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tt.code {
			t.Errorf("got %v, want %s", err, tt.code)
			if err == nil {
				p.Close()
			}
		}
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			t.Error("a database was made")
		}
	}
}

// A record that somebody changed has a code of its own, on whatever way it is noticed.
func TestATamperedRecordHasACode(t *testing.T) {
	err := tampered(fmt.Errorf("open the record: %w: line 7", audit.ErrTampered))
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != "record_tampered" || !strings.Contains(e.Msg, "line 7") ||
		!strings.Contains(e.Hint, "sandboxd audit verify") {
		t.Errorf("got %+v", e)
	}
	if other := errors.New("the disk is gone"); tampered(other) != other || tampered(nil) != nil {
		t.Error("another error is taken for it")
	}
}

// What keeps a record from being accepted: a daemon that has the state directory, and a database that is damaged.
func TestWhatKeepsARecordFromBeingAccepted(t *testing.T) {
	siteDir(t, "")
	site, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	accept := func(code string) {
		t.Helper()
		_, err := site.AcceptRecord(t.Context(), "a test")
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != code || e.Hint == "" {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	lock, err := audit.LockState(t.Context(), site.Paths.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	accept("state_in_use")
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(site.Paths.Database, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	accept("database_damaged")
}

// What a database that cannot be used is called, on whatever way it is opened.
func TestADatabaseThatCannotBeUsedHasACode(t *testing.T) {
	for cause, code := range map[error]string{
		store.ErrUnfinished: "store_unfinished", store.ErrDenied: "store_denied", store.ErrNewer: "store_newer",
		store.ErrCorrupt: "store_foreign", store.ErrReadOnly: "store_unavailable", store.ErrFull: "store_unavailable",
		store.ErrUnavailable: "store_unavailable",
	} {
		err := withHint(fmt.Errorf("open database x: %w", cause))
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != code || e.Hint == "" || !strings.Contains(e.Msg, "open database x") {
			t.Errorf("%v: got %+v, want %s with a hint", cause, err, code)
		}
	}
}

// A copy reads tables of this version alone, and none into which another copy has not ended.
func TestWhichSourcesACopyRefuses(t *testing.T) {
	siteDir(t, "")
	site, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *place {
		t.Helper()
		p, err := site.openPlace(t.Context(), site.Paths.StateDir, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	refuses := func(p *place, code, words string) {
		t.Helper()
		err := site.current(t.Context(), p)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != code || !strings.Contains(e.Msg, words) || !strings.Contains(e.Hint, "sandboxd store") {
			t.Errorf("got %v, want %s with %q", err, code, words)
		}
	}
	all := schemas(site.features)
	db, err := store.Open(t.Context(), store.Options{Path: site.Paths.Database}, all[0])
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	p := open()
	refuses(p, "store_outdated", "has version 0 of the tables of ")
	if err := p.db.Migrate(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	if err := site.current(t.Context(), p); err != nil {
		t.Errorf("of this version: %v", err)
	}
	if err := p.db.Write(t.Context(), func(tx *sql.Tx) error { return p.db.BeginCopy(tx, "elsewhere") }); err != nil {
		t.Fatal(err)
	}
	p.Close()
	refuses(open(), "store_unfinished", "from elsewhere") // opened as it is: a copy could go on
}

// What keeps recorded calls from being judged again is named.
func TestWhereNothingIsRecorded(t *testing.T) {
	siteDir(t, "")
	site, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	refuses := func(words string) {
		t.Helper()
		_, err := site.Recorded(t.Context())
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != "nothing_recorded" || !strings.Contains(e.Msg, words) || e.Hint == "" {
			t.Errorf("got %v, want nothing_recorded with %q", err, words)
		}
	}
	refuses("no calls are recorded in " + fmt.Sprintf("%q", site.Paths.StateDir))
	if _, err := os.Stat(site.Paths.Database); err == nil {
		t.Error("a database was made")
	}
	db, err := store.Open(t.Context(), store.Options{Path: site.Paths.Database})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	refuses("written by an older version of sandboxd")
	site.Config.Policy.KeepDecisions = 0
	refuses("policy.keepDecisions is 0")
}

// What sandboxd exec kept cannot be undone where it is not opened.
func TestWhatExecKeptIsClosed(t *testing.T) {
	dir, err := filepath.EvalSymlinks(siteDir(t, "undo: {mode: \"off\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "work"))
	site, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(site.execDir(filepath.Join(dir, "work")), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = OpenExecStore(t.Context(), "test", nil)
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != "undo_exec_closed" || !strings.Contains(e.Msg, "/work cannot be opened: ") {
		t.Errorf("got %v", err)
	}
}

// askPassword reads the start of a connection, asks for the password and returns it.
func askPassword(c net.Conn) (string, error) {
	read := func(head int) ([]byte, error) { // a message after head bytes of its kind, with its length before it
		b := make([]byte, head+4)
		if _, err := io.ReadFull(c, b); err != nil {
			return nil, err
		}
		body := make([]byte, binary.BigEndian.Uint32(b[head:])-4)
		_, err := io.ReadFull(c, body)
		return body, err
	}
	if _, err := read(0); err != nil {
		return "", err
	}
	const cleartext = "R\x00\x00\x00\x08\x00\x00\x00\x03"
	if _, err := io.WriteString(c, cleartext); err != nil {
		return "", err
	}
	body, err := read(1)
	if err != nil {
		return "", err
	}
	return string(body[:len(body)-1]), nil // it ends with a zero
}
