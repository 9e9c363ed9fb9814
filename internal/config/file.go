package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"go.yaml.in/yaml/v3"
)

// maxFileBytes bounds the file: a person does not write a larger one.
const maxFileBytes = 4 << 20

// document is a configuration file, with the line of each key.
type document struct {
	name string
	text []byte
	root *yaml.Node // the top mapping; nil if the file is empty
}

// Error is a mistake in a configuration file.
type Error struct {
	File string
	Line int    // 0 if the mistake has no line
	Key  string // "policy.rules.deny"; "" when it is in no key
	Err  error
}

func (e *Error) Error() string {
	where := e.File
	if where == "" {
		where = "configuration"
	}
	if e.Line > 0 {
		where += ":" + strconv.Itoa(e.Line)
	}
	if e.Key != "" {
		where += ": " + e.Key
	}
	return where + ": " + strings.TrimPrefix(e.Err.Error(), e.Key+": ")
}

func (e *Error) Unwrap() error { return e.Err }

// readFile reads the file. If it returns no document, nothing else can be checked.
func readFile(src Source) (*document, error) {
	name := src.File
	if name == "" {
		name = src.Env("SANDBOXD_CONFIG")
	}
	if name == "" {
		return &document{}, nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(src.Dir, name)
	}
	text, err := readRegular("configuration", name)
	if err != nil {
		return nil, err
	}
	d := &document{name: name, text: text}
	var top yaml.Node
	if err := yaml.Unmarshal(text, &top); err != nil {
		return nil, errors.Join(d.yamlErrors(err)...)
	}
	if top.Kind == 0 || len(top.Content) == 0 || top.Content[0].Tag == "!!null" {
		return d, nil
	}
	d.root = top.Content[0]
	if d.root.Kind != yaml.MappingNode {
		return nil, &Error{File: name, Line: d.root.Line, Err: errors.New("want keys and values")}
	}
	return d, d.plain(d.root, "")
}

func readRegular(what, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: %q is not a regular file", what, name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("read %s: %q has more than %d bytes", what, name, maxFileBytes)
	}
	return text, nil
}

// plain refuses what makes a file mean something else than it seems to say: a key given twice, and a reference to
// another part of the file.
func (d *document) plain(n *yaml.Node, key string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return &Error{d.name, n.Line, key, errors.New("anchors and aliases are not supported; write the value out")}
	}
	var all []error
	lines := map[string]int{}
	for i, item := range n.Content {
		at := key
		if n.Kind == yaml.MappingNode {
			k := n.Content[i-i%2]
			at = join(key, k.Value)
			if i%2 == 0 {
				if first, twice := lines[k.Value]; twice {
					err := fmt.Errorf("the key is given twice, first in line %d", first)
					all = append(all, &Error{d.name, k.Line, at, err})
				}
				lines[k.Value] = k.Line
				continue
			}
		}
		all = append(all, d.plain(item, at))
	}
	return errors.Join(all...)
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// decode reads everything except the settings of the sandbox, which are merged. What it cannot read keeps its
// default.
func (d *document) decode(c *Config, parts []part.Definition) error {
	root, all := once(d.root), []error{d.single()}
	c.Parts = map[string]part.Config{}
	others := []string{"sandbox"}
	for _, p := range parts {
		if p.Config == nil {
			continue
		}
		section := p.Config()
		c.Parts[p.Name] = section
		others = append(others, p.Name)
		n := child(root, p.Name)
		if n == nil {
			continue
		}
		wrong := append(d.unknownKeys(n, reflect.TypeOf(section), p.Name), d.yamlErrors(n.Decode(section))...)
		if len(wrong) == 0 {
			wrong = append(wrong, d.errorAt([]string{p.Name}, section.Check()))
		}
		all = append(all, wrong...)
	}
	if root != nil {
		all = append(all, d.unknownKeys(root, reflect.TypeFor[Config](), "", others...)...)
		all = append(all, d.yamlErrors(root.Decode(c))...)
	}
	return errors.Join(all...)
}

// single refuses a second document in the file, because nothing would read it.
func (d *document) single() error {
	dec := yaml.NewDecoder(bytes.NewReader(d.text))
	for range 2 {
		if err := dec.Decode(new(yaml.Node)); err != nil {
			return nil // the first document has been read
		}
	}
	return &Error{File: d.name, Err: errors.New("more than one document; want one")}
}

