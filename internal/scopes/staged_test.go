package scopes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestS25_WhichStatesLock(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	n := 0
	writes := func(when, want string) {
		t.Helper()
		for _, x := range []struct{ scope, id string }{{"floor", f}, {"page", p}} {
			n++
			if got := w.put(x.scope, x.id, fmt.Sprint("k", n), "1"); !strings.HasPrefix(got, want) {
				t.Errorf("%s: a write to the %s is %s, want %s", when, x.scope, got, want)
			}
		}
		for _, x := range []struct{ scope, id string }{{"branch", "branch:s:main"}, {"chat", "s"}, {"global", "g"}} {
			if got := w.put(x.scope, x.id, fmt.Sprint("k", n), "1"); !strings.HasPrefix(got, "created") {
				t.Errorf("%s: a write to %s is %s", when, x.scope, got)
			}
		}
	}
	writes("draft", "created")
	w.want("{", "POST /floors/"+f+"/generate", "")
	writes("generating", "variable_target_locked")
	w.want("{", "POST /floors/"+f+"/fail", "")
	writes("failed", "created")
	w.want("{", "POST /floors/"+f+"/generate", "")
	w.want("{", "POST /floors/"+f+"/commit", "")
	writes("committed", "variable_target_locked")
	base := f
	f = w.floor("s", "main", 1)
	p = w.page(f, 0, "output")
	w.want("{", "POST /sessions/s/branches/main/reset", fmt.Sprintf(`{"target_floor_id":%q,"expected_head_floor_id":%q}`, base, f))
	writes("superseded", "variable_target_locked")
}

