package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// settings are the text of a settings file. What is not changed keeps its bytes: order,
// comments and space.
type settings struct {
	root hujson.Value
	unit string // of indentation; "" writes everything on one line
}

// handler is one hook in the settings of an agent, and handlerGroup what runs for a matcher.
type (
	handler struct {
		Type      string `json:"type"`
		Command   string `json:"command"`
		Timeout   int    `json:"timeout"`
		OnFailure string `json:"onFailure,omitempty"`
	}
	handlerGroup struct {
		Matcher string    `json:"matcher"`
		Hooks   []handler `json:"hooks"`
	}
)

// readSettings parses a settings file. An agent that reads strict JSON would ignore a file
// with comments, and so the hook in it.
func readSettings(text []byte, comments bool) (*settings, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if !bytes.HasSuffix(text, []byte("\n")) && bytes.Contains(text, []byte("//")) {
		text = append(bytes.Clone(text), '\n') // the library wants a comment to end
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is not a JSON object")
	}
	if !comments && !root.IsStandard() {
		return nil, errors.New("it has comments or a comma too many, which this agent does not read")
	}
	for v := range root.All() {
		if trailingComma(v) {
			return nil, errors.New("it has a comma before a closing bracket, which this agent does not read")
		}
	}
	plain := root.Clone()
	plain.Standardize()
	if err := strictjson.Check(plain.Pack()); err != nil {
		return nil, fmt.Errorf("readers would understand it differently: %w", err)
	}
	return &settings{root, indentation(root)}, nil
}

func trailingComma(v *hujson.Value) bool {
	switch c := v.Value.(type) {
	case *hujson.Object:
		return len(c.Members) > 0 && c.Members[len(c.Members)-1].Value.AfterExtra != nil
	case *hujson.Array:
		return len(c.Elements) > 0 && c.Elements[len(c.Elements)-1].AfterExtra != nil
	}
	return false
}

// indentation returns what stands before the first member.
func indentation(root hujson.Value) string {
	o := root.Value.(*hujson.Object)
	if len(o.Members) == 0 {
		return "  "
	}
	before := string(o.Members[0].Name.BeforeExtra)
	i := strings.LastIndexByte(before, '\n')
	if i < 0 {
		return ""
	}
	if unit := before[i+1:]; unit != "" && strings.Trim(unit, " \t") == "" {
		return unit
	}
	return "  "
}

func (s *settings) text() []byte { return s.root.Pack() }

