package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/sandboxd/sandboxd/tool"
)

// RunHeld starts a call that POST /decide held for this program. The daemon
// judges it again and asks again if it must; then start runs it and says how it
// ended. The context of start ends when the daemon wants the call ended, or is
// gone.
//
// The error is [*tool.Error] with the code call_not_held where there is no such
// call. A call that was denied is a result.
func (c *Client) RunHeld(ctx context.Context, id string, start func(context.Context, tool.Lent) tool.LentEnd) (tool.Result, error) {
	path := "/calls/" + url.PathEscape(id)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandboxd/v1"+path+"/run", nil)
	if err != nil {
		return tool.Result{}, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return tool.Result{}, c.explain(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return tool.Result{}, decode(res, nil)
	}
	calls, over := make(chan tool.Lent, 1), make(chan outcome, 1)
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop() // also of a call that was cancelled while it runs
		r, err := readLent(res.Body, calls)
		over <- outcome{r, err}
	}()
	select {
	case o := <-over: // it was refused
		return o.result, o.err
	case call := <-calls:
		err := c.Do(ctx, http.MethodPost, path+"/ended", start(running, call), nil)
		if said, ok := errors.AsType[*tool.Error](err); err != nil && (!ok || said.Code != "call_not_held") {
			return tool.Result{}, fmt.Errorf("tell the daemon how the call ended: %w", err)
		}
		o := <-over
		return o.result, o.err
	}
}

type outcome struct {
	result tool.Result
	err    error
}

// readLent hands out the call and returns its result.
func readLent(body io.Reader, calls chan<- tool.Lent) (tool.Result, error) {
	var r tool.Result
	for s, err := range readStream(body) {
		if err != nil {
			return r, err
		}
		if s.event == "result" {
			return r, json.Unmarshal(s.data, &r)
		}
		var call tool.Lent
		if err := json.Unmarshal(s.data, &call); err != nil {
			return r, fmt.Errorf("read the call to start: %w", err)
		}
		select {
		case calls <- call:
		default:
			return r, errors.New("the daemon handed the call out twice")
		}
	}
	return r, errors.New("the daemon ended the stream without a result")
}
