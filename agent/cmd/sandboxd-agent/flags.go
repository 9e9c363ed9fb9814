package main

import (
	"cmp"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/agent/host"
	"github.com/sandboxd/sandboxd/agent/loop"
	"github.com/sandboxd/sandboxd/agent/provider"
)

//go:embed usage.txt
var usage string

// settings are what a command line says.
type settings struct {
	command string // "", models, spawn, version or help
	prompt  string
	json    bool
	input   string // "-": prompts are lines of stdin
	choice  host.Choice
	options loop.Options
	server  provider.Server
}

func parse(args []string, env func(string) string) (s settings, err error) {
	if len(args) > 0 && (args[0] == "models" || args[0] == "spawn") {
		s.command, args = args[0], args[1:]
	}
	words, err := s.read(args)
	s.prompt = strings.TrimSpace(strings.Join(words, " "))
	switch {
	case err != nil || s.command == "help" || s.command == "version":
		return s, err
	case s.command != "" && s.prompt != "":
		return s, fmt.Errorf("%s takes no %q", s.command, s.prompt)
	case s.input != "" && (s.input != "-" || s.prompt != ""):
		return s, errors.New("--input is -, and without a prompt")
	case s.command == "models":
		return s, nil
	}
	if s.choice.Dir, err = syscall.Getwd(); err != nil {
		return s, fmt.Errorf("the working directory: %w", err)
	}
	if err := s.check(); err != nil {
		return s, err
	}
	return s, s.ask(env)
}

// read takes flags before and behind the words of a prompt. Behind -- there are only words.
func (s *settings) read(args []string) (words []string, err error) {
	o, c := &s.options, &s.choice
	fs := flag.NewFlagSet("sandboxd-agent", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&s.server.Provider, "provider", "anthropic", "")
	fs.StringVar(&s.server.BaseURL, "base-url", "", "")
	fs.StringVar(&o.Model, "model", "", "")
	fs.StringVar(&o.Asker.Fallback, "fallback-model", "", "")
	fs.StringVar(&o.System, "system", "", "")
	fs.IntVar(&o.MaxTokens, "max-tokens", 16384, "")
	fs.IntVar(&o.MaxTurns, "max-turns", 50, "")
	fs.IntVar(&o.Window, "context-window", 200_000, "")
	fs.Func("max-budget-usd", "", func(text string) error {
		usd, err := strconv.ParseFloat(text, 64)
		if o.Budget = &usd; err != nil || !(usd >= 0) || math.IsInf(usd, 0) {
			return errors.New("not a number of USD, 0 or more")
		}
		return nil
	})
	think := func(t provider.Thinking, err error) error {
		if o.Thinking.Type != "" {
			return errors.New("--thinking and --effort cannot be given together")
		}
		o.Thinking = t
		return err
	}
	fs.Func("effort", "", func(name string) error { return think(provider.Effort(name)) })
	fs.Func("thinking", "", func(how string) error {
		n, err := strconv.Atoi(how)
		switch {
		case err == nil:
			return think(provider.MaxThinking(&n))
		case how == "adaptive" || how == "disabled":
			return think(provider.Thinking{Type: how}, nil)
		}
		return errors.New("not adaptive, disabled or a number of tokens")
	})
	fs.Func("price", "", func(price string) error {
		o.Prices = append(o.Prices, price)
		_, err := provider.NewSpending(o.Prices)
		return err
	})
	fs.Func("retry-base-ms", "", milliseconds(&o.Asker.Base, 2*time.Second))
	fs.Func("retry-max-ms", "", milliseconds(&o.Asker.Max, 30*time.Second))
	fs.StringVar(&c.Resume, "resume", "", "")
	fs.BoolVar(&c.Continue, "continue", false, "")
	fs.BoolVar(&c.Fork, "fork-session", false, "")
	fs.StringVar(&c.ResumeAt, "resume-at", "", "")
	fs.StringVar(&c.Mode, "mode", "", "")
	fs.BoolVar(&s.json, "json", false, "")
	fs.StringVar(&s.input, "input", "", "")
	fs.BoolVar(&o.Condense, "condense", false, "")
	fs.BoolVar(&o.Review, "review", false, "")
	for _, command := range []string{"version", "help"} {
		fs.BoolFunc(command, "", func(string) error {
			s.command = command
			return nil
		})
	}
	for len(args) > 0 {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		if taken := len(args) - len(rest); taken > 0 && args[taken-1] == "--" || len(rest) == 0 {
			return append(words, rest...), nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
	return words, nil
}

func milliseconds(d *time.Duration, unless time.Duration) func(string) error {
	*d = unless
	return func(text string) error {
		n, err := strconv.ParseUint(text, 10, 31)
		*d = time.Duration(n) * time.Millisecond
		return err
	}
}

// check refuses what has no meaning.
func (s *settings) check() error {
	o, c := s.options, s.choice
	going := c.Resume != "" || c.Continue
	openAI := s.server.Provider == "openai"
	switch {
	case c.Resume != "" && c.Continue:
		return errors.New("--resume and --continue cannot be given together")
	case (c.Fork || c.ResumeAt != "") && !going:
		return errors.New("--fork-session and --resume-at need --resume or --continue")
	case c.Mode != "" && going:
		return errors.New("--mode is for new sessions; an operator changes that of others")
	case s.command == "spawn" && (going || c.Mode != "" || s.json || s.input != ""):
		return errors.New("spawn works in the session that the daemon made, and answers the daemon")
	case o.MaxTokens < 1 || o.MaxTurns < 1 || o.Asker.Max < o.Asker.Base:
		return errors.New("--max-tokens and --max-turns are 1 or more, and --retry-max-ms is --retry-base-ms or more")
	case o.Window <= 10_000:
		return errors.New("--context-window must be more than the 10000 tokens that are kept free")
	case openAI && o.Thinking.Type != "" && (o.Thinking.Effort == "" || o.Thinking.Effort == "max"):
		return errors.New("the provider openai knows --effort low, medium and high, and no --thinking")
	}
	return nil
}

// ask makes the client of the model server. A variable of the environment wins over a default.
func (s *settings) ask(env func(string) string) (err error) {
	o, variable := &s.options, "ANTHROPIC_API_KEY"
	if s.server.Provider == "openai" {
		variable = "OPENAI_API_KEY"
	}
	s.server.Key = strings.TrimSpace(cmp.Or(env("CODEANY_API_KEY"), env(variable)))
	if s.server.Key == "" {
		return fmt.Errorf("no key for the model server: set %s (to anything, where the server wants none)", variable)
	}
	o.Model = cmp.Or(strings.TrimSpace(o.Model), strings.TrimSpace(env("CODEANY_MODEL")), provider.DefaultModel)
	s.server.BaseURL = cmp.Or(s.server.BaseURL, env("CODEANY_BASE_URL"))
	o.Budgets = s.server.Provider == "anthropic"
	o.Asker.Client, err = provider.New(s.server)
	return err
}
