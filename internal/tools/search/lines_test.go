package search

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
)

func reads(e *toolstest.Env, name string) guard.PathUse {
	path := filepath.Join(e.Dir, name)
	return guard.PathUse{Raw: name, Path: path, Op: guard.Read}
}

func TestReadLines(t *testing.T) {
	e := toolstest.New(t)
	long := strings.Repeat("x", maxWholeLine+200_000)
	e.Write("f", "one\r\ntwo\n\n"+long+"\nlast")
	e.Write("ends", "one\n")
	for _, tt := range []struct {
		file    string
		numbers []int64
		want    map[int64]string
	}{
		{"f", []int64{1}, map[int64]string{1: "one"}},
		{"f", []int64{3, 2, 5}, map[int64]string{2: "two", 3: "", 5: "last"}},
		{"f", []int64{4}, map[int64]string{4: long[:maxWholeLine]}},
		{"f", []int64{6, 1}, map[int64]string{1: "one"}},
		{"f", []int64{-1, 0}, map[int64]string{}},
		{"f", nil, map[int64]string{}},
		{"ends", []int64{1, 2}, map[int64]string{1: "one"}},
	} {
		got, err := ReadLines(t.Context(), e.Box, reads(e, tt.file), tt.numbers...)
		if err != nil || !maps.Equal(got, tt.want) {
			t.Errorf("%s %v: got %d lines, %v", tt.file, tt.numbers, len(got), err)
		}
	}
}

func TestReadLines_AFileThatIsTooLarge(t *testing.T) {
	e := toolstest.New(t)
	path := e.Write("large", "one\n")
	if err := os.Truncate(path, maxLinesFile+1); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLines(t.Context(), e.Box, reads(e, "large"), 1)
	if err != nil || got[1] != "one" {
		t.Errorf("got %q, %v", got[1], err)
	}
	_, err = ReadLines(t.Context(), e.Box, reads(e, "large"), 3)
	if te, ok := err.(*tool.Error); !ok || te.Code != "file_too_large" {
		t.Errorf("got %v", err)
	}
}

func TestFindLines(t *testing.T) {
	e := toolstest.New(t)
	e.Write("b.go", "x\nfunc B() {}\n")
	e.Write("a.go", "func A() {}\n// "+strings.Repeat("é", maxHitLine)+" func\n")
	e.Write("no/c.go", "func C() {}\n")
	e.Box.Denied = []string{filepath.Join(e.Dir, "no")}
	got, err := FindLines(t.Context(), tool.In{}, e.Box, reads(e, "."), "func")
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{e.Dir + "/a.go", 1, "func A() {}"},
		{e.Dir + "/a.go", 2, "// " + strings.Repeat("é", maxHitLine-3) + "… [line cut]"},
		{e.Dir + "/b.go", 2, "func B() {}"},
	}
	if len(got.Lines) != len(want) || got.Refused != 0 || got.Full || got.Partial != 0 {
		t.Fatalf("got %+v", got)
	}
	for i, l := range got.Lines {
		if l != want[i] {
			t.Errorf("got %+v, want %+v", l, want[i])
		}
	}
}
