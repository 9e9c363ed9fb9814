package guard

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Rules are settings prepared for many checks: the cost of one check does not grow with the number of rules. They
// are safe for concurrent use.
type Rules struct {
	s       Settings
	denied  pathSet
	closed  pathSet // no look goes into these places: denied, and hidden
	hidden  pathSet // what the daemon denies, if the caller brings settings
	read    pathSet
	write   pathSet
	allowed map[string]bool // nil: every command is allowed that is not denied
	refused map[string]bool
}

// NewRules prepares settings that [Settings.Normalise] has returned.
func NewRules(s Settings) *Rules {
	denied := newPathSet(s.DeniedPaths)
	r := &Rules{
		s: s, denied: denied, closed: denied, read: newPathSet(s.AllowedReadPaths),
		write: newPathSet(s.AllowedWritePaths),
	}
	if s.AllowedCommands != nil {
		r.allowed = set(s.AllowedCommands)
	} else {
		r.refused = set(s.DeniedCommands)
	}
	return r
}

// Network returns where programs may connect under these rules. Nil rules let them connect nowhere.
func (r *Rules) Network() Network {
	if r == nil {
		return Network{}
	}
	return r.s.Network
}

// Check compares what a call would touch with the settings. It is pure: nil means inside
// the floor, and the same input has the same answer.
func (r *Rules) Check(u Uses) []Refusal {
	var out []Refusal
	if u.Script != nil {
		out = r.checkScript(u.Script)
	}
	for _, p := range u.Paths {
		if ref := r.checkPath(p, u.Script != nil); ref != nil {
			out = append(out, *ref)
		}
	}
	for _, h := range u.Hosts {
		if ref := checkHost(h, r.s); ref != nil {
			out = append(out, *ref)
		}
	}
	for _, s := range u.Siblings {
		if _, open := r.write.above(s.Path); open { // else the path itself is refused already
			out = append(out, s.asks())
		}
	}
	if u.Unconfined {
		out = append(out, unconfined(r.s))
	}
	slices.SortStableFunc(out, func(a, b Refusal) int { return cmp.Compare(a.At.Offset, b.At.Offset) })
	return slices.CompactFunc(out, func(a, b Refusal) bool { return a == b })
}

// unconfined answers a call that asks to leave the sandbox (CX-62): with no, or with a question to a person.
func unconfined(s Settings) Refusal {
	if !s.AllowUnsandboxedCommands {
		return Refusal{
			Code: "unsandboxed_refused", Message: "commands do not run outside the sandbox",
			Rule: "allowUnsandboxedCommands: false",
			Hint: "leave the argument out; when the sandbox stops something, the answer says which setting allows it",
		}
	}
	return Refusal{
		Code: "unsandboxed_asked", Message: "it asks to read and write every file but the denied ones",
		Rule: "allowUnsandboxedCommands", Ask: true,
		Hint: "leave the argument out to run it in the sandbox as it is",
	}
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// pathSet tells whether a path is one of these or lies below one. It looks up the path and each of its parents.
type pathSet struct {
	paths map[string]string // the form for comparison -> as configured
	all   []string          // for patterns and trees, which are compared with each
}

func newPathSet(paths []string) pathSet {
	ps := pathSet{paths: make(map[string]string, len(paths)), all: paths}
	for _, p := range paths {
		key := sameOnAnyVolume(p)
		if len(key) > 1 {
			key = strings.TrimRight(key, "/")
		}
		ps.paths[key] = p
	}
	return ps
}

func (ps pathSet) empty() bool { return len(ps.all) == 0 }

func (ps pathSet) above(path string) (string, bool) {
	if len(ps.paths) == 0 {
		return "", false
	}
	path = sameOnAnyVolume(path)
	for {
		if p, ok := ps.paths[path]; ok {
			return p, true
		}
		i := strings.LastIndexByte(path, '/')
		if i <= 0 {
			p, ok := ps.paths["/"]
			return p, ok
		}
		path = path[:i]
	}
}

// maxPrepared is how many settings [Prepared] keeps rules for: those of the daemon, and of a few sessions with their
// own.
const maxPrepared = 8

// Prepared keeps the rules of the settings that were used last, so that a judgement does not prepare them again. The
// zero value is ready, and it is safe for concurrent use.
type Prepared struct {
	mu   sync.Mutex
	kept []*Rules // guarded by mu; the oldest first
}

// Rules is [NewRules], without work if settings with the same lists were prepared before. It compares the lists by
// content and keeps copies, so that nobody can change prepared rules from outside.
func (p *Prepared) Rules(s Settings) *Rules {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.kept {
		if sameLists(r.s, s) {
			same := *r
			same.s = s
			return &same
		}
	}
	own := s
	for _, list := range lists(&own) {
		*list = slices.Clone(*list)
	}
	if len(p.kept) >= maxPrepared {
		p.kept = slices.Delete(p.kept, 0, 1)
	}
	r := NewRules(own)
	p.kept = append(p.kept, r)
	return r
}

// lists returns the settings that [NewRules] prepares.
func lists(s *Settings) [5]*[]string {
	return [...]*[]string{
		&s.DeniedPaths, &s.AllowedReadPaths, &s.AllowedWritePaths, &s.AllowedCommands, &s.DeniedCommands,
	}
}

func sameLists(a, b Settings) bool {
	of, other := lists(&a), lists(&b)
	for i := range of {
		if (*of[i] == nil) != (*other[i] == nil) || !slices.Equal(*of[i], *other[i]) {
			return false
		}
	}
	return true
}
