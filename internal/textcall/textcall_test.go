package textcall

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/golden"
)

// echo is a tool of the session.
type echo struct{}

func (echo) Spec() tool.Spec {
	return tool.Spec{
		Name: "Read", Description: "Reads a file.\nAll of it.",
		Schema: json.RawMessage(`{"type":"object","properties":{"limit":{"type":"integer"},"file_path":{"type":"string"}},"required":["file_path"]}`),
	}
}
func (echo) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }
func (echo) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{}, nil
}

// world is the part over one session, and a request path that runs what it is given.
type world struct {
	part.Sessions
	t  testing.TB
	f  *feature
	do func(tool.Request) tool.Result

	none bool // there is no session

	mu   sync.Mutex // guards asked
	reqs []tool.Request
}

func (w *world) Session(_ context.Context, account, id string) (tool.Session, error) {
	if w.none {
		return tool.Session{}, &tool.Error{Code: "session_not_found", Msg: "none"}
	}
	return tool.Session{ID: id, Account: account}, nil
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "db")}, Definition().Schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w := &world{t: t}
	w.f = &feature{lines: map[string]*line{}, host: part.Host{
		DB: db, Sessions: w, Log: slog.New(slog.DiscardHandler), Events: &events.Broker{},
		Tools: func(tool.Session) []tool.Tool { return []tool.Tool{echo{}} },
		Known: func(name string) bool { return name == "Read" },
		Do: func(ctx context.Context, r tool.Request) tool.Result {
			w.mu.Lock()
			w.reqs = append(w.reqs, r)
			w.mu.Unlock()
			if w.do != nil {
				return w.do(r)
			}
			if r.Own == nil && r.Tool != "Read" {
				return tool.Result{Status: tool.StatusNotFound}
			}
			if r.Own == nil {
				return tool.Result{Status: tool.StatusSuccess, FinalText: string(r.Args), FormattedText: string(r.Args)}
			}
			out, err := r.Own.Run(ctx, tool.In{Args: r.Args}, nil)
			if err != nil {
				return tool.Result{Status: tool.StatusError, FinalText: err.Error()}
			}
			text := tool.Format(r.Own, out, r.Args)
			return tool.Result{Status: tool.StatusSuccess, Data: out.Data, FinalText: text, FormattedText: text}
		},
	}}
	w.f.config.Store(defaults())
	return w
}

func (w *world) call(line, body string) string {
	w.t.Helper()
	return routetest.Call(w.t, w.f.routes(), tool.RoleAgent, strings.Replace(line, " /", " /sessions/s/", 1), body)
}

// reply is the answer to a reply of a model.
func (w *world) reply(content string) string {
	w.t.Helper()
	return w.call("POST /text/reply", string(encode(textMessage{"assistant", content})))
}

