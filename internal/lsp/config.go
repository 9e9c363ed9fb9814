package lsp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/part"
)

// Config is the section lsp of the configuration.
type Config struct {
	Servers map[string]Server `yaml:"servers"` // by name
	Timeout time.Duration     `yaml:"timeout"` // bounds the start of a server, and each answer
	Idle    time.Duration     `yaml:"idle"`    // a server that is not asked for this long ends
}

// Server is a language server.
type Server struct {
	Command    string            `yaml:"command"`
	Args       []string          `yaml:"args"`
	Env        map[string]string `yaml:"env"`
	Extensions []string          `yaml:"extensions"` // of the files that the server is asked about
	Language   string            `yaml:"language"`   // what LSP calls their language; "" is the name of the server
}

// Defaults returns the default values of the section.
func Defaults() *Config { return &Config{Timeout: time.Minute, Idle: 10 * time.Minute} }

var serverName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// Check implements [part.Config].
func (c *Config) Check() error {
	var errs []error
	for _, d := range []struct {
		key            string
		value, usually time.Duration
	}{{"timeout", c.Timeout, Defaults().Timeout}, {"idle", c.Idle, Defaults().Idle}} {
		switch {
		case d.value < time.Second || d.value > 24*time.Hour:
			errs = append(errs, fmt.Errorf("lsp.%s: %s is not between 1s and 24h", d.key, d.value))
		case len(c.Servers) == 0 && d.value != d.usually:
			errs = append(errs, fmt.Errorf("lsp.%s does nothing without lsp.servers", d.key))
		}
	}
	of := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[name]
		if err := s.check(name); err != nil {
			errs = append(errs, fmt.Errorf("lsp.servers.%s: %w", name, err))
		}
		for _, ext := range s.Extensions {
			if other, taken := of[ext]; taken {
				errs = append(errs, fmt.Errorf("lsp.servers.%s: extensions: %q is of %s already", name, ext, other))
			}
			of[ext] = name
		}
	}
	return errors.Join(errs...)
}

func (s Server) check(name string) error {
	switch {
	case !serverName().MatchString(name):
		return errors.New("a name begins with a letter or digit, and is at most 32 letters, digits, _ and -")
	case s.Command == "":
		return errors.New("command is missing: the program that is the server")
	case !filepath.IsAbs(s.Command) && filepath.Base(s.Command) != s.Command:
		return fmt.Errorf("command: %q is relative; write a name that is in PATH, or the absolute path", s.Command)
	case len(s.Extensions) == 0:
		return errors.New("extensions is missing: without it the server is asked about no file")
	}
	for _, ext := range s.Extensions {
		if len(ext) < 2 || ext[0] != '.' || filepath.Ext("x"+ext) != ext {
			return fmt.Errorf("extensions: %q is not an extension such as .go", ext)
		}
	}
	for _, word := range append(slices.Clone(s.Args), s.Command, s.Language) {
		if strings.Contains(word, "\x00") {
			return errors.New("a word has a zero byte")
		}
	}
	for variable, value := range s.Env {
		if variable == "" || strings.ContainsAny(variable, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("env: %q cannot be the name of a variable, or its value has a zero byte", variable)
		}
	}
	return nil
}

// Trusts implements [part.Trusting]. It returns the programs.
func (c *Config) Trusts() map[string][]string {
	var files []string
	for _, s := range c.Servers {
		if filepath.IsAbs(s.Command) {
			files = append(files, s.Command)
		}
	}
	slices.Sort(files)
	return map[string][]string{"servers": slices.Compact(files)}
}

// server returns the server for a file. Without a file it returns the only server, if there is one.
func (c *Config) server(file string) (name string, s Server, ok bool) {
	for name, s := range c.Servers {
		if file == "" && len(c.Servers) == 1 || file != "" && slices.Contains(s.Extensions, filepath.Ext(file)) {
			return name, s, true
		}
	}
	return "", Server{}, false
}

// equal reports whether both configurations start the same program. A running server goes on if only its extensions
// change.
func (s Server) equal(o Server) bool {
	return s.Command == o.Command && s.Language == o.Language && slices.Equal(s.Args, o.Args) &&
		maps.Equal(s.Env, o.Env)
}

func (s Server) language(name string) string { return cmp.Or(s.Language, name) }

// environ returns the environment of the program, sorted.
func (s Server) environ() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		all = append(all, name+"="+s.Env[name])
	}
	return all
}

var _ part.Trusting = (*Config)(nil)
