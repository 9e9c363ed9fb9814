package whatif

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/policy"
)

// Daemon answers requests of operators, as a client does.
type Daemon interface {
	Do(ctx context.Context, method, path string, in, out any) error
}

// Call is {"tool", "args"}, which a running daemon judges as a real call. It runs its hooks before
// the call, and nothing else.
type Call struct {
	Session string          `json:"session_id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Nearest bool            `json:"nearest"` // a small change that would be allowed is searched
}

// Described reads a call: a command line, or else {"tool", "args"} as text, or else from stdin.
func Described(line, text string, stdin io.Reader) (c Call, err error) {
	c.Tool = "Bash"
	if line != "" {
		c.Args, err = json.Marshal(map[string]string{"command": line})
		return c, err
	}
	raw := []byte(text)
	if text == "" {
		if raw, err = io.ReadAll(stdin); err != nil {
			return c, err
		}
	}
	if err := cmp.Or(strictjson.Decode(raw, &c), strictjson.Check(raw)); err != nil {
		return c, fmt.Errorf("read {\"tool\", \"args\"}: %w", err)
	}
	if c.Session != "" {
		return c, errors.New("name the session with --session")
	}
	return c, nil
}

// Ask returns how the daemon judges the call.
func (c Call) Ask(ctx context.Context, d Daemon) (x policy.Explanation, err error) {
	err = d.Do(ctx, http.MethodPost, "/policies/explain", c, &x)
	return x, err
}

// Past returns how the daemon judged a call, by its id. Nearest and Note are what the daemon says of
// the call now; if it cannot be judged again, Note says why.
func Past(ctx context.Context, d Daemon, id string, nearest bool) (policy.Record, error) {
	var rec policy.Record
	if err := d.Do(ctx, http.MethodGet, "/decisions/"+url.PathEscape(id), nil, &rec); err != nil {
		return rec, err
	}
	call, err := again(rec)
	if err == nil {
		call.Nearest = nearest
		var now policy.Explanation
		if now, err = call.Ask(ctx, d); err == nil {
			rec.Nearest = now.Nearest
			rec.Note = strings.TrimPrefix(rec.Note+"; "+changed(rec.Explanation, now), "; ")
		}
	}
	if err != nil {
		rec.Note = strings.TrimPrefix(rec.Note+"; it cannot be judged again: "+err.Error(), "; ")
	}
	return rec, nil
}

// again returns the recorded call, for judging it again.
func again(rec policy.Record) (Call, error) {
	var in struct {
		Params json.RawMessage `json:"params"`
	}
	if rec.Input == nil {
		return Call{}, errors.New("its arguments are not kept")
	}
	if err := json.Unmarshal(rec.Input, &in); err != nil {
		return Call{}, err
	}
	if bytes.Contains(in.Params, []byte("[masked]")) || bytes.Contains(in.Params, []byte("[REDACTED")) {
		return Call{}, errors.New("a part of its arguments is masked")
	}
	return Call{Session: rec.Session, Tool: rec.Tool, Args: in.Params}, nil
}

// changed says in words how the judgement differs now; "" if it does not.
func changed(then, now policy.Explanation) string {
	if then.Decision.Revision == now.Decision.Revision && then.Decision.Verdict == now.Decision.Verdict {
		return ""
	}
	by := "before any policy" // the call is no longer one that policies are asked about
	if now.Decision.Revision != "" {
		by = "by revision " + now.Decision.Revision
	}
	return fmt.Sprintf("judged now it is %s, %s", now.Decision.Verdict, by)
}
