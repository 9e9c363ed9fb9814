package shellparse

import "testing"

// Where somebody may type into what a line starts, a program that takes commands from its
// input may run any, at whatever depth it is started.
func TestTypedInputIsKnownToNobody(t *testing.T) {
	opaque := func(line string, typed bool) bool {
		s, err := Parse(line, Options{Dir: "/src", Home: "/home/a", Typed: typed})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, o := range s.Opaque {
			if o.Typed && !typed {
				t.Errorf("%s: %+v is typed by nobody", line, o)
			}
		}
		return len(s.Opaque) > 0
	}
	for _, line := range []string{
		"bash", "sh", "exec bash", "env bash", "python3 -q", "node", "cd sub && bash", "true; bash", "echo x\nbash",
		"{ bash; }", "(bash)", "if true; then bash; fi", "f() { bash; }; f", "bash -c bash", "bash -c 'true; sh'",
		"timeout 5 bash", "bash 2>log", "psql", "bash &", "eval bash", "vim",
	} {
		if !opaque(line, true) {
			t.Errorf("%q is not opaque although its input is typed", line)
		}
	}
	for _, line := range []string{"bash", "sh", "python3 -q", "node", "cd sub && bash", "vim"} {
		if opaque(line, false) {
			t.Errorf("%q is opaque although its input is empty", line)
		}
	}
	for _, line := range []string{
		"ls", "cat", "grep -rn x .", "bash x.sh", "bash -c 'echo hi'", "python3 x.py", "git commit -m x", "go test ./...",
		"bash </dev/null", "echo ls | cat", "make", "npm test",
	} {
		if opaque(line, false) != opaque(line, true) {
			t.Errorf("%q is another one when its input is typed", line)
		}
	}
}
