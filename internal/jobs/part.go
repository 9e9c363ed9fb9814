package jobs

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Definition is jobs as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:     "jobs",
		Deferred: []string{"BashOutput", "KillShell", "TaskInput", "write_stdin"},
		Config:   func() part.Config { return Defaults() },
		Open: func(ctx context.Context, h part.Host) (part.Part, error) {
			js, err := Open(ctx, Options{
				Dir: h.Dir, Config: h.Config.(*Config), Publish: h.Events.Publish,
				Record: h.Record, Log: h.Log,
			})
			if err != nil {
				return part.Part{}, err
			}
			return js.part(), nil
		},
		Describe: func(part.Config) part.Part { return (*Jobs)(nil).part() },
	}
}

func (js *Jobs) part() part.Part {
	return part.Part{
		Groups: []catalog.Group{js.Group()}, Routes: js.routes(), Jobs: js, TaskJobs: taskJobs{js},
		Forget: js.Forget, Close: js.Close,
		Kept:   js.kept,
		Reload: func(_ context.Context, c part.Config) { js.reload(c.(*Config)) },
		Metrics: []part.Gauge{{
			Name: "jobs_running", Help: "Jobs that run.",
			Value: func() float64 { return float64(len(js.running(func(*Job) bool { return true }))) },
		}},
		Status: func() any {
			return map[string]int{"running": len(js.running(func(*Job) bool { return true }))}
		},
	}
}

func (js *Jobs) routes() []route.Route {
	offset := []route.Param{{Name: "offset", Type: "integer"}}
	return []route.Route{
		{
			Pattern: "GET /jobs", Role: tool.RoleAgent, Handle: js.list,
			Spec: route.Spec{
				ID: "listJobs", Summary: "Jobs of this account, the newest first",
				Query: []route.Param{{Name: "session_id"}}, Out: []Info{},
			},
		},
		{
			Pattern: "GET /jobs/{id}", Role: tool.RoleAgent, Handle: js.get,
			Spec: route.Spec{ID: "getJob", Summary: "What became of a job", Out: Info{}},
		},
		{
			Pattern: "GET /jobs/{id}/output", Role: tool.RoleAgent, Results: true, Handle: js.output,
			Spec: route.Spec{
				ID: "readJob", Summary: "What a job printed from an offset on; as events, what it prints, too",
				Query: offset, Out: report{}, Events: route.OneOf{tool.Printed{}, Info{}},
			},
		},
		{
			Pattern: "POST /jobs/{id}/input", Role: tool.RoleAgent, Handle: js.input,
			Spec: route.Spec{ID: "typeIntoJob", Summary: "Type into a job", In: typed{}, Out: sent{}},
		},
		{
			Pattern: "POST /jobs/{id}/stop", Role: tool.RoleAgent, Handle: js.stopJob,
			Spec: route.Spec{ID: "stopJob", Summary: "End a job; the answer comes when it has ended", Out: Info{}},
		},
		{
			Pattern: "POST /jobs/{id}/resize", Role: tool.RoleAgent, Handle: js.resize,
			Spec: route.Spec{
				ID: "resizeJob", Summary: "The size of the terminal of a job", In: window{}, Out: window{},
			},
		},
		{
			Pattern: "POST /jobs/{id}/forwards", Role: tool.RoleOperator, Handle: js.forward,
			Spec: route.Spec{
				ID: "forwardPort", Summary: "Offer a port of a job on the loopback of the host",
				In: offer{}, Out: Forward{},
			},
		},
		{
			Pattern: "DELETE /jobs/{id}/forwards/{port}", Role: tool.RoleOperator, Handle: js.endForward,
			Spec: route.Spec{ID: "endForward", Summary: "Offer a port of a job no longer", Out: route.Deleted{}},
		},
	}
}

// typed is what somebody types.
type typed struct {
	Text string `json:"text"`
	End  bool   `json:"end,omitempty"` // nothing more comes
}

// sent is how much of it was sent.
type sent struct {
	Bytes int `json:"bytes"`
}

// window is the size of a terminal.
type window struct {
	Rows    int `json:"rows"`
	Columns int `json:"columns"`
}

func callerOf(r *http.Request) Caller {
	me := route.CallerOf(r)
	return Caller{Account: me.Account, Any: me.Any, Session: r.URL.Query().Get("session_id")}
}

// found returns the job that a request names.
func (js *Jobs) found(r *http.Request) (*Job, error) {
	who := callerOf(r)
	who.Session = ""
	return js.Find(who, r.PathValue("id"))
}

func (js *Jobs) list(r *http.Request) (any, error) { return js.List(callerOf(r)), nil }

func (js *Jobs) get(r *http.Request) (any, error) {
	j, err := js.found(r)
	if err != nil {
		return nil, err
	}
	return j.Info(), nil
}

func (js *Jobs) output(r *http.Request) (any, error) {
	j, err := js.found(r)
	if err != nil {
		return nil, err
	}
	from, err := offsetOf(r, j.info.ID)
	if err != nil {
		return nil, err
	}
	if !route.AcceptsEvents(r) {
		return j.report(from)
	}
	if err := budget.Of(r.Context()).Take(eventBytes); err != nil {
		return nil, err
	}
	return route.Stream(func(w *route.Writer) error {
		if err := w.Flush(); err != nil {
			return err
		}
		defer w.NoGrace()()
		err := j.Follow(w.Context, from, func(event []byte, next int64) error {
			from = next
			return w.Raw(event)
		})
		if err != nil {
			return err
		}
		return w.SendID(j.eventID(from), "end", j.Info())
	}), nil
}

// eventID names an event for those who want what comes behind it.
func (j *Job) eventID(next int64) string { return j.info.ID + "." + strconv.FormatInt(next, 10) }

// offsetOf returns where a reader wants to begin: behind the last event that it got, or at the offset that it names.
func offsetOf(r *http.Request, job string) (int64, error) {
	text := r.URL.Query().Get("offset")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		of, n, _ := strings.Cut(last, ".")
		if of != job {
			return 0, route.BadRequest("Last-Event-ID is not of an event of this job")
		}
		text = n
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, route.BadRequest("offset: give a number of bytes, from 0")
	}
	return n, nil
}

func (js *Jobs) input(r *http.Request) (any, error) {
	var in typed
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	j, err := js.found(r)
	if err != nil {
		return nil, err
	}
	if err := j.Type(in.Text, in.End); err != nil {
		return nil, err
	}
	return sent{len(in.Text)}, nil
}

func (js *Jobs) stopJob(r *http.Request) (any, error) {
	j, err := js.found(r)
	if err != nil {
		return nil, err
	}
	by := "the agent"
	if me := route.CallerOf(r); me.Role == tool.RoleOperator {
		by = "operator " + me.Operator()
	}
	info, err := j.Stop(r.Context(), by)
	return info, err
}

func (js *Jobs) resize(r *http.Request) (any, error) {
	var in window
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if in.Rows < 1 || in.Rows > maxSize || in.Columns < 1 || in.Columns > maxSize {
		return nil, route.BadRequest("rows and columns are numbers from 1 to 1000")
	}
	j, err := js.found(r)
	if err != nil {
		return nil, err
	}
	return in, j.Resize(in.Rows, in.Columns)
}

// maxSize is the largest number of rows and columns.
const maxSize = 1000