func (w *world) want(got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestC01_C03_C23_RegisteringIsOneCall(t *testing.T) {
	w := newWorld(t)
	w.want(w.call("POST /callables", `{"name":"hi","description":"Says\nhi.","text":"hi {{who}} {{json who}} {{a.b}} {{l.1}} {{none}}"}`),
		`created {"name":"hi","warnings":[]}`)
	w.want(w.reply(`[CALL: hi({"who":"\"Ann\"","a":{"b":2},"l":[1,null]})]`),
		`{"call":{"name":"hi","args":{"who":"\"Ann\"","a":{"b":2},"l":[1,null]},"raw_args":"{\"who\":\"\\\"Ann\\\"\",\"a\":{\"b\":2},\"l\":[1,null]}"},`+
			`"status":"SUCCESS","message":{"role":"system","content":"Skill result: hi\n---\nhi \"Ann\" \"\\\"Ann\\\"\" 2  "},"continue":true,"ignored":0}`)
	w.want(w.call("PUT /callables/hi", `{"text":"new"}`), `{"name":"hi","warnings":[]}`)
	if got := w.reply(`[CALL: hi]`); !strings.Contains(got, `hi\n---\nnew"`) {
		t.Errorf("got %s", got)
	}
	var g given
	if err := json.Unmarshal(w.reqs[0].Args, &g); err != nil || g.Name != "hi" || string(g.Args) == "" || !strings.HasPrefix(g.RawArgs, `{"who"`) {
		t.Errorf("the action is given %s", w.reqs[0].Args)
	}
	w.want(w.call("DELETE /callables/hi", ""), `{"id":"hi","deleted":true}`)
	w.want(w.call("DELETE /callables/hi", ""), `callable_not_found: there is no callable "hi" here`)
	w.want(w.call("GET /callables/hi", ""), `callable_not_found: there is no callable "hi" here`)
}

func TestC02_C04_WhatIsMissingHasADefault(t *testing.T) {
	w := newWorld(t)
	one, two := w.call("POST /callables", `{}`), w.call("POST /callables", `{}`)
	var a, b registered
	_ = json.Unmarshal([]byte(strings.TrimPrefix(one, "created ")), &a)
	_ = json.Unmarshal([]byte(strings.TrimPrefix(two, "created ")), &b)
	if !strings.HasPrefix(a.Name, "unnamed_") || !strings.HasPrefix(b.Name, "unnamed_") || a.Name == b.Name || len(a.Warnings) != 1 {
		t.Errorf("got %s and %s", one, two)
	}
	for _, name := range []string{a.Name, b.Name} {
		if got := w.reply("[CALL: " + name + "]"); !strings.Contains(got, `\"ok\": false,\n  \"error\": \"No action() provided for this skill.\"`) ||
			!strings.Contains(got, `"status":"SUCCESS"`) {
			t.Errorf("got %s", got)
		}
	}
	w.want(w.call("POST /callables", `{"name":42,"description":false,"enabled":"yes"}`),
		`created {"name":"42","warnings":["name is no string: it is \"42\"","description is no string: it is \"(no description)\"","enabled is no boolean: it is true"]}`)
	w.want(w.call("POST /callables", `{"name":"r","description":"d","tool":"Reed"}`),
		`created {"name":"r","warnings":["tool \"Reed\" is none of the session: a call of this is NOT_FOUND"]}`)
	w.want(w.call("GET /callables/42", ""), `{"name":"42","description":"(no description)","enabled":true,"type":"none"}`)
	for _, body := range []string{
		`{"nme":"x"}`, `{"name":"a b"}`, `{"name":"naïve"}`, `{"type":"js"}`, `{"url":"ftp://x"}`, `{"url":"https://x","method":"TRACE"}`,
		`{"url":"https://x","response":"xml"}`, `{"url":"https://x","timeout_ms":-1}`, `{"type":"static","url":"https://x"}`,
		`{"text":"x","timeout_ms":5}`, `{"text":"x","response":"json"}`, `{"text":"x","body":"y"}`, `{"text":"x","headers":{}}`,
		`{"url":"https://x","text":"y"}`, `{"type":"tool"}`, `{"url":"https://x","headers":{"host":"y"}}`, `{"name":"` + strings.Repeat("a", 65) + `"}`,
	} {
		if got := w.call("POST /callables", body); !strings.HasPrefix(got, "validation_error") && !strings.HasPrefix(got, "error") &&
			!strings.Contains(got, ": ") || strings.HasPrefix(got, "created") {
			t.Errorf("%s: got %s", body, got)
		}
	}
	if got := w.call("POST /callables", `{"text":"`+strings.Repeat("x", maxSpec)+`"}`); !strings.HasPrefix(got, "callable_too_large") {
		t.Errorf("got %s", got)
	}
}

func TestC05_C34_WhatIsOffIsNeitherToldNorRun(t *testing.T) {
	w := newWorld(t)
	w.call("POST /callables", `{"name":"off","text":"x","enabled":false}`)
	unknown := `"status":"NOT_FOUND","message":{"role":"system","content":"Skill call failed: \"%s\" is not registered or not enabled."},"continue":true,"ignored":0}`
	for _, name := range []string{"off", "nobody"} {
		if got := w.reply("[CALL: " + name + "()]"); !strings.HasSuffix(got, fmt.Sprintf(unknown, name)) {
			t.Errorf("got %s", got)
		}
	}
	if got := w.call("POST /text/prompt", `{"prompt":"x"}`); strings.Contains(got, "off") || !strings.Contains(got, "- Read: Reads a file. All of it.") {
		t.Errorf("got %s", got)
	}
	if got := w.reply(`[CALL: Read({"file_path":"x"})]`); !strings.Contains(got, `Read\n---\n{\"file_path\":\"x\"}`) {
		t.Errorf("got %s", got)
	}
	w.want(w.call("POST /callables", `{"name":"lire","description":"d","tool":"Read"}`),
		`created {"name":"lire","warnings":[]}`)
	if got := w.reply(`[CALL: lire([1])]`); !strings.Contains(got, `lire\n---\n{\"_raw\":\"[1]\"}`) || w.reqs[len(w.reqs)-1].Tool != "Read" {
		t.Errorf("got %s", got)
	}
	w.call("PUT /callables/Read", `{"enabled":false}`)
	if got := w.call("GET /callables/Read", ""); !strings.Contains(got, `"enabled":false`) {
		t.Errorf("the tool is offered in the place of a callable that is off: %s", got)
	}
	if got := w.reply(`[CALL: Read({"file_path":"x"})]`); !strings.Contains(got, "NOT_FOUND") {
		t.Errorf("got %s", got)
	}
	w.call("DELETE /callables/Read", "")
	if got := w.call("GET /callables/Read", ""); !strings.Contains(got, `"enabled":true`) {
		t.Errorf("got %s", got)
	}
}

func TestC06_C07_C08_C33_TheTextsAreGenerated(t *testing.T) {
	w := newWorld(t)
	w.call("POST /callables", `{"name":"weather","description":"Says how the weather is.","text":"sunny"}`)
	in := `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"a","x":1},{"role":"assistant","content":"b"},` +
		`{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}`
	var out struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal([]byte(w.call("POST /text/prompt", in)), &out); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range out.Messages {
		fmt.Fprintf(&b, "[%s]\n%s\n", m.Role, m.Content)
	}
	golden.Check(t, "testdata/prompt.txt", b.String())
	var many []Callable
	for i := range 30 {
		many = append(many, Callable{Name: fmt.Sprintf("c%02d", i)})
	}
	if n := note(many); !strings.Contains(n, "c23") || strings.Contains(n, "c24") || !strings.Contains(n, "[CALL: skill_name(") {
		t.Errorf("the note alone: %s", n)
	}
	for i := range many { // tools that every session has
		many[i].Type, many[i].Tool = typeTool, many[i].Name
	}
	many = append(many, Callable{Name: "weather", Type: typeStatic}, Callable{Name: "x", Type: typeTool, Tool: "c00"})
	if n := note(many); !strings.Contains(n, "one of weather, x, c00, ") {
		t.Errorf("what was registered is not in the note: %s", n)
	}
}

func TestC07_TypesOfArgumentsAreWords(t *testing.T) {
	got := describe(tool.Spec{Description: "D.", Schema: json.RawMessage(
		`{"properties":{"a":{"type":"string"},"b":{"type":["integer","null"]},"c":{},"d":{"const":1}},"required":["a"]}`)})
	if want := `D. Arguments: {"a": string, "b"?: integer or null, "c"?: any, "d"?: any}`; got != want {
		t.Errorf("got %s", got)
	}
	if got := describe(tool.Spec{Description: "D.", Schema: json.RawMessage(`{"type":"object"}`)}); got != "D." {
		t.Errorf("without arguments: got %s", got)
	}
}

func TestC08_C09_C10_C11_WhereTheTextsStand(t *testing.T) {
	list := []Callable{{Name: "a", Description: "A."}}
	s, n := system(list), note(list)
	sys := string(encode(map[string]string{"role": "system", "content": s}))
	noted := func(text string) string { return string(encode(text + "\n\n" + n)) }
	for _, tt := range []struct{ name, in, want string }{
		{"no user", `[{"role":"assistant","content":"x"}]`, `[` + sys + `,{"role":"assistant","content":"x"}]`},
		{"parts", `[{"role":"user","content":[{"type":"text","text":"x"}]}]`, `[` + sys + `,{"content":[{"type":"text","text":"x"},` +
			string(encode(map[string]string{"type": "text", "text": n})) + `],"role":"user"}]`},
		{"what is unknown stays", `[{"role":"user","content":"x","n":1.50}]`, `[` + sys + `,{"content":` + noted("x") + `,"n":1.50,"role":"user"}]`},
		{"no list", `{"a":1}`, `{"a":1}`},
		{"no object in it", `[{"role":"user","content":"x"},3]`, `[{"role":"user","content":"x"},3]`},
		{"no role", `[{"content":"x"}]`, `[{"content":"x"}]`},
		{"text", `"x"`, `"x"`},
		{"null", `null`, `null`},
		{"none yet", `[]`, `[` + sys + `]`},
	} {
		got := string(inject(json.RawMessage(tt.in), list))
		var a, b any
		_ = json.Unmarshal([]byte(got), &a)
		_ = json.Unmarshal([]byte(tt.want), &b)
		if x, y := string(encode(a)), string(encode(b)); x != y {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, x, y)
		}
		if again := string(inject(json.RawMessage(got), list)); again != got {
			t.Errorf("%s, twice: got %s", tt.name, again)
		}
	}
	first := inject(json.RawMessage(`[{"role":"user","content":"x"}]`), list)
	grown := strings.TrimSuffix(string(first), "]") + `,{"role":"assistant","content":"y"},{"role":"user","content":"z"}]`
	second := string(inject(json.RawMessage(grown), []Callable{{Name: "b"}}))
	if strings.Count(second, "Calls by text") != 2 || strings.Contains(second, "- a") || !strings.Contains(second, `"x"`) {
		t.Errorf("when the talk has grown: %s", second)
	}
	if none := string(inject(json.RawMessage(second), nil)); strings.Contains(none, "Calls by text") || !strings.Contains(none, `"z"`) {
		t.Errorf("none: %s", none)
	}
	if got := injectText("x", list); got != "x\n\n"+s+"\n\n"+n || injectText(got, list) != got || injectText(got, nil) != "x" {
		t.Errorf("got %q", got)
	}
	grew := injectText(injectText("x", list)+"\n\nAnd then?", []Callable{{Name: "b"}})
	if want := "x\n\nAnd then?\n\n" + system([]Callable{{Name: "b"}}); !strings.HasPrefix(grew, want) || strings.Count(grew, "Calls by text") != 2 {
		t.Errorf("when the prompt has grown: %q", grew)
	}
	w := newWorld(t)
	for _, field := range []string{"prompt", "chat_completion_prompt", "text"} {
		if got := w.call("POST /text/prompt", `{"`+field+`":"x"}`); !strings.HasPrefix(got, `{"`+field+`":"x\n\n## Calls`) {
			t.Errorf("got %s", got)
		}
	}
	for _, body := range []string{`{}`, `{"prompt":"x","text":"y"}`} {
		w.want(w.call("POST /text/prompt", body), "validation_error: give exactly one of messages, prompt, chat_completion_prompt and text")
	}
}

