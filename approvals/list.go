package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/sandboxd/sandboxd/tool"
)

// Filter narrows a list. Zero fields match everything, but for Status: "" is
// pending and "all" is any.
type Filter struct {
	Status  string
	Session string
	Type    Type
	Limit   int // 0 is no limit
	Offset  int
}

// Page is a part of a list; Total counts the whole.
type Page struct {
	Items []Item
	Total int
}

// Statuses are what a list can be filtered by.
var statuses = []Status{StatusPending, StatusApproved, StatusRefused, StatusExpired, StatusCancelled}

// List returns the questions that match, oldest first.
func (q *Queue) List(ctx context.Context, f Filter) (Page, error) {
	status, err := parseStatus(f.Status)
	if err != nil {
		return Page{}, err
	}
	if f.Limit <= 0 {
		f.Limit = math.MaxInt32
	}
	const where = ` FROM approval_questions WHERE ($1 = '' OR status = $1)
		AND ($2 = '' OR session_id = $2) AND ($3 = '' OR type = $3)`
	page := Page{Items: []Item{}}
	err = q.db.Read(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRow(`SELECT count(*)`+where, status, f.Session, f.Type).Scan(&page.Total); err != nil {
			return err
		}
		rows, err := tx.Query(`SELECT `+columns+where+` ORDER BY created_at, id LIMIT $4 OFFSET $5`,
			status, f.Session, f.Type, f.Limit, max(f.Offset, 0))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			item, err := scanItem(rows)
			if err != nil {
				return err
			}
			page.Items = append(page.Items, item)
		}
		return rows.Err()
	})
	q.countWaiting(page.Items)
	return page, err
}

// countWaiting says how many callers an answer would serve now.
func (q *Queue) countWaiting(items []Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range items {
		items[i].Waiting = 0
		if w := q.waiting[items[i].ID]; w != nil {
			items[i].Waiting = len(w.callers)
		}
	}
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
	one := []Item{item}
	q.countWaiting(one)
	return one[0], nil
}

// load is Get for those who hold mu.
func (q *Queue) load(ctx context.Context, id string) (Item, error) {
	var item Item
	err := q.db.Read(ctx, func(tx *sql.Tx) (err error) {
		item, err = scanItem(tx.QueryRow(`SELECT `+columns+` FROM approval_questions WHERE id = $1`, id))
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
