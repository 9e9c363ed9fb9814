package sandbox

import (
	"errors"

	"github.com/sandboxd/sandboxd/shellparse"
)

// Denied is a permission that the floor does not give.
type Denied struct {
	Type     string // "path" or "command"
	Value    string // the path or command as it was given
	Refusals []Refusal
}

// Error is the first reason.
func (d *Denied) Error() string { return d.Refusals[0].Message }

// IsPathAllowed reports whether CheckPath finds no fault.
func IsPathAllowed(path string, op Op, s Settings) bool { return CheckPath(path, op, s) == nil }

// CheckPath judges one absolute path. Links are followed as they are now. The
// error is a [*Denied].
func CheckPath(path string, op Op, s Settings) error {
	if refs := JudgePath(path, op, "", "", s).Reasons; refs != nil {
		return &Denied{Type: "path", Value: path, Refusals: refs}
	}
	return nil
}

// IsCommandAllowed reports whether CheckCommand finds no fault.
func IsCommandAllowed(cmd string, s Settings) bool { return CheckCommand(cmd, s) == nil }

// CheckCommand judges one command line without a known working directory: what
// it asks a person about is refused. The error is a [*Denied].
func CheckCommand(cmd string, s Settings) error {
	if refs := JudgeCommand(cmd, "", "", s).Reasons; refs != nil {
		return &Denied{Type: "command", Value: cmd, Refusals: refs}
	}
	return nil
}

// Verdict is the floor's answer.
type Verdict string

// The verdicts. The zero value is none of them and callers deny it.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"
	Deny  Verdict = "deny"
)

// Judgement is a verdict with its reasons and what it rests on.
type Judgement struct {
	Verdict  Verdict
	Reasons  []Refusal
	Uses     Uses
	Resolved string // of a path; "" if it cannot be known
}

// JudgeCommand parses and checks one command line under s, exactly as given.
func JudgeCommand(cmd, dir, home string, s Settings) Judgement {
	r, bad := prepare(s)
	if bad != nil {
		return judgement([]Refusal{*bad})
	}
	return r.JudgeCommand(cmd, dir, home)
}

// JudgePath checks one path under s, exactly as given.
func JudgePath(path string, op Op, dir, home string, s Settings) Judgement {
	r, bad := prepare(s)
	if bad != nil {
		return judgement([]Refusal{*bad})
	}
	return r.JudgePath(path, op, dir, home)
}

func prepare(s Settings) (*Rules, *Refusal) {
	n, _, err := s.Normalise()
	if err != nil {
		return nil, &Refusal{Code: "settings_invalid", Message: err.Error(), Hint: "correct the settings", Rule: "settings"}
	}
	return NewRules(n), nil
}

// JudgeCommand is [JudgeCommand] under prepared rules.
func (r *Rules) JudgeCommand(cmd, dir, home string) Judgement {
	script, err := shellparse.Parse(cmd, shellparse.Options{Dir: dir, Home: home})
	if err != nil {
		return judgement([]Refusal{refusalOf(err)})
	}
	u := ScriptUses(script, dir, home)
	j := judgement(r.Check(u))
	j.Uses = u
	return j
}

// JudgePath is [JudgePath] under prepared rules.
func (r *Rules) JudgePath(path string, op Op, dir, home string) Judgement {
	physical, err := Resolve(path, dir, home)
	if err != nil {
		return judgement([]Refusal{refusalOf(err)})
	}
	u := Uses{Paths: []PathUse{{Raw: path, Path: physical, Op: op}}}
	j := judgement(r.Check(u))
	j.Uses, j.Resolved = u, physical
	return j
}

func judgement(refs []Refusal) Judgement {
	j := Judgement{Verdict: Allow, Reasons: refs}
	for _, ref := range refs {
		if !ref.Ask {
			j.Verdict = Deny
			return j
		}
		j.Verdict = Ask
	}
	return j
}

// refusalOf turns an error of parsing or resolving into a reason; an error of any
// other kind is a denial too.
func refusalOf(err error) Refusal {
	if e := (*shellparse.Error)(nil); errors.As(err, &e) {
		return parseRefusal(e)
	}
	if e := (*PathError)(nil); errors.As(err, &e) {
		return Refusal{Code: e.Code, Message: e.Msg, Hint: e.Hint, Rule: "path"}
	}
	return Refusal{Code: "internal", Message: "cannot judge this: " + err.Error(), Rule: "fail closed"}
}
