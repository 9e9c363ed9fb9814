package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
)

// Messages yields the saved messages of a session, from index offset on. It reads them page by page. An error is the
// last thing that it yields.
func (c *Client) Messages(ctx context.Context, session string, offset int) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for {
			var page []json.RawMessage
			path := sessionPath(session, fmt.Sprintf("/messages?limit=%d&offset=%d", pageSize, offset))
			if err := c.Do(ctx, http.MethodGet, path, nil, &page); err != nil {
				yield(nil, err)
				return
			}
			for _, m := range page {
				if !yield(m, nil) {
					return
				}
			}
			if offset += len(page); len(page) < pageSize {
				return
			}
		}
	}
}
