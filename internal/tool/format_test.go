package tool_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestT17_T18_T37_Format(t *testing.T) {
	own := shaped{format: func(any, json.RawMessage) (string, error) { return "own", nil }}
	failing := shaped{format: func(any, json.RawMessage) (string, error) { return "", errors.New("no") }}
	panicking := shaped{format: func(any, json.RawMessage) (string, error) { panic("oh") }}
	for _, tt := range []struct {
		name string
		t    tool.Tool
		out  tool.Output
		want string
	}{
		{"JSON with two spaces", fake{}, tool.Output{Data: map[string]any{"a": 1}}, "{\n  \"a\": 1\n}"},
		{"no HTML escapes", fake{}, tool.Output{Data: []string{"<&>"}}, "[\n  \"<&>\"\n]"},
		{"CX-18: a string as it is", fake{}, tool.Output{Data: "a\nb"}, "a\nb"},
		{"nothing", fake{}, tool.Output{}, ""},
		{"T-18: text of the tool wins over its formatter", own, tool.Output{Text: "mine", Data: 1}, "mine"},
		{"the formatter", own, tool.Output{Data: 1}, "own"},
		{"a failing formatter is not fatal", failing, tool.Output{Data: 1}, "[format error] no"},
		{"nor a panicking one", panicking, tool.Output{Data: 1}, "[format error] panic: oh"},
		{
			"nor data without JSON",
			fake{},
			tool.Output{Data: make(chan int)},
			"[format error] json: unsupported type: chan int",
		},
		{"T-37: text parts joined", fake{}, tool.Output{Content: []tool.Content{{Type: "text", Text: "a"}, {Type: "image"}, {Type: "text", Text: "b"}}}, "ab"},
		{"valid UTF-8", fake{}, tool.Output{Text: "a\xffb"}, "a\uFFFDb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tool.Format(tt.t, tt.out, nil); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestT19_T20_T21_T22_T23_T24_Truncate(t *testing.T) {
	long := strings.Repeat("x", 9000)
	ownLimit := tool.Spec{Schema: json.RawMessage(`{"properties":{"limit":{"type":"integer"}}}`)}
	head := shaped{truncate: func(s string, _ json.RawMessage) string { return s[:3] }}
	broken := shaped{truncate: func(string, json.RawMessage) string { panic("oh") }}
	for _, tt := range []struct {
		name    string
		t       tool.Tool
		spec    tool.Spec
		in      string
		args    string
		want    string // "" : the text itself
		wantLen int    // characters kept, when want is ""; 0: all
	}{
		{
			"T-21 head and tail, with the number left out",
			fake{},
			tool.Spec{},
			"abcdefghijklmnopqrstuvwxyz",
			`{"limit":10}`, "abcde\n… (16 characters left out) …\nvwxyz", 0,
		},
		{
			"T-21 odd limit gives the tail one more",
			fake{},
			tool.Spec{},
			"abcdefgh", `{"limit":3}`,
			"a\n… (5 characters left out) …\ngh", 0,
		},
		{"T-22 the default", fake{}, tool.Spec{}, long, `{}`, "", 8000},
		{"T-22 the tool's", fake{}, tool.Spec{OutputLimit: 100}, long, `{}`, "", 100},
		{"T-22 the call's", fake{}, tool.Spec{OutputLimit: 100}, long, `{"limit":8999}`, "", 8999},
		{"T-23 minus one is all", fake{}, tool.Spec{}, long, `{"limit":-1}`, "", 0},
		{"T-23 zero is all", fake{}, tool.Spec{}, long, `{"limit":0}`, "", 0},
		{"T-19 a tool that is never cut", fake{}, tool.Spec{NoTruncate: true}, long, `{"limit":5}`, "", 0},
		{"T-20 the tool's own way", head, tool.Spec{}, "abcdef", `{"limit":-1}`, "abc", 0},
		{"T-20 which panics", broken, tool.Spec{}, "abcdef", `{"limit":2}`, "a\n… (4 characters left out) …\nf", 0},
		{"CX-20 the tool's own argument is not ours", fake{}, ownLimit, long, `{"limit":5}`, "", 8000},
		{"CX-20 the reserved one is", fake{}, ownLimit, long, `{"limit":5,"_limit":10}`, "", 10},
		{"T-24 exactly the limit is whole", fake{}, tool.Spec{}, "abc", `{"limit":3}`, "", 0},
		{"T-24 one less than the limit too", fake{}, tool.Spec{}, "ab", `{"limit":3}`, "", 0},
		{"T-25 characters, not bytes", fake{}, tool.Spec{}, "汉字汉字汉", `{"limit":2}`, "汉\n… (3 characters left out) …\n汉", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, cut := tool.Truncate(tt.t, tt.spec, tt.in, json.RawMessage(tt.args))
			switch {
			case tt.want != "":
				if got != tt.want || !cut {
					t.Errorf("got %q, %v, want %q, true", got, cut, tt.want)
				}
			case tt.wantLen == 0:
				if got != tt.in || cut {
					t.Errorf("got %d characters, %v, want all %d, false", len(got), cut, len(tt.in))
				}
			default:
				if kept := strings.Count(got, "x"); kept != tt.wantLen || !cut {
					t.Errorf("kept %d, %v, want %d, true", kept, cut, tt.wantLen)
				}
			}
		})
	}
}

func TestT25_CutsAreValidText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		n := rapid.IntRange(1, 20).Draw(t, "n")
		got, cut := tool.TruncateText(s, n)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not valid UTF-8", got)
		}
		if cut != (utf8.RuneCountInString(s) > n) {
			t.Fatalf("cut %v of %d characters at limit %d", cut, utf8.RuneCountInString(s), n)
		}
	})
}

