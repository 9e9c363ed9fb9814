package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestWhatPostgreSQLSaysIsToldApart: the codes of its manual, appendix A, that have a cause here.
func TestWhatPostgreSQLSaysIsToldApart(t *testing.T) {
	for code, want := range map[string]error{
		"08006": ErrUnavailable, "57P01": ErrUnavailable, "57014": ErrUnavailable, "55P03": ErrUnavailable,
		"25P03": ErrUnavailable, "53300": ErrUnavailable, "40001": ErrUnavailable,
		"25006": ErrReadOnly, "53100": ErrFull, "53200": ErrFull,
		"28P01": ErrDenied, "3D000": ErrDenied, "42501": ErrDenied,
		"XX001": ErrCorrupt, "XX002": ErrCorrupt, "22021": ErrText, "22P05": ErrText,
	} {
		if err := clearShared(&pgconn.PgError{Code: code}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", code, err, want)
		}
	}
	syntax := &pgconn.PgError{Code: "42601"}
	if err := clearShared(syntax); err != error(syntax) {
		t.Errorf("a syntax error became %v", err)
	}
}

// TestALostConnectionIsToldApart: the database is not to blame for a caller that has left.
func TestALostConnectionIsToldApart(t *testing.T) {
	for _, tt := range []struct {
		err  error
		lost bool
	}{
		{&net.OpError{Op: "read", Err: errors.New("reset")}, true},
		{context.DeadlineExceeded, true}, // of the database: see store.timeout
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{net.ErrClosed, true},
		{driver.ErrBadConn, true},
		{fmt.Errorf("begin: %w", io.EOF), true},
		{context.Canceled, false},
		{&net.OpError{Op: "dial", Err: context.Canceled}, false},
		{sql.ErrNoRows, false},
		{nil, false},
	} {
		err := clearShared(tt.err)
		if errors.Is(err, ErrUnavailable) != tt.lost || !errors.Is(err, tt.err) {
			t.Errorf("%v: got %v, lost: %v", tt.err, err, tt.lost)
		}
	}
}

func TestARowThatIsLookedForInVain(t *testing.T) {
	for _, tt := range []struct {
		err  error
		none bool
	}{
		{sql.ErrNoRows, true},
		{fmt.Errorf("look: %w", sql.ErrNoRows), true},
		{&pgconn.PgError{Code: "22021"}, true}, // an id with a NUL
		{&pgconn.PgError{Code: "57014"}, false},
		{io.EOF, false},
		{nil, false},
	} {
		if NoRow(tt.err) != tt.none {
			t.Errorf("%v: %v, want %v", tt.err, !tt.none, tt.none)
		}
	}
}
