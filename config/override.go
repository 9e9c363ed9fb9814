package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Overrides are the keys that a flag or a variable can set, for those who start
// the same daemon in several places.
var Overrides = []string{
	"workspace.roots", "sessions.mode", "sessions.maxMode", "profile", "policy.profile",
	"approvals.approver", "approvals.timeout", "store.sync", "audit.sync", "log.level", "metrics.listen",
}

// Variable is the environment variable of a key: sessions.maxMode is set by
// SANDBOXD_SESSIONS_MAX_MODE.
func Variable(key string) string {
	var b strings.Builder
	b.WriteString("SANDBOXD_")
	for _, r := range key {
		switch {
		case r == '.':
			b.WriteByte('_')
		case unicode.IsUpper(r):
			b.WriteByte('_')
			b.WriteRune(r)
		default:
			b.WriteRune(unicode.ToUpper(r))
		}
	}
	return b.String()
}

// origins is where values came from.
type origins struct {
	file  *document
	given map[string]string // by key: the flag or variable that set it
	paths map[string]string
}

// override puts variables, then flags over what the file said.
func (c *Config) override(src Source, d *document) error {
	c.from.given = map[string]string{}
	for _, key := range Overrides {
		if v := src.Env(Variable(key)); v != "" {
			if err := c.set(key, v, Variable(key)); err != nil {
				return err
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(src.Flags)) {
		if !slices.Contains(Overrides, key) {
			return fmt.Errorf("no flag sets %q", key)
		}
		if err := c.set(key, src.Flags[key], "flag"); err != nil {
			return err
		}
	}
	return nil
}

// set decodes one value with the code that decodes the file.
func (c *Config) set(key, value, from string) error {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: value}
	if key == "workspace.roots" {
		n = &yaml.Node{Kind: yaml.SequenceNode}
		for _, dir := range filepath.SplitList(value) {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: dir, Tag: "!!str"})
		}
	}
	parts := strings.Split(key, ".")
	for _, part := range slices.Backward(parts) {
		n = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: part}, n}}
	}
	if err := n.Decode(c); err != nil {
		return fmt.Errorf("%s: %q is not a value for %s", from, value, key)
	}
	c.from.given[key] = from
	return nil
}
