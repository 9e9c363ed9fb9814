package program

import (
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/source"
)

// awkUse is one thing that an awk program does outside of awk.
type awkUse struct{ what, text string }

// awkUses finds commands, pipes and files in an awk program. Strings, patterns
// and comments are data; what is computed is reported as unknown. Of a program that is not known,
// _ stands for what is only known when it runs, in a name too: $1system("x") runs x where $1 is empty.
func awkUses(src string, known bool) []awkUse {
	toks := awkTokens(src)
	var out []awkUse
	printing, depth := false, 0
	for i, t := range toks {
		var next, prev awkToken
		if i+1 < len(toks) {
			next = toks[i+1]
		}
		if i > 0 {
			prev = toks[i-1]
		}
		switch t.text {
		case "print", "printf":
			if t.kind == 'w' {
				printing, depth = true, 0
			}
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		case ";", "\n", "}", "{":
			printing, depth = false, 0
		case "system":
			if t.kind == 'w' && next.text == "(" {
				arg, after := at(toks, i+2), at(toks, i+3)
				if arg.kind == 's' && after.text == ")" {
					out = append(out, awkUse{"shell", arg.text})
				} else {
					out = append(out, awkUse{"code", "executes a command that it computes (system)"})
				}
			}
		case "|", "|&":
			switch {
			case next.text == "getline":
				before := at(toks, i-2)
				if prev.kind == 's' && (before.kind == 0 || before.kind == 'o') {
					out = append(out, awkUse{"shell", prev.text})
				} else {
					out = append(out, awkUse{"code", "executes a command that it computes (| getline)"})
				}
			case next.kind == 's' && ends(at(toks, i+2)):
				out = append(out, awkUse{"shell", next.text})
			default:
				out = append(out, awkUse{"code", "executes a command that it computes (print |)"})
			}
		case ">", ">>":
			if !printing || depth > 0 {
				break
			}
			if next.kind == 's' && ends(at(toks, i+2)) {
				what := "write"
				if t.text == ">>" {
					what = "append"
				}
				out = append(out, awkUse{what, next.text})
			} else {
				out = append(out, awkUse{"unknown write", t.text + " " + next.text})
			}
		case "getline":
			j := i + 1
			if at(toks, j).kind == 'w' { // getline var < file
				j++
			}
			if at(toks, j).text != "<" {
				break
			}
			if f := at(toks, j+1); f.kind == 's' && (ends(at(toks, j+2)) || at(toks, j+2).kind == 'o') {
				out = append(out, awkUse{"read", f.text})
			} else {
				out = append(out, awkUse{"unknown read", "getline < " + f.text})
			}
		case "ARGV":
			if t.kind == 'w' {
				out = append(out, awkUse{"unknown read", "ARGV"})
			}
		case "@":
			out = append(out, awkUse{"code", "loads or calls what it computes (@)"})
		default:
			may, _ := path.Match(strings.ReplaceAll(t.text, "_", "*"), "system")
			if !known && t.kind == 'w' && next.text == "(" && may {
				out = append(out, awkUse{"code", "may execute a command, by a name that is only known when it runs"})
			}
		}
	}
	return out
}

func at(toks []awkToken, i int) awkToken {
	if i < 0 || i >= len(toks) {
		return awkToken{}
	}
	return toks[i]
}

// ends reports whether a token ends a statement.
func ends(t awkToken) bool {
	return t.kind == 0 || t.text == ";" || t.text == "\n" || t.text == "}"
}

// awkToken has the kind w (word), s (string), o (operator or number), r (pattern),
// or 0 at the end.
type awkToken struct {
	kind byte
	text string
}

func awkTokens(src string) []awkToken {
	var out []awkToken
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\\' && i+1 < len(src) && src[i+1] == '\n':
			i += 2
		case c == '#':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case c == '"':
			text, n := awkString(src[i:])
			out = append(out, awkToken{'s', text})
			i += n
		case c == '/' && patternMayStart(out):
			n := 1
			for class := false; i+n < len(src) && (src[i+n] != '/' || class) && src[i+n] != '\n'; n++ {
				switch src[i+n] {
				case '\\':
					n++
				case '[':
					class = true
				case ']':
					class = false
				}
			}
			n = min(n+1, len(src)-i)
			out = append(out, awkToken{'r', "/…/"})
			i += n
		case '0' <= c && c <= '9':
			n := 1
			for i+n < len(src) && (IsWordByte(src[i+n]) || src[i+n] == '.') {
				n++
			}
			out = append(out, awkNumber(src[i:i+n])...)
			i += n
		case IsWordByte(c):
			n := 1
			for i+n < len(src) && IsWordByte(src[i+n]) {
				n++
			}
			out = append(out, awkToken{'w', src[i : i+n]})
			i += n
		default:
			n := 1
			if i+1 < len(src) {
				switch src[i : i+2] {
				case "||", "&&", ">=", "<=", "==", "!=", "|&", ">>", "!~", "++", "--", "+=", "-=", "*=", "/=", "^=",
					"%=":
					n = 2
				}
			}
			out = append(out, awkToken{'o', src[i : i+n]})
			i += n
		}
	}
	return out
}

// awkNumber reads what begins with a digit. A word may follow a number without a space, and where the number
// ends depends on the awk: 0x1system("x") runs x in some.
func awkNumber(text string) []awkToken {
	for _, word := range []string{"system", "getline", "print", "printf", "ARGV"} {
		if number, ok := strings.CutSuffix(text, word); ok {
			return []awkToken{{'o', number}, {'w', word}}
		}
	}
	return []awkToken{{'o', text}}
}

func IsWordByte(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// patternMayStart tells a pattern from a division: no value stands in front.
func patternMayStart(toks []awkToken) bool {
	if len(toks) == 0 {
		return true
	}
	last := toks[len(toks)-1]
	switch last.kind {
	case 'w':
		return last.text == "print" || last.text == "return" || last.text == "in" || last.text == "case"
	case 's', 'r':
		return false
	}
	return last.text != ")" && last.text != "]" && last.text != "$" && !(last.text[0] >= '0' && last.text[0] <= '9') &&
		last.text != "++" && last.text != "--"
}

func awkString(s string) (string, int) {
	var b strings.Builder
	i := 1
	for ; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '"', '\\', '/':
				b.WriteByte(s[i])
			case 'x':
				v, n := source.Digits(s[i+1:], 16, 2)
				b.WriteByte(byte(v))
				i += n
			case '0', '1', '2', '3', '4', '5', '6', '7':
				v, n := source.Digits(s[i:], 8, 3)
				b.WriteByte(byte(v))
				i += n - 1
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String(), min(i+1, len(s))
}
