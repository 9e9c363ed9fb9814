package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
)

// The failures that a person has to repair. The database works again by itself
// once the cause is gone.
var (
	ErrNewer    = errors.New("the database was written by a newer version of this program")
	ErrCorrupt  = errors.New("the file is damaged or not a database of this program")
	ErrReadOnly = errors.New("the database cannot be written")
	ErrFull     = errors.New("no space is left for the database")
)

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
