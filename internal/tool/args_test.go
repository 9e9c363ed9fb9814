package tool_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// What the schema lets through and Go cannot hold is refused in the words of a call, and names the argument.
func TestArgumentsThatCannotBeRead(t *testing.T) {
	type args struct{ Line int }
	for text, want := range map[string]string{
		`{"line": 7}`:   "",
		`{}`:            "",
		`{"line": 1e3}`: "the arguments cannot be read: json: cannot unmarshal number 1e3 into Go struct field args.",
		`{"line": 7`:    "the arguments cannot be read: unexpected end of JSON input",
		``:              "the arguments cannot be read: unexpected end of JSON input",
	} {
		_, err := tool.Decode[args](tool.In{Args: json.RawMessage(text)})
		e, ok := errors.AsType[*tool.Error](err)
		if (err == nil) != (want == "") || err != nil && (!ok || e.Code != "invalid_arguments" ||
			!strings.HasPrefix(e.Msg, want) || e.Hint != "see the schema of the tool") {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if got, err := tool.Decode[args](tool.In{Args: json.RawMessage(`{"line": 7}`)}); got.Line != 7 || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}
