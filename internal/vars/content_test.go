package vars

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
)

// TestTheOldestTextsFromOutsideAreForgotten: a session remembers so many bytes,
// the newest text always, and the same text once.
func TestTheOldestTextsFromOutsideAreForgotten(t *testing.T) {
	db, err := storetest.At(t.Context(), t, ":memory:", Schema())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := New(db, Options{MaxOutside: 1000})
	page := func(i, size int) string { return strings.Repeat(fmt.Sprintf("page %d.", i), size)[:size] }
	for _, tt := range []struct {
		i, size  int
		by       provenance.Authors
		want     string
		wantSize int
	}{
		{1, 400, provenance.ByWeb, "1", 400},
		{2, 400, provenance.ByWeb, "1 2", 800},
		{1, 400, provenance.ByMCP, "2 1", 800}, // again: one text, now the newest, of both
		{3, 300, provenance.ByWeb, "1 3", 700},
		{4, 5000, provenance.ByWeb, "4", 5000},
		{5, 40, provenance.ByWeb, "5", 40},
		{6, 10, provenance.ByWeb, "5", 40}, // shorter than a run: nothing can be found in it
	} {
		var kept []string
		var size int
		err := s.write(t.Context(), "s", func(tx *sql.Tx, h *head) error {
			if err := s.addUntrusted(h, tt.by, page(tt.i, tt.size)); err != nil {
				return err
			}
			size = h.scope.size
			rows, err := tx.Query(`SELECT text FROM var_untrusted ORDER BY id`)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var text string
				if err := rows.Scan(&text); err != nil {
					return err
				}
				kept = append(kept, text[5:6])
			}
			return rows.Err()
		})
		if got := strings.Join(kept, " "); err != nil || got != tt.want || size != tt.wantSize {
			t.Errorf("after text %d: got %s of %d bytes, %v, want %s of %d", tt.i, got, size, err, tt.want, tt.wantSize)
		}
	}
}
