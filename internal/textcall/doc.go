// Package textcall lets a model that can only write text call tools: [CALL: name({"key": "value"})].
//
// The client sends each prompt through the route prompt, which puts in what can be called and how, and
// each reply of its model through the route reply, which finds the first tag ([Parse]), makes a
// [tool.Request] of it for the one request path, and answers with the message to append and whether to
// go on.
//
// Only text of the role assistant is read, so that a tag in a result or a question never runs.
// Parsing is linear. The calls of a session run one after the other; too many within a short time
// are blocked. What is registered beside the tools of a session (templates, HTTP requests) is
// judged, approved and recorded like a tool.
package textcall

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section text of the configuration.
type Config struct {
	BreakerCalls  int           `yaml:"breakerCalls"`  // that a session may make by text within the window
	BreakerWindow time.Duration `yaml:"breakerWindow"` // sliding
	MaxCalls      int           `yaml:"maxCallsPerMessage"`
}

// Check implements [part.Config].
func (c *Config) Check() error {
	var errs []error
	if c.BreakerCalls < 1 || c.BreakerCalls > 10_000 {
		errs = append(errs, fmt.Errorf("text.breakerCalls: %d is not between 1 and 10000", c.BreakerCalls))
	}
	if c.BreakerWindow < time.Second || c.BreakerWindow > 24*time.Hour {
		errs = append(errs, fmt.Errorf("text.breakerWindow: %s is not between 1s and 24h", c.BreakerWindow))
	}
	if c.MaxCalls < 1 || c.MaxCalls > 32 {
		errs = append(errs, fmt.Errorf("text.maxCallsPerMessage: %d is not between 1 and 32", c.MaxCalls))
	}
	return errors.Join(errs...)
}
