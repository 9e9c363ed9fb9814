package vars_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

func TestV22_V23_V25_V27_References(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for name, value := range map[string]string{
		"a": "1", "v": "héllo", "wide": "a😀b", "q": "say \"hi\"\n\\ \x01 \u2028", "empty": "", "colon:5": "exact",
		"colon":   "0123456789",
		"ü.b c/d": "odd", "$": "dollar", "n": "5", "deep": "<$VAR_REF{{a}}>",
		"deeper": "[$VAR_REF{{deep}}$VAR_REF{{deep}}]",
	} {
		f.put(name, value)
	}
	for _, tt := range []struct{ id, args, want string }{
		{"V20 whole value", `{"x":"$VAR_REF{{v}}"}`, `{"x":"héllo"}`},
		{"V20 slice", `"$VAR_REF{{v:1:3}}"`, `"éll"`},
		{"V20 slice to the end", `"$VAR_REF{{v:3}}"`, `"lo"`},
		{"V20 outside is empty", `"$VAR_REF{{v:99:5}}"`, `""`},
		{"V20 the end is clamped", `"$VAR_REF{{v:3:500}}"`, `"lo"`},
		{"V20 no length", `"$VAR_REF{{v:1:0}}"`, `""`},
		{
			"V20 numbers too large to hold clamp",
			`"$VAR_REF{{v:1:99999999999999999999999}}$VAR_REF{{v:99999999999999999999}}"`, `"éllo"`,
		},
		{"V20 characters beyond the BMP are one", `"$VAR_REF{{wide:1:1}}$VAR_REF{{wide:2:1}}"`, `"😀b"`},
		{"V21 at any depth", `{"a":[{"b":["$VAR_REF{{a}}"]}]}`, `{"a":[{"b":["1"]}]}`},
		{"V22 embedded and several", `"A=$VAR_REF{{a}};B=$VAR_REF{{v}}"`, `"A=1;B=héllo"`},
		{"V23 the same in two elements", `["$VAR_REF{{deep}}","$VAR_REF{{deep}}"]`, `["<1>","<1>"]`},
		{
			"V24 keys and other values stay",
			`{"x":"$VAR_REF{{a}}","y":"$VAR_REF{{a}}","$VAR_REF{{a}}":1, "n": [true,null,1.50]}`,
			`{"x":"1","y":"1","$VAR_REF{{a}}":1, "n": [true,null,1.50]}`,
		},
		{"V25 twice in one string", `"$VAR_REF{{a}}$VAR_REF{{a}}"`, `"11"`},
		{"V27 values are expanded", `"$VAR_REF{{deeper}}"`, `"[<1><1>]"`},
		{"V27 a slice is cut first", `"$VAR_REF{{deep:0:5}}"`, `"<$VAR"`},
		{"V30 text it stays", `{"limit":"$VAR_REF{{n}}"}`, `{"limit":"5"}`},
		{"V33 rules", `"$VAR_REF{{Rule/Agent/TODO:0:13}}"`, `"# A TODO list"`},
		{"V33 odd names", `"$VAR_REF{{ü.b c/d}}$VAR_REF{{$}}"`, `"odddollar"`},
		{"V33 the longest name wins over a slice", `"$VAR_REF{{colon:5}}$VAR_REF{{colon:4}}$VAR_REF{{colon:5:2}}"`, `"exact456789act"`},
		{"V34 one brace", `"$VAR_REF{a}"`, `"$VAR_REF{a}"`},
		{"V34 not closed", `"$VAR_REF{{a"`, `"$VAR_REF{{a"`},
		{"V34 empty", `"$VAR_REF{{}}"`, `"$VAR_REF{{}}"`},
		{"V34 lower case", `"$var_ref{{a}}"`, `"$var_ref{{a}}"`},
		{"V34 one open around one whole", `"$VAR_REF{{$VAR_REF{{a}}"`, `"$VAR_REF{{1"`},
		{"V34 a line feed is in no name", `"$VAR_REF{{a\n}}"`, `"$VAR_REF{{a\n}}"`},
		{"V34 a third brace is text", `"$VAR_REF{{a}}}"`, `"1}"`},
		{"escapes hide nothing", `"\u0024VAR_REF{{\u0061}}"`, `"1"`},
		{"values are escaped", `"$VAR_REF{{q}}"`, `"say \"hi\"\n\\ \u0001 ` + "\u2028" + `"`},
		{"text around keeps its meaning", `"\"\\\/\t\ud83d\ude00$VAR_REF{{a}}"`, `"\"\\/\t😀1"`},
		{
			"rules are not expanded inside", `"$VAR_REF{{Rule/Agent/VarRef:0:42}}"`,
			`"# Variables in arguments: $VAR_REF\n\nEvery "`,
		},
	} {
		t.Run(tt.id, func(t *testing.T) {
			got, err := f.resolve(tt.args)
			if err != nil || got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
		})
	}
}

