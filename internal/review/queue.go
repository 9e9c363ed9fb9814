package review

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sandboxd/sandboxd/approvals"
)

// Answer is a person's answer to one question: the body of POST /approvals/{id}.
type Answer struct {
	Approved bool            `json:"approved"`           // the zero value refuses
	Reason   string          `json:"reason,omitempty"`   // for the model; the answer, if the model asked
	Remember string          `json:"remember,omitempty"` // "" means approvals.RememberOnce
	Args     json.RawMessage `json:"args,omitempty"`     // the call runs with these instead; they are judged again
}

// Caller sends one request to the daemon on the operator socket. Package client implements it.
type Caller interface {
	Do(ctx context.Context, method, path string, in, out any) error
}

// Queue gives an operator access to the questions of the daemon. It keeps no state: each method sends one request,
// or one for each page.
type Queue struct{ api Caller }

// NewQueue returns the queue of the daemon that api talks to.
func NewQueue(api Caller) Queue { return Queue{api} }

// pageSize is the number of questions that the daemon lists at most in one answer.
const pageSize = 100

// List returns every question with this status, the oldest first.
func (q Queue) List(ctx context.Context, status string) ([]approvals.Item, error) {
	all := []approvals.Item{}
	for {
		items, err := q.page(ctx, status, len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if len(items) < pageSize {
			return all, nil
		}
	}
}

// oldest returns the first page of the questions that wait. Once these are answered, the next ones move up.
func (q Queue) oldest(ctx context.Context) ([]approvals.Item, error) {
	return q.page(ctx, string(approvals.StatusPending), 0)
}

func (q Queue) page(ctx context.Context, status string, offset int) ([]approvals.Item, error) {
	var items []approvals.Item
	path := fmt.Sprintf("/approvals?status=%s&limit=%d&offset=%d", url.QueryEscape(status), pageSize, offset)
	err := q.api.Do(ctx, http.MethodGet, path, nil, &items)
	return items, err
}

// Get returns one question, answered or not.
func (q Queue) Get(ctx context.Context, id string) (approvals.Item, error) {
	var item approvals.Item
	err := q.api.Do(ctx, http.MethodGet, "/approvals/"+url.PathEscape(id), nil, &item)
	return item, err
}

// Decide answers one question and returns it as it is afterwards.
func (q Queue) Decide(ctx context.Context, id string, d Answer) (approvals.Item, error) {
	var item approvals.Item
	err := q.api.Do(ctx, http.MethodPost, "/approvals/"+url.PathEscape(id), d, &item)
	return item, err
}

// Grants returns the answers that are remembered.
func (q Queue) Grants(ctx context.Context) ([]approvals.Grant, error) {
	grants := []approvals.Grant{}
	err := q.api.Do(ctx, http.MethodGet, "/grants", nil, &grants)
	return grants, err
}

// Revoke removes a remembered answer. The next such call asks again.
func (q Queue) Revoke(ctx context.Context, id string) error {
	return q.api.Do(ctx, http.MethodDelete, "/grants/"+url.PathEscape(id), nil, nil)
}
