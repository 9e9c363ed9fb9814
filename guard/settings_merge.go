package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/strictjson"
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

// ParseSettings reads settings exactly as given, and merges nothing.
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
			"deniedDomains":     &s.Network.DeniedDomains,
			"unlisted":          &s.Network.Unlisted,
			"hosts":             &s.Network.Hosts,
			"intercept":         &s.Network.Intercept,
			"secrets":           &s.Network.Secrets,
			"caFile":            &s.Network.CAFile,
			"upstreamProxy":     &s.Network.UpstreamProxy,
			"search":            &s.Network.Search,
			"allowLocalBinding": &s.Network.AllowLocalBinding,
		}},
		"limits": group{"limits", map[string]any{
			"wallSeconds": &s.Limits.WallSeconds, "cpuSeconds": &s.Limits.CPUSeconds,
			"memoryBytes": &s.Limits.MemoryBytes, "processes": &s.Limits.Processes,
			"fileSizeBytes": &s.Limits.FileSizeBytes, "openFiles": &s.Limits.OpenFiles,
			"outputBytes": &s.Limits.OutputBytes, "outputAction": &s.Limits.OutputAction,
			"diskBytes": &s.Limits.DiskBytes, "networkBytes": &s.Limits.NetworkBytes,
			"networkConnections": &s.Limits.NetworkConnections,
		}},
	}
	// The maps of s belong to the caller.
	s.Env, s.Network.Hosts = maps.Clone(s.Env), maps.Clone(s.Network.Hosts)
	targets["env"] = &s.Env
	if err := fill("", targets, fields); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// ofOthers are settings of other sandboxes, each with what to write instead. They are never ignored silently.
var ofOthers = map[string]string{
	"network.allowManagedDomainsOnly": "only an operator can set network.allowedDomains; " +
		"network.unlisted: deny asks nobody about other hosts",
	"network.allowUnixSockets":    "no program in the sandbox reaches a socket of the host; leave it out",
	"network.allowAllUnixSockets": "no program in the sandbox reaches a socket of the host; leave it out",
	"network.httpProxyPort":       "the proxy of the sandbox has one port, and programs need no proxy; leave it out",
	"network.socksProxyPort":      "the proxy of the sandbox has one port, and programs need no proxy; leave it out",
	"ignoreViolations":            "nothing that the sandbox stops is left out of an answer; leave it out",
	"ripgrep":                     "the tool Grep needs no program; leave it out",
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
		// A list starts empty: to decode into the array of the default would change the default.
		switch list := target.(type) {
		case *[]string:
			*list = nil
		case *[]Secret:
			*list = nil
		}
		if err := json.Unmarshal(fields[key], target); err != nil {
			return fmt.Errorf("%s%s: %s is not a value for it: want %s", prefix, key, fields[key], wanted(key, target))
		}
	}
	return nil
}

// wanted says in words what a setting takes.
func wanted(key string, target any) string {
	switch target.(type) {
	case *bool:
		return "true or false"
	case *[]string:
		return "a list of texts"
	case *map[string]string:
		return "names with texts"
	case **Search:
		return "a provider, and perhaps its url"
	case *[]Secret:
		return "a list of secrets, each with host, file, credential or command, and perhaps header, value or user"
	case *int, *int64, *uint64:
		for _, unit := range []string{"Bytes", "Seconds"} {
			if strings.HasSuffix(key, unit) {
				return "a whole number of " + strings.ToLower(unit)
			}
		}
		return "a whole number"
	}
	return "a text"
}

func unknownKey(full, key string, targets map[string]any) error {
	for known := range targets {
		if strings.EqualFold(known, key) {
			return fmt.Errorf("unknown key %q: write %q", full, known)
		}
	}
	if instead, known := ofOthers[full]; known {
		return fmt.Errorf("key %q is not supported here: %s", full, instead)
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

// object splits a JSON object, and refuses a field that is given twice.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := strictjson.Check(raw); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("%s is not an object", abridge(raw))
	}
	return fields, nil
}

func abridge(raw []byte) string {
	if len(raw) > 60 {
		return string(raw[:60]) + "…"
	}
	return string(raw)
}
