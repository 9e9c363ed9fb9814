package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/sandbox"
)

// maxFileBytes bounds the file: what is larger was not written by a person.
const maxFileBytes = 4 << 20

// document is a configuration file with the places of its keys.
type document struct {
	name string
	text []byte
	root *yaml.Node // the top mapping; nil when there is nothing in the file
}

// Error is a mistake in a configuration file.
type Error struct {
	File string
	Line int    // 0 when the mistake is not in a line
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
	return where + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

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
	text, err := readRegular(name)
	if err != nil {
		return nil, err
	}
	d := &document{name: name, text: text}
	var top yaml.Node
	if err := yaml.Unmarshal(text, &top); err != nil {
		return nil, d.yamlError(err)
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

func readRegular(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read configuration: %q is not a regular file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("read configuration: %q has more than %d bytes", name, maxFileBytes)
	}
	return text, nil
}

// plain refuses what makes a file mean something else than it looks like: keys
// given twice, and references to other parts of it.
func (d *document) plain(n *yaml.Node, key string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return &Error{d.name, n.Line, key, errors.New("anchors and aliases are not supported; write the value out")}
	}
	if n.Kind != yaml.MappingNode {
		for _, item := range n.Content {
			if err := d.plain(item, key); err != nil {
				return err
			}
		}
		return nil
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		full := join(key, k.Value)
		if first, twice := lines[k.Value]; twice {
			return &Error{d.name, k.Line, full, fmt.Errorf("the key is given twice, first in line %d", first)}
		}
		lines[k.Value] = k.Line
		if err := d.plain(n.Content[i+1], full); err != nil {
			return err
		}
	}
	return nil
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// decode reads everything but the settings of the sandbox, which merge.
func (d *document) decode(c *Config) error {
	if d.root == nil {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(d.text))
	dec.KnownFields(true)
	target := struct {
		*Config `yaml:",inline"`
		Sandbox yaml.Node `yaml:"sandbox"`
	}{Config: c}
	if err := dec.Decode(&target); err != nil {
		return d.yamlError(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return &Error{File: d.name, Err: errors.New("more than one document; want one")}
	}
	return nil
}

var unknownField = regexp.MustCompile(`^field (\S+) not found in type`)

var atLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// yamlError says what the library found in the words of this program; the first
// mistake is enough.
func (d *document) yamlError(err error) error {
	var te *yaml.TypeError
	msg := err.Error()
	if errors.As(err, &te) {
		msg = te.Errors[0]
	}
	line := 0
	if m := atLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
	}
	if m := unknownField.FindStringSubmatch(msg); m != nil {
		msg = fmt.Sprintf("unknown key %q", m[1])
	}
	return &Error{File: d.name, Line: line, Err: errors.New(strings.TrimPrefix(msg, "yaml: "))}
}

// find is the node of a key, or of the nearest key around it.
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

// errorAt is err with the line of a key. A number in key is a place in a list.
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

// mergeSandbox puts the settings of the file over s. On a mistake, each key is
// tried alone to find its line.
func (d *document) mergeSandbox(s sandbox.Settings) (sandbox.Settings, error) {
	n, exact := d.find([]string{"sandbox"})
	if !exact || n.Tag == "!!null" {
		return s, nil
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return s, d.errorAt([]string{"sandbox"}, err)
	}
	merged, err := s.Merge(text)
	if err != nil {
		return s, d.sandboxError(err)
	}
	return merged, nil
}

// sandboxError finds the line of a mistake that package sandbox named by its key.
func (d *document) sandboxError(err error) error {
	n, _ := d.find([]string{"sandbox"})
	best := []string{"sandbox"}
	for _, key := range leaves(n, nil) {
		name := strings.Join(key, ".")
		msg := err.Error()
		if strings.HasPrefix(msg, name+":") || strings.HasPrefix(msg, fmt.Sprintf("unknown key %q", name)) || strings.HasPrefix(msg, fmt.Sprintf("key %q", name)) {
			best = append([]string{"sandbox"}, key...)
		}
	}
	e := d.errorAt(best, err).(*Error)
	e.Key = "sandbox"
	return e
}

// leaves are the keys below n, inner ones as well.
func leaves(n *yaml.Node, prefix []string) [][]string {
	var out [][]string
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := append(slices.Clone(prefix), n.Content[i].Value)
		out = append(append(out, key), leaves(n.Content[i+1], key)...)
	}
	return out
}

func decodeJSON(n *yaml.Node, into any) error {
	var tree any
	if err := n.Decode(&tree); err != nil {
		return err
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("line %d: keys must be text: %w", n.Line, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("line %d: %s", n.Line, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func asJSON(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	return tree, json.Unmarshal(text, &tree)
}
