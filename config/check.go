package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tools"
)

// check refuses what could not be served, or not as it reads.
func (c *Config) check(d *document) error {
	return errors.Join(
		c.checkChoices(d),
		c.checkNumbers(d),
		c.checkPolicy(d),
		c.checkCanUseTool(d),
		c.checkHooks(d),
		c.checkTools(d),
		c.checkFiles(d),
		d.errorAt([]string{"approvals", "webhook"}, c.readWebhook()),
		d.errorAt([]string{"approvals", "command"}, c.checkCommand()),
		d.errorAt([]string{"metrics", "listen"}, checkListen(c.Metrics.Listen)),
	)
}

func (c *Config) checkChoices(d *document) error {
	var errs []error
	for _, choice := range []struct {
		key, value string
		known      []string
	}{
		{"profile", c.Profile, []string{"strict", "light"}},
		{"sessions.mode", c.Sessions.Mode, policy.Modes},
		{"sessions.maxMode", c.Sessions.MaxMode, policy.Modes},
		{"policy.profile", c.Policy.Profile, policy.Profiles},
		{"policy.verdict", c.Policy.Verdict, []string{policy.VerdictAdvisory, policy.VerdictFinal}},
		{"vars.nested", c.Vars.Nested, []string{"purpose", "all"}},
		{"store.sync", c.Store.Sync, []string{"normal", "full"}},
		{"audit.sync", c.Audit.Sync, []string{"interval", "always"}},
		{"log.level", c.Log.Level, []string{"debug", "info", "warn", "error"}},
	} {
		if !slices.Contains(choice.known, choice.value) {
			err := fmt.Errorf("unknown value %q: want %s", choice.value, strings.Join(choice.known, ", "))
			errs = append(errs, d.errorAt(strings.Split(choice.key, "."), err))
		}
	}
	if errs == nil && policy.Looser(c.Sessions.Mode, c.Sessions.MaxMode) {
		errs = append(errs, d.errorAt([]string{"sessions", "mode"},
			fmt.Errorf("%s is looser than sessions.maxMode, which is %s", c.Sessions.Mode, c.Sessions.MaxMode)))
	}
	return errors.Join(errs...)
}

func (c *Config) checkNumbers(d *document) error {
	var errs []error
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"approvals.timeout", int64(c.Approvals.Timeout)},
		{"approvals.maxPerSession", int64(c.Approvals.MaxPerSession)},
		{"vars.capacity", int64(c.Vars.Capacity)},
		{"vars.maxValue", int64(c.Vars.MaxValue)},
	} {
		if n.value <= 0 {
			errs = append(errs, d.errorAt(strings.Split(n.key, "."), errors.New("want more than zero")))
		}
	}
	for key, value := range map[string]int64{
		"perSecond": int64(c.API.PerSecond), "concurrent": int64(c.API.Concurrent), "stopGrace": int64(c.API.StopGrace),
	} {
		if value < 0 {
			errs = append(errs, d.errorAt([]string{"api", key}, errors.New("want zero or more")))
		}
	}
	if c.Sessions.PerAccount < 0 {
		errs = append(errs, d.errorAt([]string{"sessions", "perAccount"}, errors.New("want zero or more")))
	}
	if c.Policy.KeepDecisions < 0 {
		errs = append(errs, d.errorAt([]string{"policy", "keepDecisions"}, errors.New("want zero or more")))
	}
	for uid, name := range c.Accounts {
		if uid < 0 || name == "" || strings.ContainsFunc(name, notInAccount) {
			errs = append(errs, d.errorAt([]string{"accounts"},
				fmt.Errorf("%d: %q: want a uid and a name of letters, digits or any of -_. only", uid, name)))
		}
	}
	return errors.Join(errs...)
}

func notInAccount(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
}

