package policy

import (
	"context"
	"database/sql"
	"encoding/json"
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

// List is a page of what was judged, the newest first. What was judged in the last moments is there.
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
