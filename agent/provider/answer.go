package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// builder makes an answer out of events.
type builder struct {
	blocks []*building
	answer Answer
	whole  bool
}

// building is a block that comes.
type building struct {
	Block
	text, signature strings.Builder // what grows; text is also thinking or input
	closed          bool
}

func (b *builder) add(e Event) error {
	switch e.Kind {
	case MessageStart, MessageDelta:
		b.answer.Began = true
		b.answer.Usage.Input = max(b.answer.Usage.Input, e.Usage.Input)
		b.answer.Usage.Output = max(b.answer.Usage.Output, e.Usage.Output)
		b.answer.StopReason = cmp.Or(e.StopReason, b.answer.StopReason)
	case ContentBlockStart:
		if e.Index != len(b.blocks) || e.Index == maxBlocks {
			return broken("block %d starts where block %d is due, of %d at most", e.Index, len(b.blocks), maxBlocks)
		}
		b.blocks = append(b.blocks, &building{Block: e.Block})
	case ContentBlockDelta, ContentBlockStop:
		if e.Index < 0 || e.Index >= len(b.blocks) || b.blocks[e.Index].closed {
			return broken("a part came for block %d, which is not open", e.Index)
		}
		b.answer.Bytes += b.blocks[e.Index].grow(e)
	case MessageStop:
		b.whole = b.answer.StopReason != ""
	}
	return nil
}

func (b *building) grow(e Event) (bytes int) {
	b.closed = e.Kind == ContentBlockStop
	b.signature.WriteString(e.Delta.Signature)
	bytes, _ = b.text.WriteString(e.Delta.Text + e.Delta.Thinking + e.Delta.JSON) // it never fails
	return bytes
}

// finish returns the answer, if it is whole and says something.
func (b *builder) finish() (Answer, error) {
	if !b.whole {
		return b.answer, brokenOff(nil)
	}
	ids := map[string]bool{}
	for i, x := range b.blocks {
		if !x.closed {
			return b.answer, broken("the answer ended within block %d", i)
		}
		switch grown := x.text.String(); x.Type {
		case "text":
			x.Text += grown
			if x.Text == "" {
				continue
			}
		case "thinking":
			x.Thinking, x.Signature = x.Thinking+grown, x.Signature+x.signature.String()
		case "redacted_thinking":
		case "tool_use":
			x.input(grown)
			x.ID = unique(ids, x.ID, i)
		default: // nothing that was asked for
			continue
		}
		b.answer.Content = append(b.answer.Content, x.Block)
	}
	if text, err := json.Marshal(b.answer.Content); err != nil || len(text) > maxContent {
		return b.answer, broken("the answer is too long to be kept: more than %d bytes", maxContent)
	}
	said := strings.TrimSpace(b.answer.Content.Text()) != "" || len(b.answer.Content.Calls()) > 0
	if !said && b.answer.StopReason != MaxTokens || len(b.answer.Content) == 0 {
		return b.answer, broken("the answer is empty (%s)", b.answer.StopReason)
	}
	return b.answer, nil
}

// outer and inner are the levels that a conversation has around the arguments of a call.
const outer, inner = "[[[[[[[[", "]]]]]]]]"

// input takes the arguments of a call: one JSON object, in a form that the daemon keeps.
func (b *building) input(grown string) {
	grown = cmp.Or(grown, string(b.Input))
	text := bytes.TrimSpace(bytes.ToValidUTF8([]byte(grown), []byte("\uFFFD"))) // no server takes other bytes back
	b.Input = json.RawMessage("{}")
	if len(text) == 0 {
		return
	}
	kept := fmt.Append(nil, outer, string(text), inner)
	if text[0] != '{' || strictjson.Check(text) != nil || strictjson.Check(kept) != nil {
		b.Broken = clip(grown)
		return
	}
	b.Input = text
}

// unique returns an id that no call of this answer has: results are told apart by it.
func unique(ids map[string]bool, id string, index int) string {
	id = cmp.Or(id, fmt.Sprintf("call_%d", index))
	for base, n := id, 2; ids[id]; n++ {
		id = fmt.Sprintf("%s_%d", base, n)
	}
	ids[id] = true
	return id
}
