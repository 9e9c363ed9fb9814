package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/sandbox"
)

// TestFilesThatAreTooLarge: an image and a file to edit are refused, and a notebook is shown as text.
func TestFilesThatAreTooLarge(t *testing.T) {
	e := toolstest.New(t)
	sized := func(name, head string, size int64) {
		e.Write(name, head)
		if err := os.Truncate(e.Dir+"/"+name, size); err != nil {
			t.Fatal(err)
		}
	}
	sized("p.png", "\x89PNG\r\n\x1a\n", maxTyped+1)
	te := e.Fails(Read{}, m{"file_path": "p.png"}, "file_too_large")
	if !strings.Contains(te.Msg, fmt.Sprintf("image/png of %d bytes, the most is %d", maxTyped+1, maxTyped)) ||
		!strings.Contains(te.Hint, "smaller copy") {
		t.Errorf("got %+v", te)
	}
	sized("most.png", "\x89PNG\r\n\x1a\n", maxTyped)
	if _, _, err := e.Call(Read{}, m{"file_path": "most.png"}); err != nil {
		t.Errorf("the largest image: %v", err)
	}
	sized("large", "x", maxEdit+1)
	te = e.Fails(Edit{}, m{"file_path": "large", "old_string": "x", "new_string": "y"}, "file_too_large")
	if !strings.Contains(te.Msg, fmt.Sprint(maxEdit)) || te.Hint != "use Bash with sed" {
		t.Errorf("got %+v", te)
	}
	e.Write("n.ipynb", `{"cells":[]}`+strings.Repeat("\n", maxNotebook))
	if got := e.OK(Read{}, m{"file_path": "n.ipynb"}); !strings.HasPrefix(got, "1\t{\"cells\":[]}\n2\t") {
		t.Errorf("a notebook that is too large: got %.60q", got)
	}
}

// TestANotebookIsShownWhole, and as its text where a part of it is asked for.
func TestANotebookIsShownWhole(t *testing.T) {
	e := toolstest.New(t)
	e.Write(
		"n.ipynb",
		"\xef\xbb\xbf"+`{"cells":[{"cell_type":"code","source":"x","outputs":[{"data":{"text/plain":["a","b"]}}]}]}`,
	)
	text, out, err := e.Call(Read{}, m{"file_path": "n.ipynb"})
	const want = "<cell id=\"cell-0\" type=\"code\">\nx\n[output]\nab\n</cell>\n" +
		"[note: notebook with 1 cells; change one with NotebookEdit]"
	if err != nil || text != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
	if data := fmt.Sprint(out.Data); !strings.Contains(data, "cells:1") || !strings.Contains(data, e.Dir+"/n.ipynb") {
		t.Errorf("got %s", data)
	}
	e.Write("p.ipynb", "{\"cells\":[\n{\"cell_type\":\"raw\",\"source\":\"x\"}]}")
	for _, args := range []m{{"file_path": "p.ipynb", "limit": 1}, {"file_path": "p.ipynb", "offset": 1}} {
		if got := e.OK(Read{}, args); strings.Contains(got, "<cell") {
			t.Errorf("%v: got %q", args, got)
		}
	}
	e.Write("none.ipynb", `{}`)
	if got := e.OK(Read{}, m{"file_path": "none.ipynb"}); got != "1\t{}" {
		t.Errorf("a notebook without cells: got %q", got)
	}
}

// TestAPDFIsNamed, so that a client can show what it is of.
func TestAPDFIsNamed(t *testing.T) {
	e := toolstest.New(t)
	e.Write("d.pdf", "%PDF-1.7 rest")
	_, out, err := e.Call(Read{}, m{"file_path": "d.pdf"})
	if err != nil || len(out.Content) != 2 || out.Content[1].URI != "file://"+e.Dir+"/d.pdf" ||
		out.Content[1].Name != "d.pdf" {
		t.Errorf("got %+v, %v", out.Content, err)
	}
}

