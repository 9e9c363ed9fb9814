// Package config reads the one configuration file of the daemon.
//
// A value comes from a flag, else from a SANDBOXD_ variable, else from the file,
// else from the defaults. Without any of them the current directory is served:
//
//	c, err := config.Load(config.Source{File: file, Env: os.Getenv, Dir: dir})
//	engine, err := policy.New(ctx, c.Policy.Options())
//	for _, v := range c.Explain() { … } // every value and where it came from
//
// Guaranteed: what Load returns can be served. Unknown and repeated keys, rules
// that can never match, relative paths, and files or programs that an agent could
// write are errors that name the line. Nothing is searched for: without a name no
// file is read, least of all one in the workspace.
//
// Load has no effect on the machine; it makes no directory.
package config

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
	"github.com/sandboxd/sandboxd/tools"
)

// Config is everything that can be set. It is made by [Load] and then only read.
type Config struct {
	Workspace Workspace `yaml:"workspace"`
	Sessions  Sessions  `yaml:"sessions"`
	Profile   string    `yaml:"profile"` // of the sandbox: "strict" or "light"

	// Sandbox are the settings under every session, merged and resolved.
	Sandbox sandbox.Settings `yaml:"-"`

	Policy    Policy                        `yaml:"policy"`
	Hooks     map[string][]hooks.Definition `yaml:"hooks"` // by event
	Approvals Approvals                     `yaml:"approvals"`
	Tools     Tools                         `yaml:"tools"`
	Vars      Vars                          `yaml:"vars"`
	Store     Store                         `yaml:"store"`
	Audit     Audit                         `yaml:"audit"`
	Log       Log                           `yaml:"log"`
	Metrics   Metrics                       `yaml:"metrics"`
	API       API                           `yaml:"api"`
	Operators Operators                     `yaml:"operators"`
	Accounts  map[int]string                `yaml:"accounts"` // by uid; others are DefaultAccount

	Home     string   `yaml:"-"` // of whoever runs the daemon
	Paths    Paths    `yaml:"-"` // from the environment alone: clients must find them too
	File     string   `yaml:"-"` // absolute; "" when none was read
	Warnings []string `yaml:"-"` // what is odd, and no error

	from origins
}

// DefaultAccount is whose calls are of a uid that Accounts does not name.
const DefaultAccount = "default-admin"

// Account is the account of a caller.
func (c *Config) Account(uid int) string {
	if name := c.Accounts[uid]; name != "" {
		return name
	}
	return DefaultAccount
}

// Workspace is what agents work in.
type Workspace struct {
	Roots []string `yaml:"roots"` // sessions start inside one of them; all are writable
}

// Sessions is how sessions begin and how far an agent may loosen its own.
type Sessions struct {
	Mode    string `yaml:"mode"`
	MaxMode string `yaml:"maxMode"`

	PerAccount int `yaml:"perAccount"` // how many an account may have; 0 is no bound
}

// Policy says which rules judge.
type Policy struct {
	Profile     string              `yaml:"profile"`
	Dirs        []string            `yaml:"dirs"`
	Disable     []string            `yaml:"disable"`
	Rules       policy.Rules        `yaml:"rules"`
	Policies    []policy.ListPolicy `yaml:"policies"`
	Verdict     string              `yaml:"verdict"`
	AskReadOnly bool                `yaml:"askReadOnly"`
	CanUseTool  CanUseTool          `yaml:"canUseTool"`

	Workspace     bool          `yaml:"workspace"`     // read the rules of workspaces, which may only tighten
	KeepDecisions time.Duration `yaml:"keepDecisions"` // 0 keeps none
}

// Options is what [policy.New] takes.
func (p Policy) Options() policy.Options {
	return policy.Options{
		Profile: p.Profile, Dirs: p.Dirs, Disable: p.Disable, Rules: p.Rules,
		Policies: p.Policies, Verdict: p.Verdict, RelaxReads: !p.AskReadOnly,
	}
}

// Approvals is how people are asked.
type Approvals struct {
	Approver      bool          `yaml:"approver"` // somebody is there to answer
	Timeout       time.Duration `yaml:"timeout"`
	MaxPerSession int           `yaml:"maxPerSession"`
	Webhook       Webhook       `yaml:"webhook"` // told of every question
	Command       []string      `yaml:"command"` // a program, told of every question by stdin
}

// Webhook is where questions are announced, for when nobody watches.
type Webhook struct {
	URL        string `yaml:"url"`        // "" announces nothing
	SecretFile string `yaml:"secretFile"` // signs what is sent

	Secret string `yaml:"-"` // what the file holds
}

// Tools is what new sessions have on, and tools of the operator's own.
type Tools struct {
	AllGroups bool            `yaml:"allGroups"` // groups that Groups does not name are on
	Groups    map[string]bool `yaml:"groups"`
	Tools     map[string]bool `yaml:"tools"`
	Allowed   []string        `yaml:"allowed"` // the only tools that there are; none is every tool
	Denied    []string        `yaml:"denied"`  // tools that there are not
	Custom    []Custom        `yaml:"custom"`

	Permissions map[string]tool.Permission `yaml:"permissions"` // by tool, over its own
}

// Custom is a tool of the operator's own.
type Custom struct{ tools.Custom }

// Vars bounds the variables of a session.
type Vars struct {
	Capacity int    `yaml:"capacity"`
	MaxValue int    `yaml:"maxValue"` // bytes
	Nested   string `yaml:"nested"`   // "purpose" or "all"
}

// Store is how the database is kept.
type Store struct {
	Sync string `yaml:"sync"` // "normal" survives a crash of the daemon, "full" one of the machine
}

