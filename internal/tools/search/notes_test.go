package search

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
)

// TestNotesOfASearchThatIsNotWhole: each says what is missing, and what to do.
func TestNotesOfASearchThatIsNotWhole(t *testing.T) {
	one := []hits{{path: "/w/a", lines: []hitLine{{number: 1, text: "x", match: true}}, count: 1}}
	for _, tt := range []struct {
		r    *results
		args grepArgs
		want string
	}{
		{&results{hits: one}, grepArgs{}, "a"},
		{
			&results{hits: one, full: true},
			grepArgs{},
			"[note: the search stopped early, there are too many matches; narrow it]",
		},
		{&results{hits: one, partial: 2}, grepArgs{}, "[note: 2 files were not searched to their end: the limit is "},
		{&results{hits: one, refused: 3}, grepArgs{}, "[note: 3 directories were not searched, or ignore files not read]"},
		{
			&results{hits: one, withheld: 4},
			grepArgs{},
			"a\n[note: left out are files with matches that policies deny or ask to read: 4]",
		},
		{&results{hits: one}, grepArgs{Offset: 5}, "[note: offset 5 is past the end: there are 1 lines]"},
		{&results{}, grepArgs{}, "no matches found in ."},
	} {
		if got := tt.r.output("/w", tt.args); !strings.Contains(got.Text, tt.want) {
			t.Errorf("got %q, want %q", got.Text, tt.want)
		}
	}
}

// TestASearchLeavesOutWhatPoliciesWithhold, counts it, and asks nothing where nothing is found.
func TestASearchLeavesOutWhatPoliciesWithhold(t *testing.T) {
	all := func() []hits { return []hits{{path: "/w/a"}, {path: "/w/b"}} }
	asked := 0
	in := tool.In{Withheld: func(_ context.Context, paths []string) (map[string]bool, error) {
		asked++
		if len(paths) != 2 || paths[0] != "/w/a" || paths[1] != "/w/b" {
			t.Errorf("asked about %q", paths)
		}
		return map[string]bool{"/w/a": true}, nil
	}}
	r := &results{hits: all()}
	if err := r.withhold(t.Context(), in); err != nil || len(r.hits) != 1 || r.hits[0].path != "/w/b" ||
		r.withheld != 1 {
		t.Errorf("%+v, %v", r.hits, err)
	}
	none := &results{}
	if err := none.withhold(t.Context(), in); err != nil || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	fails := errors.New("no judge")
	in.Withheld = func(context.Context, []string) (map[string]bool, error) { return nil, fails }
	if err := (&results{hits: all()}).withhold(t.Context(), in); !errors.Is(err, fails) {
		t.Errorf("what cannot be judged: %v", err)
	}
}

// TestReadWholeIsBounded, and makes text of it.
func TestReadWholeIsBounded(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", "ab\xff")
	use := func(name string) guard.PathUse {
		return guard.PathUse{Raw: name, Path: e.Dir + "/" + name, Op: guard.Read}
	}
	if got, err := ReadWhole(t.Context(), e.Box, use("f"), 3); err != nil || got != "ab\uFFFD" {
		t.Errorf("got %q, %v", got, err)
	}
	_, err := ReadWhole(t.Context(), e.Box, use("f"), 2)
	if te, ok := errors.AsType[*tool.Error](err); !ok || te.Code != "file_too_large" ||
		te.Msg != "f has more than 2 bytes" ||
		te.Hint != "Grep searches it" {
		t.Errorf("got %+v", err)
	}
	if _, err := ReadWhole(t.Context(), e.Box, use("none"), 3); toolstest.Code(err) != "file_not_found" {
		t.Errorf("got %v", err)
	}
}