// put adds a handler to the lists of these events, or renews it where it is.
func (s *settings) put(events []string, matcher string, h handler, ours func(string) bool) error {
	hooks, err := s.object(&s.root, "hooks", 1)
	if err != nil {
		return err
	}
	for _, event := range events {
		list, err := s.list(hooks, event)
		if err != nil {
			return err
		}
		if have := find(list, ours); have != nil {
			err = s.renew(have, h)
		} else {
			err = s.add(list, 3, handlerGroup{matcher, []handler{h}})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// object returns the member of an object that is an object, made if it is absent.
func (s *settings) object(in *hujson.Value, name string, depth int) (*hujson.Value, error) {
	v, err := s.member(in, name, depth, struct{}{})
	if err != nil {
		return nil, err
	}
	if _, ok := v.Value.(*hujson.Object); !ok {
		return nil, fmt.Errorf("%s is not an object", name)
	}
	return v, nil
}

func (s *settings) list(hooks *hujson.Value, event string) (*hujson.Value, error) {
	v, err := s.member(hooks, event, 2, []string{})
	if err != nil {
		return nil, err
	}
	if _, ok := v.Value.(*hujson.Array); !ok {
		return nil, fmt.Errorf("hooks.%s is not a list", event)
	}
	return v, nil
}

// member returns the member of an object, made with a value if it is absent. Depth is its own.
func (s *settings) member(in *hujson.Value, name string, depth int, absent any) (*hujson.Value, error) {
	o := in.Value.(*hujson.Object)
	if v := memberOf(o, name); v != nil {
		return v, nil
	}
	v, err := s.value(absent, depth)
	if err != nil {
		return nil, err
	}
	if s.unit != "" {
		v.BeforeExtra = hujson.Extra(" ")
	}
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: v}
	m.Name.BeforeExtra, o.AfterExtra = s.room(o.AfterExtra, len(o.Members) == 0, depth)
	o.Members = append(o.Members, m)
	return &o.Members[len(o.Members)-1].Value, nil
}

// add appends an element to a list.
func (s *settings) add(list *hujson.Value, depth int, element any) error {
	a := list.Value.(*hujson.Array)
	v, err := s.value(element, depth)
	if err != nil {
		return err
	}
	v.BeforeExtra, a.AfterExtra = s.room(a.AfterExtra, len(a.Elements) == 0, depth)
	a.Elements = append(a.Elements, v)
	return nil
}

// room makes place for a new last element: what stood before the closing bracket, up to its
// last comment, stays where it is. A list on one line stays there.
func (s *settings) room(after hujson.Extra, first bool, depth int) (before, rest hujson.Extra) {
	kept := bytes.TrimRight(after, " \t\r\n")
	rest = after[len(kept):]
	switch {
	case s.unit == "" && len(kept) == 0:
		return nil, rest
	case !first && !bytes.Contains(rest, []byte("\n")):
		return append(bytes.Clone(kept), ' '), rest
	case first:
		rest = hujson.Extra("\n" + strings.Repeat(s.unit, depth-1))
	}
	return append(bytes.Clone(kept), "\n"+strings.Repeat(s.unit, depth)...), rest
}

// value returns a new value, indented for its depth.
func (s *settings) value(v any, depth int) (hujson.Value, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a command has & and < as people write them
	if err := enc.Encode(v); err != nil {
		return hujson.Value{}, err
	}
	text := bytes.TrimSpace(b.Bytes())
	if s.unit != "" {
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, strings.Repeat(s.unit, depth), s.unit); err != nil {
			return hujson.Value{}, err
		}
		text = indented.Bytes()
	}
	return hujson.Parse(text)
}

// renew changes the fields of a handler that differ, and leaves the flags that a person has
// added to its command.
func (s *settings) renew(have *hujson.Value, h handler) error {
	o := have.Value.(*hujson.Object)
	now := h
	_, flags, _ := strings.Cut(textIn(o, "command"), " hook --agent ")
	if _, flags, more := strings.Cut(timeoutFlag().ReplaceAllString(flags, ""), " "); more {
		now.Command += " " + flags
	}
	wanted, err := s.value(now, 0)
	if err != nil {
		return err
	}
	for _, m := range wanted.Value.(*hujson.Object).Members {
		name := m.Name.Value.(hujson.Literal).String()
		v := memberOf(o, name)
		if v == nil {
			if _, err := s.member(have, name, 6, json.RawMessage(m.Value.Value.(hujson.Literal))); err != nil {
				return err
			}
			continue
		}
		if l, ok := v.Value.(hujson.Literal); !ok || string(l) != string(m.Value.Value.(hujson.Literal)) {
			v.Value = m.Value.Value
		}
	}
	return nil
}

var timeoutFlag = lazyregexp.New(` --timeout[ =]\S+`)

// take removes every handler that is ours, and what is empty without it.
func (s *settings) take(ours func(string) bool) {
	hooks := memberOf(s.root.Value.(*hujson.Object), "hooks")
	if hooks == nil {
		return
	}
	events, ok := hooks.Value.(*hujson.Object)
	if !ok {
		return
	}
	taken := false
	for i := len(events.Members) - 1; i >= 0; i-- {
		list, ok := events.Members[i].Value.Value.(*hujson.Array)
		if !ok || !takeFrom(list, ours) {
			continue
		}
		taken = true
		if empty(events.Members[i]) {
			removeMember(events, i)
		}
	}
	root := s.root.Value.(*hujson.Object)
	if taken && len(events.Members) == 0 {
		s.takeHooks(root)
	}
}

// takeHooks removes the member hooks if it holds nothing.
func (s *settings) takeHooks(root *hujson.Object) {
	i := slices.IndexFunc(root.Members, func(m hujson.ObjectMember) bool { return nameOf(m) == "hooks" })
	if empty(root.Members[i]) {
		removeMember(root, i)
	}
}

// empty reports whether a member holds neither values nor comments.
func empty(m hujson.ObjectMember) bool {
	if len(commentsOf(m.Name.AfterExtra, m.Value.BeforeExtra)) > 0 {
		return false
	}
	switch v := m.Value.Value.(type) {
	case *hujson.Object:
		return len(v.Members) == 0 && len(commentsOf(v.AfterExtra)) == 0
	case *hujson.Array:
		return len(v.Elements) == 0 && len(commentsOf(v.AfterExtra)) == 0
	}
	return false
}

func takeFrom(list *hujson.Array, ours func(string) bool) bool {
	taken := false
	for i := len(list.Elements) - 1; i >= 0; i-- {
		group := handlersOf(list.Elements[i])
		if group == nil {
			continue
		}
		before := len(group.Elements)
		for j := before - 1; j >= 0; j-- {
			if o, ok := group.Elements[j].Value.(*hujson.Object); ok && ours(textIn(o, "command")) {
				group.Elements, group.AfterExtra = without(group.Elements, j, group.AfterExtra)
			}
		}
		if len(group.Elements) == before {
			continue
		}
		taken = true
		if len(group.Elements) == 0 {
			list.Elements, list.AfterExtra = without(list.Elements, i, list.AfterExtra)
		}
	}
	return taken
}

// without removes an element. Comments around it stay.
func without(list []hujson.Value, i int, after hujson.Extra) ([]hujson.Value, hujson.Extra) {
	comments := commentsOf(list[i].BeforeExtra, list[i].AfterExtra)
	list = slices.Delete(list, i, i+1)
	if i < len(list) {
		list[i].BeforeExtra = joined(comments, list[i].BeforeExtra)
		return list, after
	}
	if i > 0 { // it is the last now, and no comma follows it
		comments = append(commentsOf(list[i-1].AfterExtra), comments...)
		list[i-1].AfterExtra = nil
	}
	if len(list) == 0 && len(comments) == 0 && len(bytes.TrimSpace(after)) == 0 {
		return list, nil
	}
	return list, joined(comments, after)
}

// joined puts comments before other space. A line comment needs the end of its line.
func joined(comments, space hujson.Extra) hujson.Extra {
	if len(comments) > 0 && !bytes.HasPrefix(bytes.TrimLeft(space, " \t\r"), []byte("\n")) {
		comments = append(comments, '\n')
	}
	return append(comments, space...)
}

func removeMember(o *hujson.Object, i int) {
	values := make([]hujson.Value, len(o.Members)) // of the names before and the values after
	for j, m := range o.Members {
		values[j] = hujson.Value{BeforeExtra: m.Name.BeforeExtra, Value: m.Value.Value, AfterExtra: m.Value.AfterExtra}
	}
	values, o.AfterExtra = without(values, i, o.AfterExtra)
	o.Members = slices.Delete(o.Members, i, i+1)
	for j := range o.Members {
		o.Members[j].Name.BeforeExtra, o.Members[j].Value.AfterExtra = values[j].BeforeExtra, values[j].AfterExtra
	}
}

// commentsOf returns the space before an element if there is more than space.
func commentsOf(extras ...hujson.Extra) hujson.Extra {
	var out hujson.Extra
	for _, e := range extras {
		if kept := bytes.TrimRight(e, " \t\r\n"); len(kept) > 0 {
			out = joined(out, kept)
		}
	}
	return out
}

// has counts the events in which a handler is ours, and names its command.
func (s *settings) has(events []string, ours func(string) bool) (n int, command string) {
	hooks := memberOf(s.root.Value.(*hujson.Object), "hooks")
	if hooks == nil {
		return 0, ""
	}
	o, ok := hooks.Value.(*hujson.Object)
	if !ok {
		return 0, ""
	}
	for _, event := range events {
		if list := memberOf(o, event); list != nil {
			if have := find(list, ours); have != nil {
				n++
				command = textIn(have.Value.(*hujson.Object), "command")
			}
		}
	}
	return n, command
}

// is reports whether a member of the file has this value, by its path.
func (s *settings) is(value string, path ...string) bool {
	v := &s.root
	for _, name := range path {
		o, ok := v.Value.(*hujson.Object)
		if !ok {
			return false
		}
		if v = memberOf(o, name); v == nil {
			return false
		}
	}
	l, ok := v.Value.(hujson.Literal)
	return ok && string(l) == value
}

// find returns the handler in a list of groups whose command is ours.
func find(list *hujson.Value, ours func(string) bool) *hujson.Value {
	a, ok := list.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	for i := range a.Elements {
		group := handlersOf(a.Elements[i])
		if group == nil {
			continue
		}
		for j := range group.Elements {
			if o, ok := group.Elements[j].Value.(*hujson.Object); ok && ours(textIn(o, "command")) {
				return &group.Elements[j]
			}
		}
	}
	return nil
}

func handlersOf(group hujson.Value) *hujson.Array {
	o, ok := group.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	v := memberOf(o, "hooks")
	if v == nil {
		return nil
	}
	a, _ := v.Value.(*hujson.Array)
	return a
}

func memberOf(o *hujson.Object, name string) *hujson.Value {
	for i := range o.Members {
		if nameOf(o.Members[i]) == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

func nameOf(m hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

func textIn(o *hujson.Object, name string) string {
	v := memberOf(o, name)
	if v == nil {
		return ""
	}
	if l, ok := v.Value.(hujson.Literal); ok && l.Kind() == '"' {
		return l.String()
	}
	return ""
}

// program is the first word of a command line, as a shell reads it.
var program = lazyregexp.New(`^(?:'((?:[^']|'\\'')*)'|([^\s'"\\$]+)) hook --agent ([a-z-]+)(?: |$)`)

// ourCommand reports whether a command line is the hook of a client, by whatever sandboxd.
func ourCommand(exe, client string) func(string) bool {
	return func(command string) bool {
		m := program().FindStringSubmatch(command)
		if m == nil || m[3] != client {
			return false
		}
		base := filepath.Base(programOf(m))
		return base == filepath.Base(exe) || base == "sandboxd"
	}
}

func programOf(m []string) string { return strings.ReplaceAll(m[1], `'\''`, "'") + m[2] }