func TestS10_S11_S50_S51_S52_TheLedgerIsApart(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	empty := fmt.Sprintf(`{"page_id":%q,"floor_id":%q,"session_id":"s","branch_id":"main","items":[]}`, p, f)
	w.want(empty, "GET /pages/"+p+"/variables/staged", "")
	w.want(empty, "GET /pages/"+p+"/variables/promotions", "")
	w.want("not_found", "GET /pages/none/variables/staged", "")
	w.want("{", "POST /floors/"+f+"/generate", "")
	w.stage("s", p, `{"key":"mood","value":"steady"}`)
	if got := w.holds("session_id=s&page_id="+p, "mood"); got != "" {
		t.Errorf("what is staged holds already: %s", got)
	}
	row := w.items(p, "staged")[0]
	run := row["evidence"].(map[string]any)["runId"]
	for name, want := range map[string]any{
		"key": "mood", "op": "set", "value": "steady", "intent": "promote_to_floor_on_accept", "conflict_policy": "replace",
		"reason": "builtin:set_variable", "status": "staged", "decision_reason": nil, "resolved_at": nil,
		"source":   map[string]any{"toolName": "set_variable", "providerId": "builtin"},
		"evidence": map[string]any{"runId": run, "generationAttemptNo": 1.0},
	} {
		if got, want := fmt.Sprint(row[name]), fmt.Sprint(want); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if run == nil || len(row) != 13 {
		t.Errorf("got %v", row)
	}
	w.want("{", "POST /floors/"+f+"/fail", "")
	w.want("{", "POST /floors/"+f+"/generate", "")
	w.stage("s", p, `{"key":"mood","value":"calm","reason":"the rain has stopped"}`)
	again := w.items(p, "staged")[1]
	of := again["evidence"].(map[string]any)
	if of["generationAttemptNo"] != 2.0 || of["runId"] == run || of["runId"] == nil ||
		again["reason"] != "the rain has stopped" {
		t.Errorf("of another attempt: %v", again)
	}
	before := w.dump()
	w.do("GET /pages/"+p+"/variables/staged", "")
	w.do("GET /pages/"+p+"/variables/promotions", "")
	if w.dump() != before {
		t.Error("looking has changed the store")
	}
	for _, rt := range w.routes {
		if strings.Contains(rt.Pattern, "/variables/staged") && !strings.HasPrefix(rt.Pattern, "GET ") {
			t.Errorf("%s writes to the ledger", rt.Pattern)
		}
	}
}

// What becomes of a staged write, by the page that it is for and by what it says.
func TestS53_S54_S55_S56_S57_S58_S73_WhatBecomesOfAStagedWrite(t *testing.T) {
	for _, tt := range []struct {
		name, kind, args, then string
		status, page, floor    string // of the row, and where the key holds then
	}{
		{"S-54 accepted", "output", `{"key":"k","value":1}`, "accept", "promoted", "1", "1"},
		{"S-54 committed on an active page", "output", `{"key":"k","value":1}`, "commit", "promoted", "1", "1"},
		{"S-53 for the page alone", "output", `{"key":"k","value":1,"intent":"page_only"}`, "accept", "accepted_page_only", "1", ""},
		{"S-53 at the commit too", "output", `{"key":"k","value":1,"intent":"page_only"}`, "commit", "accepted_page_only", "1", ""},
		{"S-55 rejected", "output", `{"key":"k","value":1}`, "reject", "rejected page_rejected", "", ""},
		{"S-55 a page that is not active", "output", `{"key":"k","value":1}`, "other commit", "discarded page_not_active_at_commit", "", ""},
		{"S-55 accepted though not active", "output", `{"key":"k","value":1}`, "other accept", "promoted", "1", "1"},
		{"S-55 a page of input", "input", `{"key":"k","value":1}`, "commit", "rejected page_commit_gate_source_page_not_output", "", ""},
		{"S-55 a mixed page", "mixed", `{"key":"k","value":1}`, "accept", "rejected page_commit_gate_source_page_not_output", "", ""},
		{"S-55 the floor fails", "output", `{"key":"k","value":1}`, "fail", "discarded floor_failed", "", ""},
		{"S-56 if absent, and it is there", "output", `{"key":"there","value":1,"conflict_policy":"if_absent"}`, "accept", "accepted_page_only promotion_skipped_if_absent", "1", "0"},
		{"S-56 if absent, and it is not", "output", `{"key":"k","value":1,"conflict_policy":"if_absent"}`, "accept", "promoted", "1", "1"},
		{"S-56 replaced", "output", `{"key":"there","value":1}`, "accept", "promoted", "1", "1"},
		{"S-57 a delete", "output", `{"key":"there","op":"delete"}`, "accept", "accepted_page_only delete_op_not_materialized_in_phase_one", "", "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.session("s")
			f := w.floor("s", "main", 0)
			w.put("floor", f, "there", "0")
			p := w.page(f, 0, tt.kind)
			w.stage("s", p, tt.args)
			if then, ok := strings.CutPrefix(tt.then, "other "); ok {
				other := w.id("POST /pages", fmt.Sprintf(`{"floor_id":%q,"page_no":0,"page_kind":"output","version":2}`, f))
				w.want("{", "PATCH /pages/"+other+"/activate", "")
				tt.then = then
			}
			if tt.then == "commit" || tt.then == "fail" {
				w.want("{", "POST /floors/"+f+"/"+tt.then, "")
			} else {
				w.want(`{"id":"`+p, "POST /pages/"+p+"/"+tt.then, "")
			}
			if got := w.status(p); got != tt.status {
				t.Errorf("got %s, want %s", got, tt.status)
			}
			if at := w.items(p, "staged")[0]["resolved_at"]; at == nil {
				t.Error("it is not said when that was")
			}
			var args struct{ Key string }
			if err := json.Unmarshal([]byte(tt.args), &args); err != nil {
				t.Fatal(err)
			}
			value := func(scope, id string) string {
				list := w.made("GET /variables?scope="+scope+"&scope_id="+id+"&key="+args.Key, "")["list"].([]any)
				if len(list) == 0 {
					return ""
				}
				return fmt.Sprint(list[0].(map[string]any)["value"])
			}
			if page, floor := value("page", p), value("floor", f); page != tt.page || floor != tt.floor {
				t.Errorf("the page has %q and the floor %q, want %q and %q", page, floor, tt.page, tt.floor)
			}
			traces := w.items(p, "promotions")
			if (tt.status == "promoted") != (len(traces) == 1) {
				t.Errorf("%d traces of what is %s", len(traces), tt.status)
			}
			for _, x := range traces {
				if x["staged_write_id"] != w.items(p, "staged")[0]["id"] || x["from_scope"] != "page" || x["from_scope_id"] != p ||
					x["to_scope"] != "floor" || x["to_scope_id"] != f || x["value"] != 1.0 || x["source_variable_id"] == x["target_variable_id"] {
					t.Errorf("got %v", x)
				}
			}
		})
	}
}

