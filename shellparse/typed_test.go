package shellparse

import "testing"

// Where somebody may type into what a line starts, a program that takes commands from its
// input may run any, at whatever depth it is started.
func TestTypedInputIsKnownToNobody(t *testing.T) {
	// opaque reports whether something of the line is not known: for typed only what is not known because it is typed.
	opaque := func(line string, typed bool) (found bool) {
		s, err := Parse(line, Options{Dir: "/src", Home: "/home/a", Typed: typed})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, o := range s.Opaque {
			if o.Typed && !typed {
				t.Errorf("%s: %+v is typed by nobody", line, o)
			}
			found = found || o.Typed == typed
		}
		return found
	}
	for _, line := range []string{
		"bash", "sh", "exec bash", "env bash", "python3 -q", "node", "cd sub && bash", "true; bash", "echo x\nbash",
		"{ bash; }", "(bash)", "if true; then bash; fi", "f() { bash; }; f", "bash -c bash", "bash -c 'true; sh'",
		"timeout 5 bash", "bash 2>log", "psql", "bash &", "eval bash", "vim", "cat | bash", "cat | tee log | bash",
		"sed s/a/b/ | sh", "while read -r l; do echo \"$l\"; done | bash", "cat | python3", "cat > x.sh; bash x.sh",
		"tee x.sh; sh x.sh", "make -f -", "make -f /dev/stdin", "xargs -I{} sh -c {}", "cat | xargs -I{} sh -c {}", "parallel",
		"fish", "nu", "pwsh", "expect", "tclsh", "cat | make -f -",
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
		"bash </dev/null", "echo ls | cat", "make", "npm test", "cat x.sh | bash", "git ls-files | xargs python3",
		"cat > x.sh", "cat > x.txt; bash y.sh", "ls | bash", "xargs wc -l",
	} {
		if opaque(line, true) {
			t.Errorf("%q executes what is typed", line)
		}
	}
}
