package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// maxKeepDays is a century: more does not fit into a duration.
const maxKeepDays = 36_500

// check refuses what the daemon could not serve, and what would mean something else than it says. It also reads
// the files of two secrets.
func (c *Config) check(d *document) error {
	return errors.Join(
		c.checkChoices(d),
		c.checkNumbers(d),
		c.checkAccounts(d),
		c.checkSockets(d),
		c.checkPolicy(d),
		c.checkCanUseTool(d),
		c.checkHooks(d),
		c.checkTools(d),
		c.checkGroups(d),
		c.checkFiles(d),
		c.checkSecrets(d),
		d.errorAt([]string{"approvals", "webhook"}, c.readWebhook()),
		d.errorAt([]string{"approvals", "command"}, c.checkApprovalsCommand()),
		d.errorAt([]string{"store"}, c.readStore()),
		d.errorAt([]string{"audit", "anchor"}, c.checkAnchor()),
		d.errorAt([]string{"metrics", "listen"}, checkListen(c.Metrics.Listen)),
		d.errorAt([]string{"sandbox", "network", "hosts"}, c.checkNetworkHosts()),
	)
}

func (c *Config) checkChoices(d *document) error {
	var errs []error
	for _, choice := range []struct {
		key, value string
		known      []string
	}{
		{"profile", string(c.Profile), words(sandbox.Profiles)},
		{"sessions.mode", string(c.Sessions.Mode), words(tool.Modes)},
		{"sessions.maxMode", string(c.Sessions.MaxMode), words(tool.Modes)},
		{"policy.profile", string(c.Policy.Profile), words(policy.Profiles)},
		{"policy.verdict", c.Policy.Verdict, []string{callback.VerdictAdvisory, callback.VerdictFinal}},
		{"policy.undoable", c.Policy.Undoable, []string{UndoableAsk, UndoableAllow}},
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
	if errs == nil && c.Sessions.Mode.LooserThan(c.Sessions.MaxMode) {
		errs = append(errs, d.errorAt([]string{"sessions", "mode"},
			fmt.Errorf("%s is looser than sessions.maxMode, which is %s", c.Sessions.Mode, c.Sessions.MaxMode)))
	}
	return errors.Join(errs...)
}

// words returns the values of a choice as text.
func words[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return texts
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
	if n := c.Limits.AgentBytes; n < budget.Least {
		errs = append(errs, d.errorAt([]string{"limits", "agentBytes"},
			fmt.Errorf("%d bytes are too few for the largest request and answer: want %d (64 MiB) or more", n,
				int64(budget.Least))))
	}
	for key, n := range map[string]int64{
		"diskReserve": c.Limits.DiskReserve, "accountDisk": c.Limits.AccountDisk,
	} {
		if n != 0 && n < leastDisk {
			errs = append(errs, d.errorAt([]string{"limits", key},
				fmt.Errorf("%d bytes are too few to do anything with: want %d (1 MiB) or more, or 0 for the default", n,
					int64(leastDisk))))
		}
	}
	for key, n := range map[string]int64{
		"connectionsPerSecond": int64(c.Limits.AccountNetwork.ConnectionsPerSecond),
		"bytesPerSecond":       c.Limits.AccountNetwork.BytesPerSecond,
	} {
		if n < 0 {
			errs = append(errs, d.errorAt([]string{"limits", "accountNetwork", key}, errors.New("want zero or more")))
		}
	}
	if n := c.Sessions.KeepDays; n < 0 || n > maxKeepDays {
		err := fmt.Errorf("%d is not between 0 and %d", n, maxKeepDays)
		errs = append(errs, d.errorAt([]string{"sessions", "keepDays"}, err))
	}
	if c.Sessions.PerAccount < 0 {
		errs = append(errs, d.errorAt([]string{"sessions", "perAccount"}, errors.New("want zero or more")))
	}
	if c.Policy.KeepDecisions < 0 {
		errs = append(errs, d.errorAt([]string{"policy", "keepDecisions"}, errors.New("want zero or more")))
	}
	if c.Policy.GuardReload && c.Policy.KeepDecisions == 0 {
		errs = append(errs, d.errorAt([]string{"policy", "guardReload"},
			errors.New("it compares recorded calls, and policy.keepDecisions: 0 keeps none")))
	}
	return errors.Join(errs...)
}

// leastDisk is the smallest bound for a disk that makes sense: the log of the database alone takes more.
const leastDisk = 1 << 20

// checkPolicy tries each rule alone, so that it knows the line of each bad one. It tries the other rules together
// with the deny rules that are good.
func (c *Config) checkPolicy(d *document) error {
	var errs []error
	var deny []string
	try := func(list string, i int, r permission.Rules) bool {
		err := r.Check()
		errs = append(errs, d.errorAt([]string{"policy", "rules", list, strconv.Itoa(i)}, err))
		return err == nil
	}
	for i, rule := range c.Policy.Rules.Deny {
		if try("deny", i, permission.Rules{Deny: []string{rule}}) {
			deny = append(deny, rule)
		}
	}
	for i, rule := range c.Policy.Rules.Allow {
		try("allow", i, permission.Rules{Allow: []string{rule}, Deny: deny})
	}
	for i, rule := range c.Policy.Rules.Ask {
		try("ask", i, permission.Rules{Ask: []string{rule}, Deny: deny})
	}
	return errors.Join(errs...)
}

func (c *Config) checkHooks(d *document) error {
	var errs []error
	for _, event := range slices.Sorted(maps.Keys(c.Hooks)) {
		if _, err := hooks.ParseEvent(event); err != nil {
			errs = append(errs, d.errorAt([]string{"hooks", event}, err))
			continue
		}
		for i, def := range c.Hooks[event] {
			_, err := hooks.New(hooks.Options{
				Hooks: map[string][]hooks.Definition{event: {def}}, Writable: c.writable(),
			})
			if err != nil { // it is the first of its event that was tried alone
				err = errors.New(strings.TrimPrefix(err.Error(), "hooks."+event+"[0]: "))
			} else if err = notThere(plainProgram(def.Command)); err != nil {
				err = fmt.Errorf("command %q: %w", def.Command, err)
			}
			errs = append(errs, d.errorAt([]string{"hooks", event, strconv.Itoa(i)}, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) checkTools(d *document) error {
	names := map[string]bool{}
	var errs []error
	for i, t := range c.Tools.Custom {
		key := []string{"tools", "custom", strconv.Itoa(i)}
		if _, err := tools.NewCustom(t.Custom); err != nil {
			errs = append(errs, d.errorAt(key, err))
			continue
		}
		if names[t.Name] {
			errs = append(errs, d.errorAt(key, fmt.Errorf("tool %q is defined twice", t.Name)))
		}
		names[t.Name] = true
		if program := t.Argv[0]; strings.Contains(program, "/") {
			errs = append(errs, d.errorAt(key, c.checkProgram(program)))
		}
	}
	errs = append(errs, c.checkDeferred(d), c.checkToolNames(d))
	for _, name := range slices.Sorted(maps.Keys(c.Tools.Permissions)) {
		errs = append(errs, d.errorAt([]string{"tools", "permissions", name}, c.Tools.Permissions[name].Check()))
	}
	return errors.Join(errs...)
}

// checkFiles refuses files that steer the daemon and that agents can write.
func (c *Config) checkFiles(d *document) error {
	var errs []error
	if c.File != "" {
		if err := c.apart("configuration", c.File); err != nil {
			errs = append(errs, &Error{File: c.File, Err: err})
		}
	}
	for i, dir := range c.Policy.Dirs {
		err := c.apartWhole("policy directory", dir)
		if _, missing := os.Stat(dir); err == nil && errors.Is(missing, fs.ErrNotExist) {
			err = fmt.Errorf("policy directory %q is not there", dir)
		}
		errs = append(errs, d.errorAt([]string{"policy", "dirs", strconv.Itoa(i)}, err))
	}
	if dir := c.Policy.Shadow; dir != "" {
		errs = append(errs, d.errorAt([]string{"policy", "shadow"}, c.apartWhole("policy directory", dir)))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Parts)) {
		if running, ok := c.Parts[name].(part.Running); ok {
			for key, argv := range running.Programs() {
				errs = append(errs, d.errorAt(append([]string{name}, strings.Split(key, ".")...), c.checkArgv(argv)))
			}
		}
		trusting, _ := c.Parts[name].(part.Trusting)
		if trusting == nil {
			continue
		}
		for key, dirs := range trusting.Trusts() {
			for i, dir := range dirs {
				errs = append(errs, d.errorAt([]string{name, key, strconv.Itoa(i)}, c.apartWhole("directory", dir)))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Config) apart(what, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s %q is relative; write the absolute path", what, path)
	}
	if dir, ok := guard.Reach(path, c.writable()); ok {
		return fmt.Errorf("%s %q lies in %q, which agents can write, or a link leads through it; keep it elsewhere",
			what, path, dir)
	}
	return nil
}

// apartWhole is apart for a directory that is read with everything below it.
func (c *Config) apartWhole(what, path string) error {
	if err := c.apart(what, path); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = filepath.Clean(path)
	}
	for _, dir := range c.writable() {
		if guard.Within(dir, real) {
			return fmt.Errorf("%s %q holds %q, which agents can write; name a directory of its own", what, path, dir)
		}
	}
	return nil
}

// writable returns the directories of the machine in which agents can write. /tmp is not one of them: each call has
// its own. The streams in /dev keep nothing.
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
	return slices.ContainsFunc(dirs, func(dir string) bool { return guard.Within(path, dir) })
}

func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q: want host:port, such as 127.0.0.1:9090", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: %q is not a port", addr, port)
	}
	return nil
}

// Serves reports whether a connection to an address would reach metrics.listen. Any address of this machine counts,
// because most listeners listen on all of them.
func (m Metrics) Serves(to netip.AddrPort) bool {
	_, port, err := net.SplitHostPort(m.Listen)
	return err == nil && port == strconv.Itoa(int(to.Port())) && egress.OfThisMachine(to.Addr())
}

// checkNetworkHosts refuses host names that would lead programs to the daemon itself. A name without a port passes,
// although it may lead there too: such a connection is refused when it is made.
func (c *Config) checkNetworkHosts() error {
	for _, name := range slices.Sorted(maps.Keys(c.Sandbox.Network.Hosts)) {
		to := c.Sandbox.Network.Hosts[name]
		if at, err := netip.ParseAddrPort(to); err == nil && c.Metrics.Serves(at) {
			return fmt.Errorf("%s: %s is metrics.listen, which no program may reach", name, to)
		}
	}
	return nil
}