func TestV21_ArgumentsWithoutReferencesAreUntouched(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for _, args := range []string{
		`{ "b" : 1e400 , "a":12345678901234567890.10,"b2":"\u0041\/ \ud800" }`, `null`, ` [ ] `, `"x"`,
		`{"a":{"a":"$VAR_REF"}}`, `{}`,
	} {
		if got, err := f.resolve(args); err != nil || got != args {
			t.Errorf("got %s (%v), want the same bytes as %s", got, err, args)
		}
	}
}

func TestV27_ReferenceErrors(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for name, value := range map[string]string{
		"A": "$VAR_REF{{B}}", "B": "$VAR_REF{{A}}", "self": "x $VAR_REF{{self}}", "long": "$VAR_REF{{A}}",
		"gone": "$VAR_REF{{nothing:1:2}}",
	} {
		f.put(name, value)
	}
	for _, tt := range []struct{ id, args, code, msg string }{
		{"V26 missing", `"$VAR_REF{{nope}}"`, "variable_not_found", "Variable 'nope' not found. Available variables: "},
		{"V26 missing slice", `"$VAR_REF{{nope:1:2}}"`, "variable_not_found", "Variable 'nope' not found"},
		{"V26 missing inside a value", `"$VAR_REF{{gone}}"`, "variable_not_found", "Variable 'nothing' not found"},
		{
			"V26 what is no number is a part of the name", `"$VAR_REF{{A:1:x}}"`, "variable_not_found",
			"Variable 'A:1:x' not found",
		},
		{"V27 cycle", `"$VAR_REF{{A}}"`, "circular_reference", "Circular variable reference detected: A → B → A"},
		{
			"V27 to itself", `"$VAR_REF{{self}}"`, "circular_reference",
			"Circular variable reference detected: self → self",
		},
		{
			"V27 the chain is the cycle", `"$VAR_REF{{long}}"`, "circular_reference",
			"Circular variable reference detected: A → B → A",
		},
		{"not JSON", `{"a":`, "validation_error", "the arguments are not valid JSON"},
		{"two values", `{} {}`, "validation_error", "the arguments are not valid JSON"},
		{"a string without an end", `{"a":"$VAR_REF{{A`, "validation_error", "the arguments are not valid JSON"},
		{"an end without a beginning", `]"x"`, "validation_error", "the arguments are not valid JSON"},
		{"a control character", "\"\x01\"", "validation_error", "the arguments are not valid JSON"},
		{"an escape that is none", `"\q"`, "validation_error", "the arguments are not valid JSON"},
		{"a string in a wrong place", `{"a" "b"}`, "validation_error", "the arguments are not valid JSON"},
		{"not UTF-8", "\"\xff\"", "validation_error", "the arguments are not valid JSON"},
	} {
		t.Run(tt.id, func(t *testing.T) {
			_, err := f.resolve(tt.args)
			wantError(t, err, tt.code, tt.msg)
		})
	}
	if v, _ := f.get("A"); v.ReferenceCount != 1 {
		t.Errorf("got %d visits, want 1: a call that fails visits nothing (V-29)", v.ReferenceCount)
	}
}

func TestV26_TheListOfNamesIsShort(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for i := range 100 {
		f.put(fmt.Sprintf("name%03d", i), "")
	}
	_, err := f.resolve(`"$VAR_REF{{nope}}"`)
	wantError(t, err, "variable_not_found", "Variable 'nope' not found. Available variables: name099, name098, ")
	if msg := fmt.Sprint(err); !strings.HasSuffix(msg, "… and 82 more") {
		t.Errorf("got %s", msg)
	}
}

func TestV29_NothingIsKeptOfACallThatFailsToResolve(t *testing.T) {
	f := newFixture(t, vars.Options{})
	_, origins, err := f.Resolve(t.Context(), "s", json.RawMessage(`{"a":"$VAR_REF{{nope}}"}`))
	if err == nil || origins.Args != nil || len(f.list(vars.Filter{})) != 0 {
		t.Errorf("got %v %v", origins, err)
	}
}