// checkPolicy tries the rules one by one, so that the line of a bad one is known.
func (c *Config) checkPolicy(d *document) error {
	var errs []error
	for _, l := range []struct {
		name  string
		rules []string
		only  func(string) policy.Rules
	}{
		{"allow", c.Policy.Rules.Allow, func(r string) policy.Rules { return policy.Rules{Allow: []string{r}, Deny: c.Policy.Rules.Deny} }},
		{"ask", c.Policy.Rules.Ask, func(r string) policy.Rules { return policy.Rules{Ask: []string{r}, Deny: c.Policy.Rules.Deny} }},
		{"deny", c.Policy.Rules.Deny, func(r string) policy.Rules { return policy.Rules{Deny: []string{r}} }},
	} {
		for i, rule := range l.rules {
			// A bad deny rule is named in its own place, not at every other rule.
			if l.name != "deny" && (policy.Rules{Deny: c.Policy.Rules.Deny}).Check() != nil {
				break
			}
			errs = append(errs, d.errorAt([]string{"policy", "rules", l.name, strconv.Itoa(i)}, l.only(rule).Check()))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) checkHooks(d *document) error {
	for event, list := range c.Hooks {
		for i, def := range list {
			_, err := hooks.New(hooks.Options{Hooks: map[string][]hooks.Definition{event: {def}}, Writable: c.writable()})
			if err != nil {
				return d.errorAt([]string{"hooks", event, strconv.Itoa(i)}, err)
			}
		}
		if _, err := hooks.ParseEvent(event); err != nil {
			return d.errorAt([]string{"hooks", event}, err)
		}
	}
	return nil
}

func (c *Config) checkTools(d *document) error {
	names := map[string]bool{}
	for i, t := range c.Tools.Custom {
		key := []string{"tools", "custom", strconv.Itoa(i)}
		if _, err := tools.NewCustom(t.Custom); err != nil {
			return d.errorAt(key, err)
		}
		if names[t.Name] {
			return d.errorAt(key, fmt.Errorf("tool %q is defined twice", t.Name))
		}
		names[t.Name] = true
		if program := t.Argv[0]; strings.Contains(program, "/") {
			if err := c.apart("program", program); err != nil {
				return d.errorAt(key, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools.Permissions)) {
		if err := c.Tools.Permissions[name].Check(); err != nil {
			return d.errorAt([]string{"tools", "permissions", name}, err)
		}
	}
	return nil
}

// checkFiles keeps what steers the daemon out of the reach of agents.
func (c *Config) checkFiles(d *document) error {
	var errs []error
	if c.File != "" {
		if err := c.apart("configuration", c.File); err != nil {
			errs = append(errs, &Error{File: c.File, Err: err})
		}
	}
	for i, dir := range c.Policy.Dirs {
		errs = append(errs, d.errorAt([]string{"policy", "dirs", strconv.Itoa(i)}, c.apart("policy directory", dir)))
	}
	return errors.Join(errs...)
}

func (c *Config) apart(what, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s %q is relative; write the absolute path", what, path)
	}
	real := filepath.Clean(path)
	if p, err := filepath.EvalSymlinks(real); err == nil {
		real = p
	}
	for _, dir := range c.writable() {
		if sandbox.Within(real, dir) {
			return fmt.Errorf("%s %q lies in %q, which agents can write; keep it elsewhere", what, path, dir)
		}
	}
	return nil
}

// writable is where agents can write on the machine. The /tmp of a call is its
// own, and the streams in /dev hold nothing.
func (c *Config) writable() []string {
	if len(c.Sandbox.AllowedWritePaths) == 0 {
		return []string{"/"}
	}
	out := slices.Clone(c.Workspace.Roots)
	for _, p := range c.Sandbox.AllowedWritePaths {
		if p != "/tmp" && !strings.HasPrefix(p, "/dev/") && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func inside(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return sandbox.Within(path, dir) })
}

func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q: want host:port, such as 127.0.0.1:9090", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		return fmt.Errorf("%q: %q is not a port", addr, port)
	}
	return nil
}
