package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

const (
	defaultTimeout = 120 * time.Second
	maxTimeout     = 600 * time.Second
)

// Bash runs a command line in the sandbox.
type Bash struct{}

type bashArgs struct {
	Command    string `json:"command"`
	Timeout    *int64 `json:"timeout"` // milliseconds
	Background bool   `json:"run_in_background"`
	Unconfined bool   `json:"dangerously_disable_sandbox"`
	Unboxed    bool   `json:"dangerouslyDisableSandbox"` // as Claude Code spells it
}

// Spec implements [tool.Tool].
func (Bash) Spec() tool.Spec {
	return tool.Spec{
		Name: "Bash",
		Description: "Runs a command line with bash in a sandbox and returns its standard output, then its standard error, then its exit code if that is not 0. " +
			"Files outside the workspace cannot be written and the network is closed unless allowed.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"command":{"type":"string","minLength":1,"description":"the command line"},
"timeout":{"type":"integer","minimum":1,"description":"milliseconds until it is ended (default 120000, at most 600000)"},
"description":{"type":"string","description":"what the command does, in a few words, for a person"},
"run_in_background":{"type":"boolean","description":"not available yet"},
"dangerously_disable_sandbox":{"type":"boolean","description":"asks a person for every file but the secrets; refused unless the operator allows to ask"},
"dangerouslyDisableSandbox":{"type":"boolean","description":"the same"}},
"required":["command"],"additionalProperties":false}`),
		Class:       tool.ClassExec,
		Annotations: &tool.Annotations{Destructive: true, OpenWorld: true},
		OutputLimit: 30_000, // CX-58: the variable keeps up to outputCap
		Returns:     &tool.Returns{Type: "string", Note: "stdout, stderr, exit code"},
	}
}

// Uses implements [tool.Tool]: the programs and files that the text names.
func (Bash) Uses(_ context.Context, in tool.In) (sandbox.Uses, error) {
	args, err := decode[bashArgs](in)
	if err != nil {
		return sandbox.Uses{}, err
	}
	script, err := shellparse.Parse(args.Command, shellparse.Options{Dir: in.Dir, Home: in.Home})
	if err != nil {
		return sandbox.Uses{}, shellError(err)
	}
	uses := sandbox.ScriptUses(script, in.Dir, in.Home)
	uses.Unconfined = args.Unconfined || args.Unboxed
	return uses, nil
}

func shellError(err error) error {
	var pe *shellparse.Error
	if errors.As(err, &pe) {
		return &tool.Error{Code: "command_" + pe.Code, Stage: "judge", Msg: pe.Msg, Hint: pe.Hint, Details: pe.At}
	}
	return err
}

// bashData is what a client gets beside the text.
type bashData struct {
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	ExitCode    int    `json:"exit_code"`
	Signal      string `json:"signal,omitempty"`
	Interrupted bool   `json:"interrupted"`
	TimedOut    bool   `json:"timed_out"`
	Limit       string `json:"limit,omitempty"` // the limit that ended it
	Truncated   bool   `json:"truncated"`       // the middle of the output is missing
	Dir         string `json:"cwd,omitempty"`   // the new working directory, if it changed

	denials []sandbox.Denial // named in the text; the result lists them for all tools
	why     string
}

// Ended is for the record and the metrics: the exit status and a word for it.
func (d bashData) Ended() (int, string) { return d.ExitCode, d.why }

// Run implements [tool.Tool].
func (Bash) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := decode[bashArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	if args.Background {
		return tool.Output{}, &tool.Error{
			Code: "background_unavailable", Msg: "background commands are not available",
			Hint: "run it in the foreground, with a larger timeout if need be",
		}
	}
	timeout := defaultTimeout
	if args.Timeout != nil {
		timeout = min(time.Duration(*args.Timeout)*time.Millisecond, maxTimeout)
	}
	out, err := runProgram(ctx, in, box, sandbox.Spec{
		Argv: args.argv(),
		Dir:  in.Dir,
	}, timeout)
	if data, ok := out.Data.(bashData); ok && err == nil && data.ExitCode == 0 {
		if dir := lastDir(ctx, in, box, args.Command); dir != "" {
			out.Dir = dir
			data.Dir = shown(in.Dir, dir)
			out.Data = data
		}
	}
	return out, err
}

// Argv implements [tool.Program].
func (Bash) Argv(in tool.In) ([]string, error) {
	args, err := decode[bashArgs](in)
	return args.argv(), err
}

func (a bashArgs) argv() []string { return []string{"bash", "--norc", "--noprofile", "-c", a.Command} }

// lastDir is where a command line that succeeded has left the shell, as a
// directory that the box lets be entered; "" if it is where it began or cannot be
// known. The parser follows cd; a command put behind
// the text, which only a success reaches, shows where it got.
func lastDir(ctx context.Context, in tool.In, box sandbox.Box, command string) string {
	script, err := shellparse.Parse(command+" && :", shellparse.Options{Dir: in.Dir, Home: in.Home})
	if err != nil || len(script.Commands) == 0 {
		return ""
	}
	last := script.Commands[len(script.Commands)-1]
	if last.Name != ":" || last.Dir == "" {
		return ""
	}
	u, err := use(in, last.Dir, sandbox.Read)
	if err != nil || u.Path == in.Dir {
		return ""
	}
	f, err := box.Open(ctx, u, os.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return ""
	}
	f.Close()
	return u.Path
}

// runProgram starts a program in the box, waits for it and makes an output of
// what it wrote.
func runProgram(ctx context.Context, in tool.In, box sandbox.Box, spec sandbox.Spec, timeout time.Duration) (tool.Output, error) {
	var stdout, stderr capture
	stdout.emit, stderr.emit = in.Emit, in.Emit
	stdout.stream, stderr.stream = "stdout", "stderr"
	spec.Stdout, spec.Stderr = &stdout, &stderr
	runCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	proc, err := box.Start(runCtx, spec)
	if err != nil {
		return tool.Output{}, startError(spec.Argv[0], err)
	}
	exit, err := proc.Wait()
	if err != nil && ctx.Err() == nil && runCtx.Err() == nil {
		return tool.Output{}, startError(spec.Argv[0], err)
	}
	data := bashData{
		Stdout: stdout.String(), Stderr: stderr.String(), ExitCode: exit.Code, Signal: exit.Signal, Limit: exit.Limit,
		TimedOut: exit.TimedOut || ctx.Err() == nil && runCtx.Err() != nil, Interrupted: ctx.Err() != nil,
		Truncated: stdout.dropped > 0 || stderr.dropped > 0, denials: exit.Denials, why: exit.Why(),
	}
	out := tool.Output{Data: data, Usage: &exit.Usage, Denials: exit.Denials}
	switch {
	case data.Interrupted:
		return out, &tool.Error{Code: "cancelled", Msg: withOutput("the command was cancelled and ended", data.text())}
	case data.TimedOut && runCtx.Err() == nil:
		return out, &tool.Error{
			Code: "limit_wall", Msg: withOutput("the command was ended at the wall clock limit of the sandbox", data.text()),
			Hint: "limits.wallSeconds sets it; do less at once",
		}
	case data.TimedOut:
		return out, &tool.Error{
			Code: "timeout", Msg: withOutput(fmt.Sprintf("the command was ended after its timeout of %d ms", timeout.Milliseconds()), data.text()),
			Hint: fmt.Sprintf("give a larger timeout (at most %d) or do less at once", maxTimeout.Milliseconds()),
		}
	case data.Limit != "":
		return out, &tool.Error{
			Code: "limit_" + data.Limit, Msg: withOutput("the command reached a limit of the sandbox: "+data.Limit, data.text()),
			Hint: "the limits of the settings are in the documentation of the sandbox; do less at once",
		}
	}
	return out, nil
}

// Format implements [tool.Formatter]: the text of a command that writes nothing
// is empty, and must not become JSON.
func (Bash) Format(data any, _ json.RawMessage) (string, error) {
	d, ok := data.(bashData)
	if !ok {
		return "", fmt.Errorf("unexpected data %T", data)
	}
	return d.text(), nil
}

// withOutput adds what the command wrote before it was ended.
func withOutput(msg, text string) string {
	if text == "" {
		return msg + "; it wrote nothing"
	}
	text, _ = tool.TruncateText(text, 4000)
	return msg + "; until then it wrote\n" + text
}

// startError says why a program did not run.
func startError(name string, err error) error {
	var own *tool.Error
	var missing *sandbox.MissingError
	var start *sandbox.StartError
	const doctor = "sandboxd doctor shows what this host can do"
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &missing):
		return &tool.Error{Code: "sandbox_layer_missing", Msg: missing.Error(), Hint: doctor}
	case errors.As(err, &start):
		return &tool.Error{Code: "not_started", Msg: start.Error(), Hint: "check that the program is installed and visible in the sandbox"}
	}
	return &tool.Error{Code: "sandbox_failed", Msg: fmt.Sprintf("%s could not be run in the sandbox: %v", name, err), Hint: doctor}
}

// text is stdout, stderr and what went wrong (T-45); "" when there is nothing.
func (d bashData) text() string {
	var b strings.Builder
	b.WriteString(d.Stdout)
	add := func(s string) {
		if s == "" {
			return
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	add(d.Stderr)
	if d.Limit != "" {
		add(fmt.Sprintf("[sandbox: the command was ended at its limit: %s]", d.Limit))
	}
	for _, n := range sandboxNotes(d) {
		add(n)
	}
	if d.Dir != "" {
		add("[working directory: " + d.Dir + "]")
	}
	if d.ExitCode != 0 {
		add(fmt.Sprintf("Exit code: %d", d.ExitCode))
	}
	return b.String()
}

// sandboxNotes say what the sandbox stopped, so that a model does not try the
// same again: as reported, or as it shows in the words of the programs.
func sandboxNotes(d bashData) []string {
	denials := d.denials
	if d.ExitCode == 0 {
		// Programs try what they can do without; who succeeded needs no word of it.
		denials = slices.DeleteFunc(slices.Clone(denials), func(n sandbox.Denial) bool {
			return slices.Contains([]string{"seccomp", "netns", "mountns"}, n.Layer)
		})
	}
	var notes []string
	for i, n := range denials {
		if i == 5 {
			notes = append(notes, fmt.Sprintf("[sandbox: %d more acts were stopped]", len(denials)-i))
			break
		}
		if n.Layer == "protected_path_created" {
			notes = append(notes, "[sandbox: noted "+n.Act+", which decides what runs outside the sandbox]")
			continue
		}
		note := "[sandbox: stopped " + n.Act
		if n.Setting != "" {
			note += "; allowed by " + n.Setting
		} else {
			note += "; no setting allows it"
		}
		notes = append(notes, note+"]")
	}
	if len(denials) > 0 || d.ExitCode == 0 {
		return notes
	}
	for _, s := range []struct{ sign, note string }{
		{"Read-only file system", "[sandbox: that place cannot be written; write inside the workspace or /tmp]"},
		{"Could not resolve host", "[sandbox: there is no network for this command; network.allowedDomains names the hosts that may be reached]"},
		{"Temporary failure in name resolution", "[sandbox: there is no network for this command; network.allowedDomains names the hosts that may be reached]"},
		{"Network is unreachable", "[sandbox: there is no network for this command; network.allowedDomains names the hosts that may be reached]"},
	} {
		if strings.Contains(d.Stderr, s.sign) || strings.Contains(d.Stdout, s.sign) {
			return append(notes, s.note)
		}
	}
	return notes
}

// outputCap is how many characters of a stream are kept: half from its start,
// half from its end (T-43).
const outputCap = 100_000

// capture keeps the head and the tail of a stream in bounded memory and passes
// everything on to whoever listens.
type capture struct {
	stream  string
	emit    func(string, []byte)
	head    []byte
	tail    []byte // a window over what came after head
	dropped int
}

// The bounds are in bytes while the stream comes in, at four to a character, and
// in characters when it is read.
const captureHalf = outputCap / 2 * utf8.UTFMax

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	if c.emit != nil {
		c.emit(c.stream, p)
	}
	if room := captureHalf - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	if len(p) > captureHalf {
		c.dropped += len(p) - captureHalf
		p = p[len(p)-captureHalf:]
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) > 2*captureHalf { // moved rarely, so that small writes stay cheap
		c.dropped += len(c.tail) - captureHalf
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-captureHalf:]...)
	}
	return n, nil
}

// String is the stream, or its first and last 50,000 characters.
func (c *capture) String() string {
	if c.dropped == 0 {
		whole := strings.ToValidUTF8(string(c.head)+string(c.tail), "\uFFFD")
		if utf8.RuneCountInString(whole) <= outputCap {
			return whole
		}
		c.dropped = len(whole) // for the note; the exact number is of no use
		return joinEnds(whole, whole)
	}
	return joinEnds(strings.ToValidUTF8(string(c.head), "\uFFFD"), strings.ToValidUTF8(string(c.tail), "\uFFFD"))
}

func joinEnds(head, tail string) string {
	h, t := []rune(head), []rune(tail)
	return string(h[:min(len(h), outputCap/2)]) + "...(truncated)..." + string(t[max(0, len(t)-outputCap/2):])
}
