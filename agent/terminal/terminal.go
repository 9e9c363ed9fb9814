// Package terminal shows people what an agent does, and reads what they type.
//
//	show := terminal.People(terminal.Visible(os.Stdout), terminal.Visible(os.Stderr), failed)
//	for line := range terminal.Input(os.Stdin, prompt, failed) { // prompt is called before each line is read
//		agent.Prompt(ctx, line, show) // agent: of package loop; failed gets errors of reading and writing
//	}
//
// What the model says goes to the first writer, as it comes; calls with their verdicts, questions that wait for a
// person, what hooks say, notices, costs and errors to the other. [Lines] is for programs: JSON. After a message that
// could not be written the next is tried; after input that could not be read nothing more is read. On a terminal,
// [Visible] writes control characters and invisible ones as escapes. Without it the text of the model is as it is.
//
// A new message of package loop needs a case in show if people shall see it. Lines writes every type, passed by value.
package terminal

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/agent/loop"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// Is reports whether a file may be a terminal: a character device, but not /dev/null.
func Is(f *os.File) bool {
	info, err := f.Stat()
	null, failed := os.Stat(os.DevNull)
	return err == nil && failed == nil && info.Mode()&os.ModeCharDevice != 0 && !os.SameFile(info, null)
}

// Visible returns a writer to a file; on a terminal it escapes what is not visible.
func Visible(f *os.File) io.Writer {
	if Is(f) {
		return visible.NewWriter(f)
	}
	return f
}

// screen shows messages.
type screen struct {
	out, err io.Writer
	failed   func(error)
	within   bool // a line of out has begun
}

// People returns what shows messages to a person.
func People(out, err io.Writer, failed func(error)) func(loop.Message) {
	return (&screen{out: out, err: err, failed: failed}).show
}

// Lines returns what writes each message as one line of JSON, with its type in front: the name of the Go type.
func Lines(out io.Writer, failed func(error)) func(loop.Message) {
	return func(m loop.Message) {
		name := reflect.TypeOf(m).Name()
		body, err := json.Marshal(m)
		if err == nil {
			_, err = fmt.Fprintf(out, "{\"type\":\"%s%s\",%s\n", strings.ToLower(name[:1]), name[1:], body[1:])
		}
		if err != nil {
			failed(err)
		}
	}
}

func (s *screen) print(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil {
		s.failed(err)
	}
}

// note writes a line to people.
func (s *screen) note(format string, args ...any) {
	s.endLine()
	s.print(s.err, fmt.Sprintf(format, args...)+"\n")
}

func (s *screen) endLine() {
	if s.within {
		s.print(s.out, "\n")
	}
	s.within = false
}

func (s *screen) show(m loop.Message) {
	switch m := m.(type) {
	case loop.PartialMessage:
		s.print(s.out, m.Text)
		s.within = !strings.HasSuffix(m.Text, "\n")
	case loop.Assistant:
		s.endLine()
	case loop.ToolUse:
		s.note("> %s %s", short(m.Tool), short(string(m.Input)))
	case loop.ToolProgress:
		s.progress(m)
	case loop.ToolResult:
		verdict, status, text := cmp.Or(m.Verdict, "not judged"), strings.ToLower(m.Status), ""
		if m.IsError {
			text = ": " + short(m.Content)
		}
		s.note("  %s: %s, %s, %d ms%s", short(m.Tool), verdict, status, m.WallMS, text)
	case loop.HookResponse:
		s.note("  hooks of %s: %s", m.Event, short(m.Reason+" "+strings.Join(m.Messages, " ")))
	case loop.System:
		if m.Subtype == "init" {
			s.note("session %s, mode %s, model %s, in %s", m.Session, m.Mode, short(m.Model), short(m.Dir))
			return
		}
		s.note("sandboxd-agent: %s", short(m.Text))
	case loop.Result:
		for _, e := range m.Errors {
			s.note("sandboxd-agent: error: %s", short(e))
		}
		u := m.Usage
		s.note("%s: %d turns, %d tokens in, %d out, $%.6f", m.Subtype, m.Turns, u.Input, u.Output, m.CostUSD)
	}
}

func (s *screen) progress(m loop.ToolProgress) {
	switch m.State {
	case "waiting":
		for _, w := range m.Why {
			s.note("  %s asks: %s", short(m.Tool), short(w.Message))
		}
		s.note("  it waits until %s; answer in another terminal: sandboxd approvals approve %s (or deny)",
			m.Until.Local().Format(time.TimeOnly), short(m.Approval))
	case "reviewed":
		s.note("  a model says of %s: %s", short(m.Tool), short(m.Review))
	}
}

const maxShown = 300 // characters of a text of others

func short(s string) string {
	if r := []rune(s); len(r) > maxShown {
		s = string(r[:maxShown]) + "…"
	}
	return visible.Text(strings.TrimSpace(strings.ReplaceAll(s, "\n", " ")))
}

const maxLine = 8 << 20 // bytes of a line of input

// Input yields the lines of a reader that hold something; prompt is called before each.
func Input(r io.Reader, prompt func(), failed func(error)) iter.Seq[string] {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxLine)
	return func(yield func(string) bool) {
		for prompt(); scan.Scan(); prompt() {
			if strings.TrimSpace(scan.Text()) != "" && !yield(scan.Text()) {
				return
			}
		}
		if err := scan.Err(); err != nil {
			failed(fmt.Errorf("read the input: %w", err))
		}
	}
}
