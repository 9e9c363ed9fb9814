package input_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// TestNoFieldIsWrittenInThePlaceOfAnother: the lists of value.go go by position. Of any two truths, one round has
// different ones.
func TestNoFieldIsWrittenInThePlaceOfAnother(t *testing.T) {
	for round := range 6 {
		in, f := &input.Document{}, &filler{round: round}
		f.fill(reflect.ValueOf(in).Elem())
		if f.truths < 30 || f.truths > 1<<6 {
			t.Fatalf("%d truths, want some that 6 rounds tell apart", f.truths)
		}
		got, err := in.JSON()
		if err != nil {
			t.Fatal(err)
		}
		type fields input.Document
		want, err := json.Marshal((*fields)(in))
		if err != nil {
			t.Fatal(err)
		}
		var has, is any
		if err := json.Unmarshal(want, &has); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(has, is); diff != "" {
			t.Fatalf("the document (-has +is written):\n%s", diff)
		}
	}
}

// filler gives every text and number a value of its own, and every list one member.
type filler struct{ round, n, truths int }

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch v.Kind() {
	case reflect.String:
		v.SetString("text" + strconv.Itoa(f.n))
	case reflect.Bool:
		v.SetBool(f.truths>>f.round&1 == 1)
		f.truths++
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a": 1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	default:
		panic("nothing fills " + v.Type().String())
	}
}

func TestWhatTheDocumentSaysOfATool(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec tool.Spec
		want input.Tool
	}{
		{"without annotations", tool.Spec{Name: "A"}, input.Tool{Name: "A", Destructive: true, OpenWorld: true}},
		{
			"that changes nothing",
			tool.Spec{Name: "A", Class: tool.ClassRead, ReadOnly: true},
			input.Tool{Name: "A", Class: "read", ReadOnly: true, OpenWorld: true},
		},
		{
			"with annotations",
			tool.Spec{Name: "A", Annotations: &tool.Annotations{OpenWorld: true}},
			input.Tool{Name: "A", OpenWorld: true},
		},
		{
			"of a server",
			tool.Spec{Name: "mcp__git__push__all", Annotations: &tool.Annotations{Destructive: true}},
			input.Tool{Name: "mcp__git__push__all", Destructive: true, Server: "git"},
		},
	} {
		in, err := input.New(&tool.Call{Target: tool.Target{Spec: tt.spec}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, in.Tool); diff != "" {
			t.Errorf("a tool %s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestWhatTheDocumentSaysOfTheSession(t *testing.T) {
	c := &tool.Call{
		Target: tool.Target{Session: tool.Session{
			ID: "s1", Account: "acc", Dir: "/src", Home: "/home/u", Profile: sandbox.ProfileLight, Mode: tool.ModePlan,
		}},
		Judgement: tool.Judgement{
			Settings: guard.Settings{AllowNestedSandbox: true, AllowedWritePaths: []string{"/src"}},
		},
	}
	c.Facts.Origins = tool.Origins{
		Args:  map[string][]tool.Origin{"a": {tool.OriginWeb, tool.OriginModel}, "b": {tool.OriginWeb}},
		Hosts: []string{"x.test"},
	}
	in, err := input.New(c)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{in.Version, in.Mode, in.Session, in.Settings, in.Authors, in.Origins.Hosts, in.Elsewhere}
	want := []any{
		2, tool.ModePlan,
		input.Session{ID: "s1", Account: "acc", Dir: "/src", Base: "/src", Home: "/home/u", Profile: "light"},
		input.Settings{AllowNestedSandbox: true, WorkspaceRoots: []string{"/src"}},
		[]tool.Origin{tool.OriginModel, tool.OriginWeb},
		[]string{"x.test"},
		false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, r := range map[string]tool.Request{"held for a client": {Theirs: true}, "outside": {Outside: true}} {
		c.Request = r
		if in, err := input.New(c); err != nil || !in.Elsewhere {
			t.Errorf("a call that is %s does not run elsewhere: %v", name, err)
		}
	}
}

func TestWhatTheDocumentSaysOfACommand(t *testing.T) {
	var digits []string
	for i := range 20 {
		digits = append(digits, strconv.Itoa(i))
	}
	line := "A=1 B=2 /usr/bin/cat -- a/f /b/$x | xargs sh -c 'tool " + strings.Join(digits, " ") + "'"
	s, err := shellparse.Parse(line, shellparse.Options{Dir: "/src", Home: "/home/u"})
	if err != nil {
		t.Fatal(err)
	}
	c := &tool.Call{}
	c.Facts.Uses = guard.Uses{Script: s}
	in, err := input.New(c)
	if err != nil {
		t.Fatal(err)
	}
	cat := in.Commands[0]
	got := fmt.Sprintf(
		"%s %s %v %v %v %v %s %s", cat.Name, cat.Path, cat.Known, cat.Argv, cat.Env, cat.Via, cat.Dir, cat.Text)
	if want := "cat /usr/bin/cat false [cat -- a/f /b/$x] [A B] [pipeline] /src cat -- a/f /b/$x"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	files := []input.File{
		{Path: "/src/a/f", Known: true, Op: "read", Base: "f", Ancestors: []string{"/src/a/f", "/src/a", "/src", "/"}},
		{Path: "/b/$x", Op: "read", Base: "$x"},
	}
	if diff := cmp.Diff(files, cat.Files); diff != "" {
		t.Errorf("its files (-want +got):\n%s", diff)
	}
	i := slices.IndexFunc(in.Commands, func(c input.Command) bool { return c.Name == "tool" })
	inner := in.Commands[i]
	n, m := len(inner.Prefixes), len(inner.Literal)
	if n != 9 || m != 16 || inner.Prefixes[8] != "tool 0 1 2 3 4 5 6 7" {
		t.Errorf("%d prefixes, want 9; %d literal, want 16: %q %q", n, m, inner.Prefixes, inner.Literal)
	}
	if want := []string{"pipeline", "xargs", "sh -c"}; !slices.Equal(inner.Via, want) {
		t.Errorf("reached by %q, want %q", inner.Via, want)
	}
	for _, p := range append(slices.Clone(cat.Prefixes), inner.Prefixes...) {
		if !slices.Contains(in.Starts, p) {
			t.Errorf("%q is not among what it starts", p)
		}
	}
}
