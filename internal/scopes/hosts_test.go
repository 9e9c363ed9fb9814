package scopes

import (
	"fmt"
	"strings"
	"testing"
)

func TestFloorsAreRefusedByTheirCodes(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.session("t")
	f := w.floor("s", "main", 0)
	g := w.id("POST /floors", fmt.Sprintf(`{"session_id":"s","floor_no":1,"parent_floor_id":%q,"token_in":5}`, f))
	gen := w.id("POST /floors", `{"session_id":"s","floor_no":2,"state":"generating"}`)
	other := w.floor("t", "main", 0)
	for _, tt := range []struct{ line, body, want string }{
		{"POST /floors", `{"floor_no":0}`, "validation_error"},
		{"POST /floors", `{"session_id":"s"}`, "validation_error"},
		{"POST /floors", `{"session_id":"s","floor_no":-1}`, "validation_error"},
		{"POST /floors", `{"session_id":"s","floor_no":1.5}`, "validation_error"},
		{"POST /floors", `{"session_id":"s","floor_no":9,"state":"done"}`, "validation_error"},
		{"POST /floors", `{"session_id":"s","floor_no":9,"branch_id":" "}`, "validation_error"},
		{"POST /floors", `{"session_id":"s","floor_no":9,"branch_id":"` + strings.Repeat("b", 101) + `"}`, "validation_error"},
		{"POST /floors", `{"session_id":"s","floor_no":9,"branch_id":"a\u0000"}`, "validation_error"},
		{"POST /floors", `{"session_id":"nobody","floor_no":9}`, "not_found"},
		{"POST /floors", `{"session_id":"s","floor_no":9,"parent_floor_id":"nobody"}`, "not_found"},
		{"POST /floors", `{"session_id":"s","floor_no":9,"parent_floor_id":"` + other + `"}`, "floor_parent_session_mismatch"},
		{"POST /floors", `{"session_id":"s","floor_no":0}`, "constraint_error"},
		{"GET /floors/nobody", "", "not_found"},
		{"GET /floors?session_id=s", "", "3 ["},
		{"GET /floors?state=generating", "", "1 ["},
		{"GET /floors?state=done", "", "validation_error"},
		{"PATCH /floors/" + g, `{}`, "validation_error"},
		{"PATCH /floors/" + g, `{"state":"failed"}`, "floor_patch_restricted_field"},
		{"PATCH /floors/" + g, `{"token_in":1,"floor_no":4}`, "floor_patch_mixed_fields"},
		{"PATCH /floors/" + g, `{"floor_no":0}`, "constraint_error"},
		{"PATCH /floors/" + f, `{"parent_floor_id":"` + g + `"}`, "floor_patch_topology_invalid"},
		{"PATCH /floors/" + f, `{"parent_floor_id":"` + f + `"}`, "floor_patch_topology_invalid"},
		{"PATCH /floors/" + g, `{"parent_floor_id":"` + other + `"}`, "floor_parent_session_mismatch"},
		{"PATCH /floors/" + g, `{"parent_floor_id":7}`, "validation_error"},
		{"PATCH /floors/" + g, `{"floor_no":-1}`, "validation_error"},
		{"POST /floors/" + g + "/fail", `{"reason":"` + strings.Repeat("r", maxReason+1) + `"}`, "validation_error"},
		{"PATCH /floors/" + gen, `{"floor_no":7}`, "invalid_state"},
		{"DELETE /floors/" + gen, "", "active_run_in_progress"},
		{"DELETE /floors/nobody", "", "not_found"},
		{"POST /floors/" + gen + "/generate", "", "invalid_state"},
		{"POST /floors/" + gen + "/commit", `{"force":true}`, "validation_error"},
		{"POST /floors/" + g + "/branch", "", "invalid_state"},
	} {
		before := w.dump()
		w.want(tt.want, tt.line, tt.body)
		if w.dump() != before {
			t.Errorf("%s %s has changed the store", tt.line, tt.body)
		}
	}
	got := w.made("PATCH /floors/"+g, `{"parent_floor_id":null,"branch_id":"moved","floor_no":7}`)
	if got["parent_floor_id"] != nil || got["branch_id"] != "moved" || got["floor_no"] != 7.0 || got["token_in"] != 5.0 {
		t.Errorf("got %v", got)
	}
	if _, ok := got["superseded_by_floor_id"]; !ok || len(got) != 12 {
		t.Errorf("got %v", got)
	}
	err := w.sessions.Delete(t.Context(), "a", "s")
	if err == nil || !strings.Contains(err.Error(), "generating") {
		t.Errorf("a session with a floor that is generating: %v", err)
	}
	w.want("{", "GET /floors/"+f, "")
	w.want("{", "POST /floors/"+gen+"/fail", "")
	again := w.made("POST /floors/"+gen+"/generate", "{}")
	if again["state"] != "generating" {
		t.Errorf("got %v", again)
	}
}

