package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/internal/part"
	"go.yaml.in/yaml/v3"
)

// Value is a value in force.
type Value struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	From  string          `json:"from"` // "default", "FILE:LINE", the name of a variable, or "flag"
}

// Explain lists every value with where it came from.
func (c *Config) Explain() []Value {
	var out []Value
	var top yaml.Node
	shown := struct {
		*Config `yaml:",inline"`
		Sandbox any                    `yaml:"sandbox"`
		Parts   map[string]part.Config `yaml:",inline"`
	}{c, c.Sandbox, c.Parts}
	// Encoding cannot fail: everything in a configuration was decoded before.
	if err := top.Encode(shown); err != nil {
		panic(fmt.Sprintf("cannot happen: encode configuration: %v", err))
	}
	if c.Sandbox.AllowedCommands == nil {
		// YAML writes an absent list and an empty one alike. Here the first allows every program, and the second
		// none.
		*child(child(&top, "sandbox"), "allowedCommands") = yaml.Node{
			Kind: yaml.ScalarNode, Tag: "!!null", Value: "null",
		}
	}
	out = c.explain(out, &top, nil)
	for _, p := range []struct{ name, value string }{
		{"runtimeDir", c.Paths.RuntimeDir},
		{"agentSocket", c.Paths.AgentSocket},
		{"operatorSocket", c.Paths.OperatorSocket},
		{"stateDir", c.Paths.StateDir},
		{"keyDir", c.Paths.KeyDir},
	} {
		from := c.Paths.From(p.name)
		if from == "" {
			from = "default"
		}
		out = append(out, Value{"paths." + p.name, text(p.value), from})
	}
	return out
}

// explain lists the leaves of the tree. A list is one value, and so is a map whose keys the operator chose.
func (c *Config) explain(out []Value, n *yaml.Node, key []string) []Value {
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 && !freeKeys(key) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			out = c.explain(out, n.Content[i+1], append(key[:len(key):len(key)], n.Content[i].Value))
		}
		return out
	}
	return append(out, Value{strings.Join(key, "."), inline(n), c.origin(key)})
}

func freeKeys(key []string) bool {
	switch strings.Join(key, ".") {
	case "hooks", "tools.groups", "tools.tools", "tools.permissions", "sandbox.env":
		return true
	}
	return false
}

func inline(n *yaml.Node) json.RawMessage {
	var tree any
	if err := n.Decode(&tree); err != nil {
		return text(err.Error())
	}
	b, err := json.Marshal(texts(tree))
	if err != nil {
		return text(err.Error())
	}
	return b
}

// texts turns the keys of maps into text, as JSON needs them.
func texts(tree any) any {
	switch t := tree.(type) {
	case map[any]any:
		m := map[string]any{}
		for k, v := range t {
			m[fmt.Sprint(k)] = texts(v)
		}
		return m
	case map[string]any:
		for k, v := range t {
			t[k] = texts(v)
		}
	case []any:
		for i, v := range t {
			t[i] = texts(v)
		}
	}
	return tree
}

func text(s string) json.RawMessage {
	b, _ := json.Marshal(s) // encoding a string cannot fail
	return b
}

func (c *Config) origin(key []string) string {
	if from := c.from.given[strings.Join(key, ".")]; from != "" {
		return from
	}
	n, exact := c.from.file.find(key)
	if !exact {
		return "default"
	}
	from := fmt.Sprintf("%s:%d", filepath.Base(c.File), n.Line)
	if strings.Join(key, ".") == "sandbox.deniedPaths" {
		from = "default and " + from // the list of the file extends the default
	}
	return from
}
