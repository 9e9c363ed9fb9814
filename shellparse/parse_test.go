package shellparse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var here = Options{Dir: "/w", Home: "/home/dev"}

// starts are the commands of a script as "name args", unknown names as "?".
func starts(s *Script) []string {
	var out []string
	for _, c := range s.Commands {
		name := c.Name
		if name == "" {
			name = "?"
		}
		for _, a := range c.Args {
			name += " " + a.Text
		}
		out = append(out, name)
	}
	return out
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"pipe keeps both sides", "cat a | sh x", []string{"cat a", "sh x", "x"}},
		{"substitution is a command too", "echo $(id)", []string{"id", "echo $(id)"}},
		{"a loop is followed word by word", "for c in ls id; do $c; done", []string{"ls", "id"}},
		{"constants are known", "x=r; ${x}m y", []string{"rm y"}},
		{"but not after a branch", "x=ls; if true; then x=id; fi; $x", []string{"true", "?"}},
		{"functions are followed with their words", `f() { "$@"; }; f rm x`, []string{"rm x"}},
		{"braces", "{rm,x}", []string{"rm x"}},
		{"braces give text, which may escape what follows", "env -u {T..a..8}rm y", []string{"env -u Trm rm y", "rm y"}},
		{"ANSI quotes", `$'\x72m' x`, []string{"rm x"}},
		{
			"wrappers, outside in", "sudo env A=1 timeout 5 rm x",
			[]string{"sudo env A=1 timeout 5 rm x", "env A=1 timeout 5 rm x", "timeout 5 rm x", "rm x"},
		},
		{"text in a shell", `bash -c 'rm "$1"' _ x`, []string{`bash -c rm "$1" _ x`, "rm x"}},
		{"here-document data", "cat <<'E'\n$(rm x)\nE", []string{"cat"}},
		{"here-document code", "cat <<E\n$(rm x)\nE", []string{"rm x", "cat"}},
		{"find", `find . -exec rm {} \;`, []string{"find . -exec rm {} ;", "rm ."}},
		{"awk", `awk 'BEGIN { system("rm x") }'`, []string{`awk BEGIN { system("rm x") }`, "rm x"}},
		{"sed", "sed '1e rm x' f", []string{"sed 1e rm x f", "rm x"}},
		{"comments are nothing", "# rm x", nil},
		{"the words of let", "let x=1 y", []string{"let x=1 y"}},
		{"names of variables fail nothing", "x=id; : ${!y*}; x=ls\n$x z", []string{": ${!y*}", "ls z"}},
		{"a number of bash fails nothing", "x=id; : $((LINENO)); x=ls\n$x z", []string{": $((LINENO))", "ls z"}},
		{"a shell gets what is exported", "export x=ls; sh -c '$x y'", []string{"export x=ls", "sh -c $x y", "ls y"}},
		{
			"and one in it", "export x=ls; y=y sh -c 'sh -c \"\\$x \\$y\"'",
			[]string{"export x=ls", `sh -c sh -c "\$x \$y"`, "sh -c $x $y", "ls y"},
		},
		{
			"also through a program that keeps it", "x=ls nice sh -c '$x y'",
			[]string{"nice sh -c $x y", "sh -c $x y", "ls y"},
		},
		{"eval of nothing is nothing", "eval; ls", []string{"eval", "ls"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse(tt.in, here)
			if err != nil {
				t.Fatal(err)
			}
			if got := starts(s); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"cp a b c", "read /w/a, read /w/b, write /w/c"},
		{"cp -t c a b", "write /w/c, read /w/a, read /w/b"},
		{"mv a b", "read+ /w/a, write+ /w/a, write /w/b"},
		{"rm -rf a", "write+ /w/a"},
		{"grep -r x", "read+ /w/."},
		{"grep -e x a", "read /w/a"},
		{"sed -i s/a/b/ f", "read /w/f, write /w/f"},
		{"sort -o o i", "write /w/o, read /w/i"},
		{"sort --outp=o i", "write /w/o, read /w/i"},
		{"cd s && cat x", "read /w/s, read /w/s/x"},
		{"cd s || cd t; cat x", "read /w/s, read /w/t, read /w/s/x, read /w/t/x, read /w/x"},
		{"cat {a..e..-2} {1..2..0}", "read /w/a, read /w/c, read /w/e, read /w/1, read /w/2"},
		{"cat $(echo a b)", "read /w/a, read /w/b"},
		{`cat "$(echo a b)"`, "read /w/a b"},
		{`cat ""`, ""},
		{"printf > f", "write /w/f"},
		{"find $d | while read f; do cat $f; done", "read+? $d, read? $f"},
		{`export "$u-n" v=a; sh -c 'cat $v'`, "read? $v"},
		{"PWD=/tmp; sh -c 'cat $PWD/y'", "read /w/y"},
		{"sh -c 'cat ~/y'", "read /home/dev/y"},
		{"for f in $(find a); do cat ${f%.c}; done", "read+ /w/a, read+ /w/a"},
		{"for f in $(find a); do cat ${f#a}; done", "read+ /w/a, read? ${f#a}"},
		{"for f in $(find a); do cat ${f%a}; done", "read+ /w/a, read? ${f%a}"},
		{"for f in $(find a); do cat ${f%/b}; done", "read+ /w/a, read? ${f%/b}"},
		{"find *b | while read f; do cat ${f%b}; done", "read+* /w/*b, read? ${f%b}"},
		{"cat ~/x $HOME/y", "read /home/dev/x, read /home/dev/y"},
		{"cat {~,x}/f ~{/g,+/x,}", "read /home/dev/f, read /w/x/f, read /home/dev/g, read /w/x, read /home/dev"},
		{"cat ~{root/a,'/b'} {x,~/y}", "read /root/a, read /w/~/b, read /w/x, read /home/dev/y"},
		{"cat {x,:}~/y", "read /w/x~/y, read /w/:~/y"},
		{"dd if=~/x of+=~/y", "read /home/dev/x"},
		{"dd 'if'=~/x", "read /w/~/x"},
		{"dd if={~/x,y}", "read /w/~/x, read /w/y"},
		{"sh -c 'dd if=~/x'", "read /home/dev/x, read /w/~/x"},
		{"cat x=~/a:~/b", "read? x=~/a:~/b"},
		{"cat x[$i]=~/a", "read? x[$i]=~/a"},
		{"a=(x=~/y); cat ${a[0]} > y=~/z", "write /w/y=/home/dev/z, read /w/x=~/y"},
		{"n=1; ((n++)); cat f$n", "read* /w/f*"},
		{"x=a; x=b > $x", "write /w/b"},
		{"x=a; x=b cat < $x", "read /w/a"},
		{"set -- a b; x=$*; cat \"$x\"", "read /w/a b"},
		{"set -- a b; cat <<< $@; x=\"$@\"; cat \"$x\"", "read /w/a b"},
		{"cd s; cat $PWD/x", "read /w/s, read? $PWD/x"},
		{"cd s && cat $PWD/x", "read /w/s, read /w/s/x"},
		{"cd s; popd; cat x", "read /w/s, read? x"},
		{"pushd s && pushd && cat x", "read /w/s, read? x"},
		{"for i in 1 2; do cd s; done; cat x", "read? s, read? s, read? x"},
		{"cat \"${u:-~/a}\"", "read? \"${u:-~/a}\""},
		{"n=1; ((--n)); cat f$n", "read* /w/f*"},
		{"cat *.go", "read* /w/*.go"},
		{"cat '*.go'", "read /w/*.go"},
		{"cat $x", "read? $x"},
		{"tar -C d -xf a", "read /w/a, read /w/d, write+ /w/d"},
		{"tar xzf a -C d", "read /w/a, read /w/d, write+ /w/d"},
		{
			"tar cf x -C /etc shadow -C /tmp .",
			"write /w/x, read+ /w/shadow, read /etc, read+ /etc/shadow, read /tmp, read+ /tmp/shadow, read+ /tmp/.",
		},
		{"tar xf a -C ../.. -C ..", "read /w/a, read /w/../.., write+ /w/../.., read /w/../../.., write+ /w/../../.."},
		{"dd if=a of=b", "read /w/a, write /w/b"},
		{"curl -d @a -o b u", "read /w/a, write /w/b"},
		{"echo a/b", ""},
		{"{ ls x; } > f", "read /w/x, write /w/f"},
		{"git commit -m /etc/x", ""},
		{"docker run -v /a:/b i cat /c", "read+ /a, write+ /a"},
	} {
		s, err := Parse(tt.in, here)
		if err != nil {
			t.Fatalf("%q: %v", tt.in, err)
		}
		var got []string
		var files []File
		for _, c := range s.Commands {
			files = append(files, c.Files...)
		}
		for _, f := range append(files, s.Files...) {
			mark := ""
			if f.Recursive {
				mark += "+"
			}
			if f.Glob {
				mark += "*"
			}
			if !f.Known {
				mark += "?"
			}
			got = append(got, fmt.Sprintf("%s%s %s", f.Access, mark, f.Path))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%q: got  %s\nwant %s", tt.in, strings.Join(got, ", "), tt.want)
		}
	}
}

