package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/policy/callback"
)

// idle names the settings of the file that another setting makes useless. A setting that can never have an effect is
// an error; one that has none on this host is found elsewhere.
func (c *Config) idle() []string {
	var out []string
	nobodyAnswers := !c.Approvals.Approver
	noCallback := len(c.Policy.CanUseTool.Command) == 0 && c.Policy.CanUseTool.Webhook == ""
	for _, s := range []struct {
		key  string
		idle bool
		why  string
	}{
		{
			"policy.verdict", c.Policy.Verdict == callback.VerdictFinal && len(c.Policy.Policies) == 0,
			"policy.policies has no list policy",
		},
		{
			"policy.shadow", slices.Equal(c.Policy.Dirs, []string{c.Policy.Shadow}),
			"policy.dirs names the same directory, so there is nothing to compare",
		},
		{"policy.canUseTool.timeout", noCallback, "policy.canUseTool names no command and no webhook"},
		{
			"audit.anchor.every", c.Audit.Anchor.File == "" && len(c.Audit.Anchor.Command) == 0,
			"audit.anchor names no file and no command",
		},
		{"store.passwordFile", c.Store.URL == "", "store.url names no database that would ask for it"},
		{"store.timeout", c.Store.URL == "", "store.url names no database that could be away"},
		{"store.maxConns", c.Store.URL == "", "store.url names no database to connect to"},
		{"approvals.timeout", nobodyAnswers, "approvals.approver is false, so every question is refused at once"},
		{"approvals.maxPerSession", nobodyAnswers, "approvals.approver is false, so no question waits"},
		{"approvals.webhook", nobodyAnswers, "approvals.approver is false, so there is no question to announce"},
		{"approvals.command", nobodyAnswers, "approvals.approver is false, so there is no question to announce"},
	} {
		if s.idle && c.origin(strings.Split(s.key, ".")) != "default" {
			out = append(out, s.key+" has no effect: "+s.why)
		}
	}
	return append(out, c.idleRules()...)
}

// idleRules names rules about tools that do not exist. They are no errors, because they may be meant for another
// agent.
func (c *Config) idleRules() []string {
	var out []string
	known := c.toolNames()
	look := func(key string, names []string) {
		for i, text := range names {
			name, _, _ := strings.Cut(text, "(")
			if !known[name] && !strings.HasPrefix(name, "mcp__") && !clients.Knows(name) {
				out = append(out, fmt.Sprintf("%s[%d] %q has no effect: there is no tool %q%s", key, i, text, name,
					spelled(name, known)))
			}
		}
	}
	look("policy.rules.allow", c.Policy.Rules.Allow)
	look("policy.rules.ask", c.Policy.Rules.Ask)
	look("policy.rules.deny", c.Policy.Rules.Deny)
	for i, p := range c.Policy.Policies {
		look(fmt.Sprintf("policy.policies[%d].tools", i), p.Tools)
	}
	return out
}

// toolNames returns the tools that sessions of the daemon can have.
func (c *Config) toolNames() map[string]bool {
	known := map[string]bool{}
	for _, g := range BuiltIn(c.parts...) {
		for _, t := range g.Tools {
			known[t.Spec().Name] = true
		}
	}
	for _, t := range c.Tools.Custom {
		known[t.Name] = true
	}
	return known
}

// checkToolNames refuses settings of tools that do not exist, because they would have no effect.
func (c *Config) checkToolNames(d *document) error {
	known, folded := c.toolNames(), map[string]bool{}
	for name := range known {
		folded[strings.ToLower(name)] = true
	}
	var errs []error
	refuse := func(name string, key ...string) {
		if ofServer(name) {
			return
		}
		errs = append(errs, d.errorAt(append([]string{"tools"}, key...),
			fmt.Errorf("there is no tool %q%s", name, spelled(name, known))))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools.Tools)) {
		if !known[name] {
			refuse(name, "tools", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools.Permissions)) {
		if !known[name] {
			refuse(name, "permissions", name)
		}
	}
	for key, names := range map[string][]string{"allowed": c.Tools.Allowed, "denied": c.Tools.Denied} {
		for i, name := range names { // T-56: in these names case does not matter
			if !folded[strings.ToLower(name)] {
				refuse(name, key, fmt.Sprint(i))
			}
		}
	}
	return errors.Join(errs...)
}

// ofServer reports whether a name is that of a tool of an MCP server, mcp__server__tool. Which of these exist is
// known only in a session.
func ofServer(name string) bool {
	rest, ok := strings.CutPrefix(name, "mcp__")
	server, tool, parted := strings.Cut(rest, "__")
	return ok && parted && server != "" && tool != ""
}

// spelled returns a hint for a name that differs from a known one only in case or underscores.
func spelled(name string, known map[string]bool) string {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	for _, have := range slices.Sorted(maps.Keys(known)) {
		if plain(have) == plain(name) {
			return fmt.Sprintf("; names are exact: %q", have)
		}
	}
	return ""
}

// environment remembers which variables were looked up. Only those are settings.
type environment struct {
	get  func(string) string
	read map[string]bool
}

func (e environment) lookup(name string) string {
	e.read[name] = true
	return e.get(name)
}

// unread returns the variables that look like settings and that nothing has looked up.
func (e environment) unread(environ []string) []string {
	e.read["SANDBOXD_CONFIG"] = true // nothing looks it up if a file is named
	var out []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "SANDBOXD_") && !e.read[name] {
			out = append(out, fmt.Sprintf("the variable %s has no effect: no setting has that name", name))
		}
	}
	slices.Sort(out)
	return out
}
