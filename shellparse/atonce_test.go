package shellparse_test

import (
	"reflect"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
)

// The memory of a walk is used again by the next one: nothing of a line may be seen in the answer about another,
// whoever parses at the same time, and also after a line that was refused.
func TestLinesParsedAtOnceDoNotMeet(t *testing.T) {
	lines := []string{
		"git status", "cat a | sh", "x=rm; $x -rf src", "f() { rm \"$1\"; }; f src", "for i in a b; do tee $i; done",
		"set -e; cd /tmp && env -i sudo -u root tar xf a.tar -C /etc", "cat <<E | bash\nrm x\nE", "echo $(id; $y z)",
		"readonly x=1; export PATH=/bin; x=2 ls", "true # \\\nrm y", "if (", "find . -exec sh -c 'rm $0' {} +",
	}
	type answer struct {
		script *shellparse.Script
		err    error
	}
	parse := func(line string) answer {
		s, err := shellparse.Parse(line, shellparse.Options{Dir: "/src", Home: "/home/dev"})
		return answer{s, err}
	}
	want := make([]answer, len(lines))
	for i, line := range lines {
		want[i] = parse(line)
	}
	var g sync.WaitGroup
	for start := range 4 {
		g.Go(func() {
			for n := range 20 * len(lines) {
				i := (start*5 + n*7) % len(lines) // 7 and the number of lines have no common factor: every order
				if got := parse(lines[i]); !reflect.DeepEqual(got, want[i]) {
					t.Errorf("%q: %+v, want %+v", lines[i], got, want[i])
					return
				}
			}
		})
	}
	g.Wait()
}
