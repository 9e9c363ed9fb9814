//go:build linux

package guard

import (
	"math/rand/v2"
	"strings"
)

// vocabulary are the pieces that mutations put into scripts. Nothing in it names a
// path outside of the working directory.
var vocabulary = []string{
	"canary", "canary x", "can", "ary", "echo", "a", "b", "x", "$x", "${x}", "\"$x\"", "'", "\"", "\\", "\\\n", "\n",
	" ", " ", " ", "\t", ";", ";;", "&", "&&", "|", "||", "|&", "!", "(", ")", "{ ", "; }", "$(", ")", "`", "${x:-",
	"${x:=", "${x#", "${x//a/", "}", "$((", "))", "((", "[[ ", " ]]", "[ ", " ]", "<(", ">(", "<<A\n", "\nA\n",
	"<<'A'\n", "<<-A\n", "<<\\A\n", "<<\"A\"\n", "A", "<<<", ">f", "<f", "2>&1", ">&2", "&>f", "#", "# ",
	"$'", "\\'", "\\x63anary", "\\143anary", "$\"", "{a,b}", "{canary,x}", "{a..c}", "x=", "x=canary",
	"x=(", "x+=", "if ", "then ", "else ", "fi", "while ", "do ", "done", "for x in ", "case x in ",
	"x) ", "esac", "function f ", "f() ", "f", "eval ", "exec ", "command ", "builtin ", "env ",
	"xargs ", "sh -c ", "bash -c ", "bash", "trap ", " EXIT", "let ", "let x=1", "declare ",
	"local ", "export ", "read x", "set -- ", "\"$@\"", "$1", "shift", "time ",
	"coproc ", "test -v ", "a[$(canary)]", "'a[$(canary)]'", "printf -v ", "unset ",
	"@(a|", "+(", "?(", "~", "*", "?", "[a]", "=~ ", "== ", "-eq ", "${!x}",
	"${x@P}", "$0", "$?", "source ", ". ", "true", "false", ":", "cat",
	"timeout 1 ", "nice ", "find . -exec ", " {} \\;", " +", "sed 1e",
	"awk 'BEGIN{system(\"canary\")}'", "printf canary",
	"echo canary",
	"set -x; ", "declare -n x=", "local -n x=", "typeset -n ", "PS4", "PS4=", "BASH_ENV", "PROMPT_COMMAND",
	"'$(canary)'", "readonly ", "mapfile x <<<", "getopts a x ", "%s", "# \\\n", " #\\\n", "#'\n", "\\\\\n", "\r\n",
	"\r", "\\\r\n", "shopt -s ", "set -o ", "select x in ", "until ", "elif ", ";&", ";;&", "[[ a =~ ", "$[",
	"]", "${x[", "a[", "{x}>f", "<>f", ">|f", "<&-", "<&0", "exec 3<f; ",
}

// aScript is a random script: a mutated attack, or one built from the grammar and
// then bent.
func aScript(rnd *rand.Rand, seeds []string) string {
	if rnd.IntN(3) == 0 {
		return mutated(rnd, seeds)
	}
	g := generator{Rand: rnd}
	s := g.program(0)
	for range rnd.IntN(3) {
		s = g.bend(s)
	}
	return s
}

func mutated(rnd *rand.Rand, seeds []string) string {
	if rnd.IntN(4) == 0 {
		var b strings.Builder
		for range 2 + rnd.IntN(12) {
			b.WriteString(vocabulary[rnd.IntN(len(vocabulary))])
			if rnd.IntN(3) == 0 {
				b.WriteByte(' ')
			}
		}
		return b.String()
	}
	s := seeds[rnd.IntN(len(seeds))]
	for range 1 + rnd.IntN(3) {
		at := rnd.IntN(len(s) + 1)
		switch rnd.IntN(4) {
		case 0: // cut
			end := min(len(s), at+1+rnd.IntN(3))
			s = s[:at] + s[end:]
		case 1: // splice another one in
			other := seeds[rnd.IntN(len(seeds))]
			s = s[:at] + other[:rnd.IntN(len(other)+1)] + s[at:]
		default:
			s = s[:at] + vocabulary[rnd.IntN(len(vocabulary))] + s[at:]
		}
	}
	return s
}

