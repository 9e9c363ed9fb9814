package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/pipeline"
)

// errTakenBack is why the calls in a project end when a person takes the project back.
var errTakenBack = errors.New("a person took the project back")

// openProjects reads the list of projects of the daemon that has this state, under this configuration.
func (s *Site) openProjects() (*projects.List, error) {
	list, err := projects.Open(filepath.Join(s.Paths.StateDir, "projects.json"))
	if err != nil {
		return nil, err
	}
	list.Use(s.projectRules())
	return list, nil
}

// projectRules returns what this configuration allows and denies in directories.
func (s *Site) projectRules() projects.Rules {
	host := s.projectHost()
	return projects.Rules{
		Base: s.workspace(),
		Project: func(dir string) (guard.Settings, error) {
			if err := host.Check(dir); err != nil {
				return guard.Settings{}, err
			}
			return s.Config.Project(dir)
		},
	}
}

// projectHost returns the directories that no project may hold: homes, and those of the daemon.
func (s *Site) projectHost() projects.Host {
	h := projects.Host{Own: s.private(), Owner: func(uid int) bool {
		return uid == os.Geteuid() || s.Config.Accounts.Names[uid] != ""
	}}
	if exe, err := os.Executable(); err == nil {
		h.Own = append(h.Own, exe)
	}
	if child := ChildPath(); child != "" {
		h.Own = append(h.Own, child)
	}
	for _, home := range guard.Homes(s.home) {
		h.Homes = append(h.Homes, home)
		if real, err := filepath.EvalSymlinks(home); err == nil && !slices.Contains(h.Homes, real) {
			h.Homes = append(h.Homes, real)
		}
	}
	return h
}

// workspace returns the workspace of the configuration.
func (s *Site) workspace() tool.Workspace {
	return tool.Workspace{Roots: s.Roots, Settings: s.Settings}
}

// here makes dir the workspace if the configuration names none. It is for programs other than the daemon: the person
// who starts one in a directory lets it work there.
func (s *Site) here(dir string) error {
	if len(s.Roots) > 0 {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if s.Settings, err = s.Config.Project(dir); err != nil {
		return err
	}
	s.Roots = []string{dir}
	return nil
}

// Here makes the current directory the workspace if the configuration names none, for trying things.
func (s *Site) Here() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	return s.here(dir)
}

// workspaces says where sessions may work: the daemon has a list of projects, other programs have one workspace.
func (s *Site) workspaces() pipeline.Workspaces {
	if s.projects != nil {
		return s.projects
	}
	return s.workspace()
}

// dirs returns all directories in which agents may work.
func (s *Site) dirs() []string {
	if s.projects != nil {
		return s.projects.Dirs()
	}
	return s.Roots
}

// rootOf returns the workspace that holds dir, or dir if none does.
func (s *Site) rootOf(dir string) string {
	if s.projects != nil {
		return s.projects.Root(dir)
	}
	return projects.Fixed(s.workspace()).Root(dir)
}

// projectPart serves the list of projects while p is in force.
func (d *daemon) projectPart(p *components) part.Part { return p.projects.Part(d) }

// AllowProject lets agents work in a directory from now on.
func (d *daemon) AllowProject(ctx context.Context, dir, by string) (projects.Answer, error) {
	d.mu.Lock() // no reload meanwhile
	defer d.mu.Unlock()
	p := d.current.Load()
	a, err := p.projects.Allow(dir, by, d.recordProject(ctx))
	if err != nil || !a.Change || !p.Config.Policy.Workspace {
		return a, err
	}
	// The rules of the project must hold from the first call.
	if err := p.policy.Reload(ctx, false); err != nil {
		_, undo := p.projects.Remove(a.Dir, by, d.recordProject(ctx))
		return projects.Answer{}, errors.Join(
			fmt.Errorf("%s is not allowed, for the rules that it may bring cannot be loaded: %w", a.Dir, err), undo)
	}
	d.watchPolicies(p)
	return a, nil
}

// RemoveProject takes a directory back, and ends the calls that run there.
func (d *daemon) RemoveProject(ctx context.Context, dir, by string) (projects.Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, err := d.current.Load().projects.Remove(dir, by, d.recordProject(ctx))
	if err != nil {
		return a, err
	}
	a.Ended = d.line.Load().CancelIn(func(at string) bool {
		if !guard.Within(at, a.Dir) {
			return false
		}
		_, err := d.current.Load().projects.Of(at) // another project may hold it
		return err != nil
	}, errTakenBack)
	return a, nil
}

func (d *daemon) recordProject(ctx context.Context) projects.Record {
	return func(what string) error { return d.record.Append(ctx, tool.Note{Name: "project", Message: what}) }
}

// Projects returns the list of projects on the disk of the daemon that has this state.
func (s *Site) Projects() ([]projects.Status, error) {
	list, err := s.openProjects()
	if err != nil {
		return nil, err
	}
	return list.All(), nil
}

// ProjectOf returns the project or the root that holds dir. "" means that a person may allow dir; the error says why
// nobody can. It changes nothing.
func (s *Site) ProjectOf(dir string) (in string, err error) {
	list, err := s.openProjects()
	if err != nil {
		return "", err
	}
	only := errors.New("only asked") // the change is not recorded, so it is not made
	a, err := list.Allow(dir, "", func(string) error { return only })
	if errors.Is(err, only) {
		return "", nil
	}
	return a.In, err
}

// ChangeProjects changes the list while no daemon runs, and writes that to the daemon's record.
func (s *Site) ChangeProjects(
	ctx context.Context, change func(*projects.List, projects.Record) (projects.Answer, error),
) (_ projects.Answer, err error) {
	if err := s.makeState(); err != nil {
		return projects.Answer{}, err
	}
	lock, err := audit.LockState(ctx, s.Paths.StateDir)
	if err != nil {
		return projects.Answer{}, &tool.Error{
			Code: "state_in_use", Msg: err.Error() + ", which does not answer on " + s.Paths.OperatorSocket,
			Hint: "name its socket with SANDBOXD_OPERATOR_SOCKET, or its directory with SANDBOXD_RUNTIME_DIR",
		}
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	list, err := s.openProjects()
	if err != nil {
		return projects.Answer{}, err
	}
	o := s.AuditOptions()
	o.Redactor = audit.NewRedactor(audit.EnvSecrets(os.Environ())...)
	record := audit.Shared{Options: o, OpenMirror: s.openMirror, Locked: true}
	return change(list, func(what string) error {
		return tampered(record.Append(ctx, tool.Note{Name: "project", Message: what}))
	})
}

// doctorProjects names the projects in which the daemon with this state denies calls.
func (s *Site) doctorProjects() []part.Finding {
	all, err := s.Projects()
	if err != nil {
		return []part.Finding{{What: "projects", Why: err.Error()}}
	}
	var found []part.Finding
	for _, p := range all {
		if p.Problem != "" {
			found = append(found, part.Finding{What: "projects", Why: p.Problem})
		}
	}
	if found == nil && len(all) > 0 {
		all := fmt.Sprintf("%d allowed, all usable", len(all))
		found = append(found, part.Finding{What: "projects", OK: true, Why: all})
	}
	return found
}
