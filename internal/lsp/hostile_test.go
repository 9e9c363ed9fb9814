package lsp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const question = `{"operation":"findReferences","file_path":"a.go","line":5,"character":6}`

// at is a location.
func at(uri string, line int) string {
	return fmt.Sprintf(`{"uri":%q,"range":{"start":{"line":%d,"character":0},"end":{"line":%d,"character":1}}}`, uri, line, line)
}

func TestT52_AnAnswerOfAServer(t *testing.T) {
	first := "a.go:6:type Server[T any] struct{ n int }"
	for _, tt := range []struct{ name, how, answer, args, want string }{
		{"a location", "answers", at("DIR/a.go", 5), question, first},
		{
			"locations, sorted, each once", "answers",
			"[" + at("DIR/a.go", 7) + "," + at("DIR/a.go", 5) + "," + at("DIR/a.go", 5) + "]", question,
			first + "\na.go:8:const Limit = 3",
		},
		{
			"a link to a location", "answers", `[{"targetUri":"DIR/a.go","targetSelectionRange":{"start":{"line":5}}}]`,
			strings.Replace(question, findReferences, goToDefinition, 1), first,
		},
		{"nothing", "answers", "null", question, "The language server found nothing"},
		{"an empty list", "answers", "[]", question, "The language server found nothing"},
		{"other messages meanwhile", "talks meanwhile", at("DIR/a.go", 5), question, first},
		{
			"symbols of a document in a tree", "answers",
			`[{"name":"x","selectionRange":{"start":{"line":7}},"children":[{"name":"y","selectionRange":{"start":{"line":5}}}]}]`,
			`{"operation":"documentSymbol","file_path":"a.go"}`, first + "\na.go:8:const Limit = 3",
		},
		{
			"symbols in a list, also without naming a file", "answers", `[{"name":"x","location":` + at("DIR/a.go", 5) + `}]`,
			`{"operation":"workspaceSymbol","query":"x"}`, first,
		},
		{
			"a text about a symbol", "answers", `{"contents":{"kind":"markdown","value":"type **Server**"}}`,
			strings.Replace(question, findReferences, hover, 1), "type **Server**",
		},
		{
			"texts in the old forms", "answers", `{"contents":["one",{"language":"go","value":"two"}]}`,
			strings.Replace(question, findReferences, hover, 1), "one\ntwo",
		},
		{
			"a long text about a symbol", "answers", `{"contents":"` + strings.Repeat("ä", 20_001) + `"}`,
			strings.Replace(question, findReferences, hover, 1), strings.Repeat("ä", 20_000) + "… [cut]",
		},
		{
			"no text about a symbol", "answers", `null`, strings.Replace(question, findReferences, hover, 1),
			"Nothing is known of the symbol at this position",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := served(t, tt.how, tt.answer)
			for range 2 { // the second question goes to the same server
				got, d := w.ok(tt.args)
				if got != tt.want || d.By != "go" {
					t.Errorf("got\n%s\nby %s, want\n%s", got, d.By, tt.want)
				}
			}
			if w.box.started != 1 {
				t.Errorf("%d servers were started", w.box.started)
			}
		})
	}
}

func TestT52_PlacesThatMayNotBeRead(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(dir, "beside.go")
	if err := os.WriteFile(beside, []byte("package beside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, uri, want string }{
		{"a denied file", "DIR/denied/x.go", ""},
		{"a link", "DIR/link.go", ""},
		{"a link to a directory", "DIR/links/x.go", ""},
		{"a file that is not there", "DIR/none.go", ""},
		{"a line that is not there", "DIR/short.go", ""},
		{"a directory", "DIR", ""},
		{"a fifo or a device", "file:///dev/zero", ""},
		{"up and down again", "DIR/denied/../a.go", "a.go:1:package a"},
		{"up and out", "DIR/sub/../denied/x.go", ""},
		{"dots that are written otherwise", "DIR/%2e/denied/x.go", ""},
		{"another host", "file://host" + beside, ""},
		{"another scheme", "https://host/a.go", ""},
		{"no path", "file:a.go", ""},
		{"a zero byte", "DIR/a.go%00", ""},
		{"no URI", "::", ""},
		{"beside the working directory", "file://" + beside, beside + ":1:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := served(t, "answers", at(tt.uri, 0))
			if tt.uri == "DIR/short.go" {
				w = served(t, "answers", at(tt.uri, 1))
			}
			w.write("short.go", "package short\n")
			w.write("denied/x.go", "SECRET\n")
			for from, to := range map[string]string{"link.go": "denied/x.go", "links": "denied"} {
				if err := os.Symlink(filepath.Join(w.dir, to), filepath.Join(w.dir, from)); err != nil {
					t.Fatal(err)
				}
			}
			w.box.denied = []string{filepath.Join(w.dir, "denied")}
			got, d := w.ok(question)
			switch {
			case strings.Contains(got, "SECRET") || strings.Contains(got, "package beside"):
				t.Errorf("shows what may not be read: %s", got)
			case tt.want == "" && (d.LeftOut != 1 || len(d.Lines) != 0 || !strings.Contains(got, "1 places are left out")):
				t.Errorf("got %q, %+v", got, d)
			case tt.want != "" && (d.LeftOut != 0 || len(d.Lines) != 1 || d.Lines[0] != tt.want):
				t.Errorf("got %q, %+v", got, d)
			}
		})
	}
}

