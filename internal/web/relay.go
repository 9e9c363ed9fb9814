package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sandboxd/sandboxd/internal/route"
)

// relayed lists the operator routes that the page needs. Routes that would run something new, except an undo, or that
// would change the daemon as a whole, are not among them.
var relayed = []string{
	"GET /v1/", "POST /v1/approvals/{id}", "DELETE /v1/grants/{id}", "POST /v1/policies/explain",
	"POST /v1/calls/{id}/cancel", "POST /v1/calls/{id}/undo", "POST /v1/jobs/{id}/stop",
	"POST /v1/sessions/{id}/shares", "DELETE /v1/shares/{id}",
}

// relay serves an operator route to a person who is logged in, with secrets masked.
func (s *site) relay(w http.ResponseWriter, r *http.Request) {
	r = r.Clone(r.Context())
	r.Header.Del("Cookie")
	r.Header.Del("Accept-Encoding")
	out := &route.Masked{ResponseWriter: w, Redact: s.redactor(r.URL.Path), Pieces: s.host.Pieces}
	s.host.Operators(personOf(r).caller()).ServeHTTP(out, r)
	out.End()
}

// redactor returns the function that masks the answer of a route. A question is shown without masks, because
// a person who edits a masked text would send the mask.
func (s *site) redactor(path string) func(string) string {
	path = strings.TrimPrefix(path, "/v1")
	if path == "/approvals" || strings.HasPrefix(path, "/approvals/") {
		return func(text string) string { return text }
	}
	return s.host.Redact
}

// answer is the answer of an operator route to the page itself.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) { a.code = code }

func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// apiError is an error of an operator route.
type apiError struct {
	Status int    `json:"-"`
	Code   string `json:"code"`
	Msg    string `json:"message"`
	Hint   string `json:"hint"`
}

func (e *apiError) Error() string { return e.Msg }

// list says which part of the whole list an answer holds.
type list struct {
	Total, Limit, Offset int
	HasMore              bool `json:"has_more"`
}

// get calls an operator route for the person who loads a page, and decodes its masked data.
func (s *site) get(r *http.Request, path string, out any) (list, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, path, nil)
	if err != nil {
		return list{}, err
	}
	said := &answer{header: http.Header{}, code: http.StatusOK}
	s.host.Operators(personOf(r).caller()).ServeHTTP(said, req)
	safe, err := route.MaskJSON(said.body.Bytes(), s.redactor(req.URL.Path))
	if err != nil {
		return list{}, err
	}
	var got struct {
		Data  json.RawMessage `json:"data"`
		Meta  list            `json:"meta"`
		Error *apiError       `json:"error"`
	}
	if err := json.Unmarshal(safe, &got); err != nil {
		return list{}, err
	}
	if got.Error != nil {
		got.Error.Status = said.code
		return list{}, got.Error
	}
	return got.Meta, json.Unmarshal(got.Data, out)
}
