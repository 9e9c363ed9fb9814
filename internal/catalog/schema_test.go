package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

const readSchema = `{"type":"object","properties":{
	"file_path":{"type":"string","description":"the file"},
	"offset":{"type":"integer","minimum":0,"maximum":9},
	"rate":{"type":"number"},
	"mode":{"type":"string","enum":["a","b"]},
	"all":{"type":"boolean"},
	"list":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}
},"required":["file_path"],"additionalProperties":false}`

func TestT08_ArgumentsAreCheckedAndExplained(t *testing.T) {
	var v catalog.Validator
	spec := tool.Spec{Name: "Read", Schema: json.RawMessage(readSchema)}
	for _, tt := range []struct{ name, args, msg, hint string }{
		{"good", `{"file_path":"a","offset":3,"mode":"b","list":[{"n":1}]}`, "", ""},
		{"missing field", `{}`, `field "file_path" is missing`, "string: the file"},
		{"unknown field", `{"file_path":"a","nope":1}`, `unknown field "nope"`, "known fields"},
		{"field spelt as elsewhere", `{"filePath":"a"}`, `unknown field "filePath"`, `use "file_path"`},
		{"other case is another field", `{"FILE_PATH":"a"}`, `unknown field "FILE_PATH"`, `use "file_path"`},
		{
			"quoted number", `{"file_path":"a","offset":"3"}`, `field "offset" is a string, want integer`,
			`write "3" without quotes`,
		},
		{"fraction", `{"file_path":"a","offset":1.5}`, `field "offset" is a number, want integer`, "send integer"},
		{"null is not a string", `{"file_path":null}`, `field "file_path" is null`, "quotes"},
		{"below the least", `{"file_path":"a","offset":-1}`, "the least is 0", "raise"},
		{"above the most", `{"file_path":"a","offset":10}`, `field "offset" is 10, the most is 9`, "lower"},
		{"quoted fraction", `{"file_path":"a","rate":"1.5"}`, `field "rate" is a string, want number`, "without quotes"},
		{"a whole number is a number", `{"file_path":"a","rate":2}`, "", ""},
		{"not in the list", `{"file_path":"a","mode":"c"}`, "not one of the allowed values", "a, b"},
		{"array as text", `{"file_path":"a","list":"[]"}`, `field "list" is a string, want array`, "JSON array"},
		{"deep path", `{"file_path":"a","list":[{"n":1},{"n":"x"}]}`, `field "list[1].n"`, "without quotes"},
		{"deep unknown", `{"file_path":"a","list":[{"n":1,"m":1}]}`, `unknown field "list[0].m"`, "leave it out"},
		{"duplicate", `{"file_path":"a","file_path":"b"}`, `"file_path" is given twice`, "once"},
		{"duplicate below", `{"file_path":"a","list":[{"n":1,"n":2}]}`, `"n" is given twice`, "once"},
		{"an array", `[]`, "an array, want an object", "{"},
		{"null", `null`, "null, want an object", "{"},
		{"nothing", ``, "not JSON", "object"},
		{"cut off", `{"file_path":`, "not JSON", "object"},
		{"two values", `{"file_path":"a"}{}`, "after the end", "object"},
		{"invalid UTF-8", "{\"file_path\":\"\xff\"}", "UTF-8", "UTF-8"},
		{"too deep", `{"file_path":` + strings.Repeat("[", 5000) + strings.Repeat("]",
			5000) + `}`, "nested deeper", "object"},
		{"CX-20: the hidden limit", `{"file_path":"a","limit":-1}`, "", ""},
		{"CX-20: the reserved one", `{"file_path":"a","_limit":0}`, "", ""},
		{"CX-20: which is whole", `{"file_path":"a","limit":1.5}`, "limit is a number, want an integer", "characters"},
		{"CX-20: which is a number", `{"file_path":"a","_limit":"0"}`, "_limit is a string, want an integer", "characters"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := v.Validate(spec, json.RawMessage(tt.args))
			if tt.msg == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e := wantCode(t, err, "invalid_arguments")
			if e.Stage != "judge" || !strings.Contains(e.Msg, tt.msg) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("got stage %q %q, hint %q; want %q, %q", e.Stage, e.Msg, e.Hint, tt.msg, tt.hint)
			}
		})
	}
}