// TestRefusalsSayWhatToDo: the message has what is wrong, the hint the way on.
func TestRefusalsSayWhatToDo(t *testing.T) {
	e, s, tools := sessionEnv(t, "default")
	e.Write("n.ipynb", `{"cells":[{"id":"a"}]}`)
	e.Write("bad.ipynb", `{"cells":[`)
	for _, tt := range []struct {
		tool            tool.Tool
		args            m
		code, msg, hint string
	}{
		{
			tools["Config"],
			m{"action": "set", "key": "mode", "value": "plan"},
			"config_read_only",
			"mode can only be read", "operator",
		},
		{
			tools["Config"],
			m{"action": "set", "key": "title"},
			"invalid_arguments", `field "value" is missing`,
			"new value",
		},
		{
			tools["Config"],
			m{"action": "get"},
			"invalid_arguments", `field "key" is missing`,
			"title, tag, metadata, mode, profile, cwd",
		},
		{
			tools["Config"],
			m{"action": "set", "key": "title", "value": nil},
			"invalid_arguments",
			"the value is not text", "in quotes",
		},
		{
			tools["Config"],
			m{"action": "set", "key": "title", "value": strings.Repeat("é", 201)},
			"invalid_arguments", "longer than 200 characters", "shorten it",
		},
		{
			tools["Config"],
			m{"action": "set", "key": "metadata", "value": nil},
			"invalid_arguments",
			"metadata is not an object", "send {",
		},
		{
			tools["Config"],
			m{"action": "set", "key": "metadata", "value": m{"a": strings.Repeat("x", 64<<10)}},
			"invalid_arguments", "metadata is larger than 64 kB", "keep large texts as variables",
		},
		{
			RemoteTrigger{},
			m{"action": "list"},
			"no_remote_backend", "RemoteTrigger list: no remote backend",
			"nothing was done",
		},
		{Write{}, m{"file_path": "x/", "content": ""}, "is_directory", "x/ names a directory", "name the file"},
		{
			NotebookEdit{},
			m{"notebook_path": "n.ipynb", "cell_id": "a"},
			"invalid_arguments",
			`"new_source" is missing`, "text of the cell",
		},
		{
			NotebookEdit{},
			m{"notebook_path": "n.ipynb", "new_source": ""},
			"invalid_arguments",
			`"cell_id" is missing`, "Read shows the ids",
		},
		{
			NotebookEdit{},
			m{"notebook_path": "n.ipynb", "new_source": "", "edit_mode": "insert"},
			"invalid_arguments", `"cell_type" is missing`, "code or markdown",
		},
		{
			NotebookEdit{},
			m{"notebook_path": "n.ipynb", "new_source": "", "cell_id": "b"},
			"cell_not_found", `there is no cell "b" among 1`, "Read shows the ids",
		},
		{
			NotebookEdit{},
			m{"notebook_path": "bad.ipynb", "new_source": "", "cell_id": "b"},
			"not_a_notebook", "bad.ipynb cannot be read as a notebook: ", "as it is",
		},
	} {
		te := e.Fails(tt.tool, tt.args, tt.code)
		if !strings.Contains(te.Msg, tt.msg) || !strings.Contains(te.Hint, tt.hint) {
			t.Errorf("%v: got %q and %q, want %q and %q", tt.args, te.Msg, te.Hint, tt.msg, tt.hint)
		}
	}
	if s.s.Title != "old" || s.s.Metadata != nil {
		t.Errorf("a refused set changed the session: %+v", s.s)
	}
	if got := e.OK(tools["Config"], m{"action": "set", "key": "title", "value": "new"}); got != "{\n  \"title\": \"new\"\n}" {
		t.Errorf("a set answers %q", got)
	}
	e.OK(tools["Config"], m{"action": "set", "key": "tag", "value": strings.Repeat("é", 200)})
}

// TestASearchThatFindsNoTool says so.
func TestASearchThatFindsNoTool(t *testing.T) {
	e, _, tools := sessionEnv(t, "default")
	text, out, err := e.Call(tools["ToolSearch"], m{"query": "zzz"})
	if err != nil || text != "no tool found; try other words" || fmt.Sprint(out.Data) != "[]" {
		t.Errorf("got %q, %v, %v", text, out.Data, err)
	}
	// A tool whose name is the word comes before those whose names hold it.
	text = e.OK(tools["ToolSearch"], m{"query": "edit", "max_results": 1})
	if !strings.Contains(text, `"name": "Edit"`) {
		t.Errorf("got %.200s", text)
	}
}

// TestWhyAProgramEnded: each end has its code, what was written until then, and a way on.
func TestWhyAProgramEnded(t *testing.T) {
	for _, tt := range []struct {
		data            bashData
		wall            bool
		code, msg, hint string
	}{
		{bashData{}, false, "", "", ""},
		{
			bashData{Interrupted: true, TimedOut: true},
			true, "cancelled",
			"the command was cancelled and ended; it wrote nothing", "",
		},
		{
			bashData{TimedOut: true},
			true, "limit_wall", "at the wall clock limit of the sandbox; it wrote nothing",
			"limits.wallSeconds",
		},
		{
			bashData{TimedOut: true, Stdout: "x"},
			false, "timeout",
			"after its timeout of 5000 ms; until then it wrote\nx", "at most 600000",
		},
		{
			bashData{Limit: "memory"},
			false, "limit_memory",
			"reached a limit of the sandbox: memory; it wrote nothing", "fewer jobs",
		},
		{bashData{Limit: "cpu"}, false, "limit_cpu", ": cpu", "fewer jobs"},
		{bashData{Limit: "output"}, false, "limit_output", ": output", "print less"},
		{bashData{Limit: "file_size"}, false, "limit_file_size", ": file_size", "write less"},
		{bashData{Limit: "disk"}, false, "limit_disk", ": disk", "write less"},
		{bashData{Limit: "processes"}, false, "limit_processes", ": processes", "do less at once"},
	} {
		_, err := ended(tt.data, sandbox.Exit{}, 5*time.Second, tt.wall)
		te, _ := errors.AsType[*tool.Error](err)
		if te == nil {
			te = &tool.Error{}
		}
		if te.Code != tt.code || !strings.Contains(te.Msg, tt.msg) || !strings.Contains(te.Hint, tt.hint) {
			t.Errorf("%+v: got %+v, want %s, %q and %q", tt.data, te, tt.code, tt.msg, tt.hint)
		}
	}
}

