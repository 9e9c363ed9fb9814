package store

import (
	"context"
	"database/sql"
	"fmt"
)

// Write runs fn in the one writing transaction and commits. An error or a panic
// of fn undoes everything. The context counts until the transaction begins; then
// it is finished, because half of a write helps nobody.
func (db *DB) Write(ctx context.Context, fn func(*sql.Tx) error) error {
	release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	committed := false
	defer func() { // also when fn panics
		for _, f := range db.after {
			f(committed)
		}
		db.after = db.after[:0]
	}()
	err = transact(context.WithoutCancel(ctx), db.conn, nil, fn)
	committed = err == nil
	return err
}

// Read runs fn in a transaction that sees one moment of the database and cannot
// change it.
func (db *DB) Read(ctx context.Context, fn func(*sql.Tx) error) error {
	if db.reader != nil {
		return transact(ctx, db.reader, &sql.TxOptions{ReadOnly: true}, fn)
	}
	release, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := db.queryOnly(ctx, "ON"); err != nil {
		return err
	}
	defer db.queryOnly(context.WithoutCancel(ctx), "OFF")
	return transact(ctx, db.conn, &sql.TxOptions{ReadOnly: true}, fn)
}

func (db *DB) queryOnly(ctx context.Context, on string) error {
	_, err := db.conn.ExecContext(ctx, "PRAGMA query_only = "+on)
	return err
}

// Stmt returns the prepared statement of this text, for use inside Write only.
// Preparing costs more than running a small statement, so frequent ones are
// kept.
func (db *DB) Stmt(query string) (*sql.Stmt, error) {
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

func (db *DB) acquire(ctx context.Context) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("wait for the database: %w", err)
	}
	select {
	case db.turn <- struct{}{}:
		return func() { <-db.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the database: %w", ctx.Err())
	}
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
