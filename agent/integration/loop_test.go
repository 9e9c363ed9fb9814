package integration

import (
	"strings"
	"testing"
)

func TestL02_L20_ALoopWithBothProviders(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "")
		d.Write("ws/a.txt", "one\n")
		m := NewModel(t,
			Step{Text: "I look.", In: 10, Out: 5, Calls: []Call{
				{ID: "t1", Name: "Write", Args: `{"file_path": "b.txt", "content": "two"}`},
				{ID: "t2", Name: "Read", Args: `{"file_path": "a.txt"}`},
			}},
			Step{Text: "a.txt says one.", In: 20, Out: 6})
		r := d.Command(m, "--provider", provider, "--json", "What is in a.txt?")
		if code := r.Finish(); code != 0 {
			t.Fatalf("exit %d\n%s\n%s", code, r.Out, r.Err)
		}
		end := r.Result(t)
		if end["subtype"] != "success" || end["text"] != "a.txt says one." || end["num_turns"] != 2.0 {
			t.Errorf("the result is %v", end)
		}
		if d.Read("ws/b.txt") != "two" {
			t.Error("Write did not write")
		}
		results := r.Messages(t, "toolResult")
		if len(results) != 2 || results[0]["tool_use_id"] != "t2" || !strings.Contains(results[0]["content"].(string), "one") {
			t.Errorf("the results are %v", results)
		}
		asked := m.Asked()
		if first, second := strings.Index(asked[1].Raw, `"t1"`), strings.LastIndex(asked[1].Raw, `"t2"`); first < 0 || second < first {
			t.Errorf("the results are not in the order of the calls: %s", asked[1].Raw)
		}
	})
}
