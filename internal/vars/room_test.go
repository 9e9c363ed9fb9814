package vars_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// TestAValueForWhichTheDiskHasNoRoomIsNotStored, whoever writes it, and nothing of it is left.
func TestAValueForWhichTheDiskHasNoRoomIsNotStored(t *testing.T) {
	const most = 16 << 10 // more than the rules that a session begins with
	large := strings.Repeat("x", most+1)
	result := func(text string, pending bool) func(*fixture) error {
		return func(f *fixture) error {
			c := tool.NewCall(tool.Request{Session: f.session, Tool: "Bash", Args: json.RawMessage(`{}`)})
			c.Spec, c.Result.FormattedText = tool.Spec{Name: "Bash"}, text
			return f.Remember(f.t.Context(), c, pending)
		}
	}
	write := func(args string) func(*fixture) error {
		return func(f *fixture) error {
			_, err := f.call("WriteVar", args)
			return err
		}
	}
	put := func(value string) func(*fixture) error {
		return func(f *fixture) error {
			_, _, err := f.Put(f.t.Context(), f.session, "a", vars.Change{Value: &value}, tool.OriginPerson)
			return err
		}
	}
	for _, tt := range []struct {
		name         string
		small, large func(*fixture) error
	}{
		{"a person", put("x"), put(large)},
		{"the model", write(`{"name":"a","value":"x"}`), write(`{"name":"a","value":"` + large + `"}`)},
		{"the end of a call", result("x", false), result(large, false)},
		{"a call whose result waits for a person", result("x", true), result(large, true)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, vars.Options{Room: func(n int) error {
				if n > most {
					return &tool.Error{Code: "disk_reserve", Msg: "no room"}
				}
				return nil
			}})
			f.put("before", "as it was")
			before := f.rows("vars", "var_pending")
			wantError(t, tt.large(f), "disk_reserve", "no room")
			if n := f.rows("vars", "var_pending"); n != before {
				t.Errorf("%d rows are left, want %d", n, before)
			}
			if v, ok := f.get("before"); !ok || *v.Value != "as it was" {
				t.Errorf("the value before is %+v", v)
			}
			if err := tt.small(f); err != nil {
				t.Errorf("a value for which there is room: %v", err)
			}
		})
	}
}
