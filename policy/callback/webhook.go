package callback

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// maxOpinionBytes bounds the answer of a webhook or a command.
const maxOpinionBytes = 1 << 20

// question is what a webhook or a command is asked.
type question struct {
	Tool     string          `json:"tool"`
	CalledAs string          `json:"called_as,omitempty"`
	Input    json.RawMessage `json:"input"`
	Session  string          `json:"session_id"`
	Mode     tool.Mode       `json:"mode"`
	Dir      string          `json:"cwd"`
}

// answer is what it says: {"behavior": "allow|deny|ask", "message"?,
// "updatedInput"?}, or {} for no opinion.
type answer struct {
	Behavior string          `json:"behavior"`
	Message  string          `json:"message"`
	Input    json.RawMessage `json:"updatedInput"`
}

// Webhook returns a callback that POSTs the call to url and reads the opinion from the answer. Anything but a timely
// 200 with a well-formed answer is an error, which denies the call; 204 is no opinion. Redirects are not followed.
func Webhook(url string, timeout time.Duration) CanUseTool {
	client := &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, name string, input json.RawMessage, c Context) (*Opinion, error) {
		body, err := newQuestion(name, input, c)
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return nil, fmt.Errorf("ask the webhook: %w", err)
		}
		defer res.Body.Close()
		switch res.StatusCode {
		case http.StatusOK:
		case http.StatusNoContent:
			return nil, nil
		default:
			return nil, fmt.Errorf("ask the webhook: it answered %s", res.Status)
		}
		b, err := io.ReadAll(io.LimitReader(res.Body, maxOpinionBytes+1))
		if err != nil {
			return nil, fmt.Errorf("ask the webhook: %w", err)
		}
		return readAnswer(b)
	}
}

// Command returns a callback that hands the question to run as JSON and reads the answer from what it returns. The
// caller says how a program is started, and ends it with the context; no output is no opinion.
func Command(timeout time.Duration, run func(ctx context.Context, stdin []byte) (stdout []byte, err error)) CanUseTool {
	return func(ctx context.Context, name string, input json.RawMessage, c Context) (*Opinion, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		body, err := newQuestion(name, input, c)
		if err != nil {
			return nil, err
		}
		out, err := run(ctx, body)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("ask the command: %w", err)
		}
		if len(bytes.TrimSpace(out)) == 0 {
			return nil, nil
		}
		return readAnswer(out)
	}
}

// newQuestion returns the question as JSON, in one spelling, whatever the model wrote.
func newQuestion(name string, input json.RawMessage, c Context) ([]byte, error) {
	if len(input) > 0 {
		var err error
		if input, err = strictjson.Canonical(input); err != nil {
			return nil, err
		}
	}
	return strictjson.Plain(question{
		Tool: name, CalledAs: c.CalledAs, Input: input, Session: c.Session.ID, Mode: c.Session.Mode,
		Dir: cmp.Or(c.Dir, c.Session.Dir),
	})
}

func readAnswer(b []byte) (*Opinion, error) {
	if len(b) > maxOpinionBytes {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxOpinionBytes)
	}
	var a answer
	if err := errors.Join(strictjson.CheckFolded(b), strictjson.Decode(b, &a)); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) { // null
		return nil, errors.New("the answer is no JSON object")
	}
	if a.Input != nil && a.Behavior != "allow" {
		return nil, fmt.Errorf("the answer has updatedInput with the behavior %q", a.Behavior)
	}
	switch a.Behavior {
	case "allow":
		return AllowWithInput(a.Input), nil
	case "deny":
		return Deny(a.Message), nil
	case "ask":
		return AskPerson(a.Message), nil
	case "":
		if a.Message == "" {
			return nil, nil
		}
		return nil, errors.New("the answer has a message but no behavior")
	}
	return nil, fmt.Errorf("the answer has the behavior %q: want allow, deny or ask", a.Behavior)
}
