package tool_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/tool"
)

func TestP22_RestrictedToolsAreNotListedAndNotCallable(t *testing.T) {
	s := tool.Session{Tools: map[string]bool{"Bash": true}, Groups: map[string]bool{"g": true}}
	for _, tt := range []struct {
		name              string
		allow, deny, want []string
	}{
		{"no lists", nil, nil, []string{"Bash", "Edit", "Read", "ReadVar"}},
		{"allowedTools", []string{"Read"}, nil, []string{"Read"}},
		{"disallowedTools", nil, []string{"Bash", "readvar"}, []string{"Edit", "Read"}},
		{"in both", []string{"Bash", "Read"}, []string{"Bash"}, []string{"Read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tool.NewRegistry()
			r.Restrict(tt.allow, tt.deny)
			r.Register(tool.Group{Name: "g", Tools: []tool.Tool{named("Read"), named("Bash"), named("Edit")}})
			r.Inject(named("ReadVar"))
			if got := names(r.Enabled(s)); !cmp.Equal(got, tt.want) {
				t.Errorf("listed %v, want %v", got, tt.want)
			}
			for _, name := range []string{"Bash", "Edit", "Read", "ReadVar"} {
				_, err := r.Lookup(s, name)
				if listed := slices.Contains(tt.want, name); (err == nil) != listed {
					t.Errorf("%s: callable is %v, want %v", name, err == nil, listed)
				}
			}
		})
	}
}
