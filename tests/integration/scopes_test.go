package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scoped sends requests as the public client of the five-scope API does: JSON without the prefix /v1, and on the
// operator socket the account in a header.
type scoped struct {
	d       *running
	socket  string
	account string
}

func (s scoped) send(method, path, body string) (status int, answer string) {
	s.d.t.Helper()
	hc := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.d.work, "run", s.socket))
		},
	}}
	req, err := http.NewRequestWithContext(s.d.t.Context(), method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		s.d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Account-Id", s.account)
	res, err := hc.Do(req)
	if err != nil {
		s.d.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.d.t.Fatal(err)
	}
	return res.StatusCode, string(bytes.TrimSpace(text))
}

// id makes something and returns its id.
func (s scoped) id(path, body string) string {
	s.d.t.Helper()
	var made struct{ Data struct{ ID string } }
	status, answer := s.send("POST", path, body)
	if err := json.Unmarshal([]byte(answer), &made); err != nil || status != 201 {
		s.d.t.Fatalf("POST %s: %d %s", path, status, answer)
	}
	return made.Data.ID
}

func TestS10_S22_S24_S36_S38_TheRequestsOfThePublicClient(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	s := scoped{d: d, socket: "a.sock"}
	s.id("/sessions", `{"id":"session-a","title":"A tale"}`)
	f := s.id("/floors", `{"session_id":"session-a","floor_no":0,"branch_id":"main"}`)
	p := s.id("/pages", `{"floor_id":"`+f+`","page_no":0,"page_kind":"output"}`)
	done := s.id("/floors", `{"session_id":"session-a","floor_no":1,"state":"committed"}`)
	gen := s.id("/floors", `{"session_id":"session-a","floor_no":2,"state":"generating"}`)
	large := `"` + strings.Repeat("x", 16<<20-2) + `"`
	for _, tt := range []struct {
		line, body string
		status     int
		want       string
	}{
		{"POST /sessions/session-a/branches", `{"branch_id":"alt-1"}`, 201, `{"data":{"session_id":"session-a","branch_id":"alt-1"}}`},
		{"PUT /variables", `{"scope":"branch","session_id":"session-a","branch_id":"alt-1","key":"route","value":"campfire"}`, 201, `"scope_ref":{"session_id":"session-a","branch_id":"alt-1"}`},
		{"PUT /v1/variables", `{"scope":"branch","scope_id":"branch:session-a:alt-1","key":"route","value":"harbour"}`, 200, `"value":"harbour"`},
		{"PUT /variables/batch", `{"items":[{"scope":"chat","scope_id":"session-a","key":"mood","value":"tense"}]}`, 200, `"meta":{"total":1,"created":1,"updated":0}`},
		{"GET /variables?scope=branch&session_id=session-a&branch_id=alt-1", "", 200, `"meta":{"total":1,"limit":50,"offset":0,"has_more":false,"sort_by":"updated_at","sort_order":"desc"}`},
		{"GET /variables?limit=1&sort_by=key&sort_order=asc", "", 200, `"meta":{"total":2,"limit":1,"offset":0,"has_more":true,"sort_by":"key","sort_order":"asc"}`},
		{"GET /variables/resolve?session_id=session-a&branch_id=alt-1&include_layers=true", "", 200, `"layers":{"branch":{"scope":"branch",`},
		{"GET /variables/resolve?session_id=session-a&include_layers=maybe", "", 400, `"code":"validation_error"`},
		{"GET /variables/resolve", "", 400, `"code":"validation_error"`},
		{"GET /variables/batch", "", 404, `"code":"variable_not_found"`},
		{"PUT /variables", `{"scop":"chat"}`, 400, `"code":"validation_error"`},
		{"PUT /variables", `{"scope":"chat"`, 400, `"code":"validation_error"`},
		{"PUT /variables", `{"scope":"branch","session_id":"session-a","key":"k","value":1}`, 400, `"code":"invalid_variable_context"`},
		{"PUT /variables", `{"scope":"chat","scope_id":"session-a","key":"k","value":"` + strings.Repeat("x", 16<<20) + `"}`, 400, `"code":"invalid_variable_value"`},
		{"PUT /variables", `{"scope":"chat","scope_id":"session-a","key":"k","value":"` + strings.Repeat("x", 17<<20) + `"}`, 413, `"code":"too_large"`},
		{"PUT /variables", `{"scope":"chat","scope_id":"session-a","key":"large","value":` + large + `}`, 201, `"key":"large"`},
		{"GET /variables?key=large", "", 200, large},
		{"PUT /variables/batch", `{"items":[{"scope":"global","scope_id":"a","key":"k","value":1},{"scope":"global","scope_id":"b","key":"k","value":1}]}`, 400, `"code":"duplicate_variable_target"`},
		{"PUT /variables", `{"scope":"chat","scope_id":"nobody","key":"k","value":1}`, 404, `"code":"variable_host_not_found"`},
		{"PUT /variables", `{"scope":"floor","scope_id":"` + done + `","key":"k","value":1}`, 409, `"code":"variable_target_locked"`},
		{"POST /floors", `{"session_id":"session-a","floor_no":0}`, 409, `"code":"constraint_error"`},
		{"POST /floors/" + done + "/commit", "", 409, `"code":"invalid_state"`},
		{"DELETE /floors/" + gen, "", 409, `"code":"active_run_in_progress"`},
		{"DELETE /sessions/session-a", "", 409, `"code":"active_run_in_progress"`},
		{"DELETE /branches/main?session_id=session-a", "", 409, `"code":"protected_branch"`},
		{"PATCH /floors/" + f, `{"state":"failed"}`, 400, `"code":"floor_patch_restricted_field"`},
		{"POST /pages", `{"floor_id":"` + done + `","page_no":0,"page_kind":"output"}`, 409, `"code":"content_target_locked"`},
		{"GET /floors/..%2F" + f, "", 404, `"code":"not_found"`},
		{"GET /pages/%00", "", 404, `"code":"not_found"`},
		{"GET /pages/" + p + "/variables/staged", "", 200, `{"data":{"page_id":"` + p + `","floor_id":"` + f + `","session_id":"session-a","branch_id":"main","items":[]}}`},
		{"POST /pages/" + p + "/variables/staged", `{}`, 405, `"code":"method_not_allowed"`},
		{"DELETE /pages/" + p + "/variables/promotions", "", 405, `"code":"method_not_allowed"`},
		{"POST /sessions/session-a/prompt-runtime/preview", `{"text":"{{getvar::mood}}","source_floor_id":"` + done + `"}`, 409, `"code":"branch_local_snapshot_missing"`},
		{"POST /sessions/session-a/prompt-runtime/preview", `{"text":"{{getvar::route}}, {{getvar::mood}}","branch_id":"alt-1"}`, 200, `"text":"harbour, tense"`},
	} {
		method, path, _ := strings.Cut(tt.line, " ")
		status, answer := s.send(method, path, tt.body)
		if status != tt.status || !strings.Contains(answer, tt.want) {
			t.Errorf("%s: got %d %.300s, want %d %.100s", tt.line, status, answer, tt.status, tt.want)
		}
	}
}