func TestV34_ExpansionIsBounded(t *testing.T) {
	f := newFixture(t, vars.Options{MaxExpanded: 1 << 20, Capacity: 3000})
	chain := func(prefix, leaf string, levels, width int) {
		f.put(fmt.Sprintf("%s%d", prefix, levels), leaf)
		for i := levels - 1; i >= 0; i-- {
			f.put(fmt.Sprintf("%s%d", prefix, i), strings.Repeat(fmt.Sprintf("$VAR_REF{{%s%d}}", prefix, i+1), width))
		}
	}
	chain("double", "x", 40, 2)
	chain("hollow", "", 40, 2)
	chain("chain", "x", 200, 1)
	chain("level", "x", 101, 1)
	f.put("big", strings.Repeat("x", 1<<20))
	for i := range 9 {
		f.put(fmt.Sprint("wide", i), strings.Repeat("é", 1<<19))
	}
	for _, tt := range []struct{ name, args, code string }{
		{"doubling", `"$VAR_REF{{double0}}"`, "expansion_too_large"},
		{"doubling of nothing", `"$VAR_REF{{hollow0}}"`, "expansion_too_large"},
		{"a long chain", `"$VAR_REF{{chain0}}"`, "expansion_too_large"},
		{"100 levels below the arguments", `"$VAR_REF{{level1}}"`, ""},
		{"one more", `"$VAR_REF{{level0}}"`, "expansion_too_large"},
		{"100,000 references", `"` + strings.Repeat("$VAR_REF{{hollow40}}", 100_000) + `"`, ""},
		{"exactly the limit", `"$VAR_REF{{big}}"`, ""},
		{"one byte more", `"$VAR_REF{{big}}x"`, "expansion_too_large"},
		{"over two strings", `["$VAR_REF{{big}}","$VAR_REF{{big:0:1}}"]`, "expansion_too_large"},
		{"many references to nothing", `"` + strings.Repeat("$VAR_REF{{hollow40}}",
			100_001) + `"`, "expansion_too_large"},
		{
			"little of much",
			`"$VAR_REF{{wide0:0:0}}$VAR_REF{{wide1:0:0}}$VAR_REF{{wide2:0:0}}$VAR_REF{{wide3:0:0}}$VAR_REF{{wide4:0:0}}$VAR_REF{{wide5:0:0}}$VAR_REF{{wide6:0:0}}$VAR_REF{{wide7:0:0}}$VAR_REF{{wide8:0:0}}"`, "expansion_too_large",
		},
		{"many slices far into a wide value", `"` + strings.Repeat("$VAR_REF{{wide0:524287:1}}", 50_000) + `"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := f.resolve(tt.args)
			if tt.code == "" && err != nil {
				t.Error(err)
			}
			if tt.code != "" {
				wantError(t, err, tt.code, "")
			}
		})
	}
}

// Only values written on purpose are searched for references again.
func TestCX16_NestedReferences(t *testing.T) {
	for _, nested := range []vars.Nested{vars.NestedOnPurpose, vars.NestedAll} {
		f := newFixture(t, vars.Options{Nested: nested})
		f.put("secret", "S")
		f.put("person", "$VAR_REF{{secret}}")
		// The model cannot write a reference through WriteVar in one go, but it can over
		// the API, and in two parts.
		_, _, err := f.Put(t.Context(), "s", "model",
			vars.Change{Value: ptr("$VAR_REF{{secret}}"), Type: ptr(vars.TypeModel)}, tool.OriginModel)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = f.Put(t.Context(), "s", "web", vars.Change{Value: ptr("$VAR_REF{{secret}}")}, tool.OriginWeb)
		if err != nil {
			t.Fatal(err)
		}
		result := f.remember(tool.Spec{Name: "WebFetch", Origin: tool.OriginWeb}, `{}`, "$VAR_REF{{secret}}", false).Result.VarResult
		raw := `"$VAR_REF{{secret}}"`
		want := map[string]string{"person": `"S"`, "model": `"S"`, "web": raw, result: raw}
		if nested == vars.NestedAll {
			want["web"], want[result] = `"S"`, `"S"`
		}
		for name, value := range want {
			if got, err := f.resolve(`"$VAR_REF{{` + name + `}}"`); err != nil || got != value {
				t.Errorf("nested %q: %s: got %s (%v), want %s", nested, name, got, err, value)
			}
		}
	}
}
