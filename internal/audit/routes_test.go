package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestTheRoutesOfTheRecord(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	for _, tt := range []struct{ line, body, want string }{
		{
			"POST /records", `{"phase": "begin", "call_id": "call_ABCDEFGHIJKLMNOPQRSTUVWX27", "tool": "Bash",
			"detail": {"dir": "/src", "rule": "A && \"b\""}}`, `{"recorded":true}`,
		},
		{"POST /records", `{"phase": "end"}`, "validation_error: call_id is missing"},
		{"GET /audit?limit=1", "", `"exec_begin"`},
		{"GET /audit", "", `"said_dir":"/src"`},
		{"GET /audit", "", `"reported_by":"uid:7"`},
		{"GET /audit?limit=0", "", "validation_error: limit"},
		{"GET /audit?limit=x", "", "validation_error: limit"},
		{"GET /audit?limit=1001", "", "validation_error: limit"},
		{"GET /audit?limit=1000", "", `"exec_begin"`},
		{"GET /audit?before=0", "", "validation_error: before"},
		{"GET /audit?search=SAID_DIR", "", `"said_dir":"/src"`},
		{"GET /audit?search=a+%26%26+%22B", "", `"said_dir":"/src"`},
		{"GET /audit?search=nowhere", "", "[]"},
		{"GET /audit?event=exec_begin&before=99", "", `"exec_begin"`},
		{"GET /audit?before=1", "", "[]"},
		{"GET /audit?connected=true", "", "[]"},
		{"GET /audit?session_id=other", "", "[]"},
		{
			"POST /records", `{"phase": "end", "call_id": "call_ABCDEFGHIJKLMNOPQRSTUVWX27", "tool": "Bash",
			"detail": {"verdict": "v", "status": "s", "dir": "/src", "exit": "0", "wall_ms": "7", "rule": "r"}}`,
			`{"recorded":true}`,
		},
		{
			"GET /audit?event=exec_end", "",
			`"said_exit":"0","said_rule":"r","said_status":"s","said_verdict":"v","said_wall_ms":"7"`,
		},
		{"GET /audit/verify", "", `{"lines":`},
	} {
		if got := routetest.Call(t, l.Part().Routes, tool.RoleOperator, tt.line, tt.body); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.line, tt.body, got, tt.want)
		}
	}
}

// A reader who asks for events hears how far it is, and of what was changed; another one is refused meanwhile.
func TestVerifyTellsHowFarItIs(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	verify := func() string {
		r := httptest.NewRequest("GET", "/audit/verify", nil)
		r.Header.Set("Accept", "text/event-stream")
		answer, err := handlers{l}.verify(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = handlers{l}.verify(r)
		if e, ok := errors.AsType[route.Error](err); !ok || e.Status != 409 || e.Said.Code != "verify_runs" {
			t.Errorf("the second reader: %v", err)
		}
		w := httptest.NewRecorder()
		route.ServeStream(w, r, answer.(route.Stream))
		return w.Body.String()
	}
	note := func() {
		if err := l.Append(t.Context(), tool.Note{Name: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	note()
	got := verify()
	if !strings.Contains(got, "event: progress\ndata: {\"bytes\":") || !strings.Contains(got, "event: end\ndata: {\"lines\":1,") {
		t.Errorf("a good record: %s", got)
	}
	text, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.path, bytes.Replace(text, []byte(`"event":"x"`), []byte(`"event":"y"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := verify(); !strings.Contains(got, `"bad":{"line":1,`) {
		t.Errorf("a record that was changed: %s", got)
	}
}

// What is not redacted must have its form: nothing that looks like a secret has.
func TestAReportHasItsForm(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	const token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	good := map[string]any{
		"phase": "end", "call_id": "call_ABCDEFGHIJKLMNOPQRSTUVWX27", "tool": "Exec",
		"digest": strings.Repeat("0f", 32), "message": "with " + token, "detail": map[string]string{"rule": token},
	}
	report := func(field string, value any) string {
		in := maps.Clone(good)
		if field != "" {
			in[field] = value
		}
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		return routetest.Call(t, l.Part().Routes, tool.RoleAgent, "POST /records", string(body))
	}
	if got := report("", nil); !strings.Contains(got, `"recorded":true`) {
		t.Fatalf("a good report: %s", got)
	}
	for _, tt := range []struct {
		field string
		value any
	}{
		{"phase", token},
		{"phase", "begin\n"},
		{"call_id", token},
		{"call_id", "call_" + token},
		{"call_id", "call_ABCDEFGHIJKLMNOPQRSTUVWX27\n"},
		{"call_id", "call_ABCDEFGHIJKLMNOPQRSTUVWX2"},
		{"tool", "Bash " + token},
		{"tool", ""},
		{"tool", strings.Repeat("T", 65)},
		{"digest", token},
		{"digest", strings.Repeat("0F", 32)},
		{"digest", strings.Repeat("0", 65)},
		{"detail", map[string]string{token: "x"}},
		{"detail", map[string]string{"reported_by": "uid:0"}},
	} {
		if got := report(tt.field, tt.value); !strings.Contains(got, "validation_error: "+tt.field) || strings.Contains(got, token) {
			t.Errorf("%s %v: %s", tt.field, tt.value, got)
		}
	}
	lines := routetest.Call(t, l.Part().Routes, tool.RoleOperator, "GET /audit", "")
	if strings.Contains(lines, token) || strings.Count(lines, "exec_end") != 1 {
		t.Errorf("recorded: %s", lines)
	}
}
