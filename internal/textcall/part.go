package textcall

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

//go:embed migrations
var migrations embed.FS

// Definition is calls by text as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:   "text",
		Schema: store.Embedded("text", migrations),
		Config: func() part.Config { return defaults() },
		Open: func(_ context.Context, h part.Host) (part.Part, error) {
			f := &feature{host: h, lines: map[string]*line{}}
			f.config.Store(h.Config.(*Config))
			return f.part(), nil
		},
		Describe: func(part.Config) part.Part { return (&feature{}).part() },
	}
}

func defaults() *Config {
	return &Config{BreakerCalls: 5, BreakerWindow: 30 * time.Second, MaxCalls: 1}
}

// feature is calls by text in a daemon.
type feature struct {
	host   part.Host
	config atomic.Pointer[Config]

	mu    sync.Mutex // guards lines
	lines map[string]*line
}

func (f *feature) part() part.Part {
	return part.Part{
		Routes: f.routes(),
		Deleted: func(tx *sql.Tx, session string) error {
			_, err := tx.Exec(`DELETE FROM callables WHERE session = $1`, session)
			return err
		},
		// What a session took out or registered holds in its copies, too.
		Forked: func(tx *sql.Tx, from, to string) error {
			_, err := tx.Exec(`INSERT INTO callables (session, name, spec)
				SELECT $2, name, spec FROM callables WHERE session = $1`, from, to)
			return err
		},
		Forget: func(_ context.Context, s tool.Session) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.lines, s.ID)
			return nil
		},
		Reload: func(_ context.Context, c part.Config) { f.config.Store(c.(*Config)) },
	}
}

func (f *feature) routes() []route.Route {
	return []route.Route{
		{
			Pattern: "POST /sessions/{id}/text/prompt", Role: tool.RoleAgent, Handle: f.promptRoute,
			Spec: route.Spec{
				ID: "injectCalls", Summary: "Put what can be called by text into messages or a prompt",
				In: promptRequest{}, Out: promptRequest{},
			},
		},
		{
			Pattern: "POST /sessions/{id}/text/reply", Role: tool.RoleAgent, Keeps: true, Handle: f.replyRoute,
			Spec: route.Spec{
				ID: "replyByText", Summary: "Make the call that a reply of a model holds",
				In: textMessage{}, Out: answer{},
			},
		},
		{
			Pattern: "POST /sessions/{id}/text/parse", Role: tool.RoleAgent, Handle: f.parseRoute,
			Spec: route.Spec{
				ID: "parseText", Summary: "The call that a text holds; nothing runs", In: parseRequest{}, Out: parsed{},
			},
		},
		{
			Pattern: "GET /sessions/{id}/text/stats", Role: tool.RoleAgent, Handle: f.statsRoute,
			Spec: route.Spec{ID: "textStats", Summary: "The calls by text of a session in numbers", Out: stats{}},
		},
		{
			Pattern: "POST /sessions/{id}/text/reset", Role: tool.RoleOperator, Handle: f.resetRoute,
			Spec: route.Spec{
				ID: "resetText", Summary: "Let a session that was blocked call again", In: struct{}{}, Out: stats{},
			},
		},
		{
			Pattern: "GET /sessions/{id}/callables", Role: tool.RoleAgent, Handle: f.listRoute,
			Spec: route.Spec{
				ID: "listCallables", Summary: "What can be called by text, tools included", Out: []Callable{},
			},
		},
		{
			Pattern: "POST /sessions/{id}/callables", Role: tool.RoleAgent, Keeps: true, Handle: f.registerRoute,
			Spec: route.Spec{
				ID: "registerCallable", Summary: "Register what can be called by text", In: callableRequest{},
				Out: registered{}, Created: true,
			},
		},
		{
			Pattern: "GET /sessions/{id}/callables/{name}", Role: tool.RoleAgent, Handle: f.getRoute,
			Spec: route.Spec{ID: "getCallable", Summary: "One callable", Out: Callable{}},
		},
		{
			Pattern: "PUT /sessions/{id}/callables/{name}", Role: tool.RoleAgent, Keeps: true, Handle: f.registerRoute,
			Spec: route.Spec{
				ID: "putCallable", Summary: "Register a callable in place of the one of its name",
				In: callableRequest{}, Out: registered{},
			},
		},
		{
			Pattern: "DELETE /sessions/{id}/callables/{name}", Role: tool.RoleAgent, Handle: f.deleteRoute,
			Spec: route.Spec{
				ID: "deleteCallable", Summary: "Remove what was registered; a tool that it hid is back",
				Out: route.Deleted{},
			},
		},
	}
}

// promptRequest is a prompt in one of its forms.
type promptRequest struct {
	Messages   json.RawMessage `json:"messages,omitempty"`
	Prompt     *string         `json:"prompt,omitempty"`
	Completion *string         `json:"chat_completion_prompt,omitempty"`
	Text       *string         `json:"text,omitempty"`
}

