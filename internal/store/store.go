// Package store keeps the daemon's state in a file of SQLite ([Open]), or in PostgreSQL, which
// several daemons share ([OpenShared]). It knows no tables of others: each package that stores
// brings its own as a [Schema] and keeps its own SQL. It gives transactions and migrations. Beside
// them there are notices to other daemons ([DB.Notify]), a [Cache], pages of a list ([ReadPage]),
// turns by account ([DB.ShareBy]), and what copies and status need (inspect.go, unfinished.go).
//
//	db, err := store.Open(ctx, store.Options{Path: dir + "/state.db"}, notes) // notes is a Schema
//	err = db.Write(ctx, func(tx *sql.Tx) error {
//		_, err := tx.Exec(`INSERT INTO notes (id, text) VALUES ($1, $2)`, id, text)
//		return err
//	})
//	err = db.Read(ctx, func(tx *sql.Tx) error { … }) // cannot change anything
//	err = db.Close()                                 // waits for the writer; reads that run fail
//
// When Write returns nil, the change survives a kill -9 of the daemon. With Sync "full", after
// [DB.WriteSynced] and over PostgreSQL it also survives a loss of power. With "normal" a loss of
// power may take the last writes, but no part of one, and none from before a WriteSynced.
//
// A Write that returns an error changed nothing; only after [ErrUnknown] it may have. A WriteSynced
// whose sync fails has made its change. A Read sees one moment of the database. Over a file it does
// not wait for writers.
//
// SQL uses the placeholders $1, $2, … and the types and clauses that SQLite and PostgreSQL share.
// Both pass the same suite, [github.com/sandboxd/sandboxd/internal/store/storetest]. Tables that
// daemons share have migrations for both ([EmbeddedBoth]), others for SQLite alone ([Embedded]). A
// migration is a new file; one that was applied never changes.
//
// Over PostgreSQL one daemon writes at a time, behind an advisory lock, so that a write sees all
// that was written before it, as over a file. The function of a transaction runs at most once. A
// Write that gets no turn, and a Read that cannot connect, are [ErrUnavailable] after the timeout;
// a server that falls silent is noticed after twice as long. A Read waits for one of the
// connections that there are until its context ends. If a commit gets no answer, Write looks up
// whether it happened.
//
// The file belongs to one daemon. Another program may hold its lock for at most ten seconds. After
// somebody has put another file into its place, reads and writes are [ErrRestored] as long as it is
// there; a file that was overwritten in place is not noticed. Over PostgreSQL a restored database
// is noticed by the next new connection, and all is ErrRestored until the daemon restarts.
//
// A Write inside a Write waits for itself, and so does one inside a Read of an in-memory database:
// use the transaction that is at hand.
//
// A caller that gets an error denies: nothing runs that cannot be written down. An error of the caller's
// function comes back, perhaps wrapped. Causes that a person can mend have names, and some a code and
// a hint (errors.go); a new cause goes there, with the codes of the databases that mean it. No other
// package imports a driver.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	_ "modernc.org/sqlite" // the driver, without cgo
)

// Options says where the database is, and which crash a committed write survives.
type Options struct {
	Path string // ":memory:" lives as long as the DB
	Sync string // "normal" (also "") or "full"
	// AsIs makes no tables and migrates none. It also opens a database into which a copy has not ended.
	AsIs bool
}

// Schema describes the tables of one package.
type Schema struct {
	Name  string // name of the package, under which migrations are recorded
	Files fs.FS  // 0001_what.sql, 0002_what.sql, … in the root; applied ones never change
	// Postgres are the migrations for a database that daemons share. If nil, each daemon has these tables to itself.
	Postgres fs.FS
}

// Embedded returns the schema of a package that embeds its directory migrations.
func Embedded(name string, files embed.FS) Schema {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic("cannot happen, the name is valid: " + err.Error())
	}
	return Schema{Name: name, Files: sub}
}

// EmbeddedBoth is [Embedded] for tables that daemons share. Their migrations are in migrations/postgres.
func EmbeddedBoth(name string, files embed.FS) Schema {
	s := Embedded(name, files)
	var err error
	if s.Postgres, err = fs.Sub(s.Files, "postgres"); err != nil {
		panic("cannot happen, the name is valid: " + err.Error())
	}
	return s
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	writer *sql.DB
	conn   *sql.Conn              // the writer's only connection, for whoever has the turn
	turns  turns                  // order the writers
	stmts  map[string]*sql.Stmt   // prepared on conn, by text; guarded by turns
	after  []func(committed bool) // run when the running write has ended; guarded by turns
	reader *sql.DB                // nil for an in-memory database: it has one connection
	reads  sync.Map               // prepared on reader, by text
	asked  sync.Map               // texts of reads that are prepared, or will be
	sync   string                 // how the writer syncs, in the words of SQLite
	path   string                 // of the file; "" for an in-memory or a shared database
	file   os.FileInfo            // the file at path when it was opened
	tight  atomic.Bool
	// Of WriteSynced: whether the directory of the log was synced, and what syncs a file.
	entered atomic.Bool
	flush   func(*os.File) error
	log     log
	asIs    bool
	hub     hub
	shared  *shared // nil over a file, which one daemon has to itself

	ending context.Context // done when the database is closed
	end    context.CancelFunc
}

