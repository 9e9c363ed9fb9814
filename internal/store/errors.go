package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"modernc.org/sqlite"
)

// The failures that a person has to repair. The database works again by itself
// once the cause is gone.
var (
	ErrNewer          = errors.New("the database was written by a newer version of this program")
	ErrCorrupt        = errors.New("the file is damaged or not a database of this program")
	ErrReadOnly error = cause{
		nil, "store_unavailable", "the database cannot be written",
		"nothing runs that cannot be written down; see who may write in the state directory, and how it is mounted",
	}
	ErrFull error = cause{
		nil, "store_unavailable", "no space is left for the database",
		"nothing runs that cannot be written down; make room on the disk of the state directory",
	}
	// ErrUnfinished is of a database that has a part of another one.
	ErrUnfinished = errors.New("a copy into the database has not ended")
	// ErrNotAlone is of writes after [DB.Alone]. Nothing was changed.
	ErrNotAlone = errors.New("the connection is lost that kept others from writing")
)

// Those of a database that daemons share. With ErrUnavailable nothing was changed, unless the error is
// ErrUnknown too.
var (
	ErrUnavailable error = cause{
		nil, "store_unavailable", "the database that daemons share does not answer",
		"nothing runs without it; try again later. GET /status says since when, and store.url names it",
	}
	ErrUnknown       = errors.New("the connection broke during the commit, so it may have happened")
	ErrDenied  error = cause{
		nil, "store_denied", "the database refuses this user, password or database",
		"look at store.url, store.passwordFile, and what the server lets that user do",
	}
	ErrText error = cause{
		nil, "validation_error", "a text that the database cannot keep: it has a NUL or is not UTF-8",
		"leave those characters out",
	}
)

// errSharedFull and errSharedReadOnly are those of a database that daemons share.
var (
	errSharedFull error = cause{
		ErrFull, "store_unavailable", "the database that daemons share has no room",
		"nothing runs that cannot be written down; make room on the disk of the database",
	}
	errSharedReadOnly error = cause{
		ErrReadOnly, "store_unavailable", "the database that daemons share cannot be written",
		"nothing runs that cannot be written down; store.url must name a server that takes writes",
	}
)

// errNotWritten is of reads after a write for which there was no room or no right.
var errNotWritten error = cause{
	ErrUnavailable, "store_unavailable", "the database that daemons share does not take writes",
	"nothing runs that cannot be written down; GET /status says why",
}

// cause is an error with the code and the hint that callers of the daemon see.
type cause struct {
	is              error // nil for none
	code, msg, hint string
}

func (c cause) Error() string { return c.msg }
func (c cause) Unwrap() error { return c.is }
func (c cause) Code() string  { return c.code }
func (c cause) Hint() string  { return c.hint }

// The primary result codes of SQLite that are told apart here.
const (
	sqliteReadOnly = 8
	sqliteIOErr    = 10
	sqliteCorrupt  = 11
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteNotADB   = 26

	sqliteShmSize = 19<<8 | sqliteIOErr // no room for the index of the log
)

// clear names the cause of an error of the driver. Other errors stay as they are.
func clear(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	if e.Code() == sqliteShmSize {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	switch e.Code() & 0xff {
	case sqliteReadOnly, sqliteCantOpen:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case sqliteCorrupt, sqliteNotADB:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case sqliteFull:
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// codes of PostgreSQL, or how they begin, and what they mean here.
var codes = []struct {
	begin string
	cause error
}{
	{"08", ErrUnavailable},    // the connection
	{"57P", ErrUnavailable},   // it shuts down, or starts
	{"57014", ErrUnavailable}, // a statement took longer than store.timeout
	{"55P03", ErrUnavailable}, // others wrote for so long
	{"25P03", ErrUnavailable}, // this one did
	{"53300", ErrUnavailable}, // it has too many connections
	{"40001", ErrUnavailable}, // a standby that catches up
	{"25006", errSharedReadOnly},
	{"53100", errSharedFull},
	{"53200", errSharedFull},
	{"28", ErrDenied},
	{"3D000", ErrDenied},
	{"42501", ErrDenied},
	{"XX001", ErrCorrupt},
	{"XX002", ErrCorrupt},
	{"22021", ErrText},
	{"22P05", ErrText},
}

// clearShared is clear over PostgreSQL.
func clearShared(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	if cause := ofPostgres(err); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// NoRow reports whether a row was looked for in vain: by a text that PostgreSQL cannot keep, too.
func NoRow(err error) bool {
	return errors.Is(err, sql.ErrNoRows) || errors.Is(ofPostgres(err), ErrText)
}

// ofPostgres is the cause of an error of that driver, nil if it is none, or has no cause that is
// told apart here.
func ofPostgres(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		for _, c := range codes {
			if strings.HasPrefix(e.Code, c.begin) {
				return c.cause
			}
		}
		return nil
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return ErrUnavailable
	}
	if _, ok := errors.AsType[net.Error](err); ok && !errors.Is(err, context.Canceled) {
		return ErrUnavailable
	}
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, driver.ErrBadConn} {
		if errors.Is(err, broken) {
			return ErrUnavailable
		}
	}
	if pgconn.SafeToRetry(err) { // it was closed before
		return ErrUnavailable
	}
	return nil
}
