package guard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/shellparse"
)

// Denied is a permission that the floor does not give.
type Denied struct {
	Type     string // "path" or "command"
	Value    string // the path or command as it was given
	Refusals []Refusal
}

// Error returns the first reason.
func (d *Denied) Error() string { return d.Refusals[0].Message }

// Judgement is a verdict with its reasons and what it rests on.
type Judgement struct {
	Verdict  Verdict
	Reasons  []Refusal
	Uses     Uses
	Resolved string // of a path; "" if it cannot be known
}

// JudgeCommand parses and checks one command line under exactly these settings. The answer tells nothing about what
// lies in hidden places.
func JudgeCommand(cmd, dir, home string, s Settings, hidden ...string) Judgement {
	r, bad := prepare(s, hidden...)
	if bad != nil {
		return judgement([]Refusal{*bad})
	}
	return r.JudgeCommand(cmd, dir, home)
}

// JudgePath checks one path under exactly these settings. The answer tells nothing about what lies in hidden places.
func JudgePath(path string, op Op, dir, home string, s Settings, hidden ...string) Judgement {
	r, bad := prepare(s, hidden...)
	if bad != nil {
		return judgement([]Refusal{*bad})
	}
	return r.JudgePath(path, op, dir, home)
}

func prepare(s Settings, hidden ...string) (*Rules, *Refusal) {
	places := newPathSet(hidden)
	n, _, err := s.normalise(places)
	if err != nil {
		return nil, &Refusal{
			Code: "settings_invalid", Message: err.Error(), Hint: "correct the settings",
			Rule: "settings",
		}
	}
	r := NewRules(n)
	r.hidden, r.closed = places, newPathSet(slices.Concat(n.DeniedPaths, hidden))
	return r, nil
}

// Resolve is [Resolve] without a look into places that the rules deny: a path below them stays as it was given. Nil
// rules deny none.
func (r *Rules) Resolve(path, dir, home string) (string, error) {
	path, err := withHome(path, home)
	if err != nil {
		return "", err
	}
	return r.physical(path, dir, newNames(r.closedPlaces()))
}

func (r *Rules) closedPlaces() pathSet {
	if r == nil {
		return pathSet{}
	}
	return r.closed
}

// physical resolves a path, unless it leads to a hidden place. What these rules say about that place cannot be told
// without a look.
func (r *Rules) physical(path, dir string, seen *names) (string, error) {
	resolved, err := resolve(path, dir, seen)
	if err != nil || r == nil {
		return resolved, err
	}
	if _, hidden := r.hidden.above(resolved); hidden {
		if _, denied := r.denied.above(resolved); !denied {
			return "", &PathError{
				"path_closed", path,
				fmt.Sprintf("path '%s' leads to a place that the daemon denies, and is not looked at", path),
				"judge it under settings that deny it too, or with sandboxd check, as yourself",
			}
		}
	}
	return resolved, nil
}

// JudgeCommand is [JudgeCommand] under prepared rules.
func (r *Rules) JudgeCommand(cmd, dir, home string) Judgement {
	script, err := shellparse.Parse(cmd, shellparse.Options{Dir: dir, Home: home})
	if err != nil {
		return judgement([]Refusal{refusalOf(err)})
	}
	u := r.ScriptUses(script, dir)
	j := judgement(r.Check(u))
	j.Uses = u
	return j
}

// JudgePath is [JudgePath] under prepared rules.
func (r *Rules) JudgePath(path string, op Op, dir, home string) Judgement {
	physical, err := r.Resolve(path, dir, home)
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

// refusalOf turns an error of parsing or resolving into a reason. An error of any other kind denies, too.
func refusalOf(err error) Refusal {
	if e := (*shellparse.Error)(nil); errors.As(err, &e) {
		return parseRefusal(e)
	}
	if e := (*PathError)(nil); errors.As(err, &e) {
		return Refusal{Code: e.Code, Message: e.Msg, Hint: e.Hint, Rule: "path"}
	}
	return Refusal{Code: "internal", Message: "cannot judge this: " + err.Error(), Rule: "fail closed"}
}

// Verdict is the outcome of judging, by the guard or of a whole call. The zero value denies.
type Verdict int

// The verdicts, strictest first.
const (
	Deny Verdict = iota
	Ask
	Allow
)

var verdictNames = [...]string{"deny", "ask", "allow"}

func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdictNames) {
		return "deny"
	}
	return verdictNames[v]
}

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown text is Deny.
func (v *Verdict) UnmarshalText(b []byte) error {
	*v = Deny
	for i, n := range verdictNames {
		if n == string(b) {
			*v = Verdict(i)
		}
	}
	return nil
}