func TestS71_TheHeaderCountsOnTheOperatorSocketAlone(t *testing.T) {
	d := newDaemon(t, "")
	agent, x, y := scoped{d, "a.sock", "x"}, scoped{d, "o.sock", "x"}, scoped{d, "o.sock", "y"}
	for i, s := range []scoped{agent, x, y} {
		if status, answer := s.send("PUT", "/variables", fmt.Sprintf(`{"scope":"global","scope_id":"g","key":"k","value":%d}`, i)); status != 201 {
			t.Errorf("%d: %d %s", i, status, answer)
		}
	}
	for i, s := range []scoped{agent, x, y} {
		if _, answer := s.send("GET", "/variables", ""); !strings.Contains(answer, fmt.Sprintf(`"value":%d,`, i)) || !strings.Contains(answer, `"total":1,`) {
			t.Errorf("%d sees %s", i, answer)
		}
	}
	x.id("/sessions", `{"id":"of-x"}`)
	if status, answer := y.send("GET", "/sessions/of-x/branches", ""); status != 404 || !strings.Contains(answer, `"not_found"`) {
		t.Errorf("y sees the branches of x: %d %s", status, answer)
	}
}

// The tools take the one request path: references are expanded in them as in any other call, they are judged and
// recorded, and no variable of a session is one of a scope.
func TestS72_V24_V30_V35_ToolsOfTheRequestPath(t *testing.T) {
	d := newDaemon(t, "")
	s := scoped{d: d, socket: "a.sock"}
	one, two := d.session(), d.session()
	f := s.id("/floors", `{"session_id":"`+one+`","floor_no":0}`)
	p := s.id("/pages", `{"floor_id":"`+f+`","page_no":0,"page_kind":"output"}`)
	d.call(one, "WriteVar", `{"name":"a","value":"5"}`)
	call := func(session, name, args string) string {
		t.Helper()
		_, answer := s.send("POST", "/sessions/"+session+"/calls", fmt.Sprintf(`{"tool":%q,"args":%s,"context":{"page_id":%q}}`, name, args, p))
		return answer
	}
	for _, tt := range []struct{ session, name, args, want string }{
		{one, "set_variable", `{"key":"k","value":{"x":"$VAR_REF{{a}}","n":9007199254740993,"$VAR_REF{{a}}":1}}`, `"status":"SUCCESS"`},
		{one, "get_variable", `{"key":"k"}`, `"value":{"x":"5","n":9007199254740993,"$VAR_REF{{a}}":1}`},
		{one, "set_variable", `{"key":"text","value":"$VAR_REF{{a}}"}`, `"status":"SUCCESS"`},
		{one, "get_variable", `{"key":"text"}`, `"value":"5"`},
		{one, "get_variable", `{"key":"a"}`, `"value":null`}, // CX-60
		{two, "set_variable", `{"key":"k","value":1}`, `"code":"invalid_variable_context"`},
		{two, "ReadVar", `{"name":"a"}`, `"code":"variable_not_found"`},
		{one, "set_variable", `{"key":"k","value":1,"scope":"branch"}`, `"status":"ERROR"`},
	} {
		if answer := call(tt.session, tt.name, tt.args); !strings.Contains(answer, tt.want) {
			t.Errorf("%s %s: got %s, want %s", tt.name, tt.args, answer, tt.want)
		}
	}
	r := d.call(one, "set_variable", `{"key":"k","value":1}`)
	if r.Status != "ERROR" || r.Error == nil || r.Error.Code != "invalid_variable_context" {
		t.Errorf("a call without a page: %+v", r)
	}
	if status, answer := s.send("POST", "/pages/"+p+"/accept", ""); status != 200 {
		t.Fatalf("accept: %d %s", status, answer)
	}
	for args, want := range map[string]string{
		"staged " + p:              `text +set +promoted +"5"`,
		"promotions " + p:          `text +floor/` + f + ` +"5"`,
		"get page/" + p + " text":  `^"5"\n$`,
		"get floor/" + f + " text": `^"5"\n$`,
		"tree " + one: `page 0 version 1, output, active, accepted, ` + p +
			`\n(.*\n)? +text = "5" \(page, over floor\)`,
	} {
		out, err := d.exec("sandboxd", append([]string{"scopes"}, strings.Fields(args)...)...)
		if err != nil || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("sandboxd scopes %s: %v\n%s", args, err, out)
		}
	}
	if answer := call(one, "ReadVar", `{"name":"k"}`); !strings.Contains(answer, `"code":"variable_not_found"`) {
		t.Errorf("a scoped variable is one of the session: %s", answer)
	}
	if _, answer := (scoped{d: d, socket: "o.sock"}).send("GET", "/audit?limit=100", ""); !strings.Contains(answer, `"set_variable"`) {
		t.Errorf("the record has no set_variable: %.300s", answer)
	}
	d.stop(os.Kill)
	d.start()
	if answer := call(one, "get_variable", `{"key":"k"}`); !strings.Contains(answer, `"x":"5"`) {
		t.Errorf("after a restart: %s", answer)
	}
}
