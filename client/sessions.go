package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
)

// Messages are those of a session as they were saved, from index offset on. They are read page
// by page while the caller takes them. An error ends them.
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
