package client

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzReadOutput: what is read by hand is what encoding/json reads, and all that it writes is
// read by hand, but what has halves of characters.
func FuzzReadOutput(f *testing.F) {
	for _, text := range []string{
		"", "plain", "two\nlines\n", "q\"\\/<>&\u2028", "tab\tesc\x1b[31m", "\x00\x07", "é漢😀", "bad \xff\xc3", "\ufffd",
		`","offset":3,"text":"`, `"}`, strings.Repeat("x", 9000),
	} {
		f.Add(text, int64(7))
	}
	for _, data := range []string{
		`{"stream":"stdout","offset":0,"text":"a","text":"b"}`, `{"stream":"a\"b","offset":1,"text":""}`,
		`{"stream":"s","offset":01,"text":""}`, `{"stream":"s","offset":-1,"text":""}`, `{"stream":"s","offset":1,"text":"\"}`,
		`{"stream":"s","offset":1,"text":"\ud83d\ude00"}`, `{"stream":"s","offset":1,"text":"\u12"}`, `{"text":"x"}`,
		`{"stream":"s","offset":1,"text":"x","more":"\\"}`, `{"stream":"s","offset":9999999999999999999,"text":""}`,
	} {
		f.Add(data, int64(-1))
	}
	f.Fuzz(func(t *testing.T, text string, offset int64) {
		var room []byte
		for _, data := range [][]byte{[]byte(text), must(json.Marshal(Output{"stdout", offset, text}))} {
			var want Output
			valid := json.Unmarshal(data, &want) == nil
			got, ok := plainOutput(data, &room)
			if ok && valid && got != want {
				t.Errorf("%q: got %+v, want %+v", data, got, want)
			}
			if got, err := readOutput(data, &room); valid && (err != nil || got != want) {
				t.Errorf("%q: got %+v, %v, want %+v", data, got, err, want)
			}
		}
		data := must(json.Marshal(Output{"stdout", max(offset, 0), text}))
		if _, ok := plainOutput(data, &room); !ok {
			t.Errorf("not read by hand: %q", data)
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
