package skills_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/internal/skills"
	"github.com/sandboxd/sandboxd/sandbox"
)

func Example() {
	root, err := os.MkdirTemp("", "skills")
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	work, home := filepath.Join(root, "work"), filepath.Join(root, "home")
	for file, text := range map[string]string{
		home + "/.claude/skills/notes/SKILL.md":  "---\ndescription: d\naliases: tidy\nallowed-tools: Read\n---\nx\n",
		home + "/.claude/skills/broken/SKILL.md": "No front matter.\n",
		work + "/.claude/skills/x/SKILL.md":      "---\ndescription: d\n---\nWritten by an agent.\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}

	var library skills.Library
	set := library.Of(work, skills.Places{Home: home, User: sandbox.Daemon()})
	for _, name := range []string{"tidy", "ci", "x"} {
		if k, found := set.Find(name); found {
			fmt.Println(name, "is", k.Name, "of", k.Source, k.ToolRestrictions)
		} else {
			fmt.Println(name, "is no skill") // agents write there: Places has no Workspace
		}
	}
	for _, i := range set.Ignored {
		fmt.Println(filepath.Base(i.Path)+":", i.Reason)
	}
	// Output:
	// tidy is notes of user [read]
	// ci is commit of builtin [bash read glob grep]
	// x is no skill
	// broken: SKILL.md does not begin with front matter that ends within 65536 bytes
}