func TestWhyAProgramDidNotStart(t *testing.T) {
	for _, tt := range []struct {
		err             error
		code, msg, hint string
	}{
		{&tool.Error{Code: "own", Msg: "as it is"}, "own", "as it is", ""},
		{&sandbox.ReplacedError{Path: "/x"}, "bound_file_replaced", "/x was replaced", "when it is at rest"},
		{&sandbox.MissingError{Layer: "userns", Why: "off"}, "sandbox_layer_missing", "userns", "sandboxd doctor"},
		{&sandbox.StartError{Code: 127, Msg: "not found"}, "not_started", "not found", "is installed and visible"},
		{errors.New("odd"), "sandbox_failed", "ls could not be run in the sandbox: start: odd", "sandboxd doctor"},
	} {
		te, ok := errors.AsType[*tool.Error](startError("ls", fmt.Errorf("start: %w", tt.err)))
		if !ok || te.Code != tt.code || !strings.Contains(te.Msg, tt.msg) || !strings.Contains(te.Hint, tt.hint) {
			t.Errorf("%v: got %+v, want %s", tt.err, te, tt.code)
		}
	}
}

// TestNotesOfTheSandboxAreFiveAtMost, and say of some acts what else they mean.
func TestNotesOfTheSandboxAreFiveAtMost(t *testing.T) {
	var many []sandbox.Denial
	for i := range 7 {
		many = append(many, sandbox.Denial{Act: fmt.Sprint("act ", i), Layer: "landlock"})
	}
	for _, tt := range []struct {
		data bashData
		want []string
	}{
		{bashData{denials: many[:1]}, []string{"[sandbox: stopped act 0; no setting allows it]"}},
		{
			bashData{denials: many},
			[]string{
				"[sandbox: stopped act 0; no setting allows it]", "[sandbox: stopped act 1; no setting allows it]",
				"[sandbox: stopped act 2; no setting allows it]", "[sandbox: stopped act 3; no setting allows it]",
				"[sandbox: stopped act 4; no setting allows it]", "[sandbox: 2 more acts were stopped]",
			},
		},
		{
			bashData{denials: []sandbox.Denial{{Act: "write x", Layer: "approval"}}},
			[]string{"[sandbox: stopped write x; a person approved its content for this call, so change it in a call of its own]"},
		},
		{
			bashData{denials: []sandbox.Denial{{Act: "write .envrc", Layer: "protected_path_created"}}},
			[]string{"[sandbox: noted write .envrc, which decides what runs outside the sandbox]"},
		},
		{bashData{apart: []string{"job_1"}}, nil},
		{
			bashData{apart: []string{"job_1", "job_2"}, ExitCode: 1},
			[]string{
				"[sandbox: this command cannot reach the ports of job_1, job_2: settings or paths of the sandbox have " +
					"changed since it began; TaskStop it and begin it again]",
			},
		},
	} {
		if got := sandboxNotes(tt.data); strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%+v: got %q, want %q", tt.data, got, tt.want)
		}
	}
}

// TestACommandOfCodexWaitsForAWhile: ten seconds, or what it says, at most ten minutes.
func TestACommandOfCodexWaitsForAWhile(t *testing.T) {
	for _, tt := range []struct {
		args string
		want time.Duration
		ok   bool
	}{
		{`{"cmd":"ls"}`, 10 * time.Second, true},
		{`{"cmd":"ls","yield_time_ms":250}`, 250 * time.Millisecond, true},
		{`{"cmd":"ls","yield_time_ms":0}`, time.Millisecond, true},
		{`{"cmd":"ls","yield_time_ms":86400000}`, 10 * time.Minute, true},
		{`[]`, 0, false},
	} {
		got, ok := ExecCommand{}.Lasts(tool.In{Args: json.RawMessage(tt.args)})
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: %v, %v, want %v, %v", tt.args, got, ok, tt.want, tt.ok)
		}
	}
	for args, code := range map[string]string{
		`{"cmd":"ls"}`: "", `{"cmd":"ls","workdir":"/x"}`: "invalid_arguments",
		`{"cmd":"ls","tty":true}`: "invalid_arguments",
	} {
		if _, err := (ExecCommand{}).Argv(tool.In{Args: json.RawMessage(args)}); toolstest.Code(err) != code {
			t.Errorf("%s for another program: got %v, want %q", args, err, code)
		}
	}
}

