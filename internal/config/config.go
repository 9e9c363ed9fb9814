// Package config reads the one configuration file of the daemon.
//
// A value comes from a flag, else from a SANDBOXD_ variable, else from the file,
// else from the defaults:
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
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/paths"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Config is everything that can be set. It is made by [Load] and then only read.
type Config struct {
	Workspace Workspace       `yaml:"workspace"`
	Sessions  Sessions        `yaml:"sessions"`
	Profile   sandbox.Profile `yaml:"profile"`

	// Sandbox are the settings under every session, merged and resolved.
	Sandbox guard.Settings `yaml:"-"`

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
	Limits    Limits                        `yaml:"limits"`
	Operators Operators                     `yaml:"operators"`
	Accounts  Accounts                      `yaml:"accounts"`

	Parts map[string]part.Config `yaml:"-"` // sections of the parts of Source, by name

	Home     string       `yaml:"-"` // of whoever runs the daemon
	Paths    paths.Daemon `yaml:"-"` // from the environment alone: clients must find them too
	File     string       `yaml:"-"` // absolute; "" when none was read
	Warnings []string     `yaml:"-"` // what is odd, and no error

	from  origins
	parts []part.Definition // whose groups may be named
}

// Workspace is what agents work in.
type Workspace struct {
	Roots []string `yaml:"roots"` // sessions start in one of them, or in a project; all are writable
}

// Sessions is how sessions begin and how far an agent may loosen its own.
type Sessions struct {
	Mode    tool.Mode `yaml:"mode"`
	MaxMode tool.Mode `yaml:"maxMode"`

	PerAccount int `yaml:"perAccount"` // how many an account may have; 0 is no bound
	KeepDays   int `yaml:"keepDays"`   // after how many days without use one is deleted; 0 is never
}

// Policy says which rules judge.
type Policy struct {
	Profile     policy.Profile        `yaml:"profile"`
	Dirs        []string              `yaml:"dirs"`
	Shadow      string                `yaml:"shadow"` // directory in place of Dirs that judges and decides nothing
	Disable     []string              `yaml:"disable"`
	Rules       permission.Rules      `yaml:"rules"`
	Policies    []callback.ListPolicy `yaml:"policies"`
	Verdict     string                `yaml:"verdict"`
	AskReadOnly bool                  `yaml:"askReadOnly"`
	Undoable    string                `yaml:"undoable"` // ask or allow: of changes that can be undone
	CanUseTool  CanUseTool            `yaml:"canUseTool"`

	Workspace     bool          `yaml:"workspace"`     // read the rules of workspaces, which may only tighten
	KeepDecisions time.Duration `yaml:"keepDecisions"` // 0 keeps none
	GuardReload   bool          `yaml:"guardReload"`   // a reload that loosens needs a person
}

// What happens where a rule asks about changes of a call, and all of them can be undone.
const (
	UndoableAsk   = "ask"   // a person is asked
	UndoableAllow = "allow" // they stay
)

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
	AllGroups bool             `yaml:"allGroups"` // groups that Groups does not name are on
	Groups    map[string]Group `yaml:"groups"`
	Tools     map[string]bool  `yaml:"tools"`
	Allowed   []string         `yaml:"allowed"`  // the only tools that there are; none is every tool
	Denied    []string         `yaml:"denied"`   // tools that there are not
	Deferred  []string         `yaml:"deferred"` // not shown to a model until it searches
	Custom    []Custom         `yaml:"custom"`

	Permissions map[string]catalog.Permission `yaml:"permissions"` // by tool, over its own
}

// Custom is a tool of the operator's own.
type Custom struct{ tools.Custom }

// Vars bounds the variables of a session.
type Vars struct {
	Capacity int    `yaml:"capacity"`
	MaxValue int    `yaml:"maxValue"` // bytes
	Nested   string `yaml:"nested"`   // "purpose" or "all"
}

// Store is where the state is and how it is kept.
type Store struct {
	Sync string `yaml:"sync"` // "normal" survives a crash of the daemon, "full" one of the machine

	URL          string        `yaml:"url"`          // of a PostgreSQL that daemons share; "" is a file of this one
	PasswordFile string        `yaml:"passwordFile"` // of its user
	Timeout      time.Duration `yaml:"timeout"`      // how long a request waits for it
	MaxConns     int           `yaml:"maxConns"`     // connections of this daemon to it

	Password string `yaml:"-"` // what the file holds
}

// Audit is how the record is kept.
type Audit struct {
	Sync   string `yaml:"sync"` // "interval" or "always"
	Anchor Anchor `yaml:"anchor"`
}

