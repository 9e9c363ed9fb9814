package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Job is a call that goes on when it has been answered.
type Job struct {
	ID       string    `json:"job_id"`
	Call     string    `json:"call_id"`
	Session  string    `json:"session_id"`
	Account  string    `json:"account"`
	Tool     string    `json:"tool"`
	Command  string    `json:"command"`             // cut if it is long
	State    string    `json:"state"`               // "running", "exited", "killed" or "lost"
	By       string    `json:"killed_by,omitempty"` // who ended it
	ExitCode *int      `json:"exit_code,omitempty"`
	Signal   string    `json:"signal,omitempty"`
	Started  time.Time `json:"started_at"`
	Ended    time.Time `json:"ended_at,omitzero"`
	Printed  int64     `json:"output_bytes"` // in all, not only what is kept
	Terminal bool      `json:"tty,omitempty"`
	Withheld bool      `json:"withheld,omitempty"` // the output may not be read, or not yet
	Variable string    `json:"cache_var_result,omitempty"`
	Status   string    `json:"status,omitempty"` // of the call, when it has ended
	Error    string    `json:"error,omitempty"`
	Forwards []Forward `json:"forwards,omitempty"`
	// Forbidden says what forbids it since the settings or policies have changed.
	Forbidden string `json:"forbidden,omitempty"`
	// OutOfReach says why the last command of the session could not reach its ports.
	OutOfReach string `json:"out_of_reach,omitempty"`
}

// Forward is a port of a job that is offered on the loopback of the host.
type Forward struct {
	Port    int    `json:"port"`    // of the job
	Address string `json:"address"` // on the host
}

// Jobs are the jobs of this account, the newest first; session "" is every session.
func (c *Client) Jobs(ctx context.Context, session string) ([]Job, error) {
	var all []Job
	path := "/jobs"
	if session != "" {
		path += "?session_id=" + url.QueryEscape(session)
	}
	err := c.Do(ctx, http.MethodGet, path, nil, &all)
	return all, err
}

// Job is what became of a job.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	var j Job
	err := c.Do(ctx, http.MethodGet, jobPath(id, ""), nil, &j)
	return j, err
}

func jobPath(id, rest string) string { return "/jobs/" + url.PathEscape(id) + rest }

// JobOutput is a part of what a job printed.
type JobOutput struct {
	Job
	Output string `json:"output"`
	Offset int64  `json:"offset"`      // of the output, in bytes
	Next   int64  `json:"next_offset"` // to read on from
}

// ReadJob returns what a job printed from an offset on, as far as it is kept, and not more
// than the daemon sends at once.
func (c *Client) ReadJob(ctx context.Context, id string, offset int64) (JobOutput, error) {
	var out JobOutput
	path := jobPath(id, "/output?offset="+strconv.FormatInt(offset, 10))
	err := c.Do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// FollowJob tells hear what a job printed from an offset on, and what it prints, until it has
// ended. A reader who leaves ends nothing.
func (c *Client) FollowJob(ctx context.Context, id string, offset int64, hear func(Output)) (Job, error) {
	path := jobPath(id, "/output?offset="+strconv.FormatInt(offset, 10))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sandboxd/v1"+path, nil)
	if err != nil {
		return Job{}, err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := c.http.Do(req)
	if err != nil {
		return Job{}, c.explain(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return Job{}, decode(res, nil)
	}
	var j Job
	for s, err := range readStream(res.Body) {
		switch {
		case ctx.Err() != nil:
			return j, context.Cause(ctx)
		case err != nil:
			return j, c.explain(ctx, err)
		case s.event == "end":
			return j, json.Unmarshal(s.data, &j)
		case s.event == "output":
			o, err := readOutput(s.data, s.room)
			if err != nil {
				return j, fmt.Errorf("read the event %s: %w", s.event, err)
			}
			hear(o)
		}
	}
	return j, errors.New("the daemon ended the stream before the job")
}

// TypeIntoJob sends text to the input of a job; end says that nothing more comes.
func (c *Client) TypeIntoJob(ctx context.Context, id, text string, end bool) error {
	in := map[string]any{"text": text, "end": end}
	return c.Do(ctx, http.MethodPost, jobPath(id, "/input"), in, nil)
}

// ForwardJob offers a port of a job at a port of the loopback of the host, until the job ends; at
// 0 takes one that is free. Only operators may.
func (c *Client) ForwardJob(ctx context.Context, id string, port, at int) (Forward, error) {
	var f Forward
	in := map[string]int{"port": port, "at": at}
	err := c.Do(ctx, http.MethodPost, jobPath(id, "/forwards"), in, &f)
	return f, err
}

// EndForward ends what ForwardJob began.
func (c *Client) EndForward(ctx context.Context, id string, port int) error {
	return c.Do(ctx, http.MethodDelete, jobPath(id, "/forwards/"+strconv.Itoa(port)), nil, nil)
}

// StopJob ends a job, and returns when it has ended.
func (c *Client) StopJob(ctx context.Context, id string) (Job, error) {
	var j Job
	err := c.Do(ctx, http.MethodPost, jobPath(id, "/stop"), nil, &j)
	return j, err
}
