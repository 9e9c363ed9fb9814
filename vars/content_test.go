package vars

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/store"
)

// TestTheOldestTextsFromOutsideAreForgotten: a session remembers so many bytes,
// the newest text always, and the same text once.
func TestTheOldestTextsFromOutsideAreForgotten(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, Schema())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := New(db, Options{})
	s.content.limit = 1000
	page := func(i, size int) string { return strings.Repeat(fmt.Sprintf("page %d.", i), size)[:size] }
	for _, tt := range []struct {
		i, size  int
		by       authors
		want     string
		wantSize int
	}{
		{1, 400, byWeb, "1", 400},
		{2, 400, byWeb, "1 2", 800},
		{1, 400, byMCP, "2 1", 800}, // again: one text, now the newest, of both
		{3, 300, byWeb, "1 3", 700},
		{4, 5000, byWeb, "4", 5000},
		{5, 40, byWeb, "5", 40},
		{6, 10, byWeb, "5", 40}, // shorter than a run: nothing can be found in it
	} {
		var kept []string
		var size int
		err := s.write(t.Context(), "s", func(tx *sql.Tx, h *head) error {
			if err := s.addUntrusted(h, tt.by, page(tt.i, tt.size)); err != nil {
				return err
			}
			size = h.outsideSize
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
