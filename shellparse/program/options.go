package program

import (
	"slices"
	"strings"
)

// parse reads options and collects the operands.
func (a *Call) parse(args []Word) {
	n := 0
	for i := range args {
		if !strings.HasPrefix(args[i].Text, "-") {
			n++ // some are values of options
		}
	}
	if n > 0 {
		a.Operands = make([]Word, 0, n)
	}
	if i := a.options(a.spec, args, a.spec.posix || a.wraps()); i < len(args) {
		a.Operands = append(a.Operands, args[i:]...)
	}
}

func (a *Call) wraps() bool {
	for _, k := range a.spec.operands {
		if k == argv {
			return true
		}
	}
	return false
}

// options reads the options of s in args. With first it stops at the first
// operand and returns its index; else operands are collected on the way.
func (a *Call) options(s *spec, args []Word, first bool) int {
	lead := 0 // operands in front of a wrapped command
	for i := 0; i < len(args); i++ {
		f := args[i]
		text := f.Text
		unlisted := a.unlisted
		a.unlisted = false
		switch {
		case len(s.prefixes) > 0 && a.prefixed(s, f):
		case !f.Known && a.unknownValue(s, f):
		case !f.Known && a.hiddenOption(s, f):
			a.Opaque("unknown_option", a.Name+" is given what may be an option: "+f.Text, f.At)
		case !f.Known || len(text) < 2 || text[0] != '-' && (text[0] != '+' || s.opts[text[:2]] == (opt{})):
			if first && (lead >= s.leading() || s.posix) {
				if f.Many && a.wraps() && !a.Effects["data"] {
					a.Opaque("unknown_command", a.Name+" runs a command that is only known when it runs", f.At)
				}
				return i
			}
			if first && lead < s.leading() {
				lead++
				if f.Many {
					a.reread(f)
				}
			}
			if unlisted {
				a.loose = append(a.loose, f.At)
			}
			a.Operands = append(a.Operands, f)
		case text == "--":
			a.Operands = append(a.Operands, args[i+1:]...)
			return len(args)
		case strings.HasPrefix(text, "--") || s.single && s.opts[before(text, "=")] != (opt{}) ||
			s.single && len(text) > 2:
			i += a.longOption(s, f, args[i+1:])
		default:
			i += a.shortOptions(s, f, args[i+1:])
		}
	}
	return len(args)
}

// prefixed reports whether a word begins with a prefix of the table and goes on with a value, such as
// -Dexec.executable=rm.
func (a *Call) prefixed(s *spec, f Word) bool {
	text := f.Text
	if !f.Known {
		text = f.Skeleton
	}
	for _, p := range s.prefixes {
		value, ok := strings.CutPrefix(text, p.text)
		switch {
		case !ok:
			continue
		case f.Known:
			a.use(p.kind, f.Sub(value))
		default:
			a.use(p.kind, Word{Text: f.Text, Skeleton: value, At: f.At})
		}
		return true
	}
	return false
}

// unknownValue is --name="$x" or -n"$x" for a name in the table: one word, of which
// only the value is not known.
func (a *Call) unknownValue(s *spec, f Word) bool {
	if len(f.Skeleton) > 2 && f.Skeleton[0] == '-' && f.Skeleton[1] != '-' && !f.Many {
		o := s.opts[f.Skeleton[:2]]
		if o.kind != flag {
			a.effect(o.effect)
			a.value(o, Word{Text: f.Text, Skeleton: f.Skeleton[2:], Code: f.Code, At: f.At})
			if strings.Trim(f.Skeleton[2:], "_") == "" && !o.optional {
				a.reread(f, Literal(f.Skeleton[:2], f.At)) // if it is empty, the next word is the value
			}
		}
		return o.kind != flag
	}
	name, rest, ok := strings.Cut(f.Skeleton, "=")
	if !ok || f.Many || !strings.HasPrefix(name, "--") || strings.Contains(name, "_") || rest == "" {
		return false
	}
	found := s.long(name)
	for _, o := range found {
		a.effect(o.effect)
		if o.kind != flag {
			a.value(o, Word{Text: f.Text, At: f.At})
		}
	}
	return len(found) > 0
}

// reread reads a wrapper's words a second time with other words for f, which may
// be those: then the command is another one.
func (a *Call) reread(f Word, words ...Word) {
	if !a.wraps() {
		return
	}
	for i, word := range a.Argv {
		if i > 0 && word.At == f.At {
			a.Again(slices.Concat(a.Argv[:i], words, a.Argv[i+1:]))
			return
		}
	}
}

