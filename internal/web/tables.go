package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/vars"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// table is a part of a list with the filters of its form.
type table[T any] struct {
	Filter url.Values
	Rows   []T
	Older  string // query of the rows behind these, "" if there are none
	Total  int
}

// filters returns the filters of a page that a request names.
func filters(r *http.Request, names ...string) url.Values {
	out := url.Values{}
	for _, name := range names {
		if v := r.URL.Query().Get(name); v != "" {
			out.Set(name, v)
		}
	}
	return out
}

// and returns a query with one more parameter.
func and(q url.Values, name, value string) string {
	out := url.Values{name: {value}}
	for key, values := range q {
		if key != name {
			out[key] = values
		}
	}
	return out.Encode()
}

// variables shows the variables of a session and their authors.
func (s *site) variables(w http.ResponseWriter, r *http.Request) {
	shown := struct {
		table[vars.Var]
		Sessions []session
		Of       session
		Value    *vars.Var // the selected variable
		Read     origins   // what the model of the session was shown
	}{table: table[vars.Var]{Filter: filters(r, "session", "search", "type", "tag")}}
	_, err := s.get(r, "/sessions?accounts=all&sort_by=updated_at&limit=100", &shown.Sessions)
	id := shown.Filter.Get("session")
	if id == "" && len(shown.Sessions) > 0 {
		id = shown.Sessions[0].ID
	}
	if err == nil && id != "" {
		err = s.variablesOf(r, id, &shown.table)
		below := "/sessions/" + url.PathEscape(id)
		if err == nil {
			_, err = s.get(r, below, &shown.Of)
		}
		if err == nil {
			_, err = s.get(r, below+"/origins", &shown.Read)
		}
		if name := r.URL.Query().Get("name"); err == nil && name != "" {
			shown.Value = &vars.Var{}
			_, err = s.get(r, below+"/vars/"+url.PathEscape(name), shown.Value)
		}
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if id != "" && !slices.ContainsFunc(shown.Sessions, func(x session) bool { return x.ID == id }) {
		shown.Sessions = append(shown.Sessions, shown.Of)
	}
	s.show(w, r, http.StatusOK, "variables", view{Title: "Variables", Section: "variables", Data: shown})
}

// origins holds the authors of what the model of a session was shown.
type origins struct {
	Session []string `json:"session"`
	Hosts   []string `json:"hosts"`
}

func (s *site) variablesOf(r *http.Request, id string, t *table[vars.Var]) error {
	t.Filter.Set("session", id)
	q := url.Values{"limit": {strconv.Itoa(pageSize)}, "offset": {cmp.Or(r.URL.Query().Get("offset"), "0")}}
	for _, name := range []string{"search", "type", "tag"} {
		if v := t.Filter.Get(name); v != "" {
			q.Set(name, v)
		}
	}
	at, err := s.get(r, "/sessions/"+url.PathEscape(id)+"/vars?"+q.Encode(), &t.Rows)
	if t.Total = at.Total; at.HasMore {
		t.Older = and(t.Filter, "offset", strconv.Itoa(at.Offset+len(t.Rows)))
	}
	return err
}

// policies shows the rules and hooks in force, and what the shadow policies would do.
func (s *site) policies(w http.ResponseWriter, r *http.Request) {
	var shown struct {
		policy.Status
		Hooks  []hooks.Info
		Shadow policy.ShadowReport
	}
	for path, out := range map[string]any{
		"/policies": &shown.Status, "/hooks": &shown.Hooks, "/policies/shadow?limit=20": &shown.Shadow,
	} {
		if _, err := s.get(r, path, out); err != nil {
			s.failed(w, r, err)
			return
		}
	}
	s.show(w, r, http.StatusOK, "policies", view{Title: "Policies", Section: "policies", Data: shown})
}

// line is a line of the record as the page shows it.
type line struct {
	Seq     uint64         `json:"seq"`
	Time    time.Time      `json:"time"`
	Event   string         `json:"event"`
	Session string         `json:"session"`
	Call    string         `json:"call"`
	Tool    string         `json:"tool"`
	Verdict string         `json:"verdict"`
	Rules   []string       `json:"rules"`
	By      string         `json:"by"`
	Message string         `json:"message"`
	Network *egress.Ledger `json:"network"`
}

// linesOf returns the lines of the record that a page asks for, the newest first.
func (s *site) linesOf(r *http.Request, filter url.Values, more url.Values) (table[line], error) {
	t := table[line]{Filter: filter}
	q := url.Values{"limit": {strconv.Itoa(2 * pageSize)}}
	for key, values := range more {
		q[key] = values
	}
	if before := r.URL.Query().Get("before"); before != "" {
		q.Set("before", before)
	}
	if _, err := s.get(r, "/audit?"+q.Encode(), &t.Rows); err != nil {
		return t, err
	}
	slices.SortFunc(t.Rows, func(a, b line) int { return cmp.Compare(b.Seq, a.Seq) })
	if n := len(t.Rows); n == 2*pageSize {
		t.Older = and(filter, "before", strconv.FormatUint(t.Rows[n-1].Seq, 10))
	}
	return t, nil
}

func (s *site) record(w http.ResponseWriter, r *http.Request) {
	filter := filters(r, "search", "event", "session_id")
	lines, err := s.linesOf(r, filter, filter)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.show(w, r, http.StatusOK, "record", view{Title: "Record", Section: "record", Data: lines})
}

// connection is one row of a call's ledger.
type connection struct {
	Line line
	Row  egress.Row
}

// network shows where calls connected, or tried to, according to the record.
func (s *site) network(w http.ResponseWriter, r *http.Request) {
	filter := filters(r, "host", "verdict", "session_id")
	more := url.Values{"connected": {"true"}}
	if host := filter.Get("host"); host != "" {
		more.Set("search", host)
	}
	if id := filter.Get("session_id"); id != "" {
		more.Set("session_id", id)
	}
	lines, err := s.linesOf(r, filter, more)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	shown := struct {
		table[connection]
		Omitted int // connections that the ledgers of these calls do not hold
	}{table: table[connection]{Filter: filter, Older: lines.Older}}
	host, verdict := strings.ToLower(filter.Get("host")), filter.Get("verdict")
	for _, l := range lines.Rows {
		if l.Network == nil {
			continue
		}
		shown.Omitted += l.Network.Omitted
		for _, c := range l.Network.Connections {
			if strings.Contains(strings.ToLower(c.Host), host) && (verdict == "" || c.Verdict == verdict) {
				shown.Rows = append(shown.Rows, connection{l, c})
			}
		}
	}
	s.show(w, r, http.StatusOK, "network", view{Title: "Network", Section: "network", Data: shown})
}
