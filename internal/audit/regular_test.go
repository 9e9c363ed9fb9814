package audit

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
)

// others are what somebody can put in the place of a file. old is the file, which was moved.
var others = map[string]func(path, old string) error{
	"a pipe":      func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	"a directory": func(path, _ string) error { return os.Mkdir(path, 0o700) },
	"a link":      func(path, old string) error { return os.Symlink(old, path) },
	"a socket": func(path, _ string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err == nil {
			l.SetUnlinkOnClose(false)
			err = l.Close()
		}
		return err
	},
}

// soon fails the test if f waits, as opening or reading a pipe does.
func soon(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it waits")
		return nil
	}
}

// What lies in the place of a file of the record and is no regular file is refused. Nothing waits
// for it.
func TestWhatIsNoRegularFileIsRefused(t *testing.T) {
	for what, put := range others {
		for _, name := range []string{"log", "head", "key", "anchor", "lock"} {
			t.Run(name+" is "+what, func(t *testing.T) {
				p := newPlace(t)
				p.Anchor = Anchor{File: filepath.Join(t.TempDir(), "anchor")}
				p.fill(t, 3)
				lock := filepath.Join(p.Dir, "lock")
				must(t, os.WriteFile(lock, nil, 0o600))
				path := map[string]string{
					"log": p.Path(), "head": p.HeadPath(), "key": p.KeyFile, "anchor": p.Anchor.File, "lock": lock,
				}[name]
				old := filepath.Join(t.TempDir(), "old")
				must(t, os.Rename(path, old))
				must(t, put(path, old))
				err := soon(t, func() error {
					if name == "lock" {
						_, err := LockState(t.Context(), p.Dir)
						return err
					}
					_, err := Open(t.Context(), p.Options, p.mirror)
					return err
				})
				if err == nil || !errors.Is(err, ErrTampered) && name != "key" {
					t.Errorf("open: got %v, want ErrTampered", err)
				}
				if name == "lock" {
					return
				}
				err = soon(t, func() error {
					rep, err := Verify(t.Context(), p.Options, p.mirror)
					if err == nil && rep.Bad != nil {
						return errors.New(rep.Bad.Reason)
					}
					if name != "key" {
						t.Errorf("verify: got %+v (%v)", rep, err)
					}
					return err
				})
				if err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("verify: got %v, want the name of the file", err)
				}
				if name == "log" {
					err := soon(t, func() error {
						return Tail(t.Context(), path, 9, false, func([]byte) error { return nil })
					})
					if !errors.Is(err, ErrTampered) {
						t.Errorf("tail: got %v", err)
					}
				}
			})
		}
	}
}

// An operator can begin again: what lay in the place of the log is moved aside.
func TestAcceptWhenTheLogIsNoRegularFile(t *testing.T) {
	for what, put := range others {
		t.Run(what, func(t *testing.T) {
			p := newPlace(t)
			p.fill(t, 3)
			old := filepath.Join(t.TempDir(), "old")
			must(t, os.Rename(p.Path(), old))
			must(t, put(p.Path(), old))
			var a Accepted
			err := soon(t, func() (err error) {
				a, err = Accept(t.Context(), p.Options, p.mirror, "uid:7", "somebody put it there")
				if err == nil && (a.Line != 1 || a.Moved == "") {
					t.Errorf("got %+v", a)
				}
				return err
			})
			must(t, err)
			if rep := p.verify(t); rep.Bad != nil {
				t.Errorf("afterwards: %v", rep.Bad)
			} else if len(rep.Accepted) != 1 || rep.Accepted[0].Moved != a.Moved {
				t.Errorf("the report has %+v, want what was moved at %s", rep.Accepted, a.Moved)
			}
		})
	}
}

// The same holds for the database, and for the files that SQLite keeps beside it.
func TestADatabaseThatIsNoRegularFileIsRefused(t *testing.T) {
	for what, put := range others {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			t.Run(what+suffix, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state.db")
				db, err := store.Open(t.Context(), store.Options{Path: path}, Schema())
				must(t, err)
				must(t, db.Close())
				old := filepath.Join(t.TempDir(), "old")
				if suffix == "" { // the others are gone when the database is closed
					must(t, os.Rename(path, old))
				}
				must(t, put(path+suffix, old))
				err = soon(t, func() error {
					_, err := MirrorAt(path).Load(t.Context())
					return err
				})
				if !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("got %v, want ErrCorrupt", err)
				}
			})
		}
	}
}
