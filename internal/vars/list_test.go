package vars_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// Pages are the whole list in parts, kept variables and others in one order, with and without a
// filter; the total is that of all pages.
func TestV12_PagesAreTheListInParts(t *testing.T) {
	f := newFixture(t, vars.Options{Capacity: 60})
	r := rand.New(rand.NewPCG(1, 2))
	var refs strings.Builder
	for i := range 100 { // 40 of them are evicted, unless they are kept
		keep, name := r.IntN(4) == 0, fmt.Sprintf("v%03d", r.IntN(1000))
		if _, _, err := f.Put(t.Context(), "s", name, vars.Change{Value: ptr(""), Keep: &keep}, tool.OriginPerson); err != nil {
			t.Fatal(err)
		}
		if i > 90 {
			fmt.Fprintf(&refs, "$VAR_REF{{%s}}", name) // one visit of all: equal times
		}
	}
	if _, err := f.resolve(fmt.Sprintf(`{"x":%q}`, refs.String())); err != nil {
		t.Fatal(err)
	}
	page := func(filter vars.Filter) (all []vars.Var, total int) {
		p, err := f.List(t.Context(), "s", filter)
		if err != nil {
			t.Fatal(err)
		}
		for v, err := range p.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		return all, p.Total
	}
	names := func(all []vars.Var) (list []string) {
		for _, v := range all {
			list = append(list, v.Name)
		}
		return list
	}
	for _, search := range []string{"", "v", "0"} {
		whole, total := page(vars.Filter{Search: search})
		want := slices.Clone(whole)
		slices.SortFunc(want, func(a, b vars.Var) int {
			return cmp.Or(b.LastVisited.Compare(a.LastVisited), b.Updated.Compare(a.Updated), b.Created.Compare(a.Created),
				strings.Compare(a.Name, b.Name))
		})
		if !slices.Equal(names(whole), names(want)) || total != len(whole) || len(whole) < 5 {
			t.Errorf("search %q, %d of %d:\ngot  %q\nwant %q", search, len(whole), total, names(whole), names(want))
		}
		var parts []string
		for offset := 0; offset <= total; offset += 7 {
			part, of := page(vars.Filter{Search: search, Limit: 7, Offset: offset})
			if parts = append(parts, names(part)...); of != total || len(part) > 7 {
				t.Errorf("search %q: a page from %d has %d of %d", search, offset, len(part), of)
			}
		}
		if !slices.Equal(parts, names(whole)) {
			t.Errorf("search %q, in parts:\ngot  %q\nwant %q", search, parts, names(whole))
		}
	}
}
