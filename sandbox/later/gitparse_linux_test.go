package later

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// sameAsGit reports how a text is read here and by git, if that differs.
func sameAsGit(dir, text string) error {
	entries, err := parseGit(text)
	if errors.Is(err, errGitNUL) {
		return nil // which is never harmless
	}
	file := filepath.Join(dir, "config")
	if e := os.WriteFile(file, []byte(text), 0o600); e != nil {
		return e
	}
	cmd := exec.Command("git", "config", "-f", file, "--no-includes", "--list", "-z")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	out, gitErr := cmd.Output()
	if gitErr != nil && err != nil {
		return nil
	}
	if gitErr == nil && err != nil && outside(out) {
		return nil // git lists a key without a section, and refuses it when it uses the file
	}
	if gitErr != nil || err != nil {
		return fmt.Errorf("%q: %v here, %v for git", text, err, gitErr)
	}
	var value, older strings.Builder
	for _, e := range entries {
		if value.WriteString(e.key); !e.bare {
			value.WriteString("\n" + e.value)
		}
		if older.WriteString(e.key); !e.bare {
			older.WriteString("\n" + e.older)
		}
		value.WriteByte(0)
		older.WriteByte(0)
	}
	if got := string(out); got != value.String() && got != older.String() {
		return fmt.Errorf("%q: %q here, %q for git", text, value.String(), got)
	}
	return nil
}

// outside reports whether a list of git's has a key without a section.
func outside(list []byte) bool {
	for entry := range bytes.SplitSeq(list, []byte{0}) {
		key, _, _ := bytes.Cut(entry, []byte("\n"))
		if len(key) > 0 && !bytes.Contains(bytes.TrimLeft(key, "."), []byte(".")) {
			return true
		}
	}
	return false
}

var gitTexts = []string{
	"", "; x\n# y\n[a] ; z\nb", "b=c", "[a][c]d=e [f]g=h", "[A-1]B-2=c",
	"\ufeff[a]b=c", "\xef\xbb[a]b=c", "[a]\r\nb = c\r\nd = e\r", "[a]\rb=c", "[a]b=x\\\r\ny\n", "[a]b\r=c",
	"[a \"]b=x\"]c=d", "[a \"x\\\"]\\\\y\"] c = d", "[a.B.c]D", "[a.b \"C\"]d=e", "[a \t\"\"]b", "[a\n\"b\"]c",
	"[]b=c", "[]", "[ \"x\"]b", "[a \"b\" ]c=d", "[a b]c", "[a\"b\"]c", "[a", "[a]b", "[a]b =", "[a]b c=d", "[a]-b", "[a]1b",
	"[a]b = \"x  y\" z ; t\n", "[a]b=x#y", "[a]b=\"x#y\"", "[a]b=x\\\n  y  # z\\\n[c]d=e", "[a]b=\\q", "[a]b=\"x",
	"[a]b=x\ty \"\t\" ", "[a]b=  \\\n  x", "[a]b=x \\", "[a]b = \\t\\n\\b\\\\", "[a]b=x \ty", "[a]b=\"\" x",
	"[a \"b\\\nc\"]d=e", "[a]b=c\x00d", "[a]\fb=c", "[a]b\v=c", "[a]b=\x80\v",
}

// TestParseGit: this reader and git agree on keys and values.
func TestParseGit(t *testing.T) {
	needs.Program(t, "git")
	dir := t.TempDir()
	for _, text := range gitTexts {
		if err := sameAsGit(dir, text); err != nil {
			t.Error(err)
		}
	}
	parts := rapid.SampledFrom([]string{
		"[", "]", "\"", "\\", "=", "\n", "\r", "\r\n", " ", "\t", "#", ";", "a", "B", "1", "-", ".",
		"[a]", "[a \"b\"]", "\nk=", "\nk", "\\\n", "\\t", "é", "\x80", "\v",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "[s]\n", "[s]k="}).Draw(t, "head") +
			strings.Join(rapid.SliceOfN(parts, 0, 12).Draw(t, "parts"), "")
		if err := sameAsGit(dir, text); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseGit(f *testing.F) {
	needs.Program(f, "git")
	for _, text := range gitTexts {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if err := sameAsGit(dir, text); err != nil {
			t.Error(err)
		}
	})
}
