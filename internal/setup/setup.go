package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// Host is what setup needs of the machine.
type Host struct {
	Root    string // in front of every path; "" is the machine itself
	Program string // the path of sandboxd that units start
	// Run runs a program of the system.
	Run func(ctx context.Context, argv ...string) error
	// Systemd says that it runs here, so that units can be started.
	Systemd bool
	// Projects are those of the person's daemon, for a plan of [Person].
	Projects Projects
}

// Projects change the directories in which a person lets agents work.
type Projects interface {
	// In is the project that holds a directory, or "". The error says why it cannot be one.
	In(dir string) (string, error)
	Allow(ctx context.Context, dir string) error
	// Remove takes a directory back, if it is allowed.
	Remove(ctx context.Context, dir string) error
}

func (h Host) at(path string) string { return filepath.Join(h.Root, path) }

// Options say who and what is served.
type Options struct {
	Accounts   []string // users whose agents call
	Operators  []string // users who answer and configure
	Workspaces []string
	ConfigHome string   // of the person, for a plan of [Person]: usually ~/.config
	UnitPath   []string // the same: where units for users are installed, beside those of ConfigHome
}

// Show is how steps are shown.
type Show struct {
	Out    io.Writer
	DryRun bool // shown only
	// Confirm is asked once, after the whole plan was shown; nil is yes.
	Confirm func() (bool, error)
}

// Kind is what a step makes.
type Kind string

// The kinds.
const (
	Group   Kind = "group"
	User    Kind = "user"
	Member  Kind = "member" // of a group: USER GROUP
	Dir     Kind = "directory"
	File    Kind = "file"
	Started Kind = "started" // units of systemd
	Allowed Kind = "allowed" // a directory in which agents may work
)

// step makes one thing.
type step struct {
	kind Kind
	name string
	how  string // for people
	// there says what exists already, or "" if the step must be done.
	there func() (string, error)
	do    func(ctx context.Context) error
	sum   string // of a file
}

// Plan is a list of steps.
type Plan struct {
	host     Host
	manifest string // path of the manifest
	user     bool   // of a person, not of the system
	steps    []step
	notes    []string // what is left out, and what a person has to do
}

// ErrDeclined says that a person did not confirm.
var ErrDeclined = errors.New("nothing was done")

// Do shows the plan and carries it out.
func (p *Plan) Do(ctx context.Context, show Show) error {
	m, err := readManifest(p.host.at(p.manifest))
	if err != nil {
		return err
	}
	var todo []step
	for _, s := range p.steps {
		there, err := s.there()
		if s.kind == Dir && m.begun(s) {
			there, err = "", nil
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.kind, s.name, err)
		}
		if there == "" {
			todo = append(todo, s)
			fmt.Fprintf(show.Out, "make  %-9s %s: %s\n", s.kind, s.name, s.how)
			continue
		}
		fmt.Fprintf(show.Out, "have  %-9s %s: %s\n", s.kind, s.name, there)
		m.finish(s) // of a setup that was interrupted
	}
	defer p.note(show.Out)
	if show.DryRun || len(todo) == 0 {
		return nil
	}
	if show.Confirm != nil {
		if ok, err := show.Confirm(); err != nil {
			return err
		} else if !ok {
			return ErrDeclined
		}
	}
	for _, s := range todo {
		fmt.Fprintf(show.Out, "…     %-9s %s\n", s.kind, s.name)
		if err := m.begin(s, p.manifest); err != nil {
			return err
		}
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("make %s %s: %w; setup goes on from here when it is run again", s.kind, s.name, err)
		}
		m.finish(s)
		if err := m.write(); err != nil {
			return err
		}
	}
	undo := "sandboxd setup --undo"
	if p.user {
		undo = "sandboxd setup --user --undo"
	}
	fmt.Fprintf(show.Out, "done; %s lists what was made, and %s removes it\n", p.manifest, undo)
	return nil
}

func (p *Plan) note(out io.Writer) {
	for _, n := range p.notes {
		fmt.Fprintln(out, "note  "+n)
	}
}
