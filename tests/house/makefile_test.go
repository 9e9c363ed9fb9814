package house

import (
	"os"
	"regexp"
	"testing"
)

// TestTheMakefileQuotesItsDirectory: a clone may lie in a path with a space.
func TestTheMakefileQuotesItsDirectory(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^\t.*[^']\$\(CURDIR\).*$`).FindAllString(string(text), -1) {
		t.Errorf("$(CURDIR) has no quotes in %q", line)
	}
}
