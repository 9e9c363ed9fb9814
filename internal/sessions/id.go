package sessions

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
)

const maxID = 128 // bytes

// CheckID reports what is wrong with a session id (D-17). Ids become parts of
// paths and of addresses, so what separates there is refused here.
func CheckID(id string) error {
	bad := func(format string, args ...any) error {
		return &tool.Error{
			Code: "validation_error", Msg: fmt.Sprintf(format, args...),
			Hint: "use letters, digits, - and _, or leave the id out to get a new one",
		}
	}
	if id == "" {
		return bad("Session ID must not be empty")
	}
	for _, s := range []string{"/", `\`, ".."} {
		if strings.Contains(id, s) {
			return bad("Session ID contains invalid character: '%s'", s)
		}
	}
	if id[0] == '.' {
		return bad("Session ID contains invalid character: '.'")
	}
	if len(id) > maxID {
		return bad("Session ID is longer than %d bytes", maxID)
	}
	if !utf8.ValidString(id) {
		return bad("Session ID is not valid UTF-8")
	}
	for _, r := range id {
		if !unicode.IsPrint(r) {
			return bad("Session ID contains invalid character: '%U'", r)
		}
	}
	return nil
}
