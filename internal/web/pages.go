package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/policy"
)

// view is the data of a template.
type view struct {
	Title   string
	Section string // of the navigation
	Person  person // zero if nobody is logged in
	Data    any
}

// message is the data of a page that shows only a message.
type message struct{ Text, Hint string }

// pageSize is the number of rows of a page.
const pageSize = 50

func (s *site) pages(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", s.inbox)
	mux.HandleFunc("GET /approvals/{id}", s.question)
	mux.HandleFunc("GET /sessions", s.sessions)
	mux.HandleFunc("GET /sessions/{id}", s.session)
	mux.HandleFunc("GET /calls/{id}", s.call)
	mux.HandleFunc("GET /calls/{id}/output", s.callOutput)
	mux.HandleFunc("GET /decisions/{id}", s.decision)
	mux.HandleFunc("GET /variables", s.variables)
	mux.HandleFunc("GET /policies", s.policies)
	mux.HandleFunc("GET /network", s.network)
	mux.HandleFunc("GET /record", s.record)
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /shares", s.sharesPage)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusNotFound, "there is no page "+r.URL.Path, "")
	})
}

// show writes a whole page, or nothing if its template fails.
func (s *site) show(w http.ResponseWriter, r *http.Request, code int, name string, v view) {
	v.Person, _ = r.Context().Value(personKey{}).(person)
	s.write(w, code, name, "layout.html", v)
}

// fragment writes one element of a page.
func (s *site) fragment(w http.ResponseWriter, name, element string, data any) {
	s.write(w, http.StatusOK, name, element, data)
}

func (s *site) write(w http.ResponseWriter, code int, name, element string, data any) {
	var b bytes.Buffer
	if err := s.files.pages[name].ExecuteTemplate(&b, element, data); err != nil {
		s.host.Log.Error("a page was not made", "page", name, "error", err)
		http.Error(w, "the page could not be made; the log of the daemon says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = b.WriteTo(w) // a client that has left needs no answer
}

// refuse answers with an error: JSON for a program, a page for a person.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, code int, text, hint string) {
	if strings.HasPrefix(r.URL.Path, "/v1/") || r.Method != http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"error": map[string]string{"code": codeOf(code), "message": text, "hint": hint},
		})
		return
	}
	s.show(w, r, code, "message", view{Title: http.StatusText(code), Data: message{text, hint}})
}

// codeOf returns the code of an error of the listener: its status, such as "misdirected_request".
func codeOf(status int) string {
	return strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
}

// failed shows the error of a route.
func (s *site) failed(w http.ResponseWriter, r *http.Request, err error) {
	if said, ok := errors.AsType[*apiError](err); ok {
		s.refuse(w, r, said.Status, said.Msg, said.Hint)
		return
	}
	s.host.Log.Error("a page was not made", "path", r.URL.Path, "error", err)
	s.refuse(w, r, http.StatusInternalServerError, "the page could not be made", "the log of the daemon says why")
}

// asked is a question as the page shows it.
type asked struct {
	approvals.Item
	Heading string
	Fields  []review.Field
	Rules   map[string]string // by scope: the rule that a yes becomes
	Args    string            // in a form for editing
}

func ask(i approvals.Item) asked {
	a := asked{Item: i, Heading: review.Heading(i), Fields: review.Fields(i, time.Now()), Rules: map[string]string{}}
	for _, scope := range i.Remember {
		if scope != approvals.RememberOnce {
			a.Rules[scope] = review.Rule(i, scope)
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, i.Args, "", "  ") == nil {
		a.Args = b.String()
	}
	return a
}

func (s *site) inbox(w http.ResponseWriter, r *http.Request) {
	var waiting []approvals.Item
	if _, err := s.get(r, "/approvals?status=pending&limit=100", &waiting); err != nil {
		s.failed(w, r, err)
		return
	}
	slices.SortFunc(waiting, func(a, b approvals.Item) int { return a.CreatedAt.Compare(b.CreatedAt) })
	var all []asked
	for _, i := range waiting {
		all = append(all, ask(i))
	}
	s.show(w, r, http.StatusOK, "inbox", view{Title: "Inbox", Section: "inbox", Data: all})
}

// question serves one question to an open page.
func (s *site) question(w http.ResponseWriter, r *http.Request) {
	var one approvals.Item
	if _, err := s.get(r, "/approvals/"+url.PathEscape(r.PathValue("id")), &one); err != nil {
		s.failed(w, r, err)
		return
	}
	s.fragment(w, "inbox", "question", ask(one))
}

// session holds the fields of a session that the page shows.
type session struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent"`
	Agent   string    `json:"agent"`
	Dir     string    `json:"cwd"`
	Mode    string    `json:"mode"`
	Profile string    `json:"profile"`
	Title   string    `json:"title"`
	Prompt  string    `json:"first_prompt"`
	Model   string    `json:"model"`
	Made    time.Time `json:"created_at"`
	Changed time.Time `json:"updated_at"`
}

// Name returns the name of the session for people.
func (x session) Name() string { return cmp.Or(x.Title, x.Agent, review.Clip(x.Prompt, 80), x.ID) }

// page is a part of a list.
type page[T any] struct {
	Of    string // id of the session that the list belongs to, or ""
	Rows  []T
	Next  int // offset of older rows; 0 if there are none
	Total int
}