// Open opens or creates the database and brings every schema up to date. The
// errors a person can act on are [ErrNewer], [ErrCorrupt], [ErrReadOnly] and
// [ErrFull].
func Open(ctx context.Context, o Options, schemas ...Schema) (*DB, error) {
	db, err := open(ctx, o, schemas)
	if err != nil {
		return nil, fmt.Errorf("open database %q: %w", o.Path, clear(err))
	}
	return db, nil
}

func open(ctx context.Context, o Options, schemas []Schema) (*DB, error) {
	sync := map[string]string{"": "NORMAL", "normal": "NORMAL", "full": full}[o.Sync]
	if sync == "" {
		return nil, fmt.Errorf("unknown sync %q, want normal or full", o.Sync)
	}
	memory := o.Path == ":memory:"
	if !memory {
		if err := createPrivate(o.Path); err != nil {
			return nil, err
		}
	}
	db := &DB{
		stmts: map[string]*sql.Stmt{}, sync: sync, asIs: o.AsIs, log: log{pages: map[string]int{}},
		flush: (*os.File).Sync,
	}
	db.ending, db.end = context.WithCancel(context.Background())
	var err error
	if db.writer, err = connect(o.Path, sync, "immediate"); err != nil {
		db.end()
		return nil, err
	}
	if db.conn, err = db.writer.Conn(ctx); err != nil {
		db.end()
		return nil, errors.Join(err, db.writer.Close())
	}
	if !o.AsIs {
		if err := migrate(ctx, db, schemas); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	if memory {
		return db, nil
	}
	if db.file, err = os.Stat(o.Path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.path = o.Path
	if db.reader, err = connect(o.Path, sync, "deferred"); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.reader.SetMaxOpenConns(8)
	db.reader.SetMaxIdleConns(8)
	return db, nil
}

// replaced returns [ErrRestored] after another file, or none, has come to the path of the database. Open connections
// would go on with the old file, which is lost when the daemon ends; new ones would begin an empty file.
func (db *DB) replaced() error {
	if db.path == "" {
		return nil
	}
	switch now, err := os.Stat(db.path); {
	case err == nil && os.SameFile(now, db.file):
		return nil
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return ErrRestored
	default:
		return clear(err)
	}
}

// full is the name that SQLite has for a log that is synced with every commit.
const full = "FULL"

func connect(path, sync, lock string) (*sql.DB, error) {
	q := url.Values{"_txlock": {lock}, "_dqs": {"0"}, "_defensive": {"1"}, "_error_rc": {"1"}, "_pragma": {
		"busy_timeout(10000)", // a backup or a second process may hold the lock for a moment
		"journal_mode(WAL)",
		"synchronous(" + sync + ")",
		"foreign_keys(1)",
		"trusted_schema(0)",
		"journal_size_limit(67108864)", // a burst of writes must not leave a huge log
	}}
	if lock == "deferred" {
		q.Add("_pragma", "query_only(1)")
	} else {
		q.Add("_pragma", fmt.Sprintf("wal_autocheckpoint(%d)", mostPages))
	}
	name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
	return sql.Open("sqlite", name)
}

// createPrivate makes the file before SQLite does, because SQLite gives the log files the mode of the database, and
// the umask must not decide that mode.
func createPrivate(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		// SQLite would open a pipe and wait for ever.
		if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%w: %s has mode %v, want a regular file", ErrCorrupt, name, info.Mode())
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Perm() == 0o600 {
		return err
	}
	return f.Chmod(0o600)
}

// Close waits for the writer and then closes. Reads that still run fail. A second Close does nothing.
func (db *DB) Close() error {
	db.end()
	db.log.close()
	release, err := db.acquire(context.Background())
	if err != nil {
		return err
	}
	defer release()
	if db.shared != nil {
		db.shared.stop()
		db.shared.listening.Wait()
		db.disconnect()
		return errors.Join(db.writer.Close(), db.reader.Close())
	}
	err = db.conn.Close()
	if errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	err = errors.Join(err, db.writer.Close())
	if db.reader != nil {
		err = errors.Join(err, db.reader.Close())
	}
	return err
}
