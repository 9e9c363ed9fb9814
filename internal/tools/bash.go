package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/guard/obeyed"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"golang.org/x/sys/unix"
)

// outputLimit is the number of characters of a command's output that a model is shown.
const outputLimit = 30_000

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
	OutputFile string `json:"output_file"`
	OnTimeout  string `json:"on_timeout"`
	TTY        bool   `json:"tty"`
	Rows       int    `json:"rows"`
	Columns    int    `json:"columns"`

	elsewhere bool // another tool runs the command: it does not change the session's directory
}

// Spec implements [tool.Tool].
func (Bash) Spec() tool.Spec {
	return tool.Spec{
		Name: "Bash",
		Description: "Runs a command line with bash in a sandbox and returns its standard output, " +
			"then its standard error, then its exit code if that is not 0. " +
			"Files outside the workspace cannot be written, and hosts are reached only " +
			"where the operator allows them.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"command":{"type":"string","minLength":1,"description":"the command line"},
"timeout":{"type":"integer","minimum":1,
	"description":"milliseconds until it is ended (default 120000, at most 600000)"},
"description":{"type":"string","description":"what the command does, in a few words, for a person"},
"output_file":{"type":"string","minLength":1,
	"description":"a file that also gets the whole output, for long ones; one below /tmp is the session's own"},
"run_in_background":{"type":"boolean",
	"description":"answer at once with a job_id; it runs until TaskStop or the session ends, or a given timeout"},
"on_timeout":{"type":"string","enum":["end","background"],
	"description":"background: at its timeout the command is not ended, and becomes a job"},
"tty":{"type":"boolean","description":"with run_in_background: on a terminal of its own"},
"rows":{"type":"integer","minimum":1,"maximum":1000,"description":"of the terminal (default 24)"},
"columns":{"type":"integer","minimum":1,"maximum":1000,"description":"of the terminal (default 80)"},
"dangerously_disable_sandbox":{"type":"boolean",
	"description":"asks a person for every file but the secrets; refused unless the operator allows to ask"},
"dangerouslyDisableSandbox":{"type":"boolean","description":"the same as dangerously_disable_sandbox"}},
"required":["command"],"additionalProperties":false}`),
		Class:       tool.ClassExec,
		Annotations: &tool.Annotations{Destructive: true, OpenWorld: true},
		OutputLimit: outputLimit, // CX-58: the variable keeps up to outputCap
		Returns:     &tool.Returns{Type: "string", Note: "stdout, stderr, exit code"},
	}
}

// Uses implements [tool.Tool]: it returns the programs and files that the command line names.
func (Bash) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[bashArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	if err := args.check(); err != nil {
		return guard.Uses{}, err
	}
	script, err := shellparse.Parse(args.Command, shellparse.Options{
		Dir: in.Dir, Home: in.Home, Typed: in.Typed || args.Background, // TaskInput may type into the process
	})
	if err != nil {
		return guard.Uses{}, shellError(err)
	}
	uses := in.Rules.ScriptUses(script, in.Dir)
	uses.Unconfined = args.Unconfined || args.Unboxed
	if args.OutputFile != "" {
		u, err := toolkit.Path(in, args.OutputFile, guard.Write)
		if err != nil {
			return guard.Uses{}, err
		}
		// The working directory comes first. Run looks it up by its name, and the text may use the same name in
		// another directory.
		uses.Paths = append([]guard.PathUse{u}, uses.Paths...)
	}
	return uses, nil
}

func shellError(err error) error {
	var pe *shellparse.Error
	if errors.As(err, &pe) {
		msg := pe.Msg
		if pe.At.Line > 0 {
			msg = fmt.Sprintf("line %d, column %d: %s", pe.At.Line, pe.At.Col, msg)
		}
		return &tool.Error{Code: "command_" + pe.Code, Stage: "judge", Msg: msg, Hint: pe.Hint, Details: pe.At}
	}
	return err
}

// bashData is the part of the result that only clients get; the model gets a text made from it.
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

	Notes []string `json:"notes,omitempty"` // remarks that stand below the output in the text

	notes   []string         // remarks about the output, for the model
	apart   []string         // ids of jobs whose ports the command could not reach
	denials []sandbox.Denial // the text names them; the result of every tool lists them, too
	why     string

	connected bool // it connected, or tried to
}

// Ended returns the exit status and a word for how the command ended, for the record and the metrics.
func (d bashData) Ended() (int, string) { return d.ExitCode, d.why }

// Run implements [tool.Tool].
func (Bash) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[bashArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	if in.Job != nil {
		return args.runJob(ctx, in, box)
	}
	file, err := args.create(ctx, in, box)
	if err != nil {
		return tool.Output{}, err
	}
	out, err := runProgram(ctx, in, box, sandbox.Spec{Argv: args.argv(), Dir: in.Dir}, args.timeout(), file)
	return args.moved(ctx, in, box, out, err)
}

// moved appends to the output the new working directory of the session, or why it stays where it was.
func (a bashArgs) moved(
	ctx context.Context, in tool.In, box sandbox.Box, out tool.Output, err error,
) (tool.Output, error) {
	if data, ok := out.Data.(bashData); ok && err == nil {
		dir, lost := lastDir(ctx, in, box, a.Command)
		switch {
		case in.Scheduled && dir != "":
			dir, lost = "", "a run of a cron job leaves the session where it is"
		case data.ExitCode != 0 && dir+lost != "":
			dir, lost = "", "the command failed"
		}
		if dir != "" {
			out.Dir, data.Dir = dir, toolkit.Shown(in.Dir, dir)
		}
		if lost != "" {
			data.notes = append(data.notes, fmt.Sprintf("[the working directory is still %s: %s]", in.Dir, lost))
		}
		data.Notes = data.remarks()
		out.Data = data
	}
	return out, err
}

// create creates the file that gets the whole output. It returns nil if the call wants no such file.
func (a bashArgs) create(ctx context.Context, in tool.In, box sandbox.Box) (*sandbox.File, error) {
	if a.OutputFile == "" {
		return nil, nil
	}
	u, err := toolkit.Judged(in, a.OutputFile, guard.Write)
	if err != nil {
		return nil, err
	}
	f, err := sandbox.Create(ctx, box, u, 0o644)
	if err != nil {
		return nil, toolkit.FileError("write", u, err)
	}
	return f, nil
}

// Argv implements [tool.Program].
func (Bash) Argv(in tool.In) ([]string, error) {
	args, err := tool.Decode[bashArgs](in)
	if err == nil && args.OutputFile != "" {
		err = &tool.Error{
			Code: "invalid_arguments",
			Msg:  "output_file is for commands that the daemon runs, and another program runs this one",
			Hint: "leave it out, and let the command write the file",
		}
	}
	return args.argv(), err
}

func (a bashArgs) argv() []string { return []string{"bash", "--norc", "--noprofile", "-c", a.Command} }

// lastDir returns the directory in which a command line that succeeds leaves the shell: one that the box allows to
// be entered. It returns "" if the directory did not change. lost says why the next call begins elsewhere. The
// parser follows cd. To learn where the shell ended, the call appends a command that runs only after a success.
// Lines that contain no cd are not parsed again.
func lastDir(ctx context.Context, in tool.In, box sandbox.Box, command string) (dir, lost string) {
	if !moves(in.Judged.Script) {
		return "", ""
	}
	at := endsIn(command+" && :", in)
	if at == nil { // the text ends with a comment or a here-document
		at = endsIn(command+"\n:", in)
	}
	if at == nil || at.Dir == "" {
		return "", "where the command ends up cannot be told from its text; a line that is only cd DIR is kept"
	}
	u, err := toolkit.Path(in, at.Dir, guard.Read)
	if err != nil || u.Path == in.Dir {
		return "", ""
	}
	if !slices.ContainsFunc(in.Roots, func(root string) bool { return guard.Within(u.Path, root) }) {
		return "", u.Path + " is outside the workspace; use cd in each command, or absolute paths"
	}
	f, err := box.Open(ctx, u, os.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return "", u.Path + " cannot be entered by file tools"
	}
	f.Close()
	return u.Path, ""
}

// endsIn returns the command ":" at the end of a text, or nil if the text does not end with it.
func endsIn(text string, in tool.In) *shellparse.Command {
	script, err := shellparse.Parse(text, shellparse.Options{Dir: in.Dir, Home: in.Home})
	if err != nil || len(script.Commands) == 0 || script.Commands[len(script.Commands)-1].Name != ":" {
		return nil
	}
	return &script.Commands[len(script.Commands)-1]
}

// moves reports whether a script has a command that can change the directory of its
// shell to one that the parser knows.
func moves(s *shellparse.Script) bool {
	return s != nil && slices.ContainsFunc(s.Commands, func(c shellparse.Command) bool {
		return c.Name == "cd" || c.Name == "pushd"
	})
}

// runProgram starts a program in the box, waits for its end and returns its output. If file is not nil, the whole
// output goes there, too.
func runProgram(ctx context.Context, in tool.In, box sandbox.Box, spec sandbox.Spec, timeout time.Duration,
	file *sandbox.File,
) (tool.Output, error) {
	stdout, stderr := capture{stream: "stdout", emit: in.Emit}, capture{stream: "stderr", emit: in.Emit}
	if file != nil {
		stdout.also, stderr.also = file, file
	}
	spec.Stdout, spec.Stderr, spec.Bounded = &stdout, &stderr, true
	runCtx, cancel := tool.Timeout(ctx, timeout) // the time that a person takes to allow a connection does not count
	defer cancel()
	room := &outputRoom{ctx: runCtx}
	stdout.room, stderr.room = room, room
	proc, err := box.Start(runCtx, spec)
	if err != nil && runCtx.Err() != nil && ctx.Err() == nil {
		return tool.Output{}, &tool.Error{
			Code: "timeout", Msg: fmt.Sprintf("the command did not begin before its timeout of %d ms",
				timeout.Milliseconds()),
			Hint: "try again; if that does not help, look at the load of the host",
		}
	}
	if err != nil {
		if file != nil {
			file.Discard()
		}
		return tool.Output{}, startError(spec.Argv[0], err)
	}
	exit, err := proc.Wait()
	kept := keep(file)
	if err != nil && ctx.Err() == nil && runCtx.Err() == nil {
		return tool.Output{}, startError(spec.Argv[0], err)
	}
	data := bashData{
		ExitCode: exit.Code, Signal: exit.Signal, Limit: exit.Limit,
		TimedOut: exit.TimedOut || ctx.Err() == nil && runCtx.Err() != nil, Interrupted: ctx.Err() != nil,
		denials: exit.Denials, why: exit.Why(), apart: exit.Apart, connected: len(exit.Network.Connections) > 0,
	}
	data.Stdout, data.Stderr, data.Truncated = texts(&stdout, &stderr, exit.Overflow)
	if data.Truncated {
		data.notes = append(data.notes, fmt.Sprintf("[the output had %d bytes, and its middle is left out]",
			stdout.total+stderr.total))
	}
	if kept != "" {
		data.notes = append(data.notes, kept)
	}
	return ended(data, exit, timeout, runCtx.Err() == nil)
}

// keep closes the file of the whole output and returns the line that tells the model where it is.
func keep(file *sandbox.File) string {
	if file == nil {
		return ""
	}
	if err := file.Commit(); err != nil {
		return fmt.Sprintf("[the whole output could not be kept: %v]", err)
	}
	return "[the whole output is in " + file.Path() + "]"
}

// Format implements [tool.Formatter]. The text of a command that writes nothing is "" and not the JSON of its data.
func (Bash) Format(data any, _ json.RawMessage) (string, error) {
	d, ok := data.(bashData)
	if !ok {
		return "", fmt.Errorf("unexpected data %T", data)
	}
	return d.text(), nil
}

// text returns stdout, stderr and the reason of a failure (T-45). It is "" if there is none of them.
func (d bashData) text() string {
	var b strings.Builder
	b.WriteString(d.Stdout)
	for _, s := range append([]string{d.Stderr}, d.remarks()...) {
		if s == "" {
			continue
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	return b.String()
}

// remarks returns the lines that stand below the output.
func (d bashData) remarks() []string {
	out := slices.Clone(d.notes)
	if d.Limit != "" {
		out = append(out, fmt.Sprintf("[sandbox: the command was ended at its limit: %s]", d.Limit))
	}
	out = append(out, sandboxNotes(d)...)
	if d.Dir != "" {
		out = append(out, "[working directory: "+d.Dir+"]")
	}
	if d.ExitCode != 0 {
		out = append(out, fmt.Sprintf("Exit code: %d", d.ExitCode))
	}
	return out
}

// sandboxNotes tells a model what the sandbox refused, so that it does not try the same again. It takes this from
// the reports of the kernel and from the error messages of the programs.
func sandboxNotes(d bashData) []string {
	denials := d.denials
	if d.ExitCode == 0 {
		// Programs often try something and go on without it. If the command succeeded, these refusals are not worth
		// a note.
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
		if n.Layer == "approval" {
			notes = append(notes, "[sandbox: stopped "+n.Act+"; a person approved its content for this call, "+
				"so change it in a call of its own]")
			continue
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
	if d.ExitCode != 0 && len(d.apart) > 0 {
		notes = append(notes, "[sandbox: this command cannot reach the ports of "+strings.Join(d.apart, ", ")+
			": settings or paths of the sandbox have changed since it began; TaskStop it and begin it again]")
	}
	if protected := cmp.Or(protectedNote(d.Stderr), protectedNote(d.Stdout)); protected != "" {
		return append(notes, protected)
	}
	if len(denials) > 0 || d.ExitCode == 0 || d.connected { // the answer about the connection tells what was refused
		return notes
	}
	for _, s := range []struct{ sign, note string }{
		{
			"Read-only file system",
			"[sandbox: that place cannot be written; write inside the workspace or /tmp, " +
				"and leave files that decide what runs outside (.git/hooks, .envrc) to a person]",
		},
		{"Could not resolve host", noNetwork},
		{"Temporary failure in name resolution", noNetwork},
		{"Network is unreachable", noNetwork},
	} {
		if strings.Contains(d.Stderr, s.sign) || strings.Contains(d.Stdout, s.sign) {
			return append(notes, s.note)
		}
	}
	return notes
}

// refused matches the error message of a program that could not write a file, with the name before or after the
// reason. The exit status does not matter, because git prints such a message and goes on.
var refused = lazyregexp.New(`(?:([^\s'"]+)['"]?: )?` +
	`(?:Device or resource busy|Read-only file system)(?:: '([^']+)')?`)

// complaints are the reasons that refused knows. Of a line with one of them, complaintBytes are read at most.
var complaints = [...]string{"Device or resource busy", "Read-only file system"}

const complaintBytes = 8 << 10

// complaining returns the first lines of a text that hold one of the complaints. Without this filter the expression
// takes a tenth of a second for each megabyte.
func complaining(text string) (lines []string) {
	for len(lines) < 20 {
		at := -1
		for _, c := range complaints {
			if i := strings.Index(text, c); i >= 0 && (at < 0 || i < at) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		from := max(strings.LastIndexByte(text[:at], '\n')+1, at-complaintBytes)
		to := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			to = at + i
		}
		lines = append(lines, text[from:min(to, at+complaintBytes)])
		text = text[to:]
	}
	return lines
}

// protectedNote explains that a file could not be written because other programs run or obey it.
func protectedNote(text string) string {
	for _, line := range complaining(text) {
		for _, m := range refused().FindAllStringSubmatch(line, 20) {
			for _, path := range m[1:] {
				n := obeyed.Find("/"+strings.TrimPrefix(path, "/"), "")
				if n == nil || !n.Kept() {
					continue
				}
				note := "[sandbox: " + path + " is write-protected, because it decides what runs outside the " +
					"sandbox; a person has to change it"
				if strings.HasSuffix(path, ".git/config") {
					note += "; git -c NAME=VALUE sets a value for one command"
				}
				return note + "]"
			}
		}
	}
	return ""
}

const noNetwork = "[sandbox: this host cannot be reached; an operator can list it in network.allowedDomains; " +
	"work with what the workspace has, or ask a person to fetch the rest]"
