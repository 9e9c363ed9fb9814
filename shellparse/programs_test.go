package shellparse

import (
	"slices"
	"strings"
	"testing"
)

// facts are what is found in a script, one a line: a program with its words, a file
// with what is done with it ("*" for the whole tree), a host, the code of a part that
// is not read.
func facts(s *Script) []string {
	var out []string
	files := func(list []File) {
		for _, f := range list {
			name := f.Path
			if !f.Known {
				name = "?"
			}
			if f.Recursive {
				name += "/**"
			}
			out = append(out, string(f.Access)+" "+name)
		}
	}
	for i, text := range starts(s) {
		out = append(out, text)
		files(s.Commands[i].Files)
		for _, h := range s.Commands[i].Hosts {
			out = append(out, "host "+h)
		}
	}
	files(s.Files)
	for _, o := range s.Opaque {
		out = append(out, "opaque "+o.Code)
	}
	return out
}

// TestWhatAHandlerFinds has what the tables cannot say: each line is a program with
// rules of its own, and the facts that it must give, besides the program itself.
func TestWhatAHandlerFinds(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"ed f <<'E'\nw /etc/x\nE", []string{"read /w/f", "opaque inline_code"}},
		{"ed f <<'E'\n1d\nw\nq\nE", []string{"read /w/f"}},
		{`screen -X stuff "$x"`, []string{"opaque inline_code"}},
		{"sudo -s <<< 'rm x'", []string{"rm x"}},
		{"export v=ls; su -c '$v x'", []string{"? x"}},
		{"export v=ls; env -u v command sh -c '$v x'", []string{"? x"}},
		{`export v=ls; $SUDO find . -exec sh -c '$v x' \;`, []string{"? x"}},
		{"coproc psql", []string{"opaque inline_code"}},
		{"set -H", []string{"opaque shell_option"}},
		{"flock 9", nil},
		{`git config "$k" v`, []string{"opaque unknown_option"}},
		{`git -c "$k" log`, []string{"opaque unknown_option"}},
		{"ls f | entr rm x", []string{"rm x"}},
		{"ls f | entr -s 'rm x'", []string{"rm x"}},
		{"ls f | entr rm /_", []string{"rm /_", "write ?"}},
		{`awk 'BEGIN { system("\162\x6d\tx") }'`, []string{"rm x"}},
		{`awk "BEGIN{$1system(\"rm x\")}"`, []string{"opaque inline_code"}},
		{`awk "BEGIN{sys$(y)tem(\"rm x\")}"`, []string{"opaque inline_code"}},
		{`awk "function _system(x) {}; BEGIN{$1system(\"rm x\")}"`, []string{"opaque inline_code"}},
		{`awk 'BEGIN{1system("rm x")}'`, []string{"rm x"}},
		{`awk 'BEGIN{x=.5system("rm x")}'`, []string{"rm x"}},
		{`awk 'BEGIN{1.e5system("rm x")}'`, []string{"rm x"}},
		{`awk 'BEGIN{0x1system("rm x")}'`, []string{"rm x"}},
		{`awk 'BEGIN{x=1getline<"/etc/x"}'`, []string{"read /etc/x"}},
		{"[[ a -nt /etc/x ]]", []string{"read /w/a", "read /etc/x"}},
		{"[[ -e /etc/x ]]", []string{"read /etc/x"}},
		{"[[ ( -e /etc/x ) && ! -e y ]]", []string{"read /etc/x", "read /w/y"}},
		{"x=a.c; rm ${x%.c}", []string{"rm a", "write /w/a"}},
		{"x=a.c; rm ${x#a.}", []string{"rm c", "write /w/c"}},
		{"x=a.c; rm ${x##a.}", []string{"rm c", "write /w/c"}},
		{"rm ${u:-x}", []string{"write ?"}},
		{"x=a; rm ${x:+b}", []string{"rm b"}},
		{"curl -o f http://h/x", []string{"write /w/f", "host h"}},
		{"ssh -o 'ProxyCommand=rm x' h", []string{"rm x", "host h"}},
		{"docker run -v /etc:/x i", []string{"read /etc/**", "write /etc/**"}},
		{"python3.12 -c x", []string{"opaque inline_code"}},
		{"strace python3", []string{"opaque inline_code"}},
		{"nsenter -t 1 perl", []string{"opaque inline_code"}},
	} {
		s, err := Parse(tt.line, here)
		if err != nil {
			t.Errorf("%q: %v", tt.line, err)
			continue
		}
		got := facts(s)
		for _, want := range tt.want {
			if !slices.Contains(got, want) {
				t.Errorf("%q: %q is missing in %q", tt.line, want, got)
			}
		}
		if tt.want == nil && len(s.Commands)+len(s.Opaque) > 1 {
			t.Errorf("%q: %q, want nothing that runs", tt.line, got)
		}
	}
}

func TestWhatGitRunsOfASetting(t *testing.T) {
	for key, want := range map[string]bool{"user.name=x": false, "core.pager=less -R": true, "other.key=p1": true} {
		s, err := Parse("git -c '"+key+"' log", Options{Dir: "/w"})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(s.Commands) > 1; got != want {
			t.Errorf("git -c %s runs a program: %t, want %t", key, got, want)
		}
	}
}

// TestAWordThatIsTooLongForAPathIsNotTold: of a program that no table has.
func TestAWordThatIsTooLongForAPathIsNotTold(t *testing.T) {
	for length, want := range map[int]int{4095: 2, 4096: 0} { // read and written
		s, err := Parse("frobnicate /"+strings.Repeat("x", length-1), Options{Dir: "/src"})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Commands[0].Files; len(got) != want {
			t.Errorf("a word of %d bytes is told %d times, want %d", length, len(got), want)
		}
	}
}