// once returns the tree without what plain refuses: repeated keys, except the first, and aliases.
func once(n *yaml.Node) *yaml.Node {
	if n == nil {
		return nil
	}
	out := *n
	out.Content, out.Anchor = nil, ""
	seen := map[string]bool{}
	for i, item := range n.Content {
		switch {
		case item.Kind == yaml.AliasNode || n.Kind == yaml.MappingNode && i%2 == 0:
		case n.Kind == yaml.MappingNode:
			if k := n.Content[i-1]; !seen[k.Value] && k.Kind == yaml.ScalarNode {
				seen[k.Value] = true
				out.Content = append(out.Content, k, once(item))
			}
		default:
			out.Content = append(out.Content, once(item))
		}
	}
	return &out
}

// find returns the node of a key, or of the nearest key around it.
func (d *document) find(key []string) (n *yaml.Node, exact bool) {
	n = d.root
	for _, k := range key {
		next := child(n, k)
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, n != nil
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(key); err == nil && i < len(n.Content) {
			return n.Content[i]
		}
		return nil
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// errorAt adds the line of a key to err. A number in key is an index in a list.
func (d *document) errorAt(key []string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{File: d.name, Err: err}
	if n, exact := d.find(key); exact {
		e.Line = n.Line
	}
	for _, k := range key {
		if _, place := strconv.Atoi(k); place == nil {
			e.Key += "[" + k + "]"
		} else {
			e.Key = join(e.Key, k)
		}
	}
	return e
}

// mergeSandbox puts the settings of the file over s. It names each key that is wrong by itself, and leaves it out.
func (d *document) mergeSandbox(s guard.Settings) (guard.Settings, error) {
	n, exact := d.find([]string{"sandbox"})
	if !exact || n.Tag == "!!null" {
		return s, nil
	}
	var all []error
	good := d.goodSettings(n, nil, func(key []string, doc []byte) bool {
		one, err := s.Merge(doc)
		if err == nil {
			_, _, err = settleSettings(one)
		}
		if err != nil {
			all = append(all, d.sandboxError(key, err))
		}
		return err == nil
	})
	text, err := yaml.Marshal(good)
	if err == nil {
		var merged guard.Settings
		if merged, err = s.Merge(text); err == nil {
			return merged, errors.Join(all...)
		}
	}
	return s, errors.Join(append(all, d.sandboxError(nil, err))...)
}

func settleSettings(s guard.Settings) (guard.Settings, []string, error) {
	s, warnings, err := s.Normalise()
	if err == nil {
		err = s.CheckCage()
	}
	return s, warnings, err
}

// goodSettings returns n with only the keys that pass. It tries each alone, as a document of its own.
func (d *document) goodSettings(n *yaml.Node, prefix []string, try func(key []string, doc []byte) bool) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return n // the merge says what type it must have
	}
	good := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := append(slices.Clone(prefix), k.Value)
		if v.Kind == yaml.MappingNode && len(prefix) == 0 && k.Value != "env" {
			good.Content = append(good.Content, k, d.goodSettings(v, key, try))
			continue
		}
		alone := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{k, v}}
		for _, outer := range prefix {
			name := &yaml.Node{Kind: yaml.ScalarNode, Value: outer}
			alone = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{name, alone}}
		}
		if doc, err := yaml.Marshal(alone); err == nil && try(key, doc) {
			good.Content = append(good.Content, k, v)
		}
	}
	return good
}

// sandboxError is a mistake that package guard has found at a key.
func (d *document) sandboxError(key []string, err error) error {
	e := d.errorAt(append([]string{"sandbox"}, key...), err).(*Error)
	name := strings.Join(key, ".")
	if rest, ok := strings.CutPrefix(err.Error(), name+": "); ok {
		e.Err = errors.New(rest)
	} else {
		e.Key = "sandbox"
	}
	return e
}

func decodeJSON(n *yaml.Node, into any) error {
	var tree any
	if err := n.Decode(&tree); err != nil {
		return err
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return typeErrors(fmt.Sprintf("line %d: keys must be text: %v", n.Line, err))
	}
	err = strictjson.Decode(text, into)
	if err == nil {
		return nil
	}
	said := strings.TrimPrefix(err.Error(), "json: ")
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		said = fmt.Sprintf("want %s for %s, not %s", wanted(wrong.Type.String()), wrong.Field, wrong.Value)
	} else if name, ok := strings.CutPrefix(said, "unknown field "); ok {
		known := keysOf(reflect.TypeOf(into).Elem(), "json")
		said = unknownKey(strings.Trim(name, `"`), slices.Sorted(maps.Keys(known)))
	}
	return typeErrors(fmt.Sprintf("line %d: %s", n.Line, said))
}

func asJSON(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	return tree, json.Unmarshal(text, &tree)
}
