package tools

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

// ExecCommand is [Bash] with the name and the fields that Codex knows: a command that has not
// ended after a while becomes a job, which write_stdin reads and types into.
type ExecCommand struct{}

type execArgs struct {
	Cmd     string `json:"cmd"`
	WorkDir string `json:"workdir"`
	TTY     bool   `json:"tty"`
	Yield   *int64 `json:"yield_time_ms"`
	Most    int    `json:"max_output_tokens"`
}

// Bounds of the time that a caller waits for the end of the command.
const (
	defaultYield = 10 * time.Second
	maxYield     = 10 * time.Minute
)

// Spec implements [tool.Tool].
func (ExecCommand) Spec() tool.Spec {
	s := Bash{}.Spec()
	s.Name = "exec_command"
	s.Description = "Bash as Codex calls it: runs a command line, and answers after a while with what it printed " +
		"until then. One that goes on is a job, whose session_id write_stdin takes."
	s.Schema = json.RawMessage(`{"type":"object","properties":{
"cmd":{"type":"string","minLength":1,"description":"the command line"},
"workdir":{"type":"string","minLength":1,"description":"the directory to run it in"},
"tty":{"type":"boolean","description":"on a terminal of its own, which write_stdin types into"},
"yield_time_ms":{"type":"integer","minimum":0,"description":"how long to wait for the end (default 10000)"},
"max_output_tokens":{"type":"integer","minimum":1,"description":"about four characters each"}},
"required":["cmd"],"additionalProperties":false}`)
	return s
}

// Lasts implements [tool.Lasting].
func (ExecCommand) Lasts(in tool.In) (wait time.Duration, ok bool) {
	args, err := tool.Decode[execArgs](in)
	if err != nil {
		return 0, false
	}
	wait = defaultYield
	if args.Yield != nil {
		wait = min(time.Duration(*args.Yield)*time.Millisecond, maxYield)
	}
	return max(wait, time.Millisecond), true // with 0 a short command would answer without its output
}

// Uses implements [tool.Tool].
func (ExecCommand) Uses(ctx context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[execArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	dir, err := args.dir(in)
	if err != nil {
		return guard.Uses{}, err
	}
	uses, err := Bash{}.Uses(ctx, args.bash(in, dir.Path))
	if err == nil && args.WorkDir != "" {
		uses.Paths = append([]guard.PathUse{dir}, uses.Paths...)
	}
	return uses, err
}

// dir resolves the directory in which the command runs.
func (a execArgs) dir(in tool.In) (guard.PathUse, error) {
	if a.WorkDir == "" {
		return guard.PathUse{Path: in.Dir}, nil
	}
	return toolkit.Path(in, a.WorkDir, guard.Read)
}

// bash translates the call into one of Bash.
func (a execArgs) bash(in tool.In, dir string) tool.In {
	text, err := json.Marshal(map[string]any{"command": a.Cmd})
	if err != nil {
		panic("a string cannot be encoded: " + err.Error()) // never
	}
	in.Args, in.Dir, in.Typed = text, dir, in.Typed || a.TTY
	return in
}

// Run implements [tool.Tool].
func (ExecCommand) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[execArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	dir := in.Dir
	if args.WorkDir != "" {
		u, err := toolkit.Judged(in, args.WorkDir, guard.Read)
		if err != nil {
			return tool.Output{}, err
		}
		dir = u.Path
	}
	out, err := bashArgs{Command: args.Cmd, TTY: args.TTY, elsewhere: true}.runJob(ctx, args.bash(in, dir), box)
	if data, ok := out.Data.(bashData); ok && err == nil {
		out.Text = data.text()
		if args.Most > 0 {
			out.Text, _ = tool.TruncateText(out.Text, 4*args.Most)
		}
	}
	return out, err
}

// Format implements [tool.Formatter].
func (ExecCommand) Format(data any, args json.RawMessage) (string, error) {
	return Bash{}.Format(data, args)
}

// Argv implements [tool.Program].
func (ExecCommand) Argv(in tool.In) ([]string, error) {
	args, err := tool.Decode[execArgs](in)
	if err == nil && (args.WorkDir != "" || args.TTY) {
		err = &tool.Error{
			Code: "invalid_arguments",
			Msg:  "workdir and tty are for commands that the daemon runs, and another program runs this one",
			Hint: "leave them out; cd " + strings.TrimSpace(args.WorkDir) + " in the command",
		}
	}
	return bashArgs{Command: args.Cmd}.argv(), err
}