// generator writes scripts that bash mostly takes: where both readers refuse, nothing
// is learnt.
type generator struct{ *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g generator) odds(n int) bool { return g.IntN(n) == 0 }

// bend puts what is read before words are into any place: joints, odd comments, CR.
func (g generator) bend(s string) string {
	at := g.IntN(len(s) + 1)
	switch g.IntN(8) {
	case 0, 1, 2:
		return s[:at] + "\\\n" + s[at:]
	case 3:
		return s[:at] + g.comment() + s[at:]
	case 4:
		if i := strings.IndexByte(s[at:], '\n'); i >= 0 {
			return s[:at+i] + g.pick("\r", " ", "\\", " #\\", "#", " # a \\", "\t", "\\\\") + s[at+i:]
		}
		return s[:at] + "\r\n" + s[at:]
	case 5:
		return s[:at] + vocabulary[g.IntN(len(vocabulary))] + s[at:]
	case 6:
		return s[:at] + s[min(len(s), at+1+g.IntN(2)):]
	}
	return s[:at] + g.pick("#", "\\", "'", "\"", "`", ")", "}", "!", "$", " ", "\t", ";") + s[at:]
}

// comment is one with an odd end, the line feed included.
func (g generator) comment() string {
	head := g.pick(" #", " #", "#", " # ", "\t#", ";#", "\\\n#", " \\\n #")
	return head +
		g.pick("", "a", "a ", "a#b ", "it's ", "\"", "`", "$(", "${", "<<A", "( ", ") ", "} ", "esac ", "done ", "fi ",
			"; ", "| ", "'a' ", "\\a") +
		g.pick("", "", "\\", "\\", "\\\\", "\\ ", "\\\\\\", "\r") + "\n"
}

// gap is what may stand between two words.
func (g generator) gap() string {
	if !g.odds(6) {
		return " "
	}
	return g.pick("\t", "  ", " \\\n", "\\\n ", "\\\n\t", " \\\n \\\n ")
}

// end is what may stand behind a command.
func (g generator) end() string {
	if g.odds(4) {
		return g.comment()
	}
	return g.pick("\n", "\n", "\n\n", ";", "; ", " ;", " & ", "&\n", "\n\t", " \n")
}

// after is a connective, and what may stand behind it.
func (g generator) after() string {
	s := g.pick("&&", "||", "|", "|&", "&&", "|")
	if g.odds(5) {
		return g.gap() + s + g.comment()
	}
	return g.gap() + s + g.pick(" ", "\n", "", "\t", "\n\n")
}

func (g generator) program(depth int) string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString(g.command(depth))
		if g.odds(4) {
			b.WriteString(g.after() + g.command(depth))
		}
		b.WriteString(g.end())
	}
	return b.String()
}

func (g generator) command(depth int) string {
	if depth > 2 {
		return g.simple(depth)
	}
	d := depth + 1
	switch g.IntN(31) {
	case 0:
		return "{" + g.pick(" ", "\n", g.comment()) + g.program(d) + "\n}"
	case 1:
		return "(" + g.pick(" ", "", "\n", g.comment()) + g.program(d) + g.pick("", "\n") + ")"
	case 2:
		return "if " + g.command(d) + g.end() + "then " + g.program(d) + "\n" +
			g.pick("", "else "+g.program(d)+"\n", "elif "+g.command(d)+g.end()+"then "+g.program(d)+"\n") + "fi"
	case 3:
		return "for x in" + g.gap() + g.words(d) + g.pick(";", "\n", g.comment()) + "do " + g.program(d) + "\ndone"
	case 4:
		return g.pick("while ", "until ") + g.command(d) + g.end() + "do" + g.pick(" ", "\n", g.comment()) +
			g.program(d) + "\nbreak; done"
	case 5:
		return "case" + g.gap() + g.word(d) + g.gap() + "in" + g.pick(" ", "\n", g.comment()) + g.pick("(", "") +
			g.pattern(d) + ")" + g.pick(" ", "\n", g.comment()) + g.program(d) + "\n" + g.pick(";;", ";;&", ";&") +
			g.pick(" ", "\n", g.comment()) + "*) " + g.program(d) + "\n" +
			g.pick("", ";;"+g.pick(" ", "\n", g.comment())) + "esac"
	case 6:
		return g.pick("f()", "function f", "f ()", "function f()") + g.pick(" ", "\n", g.comment()) +
			g.pick("{ "+g.program(d)+"\n}", "( "+g.program(d)+"\n)") + g.end() + g.pick("f", "f "+g.word(d), "f f")
	case 7:
		return "[[ " + g.test(d) + " ]]"
	case 8:
		return "((" + g.arithmetic(d) + "))"
	case 9:
		return "for ((i=0; i<2; i++" + g.pick("", " ") + "))" + g.pick(";", "\n", "", g.comment()) + "do " +
			g.program(d) + "\ndone"
	case 10:
		return g.hereDocument(d)
	case 11, 12:
		return g.variable(d)
	case 13:
		return g.pick("! ", "time ", "time -p ", "coproc ", "coproc X ", "! ! ") + g.command(d)
	case 14:
		return g.wrapped(d)
	case 16, 17, 18, 19, 20:
		return g.reference(d)
	case 15:
		return "{ " + g.program(d) + "\n}" + g.redirect(d)
	}
	return g.simple(d)
}

