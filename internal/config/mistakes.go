package config

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/policy"
	"go.yaml.in/yaml/v3"
)

// Mistakes are all mistakes in a configuration, sorted by line.
type Mistakes []error

func (m Mistakes) Error() string { return errors.Join(m...).Error() }

// Unwrap lets errors.As find each mistake; one that has a line is an [*Error].
func (m Mistakes) Unwrap() []error { return m }

// About reports whether a mistake belongs to a section, or to no section in particular.
func About(err error, section string) bool {
	return slices.ContainsFunc(flat(err), func(one error) bool {
		e, ok := errors.AsType[*Error](one)
		return !ok || e.Key == section || strings.HasPrefix(e.Key, section+".")
	})
}

// gather joins the errors of the stages of loading: none is nil, one is itself, more are Mistakes. If an earlier
// stage has refused a value, it drops what later stages say of that value.
func gather(stages ...error) error {
	var all Mistakes
	for _, stage := range stages {
		before := all
		for _, err := range flat(stage) {
			if !slices.ContainsFunc(before, func(b error) bool { return sameValue(b, err) }) {
				all = append(all, err)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b error) int { return lineOf(a) - lineOf(b) })
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// Placed adds the line of the configuration to an error of loading the policies that is about a rule that is
// disabled and cannot be.
func (c *Config) Placed(err error) error {
	var all []error
	for _, one := range flat(err) {
		if e, ok := errors.AsType[*policy.DisableError](one); ok {
			at := slices.Index(c.Policy.Disable, e.ID)
			one = c.from.file.errorAt([]string{"policy", "disable", strconv.Itoa(at)}, errors.New(e.Why))
		}
		all = append(all, one)
	}
	return errors.Join(all...)
}

// flat returns the joined errors one by one.
func flat(err error) (all []error) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(several.Unwrap()...).Error() != err.Error() {
		return slices.DeleteFunc([]error{err}, func(e error) bool { return e == nil })
	}
	for _, one := range several.Unwrap() {
		all = append(all, flat(one)...)
	}
	return all
}

// sameValue reports whether two mistakes are about one value: they have the same line, and the same key or one key
// inside the other.
func sameValue(a, b error) bool {
	x, ok := errors.AsType[*Error](a)
	y, also := errors.AsType[*Error](b)
	if !ok || !also || x.Line != y.Line || x.Line == 0 {
		return false
	}
	within := func(key, outer string) bool {
		rest, ok := strings.CutPrefix(key, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return within(x.Key, y.Key) || within(y.Key, x.Key)
}

func lineOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Line
	}
	return 0
}

// typeErrors returns the mistakes that a type has found in its own part of the file. The decoder goes on after such
// errors, and stops at any other.
func typeErrors(messages ...string) error {
	if len(messages) == 0 {
		return nil
	}
	return &yaml.TypeError{Errors: messages}
}

var (
	atLine    = lazyregexp.New(`^(?:yaml: )?line (\d+): `)
	wrongType = lazyregexp.New("(?s)^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.+)$")
)

// yamlErrors translates the errors of the YAML library into the words of this program.
func (d *document) yamlErrors(err error) []error {
	if err == nil {
		return nil
	}
	messages := []string{err.Error()}
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		messages = te.Errors
	}
	var all []error
	for _, msg := range messages {
		e := &Error{File: d.name}
		if m := atLine().FindStringSubmatch(msg); m != nil {
			e.Line, _ = strconv.Atoi(m[1])
			msg = msg[len(m[0]):]
		}
		if m := wrongType().FindStringSubmatch(msg); m != nil {
			e.Key = d.keyAt(d.root, "", e.Line, m[1], m[2])
			msg = fmt.Sprintf("want %s, not %s", wanted(m[3]), given(m[1], m[2]))
		} else if strings.HasPrefix(msg, "unknown key") || strings.HasPrefix(msg, "want ") { // of typeErrors
			e.Key = d.holderAt(d.root, "", e.Line)
		} else if strings.Contains(msg, "cannot start any token") {
			msg = "the line cannot be read: indent with spaces, not with tabs, and quote text that begins with @ or `"
		}
		e.Err = errors.New(strings.TrimPrefix(msg, "yaml: "))
		all = append(all, e)
	}
	return all
}

// unknownKey names a key that does not exist, and the key that was probably meant.
func unknownKey(key string, known []string) string {
	msg := fmt.Sprintf("unknown key %q", key)
	best, least := "", max(len(key)/2, 2)+1
	for _, k := range known {
		if n := levenshtein.ComputeDistance(strings.ToLower(key), strings.ToLower(k)); n < least {
			best, least = k, n
		}
	}
	if best != "" {
		msg += fmt.Sprintf("; did you mean %q?", best)
	}
	return msg
}

