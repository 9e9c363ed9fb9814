package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/paths"
)

// configFlags adds --config to every command.
func configFlags(root *cobra.Command) {
	var file string
	root.PersistentFlags().StringVar(&file, "config", "", "configuration file (default: $SANDBOXD_CONFIG, or none)")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if file == "" {
			return nil
		}
		return os.Setenv("SANDBOXD_CONFIG", file)
	}
}

// overrideFlags adds a flag for each key of config.Overrides to a command:
// sessions.maxMode is --sessions-max-mode.
func overrideFlags(c *cobra.Command) {
	for _, key := range config.Overrides {
		c.PersistentFlags().String(flagName(key), "", "sets "+key+", over "+config.Variable(key)+" and the file")
	}
}

// flagsOf are the keys that were given on the command line of c.
func flagsOf(c *cobra.Command) map[string]string {
	out := map[string]string{}
	for _, key := range config.Overrides {
		if f := c.Flag(flagName(key)); f != nil && f.Changed {
			out[key] = f.Value.String()
		}
	}
	return out
}

func flagName(key string) string {
	var b strings.Builder
	for _, r := range key {
		switch {
		case r == '.':
			b.WriteByte('-')
		case unicode.IsUpper(r):
			b.WriteByte('-')
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// flagError says what is wrong with a flag, without the names of Go's functions.
func flagError(err error) string {
	var value *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &value) || !errors.As(err, &number) {
		return err.Error()
	}
	what := "is not a number"
	switch {
	case errors.Is(number, strconv.ErrRange):
		what = "is out of range"
	case value.GetFlag().Value.Type() == "bool":
		what = "is neither true nor false"
	}
	return fmt.Sprintf("--%s: %q %s", value.GetFlag().Name, value.GetValue(), what)
}

// agentSocket and operatorSocket are where the daemon of this environment listens.
func agentSocket() string    { return paths.AgentSocket(os.Getenv) }
func operatorSocket() string { return paths.OperatorSocket(os.Getenv) }
