package store

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
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