func TestC12_CX53_C37_OnlyTheFirstTagOfAnAssistantRuns(t *testing.T) {
	w := newWorld(t)
	w.call("POST /callables", `{"name":"tag","text":"[CALL: tag]"}`)
	if got := w.reply("[CALL: tag] [CALL: tag] [CALL: tag]"); !strings.HasSuffix(got,
		`"content":"Skill result: tag\n---\n[CALL: tag]\n\n(Further calls of that reply were ignored: 2.)"},"continue":true,"ignored":2}`) {
		t.Errorf("got %s", got)
	}
	for _, role := range []string{"user", "system", "tool", "Assistant"} {
		w.want(w.call("POST /text/reply", `{"role":"`+role+`","content":"[CALL: tag]"}`),
			`{"call":null,"status":"NO_CALL","message":null,"continue":false,"ignored":0}`)
		w.want(w.call("POST /text/parse", `{"role":"`+role+`","content":"[CALL: tag]"}`), `{"call":null}`)
	}
	for _, role := range []string{"", `"role":"assistant",`} {
		w.want(w.call("POST /text/parse", `{`+role+`"content":"[CALL: tag]"}`),
			`{"call":{"name":"tag","args":{},"raw_args":""}}`)
	}
	if len(w.reqs) != 1 {
		t.Errorf("%d calls were made", len(w.reqs))
	}
	c := defaults()
	c.MaxCalls = 2
	w.f.config.Store(c)
	if got := w.reply("[CALL: tag] [CALL: no] [CALL: tag]"); !strings.Contains(got, `"ignored":1,"more":[{"call":{"name":"no"`) {
		t.Errorf("got %s", got)
	}
	c = defaults()
	c.MaxCalls, c.BreakerCalls = 4, 1
	w.f.config.Store(c)
	w.f.reset("s")
	if got := w.reply("[CALL: tag] [CALL: tag] [CALL: tag] [CALL: tag] [CALL: tag]"); !strings.Contains(got, `"ignored":3,"more":[{`) {
		t.Errorf("behind a call that is blocked: %s", got)
	}
}

