package scopes

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestS42_S43_S44_S49_WhereAReaderStands(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.session("t")
	f, g := w.floor("s", "alt", 0), w.floor("s", "main", 0)
	p := w.page(f, 0, "output")
	for _, tt := range []struct{ query, want string }{
		{"", "validation_error"},
		{"session_id=", "validation_error"},
		{"session_id=s&include_layers=maybe", "validation_error"},
		{"session_id=s&include_layers=TRUE", "validation_error"},
		{"session_id=s&turn=1", "validation_error"},
		{"session_id=s", `{"context":{"account_id":"a","session_id":"s","global_scope_id":"global"},"resolved":[]}`},
		{"session_id=s&page_id=" + p, `{"context":{"account_id":"a","session_id":"s","branch_id":"alt","floor_id":"` + f + `","page_id":"` + p + `",`},
		{"session_id=s&floor_id=" + f, `{"context":{"account_id":"a","session_id":"s","branch_id":"alt","floor_id":"` + f + `","global`},
		{"session_id=s&branch_id=alt&floor_id=" + f + "&page_id=" + p, "{"},
		{"session_id=s&branch_id=main&page_id=" + p, "invalid_variable_context"},
		{"session_id=s&branch_id=main&floor_id=" + f, "invalid_variable_context"},
		{"session_id=s&floor_id=" + g + "&page_id=" + p, "invalid_variable_context"},
		{"session_id=t&page_id=" + p, "invalid_variable_context"},
		{"session_id=t&floor_id=" + f, "invalid_variable_context"},
		{"session_id=nobody", "variable_host_not_found"},
		{"session_id=s&branch_id=ghost", "variable_host_not_found"},
		{"session_id=s&floor_id=ghost", "variable_host_not_found"},
		{"session_id=s&page_id=ghost", "variable_host_not_found"},
	} {
		w.want(tt.want, "GET /variables/resolve?"+tt.query, "")
	}
}

