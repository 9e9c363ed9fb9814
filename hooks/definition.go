package hooks

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

const defaultTimeout = 30 * time.Second

// Definition is one hook: exactly one of Command, URL and Handler is set.
type Definition struct {
	Name    string  `json:"name,omitempty" yaml:"name"`       // "" is made from the event and the place
	Command string  `json:"command,omitempty" yaml:"command"` // run as /bin/bash -c Command
	Sandbox bool    `json:"sandbox,omitempty" yaml:"sandbox"` // the command runs in the sandbox, as tools do
	URL     string  `json:"url,omitempty" yaml:"url"`         // gets the input by POST
	Handler Handler `json:"-" yaml:"-"`
	// Matcher is a regular expression on the tool name, not anchored; "" or "*" is all.
	Matcher   string `json:"matcher,omitempty" yaml:"matcher"`
	TimeoutMS int    `json:"timeout,omitempty" yaml:"timeout"` // milliseconds; 0 is 30,000
	// OnError is, if it is "", block where the event can block, else continue.
	OnError FailureAction `json:"onError,omitempty" yaml:"onError"`
}

// Handler is a hook in this process. A nil output says nothing. It must return
// when the context ends: at the time-out it is left behind and counts as failed.
type Handler func(context.Context, Input) (*Output, error)

// FailureAction says what a hook that fails means.
type FailureAction string

// The failure actions.
const (
	FailBlock    FailureAction = "block"
	FailAsk      FailureAction = "ask"
	FailContinue FailureAction = "continue"
)

func (d Definition) kind() string {
	switch {
	case d.Handler != nil:
		return "function"
	case d.URL != "":
		return "http"
	}
	return "command"
}

func (d Definition) timeout() time.Duration {
	if d.TimeoutMS == 0 {
		return defaultTimeout
	}
	return time.Duration(d.TimeoutMS) * time.Millisecond
}

// compile checks a definition.
func compile(event Event, d Definition, place int, writable []string) (hook, error) {
	if err := d.oneKind(); err != nil {
		return hook{}, err
	}
	if d.Name == "" {
		d.Name = fmt.Sprintf("%s#%d", event, place+1)
	}
	if d.TimeoutMS < 0 {
		return hook{}, fmt.Errorf("timeout %d is negative", d.TimeoutMS)
	}
	switch d.OnError {
	case "":
		d.OnError = FailContinue
		if event.canBlock() {
			d.OnError = FailBlock
		}
	case FailContinue:
	case FailBlock, FailAsk:
		if why := event.ignores(d.OnError); why != "" {
			return hook{}, fmt.Errorf("onError: %s would do nothing for %s: %s; want continue", d.OnError, event, why)
		}
	default:
		return hook{}, fmt.Errorf("unknown onError %q, want block, ask or continue", d.OnError)
	}
	if err := checkProgram(d.Command, writable); err != nil {
		return hook{}, err
	}
	if err := checkURL(d.URL); err != nil {
		return hook{}, err
	}
	match, err := matcher(d.Matcher)
	if err != nil {
		return hook{}, err
	}
	if event.toolless() && !match("") {
		return hook{}, fmt.Errorf("matcher %q: %s is about no tool, so the hook would never run; leave the matcher out",
			d.Matcher, event)
	}
	return hook{Definition: d, event: event, match: match}, nil
}

func (d Definition) oneKind() error {
	n := 0
	for _, set := range []bool{strings.TrimSpace(d.Command) != "", d.URL != "", d.Handler != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		return errors.New("want exactly one of command, url and handler")
	}
	if d.Sandbox && d.kind() != "command" {
		return errors.New("sandbox is for commands")
	}
	return nil
}

// matcher turns the text into a test of tool names. An event without a tool
// matches only hooks without a matcher (H-15).
func matcher(text string) (func(string) bool, error) {
	if text == "" || text == "*" {
		return func(string) bool { return true }, nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("matcher %q: %w", text, err)
	}
	return func(name string) bool { return name != "" && re.MatchString(name) }, nil
}

// checkProgram refuses a first word that the workspace could provide. It sees
// the plain case only; the operator answers for what a command does.
func checkProgram(command string, writable []string) error {
	words := strings.Fields(command)
	if len(words) == 0 {
		return nil
	}
	program := strings.Trim(words[0], `"'`)
	if !strings.Contains(program, "/") {
		return nil
	}
	if !filepath.IsAbs(program) {
		return fmt.Errorf("command %q: %q is relative, and hooks run in /", command, program)
	}
	if dir, ok := guard.Reach(program, writable); ok {
		return fmt.Errorf("command %q: %q lies in %q, which agents can write, or a link leads through it",
			command, program, dir)
	}
	return nil
}

func checkURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("url %q: want http:// or https:// and a host", u.Redacted())
	}
	host := u.Hostname()
	if u.Scheme == "http" && host != "localhost" && host != "127.0.0.1" && host != "::1" {
		return fmt.Errorf("url %q: plain http only on this machine, anybody could answer", u.Redacted())
	}
	return nil
}
