package guard

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// Meet returns what both settings allow. An agent that another one started gets that. It never allows what either
// refuses. Lists of hosts that cannot be compared allow less.
func (s Settings) Meet(o Settings) Settings {
	if reflect.DeepEqual(s, o) {
		return s
	}
	m := s
	m.AllowedReadPaths = meetPaths(s.AllowedReadPaths, o.AllowedReadPaths)
	m.AllowedWritePaths = meetPaths(s.AllowedWritePaths, o.AllowedWritePaths)
	m.DeniedPaths = union(s.DeniedPaths, o.DeniedPaths)
	m.DeniedCommands = union(s.DeniedCommands, o.DeniedCommands)
	m.AllowedCommands = meetCommands(s, o)
	m.AllowNestedSandbox = s.AllowNestedSandbox && o.AllowNestedSandbox
	m.EnableWeakerNestedSandbox = s.EnableWeakerNestedSandbox && o.EnableWeakerNestedSandbox
	m.AutoAllowBashIfSandboxed = s.AutoAllowBashIfSandboxed && o.AutoAllowBashIfSandboxed
	m.AllowUnsandboxedCommands = s.AllowUnsandboxedCommands && o.AllowUnsandboxedCommands
	m.Network = s.Network.meet(o.Network)
	m.Limits = s.Limits.WithDefaults().Tighten(o.Limits.WithDefaults())
	m.Env = both(s.Env, o.Env)
	m.Require = union(s.Require, o.Require)
	return m
}

// meetPaths returns the places that lie in both lists. An empty list has every place.
func meetPaths(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	var out []string
	add := func(p string) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, x := range a {
		for _, y := range b {
			switch {
			case Within(x, y):
				add(x)
			case Within(y, x):
				add(y)
			}
		}
	}
	if len(out) == 0 {
		return []string{NoPath}
	}
	return out
}

// meetCommands returns the list of programs that both let run. It is nil if neither has a list. With a list
// deniedCommands is ignored, so what the other one denies is taken out of it.
func meetCommands(a, b Settings) []string {
	if a.AllowedCommands == nil {
		a, b = b, a
	}
	if a.AllowedCommands == nil {
		return nil
	}
	out := []string{}
	for _, name := range a.AllowedCommands {
		refused := b.AllowedCommands != nil && !slices.Contains(b.AllowedCommands, name)
		if b.AllowedCommands == nil {
			refused = slices.ContainsFunc(b.DeniedCommands, func(d string) bool {
				return path.Base(d) == path.Base(name)
			})
		}
		if !refused {
			out = append(out, name)
		}
	}
	return out
}

// meet returns what both networks let programs reach.
func (n Network) meet(o Network) Network {
	m := n
	m.AllowedDomains = []string{}
	for _, a := range n.AllowedDomains {
		for _, b := range o.AllowedDomains {
			if e := meetEndpoints(a, b); e != "" && !slices.Contains(m.AllowedDomains, e) {
				m.AllowedDomains = append(m.AllowedDomains, e)
			}
		}
	}
	m.DeniedDomains = union(n.DeniedDomains, o.DeniedDomains)
	if n.Unlisted != UnlistedAsk || o.Unlisted != UnlistedAsk {
		m.Unlisted = UnlistedDeny
	}
	m.Hosts = both(n.Hosts, o.Hosts)
	m.Intercept = union(n.Intercept, o.Intercept)
	m.Secrets = nil
	for _, s := range n.Secrets {
		if slices.ContainsFunc(o.Secrets, func(t Secret) bool { return reflect.DeepEqual(s, t) }) {
			m.Secrets = append(m.Secrets, s)
		}
	}
	if n.CAFile != o.CAFile {
		m.CAFile = ""
	}
	if o.Search == nil {
		m.Search = nil
	}
	m.AllowLocalBinding = n.AllowLocalBinding && o.AllowLocalBinding
	return m
}

// meetEndpoints returns the narrower of two entries of allowedDomains, if it lies in the other. Else it returns "".
func meetEndpoints(a, b string) string {
	x, errX := parseEndpoint(a)
	y, errY := parseEndpoint(b)
	if errX != nil || errY != nil {
		return ""
	}
	switch {
	case x.holds(y):
		return narrowed(y, x)
	case y.holds(x):
		return narrowed(x, y)
	}
	return ""
}

// holds reports whether every name of o is a name of e.
func (e endpoint) holds(o endpoint) bool {
	if e.wild == o.wild && e.host == o.host {
		return true
	}
	return e.wild && e.matches(o.host)
}

// narrowed returns an entry with only the ports that the wider one has, too.
func narrowed(e, wider endpoint) string {
	switch {
	case e.port == wider.port || e.port != 0 && wider.opens(e.port):
	case e.port == 0 && slices.Contains(webPorts, wider.port):
		e.port = wider.port
	default:
		return ""
	}
	host := e.host
	if e.wild {
		host = "*." + host
	}
	switch {
	case e.port == 0:
		return host
	case strings.Contains(host, ":"):
		return fmt.Sprintf("[%s]:%d", host, e.port)
	}
	return fmt.Sprintf("%s:%d", host, e.port)
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// both returns the pairs that are in two maps.
func both(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.DeleteFunc(out, func(k, v string) bool { w, ok := b[k]; return !ok || w != v })
	return out
}

// Forbids names a path that the earlier settings let a program reach and that these refuse. "" is none. It does not
// compare hosts, commands and limits.
func (s Settings) Forbids(earlier Settings) string {
	for _, d := range s.DeniedPaths {
		if !withinAny(d, earlier.DeniedPaths) {
			return "deniedPaths has " + d
		}
	}
	for _, list := range []struct {
		key      string
		now, was []string
	}{
		{"allowedReadPaths", s.AllowedReadPaths, earlier.AllowedReadPaths},
		{"allowedWritePaths", s.AllowedWritePaths, earlier.AllowedWritePaths},
	} {
		switch {
		case len(list.now) == 0: // an empty list means everything
		case len(list.was) == 0:
			return list.key + " does not have everything"
		default:
			for _, path := range list.was {
				if path != NoPath && !withinAny(path, list.now) {
					return list.key + " does not have " + path
				}
			}
		}
	}
	return ""
}

// withinAny reports whether a path lies in one of these.
func withinAny(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return Within(path, root) })
}