func TestT28_FollowingTheHintGivesThePartLeftOut(t *testing.T) {
	example := regexp.MustCompile(`ReadVar \{"name": "([^"]+)", "start": (\d+), "length": (\d+)\}`)
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.SliceOfN(rapid.SampledFrom([]rune("abcé汉\n… (")), 30, 200).Draw(t, "text")
		formatted := string(runes)
		limit := rapid.IntRange(2, 25).Draw(t, "limit")
		final, cut := tool.TruncateText(formatted, limit)
		hint := tool.Hint("Bash_1_result", formatted, final, cut)
		if !strings.Contains(hint, "$VAR_REF{{Bash_1_result}}") {
			t.Fatalf("no reference in %q", hint)
		}
		m := example.FindStringSubmatch(hint)
		if m == nil || m[1] != "Bash_1_result" {
			t.Fatalf("no example in %q", hint)
		}
		start, _ := strconv.Atoi(m[2])
		length, _ := strconv.Atoi(m[3])
		if length > 2000 {
			t.Fatalf("example reads %d characters", length)
		}
		// What is in front of the example's part is shown; so is what follows it.
		if !strings.HasPrefix(final, string(runes[:start])) || !strings.HasSuffix(final, string(runes[start+length:])) {
			t.Fatalf("parts %d+%d of %q are not what %q leaves out", start, length, formatted, final)
		}
	})
	// Characters that begin, or end, with the same bytes are different ones.
	for formatted, final := range map[string]string{"x\u00e9y": "x\u00e8y", "x\u6c49": "x\u6c89"} {
		if got := tool.Hint("v", formatted, final, true); !strings.Contains(got, `"start": 1, "length": 1`) {
			t.Errorf("%q of which %q is shown: got %q", formatted, final, got)
		}
	}
	short := tool.Hint("X_result", "a", "a", false)
	if !strings.Contains(short, "X_result") || strings.Contains(short, "truncated") {
		t.Errorf("got %q, want a short line that the result is kept", short)
	}
}

func TestT32_LogLinesAreShort(t *testing.T) {
	huge := strings.Repeat("line\n\x1b[31m", 100_000)
	args, _ := json.Marshal(map[string]any{"command": huge, "n": 1, "list": []string{huge}})
	line := tool.LogLine(fake{}, tool.Spec{Name: "Bash"}, args, huge, tool.StatusSuccess)
	if n := utf8.RuneCountInString(line); n >= 300 {
		t.Errorf("got %d characters, want under 300", n)
	}
	if strings.ContainsAny(line, "\n\x1b") {
		t.Errorf("control characters in %q", line)
	}
	if !strings.HasPrefix(line, "Bash {") || !strings.Contains(line, "SUCCESS") {
		t.Errorf("got %q, want name, arguments and status", line)
	}
	if got := tool.CompressArgs(fake{}, json.RawMessage(`{"a":"`+strings.Repeat("é", 60)+`"}`)); strings.Count(got, "é") != 49 {
		t.Errorf("got %q, want the string cut to 50 characters", got)
	}
}

func TestT29_CacheDescription(t *testing.T) {
	got := tool.CacheDescription("Read", json.RawMessage(`{"offset":3,"file_path":"/a/very/long/path/to/a/file"}`), strings.ToLower)
	if want := "Call Read with args: file_path=/a/very/long/path/t…, offset=3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
