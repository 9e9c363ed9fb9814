package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/config"
)

// approvalDecision is the body of POST /approvals/{id}.
type approvalDecision struct {
	Approved bool            `json:"approved"`
	Reason   string          `json:"reason,omitempty"`
	Remember string          `json:"remember,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
}

// doer is the part of the client that is needed here.
type doer interface {
	Do(ctx context.Context, method, path string, in, out any) error
}

// approvalsAPI is the operator's side of the queue.
type approvalsAPI struct{ doer }

func newApprovalsAPI() approvalsAPI { return approvalsAPI{client.New(approvalsSocket())} }

// approvalsSocket is the operator socket: agents cannot answer.
func approvalsSocket() string { return socketPath("SANDBOXD_OPERATOR_SOCKET", "operator.sock") }

// socketPath is where a socket of the daemon is: as the variable says, else where a
// daemon with this environment has it.
func socketPath(variable, name string) string {
	if s := os.Getenv(variable); s != "" {
		return strings.TrimPrefix(s, "unix://")
	}
	dir := "/run/sandboxd" // of the system's daemon, for users without a home
	if p, err := config.ResolvePaths(os.Getenv); err == nil {
		dir = p.RuntimeDir
	}
	return filepath.Join(dir, name)
}

// pageSize is the most that the daemon lists at once.
const pageSize = 100

// list is every question with this status.
func (a approvalsAPI) list(ctx context.Context, status string) ([]approvals.Item, error) {
	all := []approvals.Item{}
	for {
		items, err := a.page(ctx, status, len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if len(items) < pageSize {
			return all, nil
		}
	}
}

// oldest is what waits longest; the rest moves up as these are answered.
func (a approvalsAPI) oldest(ctx context.Context) ([]approvals.Item, error) {
	return a.page(ctx, string(approvals.StatusPending), 0)
}

func (a approvalsAPI) page(ctx context.Context, status string, offset int) ([]approvals.Item, error) {
	var items []approvals.Item
	path := fmt.Sprintf("/approvals?status=%s&limit=%d&offset=%d", url.QueryEscape(status), pageSize, offset)
	err := a.Do(ctx, http.MethodGet, path, nil, &items)
	return items, err
}

func (a approvalsAPI) get(ctx context.Context, id string) (approvals.Item, error) {
	var item approvals.Item
	err := a.Do(ctx, http.MethodGet, "/approvals/"+url.PathEscape(id), nil, &item)
	return item, err
}

func (a approvalsAPI) decide(ctx context.Context, id string, d approvalDecision) (approvals.Item, error) {
	var item approvals.Item
	err := a.Do(ctx, http.MethodPost, "/approvals/"+url.PathEscape(id), d, &item)
	return item, err
}

func (a approvalsAPI) grants(ctx context.Context) ([]approvals.Grant, error) {
	grants := []approvals.Grant{}
	err := a.Do(ctx, http.MethodGet, "/grants", nil, &grants)
	return grants, err
}

func (a approvalsAPI) revoke(ctx context.Context, id string) error {
	return a.Do(ctx, http.MethodDelete, "/grants/"+url.PathEscape(id), nil, nil)
}
