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

// Job is a call that goes on after its answer.
type Job struct {
	ID       string    `json:"job_id"`
	Call     string    `json:"call_id"`
	Session  string    `json:"session_id"`
	Account  string    `json:"account"`
	Tool     string    `json:"tool"`
	Command  string    `json:"command"`             // shortened if it is long
	State    string    `json:"state"`               // "running", "exited", "killed" or "lost"
	By       string    `json:"killed_by,omitempty"` // who ended it
	ExitCode *int      `json:"exit_code,omitempty"`
	Signal   string    `json:"signal,omitempty"`
	Started  time.Time `json:"started_at"`
	Ended    time.Time `json:"ended_at,omitzero"`
	Printed  int64     `json:"output_bytes"` // in all, also bytes that are not kept
	Terminal bool      `json:"tty,omitempty"`
	Withheld bool      `json:"withheld,omitempty"` // the output may not be read (yet)
	Variable string    `json:"cache_var_result,omitempty"`
	Status   string    `json:"status,omitempty"` // of the call, after its end
	Error    string    `json:"error,omitempty"`
	Forwards []Forward `json:"forwards,omitempty"`
	// Forbidden says what forbids the job since the settings or policies changed.
	Forbidden string `json:"forbidden,omitempty"`
	// OutOfReach says why the last command of the session could not reach its ports.
	OutOfReach string `json:"out_of_reach,omitempty"`
}

// Forward offers a port of a job on a loopback port of the host.
type Forward struct {
	Port    int    `json:"port"`    // of the job
	Address string `json:"address"` // on the host
}

// Jobs returns the jobs of this account, the newest first. Session "" means all sessions.
func (c *Client) Jobs(ctx context.Context, session string) ([]Job, error) {
	var all []Job
	path := "/jobs"
	if session != "" {
		path += "?session_id=" + url.QueryEscape(session)
	}
	err := c.Do(ctx, http.MethodGet, path, nil, &all)
	return all, err
}

// Job returns the state of a job.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	var j Job
	err := c.Do(ctx, http.MethodGet, jobPath(id, ""), nil, &j)
	return j, err
}

func jobPath(id, rest string) string { return "/jobs/" + url.PathEscape(id) + rest }

// JobOutput is a part of a job's output.
type JobOutput struct {
	Job
	Output string `json:"output"`
	Offset int64  `json:"offset"`      // of the output, in bytes
	Next   int64  `json:"next_offset"` // offset for the next read
}

// ReadJob returns the output of a job from an offset on, as far as it is kept. It returns at most what the daemon
// sends in one answer.
func (c *Client) ReadJob(ctx context.Context, id string, offset int64) (JobOutput, error) {
	var out JobOutput
	path := jobPath(id, "/output?offset="+strconv.FormatInt(offset, 10))
	err := c.Do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// FollowJob passes the output of a job from an offset on to hear, until the job has ended. If ctx ends, the job
// goes on. hear may be nil.
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
			if hear != nil {
				hear(o)
			}
		}
	}
	return j, errors.New("the daemon ended the stream before the job")
}

// TypeIntoJob sends text to the standard input of a job; end closes the input.
func (c *Client) TypeIntoJob(ctx context.Context, id, text string, end bool) error {
	in := map[string]any{"text": text, "end": end}
	return c.Do(ctx, http.MethodPost, jobPath(id, "/input"), in, nil)
}

// ForwardJob offers a port of a job on a loopback port of the host until the job ends. at is that port; 0 selects a
// free one. Only operators may do this.
func (c *Client) ForwardJob(ctx context.Context, id string, port, at int) (Forward, error) {
	var f Forward
	in := map[string]int{"port": port, "at": at}
	err := c.Do(ctx, http.MethodPost, jobPath(id, "/forwards"), in, &f)
	return f, err
}

// EndForward ends a forward that ForwardJob began.
func (c *Client) EndForward(ctx context.Context, id string, port int) error {
	return c.Do(ctx, http.MethodDelete, jobPath(id, "/forwards/"+strconv.Itoa(port)), nil, nil)
}

// StopJob ends a job, and returns when it has ended.
func (c *Client) StopJob(ctx context.Context, id string) (Job, error) {
	var j Job
	err := c.Do(ctx, http.MethodPost, jobPath(id, "/stop"), nil, &j)
	return j, err
}
