package agents

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
)

// Config is the section agents of the configuration.
type Config struct {
	Spawner Spawner         `yaml:"spawner"`
	Types   map[string]Type `yaml:"types"` // by name
}

// Spawner is the program that runs agents.
type Spawner struct {
	Command []string      `yaml:"command"` // without one, agents cannot be started
	Timeout time.Duration `yaml:"timeout"` // how long an agent may work
	PassEnv []string      `yaml:"passEnv"` // variables of the daemon that the program gets
}

// Type is a kind of agent, with the tools and the prompt that it has.
type Type struct {
	Description     string   `yaml:"description"`
	SystemPrompt    string   `yaml:"systemPrompt"`
	Tools           []string `yaml:"tools"` // empty: all that its parent has
	DisallowedTools []string `yaml:"disallowedTools"`
	Model           string   `yaml:"model"`    // "": that of its parent
	MaxTurns        int      `yaml:"maxTurns"` // 0 is 10
}

func defaults() *Config { return &Config{Spawner: Spawner{Timeout: time.Hour}} }

const (
	general  = "general-purpose" // the type of an agent if the call names none
	maxTurns = 10
)

// builtIn are the types that exist without any configuration.
var builtIn = map[string]Type{
	"Explore": {
		Description: "finds out how code works; changes nothing",
		SystemPrompt: "You explore a codebase. Search its files and read them to answer the question that you are " +
			"given. Change nothing. Name the files and lines that your answer rests on, and say what you did not find.",
		Tools: []string{"Read", "Glob", "Grep", "Bash"},
	},
	"Plan": {
		Description: "plans how to build something; changes nothing",
		SystemPrompt: "You are a software architect. Read what is there, then plan how to build what you are asked " +
			"for: the steps in their order, the files that each one touches, what may go wrong, and how to see that " +
			"it works. Change nothing.",
		Tools: []string{"Read", "Glob", "Grep", "Bash"},
	},
	general: {Description: "does a whole piece of work by itself"},
}

// Check implements [part.Config].
func (c *Config) Check() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("agents."+key+": "+format, args...))
	}
	s := c.Spawner
	switch {
	case s.Timeout <= 0:
		bad("spawner.timeout", "%v is not above 0", s.Timeout)
	case len(s.Command) == 0 && len(s.PassEnv) > 0:
		bad("spawner.passEnv", "there is no spawner.command to pass variables to")
	}
	for _, name := range s.PassEnv {
		if name == "" || strings.ContainsAny(name, "= ") || strings.HasPrefix(name, "HOOK_") ||
			strings.HasPrefix(name, "SANDBOXD_") {
			bad("spawner.passEnv", "%q cannot be passed on", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Types)) {
		t := c.Types[name]
		if _, taken := builtIn[name]; taken {
			bad("types", "%s is built in; choose another name", name)
		}
		if name == "" || len(name) > 40 || strings.ContainsFunc(name, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r)
		}) || strings.Trim(name[:1], "-_") == "" {
			bad("types", "%q is no name of a type: letters, digits, - and _, at most 40", name)
		}
		if t.MaxTurns < 0 {
			bad("types."+name+".maxTurns", "%d is below 0", t.MaxTurns)
		}
		for _, tool := range append(slices.Clone(t.Tools), t.DisallowedTools...) {
			if tool == "" || strings.ContainsAny(tool, "( ") {
				bad("types."+name, "%q is no name of a tool", tool)
			}
		}
	}
	return errors.Join(errs...)
}

// Programs implements [part.Running].
func (c *Config) Programs() map[string][]string {
	if len(c.Spawner.Command) == 0 {
		return nil
	}
	return map[string][]string{"spawner.command": c.Spawner.Command}
}

var _ part.Running = (*Config)(nil)

// find returns a type by its name. "" is the general type.
func (c *Config) find(name string) (string, Type, bool) {
	name = cmp.Or(name, general)
	t, ok := builtIn[name]
	if !ok {
		t, ok = c.Types[name]
	}
	return name, t, ok
}

// names lists the types for a model.
func (c *Config) names() []string {
	all := maps.Clone(builtIn)
	maps.Copy(all, c.Types)
	return slices.Sorted(maps.Keys(all))
}
