package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestT56_FilterDenyWins(t *testing.T) {
	all := []tool.Tool{named("Read"), named("Bash"), named("Edit")}
	for _, tt := range []struct {
		name              string
		allow, deny, want []string
	}{
		{"no lists", nil, nil, []string{"Read", "Bash", "Edit"}},
		{"empty lists", []string{}, []string{}, []string{"Read", "Bash", "Edit"}},
		{"allow", []string{"Edit"}, nil, []string{"Edit"}},
		{"deny", nil, []string{"Bash"}, []string{"Read", "Edit"}},
		{"in both", []string{"Bash", "Read"}, []string{"Bash"}, []string{"Read"}},
		{"CX-70: case does not matter in lists", []string{"read", "BASH"}, []string{"bash"}, []string{"Read"}},
		{"nothing known", []string{"Nope"}, nil, []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(catalog.Filter(all, tt.allow, tt.deny)); !cmp.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