func TestC25_C19_CallsOfASessionRunOneByOne(t *testing.T) {
	w := newWorld(t)
	c := defaults()
	c.BreakerCalls = 100
	w.f.config.Store(c)
	running, most, order := 0, 0, []string{}
	entered, leave := make(chan bool, 10), make(chan bool)
	w.do = func(r tool.Request) tool.Result {
		w.mu.Lock()
		running++
		most = max(most, running)
		order = append(order, string(r.Args))
		w.mu.Unlock()
		if len(w.f.line("s").turn) != 1 {
			t.Error("a call runs that does not hold the turn of its session")
		}
		entered <- true
		<-leave
		w.mu.Lock()
		running--
		w.mu.Unlock()
		return tool.Result{Status: tool.StatusSuccess}
	}
	var wg sync.WaitGroup
	ask := func(ctx context.Context, n int) {
		wg.Go(func() {
			_, _ = w.f.perform(ctx, tool.Session{ID: "s"}, Call{"Read", encode(map[string]int{"n": n}), ""}, tool.Request{})
		})
	}
	ask(t.Context(), 0)
	<-entered
	gone, cancel := context.WithCancel(t.Context())
	ask(gone, 99)
	cancel() // who leaves does not keep the others waiting
	for n := 1; n < 4; n++ {
		ask(t.Context(), n)
	}
	for n := range 4 {
		leave <- true
		if n < 3 {
			<-entered
		}
	}
	wg.Wait()
	if most != 1 || len(order) != 4 {
		t.Errorf("%d at once, %q", most, order)
	}
}

