package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// handlers are the routes of the record.
type handlers struct {
	log *Log
}

func (h handlers) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /audit", Role: tool.RoleOperator, Handle: h.auditTail,
			Spec: route.Spec{
				ID:      "tailAudit",
				Summary: "The newest lines of the record, the oldest of them first",
				Query: []route.Param{
					{Name: "limit", Type: "integer"},
					{Name: "before", Type: "integer"},
					{Name: "session_id"},
					{Name: "event"},
					{Name: "search"},
					{Name: "connected", Type: "boolean"},
				},
				Out: []json.RawMessage{},
			},
		},
		{
			Pattern: "GET /audit/verify", Role: tool.RoleOperator, Handle: h.verify,
			Spec: route.Spec{
				ID: "verifyAudit", Summary: "Hold the whole record against everything that knows it",
				Out: Report{}, Events: route.OneOf{Progress{}, Failed{}, Report{}}, Errors: []int{409},
			},
		},
		{
			Pattern: "POST /records", Role: tool.RoleAgent, Keeps: true, Handle: h.record,
			Spec: route.Spec{
				ID:      "addRecord",
				Summary: "Record a command that ran without the daemon", In: recordRequest{},
				Out: route.Recorded{},
			},
		},
	}
}

// auditTail answers the newest lines of the record that are wanted, oldest first.
func (h handlers) auditTail(r *http.Request) (any, error) {
	w := Wanted{
		Limit: 50, Session: r.FormValue("session_id"), Event: r.FormValue("event"), Search: r.FormValue("search"),
		Connected: r.FormValue("connected") == "true",
	}
	var err error
	if text := r.FormValue("limit"); text != "" {
		if w.Limit, err = strconv.Atoi(text); err != nil || w.Limit < 1 || w.Limit > 1000 {
			return nil, route.BadRequest("limit is 1 to 1000")
		}
	}
	if text := r.FormValue("before"); text != "" {
		if w.Before, err = strconv.ParseUint(text, 10, 64); err != nil || w.Before == 0 {
			return nil, route.BadRequest("before is the number of a line, from 1 on")
		}
	}
	return route.Items(func(yield func(any, error) bool) {
		gone := errors.New("nobody reads on")
		err := Find(r.Context(), h.log.path, w, func(line []byte) error {
			if !yield(json.RawMessage(line), nil) {
				return gone
			}
			return nil
		})
		if err != nil && !errors.Is(err, gone) {
			yield(nil, err)
		}
	}), nil
}

// Progress is how much of the record was read.
type Progress struct {
	Bytes int64 `json:"bytes"`
	Of    int64 `json:"of"`
}

// Failed is why the record could not be read.
type Failed struct {
	Message string `json:"message"`
}

// progressEvery is how often a client hears of it.
const progressEvery = 100 * time.Millisecond

// verify reads the whole record, one reader at a time.
func (h handlers) verify(r *http.Request) (any, error) {
	if !h.log.verifying.TryLock() {
		return nil, route.Error{Status: http.StatusConflict, Said: &tool.Error{
			Code: "verify_runs", Msg: "the record is being verified", Hint: "ask again when that has ended",
		}}
	}
	if !route.AcceptsEvents(r) {
		defer h.log.verifying.Unlock()
		return Verify(r.Context(), h.log.options, h.log.mirror)
	}
	return route.Stream(func(w *route.Writer) error {
		defer h.log.verifying.Unlock()
		o, told := h.log.options, time.Time{}
		ctx, cancel := context.WithCancel(w.Context)
		defer cancel()
		o.Progress = func(read, size int64) {
			if time.Since(told) < progressEvery && read < size {
				return
			}
			told = time.Now()
			if w.Send("progress", Progress{read, size}) != nil {
				cancel() // nobody waits for the end
			}
		}
		report, err := Verify(ctx, o, h.log.mirror)
		if err != nil {
			return w.Send("failed", Failed{err.Error()})
		}
		return w.Send("end", report)
	}), nil
}

// recordRequest is the line of a command that ran without the daemon.
type recordRequest struct {
	Phase   string            `json:"phase"`
	CallID  string            `json:"call_id"`
	Tool    string            `json:"tool"`
	Digest  string            `json:"digest,omitempty"`
	Message string            `json:"message,omitempty"`
	Detail  map[string]string `json:"detail,omitempty"`
}

// reported are the fields of a report that are recorded as they are, so that they must
// have their form: a token in one of them would not be redacted. Message and detail are
// free text, and are.
var reported = []struct {
	name, form string
	is         *regexp.Regexp
	of         func(*recordRequest) string
}{
	{
		"phase", `"begin" or "end"`, regexp.MustCompile(`^(begin|end)$`),
		func(in *recordRequest) string { return in.Phase },
	},
	{
		"call_id", "call_ and 26 letters or digits of base32", regexp.MustCompile(`^call_[A-Z2-7]{26}$`),
		func(in *recordRequest) string { return in.CallID },
	},
	{
		"tool", "the name of a tool", regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`),
		func(in *recordRequest) string { return in.Tool },
	},
	{
		"digest", "empty, or 64 hexadecimal digits", regexp.MustCompile(`^([0-9a-f]{64})?$`),
		func(in *recordRequest) string { return in.Digest },
	},
}

// details are the keys of what a report says beside that.
var details = []string{"verdict", "status", "dir", "exit", "wall_ms", "rule"}

func (in *recordRequest) check() error {
	for _, f := range reported {
		if !f.is.MatchString(f.of(in)) {
			return route.BadRequest(f.name + " is not " + f.form)
		}
	}
	for k := range in.Detail {
		if !slices.Contains(details, k) {
			return route.BadRequest("detail has a key that is none of " + strings.Join(details, ", "))
		}
	}
	return nil
}

// record takes the line of a command that ran without the daemon. It is marked
// with who reported it, for it is only as true as they are.
func (h handlers) record(r *http.Request) (any, error) {
	var in recordRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	me := route.CallerOf(r)
	detail := map[string]string{"reported_by": fmt.Sprintf("uid:%d", me.UID)}
	for k, v := range in.Detail {
		detail["said_"+k] = v
	}
	err := h.log.Append(r.Context(), tool.Note{
		Name: "exec_" + in.Phase, Account: me.Account, Call: in.CallID, Tool: in.Tool, Digest: in.Digest,
		Message: in.Message, Detail: detail,
	})
	return route.Recorded{Recorded: err == nil}, err
}
