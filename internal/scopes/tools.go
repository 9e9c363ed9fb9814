package scopes

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// group returns the tools by which a model stages writes for its page (S-72).
func (s *Store) group() catalog.Group {
	return catalog.Group{Name: "scopes", Tools: []tool.Tool{getVariable{s}, setVariable{s}}}
}

// deferred lists both tools, because only clients that name a page can use them.
var deferred = []string{"get_variable", "set_variable"}

type setVariable struct{ s *Store }

func (setVariable) Spec() tool.Spec {
	return tool.Spec{
		Name: "set_variable", Class: tool.ClassState, NoCache: true,
		Description: "Remember a value of this conversation. It is staged for the page that is being written, " +
			"and holds for the turn when the page is accepted.",
		Annotations: &tool.Annotations{Idempotent: true},
		Schema: json.RawMessage(`{
	"type": "object", "required": ["key"], "additionalProperties": false,
	"properties": {
		"key":    {"type": "string", "minLength": 1, "maxLength": 256, "description": "name of the variable"},
		"value":  {"description": "any JSON; needed unless op is delete"},
		"intent": {"enum": ["promote_to_floor_on_accept", "page_only"], "description": "the first unless given"},
		"reason": {"type": "string", "maxLength": 1000, "description": "why, for people who look at the ledger"},
		"op":     {"enum": ["set", "delete"], "description": "set unless given"},
		"conflict_policy": {"enum": ["replace", "if_absent"], "description": "replace unless given"}
	}}`),
	}
}

func (setVariable) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

// setArgs are the arguments of set_variable.
type setArgs struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
	Intent string          `json:"intent"`
	Reason string          `json:"reason"`
	Op     string          `json:"op"`
	Policy string          `json:"conflict_policy"`
}

// checked sets default values, or returns what is wrong with the arguments.
func (a *setArgs) checked() error {
	for _, f := range []struct {
		name   string
		to     *string
		values [2]string // the first one is the default
	}{
		{"intent", &a.Intent, [2]string{toFloor, pageOnly}},
		{"op", &a.Op, [2]string{opSet, opDelete}},
		{"conflict_policy", &a.Policy, [2]string{replace, ifAbsent}},
	} {
		switch *f.to {
		case "":
			*f.to = f.values[0]
		case f.values[0], f.values[1]:
		default:
			return badRequest("validation_error", fmt.Sprintf("%s must be %s or %s", f.name, f.values[0], f.values[1]))
		}
	}
	if a.Reason == "" {
		a.Reason = "builtin:set_variable"
	}
	if utf8.RuneCountInString(a.Reason) > maxReason {
		return badRequest("validation_error", fmt.Sprintf("reason is longer than %d characters", maxReason))
	}
	if err := checkKey(a.Key); err != nil {
		return err
	}
	if a.Op == opDelete {
		if a.Value != nil && string(a.Value) != "null" {
			return badRequest("validation_error", "a delete has no value")
		}
		a.Value = json.RawMessage("null")
		return nil
	}
	value, err := compact(a.Value)
	a.Value = value
	return err
}

func (t setVariable) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var a setArgs
	if err := json.Unmarshal(in.Args, &a); err != nil {
		return tool.Output{}, badRequest("validation_error", "arguments: "+err.Error())
	}
	if err := a.checked(); err != nil {
		return tool.Output{}, err
	}
	authors := provenance.ByModel
	for _, origins := range in.Origins.Args { // the authors of text that came in by references
		authors |= provenance.Of(origins...)
	}
	var w stagedWrite
	err := t.s.write(ctx, in.Account, noHost, func(v view) error {
		_, f, err := v.pageOfCall(in)
		if err != nil {
			return err
		}
		if !f.stages() {
			return conflict("variable_target_locked", invalidState(f, "").Error(),
				"stage while the floor is draft or generating")
		}
		w = stagedWrite{
			ID: t.s.newID("stg_"), Key: a.Key, Op: a.Op, Intent: a.Intent, Policy: a.Policy,
			Status: isStaged,
		}
		return v.Run(`INSERT INTO scope_staged (id, account, page, key, op, value, intent, policy, reason, authors,
			run, attempt,
			status, created) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
			w.ID, in.Account, in.Host.Page, w.Key, w.Op, []byte(a.Value), w.Intent, w.Policy, a.Reason, authors,
			f.run, f.attempt,
			w.Status, v.now)
	})
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{
		Data: map[string]any{"id": w.ID, "key": w.Key, "status": w.Status},
		Text: fmt.Sprintf("Variable '%s' is staged for this page; it holds when the page is accepted.", a.Key),
	}, nil
}

// pageOfCall returns the page that a call names, and its floor.
func (v view) pageOfCall(in tool.In) (PageInfo, FloorInfo, error) {
	if in.Host.Page == "" {
		return PageInfo{}, FloorInfo{}, &tool.Error{
			Code: "invalid_variable_context", Msg: "the call names no page", Hint: "send context.page_id with the call",
		}
	}
	p, f, err := v.pageAndFloor(in.Host.Page)
	if err != nil {
		return p, f, err
	}
	if f.Session != in.Session || in.Host.Floor != "" && in.Host.Floor != f.ID || in.Host.Branch != "" &&
		in.Host.Branch != f.Branch {
		err = badRequest("invalid_variable_context",
			"the page is of another session, floor or branch than the call says")
	}
	return p, f, err
}

type getVariable struct{ s *Store }

func (getVariable) Spec() tool.Spec {
	return tool.Spec{
		Name: "get_variable", Class: tool.ClassState, ReadOnly: true, NoCache: true,
		Description: "Read a variable of this conversation: what was staged for the page, else what holds there.",
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true},
		Schema: json.RawMessage(`{
	"type": "object", "required": ["key"], "additionalProperties": false,
	"properties": {
		"key": {"type": "string", "minLength": 1, "maxLength": 256, "description": "name of the variable"}
	}}`),
	}
}

func (getVariable) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (t getVariable) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var a struct{ Key string }
	if err := json.Unmarshal(in.Args, &a); err != nil {
		return tool.Output{}, badRequest("validation_error", "arguments: "+err.Error())
	}
	if err := checkKey(a.Key); err != nil {
		return tool.Output{}, err
	}
	value, origin := json.RawMessage("null"), tool.Origin("")
	err := t.s.read(ctx, in.Account, noHost, func(v view) error {
		p, f, err := v.pageOfCall(in)
		if err != nil {
			return err
		}
		w, err := scanStaged(v.Row(`SELECT `+stagedColumns+` FROM scope_staged WHERE page = $1 AND status = $2 AND
			key = $3
			ORDER BY created DESC, id DESC LIMIT 1`, p.ID, isStaged, a.Key))
		if err == nil {
			value, origin = w.Value, w.authors.Worst()
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		x, ok, err := v.effective(place{f.Session, f.Branch, f.ID, p.ID}, a.Key)
		if ok {
			value, origin = x.Value, x.authors.Worst()
		}
		return err
	})
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{
		Data: map[string]any{"key": a.Key, "value": value}, Text: string(value), Origin: origin,
	}, nil
}
