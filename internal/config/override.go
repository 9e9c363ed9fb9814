package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Overrides are the keys that a flag or an environment variable can set, for people who start the same daemon in
// several places.
var Overrides = []string{
	"workspace.roots", "sessions.mode", "sessions.maxMode", "profile", "policy.profile",
	"approvals.approver", "approvals.timeout", "store.sync", "store.url", "audit.sync", "log.level", "metrics.listen",
}

// Variable returns the environment variable of a key: SANDBOXD_SESSIONS_MAX_MODE sets sessions.maxMode.
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

// origins says where each value came from.
type origins struct {
	file  *document
	given map[string]string // by key: the flag or the variable that set it
}

// override puts the environment variables over the file, and the flags over both.
func (c *Config) override(src Source) error {
	c.from.given = map[string]string{}
	var all []error
	for _, key := range Overrides {
		if v := src.Env(Variable(key)); v != "" {
			all = append(all, c.set(key, v, Variable(key)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(src.Flags)) {
		if !slices.Contains(Overrides, key) {
			all = append(all, fmt.Errorf("no flag sets %q", key))
			continue
		}
		all = append(all, c.set(key, src.Flags[key], "flag"))
	}
	return errors.Join(all...)
}

// set decodes one value, with the code that decodes the file.
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
		said := "not a value for it"
		if m := wrongType().FindStringSubmatch(typeMessage(err)); m != nil {
			said = "want " + wanted(m[3])
		}
		return fmt.Errorf("%s sets %s to %q: %s", from, key, value, said)
	}
	c.from.given[key] = from
	return nil
}

// typeMessage returns the first message of the decoder, without the line.
func typeMessage(err error) string {
	msg := err.Error()
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		msg = te.Errors[0]
	}
	return strings.TrimPrefix(msg, atLine().FindString(msg))
}
