package tools

import (
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// ended returns the output of a program, or an error that says what ended it. If the program ran out of time before
// its own timeout was over, the sandbox's limit on wall-clock time ended it.
func ended(data bashData, exit sandbox.Exit, timeout time.Duration, wall bool) (tool.Output, error) {
	out := tool.Output{Data: data, Usage: &exit.Usage, Denials: exit.Denials}
	switch {
	case data.Interrupted:
		return out, &tool.Error{Code: "cancelled", Msg: withOutput("the command was cancelled and ended", data)}
	case data.TimedOut && wall:
		return out, &tool.Error{
			Code: "limit_wall", Msg: withOutput("the command was ended at the wall clock limit of the sandbox",
				data),
			Hint: "limits.wallSeconds sets it; do less at once",
		}
	case data.TimedOut:
		return out, &tool.Error{
			Code: "timeout", Msg: withOutput(fmt.Sprintf("the command was ended after its timeout of %d ms",
				timeout.Milliseconds()), data),
			Hint: fmt.Sprintf("give a larger timeout (at most %d) or do less at once", maxTimeout.Milliseconds()),
		}
	case data.Limit != "":
		return out, &tool.Error{
			Code: "limit_" + data.Limit, Msg: withOutput("the command reached a limit of the sandbox: "+data.Limit,
				data),
			Hint: limitHint(data.Limit),
		}
	}
	return out, nil
}

// limitHint returns the advice for a model whose command reached a limit.
func limitHint(limit string) string {
	switch limit {
	case "output":
		return "print less, or send the output to a file and look at parts of it"
	case "memory", "cpu":
		return "do less at once: fewer jobs side by side, a part of the input"
	case "file_size", "disk":
		return "write less: the limits are for each file and for all that a call writes"
	}
	return "do less at once"
}

// untilThen separates the reason of the end from the output. A client that has streamed the output already drops
// everything after it.
const untilThen = "; until then it wrote\n"

// withOutput appends what the command wrote before it was ended.
func withOutput(msg string, data bashData) string {
	if data.Stdout == "" && data.Stderr == "" && len(data.notes) == 0 && len(data.denials) == 0 {
		return msg + "; it wrote nothing"
	}
	text, _ := tool.TruncateText(data.text(), outputLimit)
	return msg + untilThen + text
}

// startError says why a program did not run.
func startError(name string, err error) error {
	var own *tool.Error
	var missing *sandbox.MissingError
	var start *sandbox.StartError
	var replaced *sandbox.ReplacedError
	const doctor = "sandboxd doctor shows what this host can do"
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &replaced):
		return &tool.Error{
			Code: "bound_file_replaced", Msg: replaced.Error(),
			Hint: "somebody changes that file while the call runs; call again when it is at rest",
		}
	case errors.As(err, &missing):
		return &tool.Error{Code: "sandbox_layer_missing", Msg: missing.Error(), Hint: doctor}
	case errors.As(err, &start):
		return &tool.Error{
			Code: "not_started", Msg: start.Error(),
			Hint: "check that the program is installed and visible in the sandbox",
		}
	}
	return &tool.Error{
		Code: "sandbox_failed", Msg: fmt.Sprintf("%s could not be run in the sandbox: %v", name, err),
		Hint: doctor,
	}
}
