package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// parseOutput reads the stdout of a hook. Text that is no JSON is a message (H-11). Text in which an answer seems to be
// is an error, because it may be one that blocks: half an object, JSON of another kind, an object behind other text.
func parseOutput(text []byte) (*Output, error) {
	text, err := withoutMark(text)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	if text[0] == '{' {
		return parseObject(text)
	}
	if err := checkMessage(text); err != nil {
		return nil, err
	}
	return &Output{Message: string(text)}, nil
}

// parseBody reads the answer of an endpoint: an object or nothing. A proxy or a login page also answers with 200.
func parseBody(text []byte) (*Output, error) {
	text, err := withoutMark(text)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	if text[0] != '{' {
		return nil, errors.New("its answer is not a JSON object")
	}
	return parseObject(text)
}

// withoutMark returns the text without blanks and the byte order mark around it.
func withoutMark(text []byte) ([]byte, error) {
	text = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(text), []byte("\ufeff")))
	if !utf8.Valid(text) {
		return nil, errors.New("its output is not UTF-8")
	}
	return text, nil
}

// noise matches what a terminal does not show: controls, their sequences, blanks and marks.
var noise = lazyregexp.New(`^(?:\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\p{Cc}\p{Cf}\p{Z}])+`)

func bare(text []byte) []byte { return text[len(noise().Find(text)):] }

// maxTries bounds the bytes that are read in vain for objects in a text.
const maxTries = 4 << 20

// checkMessage refuses a text that may hold an answer.
func checkMessage(text []byte) error {
	begin := bare(text)
	switch {
	case len(begin) == 0:
		return nil
	case begin[0] == '{':
		return errors.New("its output has control characters in front of an object")
	case begin[0] == '[' && bytes.HasPrefix(bare(begin[1:]), []byte("{")):
		return errors.New("its output is a list, and not an object")
	case json.Valid(begin) && begin[0] != '-' && (begin[0] < '0' || begin[0] > '9'): // programs print counts
		return errors.New("its output is JSON, and not an object")
	}
	tried := 0
	for rest := begin; len(rest) > 0; {
		if rest[0] != '{' {
			_, rest, _ = bytes.Cut(rest, []byte("\n"))
			rest = bare(rest)
			continue
		}
		var object json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(rest))
		err := dec.Decode(&object)
		if err == nil {
			if o, err := parseObject(object); err != nil || o.restricts() {
				return errors.New("its output has text in front of an answer")
			}
			rest = bare(rest[dec.InputOffset():])
			continue
		}
		if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
			tried += int(bad.Offset)
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			tried += len(rest)
		}
		if tried > maxTries {
			return errors.New("its output has too many beginnings of an object")
		}
		_, rest, _ = bytes.Cut(rest, []byte("\n"))
		rest = bare(rest)
	}
	return nil
}

// restricts reports whether the answer does anything else than to allow and to tell.
func (o *Output) restricts() bool {
	return o.blocks() || o.asks() || o.UpdatedInput != nil ||
		o.PermissionUpdate != nil && o.PermissionUpdate.Behavior != "allow"
}

// parseObject reads an answer.
func parseObject(text []byte) (*Output, error) {
	if err := strictjson.CheckFolded(text); err != nil {
		return nil, fmt.Errorf("its output is broken JSON: %w", err)
	}
	// The decision may be a word or an object: it is read by foreign.
	var out struct {
		Output
		Decision json.RawMessage `json:"decision"`
	}
	var more foreign
	if err := errors.Join(readAs(text, &out, answerFields), readAs(text, &more, answerFields)); err != nil {
		return nil, err
	}
	o := out.Output
	if err := o.adopt(more); err != nil {
		return nil, err
	}
	return &o, o.check()
}

// The fields that are read, by their place. Other spellings of them (permission_decision) are read as well.
var (
	answerFields = []string{
		"message", "block", "decision", "permissionDecision", "reason", "updatedInput", "permissionUpdate",
		"systemMessage", "additionalContext", "notification",
		"continue", "stopReason", "hookSpecificOutput", "permissionDecisionReason",
		"behavior",   // of a canUseTool callback
		"permission", // of Cursor
	}
	specificFields = []string{
		"permissionDecision", "permissionDecisionReason", "updatedInput", "tool_input", "additionalContext", "decision",
	}
	decisionFields = []string{"behavior", "message", "updatedInput"}
)

// readAs reads an object into v. It refuses a field that is not known and seems to decide.
func readAs(object json.RawMessage, v any, known []string) error {
	fields := make([]json.RawMessage, len(known))
	err := strictjson.Fields(object, func(name string, value json.RawMessage) error {
		i := slices.IndexFunc(known, func(k string) bool { return plain(k) == plain(name) })
		if i < 0 {
			if decides(plain(name), value) {
				return fmt.Errorf("its output has %.80q, which seems to decide and is not known", name)
			}
			return nil
		}
		if fields[i] != nil {
			return fmt.Errorf("its output has %q in two spellings", known[i])
		}
		fields[i] = value
		return nil
	})
	if err != nil {
		return err
	}
	var all [][]byte
	for i, value := range fields {
		if value != nil {
			all = append(all, fmt.Appendf(nil, "%q:%s", known[i], value))
		}
	}
	if err := json.Unmarshal(fmt.Appendf(nil, "{%s}", bytes.Join(all, []byte(","))), v); err != nil {
		return fmt.Errorf("its output has a field of another type: %w", err)
	}
	return nil
}

// plain returns a name without case, as encoding/json folds it, and without what parts words.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(strings.ToUpper(name)))
}

// decides reports whether a field that is not known seems to stop a call, to ask about it, or to change it. A hook of
// another product, or a slip of its author, must not let a call pass. All other fields may have any value.
func decides(name string, value json.RawMessage) bool {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return true
	}
	text, _ := v.(string)
	nothing := v == nil || v == false || v == 0.0 || v == ""
	switch name {
	case "block", "blocked", "blocks", "blocking", "deny", "denied", "reject", "rejected", "refuse", "refused",
		"forbid", "forbidden", "disallow", "disallowed", "prevent", "prevented", "cancel", "cancelled", "canceled",
		"abort", "aborted", "stop", "halt", "ask", "confirm", "requiresapproval", "needsapproval", "requireapproval":
		return !nothing
	case "modifiedargs", "modifiedinput", "updatedargs", "updatedarguments", "newinput", "permissionupdate",
		"updatedinput", "permissiondecision", "hookspecificoutput":
		return v != nil
	case "allow", "allowed", "approve", "approved", "permit", "permitted", "accept", "accepted", "authorized", "ok",
		"pass", "passed", "safe", "success", "proceed", "continue", "cancontinue", "shouldcontinue":
		return v == false || v == 0.0 || refuses(text)
	case "decision", "behavior", "behaviour", "permission", "permissions", "verdict", "action", "result", "status",
		"outcome", "response", "answer", "judgment", "judgement", "effect", "policy":
		return refuses(text)
	}
	return false
}

// refuses reports whether a word says that a call may not run, or not without a person.
func refuses(word string) bool {
	switch plain(word) {
	case "block", "blocked", "deny", "denied", "reject", "rejected", "refuse", "refused", "forbid", "forbidden",
		"disallow", "disallowed", "prevent", "cancel", "cancelled", "canceled", "abort", "aborted", "stop", "halt",
		"ask", "confirm", "no", "false", "unauthorized":
		return true
	}
	return false
}
