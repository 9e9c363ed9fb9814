package policy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Judged is one line of what was judged; [Record] is the whole.
type Judged struct {
	CallID  string    `json:"call_id"`
	At      time.Time `json:"at"`
	Account string    `json:"account"`
	Session string    `json:"session_id"`
	Tool    string    `json:"tool"`
	What    string    `json:"what,omitempty"` // the command or path, as far as it is kept
	Verdict string    `json:"verdict"`
	Rules   []string  `json:"rules,omitempty"` // that decided
	By      string    `json:"by,omitempty"`    // who answered, where a person was asked
	Said    string    `json:"said,omitempty"`  // that person: approved or refused
}

// verdicts are those of a decision, as they are kept.
var verdicts = []string{tool.Allow.String(), tool.Ask.String(), tool.Deny.String()}

// Wanted chooses decisions. Fields that are "" choose all.
type Wanted struct {
	Account, Session, Verdict string
	Search                    string // in a text of the arguments or the name of the tool, in any case
	Page                      route.Page
}

// holding is what the search is compared with: the texts themselves, without the escapes of JSON.
const holding = `(instr(lower(tool), lower(?)) > 0 OR EXISTS (SELECT 1
	FROM json_tree(record, '$.input.params') WHERE atom IS NOT NULL AND instr(lower(atom), lower(?)) > 0))`

// List returns a page of what was judged, the newest first. What was judged in the last moments is there.
func (d *Decisions) List(ctx context.Context, w Wanted) (store.Page[Judged], error) {
	d.Flush()
	where, args := []string{"1 = 1"}, []any{}
	for _, column := range []struct{ name, value string }{
		{"account", w.Account}, {"session", w.Session}, {"verdict", w.Verdict},
	} {
		if column.value != "" {
			where, args = append(where, column.name+" = ?"), append(args, column.value)
		}
	}
	if w.Search != "" {
		where, args = append(where, holding), append(args, w.Search, w.Search)
	}
	from := `FROM decisions WHERE ` + strings.Join(where, " AND ")
	keys := func(tx *sql.Tx) (total int, rows *sql.Rows, err error) {
		if err = tx.QueryRowContext(ctx, `SELECT count(*) `+from, args...).Scan(&total); err == nil {
			rows, err = tx.QueryContext(ctx, `SELECT call_id, length(record) + 1000 `+from+
				` ORDER BY at DESC, call_id LIMIT ? OFFSET ?`, append(args, w.Page.Limit, w.Page.Offset)...)
		}
		return total, rows, err
	}
	return store.ReadPage(ctx, d.db, keys, judgedLine)
}

func judgedLine(tx *sql.Tx, id string) (Judged, error) {
	var text []byte
	var rec Record
	err := tx.QueryRow(`SELECT record FROM decisions WHERE call_id = $1`, id).Scan(&text)
	if err == nil {
		err = json.Unmarshal(text, &rec)
	}
	if err != nil {
		return Judged{}, err
	}
	j := Judged{
		CallID: rec.CallID, At: rec.At, Account: rec.Account, Session: rec.Session, Tool: rec.Tool,
		What: rec.What(), Verdict: rec.Decision.Verdict.String(),
	}
	for _, r := range rec.Decision.Reasons {
		j.Rules = append(j.Rules, r.Rule)
	}
	if a := rec.Answer; a != nil {
		j.By, j.Said = a.By, "refused"
		if a.Approved {
			j.Said = "approved"
		}
	}
	return j, nil
}

// Records are the decisions that are kept, for programs beside the daemon too. What was judged
// in the last moments may not be there yet.
type Records struct {
	DB    *store.DB
	Since time.Time // when the calls were judged first; the zero value is all
	Last  int       // the newest of these; 0 is all
}

// errEnough ends a read whose reader has enough.
var errEnough = errors.New("enough")

// All passes on the decisions in the order in which the calls were judged first. It holds up no
// writer. An error is the last element.
func (r Records) All(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		err := r.DB.Read(ctx, func(tx *sql.Tx) error {
			since := int64(0)
			if !r.Since.IsZero() {
				since = r.Since.UnixNano()
			}
			if r.Last > 0 {
				err := tx.QueryRowContext(ctx, `SELECT judged FROM decisions WHERE judged >= $1
					ORDER BY judged DESC LIMIT 1 OFFSET $2`, since, r.Last-1).Scan(&since)
				if err != nil && !errors.Is(err, sql.ErrNoRows) {
					return err
				}
			}
			rows, err := tx.QueryContext(ctx, `SELECT record FROM decisions WHERE judged >= $1
				ORDER BY judged, call_id`, since)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var text []byte
				var rec Record
				if err := rows.Scan(&text); err != nil {
					return err
				}
				if err := json.Unmarshal(text, &rec); err != nil {
					return fmt.Errorf("read a kept decision: %w", err)
				}
				if !yield(rec, nil) {
					return errEnough
				}
			}
			return rows.Err()
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(Record{}, err)
		}
	}
}

// Start is since when no decision that was kept has been dropped.
func (r Records) Start(ctx context.Context) (time.Time, error) {
	var since int64
	err := r.DB.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT since FROM decisions_kept`).Scan(&since)
	})
	return time.UnixMilli(since), err
}

// Records returns those of this daemon.
func (d *Decisions) Records() Records { return Records{DB: d.db} }
