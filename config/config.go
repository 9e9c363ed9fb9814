// Package config reads the one YAML file that configures the daemon.
//
//	c, err := config.Load(config.Source{File: "/etc/sandboxd/config.yaml", Env: os.Getenv, Dir: cwd})
//
// The file is strict: an unknown or repeated key, a relative path, a rule that can
// never match, or a configured program that lies where agents can write is an
// error with its line. Keys that are left out keep the defaults, and with no file
// at all the working directory is served. The environment wins over the file.
// Nothing is ever read from a workspace.
package config

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools"
)

// File is every key that a configuration file may hold.
type File struct {
	Workspace  Workspace      `yaml:"workspace"`
	Sessions   Sessions       `yaml:"sessions"`
	SandboxDoc yaml.Node      `yaml:"sandbox"` // merged over the defaults into Config.Sandbox
	Profile    string         `yaml:"profile"` // of the sandbox: strict or light
	Policy     Policy         `yaml:"policy"`
	Hooks      Hooks          `yaml:"hooks"`
	Approvals  Approvals      `yaml:"approvals"`
	Tools      Tools          `yaml:"tools"`
	Vars       Vars           `yaml:"vars"`
	Store      Store          `yaml:"store"`
	Audit      Audit          `yaml:"audit"`
	Log        Log            `yaml:"log"`
	Metrics    Metrics        `yaml:"metrics"`
	Operators  Operators      `yaml:"operators"`
	Accounts   map[int]string `yaml:"accounts"` // uid to account; others are default-admin
}

// Config is the effective configuration.
type Config struct {
	File
	Sandbox  sandbox.Settings
	Paths    Paths
	Home     string   // of whoever runs the daemon
	Warnings []string // what is legal and perhaps not meant

	from map[string]string // dotted key to where its value came from
}

// Workspace is what is served.
type Workspace struct {
	Roots []string `yaml:"roots"` // absolute; the first is the default directory
}

// Sessions are the defaults of new sessions and what agents may ask for.
type Sessions struct {
	Mode    string `yaml:"mode"`
	MaxMode string `yaml:"maxMode"`
}

// Policy says which policies hold.
type Policy struct {
	Profile     string              `yaml:"profile"`
	Dirs        []string            `yaml:"dirs"`
	Disable     []string            `yaml:"disable"`
	Rules       policy.Rules        `yaml:"rules"`
	Policies    []policy.ListPolicy `yaml:"policies"`
	Verdict     string              `yaml:"verdict"`
	AskReadOnly *bool               `yaml:"askReadOnly"`
}

// Options is the policy section as the engine takes it.
func (p Policy) Options() policy.Options {
	return policy.Options{
		Profile: p.Profile, Dirs: p.Dirs, Disable: p.Disable, Rules: p.Rules, Policies: p.Policies, Verdict: p.Verdict,
		RelaxReads: p.AskReadOnly != nil && !*p.AskReadOnly,
	}
}

// Hooks is event to definitions.
type Hooks = map[string][]hooks.Definition

// Approvals bounds the questions to people.
type Approvals struct {
	Timeout       Duration `yaml:"timeout"`
	MaxPerSession int      `yaml:"maxPerSession"`
}

// Tools says which tools new sessions have, and adds some.
type Tools struct {
	Groups map[string]bool `yaml:"groups"`
	Tools  map[string]bool `yaml:"tools"`
	Custom []Custom        `yaml:"custom"`
}

// Custom is a tool of the operator: a program with an argument template.
type Custom struct {
	tools.Custom `yaml:",inline"`
	SchemaDoc    map[string]any `yaml:"schema"` // JSON Schema of the arguments
}

// Vars bounds the variables of a session.
type Vars struct {
	Capacity int    `yaml:"capacity"`
	Nested   string `yaml:"nested"`
	MaxValue int    `yaml:"maxValue"`
}

// Store says what an acknowledged write survives: "normal" or "full".
type Store struct {
	Sync string `yaml:"sync"`
}

// Audit says when the record is synced: "interval" or "always".
type Audit struct {
	Sync string `yaml:"sync"`
}

// Log is the level of the log: debug, info, warn or error.
type Log struct {
	Level string `yaml:"level"`
}

// Metrics opens /metrics and /healthz over TCP where an address is given.
type Metrics struct {
	Listen string `yaml:"listen"`
}

// Operators are admitted on the operator socket, beside root and the daemon's uid.
type Operators struct {
	UIDs []int `yaml:"uids"`
}