func TestS58_S59_PlainPageVariablesArePromotedAtTheCommitAndNoFurther(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	off := w.id("POST /pages", fmt.Sprintf(`{"floor_id":%q,"page_no":0,"page_kind":"output","version":2}`, f))
	in := w.page(f, 1, "input")
	said := w.id("POST /pages", fmt.Sprintf(`{"floor_id":%q,"page_no":0,"page_kind":"output","version":3}`, f))
	w.want("{", "POST /pages/"+said+"/accept", "")
	w.put("page", said, "accepted", "1")
	w.put("page", p, "plain", "1")
	w.put("page", off, "off", "1")
	w.put("page", in, "in", "1")
	w.stage("s", p, `{"key":"only","value":1,"intent":"page_only"}`)
	w.want("{", "POST /pages/"+p+"/accept", "")
	w.stage("s", p, `{"key":"late","value":2}`)
	w.want("{", "POST /pages/"+p+"/accept", "") // the same answer changes nothing
	if got := w.status(p); got != "accepted_page_only, staged" {
		t.Errorf("got %s", got)
	}
	w.want("{", "POST /floors/"+f+"/commit", "")
	var got []string
	for _, x := range w.items(p, "promotions") {
		got = append(got, fmt.Sprint(x["key"], " ", x["staged_write_id"] == nil))
	}
	if want := []string{"late false", "plain true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if all := w.items(said, "promotions"); len(all) != 1 || all[0]["key"] != "accepted" {
		t.Errorf("of a page that was accepted and is not active: %v", all)
	}
	if got := w.do("GET /variables?scope=floor", ""); !strings.HasPrefix(got, "3 [") {
		t.Errorf("the floor has %s", got)
	}
	for _, scope := range []string{"branch", "chat", "global"} {
		w.want("0 []", "GET /variables?scope="+scope, "")
	}
}

func TestS58_OfTwoPagesTheLastRowWins(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	a, b := w.page(f, 0, "output"), w.page(f, 1, "output")
	w.stage("s", b, `{"key":"k","value":"first"}`)
	w.stage("s", a, `{"key":"k","value":"last"}`)
	w.want("{", "POST /floors/"+f+"/commit", "")
	if got := w.holds("session_id=s&floor_id="+f, "k"); got != `"last" of floor` {
		t.Errorf("got %s", got)
	}
}

func TestS22_DecisionsAreMadeOnce(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	p, q := w.page(f, 0, "output"), w.page(f, 1, "output")
	w.want("{", "POST /pages/"+p+"/accept", "{}")
	w.want("invalid_state", "POST /pages/"+p+"/reject", `{"reason":"changed my mind"}`)
	w.want("{", "POST /pages/"+q+"/reject", `{"reason":"too grim"}`)
	w.want("{", "POST /pages/"+q+"/reject", "")
	w.want("invalid_state", "POST /pages/"+q+"/accept", "")
	w.want("validation_error", "POST /pages/"+q+"/accept", `{"reason":"x"}`)
	if len(w.notes) != 2 || !strings.Contains(w.notes[1].Message, "too grim") {
		t.Errorf("the record has %+v", w.notes)
	}
	w.want("{", "POST /floors/"+f+"/commit", "")
	w.want("content_target_locked", "POST /pages/"+p+"/accept", "")
	w.want("invalid_state", "POST /floors/"+f+"/commit", "")
	w.want("invalid_state", "POST /floors/"+f+"/fail", "")
	w.want("invalid_state", "POST /floors/"+f+"/generate", "")
	if got := w.call("set_variable", "s", p, `{"key":"k","value":1}`); got != "variable_target_locked" {
		t.Errorf("got %s", got)
	}
	f = w.floor("s", "main", 1)
	p = w.page(f, 0, "output")
	w.want("{", "POST /floors/"+f+"/fail", `{"reason":"no answer came"}`)
	last := w.notes[len(w.notes)-1]
	if last.Name != "floor_failed" || !strings.HasSuffix(last.Message, ": no answer came") {
		t.Errorf("the record has %+v", last)
	}
	w.want("invalid_state", "POST /floors/"+f+"/commit", "")
	w.want("invalid_state", "POST /floors/"+f+"/fail", "")
	if got := w.call("set_variable", "s", p, `{"key":"k","value":1}`); got != "variable_target_locked" {
		t.Errorf("a floor that failed: %s", got)
	}
}

func TestS72_TheTools(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.session("other")
	f := w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	w.put("chat", "s", "k", `{"n":9007199254740993}`)
	for _, tt := range []struct{ tool, session, page, args, want string }{
		{"get_variable", "s", p, `{"key":"none"}`, "null"},
		{"get_variable", "s", p, `{"key":"k"}`, `{"n":9007199254740993}`},
		{"set_variable", "s", p, `{"key":"k","value":[1, 2]}`, "Variable 'k' is staged for this page; it holds when the page is accepted."},
		{"get_variable", "s", p, `{"key":"k"}`, "[1,2]"},
		{"set_variable", "s", p, `{"key":"k","op":"delete"}`, "Variable 'k' is staged for this page; it holds when the page is accepted."},
		{"get_variable", "s", p, `{"key":"k"}`, "null"},
		{"set_variable", "s", "", `{"key":"k","value":1}`, "invalid_variable_context"},
		{"get_variable", "s", "", `{"key":"k"}`, "invalid_variable_context"},
		{"set_variable", "other", p, `{"key":"k","value":1}`, "invalid_variable_context"},
		{"set_variable", "s", "none", `{"key":"k","value":1}`, "variable_host_not_found"},
		{"set_variable", "s", p, `{"key":"k"}`, "validation_error"},
		{"set_variable", "s", p, `{"key":"k","value":1,"op":"delete"}`, "validation_error"},
		{"set_variable", "s", p, `{"key":"k","value":1,"intent":"promote_to_branch"}`, "validation_error"},
		{"set_variable", "s", p, `{"key":"a\u0007","value":1}`, "validation_error"},
		{
			"set_variable", "s", p, `{"key":"r","value":1,"reason":"` + strings.Repeat("ä", 1000) + `"}`,
			"Variable 'r' is staged for this page; it holds when the page is accepted.",
		},
		{
			"set_variable", "s", p, `{"key":"r","value":1,"reason":"` + strings.Repeat("ä", 1001) + `"}`,
			"validation_error",
		},
	} {
		if got := w.call(tt.tool, tt.session, tt.page, tt.args); got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.tool, tt.args, got, tt.want)
		}
	}
	w.want("{", "POST /pages/"+p+"/accept", "")
	if got := w.call("get_variable", "s", p, `{"key":"k"}`); got != "[1,2]" {
		t.Errorf("what was accepted holds: %s", got)
	}
}

