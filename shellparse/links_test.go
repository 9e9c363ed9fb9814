package shellparse

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestALinkThatLeadsToTooMuchLeadsAnywhere makes one name a link to 64 and to 65 places.
func TestALinkThatLeadsToTooMuchLeadsAnywhere(t *testing.T) {
	for n, anywhere := range map[int]bool{64: false, 65: true} {
		var line strings.Builder
		for i := range n {
			fmt.Fprintf(&line, "ln -sfn d%d l; ", i)
		}
		line.WriteString("touch l/x")
		p, err := Parse(line.String(), Options{Dir: "/w"})
		if err != nil {
			t.Fatal(err)
		}
		files := p.Commands[len(p.Commands)-1].Files
		last := fmt.Sprintf("/w/d%d/x", 63)
		if got := slices.ContainsFunc(files, func(f File) bool { return !f.Known }); got != anywhere {
			t.Errorf("%d places: a file that is not known: %v", n, got)
		}
		if !slices.ContainsFunc(files, func(f File) bool { return f.Path == last }) {
			t.Errorf("%d places: no %s among the files", n, last)
		}
	}
}
