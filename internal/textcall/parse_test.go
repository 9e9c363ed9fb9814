package textcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/bench"
)

func TestC12_C13_C14_C15_C16_C17_C18_C19_C20_C21_C22_C38_Tags(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{ // NAME ARGS | RAW, for each call
		{"C-12 two tags", `[CALL: a({})] [CALL: b({})]`, "a {} | {} +1"},
		{"C-13 canonical", `x [CALL: s({"k":"v"})] y`, `s {"k":"v"} | {"k":"v"}`},
		{"C-13 blanks", "[ CALL : weather ( city=Tokyo, days=3 ) ]", `weather {"city":"Tokyo","days":3} | city=Tokyo, days=3`},
		{"C-13 lines", "[\nCALL\n:\nw\n(\na=1\n)\n]", `w {"a":1} | a=1`},
		{"C-13 no colon", `[CALL x({"a":1})]`, ""},
		{"C-14 bold", "**[CALL: x({})]**", "x {} | {}"},
		{"C-14 code", "`[CALL: x({})]`", "x {} | {}"},
		{"C-14 a fence", "```\n[CALL: x({})]\n```", "x {} | {}"},
		{"C-15 names", "[CALL: a_B.c-9()]", "a_B.c-9 {} | "},
		{"C-15 digits", "[CALL: 42()]", "42 {} | "},
		{"C-15 none", "[CALL: ping]", "ping {} | "},
		{"C-15 an accent", "[CALL: naïve({})]", ""},
		{"C-15 lower case", "[call: x({})]", ""},
		{"C-15 a control character", "[CALL: x\x00({})]", ""},
		{"C-16 an array", "[CALL: x([1,2])]", "x [1,2] | [1,2]"},
		{"C-16 a string", `[CALL: x("hi")]`, `x "hi" | "hi"`},
		{"C-16 what looks like pairs", `[CALL: x({"q":"a=1,b=2"})]`, `x {"q":"a=1,b=2"} | {"q":"a=1,b=2"}`},
		{"C-16 a key twice", `[CALL: x({"a":1,"a":2})]`, `x {"_raw":"{\"a\":1,\"a\":2}"} | {"a":1,"a":2}`},
		{"C-16 digits are kept", `[CALL: x({"n":12345678901234567890})]`, `x {"n":12345678901234567890} | {"n":12345678901234567890}`},
		{"C-16 a number alone", "[CALL: x(42)]", `x {"_raw":"42"} | 42`},
		{
			"C-17 types", `[CALL: x(a=1,b=true,c="x y",d=NULL,e=-2.5,f='z',g=00501,h=)]`,
			`x {"a":1,"b":true,"c":"x y","d":null,"e":-2.5,"f":"z","g":"00501","h":""} | a=1,b=true,c="x y",d=NULL,e=-2.5,f='z',g=00501,h=`,
		},
		{"C-17 Unicode", "[CALL: x(城市=东京)]", `x {"城市":"东京"} | 城市=东京`},
		{"C-17 lines", "[CALL: x(\n a=1,\n b=2\n)]", "x {\"a\":1,\"b\":2} | a=1,\n b=2"},
		{"C-17 twice", "[CALL: x(a=1,a=2)]", `x {"a":2} | a=1,a=2`},
		{"C-18 a comma in quotes", `[CALL: x(c="x, y",d=2)]`, `x {"c":"x, y","d":2} | c="x, y",d=2`},
		{"C-18 a pair in quotes", `[CALL: x(c="a=1,b=2",d=3)]`, `x {"c":"a=1,b=2","d":3} | c="a=1,b=2",d=3`},
		{"C-18 a quote behind a backslash", `[CALL: x(c="a\", b=1",d=2)]`, `x {"c":"a\", b=1","d":2} | c="a\", b=1",d=2`},
		{"C-17 false", "[CALL: x(a=FALSE)]", `x {"a":false} | a=FALSE`},
		{"C-18 an apostrophe", `[CALL: x(a=don't, b=2)]`, `x {"a":"don't","b":2} | a=don't, b=2`},
		{"C-18 brackets", `[CALL: x(a=[1,2],b=2)]`, `x {"a":"[1,2]","b":2} | a=[1,2],b=2`},
		{"C-19 words", "[CALL: x(hello world)]", `x {"_raw":"hello world"} | hello world`},
		{"C-19 a path", "[CALL: x(/etc/hosts)]", `x {"_raw":"/etc/hosts"} | /etc/hosts`},
		{"C-19 lines", "[CALL: x(line one\nline two)]", "x {\"_raw\":\"line one\\nline two\"} | line one\nline two"},
		{"C-19 broken JSON", `[CALL: x({"a":1)]`, `x {"_raw":"{\"a\":1"} | {"a":1`},
		{"C-20 a mixed list", "[CALL: x(a=1, foo, bar)]", `x {"_raw":"foo, bar","a":1} | a=1, foo, bar`},
		{"C-21 an end in a string", `[CALL: x({"t":"f(1)] end"})]`, `x {"t":"f(1)] end"} | {"t":"f(1)] end"}`},
		{"C-21 an array at the end", `[CALL: x({"l":[[1],[2]]})]`, `x {"l":[[1],[2]]} | {"l":[[1],[2]]}`},
		{"C-21 a tag in a string", `[CALL: x({"t":"[CALL: y({})]"})]`, `x {"t":"[CALL: y({})]"} | {"t":"[CALL: y({})]"}`},
		{"C-21 text behind it", `[CALL: x({"t":"a"})] and ")] more`, `x {"t":"a"} | {"t":"a"}`},
		{"C-21 a backslash before the quote", `[CALL: x({"t":"a\\"})]`, `x {"t":"a\\"} | {"t":"a\\"}`},
		{"C-21 a bracket in pairs", `[CALL: x(e=f(1)[2], b=2)]`, `x {"b":2,"e":"f(1)[2]"} | e=f(1)[2], b=2`},
		{"C-21 an end in brackets", `[CALL: x(a=[(1)], b=2)] more)]`, `x {"a":"[(1)]","b":2} | a=[(1)], b=2`},
		{"C-21 an end in brackets alone", `[CALL: x([f(1)], then)]`, `x {"_raw":"[f(1)], then"} | [f(1)], then`},
		{"C-22 no end", `[CALL: a({"x":1}`, ""},
		{"C-22 a half tag before a whole one", `oh [CALL: a( no wait [CALL: b({"y":2})]`, `b {"y":2} | {"y":2}`},
		{"C-22 a broken one before a whole one", `[CALL: a({"x":1)] … [CALL: b()]`, `a {"_raw":"{\"x\":1"} | {"x":1 +1`},
		{"C-22 a quote that does not end", `[CALL: a("x … [CALL: b()]`, "b {} | "},
		{"C-22 the same with an end", `[CALL: a("x)] … [CALL: b()]`, `a {"_raw":"\"x"} | "x +1`},
		{"C-38 broken quotes", `[CALL: x({\name\: 1})]`, `x {"_raw":"{\\name\\: 1}"} | {\name\: 1}`},
		{"nothing", "no call", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls, ignored := Parse(tt.text, 1)
			got := ""
			for _, c := range calls {
				got += c.Name + " " + string(c.Args) + " | " + c.RawArgs
			}
			if ignored > 0 {
				got += " +" + string(rune('0'+ignored))
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// nasty are texts that are made to be scanned again and again.
func nasty(size int) []string {
	var list []string
	for _, s := range []string{
		"[CALL: a(", "[CALL: a(\"", `[CALL: a(\"`, "[CALL: a", "[", "[ ", "[CALL", ")]", "[CALL: a({", `[CALL: a("\`, "[CALL: a(x)",
		"[CALL: a((((", "[CALL: a(\"[CALL: b(", `[CALL: a("x)] `, "[CALL:", "[CALL: a(')", "\"[CALL: a(\\\"",
	} {
		list = append(list, strings.Repeat(s, size/len(s)))
	}
	return append(list, "[CALL: a("+strings.Repeat("a=1,", size/4), "[CALL: a("+strings.Repeat("[", size)+")]")
}

func TestC22_AMebibyteOfHalfTagsIsNoCall(t *testing.T) {
	if calls, n := Parse(strings.Repeat("[CALL: a(", 1<<20/9), 1); len(calls) != 0 || n != 0 {
		t.Errorf("got %d calls", len(calls))
	}
	for _, text := range nasty(1 << 20) { // each would take minutes if it were quadratic
		s := scanner{text: text, left: 8*len(text) + 1024}
		for at := 0; ; {
			_, _, next, ok := s.tag(at)
			if !ok {
				break
			}
			at = next
		}
		if s.left < -len(text) {
			t.Errorf("%.20q… has taken %d steps too many", text, -s.left)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range append(nasty(60), `[CALL: x({"a":1})]`, "[ CALL : w ( a=1, b='x, y', c ) ]", `[CALL: x({"a":1,"a":2})] [CALL: y]`) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		calls, ignored := Parse(text, 1<<30)
		if ignored != 0 {
			t.Errorf("%d are ignored", ignored)
		}
		for _, c := range calls {
			if !json.Valid(c.Args) || !strings.Contains(text, c.Name) || !strings.Contains(text, c.RawArgs) ||
				strings.TrimSpace(c.RawArgs) != c.RawArgs || !nameForm().MatchString(c.Name) && len(c.Name) <= 64 {
				t.Errorf("%+v of %q", c, text)
			}
		}
	})
}

// BenchmarkParse compares 64 texts of 1 MiB with one of 64 MiB, which are the same bytes: 64
// times one text would stand in the cache of the processor, and the long one does not fit in.
func BenchmarkParse(b *testing.B) {
	for _, unit := range []string{"[CALL: a(", `[CALL: a(\"`, "plain text without anything. "} {
		b.Run(unit, func(b *testing.B) {
			const most = 1 << 20
			part := strings.Repeat(unit, most/len(unit))
			whole := strings.Repeat(part, 64)
			bench.Compare(b, []bench.Case{
				{Name: "64 of 1 MiB", Run: func() {
					for i := range 64 {
						Parse(whole[i*len(part):(i+1)*len(part)], 1)
					}
				}},
				{Name: "1 of 64 MiB", Run: func() { Parse(whole, 1) }},
			}, bench.Limit{Case: "1 of 64 MiB", Over: "64 of 1 MiB", AtMost: 1.2})
		})
	}
}