func (s *site) sessions(w http.ResponseWriter, r *http.Request) {
	got := page[session]{}
	at, err := s.get(r, "/sessions?accounts=all&sort_by=updated_at&limit=100&offset="+offset(r), &got.Rows)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	got.Total = at.Total
	if at.HasMore {
		got.Next = at.Offset + len(got.Rows)
	}
	s.show(w, r, http.StatusOK, "sessions", view{Title: "Sessions", Section: "sessions", Data: got})
}

// offset returns the offset that a request asks for. The route checks it.
func offset(r *http.Request) string { return url.QueryEscape(cmp.Or(r.URL.Query().Get("offset"), "0")) }

func (s *site) session(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	shown := struct {
		Session session
		Running []runningCall
		Calls   page[policy.Judged]
		Filter  url.Values
		Older   string
	}{Calls: page[policy.Judged]{Of: id}, Filter: filters(r, "search", "verdict")}
	_, err := s.get(r, "/sessions/"+url.PathEscape(id), &shown.Session)
	if err == nil && len(shown.Filter) == 0 && offset(r) == "0" {
		shown.Running, err = s.running(r, id)
	}
	var at list
	if err == nil {
		at, err = s.get(r, "/decisions?"+and(shown.Filter, "session_id", id)+"&limit="+strconv.Itoa(pageSize)+
			"&offset="+offset(r), &shown.Calls.Rows)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	shown.Running = without(shown.Running, shown.Calls.Rows)
	shown.Calls.Total = at.Total
	if at.HasMore {
		shown.Older = and(shown.Filter, "offset", strconv.Itoa(at.Offset+len(shown.Calls.Rows)))
	}
	s.show(w, r, http.StatusOK, "session", view{Title: shown.Session.Name(), Section: "sessions", Data: shown})
}

// runningCall is a call without a stored decision, because it runs or waits for a person.
type runningCall struct {
	ID   string          `json:"call_id"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// What describes the call by its arguments.
func (c runningCall) What() string {
	in, err := json.Marshal(map[string]json.RawMessage{"params": c.Args})
	if err != nil || c.Args == nil {
		return ""
	}
	return policy.Record{Explanation: policy.Explanation{Input: in}}.What()
}

// running returns the running calls of a session. Ask for them before the decisions: then each call is in one of the
// two lists or in both.
func (s *site) running(r *http.Request, session string) (all []runningCall, err error) {
	_, err = s.get(r, "/calls?session_id="+url.QueryEscape(session), &all)
	return all, err
}

// without removes the calls that were decided meanwhile.
func without(all []runningCall, decided []policy.Judged) []runningCall {
	return slices.DeleteFunc(all, func(c runningCall) bool {
		return slices.ContainsFunc(decided, func(d policy.Judged) bool { return d.CallID == c.ID })
	})
}

// ran is the result of a call, as long as the daemon has it.
type ran struct {
	ID      string
	Running bool `json:"running"`
	Result  *struct {
		Status string `json:"status"`
		Text   string `json:"final_text"`
		Error  *struct {
			Message string `json:"message"`
			Hint    string `json:"hint"`
		} `json:"error"`
		Usage *struct {
			WallMS int64 `json:"wall_ms"`
		} `json:"usage"`
		Changes []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"changes"`
		Undo *struct {
			Kept bool `json:"kept"`
		} `json:"undo"`
		Network *struct {
			Connections []struct {
				Host    string `json:"host"`
				Port    int    `json:"port"`
				Verdict string `json:"verdict"`
			} `json:"connections"`
		} `json:"network"`
	} `json:"result"`
	Diff string
	Note string // why something is missing
}

// call serves the result of one call to an open page.
func (s *site) call(w http.ResponseWriter, r *http.Request) {
	s.fragment(w, "session", "ran", s.resultOf(r))
}

// resultOf returns the result of the call that a request names.
func (s *site) resultOf(r *http.Request) ran {
	got := ran{ID: r.PathValue("id")}
	path := "/calls/" + url.PathEscape(got.ID)
	if _, err := s.get(r, path, &got); err != nil {
		got.Note = "its result is no longer kept: " + err.Error()
	}
	var diff struct{ Diff string }
	if got.Result != nil && len(got.Result.Changes) > 0 {
		if _, err := s.get(r, path+"/diff", &diff); err != nil {
			got.Note = "the diff cannot be shown: " + err.Error()
		}
		got.Diff = diff.Diff
	}
	return got
}

func (s *site) decision(w http.ResponseWriter, r *http.Request) {
	var rec policy.Record
	if _, err := s.get(r, "/decisions/"+url.PathEscape(r.PathValue("id")), &rec); err != nil {
		s.failed(w, r, err)
		return
	}
	shown := struct {
		policy.Record
		Line, Params, Facts string
	}{Record: rec, Line: rec.What()}
	var in map[string]json.RawMessage
	if json.Unmarshal(rec.Input, &in) == nil {
		shown.Params = indented(in["params"])
		shown.Facts = indented(rec.Input)
	}
	s.show(w, r, http.StatusOK, "decision", view{Title: "Why", Section: "sessions", Data: shown})
}

func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return b.String()
}
