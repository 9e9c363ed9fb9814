package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// writeInTime is Write over PostgreSQL. Everything before fn takes at most the timeout.
func (db *DB) writeInTime(ctx context.Context, fn func(*sql.Tx) error) error {
	limit, cancel := context.WithTimeout(ctx, db.shared.o.Timeout)
	defer cancel()
	release, err := db.acquire(limit)
	if err != nil {
		return clearShared(err)
	}
	defer release()
	return db.write(limit, fn)
}

// readShared is Read over PostgreSQL.
func (db *DB) readShared(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := db.beginRead(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	err = clearShared(fn(tx))
	db.shared.answered(err)
	if err != nil {
		return err
	}
	return clearShared(tx.Commit())
}

// writeShared is write over PostgreSQL. The caller has the turn.
func (db *DB) writeShared(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, id, err := db.beginWrite(ctx)
	db.shared.answered(err)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	db.shared.writing = tx
	if err := clearShared(fn(tx)); err != nil {
		db.shared.answered(err)
		db.shared.wrote(err)
		return err
	}
	if err = clearShared(tx.Commit()); errors.Is(err, ErrUnavailable) {
		err = db.outcome(id, err)
	}
	db.shared.wrote(err)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	db.shared.life.committed(id)
	return nil
}

// beginWrite begins a transaction and waits until nobody else writes. As nothing has run yet, it tries again on
// another connection while there is time.
func (db *DB) beginWrite(ctx context.Context) (tx *sql.Tx, id string, err error) {
	for {
		if tx, id, err = db.tryWrite(ctx); err == nil {
			return tx, id, nil
		}
		if !errors.Is(err, ErrUnavailable) || !pauseFor(ctx) {
			return nil, "", err
		}
	}
}

func (db *DB) tryWrite(ctx context.Context) (*sql.Tx, string, error) {
	if db.conn == nil && db.shared.alone {
		return nil, "", ErrNotAlone
	}
	if db.shared.life.ended() {
		return nil, "", ErrRestored
	}
	if db.conn == nil {
		conn, err := db.writer.Conn(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("connect: %w", clearShared(err))
		}
		db.conn = conn
	}
	// The transaction does not end with ctx: a write that has begun is finished.
	tx, err := db.conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		db.disconnect()
		return nil, "", fmt.Errorf("begin: %w", clearShared(err))
	}
	var id string
	var clock int64
	err = tx.QueryRowContext(ctx, `SELECT pg_advisory_xact_lock($1), pg_current_xact_id()::text,
		(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`, writeLock).Scan(new(any), &id, &clock)
	if err != nil {
		_ = tx.Rollback()
		db.disconnect()
		return nil, "", fmt.Errorf("wait for those who write: %w", clearShared(err))
	}
	db.shared.offset.Store(clock*1000 - time.Now().UnixNano())
	return tx, id, nil
}

// disconnect closes the writer's connection, and drops the statements that were prepared on it.
func (db *DB) disconnect() {
	for _, st := range db.stmts {
		_ = st.Close()
	}
	db.stmts = map[string]*sql.Stmt{}
	if db.conn != nil {
		_ = db.conn.Close()
		db.conn = nil
	}
}

// outcome finds out whether a transaction was committed whose commit was not answered.
func (db *DB) outcome(id string, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), db.shared.o.Timeout)
	defer cancel()
	db.disconnect()
	for {
		var status sql.NullString
		err := db.reader.QueryRowContext(ctx, `SELECT pg_xact_status($1::text::xid8)`, id).Scan(&status)
		switch {
		case err == nil && status.String == "committed":
			return nil
		case err == nil && status.String == "aborted":
			return cause
		}
		if !pauseFor(ctx) {
			return fmt.Errorf("%w: %w", ErrUnknown, cause)
		}
	}
}

// beginRead begins a transaction that sees one moment. It drops connections that broke while nobody used them.
func (db *DB) beginRead(ctx context.Context) (tx *sql.Tx, err error) {
	limit, cancel := context.WithTimeout(ctx, db.shared.o.Timeout)
	defer cancel()
	for {
		if err := db.shared.refused(); err != nil {
			return nil, err
		}
		tx, err = db.reader.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err == nil {
			db.shared.answered(nil)
			return tx, nil
		}
		if err = fmt.Errorf("begin: %w", clearShared(err)); !errors.Is(err, ErrUnavailable) || !pauseFor(limit) {
			db.shared.answered(err)
			return nil, err
		}
	}
}

// pauseFor waits a moment before the next try. It returns false if there is no time for one.
func pauseFor(ctx context.Context) bool {
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