func TestS46_S47_S48_WhatAResolutionShows(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	f := w.floor("s", "main", 0)
	w.put("global", "g", "b", "1")
	w.put("chat", "s", "b", "2")
	w.put("chat", "s", "a", "2")
	w.put("branch", "branch:s:main", "b", "3")
	plain := w.do("GET /variables/resolve?session_id=s&floor_id="+f+"&include_layers=false", "")
	if strings.Contains(plain, "layers") {
		t.Errorf("nobody asked for layers: %s", plain)
	}
	var got []string
	for _, x := range w.made("GET /variables/resolve?session_id=s&floor_id="+f, "")["resolved"].([]any) {
		x := x.(map[string]any)
		got = append(got, fmt.Sprint(x["key"], x["source_scope"], x["source_scope_id"], x["source_scope_ref"], x["updated_at"] != nil))
	}
	want := []string{"achats<nil> true", "bbranchbranch:s:mainmap[branch_id:main session_id:s] true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	layers := w.made("GET /variables/resolve?include_layers=1&session_id=s&floor_id="+f, "")["layers"].(map[string]any)
	shown := map[string]string{}
	for scope, x := range layers {
		x := x.(map[string]any)
		var keys []string
		for _, item := range x["items"].([]any) {
			keys = append(keys, item.(map[string]any)["key"].(string))
		}
		shown[scope] = fmt.Sprint(x["scope"], " ", x["scope_id"], " ", strings.Join(keys, ","))
	}
	if got, want := fmt.Sprint(shown), fmt.Sprintf("map[branch:branch branch:s:main b chat:chat s a,b floor:floor %s  global:global global b]", f); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// fill makes what the macros of the tests read.
func fill(w *world) {
	w.session("s")
	for _, x := range []struct{ scope, id, key, value string }{
		{"branch", "branch:s:main", "x", `"of branch"`},
		{"global", "g", "x", `"of global"`},
		{"chat", "s", "x", `"of chat"`},
		{"chat", "s", "c", `"chat shows"`},
		{"branch", "branch:s:main", "资产", `{"银币":2,"金币":3}`},
		{"global", "g", "账户", `{"余额":7}`},
		{"branch", "branch:s:main", "装备", `{"剑.名":"霜"}`},
		{"branch", "branch:s:main", "a", `{"b":2,"z":{"y":9007199254740993},"a":[1]}`},
		{"branch", "branch:s:main", "a.flat", "1"},
		{"branch", "branch:s:main", "n", "null"},
		{"branch", "branch:s:main", "plain", `"text"`},
	} {
		w.put(x.scope, x.id, x.key, x.value)
	}
}

func TestS60_S61_S62_S63_S64_S65_S69_Macros(t *testing.T) {
	w := newWorld(t)
	fill(w)
	before := w.dump()
	for _, tt := range []struct{ name, text, want, warning, writes string }{
		{"S-60 the local view is of the branch", "{{getvar::x}} {{.x}}", "of branch of branch", "", ""},
		{"S-60 chat shows through", "{{getvar::c}}", "chat shows", "", ""},
		{"S-60 the global view is of global", "{{getglobalvar::x}} {{$x}}", "of global of global", "", ""},
		{"S-60 chat is not global", "<{{getglobalvar::c}}>", "<>", "", ""},
		{"S-61 writes of one view are of that view", "{{setvar::new::1}}<{{getglobalvar::new}}>{{getvar::new}}", "<>1", "", "set branch new 1"},
		{"S-61 the other way", "{{setglobalvar::new::1}}<{{getvar::new}}>{{getglobalvar::new}}", "<>1", "", "set global new 1"},
		{"S-62 a path", "{{getvar::资产.金币}}", "3", "", ""},
		{"S-62 a global path", "{{getglobalvar::账户.余额}}", "7", "", ""},
		{"S-62 a quoted key", `{{getvar::装备["剑.名"]}}{{getvar::装备['剑.名']}}`, "霜霜", "", ""},
		{"S-62 S-64 a write by a path", "{{setvar::资产.金币::3}}", "", "", `set branch 资产 {"金币":"3","银币":2}`},
		{"S-62 a deletion by a path", "{{deletevar::资产.银币}}{{getvar::资产}}", `{"金币":3}`, "", `set branch 资产 {"金币":3}`},
		{"S-62 a deletion", "{{deletevar::plain}}<{{getvar::plain}}>", "<>", "", "delete branch plain <nil>"},
		{"S-63 the whole name comes first", "{{getvar::a.flat}} {{setvar::a.flat::2}}{{getvar::a.flat}}", "1 2", "", "set branch a.flat 2"},
		{"S-64 objects are made", "{{setvar::o.p.q::v}}{{getvar::o}}", `{"p":{"q":"v"}}`, "", `set branch o {"p":{"q":"v"}}`},
		{"S-65 objects are stable JSON", "{{getvar::a}}", `{"a":[1],"b":2,"z":{"y":9007199254740993}}`, "", ""},
		{
			"S-62 a global deletion", "{{deleteglobalvar::x}}<{{getglobalvar::x}}>{{getvar::x}}", "<>of branch", "",
			"delete global x <nil>",
		},
		{"what is not there is empty", "<{{getvar::nothing}}{{getvar::a.nothing.more}}>", "<>", "", ""},
		{"null is null", "{{getvar::n}}", "null", "", ""},
		{"macros in macros", "{{setvar::copy::{{getvar::x}}!}}{{getvar::copy}}", "of branch!", "", "set branch copy of branch!"},
		{"S-69 an index", "{{getvar::a.a[0]}}", "{{getvar::a.a[0]}}", "macro_parse_failed", ""},
		{"S-69 a wildcard", "{{getvar::a.*}}", "{{getvar::a.*}}", "macro_parse_failed", ""},
		{"S-69 no object on the path", "{{getvar::plain.b}}", "{{getvar::plain.b}}", "macro_arg_type_invalid", ""},
		{"S-69 nor for a write", "{{setvar::plain.b::1}}", "{{setvar::plain.b::1}}", "macro_arg_type_invalid", ""},
		{
			"S-69 a name that no variable may have", "{{setvar::" + strings.Repeat("k", 257) + "::1}}",
			"{{setvar::" + strings.Repeat("k", 257) + "::1}}", "macro_parse_failed", "",
		},
		{"S-69 an unknown macro", "a {{roll::2d6}} b", "a {{roll::2d6}} b", "macro_unknown", ""},
		{"S-69 no end", "a {{getvar::x", "a {{getvar::x", "macro_parse_failed", ""},
		{"S-69 no value", "{{setvar::x}}", "{{setvar::x}}", "macro_parse_failed", ""},
		{"S-69 too many", strings.Repeat("{{.x}}", 257), strings.Repeat("of branch", 256) + "{{.x}}", "macro_limit_exceeded", ""},
	} {
		got := w.made("POST /sessions/s/prompt-runtime/preview", fmt.Sprintf(`{"text":%q}`, tt.text))
		m := got["runtime_trace"].(map[string]any)["macro"].(map[string]any)
		var codes, writes []string
		for _, x := range m["warnings"].([]any) {
			codes = append(codes, x.(map[string]any)["code"].(string))
		}
		for _, x := range m["mutation_preview"].([]any) {
			x := x.(map[string]any)
			writes = append(writes, fmt.Sprint(x["kind"], " ", x["scope"], " ", x["key"], " ", x["value"]))
		}
		if got["text"] != tt.want || strings.Join(codes, " ") != tt.warning || strings.Join(writes, "; ") != tt.writes {
			t.Errorf("%s: got %q, warnings %q, writes %q", tt.name, got["text"], codes, writes)
		}
		if len(m["staged_mutations"].([]any)) > 0 {
			t.Errorf("%s: something is staged", tt.name)
		}
	}
	if w.dump() != before {
		t.Error("previews have changed the store")
	}
	got := w.do("POST /sessions/s/prompt-runtime/preview",
		`{"text":"{{.资产.金币}} {{$x}} {{setvar::y::{{.x}}}}{{.x}} {{nothing::z}}"}`)
	for _, want := range []string{
		`"used_names":["资产.金币","x","y"]`,
		`"traces":[{"macro_name":"getvar","raw_text":"{{.资产.金币}}","text":"3"},` +
			`{"macro_name":"getglobalvar","raw_text":"{{$x}}","text":"of global"},` +
			`{"macro_name":"getvar","raw_text":"{{.x}}","text":"of branch"},` +
			`{"macro_name":"setvar","raw_text":"{{setvar::y::{{.x}}}}","text":""},` +
			`{"macro_name":"getvar","raw_text":"{{.x}}","text":"of branch"}]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
}

func TestS69_MacrosMakeNoMoreTextThanIsAllowed(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.put("chat", "s", "big", `"`+strings.Repeat("x", 20_000)+`"`)
	got := w.do("POST /sessions/s/prompt-runtime/preview", `{"text":"{{.big}}{{.big}}"}`)
	if !strings.Contains(got, "macro_limit_exceeded") || !strings.Contains(got, `xxx{{.big}}"`) || len(got) > 25_000 {
		t.Errorf("got %s", clip(got))
	}
	deep := strings.Repeat("{{.", 17) + "x" + strings.Repeat("}}", 17)
	if got := w.do("POST /sessions/s/prompt-runtime/preview", `{"text":"`+deep+`"}`); !strings.Contains(got, "nested deeper than 16") {
		t.Errorf("got %s", clip(got))
	}
	many := strings.Repeat("{{setvar::a::1}}", 129)
	if got := w.do("POST /sessions/s/prompt-runtime/preview", `{"text":"`+many+`"}`); !strings.Contains(got, "more than 128 times") {
		t.Errorf("got %s", clip(got))
	}
	for _, body := range []string{`{"text":""}`, `{}`, `{"text":"` + strings.Repeat("字", 32769) + `"}`, `{"text":"x","turn":1}`} {
		w.want("validation_error", "POST /sessions/s/prompt-runtime/preview", body)
	}
}

// Each write by a path shows the whole value that it changes: without a bound a text of 2 KB made
// an answer of 2 GB.
func TestS69_WritesToALargeValueTakeMemory(t *testing.T) {
	w := newWorld(t)
	w.session("s")
	w.put("chat", "s", "a", `{"x":"`+strings.Repeat("y", 1<<20)+`"}`)
	hold, err := budget.New(budget.Limits{Bytes: 64 << 20, Concurrent: 1}).Request("a")
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	preview := func(n int) error {
		body := `{"text":"` + strings.Repeat("{{setvar::a.b::1}}", n) + `"}`
		r := httptest.NewRequest("POST", "/sessions/s/prompt-runtime/preview", strings.NewReader(body))
		r.SetPathValue("id", "s")
		ctx := route.WithCaller(budget.With(r.Context(), hold), route.Caller{Account: "a", Role: tool.RoleAgent})
		_, err := handlers{Store: w.Store}.preview(r.WithContext(ctx))
		return err
	}
	if err := preview(2); err != nil {
		t.Errorf("two writes: %v", err)
	}
	if e, ok := errors.AsType[*tool.Error](preview(100)); !ok || e.Code != "too_large" {
		t.Errorf("a hundred writes of a mebibyte: %v", e)
	}
}

func TestS66_S67_S68_APreviewFromAFloorReadsItsSnapshot(t *testing.T) {
	w := newWorld(t)
	fill(w)
	f := w.floor("s", "main", 0)
	preview := func(more string) string {
		return w.do("POST /sessions/s/prompt-runtime/preview", `{"text":"{{getvar::x}} {{getvar::c}} {{getglobalvar::x}}"`+more+`}`)
	}
	source := fmt.Sprintf(`,"branch_id":"new","source_floor_id":%q`, f)
	if got := preview(source); !strings.HasPrefix(got, "branch_local_snapshot_missing") {
		t.Errorf("a floor that was not committed: %s", got)
	}
	w.want("{", "POST /floors/"+f+"/commit", "")
	w.put("branch", "branch:s:main", "x", `"later"`)
	w.put("chat", "s", "c", `"later"`)
	w.put("chat", "s", "new key", `"later"`)
	w.put("global", "g", "x", `"global now"`)
	got := preview(source)
	if !strings.Contains(got, `"text":"of branch chat shows global now"`) ||
		!strings.Contains(got, fmt.Sprintf(`"scope":{"session_id":"s","target_branch_id":"new","branch_exists":false,"source_floor_id":%q}`, f)) {
		t.Errorf("got %s", got)
	}
	if got := preview(""); !strings.Contains(got, `"text":"later later global now"`) || !strings.Contains(got, `"branch_exists":true,"source_floor_id":null`) {
		t.Errorf("as of now: %s", got)
	}
	imported := w.id("POST /floors", `{"session_id":"s","floor_no":1,"state":"committed"}`)
	if got := preview(fmt.Sprintf(`,"source_floor_id":%q`, imported)); !strings.HasPrefix(got, "branch_local_snapshot_missing") {
		t.Errorf("an imported floor: %s", got)
	}
	w.session("other")
	w.want("not_found", "POST /sessions/other/prompt-runtime/preview", fmt.Sprintf(`{"text":"x","source_floor_id":%q}`, f))
}