// TestACustomToolEndsAtItsTimeout: two minutes, or what its operator says, at most ten.
func TestACustomToolEndsAtItsTimeout(t *testing.T) {
	e := toolstest.New(t)
	for _, tt := range []struct {
		ms   int64
		want time.Duration
	}{{0, 2 * time.Minute}, {3000, 3 * time.Second}, {3_600_000, 10 * time.Minute}} {
		c, err := NewCustom(Custom{
			Name: "Show", Description: "shows", Argv: []string{"true"}, TimeoutMS: tt.ms,
			Schema: json.RawMessage(`{"type":"object","properties":{"a":{}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		box := &deadlineBox{HostBox: e.Box}
		in := e.In(m{})
		synctest.Test(t, func(t *testing.T) {
			if _, err := c.Run(t.Context(), in, box); toolstest.Code(err) != "timeout" || box.took != tt.want {
				t.Errorf("%d ms: got %v after %v, want %v", tt.ms, err, box.took, tt.want)
			}
		})
	}
}

// TestWhatWasSeenIsBounded: the file that was read longest ago is forgotten.
func TestWhatWasSeenIsBounded(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", "one")
	old, err := os.Stat(e.Dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	e.Write("f", "longer than one")
	now, err := os.Stat(e.Dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		files int
		path  string
	}{
		{"files", maxSeen, "/x"},
		{"bytes of names", maxSeenBytes/4000 + 2, "/" + strings.Repeat("x", 4000)},
	} {
		s := newSeen()
		s.record("s", "/first", old)
		s.record("s", "/second", old)
		for i := range tt.files - 1 {
			s.record("s", fmt.Sprint(tt.path, i), old)
			if i == tt.files/2 {
				s.record("s", "/first", old) // so that it is not the oldest
			}
		}
		if !s.changed("s", "/first", now) || s.changed("s", "/second", now) {
			t.Errorf("%s: the first is known %v, the second %v, want the first alone", tt.name,
				s.changed("s", "/first", now), s.changed("s", "/second", now))
		}
		if s.bytes > maxSeenBytes || len(s.at) > maxSeen || len(s.at) != s.order.Len() {
			t.Errorf("%s: %d files with %d bytes of names, %d in order", tt.name, len(s.at), s.bytes, s.order.Len())
		}
	}
}

// A description says what a tool is, and how much of its result reaches the model.
func TestADescriptionSaysWhatAToolIs(t *testing.T) {
	for _, tt := range []struct {
		spec tool.Spec
		want string
		no   string
	}{
		{
			tool.Spec{Name: "X", ReadOnly: true},
			fmt.Sprintf("; read-only; reaches other systems; at most %d characters", tool.DefaultOutputLimit), "destructive",
		},
		{tool.Spec{Name: "X", OutputLimit: 7}, "at most 7 characters reach the model", ""},
		{tool.Spec{Name: "X", NoTruncate: true}, "class ", "reach the model"},
		{tool.Spec{Name: "X"}, "; destructive; reaches other systems; at most", "idempotent"},
		{
			tool.Spec{Name: "X", Annotations: &tool.Annotations{Idempotent: true}, Origin: tool.OriginWeb, NoCache: true},
			"class ; idempotent; origin web; its result becomes no variable; at most", "destructive",
		},
		{
			tool.Spec{Name: "X", Schema: json.RawMessage(`{"properties":{"a":{"type":"string"}}}`)},
			"\n| argument | type | |\n| --- | --- | --- |\n| `a` | string |", "no arguments",
		},
	} {
		if got := Describe(tt.spec); !strings.Contains(got, tt.want) || tt.no != "" && strings.Contains(got, tt.no) {
			t.Errorf("%+v: got %s", tt.spec, got)
		}
	}
}

// TestHelpQuotesTenLines, each with 200 characters at most, and shows what is not visible.
func TestHelpQuotesTenLines(t *testing.T) {
	var lines []string
	for i := range 11 {
		lines = append(lines, fmt.Sprint(i))
	}
	for _, tt := range []struct {
		in   []string
		want string
	}{
		{lines[:10], "0\n1\n2\n3\n4\n5\n6\n7\n8\n9"},
		{lines, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n…"},
		{[]string{"\ta\r"}, `\ta\r`},
		{[]string{strings.Repeat("é", 200)}, strings.Repeat("é", 200)},
		{[]string{strings.Repeat("é", 201)}, strings.Repeat("é", 200) + "…"},
	} {
		if got := quoteLines(tt.in); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}
