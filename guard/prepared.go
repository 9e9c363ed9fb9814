package guard

import (
	"slices"
	"sync"
)

// maxPrepared is how many settings [Prepared] keeps rules for: those of the daemon,
// and of a few sessions that have their own.
const maxPrepared = 8

// Prepared keeps the rules of the settings that were asked for last, so that a
// judgement does not prepare them again. The zero value is ready, and it is safe for
// concurrent use.
//
//	refused := prepared.Rules(settings).Check(uses)
type Prepared struct {
	mu   sync.Mutex
	kept []*Rules // guarded by mu; the oldest first
}

// Rules is [NewRules], from memory where settings with the same lists were prepared
// before. The lists are compared by content, and kept as copies, so that nobody can
// change prepared rules from outside.
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

// lists are the settings that [NewRules] prepares.
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
