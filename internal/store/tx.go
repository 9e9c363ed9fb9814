package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Write runs fn in the one writing transaction, and commits. An error or a panic of fn undoes everything. When ctx
// ends before the transaction begins, nothing happens; after that, the write is finished.
func (db *DB) Write(ctx context.Context, fn func(*sql.Tx) error) error {
	if db.shared != nil {
		return db.writeInTime(ctx, fn)
	}
	db.copyLog(ctx)
	release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return db.write(ctx, fn)
}

// WriteSynced is Write. When it returns nil, this change and all earlier ones survive a loss of power, whatever
// Options.Sync says. If only the sync fails, the change is there, and a loss of power may undo it.
func (db *DB) WriteSynced(ctx context.Context, fn func(*sql.Tx) error) error {
	if err := db.Write(ctx, fn); err != nil {
		return err
	}
	return db.syncLog()
}

// write is Write. The caller has the turn.
func (db *DB) write(ctx context.Context, fn func(*sql.Tx) error) (err error) {
	committed := false
	defer func() { // also when fn panics
		for _, f := range db.after {
			f(committed)
		}
		db.after = db.after[:0]
	}()
	if db.shared != nil {
		err = db.writeShared(ctx, fn)
		committed = err == nil
		return err
	}
	if err := db.replaced(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	err = transact(ctx, db.conn, nil, fn)
	committed = err == nil
	db.log.wrote(db.turns.last, db.conn)
	if committed && db.tight.Load() || errors.Is(err, ErrFull) {
		// A later checkpoint copies what cannot be copied now. The write itself has succeeded.
		_, _ = db.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	}
	return err
}

// Tight says whether the disk is nearly full. If so, the log is copied to the database after each write, so that it
// needs almost no room.
func (db *DB) Tight(on bool) { db.tight.Store(on) }

// Read runs fn in a transaction that sees one moment of the database and cannot change it.
func (db *DB) Read(ctx context.Context, fn func(*sql.Tx) error) error {
	if db.shared != nil {
		return db.readShared(ctx, fn)
	}
	if err := db.replaced(); err != nil {
		return err
	}
	if db.reader != nil {
		return transact(ctx, db.reader, &sql.TxOptions{ReadOnly: true}, fn)
	}
	release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := db.pragma(ctx, "query_only", "ON"); err != nil {
		return err
	}
	defer db.pragma(context.WithoutCancel(ctx), "query_only", "OFF")
	return transact(ctx, db.conn, &sql.TxOptions{ReadOnly: true}, fn)
}

// pragma sets a property of the writer's connection.
func (db *DB) pragma(ctx context.Context, name, value string) error {
	_, err := db.conn.ExecContext(ctx, "PRAGMA "+name+" = "+value)
	return clear(err)
}

// Exec runs a frequent statement of the Write that is going on. It stays prepared.
func (db *DB) Exec(query string, args ...any) (sql.Result, error) {
	if db.shared != nil {
		return db.shared.writing.Exec(query, args...)
	}
	st, err := db.stmt(query)
	if err != nil {
		return nil, err
	}
	return st.Exec(args...)
}

// Row runs a frequent query of the Write that is going on, which finds at most one row. It stays prepared.
func (db *DB) Row(query string, args ...any) interface{ Scan(...any) error } {
	if db.shared != nil {
		return db.shared.writing.QueryRow(query, args...)
	}
	st, err := db.stmt(query)
	if err != nil {
		return failed{err}
	}
	return st.QueryRow(args...)
}

// failed is the row of a query that could not run.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// stmt returns the prepared statement of a text, for use inside Write over SQLite only. To prepare a small statement
// costs more than to run it. The driver of PostgreSQL keeps statements itself. A statement of the connection must not
// be used there while a transaction has the connection: if the connection breaks, it waits for the transaction to end,
// and the transaction for it.
func (db *DB) stmt(query string) (*sql.Stmt, error) {
	if st := db.stmts[query]; st != nil {
		return st, nil
	}
	st, err := db.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	db.stmts[query] = st
	return st, nil
}

// ReadStmt returns the prepared statement of a text, for use inside the Read of tx only. It is for frequent
// statements: to prepare a small one costs more than to run it.
func (db *DB) ReadStmt(tx *sql.Tx, query string) (*sql.Stmt, error) {
	if db.reader == nil {
		return db.stmt(query) // there is one connection, the writer's, and this Read has the turn
	}
	if st, ok := db.reads.Load(query); ok {
		return tx.Stmt(st.(*sql.Stmt)), nil
	}
	db.keep(query)
	return tx.Prepare(query) // which is closed with tx
}

// keep prepares a statement for later Reads. It needs a connection for that, so a goroutine that holds one may not
// wait for it: if all of them waited, none would become free.
func (db *DB) keep(query string) {
	if _, begun := db.asked.LoadOrStore(query, true); begun {
		return
	}
	db.log.beside(func() { // it opens a connection, and with that files
		if st, err := db.reader.PrepareContext(db.ending, query); err == nil {
			db.reads.Store(query, st)
			return
		}
		db.asked.Delete(query)
	})
}

func (db *DB) acquire(ctx context.Context) (release func(), err error) {
	if err := db.turns.take(ctx); err != nil {
		return nil, fmt.Errorf("wait for the database: %w", err)
	}
	return db.turns.give, nil
}

type beginner interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}

func transact(ctx context.Context, conn beginner, opts *sql.TxOptions, fn func(*sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", clear(err))
	}
	defer tx.Rollback() // does nothing after a commit
	if err := fn(tx); err != nil {
		return clear(err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", clear(err))
	}
	return nil
}
