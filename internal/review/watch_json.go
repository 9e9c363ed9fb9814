package review

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// watchLine is one line of the output of watch --json.
type watchLine struct {
	Event string          `json:"event"` // asked, gone, answered or error
	ID    string          `json:"id,omitempty"`
	Item  *approvals.Item `json:"item,omitempty"`
	Error *client.Error   `json:"error,omitempty"`
}

// WatchJSON is Watch for programs. After the end of stdin it reads no more answers, but goes on watching.
func WatchJSON(ctx context.Context, api Queue, in io.Reader, out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	answers := readAnswers(ctx, in)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	seen := map[string]bool{}
	for {
		if err := pollJSON(ctx, api, seen, enc); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case line, ok := <-answers:
			if !ok {
				answers = nil
				continue
			}
			if err := enc.Encode(answerLine(ctx, api, line)); err != nil {
				return err
			}
		}
	}
}

// pollJSON prints the questions that appeared and those that ended since the last call.
func pollJSON(ctx context.Context, api Queue, seen map[string]bool, enc *json.Encoder) error {
	items, err := api.oldest(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	now := map[string]bool{}
	for n := range items {
		now[items[n].ID] = true
		if seen[items[n].ID] {
			continue
		}
		seen[items[n].ID] = true
		if err := enc.Encode(watchLine{Event: "asked", ID: items[n].ID, Item: &items[n]}); err != nil {
			return err
		}
	}
	for id := range seen {
		if now[id] {
			continue
		}
		delete(seen, id)
		if err := enc.Encode(watchLine{Event: "gone", ID: id}); err != nil {
			return err
		}
	}
	return nil
}

// maxAnswer bounds a line of stdin, which can hold edited arguments.
const maxAnswer = 16 << 20

func readAnswers(ctx context.Context, in io.Reader) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(in)
		s.Buffer(nil, maxAnswer)
		for s.Scan() {
			select {
			case lines <- append([]byte(nil), s.Bytes()...):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

func answerLine(ctx context.Context, api Queue, line []byte) watchLine {
	var d struct {
		ID string `json:"id"`
		Answer
	}
	// Unknown fields are errors, because a misspelt "approved" would otherwise refuse the call.
	if err := cmp.Or(strictjson.CheckFolded(line), strictjson.Decode(line, &d)); err != nil || d.ID == "" {
		return watchLine{Event: "error", Error: &client.Error{
			Code: "invalid_answer", Msg: fmt.Sprintf("not an answer: %.100q", line),
			Hint: `send {"id": "…", "approved": true}`,
		}}
	}
	item, err := api.Decide(ctx, d.ID, d.Answer)
	if err != nil {
		e, ok := errors.AsType[*client.Error](err)
		if !ok {
			e = &client.Error{Code: "failed", Msg: err.Error()}
		}
		return watchLine{Event: "error", ID: d.ID, Error: e}
	}
	return watchLine{Event: "answered", ID: d.ID, Item: &item}
}
