package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/setup"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// setupCmd returns the command that installs the daemon as a service.
func setupCmd() *cobra.Command {
	var o setup.Options
	var person, undo, dryRun, yes bool
	c := &cobra.Command{
		Use: "setup", Short: "Make what a daemon with a user of its own needs, or remove it", Args: cobra.NoArgs,
		Long: `Run by root, makes the user and the groups of the daemon, its directories, a
configuration and units of systemd, and starts them. It shows every step first, and
leaves alone what exists already. Where systemd does not run, it says how to start the daemon.

  sandboxd setup --account ann --operator olga --workspace /srv/project

With --user, it starts the service of the person who runs it, and allows the current
directory, or those after --workspace, as sandboxd allow does. It makes the unit where
make install has not. Daemon and agents have the same uid then, so the roles are advisory.

Setup can be run again: it goes on where it was interrupted. With --undo, it removes what
it has made, and nothing else: a file that was changed and a directory that holds files
are left, so the record stays.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, err := hostOf(cmd, person)
			if err != nil {
				return err
			}
			plan, err := planOf(host, o, person, undo)
			if err != nil {
				return err
			}
			show := setup.Show{Out: cmd.OutOrStdout(), DryRun: dryRun}
			if !yes {
				show.Confirm = func() (bool, error) { return confirmed(cmd) }
			}
			if undo {
				return plan.Undo(cmd.Context(), show)
			}
			return plan.Do(cmd.Context(), show)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.Accounts, "account", nil, "user whose agents call; may be repeated")
	f.StringArrayVar(&o.Operators, "operator", nil, "user who answers questions and configures; may be repeated")
	f.StringArrayVar(&o.Workspaces, "workspace", nil, "directory in which sessions may start; may be repeated")
	f.BoolVar(&person, "user", false, "a service of this user, not of the system")
	f.BoolVar(&dryRun, "dry-run", false, "show the steps, and do none")
	f.BoolVar(&yes, "yes", false, "do not ask before the first step")
	f.BoolVar(&undo, "undo", false, "remove what setup has made")
	return c
}

func planOf(host setup.Host, o setup.Options, person, undo bool) (*setup.Plan, error) {
	if undo { // the manifest lists what to remove
		o = setup.Options{Workspaces: []string{"/nonexistent"}}
	}
	if !person {
		return setup.System(host, o)
	}
	var err error
	if o.ConfigHome, err = os.UserConfigDir(); err != nil {
		return nil, err
	}
	o.UnitPath = unitPath()
	if len(o.Workspaces) == 0 {
		o.Workspaces = []string{"."}
	}
	for i := range o.Workspaces {
		if o.Workspaces[i], err = filepath.Abs(o.Workspaces[i]); err != nil {
			return nil, err
		}
	}
	return setup.Person(host, o)
}

// unitPath returns the directories in which systemd looks for units of users, beside the user's configuration
// directory.
func unitPath() []string {
	data := os.Getenv("XDG_DATA_HOME")
	if home, err := os.UserHomeDir(); data == "" && err == nil {
		data = filepath.Join(home, ".local/share")
	}
	return []string{
		filepath.Join(data, "systemd/user"), "/etc/systemd/user", "/usr/local/share/systemd/user",
		"/usr/share/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user",
	}
}

// ownProjects reads the list of directories of this person's daemon.
type ownProjects struct{}

// In looks the directory up in the list on the disk, with the configuration that the daemon will use.
func (ownProjects) In(dir string) (string, error) {
	site, err := daemon.Load(version, nil)
	if err != nil {
		return "", err
	}
	return site.ProjectOf(dir)
}

func (ownProjects) Allow(ctx context.Context, dir string) error {
	_, _, err := allowing(dir).make(ctx)
	return err
}

func (ownProjects) Remove(ctx context.Context, dir string) error {
	_, _, err := removing(dir).make(ctx)
	if said, ok := toolError(err); ok && said.Code == "project_not_found" {
		return nil
	}
	return err
}

// hostOf returns this machine, for a service of the system or of the person.
func hostOf(cmd *cobra.Command, person bool) (setup.Host, error) {
	if !person && os.Geteuid() != 0 {
		return setup.Host{}, &tool.Error{
			Code: "not_root", Msg: "users, groups and units of the system are for root to make",
			Hint: "sudo sandboxd setup …, or sandboxd setup --user for a service of your own",
		}
	}
	program, err := os.Executable()
	if err != nil {
		return setup.Host{}, err
	}
	if !person {
		if err := onlyRootWrites(program); err != nil {
			return setup.Host{}, err
		}
	}
	booted := "/run/systemd/system"
	if person {
		booted = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd")
	}
	_, err = os.Stat(booted)
	return setup.Host{
		Program: program, Systemd: err == nil, Projects: ownProjects{},
		Run: func(ctx context.Context, argv ...string) error { return runTool(ctx, cmd, argv) },
	}, nil
}

// onlyRootWrites returns an error if others could replace the program, because the service starts it with
// capabilities.
func onlyRootWrites(path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		sticky := info.IsDir() && info.Mode()&os.ModeSticky != 0 && at != filepath.Dir(path)
		if st.Uid != 0 || info.Mode().Perm()&0o022 != 0 && !sticky {
			return &tool.Error{
				Code: "program_unsafe",
				Msg:  fmt.Sprintf("%s can be changed by others than root, and the service would start %s", at, path),
				Hint: "install sandboxd and sandboxd-child where only root writes, such as /usr/local/bin",
			}
		}
		if at == "/" {
			return nil
		}
	}
}

// runTool runs a program of the system. If it fails, its output is shown.
func runTool(ctx context.Context, cmd *cobra.Command, argv []string) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, err := c.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return &tool.Error{
			Code: "not_installed", Msg: argv[0] + " is not installed",
			Hint: "install it (package passwd or shadow, for users and groups) and run setup again",
		}
	case err != nil:
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	_, err = io.Copy(cmd.ErrOrStderr(), strings.NewReader(string(out)))
	return err
}

// confirmed asks the person at the terminal.
func confirmed(cmd *cobra.Command) (bool, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return false, &tool.Error{
			Code: "not_confirmed", Msg: "nobody is there to confirm these steps",
			Hint: "--yes does them; --dry-run only shows them",
		}
	}
	fmt.Fprint(cmd.ErrOrStderr(), "do this? [y/N] ")
	var answer string
	if _, err := fmt.Fscanln(cmd.InOrStdin(), &answer); err != nil {
		return false, nil
	}
	return strings.HasPrefix(strings.ToLower(answer), "y"), nil
}