// program names: each is a program of its own, so that none stands for another.
func (g generator) name() string {
	return g.pick("canary", "canary", "p1", "p2", "p3", "p4", "true", ":", "echo", "echo", "cat", "false")
}

func (g generator) simple(depth int) string {
	var b strings.Builder
	if g.odds(8) {
		b.WriteString(g.pick("x=", "y=", "x+=", "a[0]=") + g.pick("", g.word(depth)) + g.gap())
	}
	if g.odds(10) {
		b.WriteString(g.redirect(depth) + g.gap())
	}
	switch {
	case g.odds(12):
		b.WriteString(g.pick("$x", "\"$x\"", "${x:-canary}", "$(echo canary)", "c\\anary", "can''ary", "can\"ary\"",
			"$'canary'", "{canary,x}", "c\\\nanary", "can$()ary", "`echo canary`", "${y}canary", "$\"canary\"",
			"can$u\"ary\""))
	default:
		b.WriteString(g.name())
	}
	for range g.IntN(3) {
		b.WriteString(g.gap() + g.word(depth))
	}
	if g.odds(6) {
		b.WriteString(g.gap() + g.redirect(depth))
	}
	return b.String()
}

func (g generator) words(depth int) string {
	s := g.word(depth)
	for range g.IntN(3) {
		s += g.gap() + g.word(depth)
	}
	return s
}

func (g generator) word(depth int) string {
	if g.odds(5) {
		return g.part(depth) + g.part(depth)
	}
	return g.part(depth)
}

func (g generator) part(depth int) string {
	if depth > 3 || g.odds(2) {
		return g.pick("a", "b", "x", "1", "-a", "a#b", "\\#", "\"#\"", "a\\ b", "'a b'", "\"a\\\nb\"", "'a\\\nb'", "$x",
			"\"$x\"", "$#", "${#x}", "~", "*", "?", "[a-c]", "{a,b}", "{1..3}", "\"a\nb\"", "''", "\"\"", "$'a\\nb'",
			"$'\\''", "a=b", "%", "--", "-", "\\", "!", "]", "\"'\"", "'\"'", "\"\\\"\"", "$", "\"$\"", "=", "a=(",
			"${x", "}", "{")
	}
	d := depth + 1
	switch g.IntN(16) {
	case 0:
		return "$(" + g.pick("", " ", "\n", g.comment()) + g.program(d) + g.pick("", "\n") + ")"
	case 1:
		return "\"$(" + g.program(d) + g.pick("", "\n") + ")\""
	case 2:
		if inner := g.program(d); !strings.Contains(inner, "`") {
			return g.pick("", "\"") + "`" + inner + "`" + g.pick("", "\"")
		}
		return "`canary`"
	case 3:
		return g.pick("<(", ">(") + g.program(d) + ")"
	case 4:
		return "${x" + g.pick(":-", ":=", ":+", "-", "=", "+", "#", "%%", "/a/", "//", ":", "^", "@") + g.word(d) + "}"
	case 5:
		return "\"${x" + g.pick(":-", ":=", ":+", "-", "=", "+", "#", "%%", "/a/", "//") + g.word(d) + "}\""
	case 6:
		return "$((" + g.arithmetic(d) + "))"
	case 7:
		return g.pick("${x[", "${a[", "${a[@]:") + g.arithmetic(d) + g.pick("]}", "}")
	case 8:
		return "\"" + g.pick("a ", "#", " # ", "'", "\\\n", "$x ") + g.word(d) + "\""
	case 9:
		return "{" + g.word(d) + "," + g.word(d) + "}"
	case 10:
		return g.pick("@(", "+(", "?(", "!(", "*(") + g.word(d) + ")"
	}
	return g.pick("a", "x", "$x", "canary", "b c")
}

