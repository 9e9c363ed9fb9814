package scopes

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// What needs no host to be refused, and what does. 400 comes before 404, and 404 before 409.
func TestS01_S14_S15_S16_S17_S18_S19_S20_S21_S22_S23_S24_RefusedWrites(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.session("other")
	locked := w.id("POST /floors", `{"session_id":"s","floor_no":0,"state":"committed"}`)
	long := strings.Repeat("k", 257)
	for _, tt := range []struct{ name, body, want string }{
		{"S-01 there are five scopes", `{"scope":"session","scope_id":"s","key":"k","value":1}`, "validation_error"},
		{"S-01 in lower case", `{"scope":"Chat","scope_id":"s","key":"k","value":1}`, "validation_error"},
		{"S-14 the scope is needed", `{"scope_id":"s","key":"k","value":1}`, "validation_error"},
		{"S-15 so is scope_id", `{"scope":"chat","key":"k","value":1}`, "validation_error"},
		{"S-15 of a global variable too", `{"scope":"global","key":"k","value":1}`, "validation_error"},
		{"S-15 empty is none", `{"scope":"chat","scope_id":"","key":"k","value":1}`, "validation_error"},
		{"S-16 half of the pair", `{"scope":"branch","session_id":"s","key":"k","value":1}`, "invalid_variable_context"},
		{"S-16 the other half", `{"scope":"branch","branch_id":"main","key":"k","value":1}`, "invalid_variable_context"},
		{"S-16 the pair is for branches", `{"scope":"chat","scope_id":"s","session_id":"s","key":"k","value":1}`, "invalid_variable_context"},
		{"S-16 a branch needs one of both", `{"scope":"branch","key":"k","value":1}`, "invalid_variable_context"},
		{"S-17 both must agree", `{"scope":"branch","scope_id":"branch:s:a","session_id":"s","branch_id":"b","key":"k","value":1}`, "invalid_variable_context"},
		{"S-18 a scope_id of one part", `{"scope":"branch","scope_id":"branch:onlyone","key":"k","value":1}`, "invalid_variable_context"},
		{"S-18 of three parts", `{"scope":"branch","scope_id":"branch:a:b:c","key":"k","value":1}`, "invalid_variable_context"},
		{"S-18 that does not decode", `{"scope":"branch","scope_id":"branch:a:%zz","key":"k","value":1}`, "invalid_variable_context"},
		{"S-19 the key is needed", `{"scope":"chat","scope_id":"s","key":"","value":1}`, "validation_error"},
		{"S-19 it is bounded", `{"scope":"chat","scope_id":"s","key":"` + long + `","value":1}`, "validation_error"},
		{"S-19 it has no control characters", `{"scope":"chat","scope_id":"s","key":"a\u0000b","value":1}`, "validation_error"},
		{"S-20 the value is needed", `{"scope":"chat","scope_id":"s","key":"k"}`, "validation_error"},
		{"S-21 unknown fields are refused", `{"scop":"chat","scope_id":"s","key":"k","value":1}`, "validation_error"},
		{"S-21 repeated ones too", `{"scope":"chat","scope":"global","scope_id":"s","key":"k","value":1}`, "validation_error"},
		{"S-22 no such session", `{"scope":"chat","scope_id":"nobody","key":"k","value":1}`, "variable_host_not_found"},
		{"S-22 an id with a slash", `{"scope":"page","scope_id":"../../s","key":"k","value":1}`, "variable_host_not_found"},
		{"S-22 an id with a NUL", `{"scope":"floor","scope_id":"a\u0000","key":"k","value":1}`, "variable_host_not_found"},
		{"S-22 a long id", `{"scope":"page","scope_id":"` + strings.Repeat("p", 10_000) + `","key":"k","value":1}`, "variable_host_not_found"},
		{"S-22 a locked floor", `{"scope":"floor","scope_id":"` + locked + `","key":"k","value":1}`, "variable_target_locked"},
		{"S-23 a bad key of a locked floor", `{"scope":"floor","scope_id":"` + locked + `","key":"","value":1}`, "validation_error"},
		{"S-24 a value of more than 16 MB", `{"scope":"chat","scope_id":"s","key":"k","value":"` + strings.Repeat("x", 16<<20) + `"}`, "invalid_variable_value"},
		{"deep JSON", `{"scope":"chat","scope_id":"s","key":"k","value":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, "validation_error"},
	} {
		before := w.dump()
		if got := w.do("PUT /variables", tt.body); !strings.HasPrefix(got, tt.want+":") {
			t.Errorf("%s: got %s, want %s", tt.name, clip(got), tt.want)
		}
		if w.dump() != before {
			t.Errorf("%s: the store has changed", tt.name)
		}
	}
}

func TestS02_S45_TheStrongestScopeWins(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	scopes := []struct{ scope, id string }{
		{"page", p}, {"floor", f}, {"branch", "branch:s:main"}, {"chat", "s"}, {"global", "global"},
	}
	var ids []string
	for _, x := range scopes {
		w.want("created", "PUT /variables", fmt.Sprintf(`{"scope":%q,"scope_id":%q,"key":"k","value":%q}`, x.scope, x.id, x.scope))
		ids = append(ids, w.made("GET /variables?scope="+x.scope, "")["list"].([]any)[0].(map[string]any)["id"].(string))
	}
	if got := w.holds("session_id=s", "k"); got != `"chat" of chat` {
		t.Errorf("S-45: without a branch only chat and global take part, got %s", got)
	}
	for i, x := range scopes {
		if got, want := w.holds("session_id=s&page_id="+p, "k"), fmt.Sprintf("%q of %s", x.scope, x.scope); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.want(`{"id":"`+ids[i]+`","deleted":true}`, "DELETE /variables/"+ids[i], "")
	}
	if got := w.holds("session_id=s&page_id="+p, "k"); got != "" {
		t.Errorf("all were deleted, got %s", got)
	}
}

func TestS03_S13_AGlobalVariableIsOneOfItsAccount(t *testing.T) {
	w := newWorld(t)
	first := w.made("PUT /variables", `{"scope":"global","scope_id":"xyz","key":"k","value":1}`)
	if first["scope_id"] != "global" {
		t.Errorf("scope_id is %v, want global", first["scope_id"])
	}
	got := w.do("PUT /variables", `{"scope":"global","scope_id":"abc","key":"k","value":2}`)
	if strings.HasPrefix(got, "created") {
		t.Errorf("the second write made another variable: %s", got)
	}
	second := w.made("GET /variables/"+first["id"].(string), "")
	if second["value"] != 2.0 || second["updated_at"].(float64) <= first["updated_at"].(float64) {
		t.Errorf("got %v after %v, want the same id, another value and a newer time", second, first)
	}
}

func TestS04_ColonsInIdsSeparateNothing(t *testing.T) {
	if a, b := branchScopeID("a:b", "c"), branchScopeID("a", "b:c"); a == b || a != "branch:a%3Ab:c" {
		t.Errorf("%s and %s", a, b)
	}
	if got, want := branchScopeID("session-a", "alt 1!"), "branch:session-a:alt%201!"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w := newWorld(t)
	w.session("a:b")
	w.session("a")
	w.want("created", "POST /sessions/a/branches", `{"branch_id":"b:main"}`)
	w.want("created", "PUT /variables", `{"scope":"branch","session_id":"a:b","branch_id":"main","key":"k","value":1}`)
	w.want("created", "PUT /variables", `{"scope":"branch","session_id":"a","branch_id":"b:main","key":"k","value":2}`)
	w.want("{", "PUT /variables", `{"scope":"branch","scope_id":"branch:a:b%3Amain","key":"k","value":3}`)
	if got := w.holds("session_id=a%3Ab&branch_id=main", "k"); got != "1 of branch" {
		t.Errorf("got %s", got)
	}
}

func TestS05_S06_S07_OnlyRegisteredBranchesAreWritten(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.want("created", "PUT /variables", `{"scope":"branch","session_id":"s","branch_id":"main","key":"k","value":1}`)
	w.want("variable_host_not_found", "PUT /variables", `{"scope":"branch","session_id":"s","branch_id":"ghost","key":"k","value":1}`)
	if got := w.do("GET /sessions/s/branches", ""); strings.Contains(got, "ghost") {
		t.Errorf("a write has made a branch: %s", got)
	}
	w.want("created", "POST /sessions/s/branches", `{"branch_id":"alt-1"}`)
	w.want("created", "PUT /variables", `{"scope":"branch","session_id":"s","branch_id":"alt-1","key":"k","value":1}`)
	w.floor("s", "by floor", 0)
	w.want("created", "PUT /variables", `{"scope":"branch","session_id":"s","branch_id":"by floor","key":"k","value":1}`)
}

func TestS08_WhatGoesWithItsHost(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.session("stays")
	f := w.floor("s", "alt", 0)
	p := w.page(f, 0, "output")
	w.put("global", "global", "k", "1")
	w.put("chat", "stays", "k", "1")
	left := w.dump()
	w.put("chat", "s", "k", "1")
	w.put("branch", "branch:s:alt", "k", "1")
	w.put("branch", "branch:s:main", "k", "1")
	w.put("floor", f, "k", "1")
	w.put("page", p, "k", "1")
	w.stage("s", p, `{"key":"a","value":1}`)
	total := func() string { got, _, _ := strings.Cut(w.do("GET /variables", ""), " "); return got }
	w.want("{", "DELETE /pages/"+p, "")
	if got := total(); got != "6" {
		t.Errorf("after its page %s variables are left, want 6", got)
	}
	p = w.page(f, 0, "output")
	w.put("page", p, "k", "1")
	w.want("{", "DELETE /floors/"+f, "")
	if got := total(); got != "5" {
		t.Errorf("after its floor %s are left, want 5", got)
	}
	f = w.floor("s", "alt", 0)
	w.put("floor", f, "k", "1")
	w.want(`{"branch_id":"alt","session_id":"s","deleted_floor_count":1}`, "DELETE /branches/alt", "")
	if got := total(); got != "4" {
		t.Errorf("after its branch %s are left, want 4", got)
	}
	f = w.floor("s", "alt", 0)
	w.put("page", w.page(f, 0, "output"), "k", "1")
	if err := w.sessions.Delete(t.Context(), "a", "s"); err != nil {
		t.Fatal(err)
	}
	if got := total(); got != "2" {
		t.Errorf("after its session %s are left, want 2", got)
	}
	if got := w.dump(); strings.Contains(got, "|s|") || len(got) > len(left) {
		t.Errorf("something of the session is left:\n%s\nbefore it:\n%s", got, left)
	}
}

func TestS09_S41_WhatHasNoHostIsNotShownAndCanBeDeleted(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	mine := w.id("PUT /variables", `{"scope":"chat","scope_id":"s","key":"k","value":1}`)
	for _, x := range [][3]string{{"chat", "gone", ""}, {"branch", "s", "gone"}, {"floor", "gone", ""}, {"page", "gone", ""}} {
		id := "var_" + x[0]
		err := w.db.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`INSERT INTO scope_vars (id, account, scope, host, branch, key, authors, updated, value)
				VALUES ($1, 'a', $2, $3, $4, 'k', 1, 5, '1')`, id, x[0], x[1], x[2])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"GET /variables", "GET /variables?key=k"} {
			w.want(`1 [{"id":"`+mine, line, "")
		}
		w.want("0 []", "GET /variables?scope_id=gone", "")
		w.want("0 []", "GET /variables?scope=branch&session_id=s", "")
		w.want("variable_not_found", "GET /variables/"+id, "")
		w.want(`{"id":"`+id+`","deleted":true}`, "DELETE /variables/"+id, "")
		w.want("variable_not_found", "DELETE /variables/"+id, "")
	}
	w.want("1 [", "GET /variables", "")
}

func TestS12_S20_WhatAVariableShows(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	chat := w.made("PUT /variables", `{"scope":"chat","scope_id":"s","key":"钥匙","value":{"n": 1}}`)
	if _, has := chat["scope_ref"]; has || chat["scope_id"] != "s" || chat["key"] != "钥匙" {
		t.Errorf("got %v", chat)
	}
	if at := chat["updated_at"].(float64); at < 1.7e12 || at > 1e13 {
		t.Errorf("updated_at is %v, want Unix milliseconds", at)
	}
	branch := w.made("PUT /variables", `{"scope":"branch","session_id":"s","branch_id":"main","key":"k","value":1}`)
	if got := fmt.Sprint(branch["scope_ref"]); got != "map[branch_id:main session_id:s]" || branch["scope_id"] != "branch:s:main" {
		t.Errorf("got %v", branch)
	}
	for _, value := range []string{
		"null", "false", "0", `""`, "[]", "{}", "9007199254740993", "1.0", "-0.1e400", "123456789012345678901234567890", `"a\u0000b"`,
		`{"b":1,"a":[1,{"c":null}]}`,
	} {
		w.put("chat", "s", "v", value)
		if got := w.do("GET /variables?scope=chat&key=v", ""); !strings.Contains(got, `"value":`+value+`,`) {
			t.Errorf("%s reads back as %s", value, got)
		}
	}
	if got := w.put("chat", "s", strings.Repeat("钥", 256), "1"); !strings.HasPrefix(got, "created") {
		t.Errorf("a key of 256 characters: %s", clip(got))
	}
	if got := w.put("chat", "s", "large", `"`+strings.Repeat("x", 16<<20-2)+`"`); !strings.HasPrefix(got, "created") {
		t.Errorf("a value of 16 MB: %s", clip(got))
	}
	for levels, want := range map[int]string{200: "created", 201: "validation_error"} {
		value := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		if got := w.put("chat", "s", fmt.Sprint("deep", levels), value); !strings.HasPrefix(got, want) {
			t.Errorf("%d levels: got %s, want %s", levels, clip(got), want)
		}
	}
}

func TestS26_S27_S28_S29_S30_ABatchIsAllOrNothing(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.id("POST /floors", `{"session_id":"s","floor_no":0,"state":"generating"}`)
	item := func(scope, id, key string) string {
		return fmt.Sprintf(`{"scope":%q,"scope_id":%q,"key":%q,"value":1}`, scope, id, key)
	}
	send := func(items ...string) string {
		return w.do("PUT /variables/batch", `{"items":[`+strings.Join(items, ",")+`]}`)
	}
	w.put("chat", "s", "there", `"old"`)
	before := w.dump()
	hundred := make([]string, 101)
	for i := range hundred {
		hundred[i] = item("chat", "s", fmt.Sprint("k", i))
	}
	for _, tt := range []struct {
		name  string
		items []string
		want  string
	}{
		{"none", nil, "validation_error: items has 0"},
		{"too many", hundred, "validation_error: items has 101"},
		{"one is malformed", []string{item("chat", "s", "a"), item("chat", "s", "")}, "validation_error: items.1: "},
		{"twice by both names of a branch", []string{
			item("branch", "branch:s:main", "a"), `{"scope":"branch","session_id":"s","branch_id":"main","key":"a","value":2}`,
		}, "duplicate_variable_target: items.1: "},
		{"twice by two ids of global", []string{item("global", "x", "a"), item("global", "y", "a")}, "duplicate_variable_target: "},
		{"a host is missing", []string{item("chat", "s", "a"), item("chat", "nobody", "a")}, "variable_host_not_found: items.1: "},
		{"a target is locked", []string{item("chat", "s", "a"), item("chat", "s", "b"), item("floor", f, "a")}, "variable_target_locked: items.2: "},
		{"404 before 409", []string{item("floor", f, "a"), item("chat", "nobody", "a")}, "variable_host_not_found: items.1: "},
		{"400 before 404", []string{item("chat", "nobody", "a"), item("chat", "s", "")}, "validation_error: items.1: "},
	} {
		if got := send(tt.items...); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if w.dump() != before {
			t.Fatalf("%s: the store has changed", tt.name)
		}
	}
	if got := send(hundred[:100]...); !strings.Contains(got, `"meta":{"total":100,"created":100,"updated":0}`) {
		t.Errorf("a hundred: %s", clip(got))
	}
	got := send(`{"scope":"branch","session_id":"s","branch_id":"main","key":"route","value":"campfire"}`, item("chat", "s", "there"))
	for _, want := range []string{
		`{"results":[{"index":0,"action":"created","data":{"id":"var_`, `"scope_ref":{"session_id":"s","branch_id":"main"},"key":"route"`,
		`{"index":1,"action":"updated","data":{"id":"var_`, `"meta":{"total":2,"created":1,"updated":1}}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

func TestS31_S32_S33_S34_S35_S36_Lists(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.session("t")
	w.want("created", "POST /sessions/s/branches", `{"branch_id":"alt"}`)
	for i := range 60 {
		w.put("chat", "s", fmt.Sprintf("k%02d", i), "1")
	}
	for _, id := range []string{"branch:s:main", "branch:s:alt", "branch:t:main"} {
		w.put("branch", id, "k00", "1")
	}
	for _, tt := range []struct{ query, want string }{
		{"", "63 ["},
		{"?scope=chat", "60 ["},
		{"?scope=global", "0 []"},
		{"?scope_id=s", "60 ["},
		{"?scope_id=branch:s:alt", "1 ["},
		{"?key=k00", "4 ["},
		{"?key=k00&scope=chat&scope_id=s", "1 ["},
		{"?scope=branch", "3 ["},
		{"?scope=branch&session_id=s", "2 ["},
		{"?scope=branch&session_id=s&branch_id=alt", "1 ["},
		{"?scope=branch&scope_id=branch:s:main", "1 ["},
		{"?scope=branch&scope_id=branch:s:main&session_id=s&branch_id=main", "1 ["},
		{"?scope=branch&scope_id=branch:s:main&session_id=s&branch_id=alt", "invalid_variable_context"},
		{"?scope=branch&scope_id=branch:s", "invalid_variable_context"},
		{"?scope=branch&branch_id=alt", "invalid_variable_context"},
		{"?session_id=s", "invalid_variable_context"},
		{"?scope=chat&session_id=s", "invalid_variable_context"},
		{"?scope=session", "validation_error"},
		{"?limit=0", "validation_error"},
		{"?limit=101", "validation_error"},
		{"?offset=-1", "validation_error"},
		{"?sort_by=value", "validation_error"},
		{"?sort_order=up", "validation_error"},
		{"?colour=red", "validation_error"},
	} {
		w.want(tt.want, "GET /variables"+tt.query, "")
	}
	keys := func(query string) string {
		var all []string
		for _, x := range w.made("GET /variables?"+query, "")["list"].([]any) {
			all = append(all, x.(map[string]any)["key"].(string))
		}
		return strings.Join(all, " ")
	}
	if got := keys("scope=chat"); len(strings.Fields(got)) != 50 || !strings.HasPrefix(got, "k59 k58 ") {
		t.Errorf("want 50, the newest first: %s", got)
	}
	if got := keys("scope=chat&offset=50"); got != "k09 k08 k07 k06 k05 k04 k03 k02 k01 k00" {
		t.Errorf("got %s", got)
	}
	if got := keys("scope=chat&sort_by=key&sort_order=asc&limit=3"); got != "k00 k01 k02" {
		t.Errorf("got %s", got)
	}
	if got := keys("scope=chat&sort_by=key&limit=2"); got != "k59 k58" {
		t.Errorf("got %s", got)
	}
	w.put("chat", "s", "k00", "2")
	if got := keys("scope=chat&limit=2"); got != "k00 k59" {
		t.Errorf("what is written again comes first, got %s", got)
	}
}

func TestS37_S38_S39_S40_OneVariable(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	id := w.id("PUT /variables", fmt.Sprintf(`{"scope":"page","scope_id":%q,"key":"k","value":1}`, p))
	w.want(`{"id":"`+id, "GET /variables/"+id, "")
	w.want("variable_not_found", "GET /variables/nobody", "")
	w.want("variable_not_found", "GET /variables/..%2F"+id, "")
	w.want("variable_not_found", "GET /variables/"+strings.Repeat("v", 10_000), "")
	w.want("validation_error: session_id", "GET /variables/resolve", "")
	w.want("{", "POST /floors/"+f+"/generate", "")
	w.want("variable_target_locked", "DELETE /variables/"+id, "")
	w.want("{", "GET /variables/"+id, "")
	w.want("{", "POST /floors/"+f+"/fail", "")
	w.want(`{"id":"`+id+`","deleted":true}`, "DELETE /variables/"+id, "")
	w.want("variable_not_found", "DELETE /variables/"+id, "")
}

func TestS71_AccountsAreSeparate(t *testing.T) {
	w := newWorld(t)
	w.sessionOf("b", "theirs")
	w.session("mine")
	var ids [2]string
	err := w.write(t.Context(), "b", noHost, func(v view) error {
		for i, x := range []target{globalTarget, {scope: Chat, host: "theirs"}} {
			y, _, err := v.put(write{target: x, key: "k", value: json.RawMessage(`"b"`)})
			if err != nil {
				return err
			}
			ids[i] = y.ID
		}
		f := FloorInfo{ID: "flr_b", Session: "theirs", Branch: "main", State: Draft}
		if err := v.Run(`INSERT INTO scope_floors (id, account, session, branch, floor_no, state, created, updated)
			VALUES ($1, 'b', $2, $3, 0, $4, 1, 1)`, f.ID, f.Session, f.Branch, f.State); err != nil {
			return err
		}
		return v.Run(`INSERT INTO scope_pages (id, account, floor, page_no, kind, active, version, created, updated)
			VALUES ('pag_b', 'b', 'flr_b', 0, 'output', 1, 1, 1, 1)`)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.want("created", "PUT /variables", `{"scope":"global","scope_id":"g","key":"k","value":"a"}`)
	if got := w.holds("session_id=mine", "k"); got != `"a" of global` {
		t.Errorf("got %s", got)
	}
	w.want("1 [", "GET /variables", "")
	for _, tt := range []struct{ line, body, want string }{
		{"GET /variables/" + ids[0], "", "variable_not_found"},
		{"DELETE /variables/" + ids[1], "", "variable_not_found"},
		{"PUT /variables", `{"scope":"chat","scope_id":"theirs","key":"k","value":1}`, "variable_host_not_found"},
		{"PUT /variables", `{"scope":"floor","scope_id":"flr_b","key":"k","value":1}`, "variable_host_not_found"},
		{"PUT /variables", `{"scope":"page","scope_id":"pag_b","key":"k","value":1}`, "variable_host_not_found"},
		{"PUT /variables", `{"scope":"branch","session_id":"theirs","branch_id":"main","key":"k","value":1}`, "variable_host_not_found"},
		{"GET /variables/resolve?session_id=theirs", "", "variable_host_not_found"},
		{"GET /variables/resolve?session_id=mine&page_id=pag_b", "", "variable_host_not_found"},
		{"GET /sessions/theirs/branches", "", "not_found"},
		{"POST /sessions/theirs/branches", `{"branch_id":"x"}`, "not_found"},
		{"POST /sessions/theirs/prompt-runtime/preview", `{"text":"x"}`, "not_found"},
		{"DELETE /branches/x?session_id=theirs", "", "not_found"},
		{"POST /floors", `{"session_id":"theirs","floor_no":1}`, "not_found"},
		{"GET /floors/flr_b", "", "not_found"},
		{"PATCH /floors/flr_b", `{"floor_no":4}`, "not_found"},
		{"POST /floors/flr_b/commit", "", "not_found"},
		{"DELETE /floors/flr_b", "", "not_found"},
		{"GET /floors", "", "0 []"},
		{"POST /pages", `{"floor_id":"flr_b","page_no":1,"page_kind":"output"}`, "not_found"},
		{"GET /pages/pag_b", "", "not_found"},
		{"POST /pages/pag_b/accept", "", "not_found"},
		{"GET /pages/pag_b/variables/staged", "", "not_found"},
		{"GET /pages/pag_b/variables/promotions", "", "not_found"},
		{"GET /pages", "", "0 []"},
	} {
		w.want(tt.want, tt.line, tt.body)
	}
	if got := w.call("set_variable", "mine", "pag_b", `{"key":"k","value":1}`); got != "variable_host_not_found" {
		t.Errorf("set_variable: %s", got)
	}
	person := routetest.Call(t, w.routes, tool.RoleOperator, "PUT /variables", `{"scope":"global","scope_id":"g","key":"p","value":1}`)
	if !strings.HasPrefix(person, "created") {
		t.Errorf("an operator: %s", person)
	}
}

// TestTheToolsLeaveNoVariablesOfTheSession: what they set and get is in the scopes already.
func TestTheToolsLeaveNoVariablesOfTheSession(t *testing.T) {
	w := newWorld(t)
	for name, x := range w.tools {
		if !x.Spec().NoCache {
			t.Errorf("%s leaves its arguments and its result in the session", name)
		}
	}
	if len(w.tools) != 2 {
		t.Errorf("%d tools", len(w.tools))
	}
}

// TestEachWriteIsAUseOfItsSession: sessions.keepDays counts it. What is read, refused or global is none.
func TestEachWriteIsAUseOfItsSession(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.session("other")
	used := func(what, want string, f func()) {
		t.Helper()
		w.uses = nil
		if f(); strings.Join(w.uses, " ") != want {
			t.Errorf("%s is a use of %q, want %q", what, w.uses, want)
		}
	}
	var floor, page, variable string
	used("a variable of the session", "s", func() {
		variable = w.id("PUT /variables", `{"scope":"chat","scope_id":"s","key":"k","value":1}`)
	})
	used("a branch", "s", func() { w.want("created", "POST /sessions/s/branches", `{"branch_id":"b"}`) })
	used("a variable of the branch", "s", func() { w.put("branch", "branch:s:b", "k", "1") })
	used("a floor", "s", func() { floor = w.floor("s", "main", 0) })
	used("a variable of the floor", "s", func() { w.put("floor", floor, "k", "1") })
	used("a page", "s", func() { page = w.page(floor, 0, "output") })
	used("a variable of the page", "s", func() { w.put("page", page, "k", "1") })
	used("a page that is accepted", "s", func() { w.made("POST /pages/"+page+"/accept", "") })
	used("a floor that is committed", "s", func() { w.made("POST /floors/"+floor+"/commit", "") })
	used("a variable that goes", "s", func() { w.made("DELETE /variables/"+variable, "") })
	used("a global variable", "", func() { w.put("global", "global", "k", "1") })
	used("a list", "", func() { w.made("GET /variables?scope=chat&scope_id=s", "") })
	used("a write that is refused", "", func() { w.put("floor", floor, "k", "2") })
}
