package route

import (
	"fmt"
	"iter"
	"net/http"
	"strconv"

	"github.com/sandboxd/sandboxd/internal/budget"
)

// Page is which part of a list is wanted.
type Page struct{ Limit, Offset int }

// Items are data that is a list, made one element at a time while the answer is written:
// it is never held as a whole. An error cuts the answer off, so that nobody takes a part for
// all of it; what can be refused must be refused before.
type Items iter.Seq2[any, error]

// List is a part of a list with its place in the whole.
type List struct {
	Data any  `json:"data"`
	Meta Meta `json:"meta"`
}

// Meta is where a part of a list lies in the whole.
type Meta struct {
	Total   int  `json:"total"`
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"has_more"`
	// The order, of lists that may have several.
	SortBy    string `json:"sort_by,omitempty"`
	SortOrder string `json:"sort_order,omitempty"`
}

// Paging reads limit (1 to 100, 50 unless given) and offset.
func Paging(r *http.Request) (Page, error) {
	p := Page{Limit: 50}
	for name, to := range map[string]*int{"limit": &p.Limit, "offset": &p.Offset} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || name == "limit" && (n < 1 || n > 100) {
			return p, BadRequest(fmt.Sprintf("%s=%q: limit is 1 to 100, offset 0 or more", name, text))
		}
		*to = n
	}
	return p, nil
}

// List returns the page of n items of a list of total.
func (p Page) List(data any, n, total int) List {
	return List{data, Meta{Total: total, Limit: p.Limit, Offset: p.Offset, HasMore: p.Offset+n < total}}
}

// rowFactor is how much memory a row of the database takes until it is written, in units of
// its size there: its text, what is decoded from it, and what is made of that.
const rowFactor = 4

// Rows answers n rows of total, which are read while they are written. most is how many
// bytes of the database are in memory at once; they are taken from the budget.
func Rows[T any](r *http.Request, p Page, rows iter.Seq2[T, error], n, total int, most int64) (any, error) {
	if err := budget.Of(r.Context()).Take(rowFactor * most); err != nil {
		return nil, err
	}
	items := func(yield func(any, error) bool) {
		for row, err := range rows {
			if !yield(row, err) {
				return
			}
		}
	}
	return p.List(Items(items), n, total), nil
}