func (f *feature) promptRoute(r *http.Request) (any, error) {
	var in promptRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	given := 0
	for _, is := range []bool{in.Messages != nil, in.Prompt != nil, in.Completion != nil, in.Text != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, route.BadRequest("give exactly one of messages, prompt, chat_completion_prompt and text")
	}
	list, err := f.listed(r)
	if err != nil {
		return nil, err
	}
	list = enabled(list)
	if in.Messages != nil {
		in.Messages = inject(in.Messages, list)
	}
	for _, text := range []*string{in.Prompt, in.Completion, in.Text} {
		if text != nil {
			*text = injectText(*text, list)
		}
	}
	return in, nil
}

// listed returns the callables of the session that a request names.
func (f *feature) listed(r *http.Request) ([]Callable, error) {
	s, err := f.host.Session(r)
	if err != nil {
		return nil, err
	}
	return f.offered(r.Context(), s)
}

const assistant = "assistant"

func (f *feature) replyRoute(r *http.Request) (any, error) {
	var in textMessage
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	s, err := f.host.Session(r)
	if err != nil {
		return nil, err
	}
	if in.Role != assistant {
		return answer{Status: statusNoCall}, nil
	}
	me := route.CallerOf(r)
	user := sandbox.NewUser(me.UID, me.GID, me.Groups, me.Name, me.Home)
	if err := user.Missing(); err != nil {
		return nil, err
	}
	return f.reply(r.Context(), s, in.Content, tool.Request{
		Account: me.Account, Role: me.Role, User: user, RunsAs: user.Rights(), Session: s.ID,
		By: &tool.Identity{UID: me.UID, GID: me.GID, Groups: me.Groups, Name: me.Name, Home: me.Home},
	})
}

type parseRequest struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type parsed struct {
	Call *Call `json:"call"`
}

func (f *feature) parseRoute(r *http.Request) (any, error) {
	var in parseRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if _, err := f.host.Session(r); err != nil {
		return nil, err
	}
	if in.Role != "" && in.Role != assistant {
		return parsed{}, nil
	}
	if calls, _ := Parse(in.Content, 1); len(calls) > 0 {
		return parsed{&calls[0]}, nil
	}
	return parsed{}, nil
}

func (f *feature) statsRoute(r *http.Request) (any, error) {
	list, err := f.listed(r)
	if err != nil { // there is no such session, and nothing is kept of it
		return nil, err
	}
	return f.stats(r.PathValue("id"), len(enabled(list))), nil
}

func (f *feature) resetRoute(r *http.Request) (any, error) {
	if err := route.Read(r, &struct{}{}); err != nil {
		return nil, err
	}
	list, err := f.listed(r)
	if err != nil {
		return nil, err
	}
	f.reset(r.PathValue("id"))
	return f.stats(r.PathValue("id"), len(enabled(list))), nil
}

func (f *feature) listRoute(r *http.Request) (any, error) { return f.listed(r) }

// registered is the answer to a registration.
type registered struct {
	Name     string   `json:"name"`
	Warnings []string `json:"warnings"`
}

func (f *feature) registerRoute(r *http.Request) (any, error) {
	var in callableRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	s, err := f.host.Session(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if name != "" && in.Name != nil && in.Name != name {
		return nil, route.BadRequest("name: the path names it already")
	}
	c, warnings, err := in.callable(name, func(name string) bool {
		return slices.ContainsFunc(f.host.Tools(s), func(t tool.Tool) bool { return t.Spec().Name == name })
	})
	if err != nil {
		return nil, route.BadRequest(err.Error())
	}
	if err := f.host.DB.Write(r.Context(), func(tx *sql.Tx) error { return c.keep(tx, s.ID) }); err != nil {
		return nil, err
	}
	if name != "" {
		return registered{c.Name, warnings}, nil
	}
	return route.Created{Data: registered{c.Name, warnings}}, nil
}

func (f *feature) getRoute(r *http.Request) (any, error) {
	list, err := f.listed(r)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		if c.Name == r.PathValue("name") {
			return c, nil
		}
	}
	return nil, noCallable(r)
}

func noCallable(r *http.Request) error {
	return &tool.Error{
		Code: "callable_not_found", Msg: fmt.Sprintf("there is no callable %.100q here", r.PathValue("name")),
		Hint: "GET /sessions/{id}/callables lists them",
	}
}

func (f *feature) deleteRoute(r *http.Request) (any, error) {
	s, err := f.host.Session(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	err = f.host.DB.Write(r.Context(), func(tx *sql.Tx) error {
		done, err := tx.Exec(`DELETE FROM callables WHERE session = $1 AND name = $2`, s.ID, name)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return noCallable(r)
	})
	return route.Deleted{ID: name, Deleted: true}, err
}
