package review

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// edit lets the person change a text. It draws heading above the text again each second. A text of several lines
// ends with Ctrl-D, a text of one line with Enter. ok is false if the person goes back.
func (w *watcher) edit(
	ctx context.Context, keys <-chan rune, head func() string, text string, several bool,
) (string, bool) {
	e, below := newEditor(text), 0
	w.say("\r\x1b[K")
	defer func() { w.status = "" }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		below = w.draw(e, head(), below)
		var key rune
		var ok bool
		select {
		case <-ctx.Done():
			return "", false
		case <-tick.C:
			continue
		case key, ok = <-keys:
		}
		switch {
		case !ok || key == keyEscape || key == keyInterrupt:
			w.leave(e)
			return "", false
		case several && key == keyEOF, !several && (key == keyEnter || key == '\n'):
			w.leave(e)
			return e.text(), true
		case !several && (key == '\t' || key == keyEOF):
		default:
			e.press(key)
		}
	}
}

// draw draws the heading and the text over what it drew before, and sets the cursor. above is the row of the cursor
// below the heading before the call; draw returns the new row. If the text is longer than the screen, the part
// around the cursor is shown.
func (w *watcher) draw(e *editor, head string, above int) (below int) {
	columns, height := w.measure()
	rows, row, col := e.layout(columns - 1)
	first, last := window(len(rows), row, height)
	if first > 0 || last < len(rows) {
		head = fmt.Sprintf("[%d-%d of %d] %s", first+1, last, len(rows), head)
	}
	var b strings.Builder
	b.WriteString("\r")
	up(&b, above)
	b.WriteString("\x1b[J" + Clip(head, columns-1))
	for _, text := range rows[first:last] {
		b.WriteString("\n" + text)
	}
	up(&b, last-1-row)
	b.WriteString("\r")
	if col > 0 {
		fmt.Fprintf(&b, "\x1b[%dC", col)
	}
	w.say("%s", b.String())
	return row - first + 1
}

// window returns which rows are shown: those that end at the cursor, or the first ones.
func window(rows, row, height int) (first, last int) {
	room := max(height-4, 1)
	first = min(max(row-room+1, 0), rows)
	return first, min(first+room, rows)
}

func up(b *strings.Builder, rows int) {
	if rows > 0 {
		fmt.Fprintf(b, "\x1b[%dA", rows)
	}
}

// leave moves the cursor below what was drawn.
func (w *watcher) leave(e *editor) {
	columns, height := w.measure()
	rows, row, _ := e.layout(columns - 1)
	_, last := window(len(rows), row, height)
	w.say("%s", strings.Repeat("\n", last-row))
}

// measure returns the current size of the terminal.
func (w *watcher) measure() (columns, height int) {
	if w.size == nil {
		return w.screen.Width, 24
	}
	columns, height = w.size()
	w.screen.Width = columns
	return columns, height
}

// readLine lets the person type one line.
func (w *watcher) readLine(ctx context.Context, keys <-chan rune, prompt string) (string, bool) {
	text, ok := w.edit(ctx, keys, func() string { return prompt }, "", false)
	return strings.TrimSpace(text), ok
}

// editArgs lets the person change the arguments of a call, one after the other, as text. The changed arguments are
// judged again before they run.
func (w *watcher) editArgs(ctx context.Context, item approvals.Item, keys <-chan rune) (json.RawMessage, bool) {
	fields, err := orderedFields(item.Args)
	if err != nil || len(fields) == 0 {
		fields = []jsonField{{"", item.Args}}
	}
	for {
		field, ok := w.chooseField(ctx, keys, fields)
		if !ok || !w.editField(ctx, item, keys, field) {
			return nil, false
		}
		switch key, _ := w.choose(ctx, keys, "run with this? y yes · e edit more · esc back", "ye"); key {
		case 'y':
			return joined(fields), true
		case 'e':
		default:
			return nil, false
		}
	}
}

// chooseField asks which argument to change, if there are several.
func (w *watcher) chooseField(ctx context.Context, keys <-chan rune, fields []jsonField) (*jsonField, bool) {
	if len(fields) == 1 {
		return &fields[0], true
	}
	text, digits := "edit which?", "123456789"[:min(len(fields), 9)]
	for i := range digits {
		text += fmt.Sprintf(" %d %s ·", i+1, visible.Text(fields[i].name))
	}
	key, ok := w.choose(ctx, keys, text+" esc back", digits)
	if !ok {
		return nil, false
	}
	return &fields[key-'1'], true
}

// choose waits until one of some keys is pressed. ok is false if the person goes back.
func (w *watcher) choose(ctx context.Context, keys <-chan rune, text, allowed string) (rune, bool) {
	defer func() { w.status = "" }()
	for _, line := range wrap(text, w.screen.Width-1) {
		w.say("\r\x1b[K%s\n", line)
	}
	for {
		select {
		case <-ctx.Done():
			return 0, false
		case key, ok := <-keys:
			if !ok || key == keyEscape || key == keyInterrupt {
				return 0, false
			}
			if strings.ContainsRune(allowed, key) {
				return key, true
			}
		}
	}
}

// editField lets the person change one argument. A string is edited as it is, any other value as JSON.
func (w *watcher) editField(ctx context.Context, item approvals.Item, keys <-chan rune, f *jsonField) bool {
	var text string
	isText := bytes.HasPrefix(f.value, []byte{'"'}) && json.Unmarshal(f.value, &text) == nil
	if !isText {
		text = string(f.value)
	}
	problem := ""
	for {
		head := func() string {
			what := strings.TrimSpace("edit " + visible.Text(f.name))
			return what + problem + " · ^D done · esc back · " + timeLeft(item, time.Now())
		}
		var ok bool
		if text, ok = w.edit(ctx, keys, head, text, true); !ok {
			return false
		}
		if isText {
			f.value = quotedJSON(text)
			return true
		}
		if json.Valid([]byte(text)) {
			f.value = json.RawMessage(text)
			return true
		}
		problem = " (this is not valid JSON)"
	}
}

// joined returns an object with these fields, in this order.
func joined(fields []jsonField) json.RawMessage {
	if len(fields) == 1 && fields[0].name == "" {
		return fields[0].value
	}
	var b bytes.Buffer
	for i, f := range fields {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.Write(quotedJSON(f.name))
		b.WriteByte(':')
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func quotedJSON(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		panic("text cannot be encoded: " + err.Error())
	}
	return b
}