// Audit is how the record is kept.
type Audit struct {
	Sync string `yaml:"sync"` // "interval" or "always"
}

// Log is what the daemon says on stderr.
type Log struct {
	Level string `yaml:"level"` // "debug", "info", "warn" or "error"
}

// Metrics is where /metrics and /healthz are open without a role.
type Metrics struct {
	Listen string `yaml:"listen"` // host:port; "" is nowhere
}

// API bounds what an account may ask of the daemon.
type API struct {
	PerSecond  int           `yaml:"perSecond"`  // requests; 0 is no bound
	Concurrent int           `yaml:"concurrent"` // requests under way; 0 is no bound
	StopGrace  time.Duration `yaml:"stopGrace"`  // in which running calls may finish when the daemon stops
}

// Operators are admitted on the operator socket beside the daemon's own uid.
type Operators struct {
	UIDs []int `yaml:"uids"`
	GIDs []int `yaml:"gids"` // whose members are operators too
}

// Source is where a configuration comes from.
type Source struct {
	File  string              // "" is SANDBOXD_CONFIG, and without that no file
	Env   func(string) string // nil is an empty environment
	Flags map[string]string   // by key, such as "log.level"
	Dir   string              // the workspace unless another is named
}

// Load reads, merges and checks.
func Load(src Source) (*Config, error) {
	if src.Env == nil {
		src.Env = func(string) string { return "" }
	}
	paths, err := ResolvePaths(src.Env)
	if err != nil {
		return nil, err
	}
	doc, err := readFile(src)
	if err != nil {
		return nil, err
	}
	c := defaults(src.Dir)
	c.Paths, c.File, c.Home = paths, doc.name, src.Env("HOME")
	if c.Home == "" {
		c.Home = "/"
	}
	if err := doc.decode(c); err != nil {
		return nil, err
	}
	if err := c.override(src, doc); err != nil {
		return nil, err
	}
	if err := c.settle(doc); err != nil {
		return nil, err
	}
	c.from.file, c.from.paths = doc, paths.from
	return c, c.check(doc)
}

func defaults(dir string) *Config {
	return &Config{
		Workspace: Workspace{Roots: []string{dir}},
		Sessions:  Sessions{Mode: policy.ModeAuto, MaxMode: policy.ModeAuto, PerAccount: 10_000},
		Profile:   "strict",
		Policy:    Policy{Profile: "developer", Verdict: policy.VerdictAdvisory, AskReadOnly: true, CanUseTool: CanUseTool{Timeout: 5 * time.Second}, KeepDecisions: 14 * 24 * time.Hour},
		Approvals: Approvals{Approver: true, Timeout: 5 * time.Minute, MaxPerSession: 100},
		Tools:     Tools{AllGroups: true},
		Vars:      Vars{Capacity: 1000, MaxValue: 16 << 20, Nested: "purpose"},
		Store:     Store{Sync: "normal"},
		Audit:     Audit{Sync: "interval"},
		Log:       Log{Level: "info"},
		API:       API{PerSecond: 10_000, Concurrent: 1000, StopGrace: 10 * time.Second},
	}
}

// settle makes the settings, once everything that they depend on is known.
func (c *Config) settle(doc *document) error {
	for i, root := range c.Workspace.Roots {
		real, err := workspaceRoot(root)
		if err != nil {
			return doc.errorAt([]string{"workspace", "roots"}, err)
		}
		c.Workspace.Roots[i] = real
	}
	if len(c.Workspace.Roots) == 0 {
		return doc.errorAt([]string{"workspace", "roots"}, fmt.Errorf("no root is named, so no session could start"))
	}
	if f := c.Approvals.Webhook.SecretFile; f != "" && !filepath.IsAbs(f) {
		return doc.errorAt([]string{"approvals", "webhook", "secretFile"}, fmt.Errorf("%q is relative; write the absolute path", f))
	}
	s := sandbox.DefaultSettings(c.Workspace.Roots[0], c.Home, c.Private())
	s.AllowedWritePaths = append(append([]string{}, c.Workspace.Roots[1:]...), s.AllowedWritePaths...)
	s.Network.AllowLocalBinding = true // the loopback of a call is its own
	s, err := doc.mergeSandbox(s)
	if err != nil {
		return err
	}
	// "defaults: none" drops the secrets of the caller, never those of the daemon.
	s.DeniedPaths = union(s.DeniedPaths, c.Private())
	c.Sandbox, c.Warnings, err = s.Normalise()
	if err != nil {
		return doc.sandboxError(err)
	}
	return nil
}

// Private is what no call may see: the daemon's places, the configuration and the
// secret that it names.
func (c *Config) Private() []string {
	return Private(c.Paths, c.File, c.Approvals.Webhook.SecretFile)
}

func workspaceRoot(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%q is relative; write the absolute path", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%q is not a directory", dir)
	}
	if real == "/" {
		return "", fmt.Errorf("the workspace would be the whole system; name a directory")
	}
	return real, nil
}

func union(a, b []string) []string {
	out := append([]string{}, a...)
	have := map[string]bool{}
	for _, s := range a {
		have[s] = true
	}
	for _, s := range b {
		if !have[s] {
			have[s] = true
			out = append(out, s)
		}
	}
	return out
}

// UnmarshalYAML reads a tool as JSON does, so that its schema keeps its form.
func (c *Custom) UnmarshalYAML(n *yaml.Node) error { return decodeJSON(n, &c.Custom) }

// MarshalYAML shows a tool as it was written.
func (c Custom) MarshalYAML() (any, error) { return asJSON(c.Custom) }
