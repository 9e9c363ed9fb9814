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

// Site is what a program knows before it opens anything: the configuration and the paths. The daemon adds to its own
// what it has opened: projects, disk, transcripts and local.
type Site struct {
	version  string
	Config   *config.Config
	flags    map[string]string // of the command line; a reload keeps them
	Paths    paths.Daemon
	Roots    []string         // workspaces of the configuration, physical
	projects *projects.List   // that of the daemon; nil in other programs
	disk     *diskspace.Guard // that of the daemon; nil in other programs
	home     string

	transcripts sessions.Transcripts // that of the daemon; nil in other programs
	local       *store.DB            // likewise, of this daemon alone

	Settings guard.Settings
	log      *slog.Logger
	features []part.Definition
	inside   *idspace.Inside // if not nil, this process has only the ids of the accounts
}

// Load reads the configuration. Flags, by key, take precedence over the environment and the file.
func Load(version string, flags map[string]string) (*Site, error) {
	return LoadFile(version, "", flags)
}

// LoadFile is Load for the named file. "" is the file that the environment names.
func LoadFile(version, file string, flags map[string]string) (*Site, error) {
	site, err := load(version, file, flags, features())
	if err != nil {
		return nil, err
	}
	return site, nil
}

// CheckFile is LoadFile, and also names the mistakes in the policies.
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

// load may return a site beside an error: with it the caller can look for more mistakes.
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

// makeState makes the state directory, which only this user can enter.
func (s *Site) makeState() error { return os.MkdirAll(s.Paths.StateDir, 0o700) }

// RoleSplit says whether agents can reach the operator socket. They cannot if no uid of the accounts is an operator,
// by itself or by a group.
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

// private returns the paths of the daemon, which no tool may see.
func (s *Site) private() []string { return s.Config.Private() }

// PolicyOptions returns the policies of the configuration, without the callback: nobody is asked after them.
func (s *Site) PolicyOptions() policy.Options {
	o := s.Config.Policy.Options()
	o.Facts = facts(s.Config, s.features)
	if s.Config.Policy.Workspace {
		o.Workspaces = s.dirs
	}
	return o
}

// Backend returns the cage. It keeps the private files of sessions in runtime; "" is a directory that is removed
// when the process ends.
func (s *Site) Backend(runtime string) (sandbox.Backend, error) {
	o := sandbox.Options{Child: ChildPath(), Runtime: runtime, Private: s.private(), Roots: s.dirs, Home: s.home}
	o.Dialer = &egress.Dialer{Secret: (&secrets.Reader{}).Value}
	if s.disk != nil {
		o.Reserve = s.disk.Reserve()
		// The context of an agent's call carries a budget; calls without one are exempt.
		o.Reserve.Exempt = func(ctx context.Context) bool { return budget.Of(ctx) == nil }
	}
	return sandbox.NewBackend(o)
}

// ChildPath returns the path of the small launcher that was built or installed with this binary. Without one this
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

// AuditOptions says where the record is. It leaves out the program of the anchor, which only the daemon runs.
func (s *Site) AuditOptions() audit.Options {
	return audit.Options{
		Dir: s.Paths.StateDir, KeyFile: s.Paths.KeyFile, KeyWhy: s.Paths.KeyWhy(), Sync: s.Config.Audit.Sync,
		Anchor: audit.Anchor{File: s.Config.Audit.Anchor.File, Every: s.Config.Audit.Anchor.Every},
	}
}

// openDatabase opens the database. It fails if the record says that another database belongs to it.
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

// openMirror opens the database to write one line of the record.
func (s *Site) openMirror(ctx context.Context) (audit.Mirror, io.Closer, error) {
	db, err := s.openDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	return audit.NewMirror(db), db, nil
}
