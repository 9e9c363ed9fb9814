package later

import (
	"slices"
	"testing"
)

// Of a path below ~ every home that it may mean is looked at, once, and none where nothing is known.
func TestTheHomesThatAPathMayMean(t *testing.T) {
	n := naming{tree: &tree{root: "/nowhere/at/all"}}
	for value, want := range map[string][]string{
		"~/x": {"/a/c/x", "/a/x", "//x"}, "~": nil, "~nobody-here/x": {"/a/c/x", "/a/x", "//x"},
		"y": {"/d/y"}, "": nil, ":(optional)y": {"/d/y"},
	} {
		if got := n.expand(value, "/d", "/a/c"); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
