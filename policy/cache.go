package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// cache remembers rule results during one evaluation, as topdown.VirtualCache. The
// engine's own is a tree of maps with one level per word of a rule's name: a third
// of the time of a decision in which no rule holds.
type cache struct{ frames []frame }

// frame holds results in the order they came. Few are looked up by a scan over
// their hashes, many by a map.
type frame struct {
	results []ruleResult
	byHash  map[int][]int // into results; nil while a scan is quicker
}

type ruleResult struct {
	hash  int
	ref   ast.Ref
	value *ast.Term // nil: the rule is undefined
}

// scanned is how many results are looked up without a map.
const scanned = 32

func newCache() *cache {
	return &cache{frames: []frame{{results: make([]ruleResult, 0, 8)}}}
}

func (c *cache) Push() { c.frames = append(c.frames, frame{}) }

func (c *cache) Pop() { c.frames = c.frames[:len(c.frames)-1] }

// Get answers (nil, false) for a rule that was not evaluated and (nil, true) for
// one that is undefined.
func (c *cache) Get(ref ast.Ref) (value *ast.Term, undefined bool) {
	f := c.top()
	if i := f.find(hashOf(ref), ref); i >= 0 {
		return f.results[i].value, f.results[i].value == nil
	}
	return nil, false
}

func (c *cache) Put(ref ast.Ref, value *ast.Term) {
	f, h := c.top(), hashOf(ref)
	if i := f.find(h, ref); i >= 0 {
		f.results[i].value = value
		return
	}
	f.results = append(f.results, ruleResult{h, slices.Clone(ref), value}) // the engine uses ref again
	switch n := len(f.results); {
	case f.byHash != nil:
		f.byHash[h] = append(f.byHash[h], n-1)
	case n > scanned:
		f.byHash = make(map[int][]int, 2*n)
		for i, r := range f.results {
			f.byHash[r.hash] = append(f.byHash[r.hash], i)
		}
	}
}

func (c *cache) Keys() []ast.Ref {
	var out []ast.Ref
	for _, r := range c.top().results {
		if r.value != nil {
			out = append(out, r.ref)
		}
	}
	return out
}

func (c *cache) top() *frame { return &c.frames[len(c.frames)-1] }

func (f *frame) find(hash int, ref ast.Ref) int {
	if f.byHash != nil {
		for _, i := range f.byHash[hash] {
			if same(f.results[i].ref, ref) {
				return i
			}
		}
		return -1
	}
	for i := range f.results {
		if f.results[i].hash == hash && same(f.results[i].ref, ref) {
			return i
		}
	}
	return -1
}

func same(a, b ast.Ref) bool { return slices.EqualFunc(a, b, (*ast.Term).Equal) }

func hashOf(ref ast.Ref) int {
	h := len(ref)
	for _, t := range ref {
		h = h*31 + t.Hash()
	}
	return h
}