func (g generator) pattern(depth int) string {
	return g.pick("x", "a", "*", "a|x", "\"x\"", "[a-x]", "'#'", "\\#", "$x", g.word(depth))
}

func (g generator) test(depth int) string {
	a, b := g.word(depth), g.word(depth)
	s := g.pick("-n "+a, "-z "+a, a, a+" == "+b, a+" != "+b, a+" =~ "+b, a+" -eq "+b, a+" < "+b, "! -n "+a, "( "+a+" )",
		"-v "+a, a+" = #", "-f "+a)
	if g.odds(4) {
		s += g.gap() + g.pick("&&", "||") + g.pick(" ", "", "\n", g.comment()) + g.pick("-n ", "", "#", "!") +
			g.word(depth)
	}
	return s
}

func (g generator) arithmetic(depth int) string {
	d := depth + 1
	return g.pick("1", "x", "x=1", "x++", "1+1", "16#f", "a[0]", "a[x]=1", "$x", "1 ? 2 : 3", "x, 1", " 1 ", "(1)",
		"1 << 2", "1 | 2", "1 && 2", "'a'", "\"1\"", "# 1", "1 # 2", "$(echo 1)", "$("+g.program(d)+")",
		"a[$("+g.simple(d)+")]", "1 \\\n+ 1", "1\n+ 1")
}

func (g generator) redirect(depth int) string {
	return g.pick(">f", "> f", ">>f", "<f", "2>f", "2>&1", ">&2", "&>f", "&>>f", "<>f", ">|f", "{v}>f", "3<&0", "<&-",
		">&-", "<<< "+g.word(depth), "<<<"+g.word(depth), "> >("+g.command(depth)+")", "< <("+g.command(depth)+")",
		">&$x", ">& f")
}

func (g generator) hereDocument(depth int) string {
	op, word, end := g.pick("<<", "<<-", "<< "), "A", "A"
	switch g.IntN(6) {
	case 0:
		word = g.pick("'A'", "\"A\"", "\\A", "A''")
	case 1:
		word, end = "'A B'", "A B"
	case 2:
		word, end = g.pick("A\\\nB", "AB"), "AB"
	case 3:
		word, end = "#", "#"
		if op != "<< " {
			word = "'#'"
		}
	}
	var b strings.Builder
	b.WriteString(g.pick("cat", "cat", "bash", "true", "p1", "sh", "cat <f") + g.pick(" ", "") + op + word)
	switch g.IntN(6) {
	case 0:
		b.WriteString(" | " + g.simple(depth))
	case 1:
		b.WriteString("; " + g.simple(depth))
	case 2:
		b.WriteString(strings.TrimSuffix(g.comment(), "\n"))
	case 3:
		b.WriteString(" && \\\n" + g.simple(depth))
	}
	b.WriteByte('\n')
	for range g.IntN(4) {
		b.WriteString(g.pick("a", "\ta", "$x", "canary x", "p2", "$("+g.program(depth)+")", "`p3`", "# \\", "# a", "\\",
			"a\\", " A", "A ", "\tA", "A\\", "\\A", "'", "\"", "#", "${x:-"+g.word(depth)+"}", "\\$(p4)", "a \\\\") +
			"\n")
	}
	b.WriteString(g.pick("", "", "", "\t") + end)
	return b.String()
}

