package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// found are the numbers of the lines that Find gives.
func found(t *rapid.T, path string, w Wanted) []uint64 {
	out := []uint64{}
	err := Find(t.Context(), path, w, func(line []byte) error {
		var e Entry
		err := json.Unmarshal(line, &e)
		out = append(out, e.Seq)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever the lengths of lines, and wherever they lie in what is read at once, Find gives those that a
// loop over all lines gives.
func TestFindGivesTheNewestLinesThatAreWanted(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "lines")
		var all []Entry
		var text bytes.Buffer
		for i := range n {
			e := Entry{
				Seq: uint64(i + 1), Session: rapid.SampledFrom([]string{"s1", "s2", `s&"<1>`}).Draw(t, "session"),
				Event: rapid.SampledFrom([]string{"begin", "end"}).Draw(t, "event"),
				Message: strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 100, 1000, 300_000, 900_000}).Draw(t, "length")) +
					"Needle"[:rapid.IntRange(0, 6).Draw(t, "cut")],
			}
			all = append(all, e)
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(append(line, '\n'))
		}
		text.WriteString(rapid.SampledFrom([]string{"", `{"seq":99`}).Draw(t, "torn"))
		path := filepath.Join(dir, "audit.jsonl")
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		w := Wanted{
			Before: uint64(rapid.IntRange(0, n+3).Draw(t, "before")), Limit: rapid.IntRange(1, 20).Draw(t, "limit"),
			Session: rapid.SampledFrom([]string{"", "s1", "s", `s&"<1>`}).Draw(t, "wanted session"),
			Event:   rapid.SampledFrom([]string{"", "end"}).Draw(t, "wanted event"),
			Search:  rapid.SampledFrom([]string{"", "NEEDLE"}).Draw(t, "search"),
		}
		want := []uint64{}
		for _, e := range slices.Backward(all) {
			if len(want) < w.Limit && (w.Before == 0 || e.Seq < w.Before) && (w.Session == "" || e.Session == w.Session) &&
				(w.Event == "" || e.Event == w.Event) && (w.Search == "" || strings.Contains(e.Message, "Needle")) {
				want = append(want, e.Seq)
			}
		}
		slices.Reverse(want)
		if got := found(t, path, w); !slices.Equal(got, want) {
			t.Fatalf("%+v: got %v, want %v", w, got, want)
		}
	})
}
