package skills

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Config is the section skills of the configuration.
type Config struct {
	Workspace     bool     `yaml:"workspace"`     // also find packages in the directory of a session
	StrictNesting bool     `yaml:"strictNesting"` // a nested skill cannot allow more tools than the outer one
	Dirs          []string `yaml:"dirs"`          // searched instead of the usual directories
	Names         []string `yaml:"names"`         // find these packages only; empty: all
}

// Trusts implements [part.Trusting].
func (c *Config) Trusts() map[string][]string { return map[string][]string{"dirs": c.Dirs} }

// Check implements [part.Config].
func (c *Config) Check() error {
	var errs []error
	for _, d := range c.Dirs {
		if !filepath.IsAbs(d) || filepath.Clean(d) != d {
			errs = append(errs, fmt.Errorf("skills.dirs: %q is not an absolute, clean path", d))
		}
	}
	for _, n := range c.Names {
		if strings.TrimSpace(n) == "" {
			errs = append(errs, errors.New("skills.names: a name is empty"))
		}
	}
	return errors.Join(errs...)
}
