package tool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/sandboxd/sandboxd/sandbox"
)

// Uses is what t.Uses says; a panic is an error, which denies.
func Uses(ctx context.Context, t Tool, in In) (uses sandbox.Uses, err error) {
	defer func() {
		if p := recover(); p != nil {
			uses, err = sandbox.Uses{}, panicked(p)
		}
	}()
	return t.Uses(ctx, in)
}

// Run runs a tool; a panic is an error like any other (T-16).
func Run(ctx context.Context, t Tool, in In, box sandbox.Box) (out Output, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Output{}, panicked(p)
		}
	}()
	return t.Run(ctx, in, box)
}

// panicked keeps the stack for the log and from the model.
func panicked(p any) error {
	return &Error{Code: "tool_panic", Msg: fmt.Sprint(p), Hint: "this is a fault of the tool; other arguments may work", stack: string(debug.Stack())}
}

// Stack is where a tool panicked; "" for every other error. It is for logs.
func (e *Error) Stack() string { return e.stack }

// AsError gives any error of a tool the shape that callers see.
func AsError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &Error{Code: "cancelled", Msg: "the call was cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: "timeout", Msg: "the call took too long"}
	}
	var denied *sandbox.Denied
	if errors.As(err, &denied) && len(denied.Refusals) > 0 {
		r := denied.Refusals[0]
		return &Error{Code: r.Code, Msg: r.Message, Hint: r.Hint}
	}
	return &Error{Code: "tool_failed", Msg: err.Error()}
}

// ErrorText is what the model reads when a tool fails (T-16).
func ErrorText(name string, err error) string {
	e := AsError(err)
	text := fmt.Sprintf("Error executing tool %s: %s", name, e.Msg)
	if e.Hint != "" {
		text += "\nHint: " + e.Hint
	}
	return text
}
