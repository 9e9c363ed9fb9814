package check_test

import (
	"log"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/internal/skills/check"
)

func Example() {
	dir, err := os.MkdirTemp("", "check")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(filepath.Join(dir, "tidy-notes"), 0o755); err != nil {
		log.Fatal(err)
	}
	skill := "---\nname: tidy\ndescription: Tidies notes.\n---\nTidy the notes. This takes 5 minutes.\n"
	if err := os.WriteFile(filepath.Join(dir, "tidy-notes", "SKILL.md"), []byte(skill), 0o644); err != nil {
		log.Fatal(err)
	}

	c := check.New("", dir) // no prefix of names is wanted
	packages, err := c.Find()
	if err != nil {
		log.Fatal(err)
	}
	found := c.Check(packages...)
	check.Sort(found)
	check.Print(os.Stdout, found, len(packages))
	// Output:
	// tidy-notes
	//   HIGH     SKILL-05  SKILL.md: name "tidy" does not match directory name "tidy-notes".
	//                      Rename one of the two.
	//   MEDIUM   SKILL-06  SKILL.md: description does not contain "Use when" or "Use if" trigger phrase.
	//                      Add a sentence that begins with "Use when".
	//   LOW      SEQ-02    SKILL.md:5: Time estimate pattern found: "Tidy the notes. This takes 5 minutes."
	//                      Leave it out: how long it takes depends on who does it.
	//
	// 1 package, 3 findings, 1 HIGH, 1 MEDIUM, 1 LOW
}