func TestPositionsAreWhereTheWordIs(t *testing.T) {
	src := "ls a\ncat  bb | wc"
	s, err := Parse(src, here)
	if err != nil {
		t.Fatal(err)
	}
	at := s.Commands[1].Args[0].At
	if src[at.Offset:at.End] != "bb" || at.Line != 2 || at.Col != 6 {
		t.Errorf("%+v is %q", at, src[at.Offset:at.End])
	}
}

func TestArgvIsLiteral(t *testing.T) {
	s, err := Argv([]string{"sudo", "cat", "$(id)", "a b"}, here)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Commands; len(got) != 2 || got[1].Name != "cat" || got[1].Args[0].Text != "$(id)" ||
		got[1].Files[1].Path != "/w/a b" {
		t.Errorf("%+v", got)
	}
	if _, err := Argv([]string{"a\x00"}, here); err == nil {
		t.Error("NUL is taken")
	}
	if s, err := Argv([]string{"sh", "-c", "rm x"}, here); err != nil || len(s.Commands) != 2 ||
		s.Commands[1].Name != "rm" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestDisguiseKeepsTheName: whatever is put around a command, its name is found
// or the line is refused.
func TestDisguiseKeepsTheName(t *testing.T) {
	disguise := []func(string) string{
		func(s string) string { return "env " + s },
		func(s string) string { return "timeout 5 " + s },
		func(s string) string { return "nice -n 3 " + s },
		func(s string) string { return "( " + s + " )" },
		func(s string) string { return "{ " + s + "; }" },
		func(s string) string { return "echo $( " + s + " )" },
		func(s string) string { return "true && " + s },
		func(s string) string { return s + " | cat" },
		func(s string) string { return "! " + s },
		func(s string) string { return "if true; then " + s + "; fi" },
		func(s string) string { return "f() { " + s + "; }; f" },
		func(s string) string { return "A=1 B=2 " + s },
		func(s string) string { return ">out " + s },
		func(s string) string { return "eval '" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
		func(s string) string { return "bash -c '" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
		func(s string) string { return "xargs sh -c '" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
		func(s string) string { return "for i in 1 2; do " + s + "; done" },
		func(s string) string { return "cat <<EOF\n$( " + s + " )\nEOF" },
	}
	names := []string{"rm", `r\m`, `"rm"`, `'r'm`, `r''m`, `$'\x72m'`, "/bin/rm", "{rm,x}", "r\\\nm", "${x:-rm}"}
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom(names).Draw(t, "name") + " x"
		for range rapid.IntRange(0, 4).Draw(t, "layers") {
			next := rapid.SampledFrom(disguise).Draw(t, "disguise")(line)
			if strings.HasPrefix(next, "env ") || strings.HasPrefix(next, "timeout ") ||
				strings.HasPrefix(next, "nice ") || strings.HasPrefix(next, "A=1") || strings.HasPrefix(next, ">out ") {
				if !simple(line) {
					continue // these take a simple command
				}
			}
			line = next
		}
		s, err := Parse(line, here)
		if err != nil {
			return
		}
		for _, c := range s.Commands {
			if c.Name == "rm" || c.Name == "" {
				return
			}
		}
		if len(s.Opaque) == 0 {
			t.Fatalf("%q: only %q is seen", line, starts(s))
		}
	})
}

func simple(line string) bool {
	for _, p := range []string{
		"( ", "{ ;", "{ ", "! ", "if ", "f() ", "for ", "true ", "cat ", "echo ", "A=1",
		">out",
	} {
		if strings.HasPrefix(line, p) {
			return false
		}
	}
	return !strings.HasSuffix(line, "| cat")
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"ls", "cat <<A\n\\\nA\nrm\nA", "let a|rm x", "[[ x == @(a|$(rm x)) ]]",
		`echo "${u:-'$(rm x)'}"`, "echo a \\\r\nrm x", "f() { f; }; f", "for i in {1..9}; do $i; done",
		"sed 's/a/b/e;1e x'", "awk '{print > $1}'", "tar xzf a -C b", "find . -exec sh -c '{}' \\;",
		"case x in *) ;; esac", "a=(x y); ${a[0]} ${a[@]%x}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		s, err := Parse(src, here)
		var pe *Error
		if err != nil {
			if !errors.As(err, &pe) || pe.Code == "" {
				t.Fatalf("error without a code: %v", err)
			}
			if pe.Code == "internal" {
				t.Fatal(err)
			}
			return
		}
		for _, c := range s.Commands {
			if c.At.Offset < 0 || int(c.At.End) > len(src) || c.At.Line < 1 {
				t.Fatalf("%+v lies outside of the text", c.At)
			}
		}
	})
}
