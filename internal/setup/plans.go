package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/deploy"
)

// The names of the recommended deployment.
const (
	daemonUser = "sandboxd"
	agents     = "sandboxd-agents"
	operators  = "sandboxd-operators"

	configDir  = "/etc/sandboxd"
	configFile = configDir + "/config.yaml"
	stateDir   = "/var/lib/sandboxd"
	keyDir     = "/var/lib/sandboxd-key"
	unitDir    = "/etc/systemd/system"
)

// System returns a daemon with a user of its own, for the accounts of the machine.
func System(h Host, o Options) (*Plan, error) {
	for _, name := range o.Operators {
		if slices.Contains(o.Accounts, name) {
			return nil, fmt.Errorf("%s cannot be an agent and an operator: its agents would answer their own questions",
				name)
		}
	}
	p := &Plan{host: h, manifest: configDir + "/setup.json"}
	p.makeGroup(agents, "whose members reach the agent socket")
	p.makeGroup(operators, "whose members reach the operator socket")
	p.makeUser(daemonUser, "as which the daemon runs")
	for _, name := range o.Accounts {
		p.makeMember(name, agents, "so that agents of "+name+" reach the daemon")
	}
	for _, name := range o.Operators {
		p.makeMember(name, operators, "so that "+name+" answers and configures")
	}
	owned := owner{daemonUser, daemonUser}
	p.makeDir(configDir, 0o750, owner{group: daemonUser}, "for the configuration")
	p.makeDir(stateDir, 0o700, owned, "for the database and the record")
	p.makeDir(keyDir, 0o700, owned, "for the key of the record")
	text, err := p.config(o)
	if err != nil {
		return nil, err
	}
	p.makeFile(configFile, text, 0o640, owner{group: daemonUser}, "the configuration",
		"see that accounts names every agent")
	for _, name := range []string{"sandboxd.service", "sandboxd.socket", "sandboxd-operator.socket"} {
		if err := p.makeUnit(name, filepath.Join(unitDir, name)); err != nil {
			return nil, err
		}
	}
	p.start("sandboxd.socket", "sandboxd-operator.socket", "sandboxd.service")
	if !h.Systemd {
		p.notes = append(p.notes, "systemd does not run here, so nothing is started; start the daemon with:\n"+
			"      install -d -o "+daemonUser+" -m 711 /run/sandboxd && cd / && setpriv --reuid "+daemonUser+
			" --regid "+daemonUser+" --init-groups \\\n"+
			"      --inh-caps +setuid,+setgid --ambient-caps +setuid,+setgid \\\n"+
			"      env SANDBOXD_RUNTIME_DIR=/run/sandboxd SANDBOXD_STATE_DIR="+stateDir+" \\\n"+
			"      SANDBOXD_KEY_DIR="+keyDir+" "+h.Program+" serve --config "+configFile)
	}
	if len(o.Accounts) > 0 {
		p.notes = append(p.notes, "who was made a member of a group must log in anew to be one")
	}
	return p, nil
}

// config returns the configuration of the system's daemon.
func (p *Plan) config(o Options) ([]byte, error) {
	var b strings.Builder
	if err := roots(&b, o.Workspaces, configDir, stateDir, keyDir); err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "api:\n  group: %s\n  operatorGroup: %s\n", agents, operators)
	b.WriteString("accounts:\n")
	for _, name := range o.Accounts {
		u, ok := p.host.user(name)
		if !ok {
			return nil, fmt.Errorf("this host has no user %q", name)
		}
		if u.uid == 0 {
			return nil, errors.New("root cannot be an account: its agents could approve their own calls")
		}
		fmt.Fprintf(&b, "  %d: %s\n", u.uid, name)
	}
	b.WriteString("  others: refuse\n")
	return []byte(b.String()), nil
}

