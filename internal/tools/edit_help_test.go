package tools

import (
	"strings"
	"testing"
)

func TestTheNearestLines(t *testing.T) {
	file := strings.Split("package a\nfunc one() {\n\treturn first\n}\nfunc two() {\n\treturn second\n}", "\n")
	for _, tt := range []struct {
		old      string
		at, same int
	}{
		{"func two() {\n\treturn third\n}", 4, 2},
		{"func two() {\n\treturn third\n\tand more\n\tand more yet", -1, 0}, // fewer than half are there
		{"nothing of it\nis there", -1, 0},
	} {
		if at, same := nearest(file, strings.Split(tt.old, "\n")); at != tt.at || same != tt.same {
			t.Errorf("%q: %d lines from %d on, want %d from %d on", tt.old, same, at, tt.same, tt.at)
		}
	}
}
