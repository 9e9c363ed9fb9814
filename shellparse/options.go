package shellparse

import (
	"slices"
	"strings"
)

// parse reads options and collects the operands.
func (a *act) parse(args []field) {
	a.operands = make([]field, 0, len(args))
	if i := a.options(a.spec, args, a.spec.posix || a.wraps()); i < len(args) {
		a.operands = append(a.operands, args[i:]...)
	}
}

func (a *act) wraps() bool {
	for _, k := range a.spec.operands {
		if k == argv {
			return true
		}
	}
	return false
}

// options reads the options of s in args. With first it stops at the first
// operand and returns its index; else operands are collected on the way.
func (a *act) options(s *spec, args []field, first bool) int {
	lead := 0 // operands in front of a wrapped command
	for i := 0; i < len(args); i++ {
		f := args[i]
		text := f.text
		switch {
		case !f.known && a.unknownValue(s, f):
		case !f.known && a.hiddenOption(s, f):
			a.opaque("unknown_option", a.cmd.Name+" is given what may be an option: "+f.text, f.at)
		case !f.known || len(text) < 2 || text[0] != '-' && (text[0] != '+' || s.opts[text[:2]] == (opt{})):
			if first && (lead >= s.leading() || s.posix) {
				if f.many && a.wraps() {
					a.opaque("unknown_command", a.cmd.Name+" runs a command that is only known when it runs", f.at)
				}
				return i
			}
			if first && lead < s.leading() {
				lead++
				if f.many {
					a.again(f)
				}
			}
			a.operands = append(a.operands, f)
		case text == "--":
			a.operands = append(a.operands, args[i+1:]...)
			return len(args)
		case strings.HasPrefix(text, "--") || s.single && s.opts[before(text, "=")] != (opt{}) || s.single && len(text) > 2:
			i += a.longOption(s, f, args[i+1:])
		default:
			i += a.shortOptions(s, f, args[i+1:])
		}
	}
	return len(args)
}

// unknownValue is --name="$x" or -n"$x" for a name in the table: one word, of which
// only the value is not known.
func (a *act) unknownValue(s *spec, f field) bool {
	if len(f.skeleton) > 2 && f.skeleton[0] == '-' && f.skeleton[1] != '-' && !f.many {
		o := s.opts[f.skeleton[:2]]
		if o.kind != flag {
			a.effect(o.effect)
			a.value(o, field{text: f.text, skeleton: f.skeleton[2:], code: f.code, at: f.at})
			if strings.Trim(f.skeleton[2:], "_") == "" && !o.optional {
				a.again(f, literal(f.skeleton[:2], f.at)) // if it is empty, the next word is the value
			}
		}
		return o.kind != flag
	}
	name, rest, ok := strings.Cut(f.skeleton, "=")
	if !ok || f.many || !strings.HasPrefix(name, "--") || strings.Contains(name, "_") || rest == "" {
		return false
	}
	found := s.long(name)
	for _, o := range found {
		a.effect(o.effect)
		if o.kind != flag {
			a.value(o, field{text: f.text, at: f.at})
		}
	}
	return len(found) > 0
}

// again reads a wrapper's words a second time with other words for f, which may
// be those: then the command is another one.
func (a *act) again(f field, words ...field) {
	if !a.wraps() {
		return
	}
	for i, word := range a.call.argv {
		if i > 0 && word.at == f.at {
			second := a.call
			second.argv = slices.Concat(second.argv[:i], words, second.argv[i+1:])
			a.inner = append(a.inner, func() {
				// An option that is none makes the program end: that is no reading.
				was := a.w.again
				a.w.again = true
				a.w.start(second, a.sc)
				a.w.again = was
			})
			return
		}
	}
}

// hiddenOption reports whether f becomes an option that decides what runs, or what
// the words after it mean, when what is not known of it is empty: ${x}-exec.
func (a *act) hiddenOption(s *spec, f field) bool {
	rest := strings.ReplaceAll(f.skeleton, "_", "")
	if rest == f.skeleton || len(rest) < 2 {
		return false
	}
	o, ok := s.opts[rest]
	if !ok && rest[1] != '-' {
		o = s.opts[rest[:2]]
		return o.kind == shell || o.kind == program || o.kind == code || o.kind == refuse
	}
	return ok && o.kind != flag && o.kind != data || o.effect == "nodata"
}

func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}

// leading is how many operands come before a wrapped command.
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

func (a *act) longOption(s *spec, f field, rest []field) (used int) {
	name, val, attached := strings.Cut(f.text, "=")
	found := s.long(name)
	if len(found) == 0 {
		if s.strict && !a.w.again {
			a.opaque("unknown_option", a.cmd.Name+" has an option that is not known here: "+name, f.at)
		}
		if attached && strings.ContainsAny(val, "/.~") {
			a.use(maybe, f.sub(val))
		}
		return 0
	}
	for _, o := range found {
		a.effect(o.effect)
		switch {
		case o.kind == flag:
		case attached:
			a.value(o, f.sub(val))
		case !o.optional && len(rest) > 0:
			a.value(o, rest[0])
			if used = 1; rest[0].many {
				a.again(rest[0])
			}
		}
	}
	return used
}

func (a *act) shortOptions(s *spec, f field, rest []field) (used int) {
	sign := f.text[:1]
	for j := 1; j < len(f.text); j++ {
		o, ok := s.opts[sign+f.text[j:j+1]]
		if !ok {
			if s.strict && !a.w.again {
				a.opaque("unknown_option", a.cmd.Name+" has an option that is not known here: -"+f.text[j:], f.at)
			}
			if s.strict {
				return 0
			}
			if k := strings.IndexByte(f.text[j:], '/'); k >= 0 {
				a.use(maybe, f.sub(strings.TrimPrefix(f.text[j+1:], "=")))
				return 0
			}
			continue
		}
		a.effect(o.effect)
		if o.kind == flag {
			continue
		}
		switch {
		case j+1 < len(f.text):
			a.value(o, f.sub(f.text[j+1:]))
		case !o.optional && len(rest) > 0:
			a.value(o, rest[0])
			if rest[0].many {
				a.again(rest[0])
			}
			return 1
		}
		return 0
	}
	return 0
}

func (a *act) effect(e string) {
	if e == "" {
		return
	}
	if a.effects == nil {
		a.effects = map[string]bool{}
	}
	a.effects[e] = true
}

func (a *act) value(o opt, f field) {
	if a.values == nil {
		a.values = map[string][]field{}
	}
	a.values[o.name] = append(a.values[o.name], f)
	a.use(o.kind, f)
}
