package vars_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// fixture is one session over a database of its own.
type fixture struct {
	*vars.System
	t       *testing.T
	db      *store.DB
	o       vars.Options
	session string
	now     time.Time
}

func newFixture(t *testing.T, o vars.Options) *fixture {
	t.Helper()
	return openFixture(t, ":memory:", o)
}

func openFixture(t *testing.T, path string, o vars.Options) *fixture {
	t.Helper()
	db, err := storetest.At(t.Context(), t, path, vars.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	f := &fixture{t: t, db: db, session: "s", now: time.Unix(1_800_000_000, 0)}
	if o.Now == nil {
		o.Now = func() time.Time { f.now = f.now.Add(time.Second); return f.now }
	}
	f.o = o
	f.System = vars.New(db, o)
	return f
}

func (f *fixture) put(name, value string) vars.Var {
	f.t.Helper()
	v, _, err := f.Put(f.t.Context(), f.session, name, vars.Change{Value: &value}, tool.OriginPerson)
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

func (f *fixture) get(name string) (vars.Var, bool) {
	f.t.Helper()
	v, value, ok, err := f.Read(f.t.Context(), f.session, name)
	if err != nil {
		f.t.Fatal(err)
	}
	text := ""
	for piece, err := range value.Pieces(f.t.Context()) {
		if err != nil {
			f.t.Fatal(err)
		}
		text += piece
	}
	v.Value = &text
	return v, ok
}

func (f *fixture) list(filter vars.Filter) []string {
	f.t.Helper()
	page, err := f.List(f.t.Context(), f.session, filter)
	if err != nil {
		f.t.Fatal(err)
	}
	names := []string{}
	for v, err := range page.Rows(f.t.Context()) {
		if err != nil {
			f.t.Fatal(err)
		}
		if v.Value != nil {
			f.t.Errorf("the list shows the value of %s", v.Name)
		}
		if v.Type != vars.TypeRule {
			names = append(names, v.Name)
		}
	}
	return names
}

func (f *fixture) resolve(args string) (string, error) {
	out, _, err := f.Resolve(f.t.Context(), f.session, json.RawMessage(args))
	return string(out), err
}

// call runs one of the four tools the way the pipeline does.
func (f *fixture) call(name, args string) (tool.Output, error) {
	f.t.Helper()
	resolved, origins, err := f.Resolve(f.t.Context(), f.session, json.RawMessage(args))
	if err != nil {
		return tool.Output{}, err
	}
	for _, tl := range f.Group().Tools {
		if tl.Spec().Name == name {
			return tl.Run(f.t.Context(), tool.In{Session: f.session, Args: resolved, Origins: origins}, nil)
		}
	}
	f.t.Fatalf("no tool %s", name)
	return tool.Output{}, nil
}

func (f *fixture) mustCall(name, args string) tool.Output {
	f.t.Helper()
	out, err := f.call(name, args)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// remember acts as the end of a call of this tool.
func (f *fixture) remember(spec tool.Spec, args, result string, pending bool) *tool.Call {
	f.t.Helper()
	c := tool.NewCall(tool.Request{Session: f.session, Tool: spec.Name, Args: json.RawMessage(args)})
	out, origins, err := f.Resolve(f.t.Context(), f.session, c.In.Args)
	if err != nil {
		f.t.Fatal(err)
	}
	c.Spec, c.In.Args, c.Origins, c.Result.FormattedText = spec, out, origins, result
	if err := f.Remember(f.t.Context(), c, pending); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// rows counts what the tables hold of the session.
func (f *fixture) rows(tables ...string) (all int) {
	f.t.Helper()
	for _, table := range tables {
		var n int
		key := "session"
		if table == "var_untrusted" {
			key = "scope"
		}
		err := f.db.Read(f.t.Context(), func(tx *sql.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM `+table+` WHERE `+key+` = $1`, f.session).Scan(&n)
		})
		if err != nil {
			f.t.Fatal(err)
		}
		all += n
	}
	return all
}

func (f *fixture) deleteSession() {
	f.t.Helper()
	if err := f.db.Write(f.t.Context(), func(tx *sql.Tx) error { return f.SessionDeleted(tx, f.session) }); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) createSession() {
	f.t.Helper()
	if err := f.db.Write(f.t.Context(), func(tx *sql.Tx) error { return f.SessionCreated(tx, tool.Session{ID: f.session}) }); err != nil {
		f.t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, code, msg string) {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code || !strings.HasPrefix(e.Msg, msg) {
		t.Errorf("got error %v, want %s: %s", err, code, msg)
	}
}

func ptr[T any](v T) *T { return &v }

func TestV01_FieldsOfAVariable(t *testing.T) {
	f := newFixture(t, vars.Options{})
	_, created, err := f.Put(t.Context(), "s", "x", vars.Change{
		Value: ptr("héllo"), Type: ptr(vars.TypeUser), Desc: ptr("d"), Tags: ptr([]string{"a", "b"}), Keep: ptr(true),
	}, tool.OriginPerson)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	v, _ := f.get("x")
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"name": "x", "value": "héllo", "length": 5.0, "desc": "d", "type": "USER_ADD", "tags": []any{"a", "b"}, "keep": true,
		"created": got["created"], "updated": got["updated"], "last_visited": got["last_visited"],
		"reference_count": 1.0, "origins": []any{"person"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.put("bare", "")
	bare, _ := f.get("bare")
	if b, _ := json.Marshal(bare); strings.Contains(string(b), `"desc"`) || strings.Contains(string(b), `"tags"`) ||
		strings.Contains(string(b), `"keep"`) {
		t.Errorf("fields that are absent are present: %s", b)
	}
}

func TestV02_SixTypes(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for typ, ok := range map[string]bool{
		"ToolCallResult": true, "ToolCallArgs": true, "MessageCache": true, "LLMAdd": true, "USER_ADD": true,
		"RULE": false, "toolCallResult": false, "": false, "user_add": false,
	} {
		_, _, err := f.Put(t.Context(), "s", "x", vars.Change{Value: ptr(""), Type: ptr(vars.Type(typ))}, tool.OriginPerson)
		if ok && err != nil {
			t.Errorf("%s: %v", typ, err)
		}
		if !ok {
			wantError(t, err, "validation_error", "")
		}
	}
}

func TestV03_ProducersGiveTheirType(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("user", "v")
	f.mustCall("WriteVar", `{"name":"model","value":"v"}`)
	c := f.remember(tool.Spec{Name: "Read"}, `{}`, "text", false)
	f.mustCall("WriteVar", `{"name":"user","value":"mine now"}`)
	for name, want := range map[string]vars.Type{
		"user": vars.TypeModel, "model": vars.TypeModel, c.Result.VarArgs: vars.TypeArgs,
		c.Result.VarResult: vars.TypeResult, "Rule/Agent/TODO": vars.TypeRule,
	} {
		if v, _ := f.get(name); v.Type != want {
			t.Errorf("%s: got %s, want %s", name, v.Type, want)
		}
	}
}

func TestV04_ValuesAreText(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for in, want := range map[string]string{
		`{"a": 1}`: `{"a":1}`, `5`: "5", `"5"`: "5", `12345678901234567890.10`: "12345678901234567890.10",
		`null`: "null", `true`: "true", `""`: "",
	} {
		f.mustCall("WriteVar", `{"name":"x","value":`+in+`}`)
		if got := f.mustCall("ReadVar", `{"name":"x"}`).Data; got != any(want) {
			t.Errorf("%s: got %#v, want %q", in, got, want)
		}
	}
	for _, in := range []string{"", "text", `{"a":`, "\"\xff\"", "\xff"} {
		_, err := vars.Text(json.RawMessage(in))
		wantError(t, err, "validation_error", "")
	}
}

func TestV05_Capacity(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for i := range 1001 {
		f.put(fmt.Sprint(i), "v")
	}
	page, err := f.List(t.Context(), "s", vars.Filter{})
	if err != nil || page.Total != 1000 {
		t.Errorf("got %d (%v), want 1000", page.Total, err)
	}
}

func TestV06_EvictionOrder(t *testing.T) {
	t.Run("the least recently visited goes", func(t *testing.T) {
		f := newFixture(t, vars.Options{Capacity: 2 + 2}) // two rules
		f.put("a", "")
		f.put("b", "")
		f.put("c", "")
		if got := strings.Join(f.list(vars.Filter{}), " "); got != "c b" {
			t.Errorf("got %q, want c b", got)
		}
	})
	t.Run("a clock that is set back makes nothing old", func(t *testing.T) {
		at := time.Unix(1_800_000_000, 0)
		f := newFixture(t, vars.Options{Capacity: 3 + 2, Now: func() time.Time { return at }})
		f.put("a", "")
		at = at.Add(time.Second)
		f.put("b", "")
		at = at.Add(-time.Hour)
		f.put("c", "")
		f.put("d", "")
		f.put("e", "")
		if got := strings.Join(f.list(vars.Filter{}), " "); got != "e d c" {
			t.Errorf("got %q, want e d c", got)
		}
	})
	t.Run("on a full tie the greatest name goes, the new one too", func(t *testing.T) {
		instant := time.Unix(1_800_000_000, 0)
		f := newFixture(t, vars.Options{Capacity: 2 + 2, Now: func() time.Time { return instant }})
		f.put("a", "")
		f.put("b", "")
		f.put("c", "")
		if got := strings.Join(f.list(vars.Filter{}), " "); got != "a b" {
			t.Errorf("got %q, want a b", got)
		}
	})
	t.Run("ties of the visit fall to updated, then created", func(t *testing.T) {
		at := time.Unix(1_800_000_000, 0)
		f := newFixture(t, vars.Options{Capacity: 3 + 2, Now: func() time.Time { return at }})
		f.put("old", "")
		at = at.Add(time.Second)
		f.put("b-updated-late", "")
		f.put("a", "")
		at = at.Add(time.Second)
		f.put("b-updated-late", "again")
		at = at.Add(time.Second)
		f.get("old")
		f.get("b-updated-late")
		f.get("a") // all visited now; updated: old 0, a 1, b 2
		f.put("new", "")
		if _, ok := f.get("old"); ok {
			t.Error("old is there, want it evicted: its update is the oldest")
		}
		f.put("new2", "")
		if _, ok := f.get("a"); ok {
			t.Error("a is there, want it evicted next")
		}
	})
}

func TestV07_KeepIsNeverEvicted(t *testing.T) {
	f := newFixture(t, vars.Options{Capacity: 1})
	f.put("x", "")
	f.put("y", "")
	if got := strings.Join(f.list(vars.Filter{}), " "); got != "y" {
		t.Errorf("got %q, want the newest normal one beside the rules", got)
	}
	_, _, err := f.Put(t.Context(), "s", "kept", vars.Change{Value: ptr(""), Keep: ptr(true)}, tool.OriginPerson)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		f.put("z", "")
	}
	if _, ok := f.get("kept"); !ok {
		t.Error("a variable with keep was evicted")
	}
}

func TestV08_ReadingVisitsListingDoesNot(t *testing.T) {
	f := newFixture(t, vars.Options{Capacity: 2 + 2})
	a := f.put("a", "")
	f.put("b", "")
	f.list(vars.Filter{})
	if v, _ := f.get("a"); v.ReferenceCount != 1 || !v.LastVisited.After(a.LastVisited) {
		t.Errorf("got %+v, want one visit", v)
	}
	if _, err := f.resolve(`{"x":"$VAR_REF{{a}}$VAR_REF{{a}}"}`); err != nil {
		t.Fatal(err)
	}
	f.put("c", "")
	if _, ok := f.get("b"); ok {
		t.Error("b was not read and is there, want it evicted")
	}
	if v, _ := f.get("a"); v.ReferenceCount != 3 {
		t.Errorf("got %d visits, want 3", v.ReferenceCount)
	}
}

func TestV09_AddingTwiceUpdatesInPlace(t *testing.T) {
	f := newFixture(t, vars.Options{})
	first, _, err := f.Put(t.Context(), "s", "x", vars.Change{Value: ptr("1"), Keep: ptr(true), Desc: ptr("d")}, tool.OriginPerson)
	if err != nil {
		t.Fatal(err)
	}
	second, created, err := f.Put(t.Context(), "s", "x", vars.Change{Value: ptr("2")}, tool.OriginPerson)
	if err != nil || created {
		t.Fatal(created, err)
	}
	if !second.Created.Equal(first.Created) || !second.Updated.After(first.Updated) ||
		!second.LastVisited.Equal(second.Updated) || !second.Keep || *second.Value != "2" {
		t.Errorf("got %+v after %+v", second, first)
	}
	if got := f.list(vars.Filter{}); len(got) != 1 {
		t.Errorf("got %v, want one", got)
	}
}

func TestV10_Update(t *testing.T) {
	f := newFixture(t, vars.Options{})
	old := f.put("x", "value")
	v, _, err := f.Update(t.Context(), "s", "x", vars.Change{Tags: ptr([]string{"t"})}, tool.OriginModel)
	if err != nil || *v.Value != "value" || !v.Updated.After(old.Updated) || fmt.Sprint(v.Tags) != "[t]" ||
		fmt.Sprint(v.Origins) != "[person]" {
		t.Errorf("got %+v, %v", v, err)
	}
	_, _, err = f.Update(t.Context(), "s", "missing", vars.Change{Desc: ptr("d")}, tool.OriginModel)
	wantError(t, err, "variable_not_found", "Cannot create variable without value and type")
	_, created, err := f.Update(t.Context(), "s", "missing", vars.Change{Value: ptr("v"), Type: ptr(vars.TypeUser)}, tool.OriginModel)
	if err != nil || !created {
		t.Errorf("got %v, %v, want it created", created, err)
	}
}

func TestV11_UnknownIsNothing(t *testing.T) {
	f := newFixture(t, vars.Options{})
	if v, ok := f.get("nope"); ok || v.Name != "" {
		t.Errorf("got %+v", v)
	}
}

func TestV12_ListFiltersAndOrder(t *testing.T) {
	f := newFixture(t, vars.Options{})
	add := func(name, desc string, tags ...string) {
		_, _, err := f.Put(t.Context(), "s", name, vars.Change{Value: ptr(""), Desc: &desc, Tags: &tags}, tool.OriginPerson)
		if err != nil {
			t.Fatal(err)
		}
	}
	add("one", "A Bug here", "TODO", "x")
	add("two", "a feature", "TODO")
	add("BUGS", "", "NOT-TODO")
	add("ÄPFEL", "100% sure_thing")
	for _, tt := range []struct {
		name string
		f    vars.Filter
		want string
	}{
		{"all, last visited first", vars.Filter{}, "ÄPFEL BUGS two one"},
		{"filters combine", vars.Filter{Tag: "TODO", Search: "bug"}, "one"},
		{"search is in name and description, in any case", vars.Filter{Search: "bUg"}, "BUGS one"},
		{"case beyond ASCII", vars.Filter{Search: "äpf"}, "ÄPFEL"},
		{"no wildcards", vars.Filter{Search: "1_0"}, ""},
		{"per cent is a character", vars.Filter{Search: "0% sure_"}, "ÄPFEL"},
		{"a tag is whole", vars.Filter{Tag: "TOD"}, ""},
		{"type", vars.Filter{Type: vars.TypeUser}, "ÄPFEL BUGS two one"},
		{"another type", vars.Filter{Type: vars.TypeModel}, ""},
		{"page", vars.Filter{Limit: 2, Offset: 1}, "BUGS two"},
		{"quotes are characters", vars.Filter{Search: "' OR 1=1 --"}, ""},
	} {
		if got := strings.Join(f.list(tt.f), " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	f.get("one")
	if got := f.list(vars.Filter{})[0]; got != "one" {
		t.Errorf("got %s first, want the last visited", got)
	}
}

func TestV13_Remove(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("a", "")
	removed, failed, err := f.Remove(t.Context(), "s", []string{"a", "Rule/Agent/VarRef", "nope"})
	if err != nil || fmt.Sprint(removed, failed) != "[a] [Rule/Agent/VarRef nope]" {
		t.Errorf("got %v %v %v", removed, failed, err)
	}
	if _, ok := f.get("Rule/Agent/VarRef"); !ok {
		t.Error("the rule is gone")
	}
	if _, ok := f.get("a"); ok {
		t.Error("a is there")
	}
}

func TestV35_SessionsAreApart(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("x", "secret")
	f.session = "other"
	if _, ok := f.get("x"); ok {
		t.Error("another session reads the variable")
	}
	_, err := f.resolve(`"$VAR_REF{{x}}"`)
	wantError(t, err, "variable_not_found", "Variable 'x' not found")
	if strings.Contains(fmt.Sprint(err), "secret") || len(f.list(vars.Filter{})) != 0 {
		t.Error("another session sees something of it")
	}
}

func TestVariablesSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	openFixture(t, path, vars.Options{}).put("x", "kept\x00whole\u2028")
	if v, ok := openFixture(t, path, vars.Options{}).get("x"); !ok || *v.Value != "kept\x00whole\u2028" {
		t.Errorf("got %+v", v)
	}
}