func TestT08_WhatTheExplanationDoesNotKnowIsCheckedToo(t *testing.T) {
	var v catalog.Validator
	for _, tt := range []struct{ name, schema, args string }{
		{"pattern", `{"properties":{"a":{"type":"string","pattern":"^x"}}}`, `{"a":"y"}`},
		{"one of", `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":2}`},
		{"reference", `{"$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, `{"a":"y"}`},
		{"open object is closed at the top", `{"type":"object","properties":{"a":{}}}`, `{"b":1}`},
		{"no schema takes no fields", ``, `{"b":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, v.Validate(tool.Spec{Name: "X", Schema: json.RawMessage(tt.schema)}, json.RawMessage(tt.args)), "invalid_arguments")
		})
	}
	for _, schema := range []string{
		`{"type":"object","additionalProperties":true}`, `{"type":"object","unevaluatedProperties":{"type":"integer"}}`,
		`{"type":"object","patternProperties":{"^b":{}}}`, `{"type":"object","allOf":[{"properties":{"b":{}}}]}`,
		`{"type":"object","anyOf":[{"properties":{"b":{}}}]}`, `{"type":"object","oneOf":[{"properties":{"b":{}}}]}`,
		`{"type":"object","if":{"required":["b"]},"then":{"properties":{"b":{}}}}`,
		`{"$defs":{"o":{"type":"object"}},"$ref":"#/$defs/o"}`,
	} {
		if err := v.Validate(tool.Spec{Schema: json.RawMessage(schema)}, json.RawMessage(`{"b":1}`)); err != nil {
			t.Errorf("%s takes the field and refused it: %v", schema, err)
		}
	}
}

func TestT08_BrokenSchemaDenies(t *testing.T) {
	var v catalog.Validator
	for _, schema := range []string{
		`{"type":`,
		`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`, `{"properties":{"a":{"pattern":"("}}}`,
	} {
		err := v.Validate(tool.Spec{Name: "X", Schema: json.RawMessage(schema)}, json.RawMessage(`{}`))
		if e := wantCode(t, err, "invalid_schema"); e.Stage != "judge" {
			t.Errorf("%s is an error of stage %q", schema, e.Stage)
		}
	}
}

func TestCanonical_OneTextPerValue(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"fields are sorted", `{ "b":1, "a":{"d":[2, 1],"c":null}}`, `{"a":{"c":null,"d":[2,1]},"b":1}`},
		{"numbers keep their digits", `{"n":12345678901234567890.10,"e":1e3}`, `{"e":1e3,"n":12345678901234567890.10}`},
		{"escapes are read", `{"a":"\u0041<&>\n"}`, `{"a":"A<&>\n"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := strictjson.Canonical(json.RawMessage(tt.in))
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
			again, err := strictjson.Canonical(got)
			if err != nil || string(again) != string(got) {
				t.Errorf("twice gives %s, %v, want %s", again, err, got)
			}
		})
	}
	for _, bad := range []string{``, `{`, `{"a":1,"a":1}`, `{"a":{"b":1,"b":1}}`, "\"\xff\"", `{} {}`, `[1}`} {
		if got, err := strictjson.Canonical(json.RawMessage(bad)); err == nil {
			t.Errorf("%q gives %s, want an error", bad, got)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(`{"file_path":"a","list":[{"n":1}]}`)
	f.Add(`{"file_path":1e999}`)
	f.Add(`{"a":{"a":{}}}`)
	var v catalog.Validator
	spec := tool.Spec{Name: "Read", Schema: json.RawMessage(readSchema)}
	f.Fuzz(func(t *testing.T, args string) {
		if v.Validate(spec, json.RawMessage(args)) != nil {
			return
		}
		c, err := strictjson.Canonical(json.RawMessage(args))
		if err != nil {
			t.Fatalf("valid arguments have no canonical form: %v", err)
		}
		if err := v.Validate(spec, c); err != nil {
			t.Fatalf("the canonical form %s is not valid: %v", c, err)
		}
	})
}
