package provenance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/provenance"
)

func TestHostsAreBounded(t *testing.T) {
	var many []string
	for i := range 8 {
		many = append(many, fmt.Sprintf("h%d.example", i))
	}
	others := "and others"
	for _, tt := range []struct {
		name        string
		first, then []string
		want        []string
	}{
		{"nothing", nil, nil, nil},
		{"each once", []string{"b", "a"}, []string{"a", "", "c"}, []string{"b", "a", "c"}},
		{"as many as fit", many, many, many},
		{"one more", many, []string{"x"}, append(slices.Clone(many), others)},
		{"others stay last", append(slices.Clone(many[:2]), others), []string{"x"}, []string{many[0], many[1], "x", others}},
		{"more than fit, twice", append(slices.Clone(many), "x"), []string{"y"}, append(slices.Clone(many), others)},
		{"no name of a host", nil, []string{"a\nb", "a b", strings.Repeat("a", 254)}, []string{others}},
	} {
		h := provenance.Hosts("").And(tt.first...).And(tt.then...)
		if got := h.List(); !slices.Equal(got, tt.want) || h.And(got...) != h {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
