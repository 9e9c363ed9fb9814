package undo

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/tools/search"
)

// Off is the reason that answers give if the configuration switches undo off.
const Off = "undo.mode is off"

// Config is the section undo of the configuration.
type Config struct {
	Mode         string `yaml:"mode"`         // auto, snapshot (look at every file), or off
	KeepDays     int    `yaml:"keepDays"`     // days that a call can be undone
	KeepBytes    int64  `yaml:"keepBytes"`    // bytes for all calls; the oldest go first
	PerCallBytes int64  `yaml:"perCallBytes"` // bytes for one call; a call that needs more is refused
	// Exclude lists paths whose changes by commands are not kept, like an ignore file of git at the root of each
	// tree.
	Exclude []string `yaml:"exclude"`
}

func defaults() *Config {
	return &Config{Mode: "auto", KeepDays: 14, KeepBytes: 5 << 30, PerCallBytes: 1 << 30, Exclude: []string{}}
}

// Check implements [part.Config].
func (c *Config) Check() error {
	switch {
	case c.Mode != "auto" && c.Mode != snapshotMode && c.Mode != "off":
		return fmt.Errorf("mode is %q: want auto, snapshot or off", c.Mode)
	case c.KeepDays < 1 || c.KeepDays > 3650:
		return fmt.Errorf("keepDays is %d: want 1 to 3650; mode: off keeps nothing", c.KeepDays)
	case c.PerCallBytes < 1:
		return errors.New("perCallBytes must be at least 1")
	case c.KeepBytes < c.PerCallBytes:
		return fmt.Errorf("keepBytes is %d, less than perCallBytes, %d", c.KeepBytes, c.PerCallBytes)
	}
	for _, pattern := range c.Exclude {
		if strings.TrimSpace(pattern) == "" || strings.ContainsAny(pattern, "\n\r") || pattern[0] == '#' {
			return fmt.Errorf("exclude has %q: want a pattern of an ignore file, such as node_modules/", pattern)
		}
	}
	if len(c.Exclude) > 0 && c.Mode == "off" {
		return errors.New("exclude is about what is kept, and mode: off keeps nothing")
	}
	return nil
}

// excluded returns the patterns of paths in the tree at root whose changes are not kept.
func (c *Config) excluded(root string) *search.Ignores {
	return search.NewIgnores(func(path string) []byte {
		if path == root+"/.gitignore" {
			return []byte(strings.Join(c.Exclude, "\n"))
		}
		return nil
	})
}

func (c *Config) keep() time.Duration { return time.Duration(c.KeepDays) * 24 * time.Hour }
