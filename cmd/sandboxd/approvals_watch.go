package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/tool"
)

func approvalsWatchCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "watch",
		Short: "Answer questions as they come, one key each",
		Long: `Shows each question as it comes and takes one key for the answer: y once,
s for the session, a always, n refuse (a reason may follow), e edit the
arguments, j and k to go through the questions, q to leave. Leaving answers
nothing.

With --json it prints one line {"event", "item"} per change and reads answers as
lines {"id", "approved", "reason", "remember", "args"} from stdin.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api := newApprovalsAPI()
			if asJSON {
				return watchJSON(cmd.Context(), api, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			if !isTerminal(os.Stdin) || !isTerminal(os.Stdout) {
				return &tool.Error{Code: "not_a_terminal", Msg: "watch needs a terminal", Hint: "use watch --json, or approvals list and approvals approve"}
			}
			return watchTerminal(cmd.Context(), api)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print changes and read answers as JSON lines")
	return c
}

// pollEvery is how soon a new question is seen. Asking again and again also
// works after a restart of the daemon, which a stream does not survive.
const pollEvery = 500 * time.Millisecond

// settleTime is how long keys are ignored after another question came on the
// screen: a key that was meant for the one before must not answer it.
const settleTime = 700 * time.Millisecond

func watchTerminal(ctx context.Context, api approvalsAPI) error {
	fd := int(os.Stdin.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	defer term.Restore(fd, old)
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width < 40 {
		width = 80
	}
	w := &watcher{api: api, out: rawWriter{os.Stdout}, screen: screen{width: min(width, 120), colour: os.Getenv("NO_COLOR") == ""}}
	return w.run(ctx, readKeys(os.Stdin))
}

// rawWriter ends lines as a terminal in raw mode needs it.
type rawWriter struct{ io.Writer }

func (w rawWriter) Write(b []byte) (int, error) {
	_, err := io.WriteString(w.Writer, strings.ReplaceAll(string(b), "\n", "\r\n"))
	return len(b), err
}

// watcher shows one question at a time. It only appends to the screen, so that
// long arguments stay readable in the scroll-back, over ssh and in tmux.
type watcher struct {
	api    approvalsAPI
	out    io.Writer
	screen screen

	items   []approvals.Item
	current string    // id of the question on the screen
	shownAt time.Time // since when
	status  string    // last line written
	failed  string    // the last failure to list, said once
}

func (w *watcher) run(ctx context.Context, keys <-chan rune) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	w.poll(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.poll(ctx)
		case key, ok := <-keys:
			if !ok || w.key(ctx, key, keys) {
				w.say("\n")
				return nil
			}
		}
	}
}

func (w *watcher) say(format string, args ...any) { fmt.Fprintf(w.out, format, args...) }

// note writes a line of its own and lets the status line come again.
func (w *watcher) note(text string) {
	w.say("\r\x1b[K%s\n", safeLine(text))
	w.status = ""
}

// poll lists what waits and shows a question if none is on the screen.
func (w *watcher) poll(ctx context.Context) {
	items, err := w.api.oldest(ctx)
	if err != nil {
		if ctx.Err() == nil && err.Error() != w.failed {
			w.failed = err.Error()
			w.note("cannot list questions: " + w.failed + "; trying again")
		}
		return
	}
	w.failed = ""
	w.items = items
	if _, ok := w.item(); !ok {
		if w.current != "" {
			w.note(w.current + " is no longer waiting")
		}
		w.current = ""
		if len(items) > 0 {
			w.show(items[0].ID)
		}
	}
	w.line()
}

// item is the question on the screen, if it waits still.
func (w *watcher) item() (approvals.Item, bool) {
	n := w.index()
	if n < 0 {
		return approvals.Item{}, false
	}
	return w.items[n], true
}

func (w *watcher) index() int {
	return slices.IndexFunc(w.items, func(i approvals.Item) bool { return i.ID == w.current })
}

func (w *watcher) show(id string) {
	w.current, w.shownAt, w.status = id, time.Now(), ""
	item, _ := w.item()
	w.say("\r\x1b[K\n%s", renderItem(item, time.Now(), w.screen))
}

// line writes the last line of the screen: what can be done now.
func (w *watcher) line() {
	text := "nothing waits · q quit"
	if item, ok := w.item(); ok {
		keys := "y once · n refuse · e edit"
		if item.Type != approvals.TypeExecution {
			keys = "y yes · n refuse"
		}
		if item.Type == approvals.TypeQuestion {
			keys = "y answer · n refuse"
		}
		if slices.Contains(item.Remember, approvals.RememberSession) {
			keys = "y once · s session · a always · n refuse · e edit"
		}
		text = fmt.Sprintf("[%d/%d] %s · j/k · q", w.index()+1, len(w.items), keys)
	}
	if text != w.status {
		w.status = text
		w.say("\r\x1b[K%s ", clip(text, w.screen.width-2))
	}
}

// key acts on one key; true means leave.
func (w *watcher) key(ctx context.Context, key rune, keys <-chan rune) bool {
	item, ok := w.item()
	switch {
	case key == 'q' || key == keyInterrupt || key == keyEOF:
		return true
	case !ok:
		return false
	case key == 'j' || key == 'k':
		step := 1
		if key == 'k' {
			step = len(w.items) - 1
		}
		w.show(w.items[(w.index()+step)%len(w.items)].ID)
		w.line()
		return false
	case time.Since(w.shownAt) < settleTime:
		return false
	}
	d, ok := w.ask(ctx, item, key, keys)
	if !ok {
		w.line()
		return false
	}
	w.decide(ctx, item, d)
	return false
}

// ask turns a key into a decision; some keys need a line of text as well.
func (w *watcher) ask(ctx context.Context, item approvals.Item, key rune, keys <-chan rune) (approvalDecision, bool) {
	canRemember := slices.Contains(item.Remember, approvals.RememberSession)
	switch {
	case key == 'n':
		reason, ok := w.readLine(ctx, keys, "reason for the model (enter for none, esc to go back): ", "")
		return approvalDecision{Reason: reason}, ok
	case key == 'y' && item.Type == approvals.TypeQuestion:
		answer, ok := w.readLine(ctx, keys, "your answer: ", "")
		return approvalDecision{Approved: true, Reason: answer}, ok && answer != ""
	case key == 'y':
		return approvalDecision{Approved: true}, true
	case (key == 's' || key == 'a') && canRemember:
		return w.askRemember(ctx, item, key, keys)
	case key == 'e' && item.Type == approvals.TypeExecution:
		text, ok := w.readLine(ctx, keys, "run with (JSON, esc to go back): ", string(item.Args))
		return approvalDecision{Approved: true, Args: json.RawMessage(text)}, ok && text != ""
	}
	return approvalDecision{}, false
}

// askRemember shows the rule that the answer will become.
func (w *watcher) askRemember(ctx context.Context, item approvals.Item, key rune, keys <-chan rune) (approvalDecision, bool) {
	scope, where := approvals.RememberSession, "session "+item.SessionID
	if key == 'a' {
		scope, where = approvals.RememberAlways, "every session of "+orDash(item.Account)
	}
	w.note(fmt.Sprintf("rule: allow %s %s in %s, for %s", item.Tool, item.Args, orDash(item.Facts.Dir), where))
	said, ok := w.readLine(ctx, keys, "type yes to remember it: ", "")
	return approvalDecision{Approved: true, Remember: scope}, ok && said == "yes"
}

func (w *watcher) decide(ctx context.Context, item approvals.Item, d approvalDecision) {
	done, err := w.api.decide(ctx, item.ID, d)
	if err != nil {
		text := "not answered: " + err.Error()
		if e, ok := errors.AsType[*tool.Error](err); ok && e.Hint != "" {
			text += " (" + e.Hint + ")"
		}
		w.note(text)
	} else {
		w.note(fmt.Sprintf("%s %s", item.ID, done.Status))
		w.current = "" // said already, so poll must not
	}
	w.poll(ctx)
}