func TestBranchesAreResetAndDeleted(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.session("t")
	w.want(`1 [{"branch_id":"main","floor_count":0,"latest_floor_no":null,"latest_floor_id":null,"latest_state":null,"updated_at":1`,
		"GET /sessions/s/branches", "")
	var f [3]string
	for i := range f {
		f[i] = w.floor("s", "main", i)
	}
	w.want("{", "POST /floors/"+f[0]+"/commit", "")
	made := w.made("POST /floors/"+f[0]+"/branch", "")
	if name := made["branch_id"].(string); !strings.HasPrefix(name, "branch-") || made["source_floor_no"] != 0.0 || len(made) != 4 {
		t.Errorf("got %v", made)
	}
	reset := func(target, head string) string {
		return w.do("POST /sessions/s/branches/main/reset", fmt.Sprintf(`{"target_floor_id":%q,"expected_head_floor_id":%q}`, target, head))
	}
	elsewhere := w.floor("t", "main", 0)
	p := w.page(f[2], 0, "output")
	w.stage("s", p, `{"key":"k","value":1}`)
	for _, tt := range []struct{ got, want string }{
		{reset(f[0], f[1]), "branch_head_conflict"},
		{reset("nobody", f[2]), "not_found"},
		{reset(elsewhere, f[2]), "not_found"},
		{w.do("POST /sessions/s/branches/ghost/reset", fmt.Sprintf(`{"target_floor_id":%q,"expected_head_floor_id":%q}`, f[0], f[0])), "not_found"},
		{w.do("POST /sessions/s/branches/main/reset", `{"target_floor_id":"x"}`), "validation_error"},
		{reset(f[0], f[2]), fmt.Sprintf(`{"session_id":"s","branch_id":"main","target_floor_id":%q,"expected_head_floor_id":%q,"superseded_floor_ids":[%q,%q],"superseded_count":2}`, f[0], f[2], f[1], f[2])},
		{reset(f[0], f[0]), fmt.Sprintf(`{"session_id":"s","branch_id":"main","target_floor_id":%q,"expected_head_floor_id":%[1]q,"superseded_floor_ids":[],"superseded_count":0}`, f[0])},
		{reset(f[1], f[0]), "invalid_state"},
		{w.status(p), "discarded floor_superseded"},
		{w.do("POST /floors/"+f[1]+"/branch", ""), "invalid_state"},
		{w.do("POST /floors/"+f[1]+"/commit", ""), "invalid_state"},
		{w.do("GET /floors?session_id=s", ""), "1 ["},
	} {
		if !strings.HasPrefix(tt.got, tt.want) {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
	w.floor("s", "main", 1) // its number is free again
	for _, tt := range []struct{ line, body, want string }{
		{"POST /sessions/s/branches", `{"branch_id":"main"}`, "branch_exists"},
		{"POST /sessions/s/branches", `{"branch_id":"  spaced  ","source_floor_id":"` + f[0] + `"}`, `created {"session_id":"s","branch_id":"spaced","source_floor_id":"` + f[0]},
		{"POST /sessions/t/branches", `{"branch_id":"x","source_floor_id":"` + f[0] + `"}`, "not_found"},
		{"POST /floors/" + f[0] + "/branch", `{"branch_id":"spaced"}`, "branch_exists"},
		{"POST /sessions/t/branches", `{"branch_id":"spaced"}`, "created"},
		{"POST /sessions/t/branches", `{"branch_id":"a/b%2Fc"}`, "created"},
		{"DELETE /branches/spaced", "", "ambiguous_branch"},
		{"DELETE /branches/ghost", "", "not_found"},
		{"DELETE /branches/main", "", "protected_branch"},
		{"DELETE /branches/main?session_id=s", "", "protected_branch"},
		{"DELETE /branches/main?session_id=nobody", "", "not_found"},
		{"DELETE /branches/spaced?session_id=t", "", `{"branch_id":"spaced","session_id":"t","deleted_floor_count":0}`},
		{"DELETE /branches/a%2Fb%252Fc", "", `{"branch_id":"a/b%2Fc","session_id":"t"`},
		{"DELETE /branches/spaced", "", `{"branch_id":"spaced","session_id":"s"`},
		{"GET /sessions/s/branches?sort_by=floor_count&sort_order=desc&limit=1", "", `2 [{"branch_id":"main","floor_count":2,"latest_floor_no":1`},
		{"GET /sessions/s/branches?sort_by=name", "", "validation_error"},
	} {
		w.want(tt.want, tt.line, tt.body)
	}
	gen := w.id("POST /floors", `{"session_id":"s","floor_no":0,"branch_id":"busy","state":"generating"}`)
	w.want("active_run_in_progress", "DELETE /branches/busy", "")
	low := w.floor("s", "running", 0)
	high := w.id("POST /floors", `{"session_id":"s","floor_no":1,"branch_id":"running","state":"generating"}`)
	w.want("invalid_state", "POST /sessions/s/branches/running/reset",
		fmt.Sprintf(`{"target_floor_id":%q,"expected_head_floor_id":%q}`, low, high))
	w.want("{", "GET /floors/"+gen, "")
}

func TestPagesAreRefusedByTheirCodes(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	p, in := w.page(f, 0, "output"), w.page(f, 1, "input")
	v2 := w.made("POST /pages", fmt.Sprintf(`{"floor_id":%q,"page_no":0,"page_kind":"output","version":2,"checksum":"abc"}`, f))
	if v2["is_active"] != false || v2["checksum"] != "abc" || v2["decision"] != nil || len(v2) != 10 {
		t.Errorf("got %v", v2)
	}
	id := v2["id"].(string)
	for _, tt := range []struct{ line, body, want string }{
		{"POST /pages", `{"floor_id":"` + f + `","page_no":5,"page_kind":"output","is_active":true}`, "validation_error"},
		{"POST /pages", `{"floor_id":"` + f + `","page_no":5}`, "validation_error"},
		{"POST /pages", `{"floor_id":"` + f + `","page_no":-1,"page_kind":"output"}`, "validation_error"},
		{"POST /pages", `{"floor_id":"` + f + `","page_no":5,"page_kind":"both"}`, "validation_error"},
		{"POST /pages", `{"floor_id":"` + f + `","page_no":5,"page_kind":"output","version":0}`, "validation_error"},
		{"POST /pages", `{"floor_id":"nobody","page_no":5,"page_kind":"output"}`, "not_found"},
		{"PATCH /pages/" + id, `{"checksum":"` + strings.Repeat("c", maxChecksum+1) + `"}`, "validation_error"},
		{"PATCH /pages/" + id, `{"checksum":7}`, "validation_error"},
		{"PATCH /pages/" + id, `{"page_kind":"both"}`, "validation_error"},
		{"POST /pages", `{"floor_id":"` + f + `","page_no":0,"page_kind":"output"}`, "page_conflict"},
		{"GET /pages?floor_id=" + f, "", "3 ["},
		{"GET /pages?is_active=false", "", "1 ["},
		{"GET /pages?page_kind=input", "", "1 ["},
		{"PATCH /pages/" + id, `{}`, "validation_error"},
		{"PATCH /pages/" + id, `{"version":1}`, "page_conflict"},
		{"PATCH /pages/" + id, `{"decision":"accepted"}`, "validation_error"},
		{"PATCH /pages/nobody", `{"page_no":-1}`, "validation_error"},
		{"PATCH /pages/nobody", `{"page_no":1}`, "not_found"},
		{"PATCH /pages/" + in + "/activate", "", "page_activation_not_allowed"},
	} {
		before := w.dump()
		w.want(tt.want, tt.line, tt.body)
		if w.dump() != before {
			t.Errorf("%s %s has changed the store", tt.line, tt.body)
		}
	}
	if got := w.made("PATCH /pages/"+id+"/activate", ""); got["is_active"] != true || w.made("GET /pages/"+p, "")["is_active"] != false {
		t.Errorf("got %v", got)
	}
	if got := w.made("PATCH /pages/"+id, `{"page_no":1,"checksum":null}`); got["is_active"] != false || got["checksum"] != nil {
		t.Errorf("a slot has one active page: %v", got)
	}
	w.want("{", "POST /floors/"+f+"/commit", "")
	w.want("content_target_locked", "POST /pages", fmt.Sprintf(`{"floor_id":%q,"page_no":9,"page_kind":"output"}`, f))
	w.want("content_target_locked", "PATCH /pages/"+p, `{"page_no":9}`)
	w.want("content_target_locked", "DELETE /pages/"+p, "")
	before, _, _ := strings.Cut(w.dump(), "snapshots|")
	w.want("{", "PATCH /pages/"+p+"/activate", "") // changes no variable
	if after, _, _ := strings.Cut(w.dump(), "snapshots|"); strings.Count(after, "\nvars|") != strings.Count(before, "\nvars|") {
		t.Error("activating a page has changed variables")
	}
}

// A page of a floor that was reset is not activated, and the floor keeps its number beside the one that has it now.
func TestASupersededFloorIsClosed(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	first, second := w.floor("s", "main", 0), w.floor("s", "main", 1)
	w.page(second, 0, "output")
	v2 := w.id("POST /pages", fmt.Sprintf(`{"floor_id":%q,"page_no":0,"page_kind":"output","version":2}`, second))
	if got := w.made("PATCH /pages/"+v2, `{"page_kind":"mixed"}`); got["page_kind"] != "mixed" {
		t.Errorf("the page is %v", got)
	}
	w.want("{", "POST /sessions/s/branches/main/reset",
		fmt.Sprintf(`{"target_floor_id":%q,"expected_head_floor_id":%q}`, first, second))
	w.want("content_target_locked", "PATCH /pages/"+v2+"/activate", "")
}

// A name that is no path is refused, and a name without a path is a key.
func TestPathsOfMacros(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a []", "a.b.c": "a [b c]", `a["x.y"].z['q']`: "a [x.y z q]",
		".a": "", "[a]": "", "a.": "", "a..b": "", "a.*": "", "a[0]": "", `a[""]`: "", `a["x"]y`: "", `a["x`: "",
		"a]b":  "a]b []",
		"a.b]": "",
	} {
		key, path, err := parsePath(name)
		if got := fmt.Sprint(key, " ", path); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%s: got %s, %v, want %q", name, got, err, want)
		}
	}
}

// The parts of a branch go together, and none of them is empty.
func TestWhichBranchIsMeant(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	value := func(more string) string { return `{"scope":"branch","key":"k","value":1,` + more + `}` }
	for _, tt := range []struct{ body, want string }{
		{value(`"session_id":"s"`), "invalid_variable_context"},
		{value(`"session_id":"","branch_id":"main"`), "validation_error"},
		{value(`"session_id":"s","branch_id":""`), "validation_error"},
		{value(`"scope_id":"branch:%zz:main"`), "invalid_variable_context"},
		{value(`"scope_id":"branch::main"`), "invalid_variable_context"},
		{`{"key":"k","value":1}`, "validation_error: scope is missing"},
		{value(`"scope_id":"branch:s:main","session_id":"s","branch_id":"other"`), "invalid_variable_context"},
	} {
		w.want(tt.want, "PUT /variables", tt.body)
	}
	w.want("invalid_variable_context", "GET /variables?scope=branch&scope_id=branch:s:main&session_id=s", "")
	w.want("invalid_variable_context", "GET /variables?scope=branch&branch_id=main", "")
	w.want("0 [", "GET /variables?scope=branch&session_id=s", "")
}
