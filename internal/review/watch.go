package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// pollEvery is the time between two lists of the questions. Polling also works after a restart of the daemon, which
// would end a stream.
const pollEvery = 500 * time.Millisecond

// settleTime is how long keys are ignored after another question appeared, because they were meant for the one
// before.
const settleTime = 700 * time.Millisecond

// Watch shows each new question on the terminal out and takes the keys from in as answers, until ctx ends or a key
// ends it. Then it restores the terminal.
func Watch(ctx context.Context, api Queue, in, out *os.File) error {
	fd := int(in.Fd())
	if !term.IsTerminal(fd) || !term.IsTerminal(int(out.Fd())) {
		return &client.Error{
			Code: "not_a_terminal", Msg: "watch needs a terminal",
			Hint: "use watch --json, or approvals list and approvals approve",
		}
	}
	old, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	defer term.Restore(fd, old)
	w := &watcher{api: api, out: rawWriter{out}, screen: ScreenOf(out)}
	w.size = func() (columns, height int) {
		_, height, err := term.GetSize(int(out.Fd()))
		if err != nil || height <= 0 {
			height = 24
		}
		return ScreenOf(out).Width, height
	}
	return w.run(ctx, readKeys(in))
}

// rawWriter ends lines with CR LF, as a terminal in raw mode needs.
type rawWriter struct{ io.Writer }

func (w rawWriter) Write(b []byte) (int, error) {
	_, err := io.WriteString(w.Writer, strings.ReplaceAll(string(b), "\n", "\r\n"))
	return len(b), err
}

// watcher shows one question at a time. It only appends to the screen, so that
// long arguments stay readable in the scroll-back, over ssh and in tmux.
type watcher struct {
	api    Queue
	out    io.Writer
	screen Screen
	size   func() (columns, height int) // current size of the terminal; nil: it never changes

	items   []approvals.Item
	current string    // id of the question on the screen
	shownAt time.Time // when it appeared
	status  string    // the status line as it was written last
	failed  string    // the last error of a list; it is shown once
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

// note writes a line, and has the status line written again.
func (w *watcher) note(text string) {
	w.say("\r\x1b[K%s\n", visible.Text(text))
	w.status = ""
}

// poll lists the questions that wait, shows one if none is on the screen, and updates the clock.
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

// item returns the question on the screen, if it still waits.
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
	w.measure()
	item, _ := w.item()
	w.say("\r\x1b[K\n%s", Render(item, time.Now(), w.screen))
}

// line writes the status line, which says what can be done now.
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
			keys = "y once · s session · a always · n refuse"
			if item.Type == approvals.TypeExecution {
				keys += " · e edit"
			}
		}
		text = fmt.Sprintf("[%d/%d] %s · ? · %s · j/k · q", w.index()+1, len(w.items), timeLeft(item, time.Now()), keys)
	}
	if text != w.status {
		w.status = text
		w.say("\r\x1b[K%s ", Clip(text, w.screen.Width-2))
	}
}

// key handles one key. It returns true if the key ends Watch.
func (w *watcher) key(ctx context.Context, key rune, keys <-chan rune) bool {
	item, ok := w.item()
	switch {
	case key == 'q' || key == keyInterrupt || key == keyEOF:
		return true
	case !ok:
		return false
	case key == '?':
		w.say("\r\x1b[K\n%s", w.screen.help(item))
		w.status = ""
		w.line()
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

// ask returns the answer that a key stands for. For some keys the person types a line of text as well.
func (w *watcher) ask(ctx context.Context, item approvals.Item, key rune, keys <-chan rune) (Answer, bool) {
	canRemember := slices.Contains(item.Remember, approvals.RememberSession)
	switch {
	case key == 'n':
		reason, ok := w.readLine(ctx, keys, "reason for the model · enter done · esc back")
		return Answer{Reason: reason}, ok
	case key == 'y' && item.Type == approvals.TypeQuestion:
		answer, ok := w.readLine(ctx, keys, "your answer · enter done · esc back")
		return Answer{Approved: true, Reason: answer}, ok && answer != ""
	case key == 'y':
		return Answer{Approved: true}, true
	case (key == 's' || key == 'a') && canRemember:
		return w.askRemember(ctx, item, key, keys)
	case key == 'e' && item.Type == approvals.TypeExecution:
		args, ok := w.editArgs(ctx, item, keys)
		return Answer{Approved: true, Args: args}, ok
	}
	return Answer{}, false
}

// askRemember shows the rule that the answer becomes.
func (w *watcher) askRemember(ctx context.Context, item approvals.Item, key rune, keys <-chan rune) (Answer, bool) {
	scope := approvals.RememberSession
	if key == 'a' {
		scope = approvals.RememberAlways
	}
	w.note("rule: " + Rule(item, scope))
	if item.Connection == nil {
		var args fields
		args.args(item.Args)
		var b strings.Builder
		for _, f := range args {
			w.screen.block(&b, f)
		}
		w.say("%s", b.String())
	}
	said, ok := w.readLine(ctx, keys, "type yes to remember it · esc back")
	return Answer{Approved: true, Remember: scope}, ok && said == "yes"
}

func (w *watcher) decide(ctx context.Context, item approvals.Item, d Answer) {
	done, err := w.api.Decide(ctx, item.ID, d)
	if err != nil {
		text := "not answered: " + err.Error()
		if e, ok := errors.AsType[*client.Error](err); ok && e.Hint != "" {
			text += " (" + e.Hint + ")"
		}
		w.note(text)
	} else {
		w.note(fmt.Sprintf("%s %s", item.ID, done.Status))
		w.current = "" // the end of this question was said already, so poll does not say it again
	}
	w.poll(ctx)
}
