package vet

import (
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

const (
	prefix    = "mcp__"
	separator = "__"
	maxWhole  = 128 // characters of mcp__server__tool, as the APIs of models allow
)

var (
	serverName = lazyregexp.New(`^[A-Za-z0-9_-]{1,32}$`)
	toolName   = lazyregexp.New(`^[A-Za-z0-9_.-]{1,64}$`)
)

// CheckServer returns an error for a name that no server may have (M-13).
func CheckServer(name string) error {
	switch {
	case !serverName().MatchString(name):
		return fmt.Errorf("%.80q is no name of a server: want 1 to 32 letters, digits, _ or -", name)
	case strings.Contains(name, separator) || strings.HasPrefix(name, "_") || strings.HasSuffix(name, "_"):
		return fmt.Errorf("%q is no name of a server: __ parts it from the tool in %sserver__tool", name, prefix)
	}
	return nil
}

// CheckTool returns an error for a name that no tool of a server may have.
func CheckTool(server, name string) error {
	switch whole := Name(server, name); {
	case !toolName().MatchString(name):
		return fmt.Errorf("%.80q is no name of a tool: want 1 to 64 letters, digits, _, . or -", name)
	case strings.HasPrefix(name, prefix):
		return fmt.Errorf("%.80q is no name of a tool: it looks like one of another server", name)
	case len(whole) > maxWhole:
		return fmt.Errorf("%.80q is too long: %s has more than %d characters", name, whole, maxWhole)
	}
	return nil
}

// Name returns the name by which a model calls a tool of a server (M-12).
func Name(server, name string) string { return prefix + server + separator + name }
