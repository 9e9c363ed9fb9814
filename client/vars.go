package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Var is a variable of a session. Value is nil in lists.
type Var struct {
	Name           string    `json:"name"`
	Length         int       `json:"length"` // of the value, in characters
	Desc           string    `json:"desc,omitempty"`
	Type           string    `json:"type"`
	Tags           []string  `json:"tags,omitempty"`
	Keep           bool      `json:"keep,omitempty"`
	Created        time.Time `json:"created"`
	Updated        time.Time `json:"updated"`
	LastVisited    time.Time `json:"last_visited"`
	ReferenceCount int       `json:"reference_count"`
	Origins        []Origin  `json:"origins"`
	Hosts          []string  `json:"hosts,omitempty"` // hosts that web text in it came from
	Value          *string   `json:"value,omitempty"`
}

// VarFilter selects variables that match all of its fields.
type VarFilter struct{ Type, Tag, Search string }

// VarChange is a write of a variable. Empty fields are not sent.
type VarChange struct {
	Value any       `json:"value"` // text; anything else is stored as its JSON
	Type  string    `json:"type,omitempty"`
	Desc  *string   `json:"desc,omitempty"`
	Tags  *[]string `json:"tags,omitempty"`
	Keep  *bool     `json:"keep,omitempty"`
}

const pageSize = 100

// Vars lists the variables of a session, the last visited first.
func (c *Client) Vars(ctx context.Context, session string, f VarFilter) ([]Var, error) {
	all := []Var{}
	for {
		q := url.Values{
			"limit": {strconv.Itoa(pageSize)}, "offset": {strconv.Itoa(len(all))},
			"type": {f.Type}, "tag": {f.Tag}, "search": {f.Search},
		}
		var page []Var
		if err := c.Do(ctx, http.MethodGet, varPath(session, "")+"?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageSize {
			return all, nil
		}
	}
}

// Var reads a variable with its value, which counts as a visit.
func (c *Client) Var(ctx context.Context, session, name string) (Var, error) {
	var v Var
	err := c.Do(ctx, http.MethodGet, varPath(session, "/"+url.PathEscape(name)), nil, &v)
	return v, err
}

// PutVar adds a variable or replaces it. Over the agent socket its author is the
// model, over the operator socket a person.
func (c *Client) PutVar(ctx context.Context, session, name string, in VarChange) (Var, error) {
	var v Var
	err := c.Do(ctx, http.MethodPut, varPath(session, "/"+url.PathEscape(name)), in, &v)
	return v, err
}

// RemoveVars deletes variables. failed lists those that do not exist or are rules.
func (c *Client) RemoveVars(ctx context.Context, session string, names ...string) (
	removed, failed []string, err error,
) {
	var done struct{ Removed, Failed []string }
	err = c.Do(ctx, http.MethodPost, varPath(session, "/remove"), map[string]any{"names": names}, &done)
	return done.Removed, done.Failed, err
}

// Origins holds the authors of what the model of a session was shown, and the hosts that web text came from: at most
// eight, then "and others".
type Origins struct {
	Session []Origin `json:"session"`
	Hosts   []string `json:"hosts,omitempty"`
}

// Origins returns the authors of what the model of a session was shown.
func (c *Client) Origins(ctx context.Context, session string) (o Origins, err error) {
	err = c.Do(ctx, http.MethodGet, sessionPath(session, "/origins"), nil, &o)
	return o, err
}

// ResetOrigins clears the origins of a session. Only operators may: a person takes the responsibility that what the
// session has read is harmless.
func (c *Client) ResetOrigins(ctx context.Context, session string) error {
	return c.Do(ctx, http.MethodPost, sessionPath(session, "/origins/reset"), struct{}{}, nil)
}

func varPath(session, tail string) string { return sessionPath(session, "/vars"+tail) }

func sessionPath(session, tail string) string {
	return fmt.Sprintf("/sessions/%s%s", url.PathEscape(session), tail)
}
