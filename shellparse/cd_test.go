package shellparse_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/shellparse"
)

// A shell takes a name off its path for "..", also where that name is a link. Only with -P it asks the kernel.
func TestWhereCdLeads(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"cd l; cd ..; cat x", "/ws/x"},
		{"cd l/..; cat x", "/ws/x"},
		{"cd a/b && cd ../c && cat x", "/ws/a/c/x"},
		{"cd /ws/l; cd ..; cat x", "/ws/x"},
		{"cd /tmp/l/..; cat x", "/tmp/x"},
		{"pushd l; cd ..; cat x", "/ws/x"},
		{"cd ..; cat x", "/ws/../x"}, // the shell may have come to /ws by a link
		{"cd l; cd ../..; cat x", "/ws/../x"},
		{"cd -P l/..; cat x", "/ws/l/../x"},
		{"set -P; cd l/..; cat x", "/ws/x /ws/l/../x"},
		{"cd -P l; cd ..; cat x", "/ws/x /ws/l/../x"},
		{"cd l; env -i bash -c 'cd ..; cat x'", "/ws/x /ws/l/../x"},
		{"env -C l bash -c 'cd ..; cat x'", "/ws/x /ws/l/../x"},
		{"env -C l/.. cat x", "/ws/l/../x"},
		{"while x; do command cd a; cat k; done", "k"},
		{"cd l; cat ../x", "/ws/l/../x"},
	} {
		s, err := shellparse.Parse(tt.line, shellparse.Options{Dir: "/ws", Home: "/home/dev"})
		if err != nil {
			t.Fatalf("%s: %v", tt.line, err)
		}
		var got []string
		for _, f := range s.Commands[len(s.Commands)-1].Files {
			if f.OnlyIfMissing == "" {
				got = append(got, f.Path)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s reads %s, want %s", tt.line, got, tt.want)
		}
	}
}

// A use that happens only where a directory is missing happens also where the line takes the directory away.
func TestDirectoryThatTheLineTakesAway(t *testing.T) {
	for _, tt := range []struct {
		line   string
		always bool
	}{
		{"cd /d/e; rm x", false},
		{"mkdir -p /d/e; cp -r a /d/e; cd /d/e; rm x", false},
		{"rm -rf /d/f; cd /d/e; rm x", false},
		{"rmdir /d/e; cd /d/e; rm x", true},
		{"rm -rf /d; cd /d/e; rm x", true},
		{"rm -rf /[d]/*; cd /d/e; rm x", true},
		{"mv /d/e /d/f; cd /d/e; rm x", true},
		{"ln -sfn /nothing /d/e; cd /d/e; rm x", true},
		{"bash -c 'rmdir /d/e'; cd /d/e; rm x", true},
		{"f() { rmdir /d/e; }; f; cd /d/e; rm x", true},
	} {
		s, err := shellparse.Parse(tt.line, shellparse.Options{Dir: "/ws"})
		if err != nil {
			t.Fatalf("%s: %v", tt.line, err)
		}
		c := s.Commands[len(s.Commands)-1]
		got := slices.ContainsFunc(c.Files, func(f shellparse.File) bool {
			return f.Path == "/ws/x" && f.OnlyIfMissing == ""
		})
		if got != tt.always {
			t.Errorf("%s removes /ws/x in any case: %v, want %v", tt.line, got, tt.always)
		}
	}
}

// What is remembered of directories stays small.
func TestManyDirectories(t *testing.T) {
	for _, line := range []string{
		strings.Repeat("pushd a;popd\n", 4500),
		"trap 'rm x' EXIT\n" + strings.Repeat("popd\n", 10000),
		strings.Repeat("cd /d;cd /e;rmdir /f\n", 2500),
	} {
		start := time.Now()
		if _, err := shellparse.Parse(line, shellparse.Options{Dir: "/ws"}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%.40q takes %s", line, d)
		}
	}
}
