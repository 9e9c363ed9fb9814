package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/diskspace"
	"github.com/sandboxd/sandboxd/internal/idspace"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/paths"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/secrets"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Site is what is known before anything is opened: the configuration and the paths.
type Site struct {
	version  string
	Config   *config.Config
	flags    map[string]string // of the command line; a reload keeps them
	Paths    paths.Daemon
	Roots    []string         // workspaces of the configuration, physical
	projects *projects.List   // of the daemon; nil elsewhere
	disk     *diskspace.Guard // of the daemon; nil elsewhere
	home     string

	transcripts sessions.Transcripts // of the daemon; nil elsewhere
	local       *store.DB            // likewise: what it has to itself, also where others share its state

	Settings guard.Settings
	log      *slog.Logger
	features []part.Definition
	inside   *idspace.Inside // not nil: this process has only the ids of the accounts
}

// Load reads the configuration. Flags, by key, take precedence over everything else.
func Load(version string, flags map[string]string) (*Site, error) {
	return LoadFile(version, "", flags)
}

// LoadFile is Load with this file in place of the one that the environment names; ""
// is that one.
func LoadFile(version, file string, flags map[string]string) (*Site, error) {
	site, err := load(version, file, flags, features())
	if err != nil {
		return nil, err
	}
	return site, nil
}

// CheckFile is LoadFile that names the mistakes in the policies too.
func CheckFile(ctx context.Context, version, file string, flags map[string]string) (*Site, error) {
	site, err := load(version, file, flags, features())
	if site == nil || config.About(err, "policy") {
		return nil, err
	}
	_, wrong := policy.New(ctx, site.PolicyOptions())
	if err = errors.Join(err, site.Config.Placed(wrong)); err != nil {
		return nil, err
	}
	return site, nil
}

// load returns a site beside an error where that is of use for finding more mistakes.
func load(version, file string, flags map[string]string, features []part.Definition) (*Site, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(config.Source{
		File: file, Env: os.Getenv, Environ: os.Environ(), Flags: flags, Dir: dir, Parts: features,
	})
	if cfg == nil {
		return nil, err
	}
	log, bad := newLog(cfg.Log.Level, visible.NewWriter(os.Stderr))
	if err == nil && bad != nil {
		return nil, bad
	}
	return &Site{
		version: version, Config: cfg, flags: flags, Paths: cfg.Paths, Roots: cfg.Workspace.Roots, home: cfg.Home,
		Settings: cfg.Sandbox, log: log,
		features: features,
	}, err
}

// makeState makes the state directory, for this user alone.
func (s *Site) makeState() error { return os.MkdirAll(s.Paths.StateDir, 0o700) }

// RoleSplit says whether the operator socket is out of reach for the agents' uids, which
// accounts names: none of them is an operator, also not by a group.
func (s *Site) RoleSplit() string {
	operators := append([]int{0, os.Geteuid()}, s.Config.Operators.UIDs...)
	for uid := range s.Config.Accounts.Names {
		if slices.Contains(operators, uid) || slices.ContainsFunc(groupsOf(uid), s.operatorGroup) {
			return "advisory"
		}
	}
	if len(s.Config.Accounts.Names) == 0 {
		return "advisory"
	}
	return "enforced"
}

func (s *Site) operatorGroup(gid int) bool { return slices.Contains(s.Config.Operators.GIDs, gid) }

func (s *Site) ApprovalTimeout() time.Duration { return s.Config.Approvals.Timeout }

// private are the paths of the daemon, which no tool may see.
func (s *Site) private() []string { return s.Config.Private() }

// PolicyOptions are the policies of the configuration. Nobody is asked after them.
func (s *Site) PolicyOptions() policy.Options {
	o := s.Config.Policy.Options()
	o.Facts = facts(s.Config, s.features)
	if s.Config.Policy.Workspace {
		o.Workspaces = s.dirs
	}
	return o
}

// Backend is the cage; runtime is where it keeps the private files of sessions, ""
// a directory that goes with the process.
func (s *Site) Backend(runtime string) (sandbox.Backend, error) {
	o := sandbox.Options{Child: ChildPath(), Runtime: runtime, Private: s.private(), Roots: s.dirs, Home: s.home}
	o.Dialer = &egress.Dialer{Secret: (&secrets.Reader{}).Value}
	if s.disk != nil {
		o.Reserve = s.disk.Reserve()
		// Those of agents have a budget.
		o.Reserve.Exempt = func(ctx context.Context) bool { return budget.Of(ctx) == nil }
	}
	return sandbox.NewBackend(o)
}

// ChildPath is the small launcher of this binary's build or installation; without it this
// binary starts itself as the launcher.
func ChildPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	dir := filepath.Dir(exe)
	for _, p := range []string{
		filepath.Join(dir, "sandboxd-child"), filepath.Join(dir, "../libexec/sandboxd/sandboxd-child"),
	} {
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// AuditOptions say where the record is. The program of the anchor is the daemon's to run.
func (s *Site) AuditOptions() audit.Options {
	return audit.Options{
		Dir: s.Paths.StateDir, KeyFile: s.Paths.KeyFile, KeyWhy: s.Paths.KeyWhy(), Sync: s.Config.Audit.Sync,
		Anchor: audit.Anchor{File: s.Config.Audit.Anchor.File, Every: s.Config.Audit.Anchor.Every},
	}
}

// openDatabase opens the database, unless the record says that another one is missing.
func (s *Site) openDatabase(ctx context.Context) (*store.DB, error) {
	if err := s.AuditOptions().CheckDatabase(s.Paths.Database); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Options{Path: s.Paths.Database, Sync: s.Config.Store.Sync},
		schemas(s.features)...)
	if errors.Is(err, store.ErrUnfinished) {
		err = withHint(err)
	}
	return db, err
}

// openMirror opens the database for one line of the record.
func (s *Site) openMirror(ctx context.Context) (audit.Mirror, io.Closer, error) {
	db, err := s.openDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	return audit.NewMirror(db), db, nil
}