func TestC26_C30_C31_CX52_WhatTheModelIsTold(t *testing.T) {
	for _, tt := range []struct {
		r    tool.Result
		want string
	}{
		{tool.Result{Status: tool.StatusSuccess, FormattedText: "a", FinalText: "as it is"}, "Skill result: x\n---\nas it is"},
		{tool.Result{Status: tool.StatusSuccess, FinalText: "[kept in a variable]"}, "Skill result: x\n---\n(empty result)"},
		{tool.Result{Status: tool.StatusError, FinalText: "panic: oh"}, "Skill execution failed: x\n---\npanic: oh"},
		{tool.Result{Status: tool.StatusExecutionRejected, FinalText: "no"}, "Skill execution failed: x\n---\nno"},
		{tool.Result{Status: tool.StatusResultRejected, FinalText: "no"}, "Skill execution failed: x\n---\nno"},
		{tool.Result{Status: tool.StatusNotFound}, `Skill call failed: "x" is not registered or not enabled.`},
	} {
		if got := outcomeOf(Call{Name: "x"}, tt.r); got.message != tt.want || !got.goOn || got.Status != string(tt.r.Status) {
			t.Errorf("got %+v", got)
		}
	}
}

func TestC28_C29_CX54_TheBreaker(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		w.reply("[CALL: none]") // unknown ones count too
	}
	got := w.reply("[CALL: none]")
	want := `"status":"BLOCKED","message":{"role":"system","content":"Circuit breaker triggered. The model called skills too frequently (6 calls within 30s). ` +
		`Further calls are blocked to prevent infinite loops."},"continue":false,"ignored":0}`
	if !strings.HasSuffix(got, want) || len(w.reqs) != 5 {
		t.Errorf("got %s after %d calls", got, len(w.reqs))
	}
	if st := w.call("GET /text/stats", ""); !strings.Contains(st, `"calls":5,"failures":5,"failure_rate":1,"breaker":"open"`) || !strings.Contains(st, `{"name":"none","status":"BLOCKED"}]`) {
		t.Errorf("got %s", st)
	}
	if other := routetest.Call(t, w.f.routes(), tool.RoleAgent, "POST /sessions/t/text/reply", `{"role":"assistant","content":"[CALL: Read({})]"}`); !strings.Contains(other, "SUCCESS") {
		t.Errorf("another session: %s", other)
	}
	if st := w.call("POST /text/reset", "{}"); !strings.Contains(st, `"breaker":"closed"`) {
		t.Errorf("got %s", st)
	}
	if got := w.reply("[CALL: Read({})]"); !strings.Contains(got, "SUCCESS") {
		t.Errorf("got %s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		for i := 1; i <= 7; i++ { // blocked ones count
			if n := l.count(30*time.Second, 5); n != i {
				t.Errorf("call %d is number %d", i, n)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Second)
		for range 20 { // slow ones never do
			if n := l.count(30*time.Second, 5); n > 5 {
				t.Errorf("%d", n)
			}
			time.Sleep(6 * time.Second)
		}
	})
}

