package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/tools"
)

// Source is what a configuration is made of.
type Source struct {
	File string              // "" is none
	Env  func(string) string // os.Getenv
	Dir  string              // the working directory: the workspace unless the file names one
}

// Load reads, merges and checks. Its errors name the file and the line.
func Load(src Source) (*Config, error) {
	paths, err := ResolvePaths(src.Env)
	if err != nil {
		return nil, err
	}
	home := src.Env("HOME")
	if home == "" {
		home = "/"
	}
	c := &Config{
		File: File{
			Workspace: Workspace{Roots: []string{src.Dir}},
			Sessions:  Sessions{Mode: policy.ModeAuto, MaxMode: policy.ModeAuto},
			Profile:   "strict",
			Policy:    Policy{Profile: "developer"},
			Approvals: Approvals{Timeout: Duration(5 * time.Minute), MaxPerSession: 100},
			Vars:      Vars{Capacity: 1000},
			Store:     Store{Sync: "normal"},
			Audit:     Audit{Sync: "interval"},
			Log:       Log{Level: "info"},
		},
		Paths: paths,
		Home:  home,
		from:  map[string]string{},
	}
	for key, name := range map[string]string{"paths.agentSocket": "SANDBOXD_SOCKET", "paths.operatorSocket": "SANDBOXD_OPERATOR_SOCKET", "paths.stateDir": "SANDBOXD_STATE_DIR"} {
		if src.Env(name) != "" {
			c.from[key] = "environment " + name
		}
	}
	if src.File == "" {
		return c, c.finish()
	}
	if err := c.read(src.File); err != nil {
		return nil, fmt.Errorf("%s: %w", src.File, err)
	}
	if err := c.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", src.File, err)
	}
	return c, nil
}

// read decodes the file over the defaults.
func (c *Config) read(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return err
	}
	if len(root.Content) == 0 {
		return nil // an empty file keeps the defaults
	}
	c.note(name, "", root.Content[0])
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c.File); err != nil {
		return err
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return errors.New("a configuration is one document")
	}
	return nil
}

// note remembers the line of every key, for config show and for errors.
func (c *Config) note(file, prefix string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := prefix + n.Content[i].Value
		c.from[key] = fmt.Sprintf("%s:%d", file, n.Content[i].Line)
		c.note(file, key+".", n.Content[i+1])
	}
}

// finish merges the sandbox section and checks the whole.
func (c *Config) finish() error {
	for i, root := range c.Workspace.Roots {
		phys, err := c.directory("workspace.roots", root)
		if err != nil {
			return err
		}
		c.Workspace.Roots[i] = phys
	}
	if len(c.Workspace.Roots) == 0 {
		return c.bad("workspace.roots", "there must be at least one directory")
	}
	if err := c.mergeSandbox(); err != nil {
		return err
	}
	if err := c.checkWords(); err != nil {
		return err
	}
	for _, dir := range c.Policy.Dirs {
		if _, err := c.directory("policy.dirs", dir); err != nil {
			return err
		}
		if c.writable(dir) {
			return c.bad("policy.dirs", dir+" lies where agents can write")
		}
	}
	if err := c.Policy.Rules.Check(); err != nil {
		return c.bad("policy.rules", err.Error())
	}
	if _, err := hooks.New(hooks.Options{Hooks: c.Hooks, Writable: c.Sandbox.AllowedWritePaths}); err != nil {
		return c.bad("hooks", err.Error())
	}
	return c.checkTools()
}

// mergeSandbox puts the sandbox section over the defaults, key by key.
func (c *Config) mergeSandbox() error {
	s := sandbox.DefaultSettings(c.Workspace.Roots[0], c.Home, Private(c.Paths))
	for _, root := range c.Workspace.Roots[1:] {
		s.AllowedWritePaths = append(s.AllowedWritePaths, root)
	}
	if c.SandboxDoc.Kind != 0 {
		doc, err := yaml.Marshal(&c.SandboxDoc)
		if err != nil {
			return c.bad("sandbox", err.Error())
		}
		if s, err = s.Merge(doc); err != nil {
			return c.bad("sandbox", err.Error())
		}
	}
	s, warnings, err := s.Normalise()
	if err != nil {
		return c.bad("sandbox", err.Error())
	}
	c.Sandbox, c.Warnings = s, append(c.Warnings, warnings...)
	return nil
}

func (c *Config) checkWords() error {
	for _, w := range []struct {
		key, value string
		of         []string
	}{
		{"sessions.mode", c.Sessions.Mode, policy.Modes},
		{"sessions.maxMode", c.Sessions.MaxMode, policy.Modes},
		{"profile", c.File.Profile, []string{"strict", "light"}},
		{"policy.profile", c.Policy.Profile, policy.Profiles},
		{"policy.verdict", or(c.Policy.Verdict, policy.VerdictAdvisory), []string{policy.VerdictAdvisory, policy.VerdictFinal}},
		{"store.sync", c.Store.Sync, []string{"normal", "full"}},
		{"audit.sync", c.Audit.Sync, []string{"interval", "always"}},
		{"log.level", c.Log.Level, []string{"debug", "info", "warn", "error"}},
		{"vars.nested", c.Vars.Nested, []string{"", "all"}},
	} {
		if !slices.Contains(w.of, w.value) {
			return c.bad(w.key, fmt.Sprintf("%q is none of %v", w.value, w.of))
		}
	}
	return nil
}

func (c *Config) checkTools() error {
	for i := range c.Tools.Custom {
		t := &c.Tools.Custom[i]
		schema, err := json.Marshal(t.SchemaDoc)
		if err != nil {
			return c.bad("tools.custom", err.Error())
		}
		if t.SchemaDoc != nil {
			t.Schema = schema
		}
		if _, err := tools.NewCustom(t.Custom); err != nil {
			return c.bad("tools.custom", err.Error())
		}
		if len(t.Argv) > 0 && filepath.IsAbs(t.Argv[0]) && c.writable(t.Argv[0]) {
			return c.bad("tools.custom", t.Argv[0]+" lies where agents can write")
		}
	}
	return nil
}

// directory checks a configured directory and resolves its symlinks.
func (c *Config) directory(key, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", c.bad(key, fmt.Sprintf("%q is not absolute", path))
	}
	phys, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", c.bad(key, err.Error())
	}
	if fi, err := os.Stat(phys); err != nil || !fi.IsDir() {
		return "", c.bad(key, path+" is not a directory")
	}
	return phys, nil
}

func (c *Config) writable(path string) bool {
	if phys, err := filepath.EvalSymlinks(path); err == nil {
		path = phys
	}
	inside := func(root string) bool { return sandbox.Within(path, root) }
	return slices.ContainsFunc(c.Sandbox.AllowedWritePaths, inside)
}

// bad is an error about one key, with its line.
func (c *Config) bad(key, msg string) error {
	e := &tool.Error{Code: "config_invalid", Msg: key + ": " + msg, Hint: "sandboxd config check reads a file without serving it"}
	if from := c.origin(key); from != "default" {
		e.Msg = from + ": " + e.Msg
	}
	return e
}
