package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Lease is a judged call that this client starts, in a sandbox with exactly these settings.
type Lease struct {
	CallID   string          `json:"call_id"`
	Session  string          `json:"session_id"`
	Argv     []string        `json:"argv"` // words, without expansion by a shell
	Dir      string          `json:"cwd"`
	Home     string          `json:"home"`
	Profile  string          `json:"profile"`            // of the sandbox
	Settings json.RawMessage `json:"settings"`           // of the sandbox, complete
	Private  []string        `json:"private"`            // paths that the sandbox must hide
	Roots    []string        `json:"workspace_roots"`    // the workspaces
	Siblings []Sibling       `json:"siblings,omitempty"` // directories beside the workspace that a person opened
	Bound    []Bound         `json:"bound,omitempty"`    // files that a person approved
}

// Sibling is a directory that the settings let be written for this call. One that is missing is made before the
// program starts. If a link lies there, the program must not be started.
type Sibling struct {
	Path    string `json:"path"` // physical
	Missing bool   `json:"missing,omitempty"`
}

// Bound is a file whose content a person approved: the program must get that, or not be
// started.
type Bound struct {
	Path  string   `json:"path"`             // physical
	Names []string `json:"names"`            // every path by which programs are known to open it
	Sum   string   `json:"sha256,omitempty"` // of its content
	Bytes int64    `json:"bytes"`
	// Absent says that the file did not exist, and must not exist for the program.
	Absent bool `json:"absent,omitempty"`
}

// LeaseEnd says how such a call ended.
type LeaseEnd struct {
	ExitCode int    `json:"exit_code"`
	Why      string `json:"why,omitempty"`     // "exited", "signaled", "timed_out", or a limit
	Failure  string `json:"failure,omitempty"` // why it was not started
	CPUMS    int64  `json:"cpu_ms"`
	MaxRSS   int64  `json:"max_rss_bytes"`
	Report   Report `json:"report"` // of the cage

	Network *Ledger `json:"network,omitempty"` // what it connected to
}

// LeaseConnection is a connection that a program of such a call wants to make.
type LeaseConnection struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`         // "tls", "http" or "tcp"
	Method   string `json:"method,omitempty"` // of an HTTP request, if it is readable
	Path     string `json:"path,omitempty"`   // of an HTTP request, if it is readable
	Via      string `json:"via"`              // "transparent", "connect", "socks5", "proxy" or "fetch"
}

// LeaseVerdict is the daemon's decision about a connection.
type LeaseVerdict struct {
	Allow  bool   `json:"allow"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Closed names a host and port that such a call may not connect to any more. Its connections there must be closed.
type Closed struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// LeaseConnects asks the daemon whether a call that this client runs may connect. If a person is asked, it waits for
// the answer.
func (c *Client) LeaseConnects(ctx context.Context, id string, to LeaseConnection) (LeaseVerdict, error) {
	var v LeaseVerdict
	return v, c.Do(ctx, http.MethodPost, "/calls/"+url.PathEscape(id)+"/connect", to, &v)
}

// RunLease starts a call that POST /decide kept for this program. The daemon
// judges it again and asks again if it must; then start runs it and says how it
// ended. The context of start ends when the daemon wants the call ended, or is
// gone. hear is told when a person is asked, as in
// [Client.Follow], and when connections have to end; nil hears nothing.
//
// The error is [*Error] with the code call_not_held where there is no such
// call. A call that was denied is a result.
func (c *Client) RunLease(
	ctx context.Context, id string, start func(context.Context, Lease) LeaseEnd, hear func(Progress),
) (Result, error) {
	path := "/calls/" + url.PathEscape(id)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandboxd/v1"+path+"/run", nil)
	if err != nil {
		return Result{}, err
	}
	if hear != nil {
		req.Header.Set("Accept", "text/event-stream")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return Result{}, c.explain(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return Result{}, decode(res, nil)
	}
	calls, over := make(chan Lease, 1), make(chan outcome, 1)
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop() // also if the call was cancelled while it ran
		r, err := readLease(res.Body, calls, hear)
		over <- outcome{r, err}
	}()
	select {
	case o := <-over: // the call was refused
		return o.result, o.err
	case call := <-calls:
		err := c.Do(ctx, http.MethodPost, path+"/ended", start(running, call), nil)
		if said, ok := errors.AsType[*Error](err); err != nil && (!ok || said.Code != "call_not_held") {
			return Result{}, fmt.Errorf("tell the daemon how the call ended: %w", err)
		}
		o := <-over
		return o.result, o.err
	}
}

type outcome struct {
	result Result
	err    error
}

// readLease passes the call to calls and returns its result.
func readLease(body io.Reader, calls chan<- Lease, hear func(Progress)) (Result, error) {
	var r Result
	for s, err := range readStream(body) {
		if err != nil {
			return r, err
		}
		if s.event == "result" {
			return r, json.Unmarshal(s.data, &r)
		}
		if s.event != "run" {
			if err := s.progress(hear); err != nil {
				return r, err
			}
			continue
		}
		var call Lease
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
