package effect_test

import (
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/effect"
	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

func Example() {
	for _, line := range []string{
		"rm -r build", "git reset --hard", "aws s3 rm s3://backups", "aws s3 $what", "ls -l",
	} {
		var c program.Call // package shellparse makes it
		for _, text := range strings.Fields(line) {
			w := program.Literal(text, source.Pos{})
			w.Known = text[0] != '$'
			c.Argv = append(c.Argv, w)
		}
		c.Name = c.Argv[0].Text

		does := effect.Of(&c, nil)
		if does == nil {
			fmt.Println("nothing is known of", line)
			continue
		}
		for _, d := range does.Deletes {
			fmt.Println("deletes", d.Word.Text, "with all below it:", d.Tree)
		}
		for _, d := range does.Discards {
			fmt.Println("git throws away:", d.What)
		}
		for _, a := range does.Acts {
			fmt.Printf("%s: %s %s %q\n", a.Does, a.Program, a.Verb, a.Target)
		}
	}
	// Output:
	// deletes build with all below it: true
	// git throws away: work
	// destroys: aws s3 rm "s3://backups"
	// destroys: aws s3 $what ""
	// nothing is known of ls -l
}