// roots writes the section of the workspaces, none of which may hold a directory of the daemon.
func roots(b *strings.Builder, workspaces []string, daemons ...string) error {
	if len(workspaces) == 0 {
		return errors.New("no workspace is named, so no session could start: name a directory with --workspace")
	}
	b.WriteString("# Made by sandboxd setup; docs/configuration.md has every key.\nworkspace:\n  roots:\n")
	for _, dir := range workspaces {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("workspace %q is relative; write the absolute path", dir)
		}
		for _, own := range daemons {
			if strings.HasPrefix(own+"/", strings.TrimSuffix(filepath.Clean(dir), "/")+"/") {
				return fmt.Errorf("the workspace %s holds %s, which agents must not change; name a directory below it",
					dir, own)
			}
		}
		fmt.Fprintf(b, "    - %s\n", strconv.Quote(filepath.Clean(dir)))
	}
	return nil
}

// Person returns a daemon of the person who runs setup. It has no configuration: what agents may work in is allowed,
// as sandboxd allow does.
func Person(h Host, o Options) (*Plan, error) {
	p := &Plan{host: h, user: true, manifest: filepath.Join(o.ConfigHome, "sandboxd/setup.json")}
	if len(o.Accounts) > 0 || len(o.Operators) > 0 {
		return nil, errors.New("a daemon of one person has no accounts and no operators beside that person")
	}
	if err := p.makeUnit("user/sandboxd.service", p.userUnit(o)); err != nil {
		return nil, err
	}
	p.start("sandboxd.service")
	for _, dir := range o.Workspaces {
		p.allow(dir)
	}
	if !h.Systemd {
		p.notes = append(p.notes, "systemd does not run for this user, so nothing is started; start the daemon with: "+
			h.Program+" serve")
	}
	return p, nil
}

// userUnit returns where the unit of a person is: where make install or a package has put it, or where a person's
// own units are.
func (p *Plan) userUnit(o Options) string {
	own := filepath.Join(o.ConfigHome, "systemd/user")
	for _, dir := range append([]string{own}, o.UnitPath...) {
		unit := filepath.Join(dir, "sandboxd.service")
		if _, err := os.Lstat(p.host.at(unit)); err == nil {
			return unit
		}
	}
	return filepath.Join(own, "sandboxd.service")
}

// allow lets agents work in a directory.
func (p *Plan) allow(dir string) {
	p.add(step{
		kind: Allowed, name: dir, how: "sandboxd allow, so that agents may work in it",
		there: func() (string, error) {
			in, err := p.host.Projects.In(dir)
			if in != "" && in != dir {
				in = "allowed, as a part of " + in
			} else if in != "" {
				in = "allowed"
			}
			return in, err
		},
		do: func(ctx context.Context) error { return p.host.Projects.Allow(ctx, dir) },
	})
}

// makeUnit makes a unit of deploy/ that starts this program.
func (p *Plan) makeUnit(name, path string) error {
	text, err := fs.ReadFile(deploy.Units, name)
	if err != nil {
		return err
	}
	unit := strings.ReplaceAll(string(text), "/usr/bin/sandboxd ", p.host.Program+" ")
	p.makeFile(path, []byte(unit), 0o644, owner{}, "a unit of systemd",
		"compare it with deploy/"+name+" of this version")
	return nil
}

func (p *Plan) systemctl(words ...string) []string {
	if p.user {
		return append([]string{"systemctl", "--user"}, words...)
	}
	return append([]string{"systemctl"}, words...)
}

// start enables and starts units, where systemd runs.
func (p *Plan) start(units ...string) {
	if !p.host.Systemd {
		return
	}
	p.add(step{
		kind: Started, name: strings.Join(units, " "), how: "systemctl enable --now",
		there: func() (string, error) {
			// Both fail if one of the units is not as they ask.
			for _, ask := range []string{"is-enabled", "is-active"} {
				for _, unit := range units {
					if p.host.Run(context.Background(), p.systemctl(ask, "--quiet", unit)...) != nil {
						return "", nil
					}
				}
			}
			return "enabled and active", nil
		},
		do: func(ctx context.Context) error {
			if err := p.host.Run(ctx, p.systemctl("daemon-reload")...); err != nil {
				return err
			}
			return p.host.Run(ctx, append(p.systemctl("enable", "--now"), units...)...)
		},
	})
}
