// Package textcall lets a model that can only write text call tools. It is a part of the daemon:
//
//	p, err := textcall.Definition().Open(ctx, host) // host.Config is a *textcall.Config
//	p.Routes // below /sessions/{id}/text and /sessions/{id}/callables
//	calls, further := textcall.Parse(text, 1) // without a daemon: the calls in a text
//
// A call is a tag in the text of the model: [CALL: name({"key": "value"})].
//
//  1. The client sends each prompt through the route text/prompt. That adds what can be called, and
//     the form of a tag.
//  2. The client sends each reply of its model to the route text/reply. That finds the tags
//     ([Parse]), makes a [tool.Request] of each, and sends it down the request path. By default
//     only the first tag counts ([Config].MaxCalls).
//  3. The client appends the message of the answer, and asks its model again if continue is true.
//
// The model writes the text. The client names its role: text/reply looks only at text of the role
// assistant, so a tag in the result of a tool or in a question does not run. The route text/parse
// and [Parse] run nothing. The time of Parse is linear in the text: beyond a bound of work it finds
// no further tags.
//
// The calls of a session run one after the other. Too many within a time window are blocked, and
// those that are blocked count too. They do not reach the request path. The block ends when the
// window has passed, or when an operator uses text/reset.
//
// Clients may register callables: templates, HTTP requests, other names for tools, and names that
// only answer an error. One with the name of a tool takes its place in text, and hides the tool
// while it is not enabled. Calls of callables that are enabled are judged, approved and recorded
// like those of tools.
//
// A call that fails or is refused is no error of the route: the message says it to the model. If the
// daemon itself fails, text/reply answers an error; calls of that reply before it have run.
//
// A new type of callable is a constant in callable.go, where it is also checked, and a case in
// performer.go: what it uses, and what it does. What [Parse] reads as a tag is tested case by case in
// parse_test.go. The texts for the model are in testdata/prompt.txt, which make generate writes.
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
