package review

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Terminal asks the person at the terminal of this process. It reads /dev/tty, so that input that is piped into the
// command cannot answer.
type Terminal struct {
	Err io.Writer // required; gets the notice that the command waits, also if it is no terminal

	turn sync.Mutex // held while a question is on the terminal
}

// Execution asks once. Without a terminal, or if ctx ends before the answer, the call is refused.
func (t *Terminal) Execution(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	return t.ask(ctx, asWords(approvals.ItemOf(c)), "run it? [y/N] ")
}

func (t *Terminal) ask(ctx context.Context, i approvals.Item, question string) (tool.Approval, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	a := tool.Approval{Asked: time.Now()}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		a.Code, a.Reason = "no_approver", "a person is to be asked, and there is no terminal"
		return a, nil
	}
	defer tty.Close()
	fmt.Fprintln(t.Err, "waiting, without a limit, for whoever sits at the terminal: answer there with y or n")
	fmt.Fprint(tty, Render(i, time.Now(), ScreenOf(tty)), question)
	line, err := typedLine(ctx, tty)
	if err != nil {
		a.Code, a.Reason = "no_approver", "the terminal gave no answer"
		return a, nil
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	a.Approved = answer == "y" || answer == "yes"
	a.By, a.Answered = fmt.Sprintf("uid:%d", os.Getuid()), time.Now()
	if !a.Approved {
		a.Reason = "refused on the terminal"
	}
	return a, nil
}

// Connection asks whether the program may connect. The person at the terminal started it.
func (t *Terminal) Connection(ctx context.Context, c *tool.Call, to tool.Connecting) (tool.Approval, error) {
	i := asWords(approvals.ItemOf(c))
	i.Type, i.Connection, i.Why = approvals.TypeConnection, &to, to.Why
	return t.ask(ctx, i, "let it connect? [y/N] ")
}

// Changes asks whether the changes of the program may stay.
func (t *Terminal) Changes(ctx context.Context, c *tool.Call, made tool.Changing) (tool.Approval, error) {
	i := asWords(approvals.ItemOf(c))
	i.Type, i.Changes, i.Why = approvals.TypeChanges, &made, made.Why
	return t.ask(ctx, i, "let the changes stay? [y/N] ")
}

// typedLine reads one line until ctx ends. A read of a terminal cannot be interrupted by closing it, so the read is
// abandoned then.
func typedLine(ctx context.Context, tty *os.File) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(tty, 1024)).ReadString('\n')
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		return a.line, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Result asks the same question. The arguments are the text that it shows.
func (t *Terminal) Result(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	return t.Execution(ctx, c)
}

// asWords shows the arguments of a program as a command line, and leaves out the fields that only a daemon's queue
// has.
func asWords(i approvals.Item) approvals.Item {
	i.SessionID, i.Description = "", ""
	var args struct {
		Argv []string `json:"argv"`
	}
	if json.Unmarshal(i.Args, &args) != nil || len(args.Argv) == 0 {
		return i
	}
	if line, err := json.Marshal(map[string]string{"command": tool.CommandLine(args.Argv...)}); err == nil {
		i.Args = line
	}
	return i
}

// ScreenOf returns the layout for text that is written to f: its width if it is a terminal, otherwise 80 columns;
// colours only for a terminal, and only if NO_COLOR and TERM allow them.
func ScreenOf(f *os.File) Screen {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return Screen{Width: 80}
	}
	if width <= 0 { // the terminal does not know its width
		width = 80
	}
	return Screen{
		Terminal: true, Width: min(width, 120), Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}