// What was judged comes first, wherever the other files lie.
// A file that policies withhold from the call is left out, as one that the settings deny.
func TestT52_PlacesThatPoliciesWithhold(t *testing.T) {
	w := served(t, "answers", "["+at("DIR/a.go", 0)+","+at("DIR/secret.go", 0)+"]")
	w.write("secret.go", "SECRET\n")
	in := w.in(question)
	var err error
	if in.Judged, err = w.tool.Uses(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(w.dir, "secret.go")
	in.Withheld = func(_ context.Context, paths []string) (map[string]bool, error) {
		return map[string]bool{secret: slices.Contains(paths, secret)}, nil
	}
	out, err := w.tool.Run(t.Context(), in, w.box)
	if d, _ := out.Data.(data); err != nil || d.LeftOut != 1 || !slices.Equal(d.Lines, []string{"a.go:1:package a"}) {
		t.Errorf("got %+v, %v", out.Data, err)
	}
}

func TestT52_PlacesBesideTheDirectoryComeLast(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(dir, "beside.go")
	if err := os.WriteFile(beside, []byte("package beside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := served(t, "answers", "["+at("file://"+beside, 0)+","+at("DIR/a.go", 0)+"]")
	if beside > w.dir {
		t.Fatalf("%s is behind %s anyway", beside, w.dir)
	}
	if _, d := w.ok(question); !slices.Equal(d.Lines, []string{"a.go:1:package a", beside + ":1:"}) {
		t.Errorf("got %q", d.Lines)
	}
}

func TestT52_AHostileServer(t *testing.T) {
	for _, tt := range []struct{ how, says string }{
		{"dies at once", "it ended with status 3; it said last: \"no such option\""},
		{"dies", "it ended with status 3; it said last: \"boom\""},
		{"ends in a message", "it ended in the middle of a message"},
		{"announces 17 MB", "a message of 17825792 bytes is larger than 16777216"},
		{"sends 17 MB", "a message of 17825792 bytes is larger than 16777216"},
		{"counts too few", "a message is"},
		{"counts too many", "a message is"},
		{"counts below zero", "is no length"},
		{"counts twice", "two lengths"},
		{"does not count", "no Content-Length"},
		{"prints text", "which is no header"},
		{"has a long header", "has more than 4096 bytes"},
		{"has many headers", "has more than 4096 bytes"},
		{"answers another id", "the id 999, which no request has"},
		{"answers an id that is text", "which no request has"},
		{"nests deep", "nested deeper"},
		{"sends what is no JSON", "a message is"},
		{"sends what is no UTF-8", "not valid UTF-8"},
		{"says fields twice", "given twice"},
		{"sends a list", "cannot be read"},
		{"asks for much", "more than 100"},
		{"asks with a long id", "an id of more than 100 bytes"},
		{"asks without end", "it does not read"},
	} {
		t.Run(tt.how, func(t *testing.T) {
			w := served(t, tt.how, "null")
			for n := 1; n <= 2; n++ {
				if e := w.fails(question, "language_server_failed"); !strings.Contains(e.Msg, tt.says) {
					t.Errorf("got %q, want %q in it", e.Msg, tt.says)
				}
				if w.box.started != n || w.f.running() != 0 || w.forgot.Load() != int64(n) {
					t.Errorf("%d were started, %d run, %d cages were removed", w.box.started, w.f.running(), w.forgot.Load())
				}
			}
		})
	}
}

// What a server answers may be wrong without its connection being of no use.
func TestT52_AWrongAnswer(t *testing.T) {
	for _, tt := range []struct{ how, answer, says string }{
		{"refuses", "null", "column is beyond end of line ***"},
		{"has many values", "null", "values, 200000 at most"},
		{"answers", `"text"`, "no list of places"},
		{"answers", `[1]`, "no list of places"},
		{"answers", `[{"uri":"DIR/a.go"}]`, "one has no line"},
		{"answers", `[{"uri":"DIR/a.go","range":{"start":{"line":-1}}}]`, "one has no line"},
		{"answers", `[{"uri":"DIR/a.go","range":{"start":{"line":1e99}}}]`, "no list of places"},
		{"answers", `[{"uri":"DIR/a.go","range":{"start":{"line":99999999999}}}]`, "one has no line"},
		{"answers", `[{"uri":["DIR/a.go"],"range":{"start":{"line":1}}}]`, "no list of places"},
	} {
		t.Run(tt.how+" "+tt.answer, func(t *testing.T) {
			w := served(t, tt.how, tt.answer)
			for range 2 {
				if e := w.fails(question, "language_server_failed"); !strings.Contains(e.Msg, tt.says) {
					t.Errorf("got %q, want %q in it", e.Msg, tt.says)
				}
			}
			if w.box.started != 1 || w.f.running() != 1 {
				t.Errorf("%d were started, %d run", w.box.started, w.f.running())
			}
		})
	}
	asksWhat := strings.Replace(question, findReferences, hover, 1)
	served(t, "answers", `{"contents":3}`).fails(asksWhat, "language_server_failed")
	e := served(t, "has many values", "null").fails(asksWhat, "language_server_failed")
	if !strings.Contains(e.Msg, "values, 200000 at most") {
		t.Errorf("got %q", e.Msg)
	}
}

func TestT52_AServerThatDoesNotAnswerIsEnded(t *testing.T) {
	for _, how := range []string{"never begins", "says nothing", "stays"} {
		t.Run(how, func(t *testing.T) {
			w := served(t, how, "null")
			c := *w.f.config.Load()
			c.Timeout = time.Second
			w.f.config.Store(&c)
			if e := w.fails(question, "language_server_failed"); !strings.Contains(e.Msg, "did not answer within 1s") {
				t.Errorf("got %q", e.Msg)
			}
			if w.f.running() != 0 || w.forgot.Load() != 1 {
				t.Errorf("%d run, %d cages were removed", w.f.running(), w.forgot.Load())
			}
		})
	}
}
