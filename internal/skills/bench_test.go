package skills

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkDiscover compares a first look at 1,000 packages, and a later one, with reading their
// SKILL.md once each.
func BenchmarkDiscover(b *testing.B) {
	w := newWorld(b, Config{})
	var files []string
	for i := range 1000 {
		name := fmt.Sprintf("home/.claude/skills/s%04d/SKILL.md", i)
		w.write(name, fmt.Sprintf("---\nname: s%04d\ndescription: Does it. Use when asked.\nallowed-tools: Bash, Read\n---\n%s", i,
			strings.Repeat("Do this and then that.\n", 150)))
		files = append(files, filepath.Join(w.root, name))
	}
	places := Places{Home: w.home, User: sandbox.Daemon()}
	time.Sleep(settled + 50*time.Millisecond) // files that are no longer new
	count := func(l *Library) {
		if n := len(l.Of(w.work, places).Skills); n != 1005 {
			b.Fatalf("%d skills", n)
		}
	}
	var known Library
	bench.Compare(b, []bench.Case{
		{Name: "cat", Run: func() {
			for _, f := range files {
				if _, err := os.ReadFile(f); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{Name: "first", Run: func() { count(&Library{}) }},
		{Name: "again", Run: func() { count(&known) }},
	}, bench.Limit{Case: "first", Over: "cat", AtMost: 3}, bench.Limit{Case: "again", Over: "cat", AtMost: 1.2})
}
