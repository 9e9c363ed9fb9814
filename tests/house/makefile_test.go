package house

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
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

// TestPartsOfLongAreNoTargets: some of them have the name of a target, which must not run as well.
func TestPartsOfLongAreNoTargets(t *testing.T) {
	text, err := os.ReadFile("../long")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^names=\((.*)\)$`).FindSubmatch(text)
	if names == nil {
		t.Fatal("tests/long has no list of its parts")
	}
	for part := range strings.FieldsSeq(string(names[1])) {
		tried := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", "../..", "-n", "long", part)
		out, err := tried.CombinedOutput()
		if want := "\ntests/long " + part + "\n:\n"; err != nil || !strings.HasSuffix(string(out), want) {
			t.Errorf("make long %s: %v, it ends with %q, want %q", part, err, out[max(0, len(out)-200):], want)
		}
	}
}
