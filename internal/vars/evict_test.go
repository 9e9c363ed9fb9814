package vars_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// TestV06_V07_EvictionLikeTheRows compares thousands of random steps with the
// rows read literally: add, then throw out one after the other. The clock often
// stands still, so that every tie is met. Some values are so large that they have rows of their own.
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
				f.sameValue(name, m.find(name))
			case 1:
				if _, _, err := f.Remove(t.Context(), "s", []string{name}); err != nil {
					t.Fatal(err)
				}
				m.all = slices.DeleteFunc(m.all, func(e *entry) bool { return e.name == name })
			default:
				c := vars.Change{Value: ptr(strings.Repeat(name, 1+r.IntN(3)/2*(64<<10)+r.IntN(2)))}
				if r.IntN(8) == 0 {
					c.Keep = ptr(true)
				}
				if _, _, err := f.Put(t.Context(), "s", name, c, tool.OriginPerson); err != nil {
					t.Fatal(err)
				}
				m.put(name, *c.Value, now, c.Keep != nil)
			}
			f.onlyLarge(m.large())
			got := f.list(vars.Filter{})
			slices.Sort(got)
			if want := m.names(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, step %d, capacity %d: got %v, want %v", seed, step, capacity, got, want)
			}
		}
	}
}

// sameValue reads a variable, or finds that there is none.
func (f *fixture) sameValue(name string, want *entry) {
	f.t.Helper()
	v, ok := f.get(name)
	if ok != (want != nil) || ok && (*v.Value != want.value || v.Length != len(want.value)) {
		f.t.Fatalf("%s: found %t with %d characters, want %+.80v", name, ok, v.Length, want)
	}
}

// onlyLarge fails unless exactly so many values have rows of their own, which variables name.
func (f *fixture) onlyLarge(want int) {
	f.t.Helper()
	var rows, named, inside int
	err := f.db.Read(f.t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT (SELECT count(*) FROM var_large),
			(SELECT count(*) FROM vars JOIN var_large ON id = large WHERE length(vars.value) = 0),
			(SELECT count(*) FROM vars WHERE length(value) > 65536)`).Scan(&rows, &named, &inside)
	})
	if err != nil || rows != want || named != want || inside != 0 {
		f.t.Fatalf("%d large values, %d of a variable, %d in its row, %v, want %d", rows, named, inside, err, want)
	}
}

type entry struct {
	name, value               string
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

func (m *literal) put(name, value string, now time.Time, keep bool) {
	e := m.find(name)
	if e == nil {
		e = &entry{name: name, created: now}
		m.all = append(m.all, e)
	}
	e.value, e.keep = value, e.keep || keep
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

func (m *literal) large() (n int) {
	for _, e := range m.all {
		if len(e.value) > 64<<10 {
			n++
		}
	}
	return n
}

func (m *literal) names() []string {
	names := []string{}
	for _, e := range m.all {
		names = append(names, e.name)
	}
	slices.Sort(names)
	return names
}
