package servers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/internal/mcp/listen"
)

// Config is the section mcp of the configuration.
type Config struct {
	Listen        string            `yaml:"listen"`        // address:port of the loopback; "" is nowhere
	TokenFile     string            `yaml:"tokenFile"`     // file with the token of requests there
	FirstSight    string            `yaml:"firstSight"`    // what happens to the tools of a new server
	PathArguments string            `yaml:"pathArguments"` // whether paths and hosts in arguments are judged
	Servers       map[string]Server `yaml:"servers"`
}

// The values of firstSight.
const (
	FirstSightPin = "pin"
	FirstSightAsk = "ask"
)

// The values of pathArguments.
const (
	PathsCheck = "check"
	PathsPass  = "pass"
)

// Defaults returns the default values of the section.
func Defaults() *Config { return &Config{FirstSight: FirstSightPin, PathArguments: PathsCheck} }

// Check implements [part.Config].
func (c *Config) Check() error {
	var errs []error
	switch {
	case c.Listen == "" && c.TokenFile != "":
		errs = append(errs, errors.New("mcp.tokenFile does nothing without mcp.listen"))
	case c.Listen != "" && c.TokenFile == "":
		errs = append(errs, errors.New("mcp.listen needs mcp.tokenFile: a port does not say who calls"))
	case c.Listen != "":
		errs = append(errs, listen.Check(c.Listen))
	}
	if c.FirstSight != FirstSightPin && c.FirstSight != FirstSightAsk {
		errs = append(errs, fmt.Errorf("mcp.firstSight: %.50q is neither pin nor ask", c.FirstSight))
	}
	if c.PathArguments != PathsCheck && c.PathArguments != PathsPass {
		errs = append(errs, fmt.Errorf("mcp.pathArguments: %.50q is neither check nor pass", c.PathArguments))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[name]
		err := s.Check(name)
		if err == nil && s.Kind() == TypeStdio && !filepath.IsAbs(s.Command) && filepath.Base(s.Command) != s.Command {
			err = fmt.Errorf("command: %q is relative; write a name that is in PATH, or the absolute path", s.Command)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("mcp.servers.%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Trusts implements [part.Trusting]. It returns programs that get what agents do not get, files with secrets, and
// files of authorities.
func (c *Config) Trusts() map[string][]string {
	files := c.secrets()
	for _, s := range c.Servers {
		for _, file := range []string{s.Command, s.Sandbox.Network.CAFile} {
			if filepath.IsAbs(file) {
				files = append(files, file)
			}
		}
	}
	slices.Sort(files)
	trusts := map[string][]string{"servers": slices.Compact(files)}
	if c.TokenFile != "" {
		trusts["tokenFile"] = []string{c.TokenFile}
	}
	return trusts
}

// Programs implements [part.Running]. It returns the programs that print secrets for servers.
func (c *Config) Programs() map[string][]string {
	programs := map[string][]string{}
	for name, s := range c.Servers {
		for i, secret := range s.Sandbox.Network.Secrets {
			if len(secret.Command) > 0 && filepath.IsAbs(secret.Command[0]) { // else Check refuses it
				programs[fmt.Sprintf("servers.%s.sandbox.network.secrets.%d", name, i)] = secret.Command
			}
		}
	}
	return programs
}

// Hides implements [part.Hiding].
func (c *Config) Hides() []string {
	files := c.secrets()
	if c.TokenFile != "" {
		files = append(files, c.TokenFile)
	}
	return files
}

// secrets returns the files with secrets for servers.
func (c *Config) secrets() (files []string) {
	for _, s := range c.Servers {
		files = slices.AppendSeq(files, maps.Values(s.EnvFiles))
		files = slices.AppendSeq(files, maps.Values(s.HeaderFiles))
		for _, secret := range s.Sandbox.Network.Secrets {
			if secret.File != "" {
				files = append(files, secret.File)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// Limits are the limits of one server.
type Limits struct {
	MemoryBytes     int64 `json:"memoryBytes" yaml:"memoryBytes"`
	Processes       int   `json:"processes" yaml:"processes"`
	ConcurrentCalls int   `json:"concurrentCalls" yaml:"concurrentCalls"`
	CallsPerMinute  int   `json:"callsPerMinute" yaml:"callsPerMinute"`
	LineBytes       int   `json:"lineBytes" yaml:"lineBytes"`
}

// WithDefaults replaces zero values by the defaults.
func (l Limits) WithDefaults() Limits {
	return Limits{
		MemoryBytes: cmp.Or(l.MemoryBytes, 512<<20), Processes: cmp.Or(l.Processes, 64),
		ConcurrentCalls: cmp.Or(l.ConcurrentCalls, 8), CallsPerMinute: cmp.Or(l.CallsPerMinute, 120),
		LineBytes: cmp.Or(l.LineBytes, 16<<20-1),
	}
}

func (l Limits) check() error {
	for _, n := range []struct {
		key              string
		value, from, max int64
	}{
		{"memoryBytes", l.MemoryBytes, 16 << 20, 1 << 40},
		{"processes", int64(l.Processes), 1, 100_000},
		{"concurrentCalls", int64(l.ConcurrentCalls), 1, 1000},
		{"callsPerMinute", int64(l.CallsPerMinute), 1, 1_000_000},
		{"lineBytes", int64(l.LineBytes), 1 << 10, 16 << 20},
	} {
		if n.value != 0 && (n.value < n.from || n.value > n.max) {
			return fmt.Errorf("limits.%s: %d is not between %d and %d", n.key, n.value, n.from, n.max)
		}
	}
	return nil
}

// defaultCallTimeout bounds a call, unless the configuration says otherwise.
const defaultCallTimeout = time.Minute

// maxCallTimeout is the longest timeout that can be configured.
const maxCallTimeout = 24 * time.Hour

// Duration is a duration in text form, such as 60s.
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// secretFile reads a secret from a file that a configuration names.
func secretFile(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s can be read by others (mode %04o); chmod 600 it", path, info.Mode().Perm())
	case info.Size() > maxSecret:
		return "", fmt.Errorf("%s has more than %d bytes", path, maxSecret)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

const maxSecret = 8 << 10