// Anchor is where the newest line of the record is kept outside of the daemon's places.
type Anchor struct {
	File    string        `yaml:"file"`    // replaced each time; "" is none
	Command []string      `yaml:"command"` // a program that gets it on stdin; none is none
	Every   time.Duration `yaml:"every"`
}

// Log is what the daemon says on stderr.
type Log struct {
	Level string `yaml:"level"` // "debug", "info", "warn" or "error"
}

// Metrics is where /metrics and /healthz are open without a role.
type Metrics struct {
	Listen string `yaml:"listen"` // host:port; "" is nowhere
}

// API is who may connect, and what an account may ask of the daemon.
type API struct {
	Group         string   `yaml:"group"` // whose members may connect to the agent socket
	Mode          FileMode `yaml:"mode"`  // of the agent socket
	OperatorGroup string   `yaml:"operatorGroup"`
	OperatorMode  FileMode `yaml:"operatorMode"`

	PerSecond  int           `yaml:"perSecond"`  // requests; 0 is no bound
	Concurrent int           `yaml:"concurrent"` // requests under way; 0 is no bound
	StopGrace  time.Duration `yaml:"stopGrace"`  // in which running calls may finish when the daemon stops
}

// Limits bounds what all agents together may make the daemon hold.
type Limits struct {
	AgentBytes  int64 `yaml:"agentBytes"`  // of memory; one account has at most half
	DiskReserve int64 `yaml:"diskReserve"` // that stay free on the disk of the record; 0 is an eighth, 256 MiB at most
	AccountDisk int64 `yaml:"accountDisk"` // that one account may keep; 0 is as much as is free for all others

	AccountNetwork AccountNetwork `yaml:"accountNetwork"`
}

// AccountNetwork bounds what the programs of one account, in all its calls, do in a second;
// 0 is no bound. What is too much waits.
type AccountNetwork struct {
	ConnectionsPerSecond int   `yaml:"connectionsPerSecond"` // new ones
	BytesPerSecond       int64 `yaml:"bytesPerSecond"`       // in both directions
}

// Operators are admitted on the operator socket beside the daemon's own uid.
type Operators struct {
	UIDs []int `yaml:"uids"`
	GIDs []int `yaml:"gids"` // whose members are operators too
}

// Source is where a configuration comes from.
type Source struct {
	File string              // "" is SANDBOXD_CONFIG, and without that no file
	Env  func(string) string // nil is an empty environment
	// Environ are variables with their values, of which those that look like settings and
	// are none become warnings.
	Environ []string
	Flags   map[string]string // by key, such as "log.level"
	Dir     string            // of relative names
	Parts   []part.Definition // whose sections the file may have
}

// Load reads, merges and checks. The error names every mistake. What is returned beside
// one is only for finding more of them; it is nil where there is nothing to look at.
func Load(src Source) (*Config, error) {
	if src.Env == nil {
		src.Env = func(string) string { return "" }
	}
	env := environment{src.Env, map[string]bool{}}
	src.Env = env.lookup
	places, err := paths.Resolve(src.Env)
	if err != nil {
		return nil, err
	}
	doc, odd := readFile(src)
	if doc == nil {
		return nil, gather(odd)
	}
	c := defaults()
	c.parts, c.Tools.Deferred = src.Parts, Deferred(src.Parts...)
	c.Paths, c.File, c.Home = places, doc.name, src.Env("HOME")
	if c.Home == "" {
		c.Home = "/"
	}
	c.from.file = doc
	// All of it is looked at, whatever is found: what cannot be used keeps its default.
	err = gather(odd, doc.decode(c, src.Parts), c.override(src), c.settle(doc), c.check(doc))
	if err != nil {
		return c, err
	}
	c.Warnings = slices.Concat(c.Warnings, c.idle(), env.unread(src.Environ))
	return c, nil
}

func defaults() *Config {
	return &Config{
		Workspace: Workspace{Roots: []string{}},
		Sessions:  Sessions{Mode: tool.ModeAuto, MaxMode: tool.ModeAuto, PerAccount: 10_000},
		Profile:   sandbox.ProfileStrict,
		Policy: Policy{
			Profile: policy.ProfileDeveloper, Verdict: callback.VerdictAdvisory, AskReadOnly: true,
			Undoable:   UndoableAsk,
			CanUseTool: CanUseTool{Timeout: 5 * time.Second}, KeepDecisions: 14 * 24 * time.Hour,
		},
		Approvals: Approvals{Approver: true, Timeout: 5 * time.Minute, MaxPerSession: 100},
		Tools:     Tools{AllGroups: true},
		Vars:      Vars{Capacity: 1000, MaxValue: 16 << 20, Nested: "purpose"},
		Store:     Store{Sync: "normal", Timeout: 5 * time.Second, MaxConns: 10},
		Audit:     Audit{Sync: "interval", Anchor: Anchor{Every: time.Minute}},
		Log:       Log{Level: "info"},
		API: API{
			Mode: ownerOnly, OperatorMode: ownerOnly, PerSecond: 10_000, Concurrent: 1000, StopGrace: 10 * time.Second,
		},
		Accounts: Accounts{Others: OthersOwn},
		Limits: Limits{
			AgentBytes: 256 << 20, AccountNetwork: AccountNetwork{ConnectionsPerSecond: 200},
		},
	}
}

