package sandbox

import (
	"slices"
	"testing"
)

func TestWithEnv(t *testing.T) {
	env := []string{"A=1", "B=2", "AB=3"}
	for _, tt := range []struct{ more, want []string }{
		{nil, []string{"A=1", "B=2", "AB=3"}},
		{[]string{"A=9", "C=4"}, []string{"B=2", "AB=3", "A=9", "C=4"}},
		{[]string{"B=", "B=7"}, []string{"A=1", "AB=3", "B=7"}},
		{[]string{"B="}, []string{"A=1", "AB=3", "B="}},
		{[]string{"=x", "nothing"}, []string{"A=1", "B=2", "AB=3"}},
	} {
		if got := withEnv(env, tt.more); !slices.Equal(got, tt.want) {
			t.Errorf("with %q: %q, want %q", tt.more, got, tt.want)
		}
	}
	if !slices.Equal(env, []string{"A=1", "B=2", "AB=3"}) {
		t.Errorf("changed to %q", env)
	}
}
