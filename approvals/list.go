package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Filter narrows a list. Zero fields match everything, except Status: "" is
// pending and "all" is any.
type Filter struct {
	Status  string
	Session string
	Type    Type
	Limit   int // 0 is no limit
	Offset  int
}

// Statuses are what a list can be filtered by.
var statuses = []Status{StatusPending, StatusApproved, StatusRefused, StatusExpired, StatusCancelled}

// List returns the questions that match, oldest first.
func (q *Queue) List(ctx context.Context, f Filter) (store.Page[Item], error) {
	status, err := parseStatus(f.Status)
	if err != nil {
		return store.Page[Item]{}, err
	}
	if f.Limit <= 0 {
		f.Limit = math.MaxInt32
	}
	from, args := ` FROM approval_questions WHERE true`, []any{}
	for _, c := range []struct{ column, is string }{
		{"status", string(status)}, {"session_id", f.Session}, {"type", string(f.Type)},
	} {
		if c.is != "" { // what does not count is not in the query: an index may have the answer
			args = append(args, c.is)
			from += fmt.Sprintf(" AND %s = $%d", c.column, len(args))
		}
	}
	keys := func(tx *sql.Tx) (total int, rows *sql.Rows, err error) {
		err = tx.QueryRow(`SELECT count(*)`+from, args...).Scan(&total)
		if err == nil {
			rows, err = tx.Query(fmt.Sprintf(`SELECT id, length(item) + length(answer) + 1000%s
				ORDER BY created_at, id LIMIT %d OFFSET %d`, from, f.Limit, max(f.Offset, 0)), args...)
		}
		return total, rows, err
	}
	return store.ReadPage(ctx, q.db, keys, q.read)
}

// Items passes on the questions of a page, and how many wait for each. Do not call it within a read of
// the database, nor with mu held: those who hold mu read too.
func (q *Queue) Items(ctx context.Context, p store.Page[Item]) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for item, err := range p.Rows(ctx) {
			item.Waiting = q.callers(item)
			if !yield(item, err) {
				return
			}
		}
	}
}

func (q *Queue) read(tx *sql.Tx, id string) (Item, error) {
	return scanItem(tx.QueryRow(`SELECT `+columns+` FROM approval_questions WHERE id = $1`, id))
}

// callers says how many callers an answer would serve now.
func (q *Queue) callers(item Item) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.waiting[item.ID]; w != nil {
		return len(w.callers)
	}
	if item.Status == StatusPending && item.Daemon != q.db.Daemon() {
		return item.Waiting // as it was asked: only that daemon knows who waits now
	}
	return 0
}

func parseStatus(s string) (Status, error) {
	switch s {
	case "":
		return StatusPending, nil
	case "all":
		return "", nil
	}
	for _, status := range statuses {
		if s == string(status) {
			return status, nil
		}
	}
	return "", &tool.Error{
		Code: "invalid_argument", Stage: "approve", Msg: fmt.Sprintf("unknown status %q", s),
		Hint: "use pending, approved, refused, expired, cancelled or all",
	}
}

// Get returns one question, decided ones too.
func (q *Queue) Get(ctx context.Context, id string) (Item, error) {
	item, err := q.load(ctx, id)
	if err != nil {
		return Item{}, err
	}
	item.Waiting = q.callers(item)
	return item, nil
}

// load is Get for those who hold mu.
func (q *Queue) load(ctx context.Context, id string) (Item, error) {
	var item Item
	err := q.db.Read(ctx, func(tx *sql.Tx) (err error) {
		item, err = q.read(tx, id)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Item{}, notFound(id)
	}
	return item, err
}

const columns = `item, status, decided_at, answer`

func scanItem(row interface{ Scan(...any) error }) (Item, error) {
	var item Item
	var text, said string
	var status Status
	var decided int64
	if err := row.Scan(&text, &status, &decided, &said); err != nil {
		return Item{}, err
	}
	if err := json.Unmarshal([]byte(text), &item); err != nil {
		return Item{}, fmt.Errorf("decode question: %w", err)
	}
	if status == StatusPending {
		return item, nil
	}
	var a answer
	if err := json.Unmarshal([]byte(said), &a); err != nil {
		return Item{}, fmt.Errorf("decode the answer of %q: %w", item.ID, err)
	}
	item.apply(a, fromMillis(decided))
	return item, nil
}
