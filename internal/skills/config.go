package skills

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Config is the section skills of the configuration.
type Config struct {
	Workspace     bool     `yaml:"workspace"`     // packages in the directory of a session count
	StrictNesting bool     `yaml:"strictNesting"` // a skill within another never lets more be called
	Dirs          []string `yaml:"dirs"`          // in place of the usual directories
	Names         []string `yaml:"names"`         // only these packages; empty: all
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