// hiddenOption reports whether f becomes an option that decides what runs, or what
// the words after it mean, when what is not known of it is empty: ${x}-exec.
func (a *Call) hiddenOption(s *spec, f Word) bool {
	if f.mayBe(s.decides) {
		return true
	}
	rest := strings.ReplaceAll(f.Skeleton, "_", "")
	if rest == f.Skeleton || len(rest) < 2 {
		return false
	}
	o, ok := s.opts[rest]
	if !ok && rest[1] != '-' {
		o = s.opts[rest[:2]]
		return o.kind == shell || o.kind == program || o.kind == code || o.kind == refuse
	}
	return ok && o.kind != flag && o.kind != data || o.effect == "nodata"
}

// decides reports whether a word is an option that decides what runs.
func (s *spec) decides(word string) bool {
	if len(word) > 2 && !strings.HasPrefix(word, "--") && !s.single {
		return false
	}
	for _, o := range s.long(word) {
		switch o.kind {
		case shell, program, code, refuse:
			return true
		}
		if o.name == "--checkpoint-action" { // of tar, which reads exec= in it
			return true
		}
	}
	return false
}

// mayBe reports whether a word that is not known, and may become several, is written
// with an option in it that acts: ${x:--exec}, $(echo -exec).
func (f Word) mayBe(acts func(string) bool) bool {
	if f.Known || !f.Many {
		return false
	}
	for i := 0; i < len(f.Text); i++ {
		if f.Text[i] != '-' || i > 0 && IsWordByte(f.Text[i-1]) {
			continue
		}
		end := i
		for end < len(f.Text) && (f.Text[end] == '-' || IsWordByte(f.Text[end])) {
			end++
		}
		if acts(f.Text[i:end]) {
			return true
		}
	}
	return false
}

func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}

// leading returns how many operands come before a wrapped command.
func (s *spec) leading() int {
	n := 0
	for _, k := range s.operands {
		if k == argv || k == subname {
			return n
		}
		if k != env {
			n++
		}
	}
	return 0
}

func (a *Call) longOption(s *spec, f Word, rest []Word) (used int) {
	name, val, attached := strings.Cut(f.Text, "=")
	a.Options = append(a.Options, name)
	found := s.long(name)
	if len(found) == 0 {
		for i := 1; i < len(name) && name[1] != '-'; i++ { // or letters behind one dash
			a.Options = append(a.Options, name[:1]+name[i:i+1])
		}
		if s.strict && !a.Second {
			a.Opaque("unknown_option", a.Name+" has an option that is not known here: "+name, f.At)
		}
		if attached && strings.ContainsAny(val, "/.~") {
			a.use(maybe, f.Sub(val))
		}
		a.unlisted = !attached
		return 0
	}
	for _, o := range found {
		a.effect(o.effect)
		switch {
		case o.kind == flag:
		case attached:
			a.value(o, f.Sub(val))
		case !o.optional && len(rest) > 0:
			a.value(o, rest[0])
			if used = 1; rest[0].Many {
				a.reread(rest[0])
			}
		}
	}
	return used
}

func (a *Call) shortOptions(s *spec, f Word, rest []Word) (used int) {
	if s.shell == "" && (f.Text == "-help" || f.Text == "-version") {
		return 0
	}
	sign := f.Text[:1]
	if len(f.Text) > 2 {
		a.Options = append(a.Options, f.Text)
	}
	for j := 1; j < len(f.Text); j++ {
		a.Options = append(a.Options, sign+f.Text[j:j+1])
		o, ok := s.opts[sign+f.Text[j:j+1]]
		if !ok {
			if s.strict && !a.Second {
				a.Opaque("unknown_option", a.Name+" has an option that is not known here: -"+f.Text[j:], f.At)
			}
			if s.strict {
				return 0
			}
			if k := strings.IndexByte(f.Text[j:], '/'); k >= 0 {
				a.use(maybe, f.Sub(strings.TrimPrefix(f.Text[j+1:], "=")))
				return 0
			}
			a.unlisted = j+1 == len(f.Text)
			continue
		}
		a.effect(o.effect)
		if o.kind == flag {
			continue
		}
		switch {
		case j+1 < len(f.Text):
			a.value(o, f.Sub(f.Text[j+1:]))
		case !o.optional && len(rest) > 0:
			a.value(o, rest[0])
			if rest[0].Many {
				a.reread(rest[0])
			}
			return 1
		}
		return 0
	}
	return 0
}

func (a *Call) effect(e string) {
	if e == "" {
		return
	}
	if a.Effects == nil {
		a.Effects = map[string]bool{}
	}
	a.Effects[e] = true
}

func (a *Call) value(o opt, f Word) {
	if a.Values == nil {
		a.Values = map[string][]Word{}
	}
	a.Values[o.name] = append(a.Values[o.name], f)
	a.Told = a.Told || o.kind == obeyed
	a.use(o.kind, f)
}
