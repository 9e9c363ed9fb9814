// Package config reads the one configuration file of the daemon.
//
// A value comes from the file, else from the defaults. For the keys in [Overrides], a
// flag comes first, then a SANDBOXD_ variable:
//
//	c, err := config.Load(config.Source{File: file, Env: os.Getenv, Dir: dir, Parts: features})
//	engine, err := policy.New(ctx, c.Policy.Options())
//	for _, v := range c.Explain() { … } // every value and where it came from
//
// The file may have the sections of Source.Parts, beside those of the core. After Load, a [Config]
// is only read, by any number of goroutines. After an error the daemon does not start, and a reload
// keeps what was in force: the Config beside it serves only to look for more mistakes. Several
// mistakes are [Mistakes]; one with a line is an [*Error]. A reload loads another Config and asks
// [Config.NeedsRestart] which change needs a restart. [Config.Project] has the settings for a
// directory that a person allowed.
//
// Guaranteed: a configuration that Load returns without an error has passed every check
// that needs nothing else. Unknown and repeated keys, rules that can never match,
// relative paths, and files or programs that an agent could write are errors. An error about a
// value of the file names its line. Whether the policies load is known only after policy.New; if
// that refuses an entry of policy.disable, [Config.Placed] adds the line. No configuration file is
// searched for: it is Source.File, else SANDBOXD_CONFIG, else none. Load never reads one from the
// workspace.
//
// Here are the sections of the core and the checks across sections. The section of a
// feature, with its own checks, is in the package of the feature (part.Config). A key
// that a running daemon cannot change is also in the list of restart.go. The next mistake
// that Load must find is a row of TestMistakesNameTheirLine.
//
// Load also reads approvals.webhook.secretFile and store.passwordFile, and, to see that they can be
// used, the secrets of sandbox.network.secrets and sandbox.network.caFile. Explain does not show what
// is in them. Load changes nothing on the machine, and makes no directory.
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

// Config is everything that can be set. [Load] makes it; after that it is only read.
type Config struct {
	Workspace Workspace       `yaml:"workspace"`
	Sessions  Sessions        `yaml:"sessions"`
	Profile   sandbox.Profile `yaml:"profile"`

	// Sandbox are the settings that every session starts from, merged and resolved.
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

	Parts map[string]part.Config `yaml:"-"` // sections of the parts of Source, by name of the part

	Home     string       `yaml:"-"` // that of the user who runs the daemon
	Paths    paths.Daemon `yaml:"-"` // from the environment alone, because clients must find them too
	File     string       `yaml:"-"` // absolute; "" when none was read
	Warnings []string     `yaml:"-"` // what is odd, but no error

	from  origins
	parts []part.Definition // their groups may be named
}

// Workspace says where agents work.
type Workspace struct {
	Roots []string `yaml:"roots"` // a session starts in one of them, or in a project; agents may write in all
}

// Sessions says how sessions begin, and how far an agent may loosen its own session.
type Sessions struct {
	Mode    tool.Mode `yaml:"mode"`
	MaxMode tool.Mode `yaml:"maxMode"`

	PerAccount int `yaml:"perAccount"` // most sessions of one account; 0 is no bound
	KeepDays   int `yaml:"keepDays"`   // a session that nobody uses for so many days is deleted; 0 is never
}

// Policy says by which rules calls are judged.
type Policy struct {
	Profile     policy.Profile        `yaml:"profile"`
	Dirs        []string              `yaml:"dirs"`
	Shadow      string                `yaml:"shadow"` // in place of Dirs; decides nothing
	Disable     []string              `yaml:"disable"`
	Rules       permission.Rules      `yaml:"rules"`
	Policies    []callback.ListPolicy `yaml:"policies"`
	Verdict     string                `yaml:"verdict"`
	AskReadOnly bool                  `yaml:"askReadOnly"`
	Undoable    string                `yaml:"undoable"` // ask or allow, for changes that can be undone
	CanUseTool  CanUseTool            `yaml:"canUseTool"`

	Workspace     bool          `yaml:"workspace"`     // read the rules of workspaces, which may only tighten
	KeepDecisions time.Duration `yaml:"keepDecisions"` // 0 keeps none
	GuardReload   bool          `yaml:"guardReload"`   // a person must agree to a reload that loosens
}

// The values of policy.undoable: what happens if a rule asks about the changes of a call, and all of them can be
// undone.
const (
	UndoableAsk   = "ask"   // a person is asked
	UndoableAllow = "allow" // the changes stay
)

// Options returns the policy as [policy.New] takes it.
func (p Policy) Options() policy.Options {
	return policy.Options{
		Profile: p.Profile, Dirs: p.Dirs, Disable: p.Disable, Rules: p.Rules,
		Policies: p.Policies, Verdict: p.Verdict, RelaxReads: !p.AskReadOnly,
	}
}

// Approvals says how people are asked.
type Approvals struct {
	Approver      bool          `yaml:"approver"` // somebody is there to answer
	Timeout       time.Duration `yaml:"timeout"`
	MaxPerSession int           `yaml:"maxPerSession"`
	Webhook       Webhook       `yaml:"webhook"` // gets every question
	Command       []string      `yaml:"command"` // a program that gets every question on stdin
}

// Webhook is an address to which questions are sent, for when nobody watches.
type Webhook struct {
	URL        string `yaml:"url"`        // "" announces nothing
	SecretFile string `yaml:"secretFile"` // its content signs what is sent

	Secret string `yaml:"-"` // the content of that file
}

