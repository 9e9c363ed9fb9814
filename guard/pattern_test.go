package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
)

// TestPatternsReachWhatBashMakesOfThem: of each word bash itself says whether it is the denied file; then the guard must
// see it. Words that bash does not make it are there so that the test cannot pass by denying all.
func TestPatternsReachWhatBashMakesOfThem(t *testing.T) {
	dir := t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "secret"), "x")
	write(t, filepath.Join(dir, "[id]"), "x")
	denied := []string{filepath.Join(dir, "secret"), filepath.Join(dir, "[id]")}
	r := NewRules(Settings{DeniedPaths: denied})
	reached := 0
	for _, word := range []string{
		`s[!x]cret`, `s[^x]cret`, `s[!!]cret`, `s[!]x]cret`, `s[]e]cret`, `[[:alpha:]]ecret`, `s[![:space:]]cret`, `s[x[:alpha:]]cret`,
		`s[[=e=]]cret`, `s[[.e.]]cret`, `s[a\]e]cret`, `s[a"]"e]cret`, `s["!"e]cret`, `s[\!e]cret`, `s["^"e]cret`, `s[a\][e]cret`,
		`[r-t]ecre[t]`, `[[:alpha:]][!a]cret`, `[id]`, `./[id]`, `[i]d]`, `$PWD/secret`,
		`s[!e]cret`, `s["[:alpha:]"]cret`, `s[a"-"f]cret`, `s"["!x]cret`, `s[[:digit:]]cret`, `s[ex`,
	} {
		out, err := exec.Command("bash", "-c", `cd "$0" && for f in `+word+`; do realpath -- "$f"; done`, dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		s, err := shellparse.Parse("cat "+word, shellparse.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var refused []string
		for _, x := range r.Check(r.ScriptUses(s, dir)) {
			refused = append(refused, x.Code)
		}
		if !slices.Contains(denied, strings.TrimSpace(string(out))) {
			continue
		}
		reached++
		if len(refused) == 0 {
			t.Errorf("%s is %q, and is not refused", word, out)
		}
	}
	if reached < 20 {
		t.Errorf("bash reaches a denied file by %d words", reached)
	}
	s, err := shellparse.Parse(`cat s[!e]cret s["[:alpha:]"]cret s[a"-"f]cret s"["!x]cret`, shellparse.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Check(r.ScriptUses(s, dir)); len(got) > 0 {
		t.Errorf("words that bash does not make a denied file: %v", got)
	}
}

// TestFewMatchesOfAPatternAreNamed: rules know secrets by their names, and links lead elsewhere, so that a pattern must not
// hide either. Of many matches none is named.
func TestFewMatchesOfAPatternAreNamed(t *testing.T) {
	dir := work(t)
	write(t, filepath.Join(dir, ".env"), "K=1")
	write(t, filepath.Join(dir, ".env.example"), "K=")
	for i := range fewMatches + 1 {
		write(t, filepath.Join(dir, "sub", "many"+string(rune(97+i))), "x")
	}
	for line, want := range map[string]string{
		"cat .en?": ".env", "head .env*": ".env .env.example", "cat l[i]nk": "new.go", "cat sub/many*": "", "cat *.nothing": "",
		"grep x cle*": "clean.go",
	} {
		s, err := shellparse.Parse(line, shellparse.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range (*Rules)(nil).ScriptUses(s, dir).Paths {
			if !p.Glob {
				got = append(got, strings.TrimPrefix(p.Path, dir+"/"))
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestAPatternThatNamesOneFileLosesIt: a target is often written as a pattern without being meant as one (pages/[id].tsx),
// and one that matches a single file is that file.
func TestAPatternThatNamesOneFileLosesIt(t *testing.T) {
	dir := work(t)
	write(t, filepath.Join(dir, "[id].tsx"), "a person's")
	write(t, filepath.Join(dir, "sub/[...slug].tsx"), "a person's")
	for line, want := range map[string]string{
		"cp clean.go [id].tsx":                     "[id].tsx",
		"mv clean.go [id].tsx":                     "[id].tsx",
		"echo x > [id].tsx":                        "[id].tsx",
		"echo x >> [id].tsx":                       "",
		"ln -sf clean.go [id].tsx":                 "[id].tsx",
		"sort clean.go -o [id].tsx":                "[id].tsx",
		"cp clean.go sub/[...slug].tsx":            "sub/[...slug].tsx",
		"cp clean.go ne?.go":                       "new.go",
		"cp clean.go s[[:lower:]]b":                "",
		"cp new.go s[!x]b/":                        "sub/new.go",
		"cp new.go clea?.go":                       "",
		"cp new.go nothere*.go":                    "",
		"jq . [id].tsx > tmp && mv tmp [id].tsx":   "",
		"sed s/a/b/ ne?.go > tmp && mv tmp new.go": "",
	} {
		if got := lostBy(t, nil, line, dir); got != want {
			t.Errorf("%s: lost %q, want %q", line, got, want)
		}
	}
}

// TestPatternsLookAtNoMoreThanABound: a pattern may lead through all of a disk, and a name that was not looked at may be
// another match.
func TestPatternsLookAtNoMoreThanABound(t *testing.T) {
	dir := t.TempDir()
	for i := range 140 { // the same names by each link
		if err := os.MkdirAll(filepath.Join(dir, "names", strconv.Itoa(i)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("names", filepath.Join(dir, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	tree := newNames(pathSet{})
	if found, all := matched(filepath.Join(dir, "*/7"), tree); all || len(found) > 0 {
		t.Errorf("%d names, all %v", len(found), all)
	}
	if found, all := matched(filepath.Join(dir, "1?/7"), tree); !all || len(found) != 10 {
		t.Errorf("%d names, all %v, want 10", len(found), all)
	}
}
