package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
)

// Config is the section jobs of the configuration.
type Config struct {
	PerSession  int           `yaml:"perSession"`  // that run
	PerAccount  int           `yaml:"perAccount"`  // that run
	WallSeconds int           `yaml:"wallSeconds"` // how long one may run; 0 is until it is ended
	OutputBytes int64         `yaml:"outputBytes"` // that are kept of each
	OutputRate  int64         `yaml:"outputRate"`  // bytes that each may print in a second
	Keep        time.Duration `yaml:"keep"`        // how long those that ended can be read
	KeepEnded   int           `yaml:"keepEnded"`   // how many of an account that ended can be read
	Forbidden   string        `yaml:"forbidden"`   // what becomes of one that new settings or policies forbid
}

// Defaults returns the values of the section.
func Defaults() *Config {
	return &Config{
		PerSession: 16, PerAccount: 64, OutputBytes: 4 << 20, OutputRate: 8 << 20,
		Keep: 24 * time.Hour, KeepEnded: 64, Forbidden: forbiddenEnd,
	}
}

// What becomes of a job that new settings or policies forbid.
const (
	forbiddenEnd  = "end"
	forbiddenMark = "mark" // it goes on, and Info.Forbidden says why it should not
)

// Check implements [part.Config].
func (c *Config) Check() error {
	var errs []error
	for _, n := range []struct {
		key              string
		value, from, max int64
	}{
		{"perSession", int64(c.PerSession), 0, 10_000},
		{"perAccount", int64(c.PerAccount), 0, 10_000},
		{"wallSeconds", int64(c.WallSeconds), 0, 1 << 31},
		{"outputBytes", c.OutputBytes, 64 << 10, 1 << 40},
		{"outputRate", c.OutputRate, 64 << 10, 1 << 40},
		{"keep", int64(c.Keep), 0, int64(10 * 365 * 24 * time.Hour)},
		{"keepEnded", int64(c.KeepEnded), 0, 100_000},
	} {
		if n.value < n.from || n.value > n.max {
			errs = append(errs, fmt.Errorf("jobs.%s: %d is not between %d and %d", n.key, n.value, n.from, n.max))
		}
	}
	if c.Forbidden != forbiddenEnd && c.Forbidden != forbiddenMark {
		errs = append(errs, fmt.Errorf("jobs.forbidden: %.50q is neither %s nor %s",
			c.Forbidden, forbiddenEnd, forbiddenMark))
	}
	return errors.Join(errs...)
}

var _ part.Config = (*Config)(nil)