// Tools says which tools new sessions have, and declares the operator's own.
type Tools struct {
	AllGroups bool             `yaml:"allGroups"` // switches on the groups that Groups does not name
	Groups    map[string]Group `yaml:"groups"`
	Tools     map[string]bool  `yaml:"tools"`
	Allowed   []string         `yaml:"allowed"`  // if it names any, no other tool exists
	Denied    []string         `yaml:"denied"`   // tools that do not exist
	Deferred  []string         `yaml:"deferred"` // a model sees them after it has searched for them
	Custom    []Custom         `yaml:"custom"`

	Permissions map[string]catalog.Permission `yaml:"permissions"` // by tool; they replace the tool's own
}

// Custom is a tool that the operator declares.
type Custom struct{ tools.Custom }

// Vars bounds the variables of a session.
type Vars struct {
	Capacity int    `yaml:"capacity"`
	MaxValue int    `yaml:"maxValue"` // bytes
	Nested   string `yaml:"nested"`   // "purpose" or "all"
}

// Store says where the state is, and how it is kept.
type Store struct {
	Sync string `yaml:"sync"` // "normal" survives a crash of the daemon, "full" one of the machine

	URL          string        `yaml:"url"`          // of a PostgreSQL that daemons share; "" is a file of this one
	PasswordFile string        `yaml:"passwordFile"` // the password of the user in URL
	Timeout      time.Duration `yaml:"timeout"`      // how long a request waits for the database
	MaxConns     int           `yaml:"maxConns"`     // how many connections this daemon has to the database

	Password string `yaml:"-"` // the content of that file
}

// Audit says how the record is kept.
type Audit struct {
	Sync   string `yaml:"sync"` // "interval" or "always"
	Anchor Anchor `yaml:"anchor"`
}

// Anchor is a place outside of the daemon's directories that holds the newest line of the record.
type Anchor struct {
	File    string        `yaml:"file"`    // replaced each time; "" is none
	Command []string      `yaml:"command"` // a program that gets the line on stdin; none if empty
	Every   time.Duration `yaml:"every"`
}

// Log says what the daemon writes to stderr.
type Log struct {
	Level string `yaml:"level"` // "debug", "info", "warn" or "error"
}

// Metrics is the address of /metrics and /healthz, which need no role.
type Metrics struct {
	Listen string `yaml:"listen"` // host:port; "" is nowhere
}

// API says who may connect, and how much an account may ask of the daemon.
type API struct {
	Group         string   `yaml:"group"` // its members may connect to the agent socket
	Mode          FileMode `yaml:"mode"`  // of the agent socket
	OperatorGroup string   `yaml:"operatorGroup"`
	OperatorMode  FileMode `yaml:"operatorMode"`

	PerSecond  int           `yaml:"perSecond"`  // requests of an account; 0 is no bound
	Concurrent int           `yaml:"concurrent"` // requests of an account at one time; 0 is no bound
	StopGrace  time.Duration `yaml:"stopGrace"`  // how long running calls may still take when the daemon stops
}

// Limits bounds how much all agents together can make the daemon hold.
type Limits struct {
	AgentBytes  int64 `yaml:"agentBytes"`  // memory in bytes; one account has at most half
	DiskReserve int64 `yaml:"diskReserve"` // bytes kept free where the record is; 0 is an eighth, 256 MiB at most
	AccountDisk int64 `yaml:"accountDisk"` // bytes for one account; 0 is as much as is free for all others

	AccountNetwork AccountNetwork `yaml:"accountNetwork"`
}

// AccountNetwork bounds what the programs in all calls of one account do in a second; 0 is no bound. A connection or
// a byte above the bound waits.
type AccountNetwork struct {
	ConnectionsPerSecond int   `yaml:"connectionsPerSecond"` // new ones
	BytesPerSecond       int64 `yaml:"bytesPerSecond"`       // in both directions
}

// Operators may connect to the operator socket, like the daemon's own uid.
type Operators struct {
	UIDs []int `yaml:"uids"`
	GIDs []int `yaml:"gids"` // members of these groups are operators too
}

// Source says where a configuration comes from.
type Source struct {
	File string              // "" is SANDBOXD_CONFIG, and without that no file
	Env  func(string) string // nil is an empty environment
	// Environ is the environment. A variable in it that looks like a setting and is none becomes a warning.
	Environ []string
	Flags   map[string]string // by key, such as "log.level"
	Dir     string            // a relative File starts here
	Parts   []part.Definition // the file may have their sections
}

// Load reads, merges and checks. The error names every mistake. A configuration beside an error serves only to look
// for more mistakes; it is nil if nothing could be read.
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
	// One mistake does not end the search: what cannot be used keeps its default.
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

// settle makes the settings of the sandbox, after everything that they depend on is known.
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
	if sandbox.TakesRights() { // then the modes of their homes protect other users
		callers = slices.Sorted(maps.Keys(c.Accounts.Names))
	}
	first := guard.NoPath
	if len(roots) > 0 {
		first = roots[0]
	}
	s := guard.DefaultSettings(first, c.Home, c.Private(), callers...)
	s.AllowedWritePaths = append(slices.Clone(roots), s.AllowedWritePaths[1:]...)
	s.Network.AllowLocalBinding = true // each call has a loopback of its own
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

// Project returns the settings of sessions in a directory that a person allowed; the directory is their only root.
// The error says why agents may not work there: a path of the configuration lies in the directory, or the settings
// deny it.
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

// Private returns what no call may see: the places of the daemon, the configuration, and the secrets that it names.
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

// private returns the directories of the daemon, its sockets if they lie elsewhere, and files.
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

// UnmarshalYAML decodes a tool as JSON, so that its schema keeps its form.
func (c *Custom) UnmarshalYAML(n *yaml.Node) error { return decodeJSON(n, &c.Custom) }

// MarshalYAML shows a tool as the operator wrote it.
func (c Custom) MarshalYAML() (any, error) { return asJSON(c.Custom) }