func TestC27_C35_C36_ACallableWithoutActionIsAFailure(t *testing.T) {
	w := newWorld(t)
	w.call("POST /callables", `{"name":"n"}`)
	w.reply("[CALL: n]")
	w.reply(`[CALL: Read({"file_path":"x"})]`)
	want := `{"enabled":2,"calls":2,"failures":1,"failure_rate":0.5,"breaker":"closed","log":[{"name":"n","status":"SUCCESS"},{"name":"Read","status":"SUCCESS"}]}`
	w.want(w.call("GET /text/stats", ""), want)
}

func TestConfigOfTextIsChecked(t *testing.T) {
	if err := defaults().Check(); err != nil {
		t.Error(err)
	}
	if err := (&Config{}).Check(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v", err)
	}
}

// TestC27_AFailureOfTheEngineDoesNotBreakTheQueue: a call that fails before it has a result gives its turn back.
func TestC27_AFailureOfTheEngineDoesNotBreakTheQueue(t *testing.T) {
	w := newWorld(t)
	call := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = w.f.perform(ctx, tool.Session{ID: "s"}, Call{"Read", encode(map[string]string{"file_path": "/a"}), ""},
			tool.Request{})
		return err
	}
	change := func(statement string) {
		t.Helper()
		err := w.f.host.DB.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(statement)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	change(`INSERT INTO callables (session, name, spec) VALUES ('s', 'x', '{')`)
	if err := call(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("with a row that cannot be read: %v", err)
	}
	change(`DELETE FROM callables`)
	w.do = func(tool.Request) tool.Result { panic("of the request path") }
	if err := call(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("after a failure, and with a panic: %v", err)
	}
	w.do = nil
	if err := call(); err != nil {
		t.Errorf("after two failures: %v", err)
	}
}
