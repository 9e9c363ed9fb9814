package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Merge puts a settings document (JSON or YAML) over s, key by key: a list that
// is given replaces the list of s, except deniedPaths, which adds to it unless
// the document says "defaults: none". Unknown and repeated keys are errors.
func (s Settings) Merge(doc []byte) (Settings, error) {
	fields, err := parseDocument(doc)
	if err != nil {
		return Settings{}, err
	}
	secrets := s.DeniedPaths
	if raw, ok := fields["defaults"]; ok {
		if string(raw) != `"none"` {
			return Settings{}, fmt.Errorf(`defaults: %s: the only value is "none"`, raw)
		}
		secrets = nil
		delete(fields, "defaults")
	}
	s, err = s.merge(fields)
	if err != nil {
		return Settings{}, err
	}
	if _, given := fields["deniedPaths"]; !given {
		s.DeniedPaths = nil
	}
	all := slices.Clone(secrets)
	for _, p := range s.DeniedPaths {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	s.DeniedPaths = all
	return s, nil
}

// ParseSettings reads settings exactly as given, with nothing merged.
func ParseSettings(doc []byte) (Settings, error) {
	fields, err := parseDocument(doc)
	if err != nil {
		return Settings{}, err
	}
	return Settings{}.merge(fields)
}

func (s Settings) merge(fields map[string]json.RawMessage) (Settings, error) {
	targets := map[string]any{
		"allowedReadPaths":          &s.AllowedReadPaths,
		"allowedWritePaths":         &s.AllowedWritePaths,
		"deniedPaths":               &s.DeniedPaths,
		"deniedCommands":            &s.DeniedCommands,
		"allowedCommands":           &s.AllowedCommands,
		"allowNestedSandbox":        &s.AllowNestedSandbox,
		"enableWeakerNestedSandbox": &s.EnableWeakerNestedSandbox,
		"autoAllowBashIfSandboxed":  &s.AutoAllowBashIfSandboxed,
		"allowUnsandboxedCommands":  &s.AllowUnsandboxedCommands,
		"require":                   &s.Require,
		"network": group{"network", map[string]any{
			"allowedDomains":    &s.Network.AllowedDomains,
			"allowLocalBinding": &s.Network.AllowLocalBinding,
		}},
		"limits": group{"limits", map[string]any{
			"wallSeconds": &s.Limits.WallSeconds, "cpuSeconds": &s.Limits.CPUSeconds,
			"memoryBytes": &s.Limits.MemoryBytes, "processes": &s.Limits.Processes,
			"fileSizeBytes": &s.Limits.FileSizeBytes, "openFiles": &s.Limits.OpenFiles,
			"outputBytes": &s.Limits.OutputBytes, "diskBytes": &s.Limits.DiskBytes,
		}},
	}
	// The map of s belongs to the caller.
	s.Env = maps.Clone(s.Env)
	targets["env"] = &s.Env
	if err := fill("", targets, fields); err != nil {
		return Settings{}, err
	}
	return s, nil
}

type group struct {
	name    string
	targets map[string]any
}

func fill(prefix string, targets map[string]any, fields map[string]json.RawMessage) error {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		target, known := targets[key]
		if !known {
			return unknownKey(prefix+key, key, targets)
		}
		if g, ok := target.(group); ok {
			inner, err := object(fields[key])
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			if err := fill(g.name+".", g.targets, inner); err != nil {
				return err
			}
			continue
		}
		// A list starts empty: decoding into the default's array would write
		// through to its owner.
		if list, ok := target.(*[]string); ok {
			*list = nil
		}
		if err := json.Unmarshal(fields[key], target); err != nil {
			return fmt.Errorf("%s%s: %s is not a value for it", prefix, key, fields[key])
		}
	}
	return nil
}

func unknownKey(full, key string, targets map[string]any) error {
	for known := range targets {
		if strings.EqualFold(known, key) {
			return fmt.Errorf("unknown key %q: write %q", full, known)
		}
	}
	switch full {
	case "network.allowManagedDomainsOnly", "network.allowUnixSockets", "network.allowAllUnixSockets",
		"network.httpProxyPort", "network.socksProxyPort", "ignoreViolations", "ripgrep":
		// known elsewhere, so never ignored in silence.
		return fmt.Errorf("key %q is not supported here: the cage always holds the network itself", full)
	}
	return fmt.Errorf("unknown key %q: known are %s", full, strings.Join(slices.Sorted(maps.Keys(targets)), ", "))
}

func parseDocument(doc []byte) (map[string]json.RawMessage, error) {
	doc = bytes.TrimSpace(doc)
	if len(doc) == 0 {
		return nil, nil
	}
	if doc[0] == '{' && json.Valid(doc) {
		return object(doc)
	}
	var tree any
	if err := yaml.Unmarshal(doc, &tree); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("settings: keys must be text: %w", err)
	}
	return object(asJSON)
}

// object splits a JSON object and refuses a repeated key, which encoding/json
// would take silently.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, fmt.Errorf("%s is not an object", abridge(raw))
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key := tok.(string)
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("key %q is given twice", key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		fields[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the object")
	}
	return fields, nil
}

func abridge(raw []byte) string {
	if len(raw) > 60 {
		return string(raw[:60]) + "…"
	}
	return string(raw)
}