// elsewhere names the section that has a key, if the key stands at the top of the file by mistake.
func elsewhere(key, at string) string {
	if _, ok := keysOf(reflect.TypeFor[guard.Settings](), "json")[key]; ok && at == "" {
		return fmt.Sprintf("; it stands below %q", "sandbox")
	}
	if key == "paths" && at == "" {
		return "; places come from the environment: SANDBOXD_STATE_DIR, SANDBOXD_RUNTIME_DIR, SANDBOXD_KEY_DIR"
	}
	return ""
}

// wanted says in words which values a Go type takes.
func wanted(goType string) string {
	switch {
	case goType == "time.Duration":
		return "a time with its unit, as in 90s or 5m"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "a whole number"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "map["):
		return "keys and values"
	case strings.HasPrefix(goType, "config.") || strings.HasPrefix(goType, "struct"):
		return "keys and values"
	}
	return "a text"
}

// given says in words which value the file has.
func given(tag, value string) string {
	switch tag {
	case "seq":
		return "a list"
	case "map":
		return "keys and values"
	}
	return strconv.Quote(value)
}

// unknownKeys returns the keys below n that its type does not have, and numbers with a fraction for types that take
// whole ones. Types that decode themselves find theirs. more are keys that may stand beside those of the type.
func (d *document) unknownKeys(n *yaml.Node, t reflect.Type, key string, more ...string) []error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()) {
		return nil
	}
	var all []error
	switch {
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			all = append(all, d.unknownKeys(item, t.Elem(), fmt.Sprintf("%s[%d]", key, i))...)
		}
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			all = append(all, d.unknownKeys(n.Content[i+1], t.Elem(), join(key, n.Content[i].Value))...)
		}
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		fields := keysOf(t, "yaml")
		known := append(slices.Sorted(maps.Keys(fields)), more...)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if inner, ok := fields[k.Value]; ok {
				all = append(all, d.unknownKeys(n.Content[i+1], inner, join(key, k.Value))...)
			} else if !slices.Contains(known, k.Value) {
				all = append(all, &Error{d.name, k.Line, key, errors.New(unknownKey(k.Value, known) +
					elsewhere(k.Value, key))})
			}
		}
	case isInt(t) && n.ShortTag() == "!!float": // the library would silently cut off the fraction
		if number, err := strconv.ParseFloat(n.Value, 64); err != nil || number != math.Trunc(number) {
			all = append(all, &Error{d.name, n.Line, key, fmt.Errorf("want a whole number, not %s", n.Value)})
		}
	}
	return all
}

func isInt(t reflect.Type) bool {
	return (t.Kind() == reflect.Int || t.Kind() == reflect.Int64) && t != reflect.TypeFor[time.Duration]()
}

// keysOf returns the keys of a struct by a tag, with the types of their values.
func keysOf(t reflect.Type, tag string) map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
		if f.IsExported() && name != "-" {
			keys[cmp.Or(name, strings.ToLower(f.Name))] = f.Type
		}
	}
	return keys
}

// keyAt returns the key whose value stands in a line. If the line has several, the kind and the beginning of the
// value tell which one is meant.
func (d *document) keyAt(n *yaml.Node, prefix string, line int, tag, value string) string {
	kind := map[string]yaml.Kind{"seq": yaml.SequenceNode, "map": yaml.MappingNode}[tag]
	if kind == 0 {
		kind = yaml.ScalarNode
	}
	best := ""
	for key, item := range values(n, prefix) {
		if inner := d.keyAt(item, key, line, tag, value); inner != "" {
			return inner
		}
		if item.Line == line && item.Kind == kind && strings.HasPrefix(item.Value, strings.TrimSuffix(value, "...")) {
			best = key
		}
	}
	return best
}

// holderAt returns the innermost mapping that has a key in a line. "" is the top.
func (d *document) holderAt(n *yaml.Node, prefix string, line int) string {
	for key, item := range values(n, prefix) {
		if inner := d.holderAt(item, key, line); inner != "" {
			return inner
		}
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Line == line {
			return prefix
		}
	}
	return ""
}

// values iterates over the values of a mapping or a list, with the key of each.
func values(n *yaml.Node, prefix string) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		for i, item := range n.Content {
			key := fmt.Sprintf("%s[%d]", prefix, i)
			if n.Kind == yaml.MappingNode {
				if i%2 == 0 {
					continue
				}
				key = join(prefix, n.Content[i-1].Value)
			}
			if !yield(key, item) {
				return
			}
		}
	}
}