// settle makes the settings, once everything that they depend on is known.
func (c *Config) settle(doc *document) error {
	c.settleSockets()
	var all []error
	roots := []string{}
	for i, root := range c.Workspace.Roots {
		real, err := workspaceRoot(root)
		if err != nil {
			all = append(all, doc.errorAt([]string{"workspace", "roots", strconv.Itoa(i)}, err))
			continue
		}
		roots = append(roots, real)
	}
	c.Workspace.Roots = roots
	if f := c.Approvals.Webhook.SecretFile; f != "" && !filepath.IsAbs(f) {
		all = append(all, doc.errorAt([]string{"approvals", "webhook", "secretFile"},
			fmt.Errorf("%q is relative; write the absolute path", f)))
		c.Approvals.Webhook.SecretFile = ""
	}
	var callers []int
	if sandbox.TakesRights() { // then the modes of their homes keep others out
		callers = slices.Sorted(maps.Keys(c.Accounts.Names))
	}
	first := guard.NoPath
	if len(roots) > 0 {
		first = roots[0]
	}
	s := guard.DefaultSettings(first, c.Home, c.Private(), callers...)
	s.AllowedWritePaths = append(slices.Clone(roots), s.AllowedWritePaths[1:]...)
	s.Network.AllowLocalBinding = true // the loopback of a call is its own
	s.Network.Unlisted = guard.UnlistedAsk
	s, err := doc.mergeSandbox(s)
	all = append(all, err)
	// "defaults: none" drops the secrets of the caller, never those of the daemon.
	c.Sandbox = s
	s.DeniedPaths = union(s.DeniedPaths, c.Private())
	settled, warnings, err := settleSettings(s)
	if err != nil {
		return errors.Join(append(all, doc.sandboxError(nil, err))...)
	}
	c.Sandbox, c.Warnings = settled, warnings
	return errors.Join(all...)
}

// Project returns the settings of sessions in a directory that a person allowed, which is
// then their only root. The error says why this configuration does not let agents work
// there: what it names lies in the directory, or denies it.
func (c *Config) Project(dir string) (guard.Settings, error) {
	if _, err := workspaceRoot(dir); err != nil {
		return guard.Settings{}, err
	}
	p := *c
	p.Workspace.Roots = []string{dir}
	if err := gather(p.settle(c.from.file), p.check(c.from.file)); err != nil {
		return guard.Settings{}, err
	}
	read := guard.Uses{Paths: []guard.PathUse{{Raw: dir, Path: dir, Op: guard.Read}}}
	if refused := guard.NewRules(p.Sandbox).Check(read); refused != nil {
		return guard.Settings{}, errors.New(refused[0].Message)
	}
	return p.Sandbox, nil
}

// Private is what no call may see: the daemon's places, the configuration and the
// secrets that it names.
func (c *Config) Private() []string {
	files := []string{c.File, c.Approvals.Webhook.SecretFile, c.Store.PasswordFile}
	for _, s := range c.Sandbox.Network.Secrets {
		files = append(files, s.File)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Parts)) {
		if p, ok := c.Parts[name].(part.Hiding); ok {
			files = append(files, p.Hides()...)
		}
	}
	return private(c.Paths, files...)
}

// private are the daemon's directories, its sockets where they lie elsewhere, and these files.
func private(p paths.Daemon, files ...string) []string {
	out := []string{p.RuntimeDir, p.StateDir, p.KeyDir}
	for _, f := range append([]string{p.AgentSocket, p.OperatorSocket}, files...) {
		if f != "" && !inside(f, out) {
			out = append(out, f)
		}
	}
	return out
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
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// UnmarshalYAML reads a tool as JSON does, so that its schema keeps its form.
func (c *Custom) UnmarshalYAML(n *yaml.Node) error { return decodeJSON(n, &c.Custom) }

// MarshalYAML shows a tool as it was written.
func (c Custom) MarshalYAML() (any, error) { return asJSON(c.Custom) }
