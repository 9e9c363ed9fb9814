package lsp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const goFile = `package a

import "fmt"

// Server is used below.
type Server[T any] struct{ n int }

const Limit = 3

func (s *Server[T]) Close() error { return s.flush() }

func (s Server[T]) flush() error {
	fmt.Println(Limit, "Größe")
	return nil
}

var größe = Limit
`

// sources makes a small program of several languages.
func sources(t *testing.T) *world {
	w := newWorld(t)
	w.write("a.go", goFile)
	w.write("sub/use.go", "package sub\n\nfunc Use(s *Server) { s.Close(); Serverless() }\n")
	w.write("web/x.ts", "export class Server {}\nexport const make = () => new Server()\nlet Limit: number\n")
	w.write("mac/x.swift", "protocol Closing {}\n  public enum Kind { case Server }\ntypealias Alias = Kind\ninterface Face {}\n")
	w.write(".hidden.go", "type Server int\n")
	w.write("bin", "type Server \x00\n")
	w.write(".gitignore", "ignored.go\n")
	w.write("ignored.go", "type Server int\n")
	if err := os.Mkdir(filepath.Join(w.dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestT52_Search(t *testing.T) {
	w := sources(t)
	for _, tt := range []struct{ name, args, want string }{
		{
			"the definition of a symbol at a position in a Go file",
			`{"operation":"goToDefinition","file_path":"sub/use.go","line":2,"character":24}`,
			"a.go:10:func (s *Server[T]) Close() error { return s.flush() }",
		},
		{
			"a type, also one with parameters, and a class",
			`{"operation":"goToDefinition","file_path":"sub/use.go","line":2,"character":14}`,
			"a.go:6:type Server[T any] struct{ n int }\nweb/x.ts:1:export class Server {}",
		},
		{
			"the position behind the last letter is the word",
			`{"operation":"goToDefinition","file_path":"sub/use.go","line":2,"character":29}`,
			"a.go:10:func (s *Server[T]) Close() error { return s.flush() }",
		},
		{
			"an implementation is searched in the same way",
			`{"operation":"goToImplementation","file_path":"a.go","line":9,"character":46}`,
			"a.go:12:func (s Server[T]) flush() error {",
		},
		{
			"a constant and let",
			`{"operation":"goToDefinition","file_path":"a.go","line":16,"character":14}`,
			"a.go:8:const Limit = 3\nweb/x.ts:3:let Limit: number",
		},
		{
			"a word with other letters than those of ASCII",
			`{"operation":"goToDefinition","file_path":"a.go","line":16,"character":8}`,
			"a.go:17:var größe = Limit",
		},
		{
			"characters count from 0, and are 0 if none is given",
			`{"operation":"goToDefinition","file_path":"a.go","line":0}`,
			`No definition found for "package"`,
		},
		{
			"no word there",
			`{"operation":"goToDefinition","file_path":"a.go","line":4,"character":1}`,
			"No definition found for symbol at position",
		},
		{
			"no such line",
			`{"operation":"findReferences","file_path":"a.go","line":4000,"character":1}`,
			"No references found for symbol at position",
		},
		{
			"behind the end of the line",
			`{"operation":"findReferences","file_path":"a.go","line":0,"character":10}`,
			"No references found for symbol at position",
		},
		{
			"references are lines with the whole word",
			`{"operation":"findReferences","file_path":"sub/use.go","line":2,"character":13}`,
			"a.go:5:// Server is used below.\na.go:6:type Server[T any] struct{ n int }\n" +
				"a.go:10:func (s *Server[T]) Close() error { return s.flush() }\na.go:12:func (s Server[T]) flush() error {\n" +
				"mac/x.swift:2:  public enum Kind { case Server }\n" +
				"sub/use.go:3:func Use(s *Server) { s.Close(); Serverless() }\n" +
				"web/x.ts:1:export class Server {}\nweb/x.ts:2:export const make = () => new Server()",
		},
		{
			"the symbols of a file",
			`{"operation":"documentSymbol","file_path":"mac/x.swift"}`,
			"mac/x.swift:1:protocol Closing {}\nmac/x.swift:2:  public enum Kind { case Server }\n" +
				"mac/x.swift:3:typealias Alias = Kind\nmac/x.swift:4:interface Face {}",
		},
		{
			"the symbols of a Go file",
			`{"operation":"documentSymbol","file_path":"a.go"}`,
			"a.go:6:type Server[T any] struct{ n int }\na.go:8:const Limit = 3\n" +
				"a.go:10:func (s *Server[T]) Close() error { return s.flush() }\na.go:12:func (s Server[T]) flush() error {\n" +
				"a.go:17:var größe = Limit",
		},
		{"a file without symbols", `{"operation":"documentSymbol","file_path":".gitignore"}`, "No symbols found"},
		{
			"symbols of the directory by a part of their names, in any case",
			`{"operation":"workspaceSymbol","query":"erVe"}`,
			"a.go:6:type Server[T any] struct{ n int }\nweb/x.ts:1:export class Server {}",
		},
		{"a query is text and no pattern", `{"operation":"workspaceSymbol","query":"S.rver"}`, `No symbols found for "S.rver"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			got, d := w.ok(tt.args)
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if d.By != "search" || d.Truncated || d.Total != len(d.Lines) {
				t.Errorf("got %+v", d)
			}
		})
	}
}

// Clients read these fields by their names.
func TestT52_TheDataOfAnAnswer(t *testing.T) {
	_, d := sources(t).ok(`{"operation":"goToDefinition","file_path":"sub/use.go","line":2,"character":24}`)
	got, err := json.Marshal(d)
	want := `{"operation":"goToDefinition","by":"search","symbol":"Close",` +
		`"lines":["a.go:10:func (s *Server[T]) Close() error { return s.flush() }"],"total":1,"truncated":false}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func TestT52_ManyLinesAreCutAndThatIsSaid(t *testing.T) {
	w := newWorld(t)
	var uses, types strings.Builder
	for i := range 70 {
		fmt.Fprintf(&uses, "call(thing, %d)\n", i)
		fmt.Fprintf(&types, "type Part%d int\n", i)
	}
	w.write("uses.js", uses.String())
	w.write("types.go", types.String())
	for _, tt := range []struct {
		args, note string
		lines      int
	}{
		{`{"operation":"findReferences","file_path":"uses.js","line":3,"character":6}`, "[note: 50 of 70]", 50},
		{`{"operation":"workspaceSymbol","query":"Part"}`, "[note: 30 of 70]", 30},
		{`{"operation":"documentSymbol","file_path":"types.go"}`, "", 70},
	} {
		text, d := w.ok(tt.args)
		if len(d.Lines) != tt.lines || d.Total != 70 || d.Truncated != (tt.note != "") {
			t.Errorf("%s: got %d lines of %d, truncated %t", tt.args, len(d.Lines), d.Total, d.Truncated)
		}
		lines := strings.Split(text, "\n")
		if tt.note != "" && (lines[len(lines)-1] != tt.note || len(lines) != tt.lines+1) {
			t.Errorf("%s: got %d lines, the last is %q", tt.args, len(lines), lines[len(lines)-1])
		}
	}
}

func TestT52_WhatIsRefused(t *testing.T) {
	w := sources(t)
	for _, tt := range []struct{ args, code, says string }{
		{`{"operation":"goToDefinition","line":1}`, "invalid_arguments", "file_path is required for goToDefinition"},
		{`{"operation":"findReferences","file_path":"a.go"}`, "invalid_arguments", "line is required for findReferences"},
		{`{"operation":"documentSymbol"}`, "invalid_arguments", "file_path is required for documentSymbol"},
		{`{"operation":"workspaceSymbol"}`, "invalid_arguments", "query is required"},
		{`{"operation":"workspaceSymbol","query":"` + strings.Repeat("a", 201) + `"}`, "invalid_arguments", "200 bytes"},
		{`{"operation":"workspaceSymbol","query":"a\nb"}`, "invalid_arguments", "query is required"},
		{`{"operation":"goToDefinition","file_path":"a.go","line":-1}`, "invalid_arguments", "line"},
		{`{"operation":"goToDefinition","file_path":"a.go","line":1,"character":-1}`, "invalid_arguments", "character"},
		{`{"operation":"rename","file_path":"a.go","line":1}`, "invalid_arguments", "operation"},
		{`{"operation":"goToDefinition","file_path":"a.go","line":1,"newName":"x"}`, "invalid_arguments", "newName"},
		{`{"operation":"goToDefinition","file_path":"none.go","line":1}`, "file_not_found", "none.go"},
		{`{"operation":"documentSymbol","file_path":"none.go"}`, "file_not_found", "none.go"},
		{`{"operation":"goToDefinition","file_path":"sub","line":1}`, "is_directory", "sub"},
		{`{"operation":"hover","file_path":"a.go","line":1}`, "no_language_server", "hover needs a language server"},
	} {
		if e := w.fails(tt.args, tt.code); !strings.Contains(e.Msg, tt.says) {
			t.Errorf("%s: got %q, want %q in it", tt.args, e.Msg, tt.says)
		}
	}
}

func TestT52_X36_DeniedFilesAreNotOpened(t *testing.T) {
	w := sources(t)
	w.box.denied = []string{filepath.Join(w.dir, "a.go"), filepath.Join(w.dir, "web")}
	w.fails(`{"operation":"documentSymbol","file_path":"a.go"}`, "path_denied")
	w.fails(`{"operation":"goToDefinition","file_path":"a.go","line":5,"character":6}`, "path_denied")
	got, _ := w.ok(`{"operation":"findReferences","file_path":"sub/use.go","line":2,"character":13}`)
	want := "mac/x.swift:2:  public enum Kind { case Server }\nsub/use.go:3:func Use(s *Server) { s.Close(); Serverless() }"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What a call opens is below what it says that it reads.
func TestT52_X36_UsesNameWhatIsRead(t *testing.T) {
	w := sources(t)
	for _, tt := range []struct {
		args string
		want []string // relative
	}{
		{`{"operation":"goToDefinition","file_path":"sub/use.go","line":2,"character":13}`, []string{"sub/use.go", ""}},
		{`{"operation":"documentSymbol","file_path":"sub/use.go"}`, []string{"sub/use.go"}},
		{`{"operation":"workspaceSymbol","query":"x"}`, []string{""}},
	} {
		uses, err := w.tool.Uses(t.Context(), w.in(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range uses.Paths {
			rel, err := filepath.Rel(w.dir, u.Path)
			if err != nil || u.Op != "read" {
				t.Errorf("%s uses %+v, %v", tt.args, u, err)
			}
			got = append(got, strings.TrimPrefix(rel, "."))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s uses %q, want %q", tt.args, got, tt.want)
		}
		w.box.opened = nil
		w.ok(tt.args)
		if len(tt.want) == 1 && tt.want[0] != "" {
			if want := []string{filepath.Join(w.dir, tt.want[0])}; !slices.Equal(w.box.opened, want) {
				t.Errorf("%s opened %q, want %q", tt.args, w.box.opened, want)
			}
		}
	}
}

// TestT52_AFileThatIsNotSearchedToItsEnd: the answer says that there may be more.
func TestT52_AFileThatIsNotSearchedToItsEnd(t *testing.T) {
	w := sources(t)
	w.write("min.js", "class Serverside {}\n"+strings.Repeat("x", 17<<20)+" Serverside\n")
	got, _ := w.ok(`{"operation":"findReferences","file_path":"min.js","line":0,"character":7}`)
	if want := "min.js:1:class Serverside {}\n[note: 1 files were not searched to their end]"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestT52_AnIgnoreFileThatIsNotReadWhole: the answer says that there may be more, or less.
func TestT52_AnIgnoreFileThatIsNotReadWhole(t *testing.T) {
	w := sources(t)
	w.write("sub/.gitignore", strings.Repeat("#", 2<<20))
	got, _ := w.ok(`{"operation":"findReferences","file_path":"sub/use.go","line":2,"character":14}`)
	if !strings.HasSuffix(got, "\n[note: 1 directories were not searched, or ignore files not read]") {
		t.Errorf("got\n%s", got)
	}
}

// TestDeclarationsBehindModifiers: each modifier of the languages that are searched, also several.
func TestDeclarationsBehindModifiers(t *testing.T) {
	pattern := regexp.MustCompile(declarations(""))
	for _, word := range strings.Fields(
		"export default declare public private protected internal fileprivate open static final abstract override async",
	) {
		for _, line := range []string{"class X {", "  static interface X {"} {
			if !pattern.MatchString(word + " " + line) {
				t.Errorf("%s %s is no declaration", word, line)
			}
		}
	}
	if pattern.MatchString("return class X") {
		t.Error("any word is a modifier")
	}
}

func TestSymbolAt(t *testing.T) {
	for _, tt := range []struct {
		line string
		at   int
		want string
	}{
		{"foo.bar", 0, "foo"},
		{"foo.bar", 3, "foo"},
		{"foo.bar", 4, "bar"},
		{"foo.bar", 7, "bar"},
		{"foo.bar", 8, ""},
		{"a + b", 2, ""},
		{"", 0, ""},
		{"", 1, ""},
		{"😀 name", 3, "name"}, // two code units
		{"😀 name", 2, ""},
		{"größe_2()", 8, ""},
		{"größe_2()", 7, "größe_2"},
		{"\xff\xfename", 3, "name"},
		{"n", 1 << 30, ""},
	} {
		if got := symbolAt(tt.line, tt.at); got != tt.want {
			t.Errorf("symbolAt(%q, %d) = %q, want %q", tt.line, tt.at, got, tt.want)
		}
	}
}

func FuzzSymbolAt(f *testing.F) {
	f.Add("foo.bar", 3)
	f.Add("😀\xffx", 1)
	f.Fuzz(func(t *testing.T, line string, at int) {
		got := symbolAt(line, max(at, 0))
		if !strings.Contains(line, got) || strings.ContainsFunc(got, func(r rune) bool { return !isWord(r) }) {
			t.Errorf("symbolAt(%q, %d) = %q", line, at, got)
		}
	})
}

// The words before a name that make it a definition are those that the model is told, and no others.
func TestT52_KeywordsOfDefinitions(t *testing.T) {
	words := "func class struct enum protocol typealias let var export type const"
	told := strings.NewReplacer(",", "", " and ", " ").Replace((lsp{}).Spec().Description)
	if !strings.Contains(told, "by the keywords "+words+" hover") {
		t.Errorf("the model is told %q", told)
	}
	defined := regexp.MustCompile(definitionOf("thing"))
	for _, word := range strings.Fields(words) {
		if !defined.MatchString(word + " thing") {
			t.Errorf("%s defines nothing", word)
		}
	}
	for _, word := range []string{"interface", "import", "return", "new", "def", "fn"} {
		if defined.MatchString(word + " thing") {
			t.Errorf("%s defines something", word)
		}
	}
}