// Duration is a time written as in "5m".
type Duration time.Duration

// Duration is the value as the standard library has it.
func (d Duration) Duration() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// UnmarshalYAML reads "90s", "5m", "1h30m".
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v <= 0 {
		return fmt.Errorf("line %d: %q is not a duration such as 5m", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// Value is one effective setting and where it came from.
type Value struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // "default", "FILE:LINE", "environment"
}

// Explain lists every effective value.
func (c *Config) Explain() []Value {
	list := func(s []string) string { return strings.Join(s, ", ") }
	rows := []Value{
		{Key: "workspace.roots", Value: list(c.Workspace.Roots)},
		{Key: "sessions.mode", Value: c.Sessions.Mode},
		{Key: "sessions.maxMode", Value: c.Sessions.MaxMode},
		{Key: "profile", Value: c.File.Profile},
		{Key: "sandbox.allowedReadPaths", Value: list(c.Sandbox.AllowedReadPaths)},
		{Key: "sandbox.allowedWritePaths", Value: list(c.Sandbox.AllowedWritePaths)},
		{Key: "sandbox.deniedPaths", Value: list(c.Sandbox.DeniedPaths)},
		{Key: "sandbox.deniedCommands", Value: list(c.Sandbox.DeniedCommands)},
		{Key: "sandbox.allowedCommands", Value: orNone(c.Sandbox.AllowedCommands)},
		{Key: "sandbox.autoAllowBashIfSandboxed", Value: fmt.Sprint(c.Sandbox.AutoAllowBashIfSandboxed)},
		{Key: "sandbox.allowNestedSandbox", Value: fmt.Sprint(c.Sandbox.AllowNestedSandbox)},
		{Key: "sandbox.allowUnsandboxedCommands", Value: fmt.Sprint(c.Sandbox.AllowUnsandboxedCommands)},
		{Key: "sandbox.network.allowedDomains", Value: list(c.Sandbox.Network.AllowedDomains)},
		{Key: "sandbox.network.allowLocalBinding", Value: fmt.Sprint(c.Sandbox.Network.AllowLocalBinding)},
		{Key: "sandbox.limits", Value: fmt.Sprintf("%+v", c.Sandbox.Limits)},
		{Key: "sandbox.require", Value: list(c.Sandbox.Require)},
		{Key: "policy.profile", Value: c.Policy.Profile},
		{Key: "policy.dirs", Value: list(c.Policy.Dirs)},
		{Key: "policy.disable", Value: list(c.Policy.Disable)},
		{Key: "policy.rules", Value: fmt.Sprintf("allow %d, ask %d, deny %d", len(c.Policy.Rules.Allow), len(c.Policy.Rules.Ask), len(c.Policy.Rules.Deny))},
		{Key: "hooks", Value: fmt.Sprintf("%d events", len(c.Hooks))},
		{Key: "approvals.timeout", Value: c.Approvals.Timeout.String()},
		{Key: "approvals.maxPerSession", Value: fmt.Sprint(c.Approvals.MaxPerSession)},
		{Key: "tools.custom", Value: fmt.Sprintf("%d tools", len(c.Tools.Custom))},
		{Key: "vars.capacity", Value: fmt.Sprint(c.Vars.Capacity)},
		{Key: "store.sync", Value: c.Store.Sync},
		{Key: "audit.sync", Value: c.Audit.Sync},
		{Key: "log.level", Value: c.Log.Level},
		{Key: "metrics.listen", Value: c.Metrics.Listen},
		{Key: "paths.agentSocket", Value: c.Paths.AgentSocket},
		{Key: "paths.operatorSocket", Value: c.Paths.OperatorSocket},
		{Key: "paths.stateDir", Value: c.Paths.StateDir},
		{Key: "paths.keyFile", Value: c.Paths.KeyFile},
	}
	for i := range rows {
		rows[i].From = c.origin(rows[i].Key)
	}
	return rows
}

// origin is where the value of a key, or of the section it is in, came from.
func (c *Config) origin(key string) string {
	for k := key; k != ""; {
		if from, ok := c.from[k]; ok {
			return from
		}
		i := strings.LastIndexByte(k, '.')
		if i < 0 {
			break
		}
		k = k[:i]
		if _, section := c.from[k]; section && k == "sandbox" {
			break // its keys are named one by one
		}
	}
	return "default"
}

func orNone(s []string) string {
	if s == nil {
		return "(no list)"
	}
	return "[" + strings.Join(s, ", ") + "]"
}
