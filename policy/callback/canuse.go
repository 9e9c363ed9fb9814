// Package callback asks others than the rules whether a call may run.
//
// There are two kinds: list policies (tools by name, read-only tools), and one callback of the
// operator. That is a Go function, a [Webhook] or a [Command]. Tool and arguments go in; an
// [Opinion] comes out, or nil for none. A Go function also gets session, spec and facts of the
// call. A webhook or command gets the id and mode of the session, and the directory of the call.
//
//	var ask callback.CanUseTool = callback.ReadOnlyPolicy{}.Evaluate
//	ask = callback.NewComposite([]callback.ListPolicy{{Kind: "readOnly"}}).Evaluate // of a list
//	ask = callback.Webhook("http://127.0.0.1:9000/ask", time.Second)
//	opinion, err := ask(ctx, "Write", args, callback.Context{Session: session})
//	// ReadOnlyPolicy: opinion.Verdict is deny
//
// Guaranteed: the zero opinion denies. An answer of a webhook or command that is late, too large or
// not well formed is an error. Callers must deny on errors, and read nil as no opinion: a webhook
// says so with 204 or {}, a command with no output or {}.
//
// A [CanUseTool] must be safe for concurrent use. Package policy decides what an opinion means beside
// rules and mode.
//
// A new kind of list policy is a type in listpolicy.go and a case of [ListPolicy.Policy], with its cases
// in listpolicy_test.go. What a webhook or command is asked, and may answer, is question and answer in
// webhook.go; each form of an answer is a case of webhook_test.go.
package callback

import (
	"context"
	"encoding/json"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Opinion is the result of a [PermissionPolicy] or a [CanUseTool] callback (P-09).
// Make one with [Allow], [Deny], [AskPerson] or [AllowWithInput].
type Opinion struct {
	Verdict tool.Verdict
	Reason  string
	Input   json.RawMessage // of AllowWithInput: the arguments to use instead
}

// Allow lets the call run.
func Allow() *Opinion { return &Opinion{Verdict: tool.Allow} }

// Deny refuses the call with a reason for the model.
func Deny(reason string) *Opinion { return &Opinion{Verdict: tool.Deny, Reason: reason} }

// AskPerson sends the call to a person.
func AskPerson(reason string) *Opinion { return &Opinion{Verdict: tool.Ask, Reason: reason} }

// AllowWithInput lets the call run with other arguments, which are judged like
// any others (P-10); nil keeps those of the call.
func AllowWithInput(input json.RawMessage) *Opinion {
	return &Opinion{Verdict: tool.Allow, Input: input}
}

// Context is what a policy may know besides tool name and input.
type Context struct {
	Session tool.Session
	Spec    tool.Spec
	Facts   tool.Facts
	// CalledAs is the name by which the model called the tool, where it is another name of the tool that is asked
	// about: exec_command of Bash. The input has the fields of the latter. "": the same.
	CalledAs string
	Dir      string // in which the call runs
}

// CanUseTool decides about one call; nil means that it has no opinion and the
// next check decides (P-08). An error denies.
type CanUseTool func(ctx context.Context, toolName string, input json.RawMessage, c Context) (*Opinion, error)