// variable sets one in some way, names that bash itself obeys included.
func (g generator) variable(depth int) string {
	name := g.pick("x", "y", "x", "PS4", "PS4", "BASH_ENV", "ENV", "PROMPT_COMMAND", "IFS", "PATH", "a[0]", "SHELLOPTS",
		"BASH_ALIASES[p1]", "BASH_CMDS[p1]", "CDPATH", "HOME", "z")
	value := g.pick("'$(canary)'", "'`p2`'", "canary", "\"$x\"", "'a[$(p3)]'", g.word(depth), "PS4", "x", "BASH_ENV",
		"'canary x'")
	set := g.pick(
		name+"="+value, name+"+="+value, "declare "+name+"="+value, "export "+name+"="+value,
		"readonly "+name+"="+value, "typeset "+name+"="+value,
		"read "+name+" <<< "+value, "read -r "+name+" < <(echo "+value+")", "printf -v "+name+" %s "+value,
		"mapfile "+name+" <<< "+value, "readarray -t "+name+" <<< "+value, "for "+name+" in "+value+"; do :; done",
		"getopts a: "+name+" -a "+value, "unset "+name, ": ${"+name+":="+value+"}", "let '"+name+"=1'",
		"(("+name+"=1))", "select "+name+" in "+value+"; do break; done <<< 1", "eval "+name+"="+value,
		"declare -i "+name+"="+value, "local "+name+"="+value, "coproc "+name+" { :; }", "wait -n -p "+name,
		"exec {"+name+"}>f", "test -v "+name,
	)
	if g.odds(4) {
		set = "x=" + g.pick("PS4", "canary", "BASH_ENV", "y") + "; " +
			g.pick("declare ", "printf -v ", "read ", "export ") + "$x" + g.pick("="+value, " %s "+value, " <<< "+value)
	}
	return set + g.pick("; ", "\n") +
		g.pick("$x", "set -x; p1", "bash -c p1", "(set -x; :)", "set -x", "eval $x", "p1 $x", "sh -c :", "$y",
			"[[ $x -eq 1 ]]", "((x))", "echo ${!x}", "echo ${x@P}", "\"$x\" a")
}

// reference makes a variable another name for one that bash may obey, and sets it.
func (g generator) reference(depth int) string {
	to := g.pick("PS4", "PS4", "PS4", "PS4", "BASH_ENV", "ENV", "PROMPT_COMMAND", "x", "PATH", "'a[$(canary)]'", "$x",
		"\"$y\"", "'PS4[0]'")
	name := g.pick("p", "p", "p", "q")
	declare := g.pick("declare -n ", "declare -n ", "typeset -n ", "declare -gn ", "local -n ", "readonly -n ",
		"declare -n -x ", "command declare -n ")
	declare += g.pick("p="+to, "p="+to, "\"p="+to+"\"", "p; p="+to, "p="+to+" q=p")
	value := g.pick("'$(canary)'", "'$(canary)'", "'`p2`'", "\"\\$(p3)\"", "canary", g.word(depth))
	set := g.pick(name+"="+value, name+"="+value, name+"+="+value, "read -r "+name+" <<< "+value,
		"printf -v "+name+" %s "+value, "mapfile "+name+" <<< "+value, "readarray -t "+name+" <<< "+value,
		name+"[0]="+value, "for "+name+" in PS4; do "+name+"="+value+"; done",
		"unset "+name+"; : ${"+name+":="+value+"}", "getopts a: "+name+" -a",
		"select "+name+" in "+value+"; do break; done <<< 1", "declare "+name+"="+value, "export "+name)
	s := g.pick("x=PS4; y=PS4; ", "", "") + declare + g.pick("; ", "\n") + set + g.pick("; ", "\n") +
		g.pick("set -x; :", "set -x; :", "set -x; p1", "bash -c p1", "(set -x; :)", "bash -xc :", "echo $p")
	if strings.HasPrefix(declare, "local") || g.odds(6) {
		return "f() { " + s + "; }; f"
	}
	return s
}

// wrapped is a command that another one starts.
func (g generator) wrapped(depth int) string {
	inner := g.program(depth + 1)
	quoted := "'" + strings.ReplaceAll(inner, "'", `'\''`) + "'"
	return g.pick("eval ", "bash -c ", "sh -c ", "trap -- ", "xargs -I{} bash -c ", "env bash -c ",
		"timeout 1 bash -c ", "command eval ", "builtin eval ", "nice sh -c ", "find . -maxdepth 0 -exec bash -c ",
		"env -i bash -c ", "bash <<< ", "echo ", "awk ", "sed -n ", "exec bash -c ", "bash -ec ", "source <(echo ",
		"setsid bash -c ") + quoted + g.pick("", " EXIT", " a b", " \\;", ")", " | bash", " <<< a")
}
