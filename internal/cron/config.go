package cron

import (
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/internal/part"
)

// Config is the section cron of the configuration.
type Config struct {
	PerSession int `yaml:"perSession"` // jobs that there may be
	PerAccount int `yaml:"perAccount"` // likewise
}

// Defaults returns the values of the section.
func Defaults() *Config { return &Config{PerSession: 16, PerAccount: 64} }

// Check implements [part.Config].
func (c *Config) Check() error {
	var errs []error
	for _, n := range []struct {
		key   string
		value int
	}{{"perSession", c.PerSession}, {"perAccount", c.PerAccount}} {
		if n.value < 0 || n.value > 10_000 {
			errs = append(errs, fmt.Errorf("cron.%s: %d is not between 0 and 10000", n.key, n.value))
		}
	}
	return errors.Join(errs...)
}

var _ part.Config = (*Config)(nil)
