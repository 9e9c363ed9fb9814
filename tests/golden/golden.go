// Package golden lets a test compare a committed file, or a section of a page, with what the code
// says now, and write it: documents, tables in documents, and lists of what the code does.
//
//	golden.Check(t, "../docs/openapi.json", document)
//	golden.Section(t, "../docs/policies.md", "modes", table)
//
// A test calls Check or Section, and fails when the file says something else. With the flag -update
// it writes the file instead; [Update] reports that. "make generate" does so for all of them. It
// finds the packages by their import of this one (in the module agent it runs ./integration alone),
// and the tests by their names: each has Generated in its name, and a test without it fails. A
// section must stand in its page already.
//
// To add a generated file, write such a test in the package that knows its content. What it passes must be the
// same on every machine and in every run. The file is named from the directory of the package. The text of a
// section ends with a line feed. With -update, Check makes a file that does not exist, but no directory. Only one
// test may write a file at a time.
//
// A test that calls [Slow] first is skipped unless -update is set or it is a run of make long. So
// only make generate, after which .ci/run looks for differences, holds its file to the code.
package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/tier"
)

var update = flag.Bool("update", false, "write the generated files, as make generate does")

// Update reports whether files are written.
func Update() bool { return *update }

// Slow leaves a test of a generated file to make generate, which .ci/run calls, and to make long. What else the test
// holds is held there.
func Slow(t testing.TB, why string) {
	t.Helper()
	if !*update && !tier.IsLong() {
		t.Skip("make generate runs it: " + why)
	}
}

// Check holds the whole file against want.
func Check(t testing.TB, file, want string) {
	t.Helper()
	if !strings.Contains(t.Name(), "Generated") {
		t.Fatalf("make generate does not find %s: the name of a test of a generated file has Generated in it", t.Name())
	}
	got, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err == nil && string(got) == want {
		return
	}
	if !*update {
		t.Errorf("%s is not what the code says; run make generate. %s", file, difference(string(got), want))
		return
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Section holds a part of a page against want: the lines between the line that begins
// with "<!-- name: " and the next line "<!-- end -->".
func Section(t testing.TB, file, name, want string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := replace(string(page), name, want)
	if !ok {
		t.Fatalf("%s has no section %q that ends", file, name)
	}
	Check(t, file, text)
}

// replace puts text into the section of a page; ok is false where there is none.
func replace(page, name, text string) (out string, ok bool) {
	const end = "<!-- end -->\n"
	begin := strings.Index(page, "<!-- "+name+": ")
	if begin < 0 {
		return "", false
	}
	line := strings.Index(page[begin:], "\n")
	last := strings.Index(page[begin:], end)
	if line < 0 || last < line {
		return "", false
	}
	return page[:begin+line+1] + text + page[begin+last:], true
}

// difference shows the first line that differs.
func difference(got, want string) string {
	have, made := strings.Split(got, "\n"), strings.Split(want, "\n")
	line := func(text []string, i int) string {
		if i < len(text) {
			return text[i]
		}
		return "(end of the file)"
	}
	i := 0
	for i < min(len(have), len(made)) && have[i] == made[i] {
		i++
	}
	return "The first line that differs:\n- " + line(have, i) + "\n+ " + line(made, i)
}