func TestTheSchemasOfTheToolsAreJSON(t *testing.T) {
	for name, x := range newWorld(t).tools {
		if !json.Valid(x.Spec().Schema) {
			t.Errorf("the schema of %s is no JSON:\n%s", name, x.Spec().Schema)
		}
	}
}

func TestAValueKeepsItsAuthor(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	beside := w.page(f, 1, "output") // reads what was promoted to the floor
	in := tool.In{
		Account: "a", Session: "s", Host: tool.Host{Page: p}, Args: json.RawMessage(`{"key":"k","value":"of a page"}`),
		Origins: tool.Origins{Args: map[string][]tool.Origin{"value": {tool.OriginModel, tool.OriginWeb}}},
	}
	if _, err := w.run("set_variable", in); err != nil {
		t.Fatal(err)
	}
	in.Args, in.Origins = json.RawMessage(`{"key":"k"}`), tool.Origins{}
	for _, when := range []string{"staged", "accepted", "committed"} {
		out, err := w.run("get_variable", in)
		if err != nil || out.Origin != tool.OriginWeb {
			t.Errorf("%s: the author is %s, %v", when, out.Origin, err)
		}
		want, other := tool.OriginWeb, in
		if other.Host.Page = beside; when == "staged" {
			want = ""
		}
		if out, err := w.run("get_variable", other); err != nil || out.Origin != want {
			t.Errorf("%s: on the floor the author is %q, %v", when, out.Origin, err)
		}
		switch when {
		case "staged":
			w.want("{", "POST /pages/"+p+"/accept", "")
		case "accepted":
			w.want("{", "POST /floors/"+f+"/commit", "")
		}
	}
	for role, want := range map[tool.Role]tool.Origin{tool.RoleAgent: tool.OriginModel, tool.RoleOperator: tool.OriginPerson} {
		routetest.Call(t, w.routes, role, "PUT /variables", `{"scope":"chat","scope_id":"s","key":"`+string(role)+`","value":1}`)
		in.Args = json.RawMessage(`{"key":"` + string(role) + `"}`)
		if out, err := w.run("get_variable", in); err != nil || out.Origin != want {
			t.Errorf("%s: the author is %s, %v", role, out.Origin, err)
		}
	}
}

// Two that commit at once: one does it, and the other is told.
func TestS73_AFloorIsCommittedOnce(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	for n := range 10 {
		f := w.floor("s", "main", n)
		p := w.page(f, 0, "output")
		w.stage("s", p, `{"key":"k","value":1}`)
		var got [4]string
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i], _, _ = strings.Cut(w.do("POST /floors/"+f+"/commit", ""), ":") })
		}
		wg.Wait()
		slices.Sort(got[:])
		if got[0] != "invalid_state" || got[2] != "invalid_state" || got[3] != `{"id"` {
			t.Errorf("got %q", got)
		}
		if traces := w.items(p, "promotions"); len(traces) != 1 {
			t.Errorf("%d promotions", len(traces))
		}
	}
}

// Of writers at once to one key none makes a second variable.
func TestS13_ManyWritersOfOneKey(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	var wg sync.WaitGroup
	var made [8]int
	for i := range made {
		wg.Go(func() {
			for n := range 20 {
				if strings.HasPrefix(w.put("chat", "s", "k", fmt.Sprint(i*100+n)), "created") {
					made[i]++
				}
			}
		})
	}
	wg.Wait()
	if n := made[0] + made[1] + made[2] + made[3] + made[4] + made[5] + made[6] + made[7]; n != 1 {
		t.Errorf("it was made %d times", n)
	}
	w.want("1 [", "GET /variables", "")
}
