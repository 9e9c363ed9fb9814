package vars_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// TestV06_V07_EvictionLikeTheRows compares thousands of random steps with the
// rows read literally: add, then throw out one after the other. The clock often
// stands still, so that every tie is met.
func TestV06_V07_EvictionLikeTheRows(t *testing.T) {
	seeds := uint64(20)
	if slow {
		seeds = 2
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		now := time.Unix(1_800_000_000, 0)
		capacity := 3 + r.IntN(5)
		f := newFixture(t, vars.Options{Capacity: capacity, Now: func() time.Time { return now }})
		m := &literal{capacity: capacity, kept: 2} // the built-in rules
		for step := range 150 {
			now = now.Add(time.Duration(r.IntN(2)) * time.Second)
			name := string(rune('a' + r.IntN(12)))
			switch r.IntN(6) {
			case 0:
				f.get(name)
				if e := m.find(name); e != nil {
					e.visited = now
				}
			case 1:
				if _, _, err := f.Remove(t.Context(), "s", []string{name}); err != nil {
					t.Fatal(err)
				}
				m.all = slices.DeleteFunc(m.all, func(e *entry) bool { return e.name == name })
			default:
				c := vars.Change{Value: ptr("v")}
				if r.IntN(8) == 0 {
					c.Keep = ptr(true)
				}
				if _, _, err := f.Put(t.Context(), "s", name, c, tool.OriginPerson); err != nil {
					t.Fatal(err)
				}
				m.put(name, now, c.Keep != nil)
			}
			got := f.list(vars.Filter{})
			slices.Sort(got)
			if want := m.names(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, step %d, capacity %d: got %v, want %v", seed, step, capacity, got, want)
			}
		}
	}
}

type entry struct {
	name                      string
	keep                      bool
	visited, updated, created time.Time
}

// literal is a variable system with nothing but the rule of eviction.
type literal struct {
	capacity, kept int // kept counts those that are not in all
	all            []*entry
}

func (m *literal) find(name string) *entry {
	if i := slices.IndexFunc(m.all, func(e *entry) bool { return e.name == name }); i >= 0 {
		return m.all[i]
	}
	return nil
}

func (m *literal) put(name string, now time.Time, keep bool) {
	e := m.find(name)
	if e == nil {
		e = &entry{name: name, created: now}
		m.all = append(m.all, e)
	}
	e.keep = e.keep || keep
	e.visited, e.updated = now, now
	for len(m.all)+m.kept > m.capacity {
		loose := slices.DeleteFunc(slices.Clone(m.all), func(e *entry) bool { return e.keep })
		if len(loose) == 0 || len(loose) == 1 && !e.keep {
			return // kept ones fill the session, and there is room for a new one still
		}
		victim := slices.MinFunc(loose, func(a, b *entry) int {
			return cmp.Or(a.visited.Compare(b.visited), a.updated.Compare(b.updated), a.created.Compare(b.created),
				-cmp.Compare(a.name, b.name))
		})
		m.all = slices.DeleteFunc(m.all, func(e *entry) bool { return e == victim })
	}
}

func (m *literal) names() []string {
	names := []string{}
	for _, e := range m.all {
		names = append(names, e.name)
	}
	slices.Sort(names)
	return names
}
