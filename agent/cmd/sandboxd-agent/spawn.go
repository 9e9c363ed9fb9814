package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/agent/loop"
	"github.com/sandboxd/sandboxd/agent/terminal"
	"github.com/sandboxd/sandboxd/client"
)

// order is what the daemon wants of a sub-agent, whose session it has made (docs/agents.md).
// Fields that only the daemon needs are not read.
type order struct {
	Session  string `json:"session_id"`
	Socket   string `json:"socket"`
	Prompt   string `json:"prompt"`
	System   string `json:"system_prompt"`
	Model    string `json:"model"`
	MaxTurns int    `json:"max_turns"`
}

// maxOrder bounds what is read.
const maxOrder = 16 << 20

// readOrder reads an order, and nothing behind it. It has maxTurns where it says none.
func readOrder(r io.Reader, maxTurns int) (order, error) {
	o := order{MaxTurns: maxTurns}
	text, err := io.ReadAll(io.LimitReader(r, maxOrder+1))
	if err == nil && len(text) <= maxOrder { // else it is cut off, and no JSON
		err = json.Unmarshal(text, &o)
	}
	switch {
	case err != nil:
		return o, fmt.Errorf("the order is not one JSON object of its form: %w", err)
	case o.Session == "" || !filepath.IsAbs(o.Socket) || strings.TrimSpace(o.Prompt) == "":
		return o, errors.New("the order lacks a session_id, an absolute socket or a prompt")
	case o.MaxTurns < 1:
		return o, errors.New("max_turns is less than 1")
	}
	return o, nil
}

// spawn runs one sub-agent. What that may do is the daemon's affair: this program only knows its session.
func spawn(s settings) int {
	o, err := readOrder(os.Stdin, s.options.MaxTurns)
	if err != nil {
		complain(err, "the daemon writes it: see docs/agents.md")
		return exitUsage
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	interrupts(cancel)
	if o.Model != "" && o.Model != "inherit" {
		s.options.Model = o.Model
	}
	s.options.System = strings.TrimSpace(s.options.System + "\n\n" + o.System)
	s.options.MaxTurns, s.options.SubAgent = o.MaxTurns, true
	daemon := client.New(o.Socket)
	var session loop.Session // its own path is all that a sub-agent reaches
	if err := daemon.Do(ctx, http.MethodGet, "/sessions/"+url.PathEscape(o.Session), nil, &session); err != nil {
		return failed(err)
	}
	a, err := loop.New(daemon, session, s.options)
	if err != nil {
		return failed(err)
	}
	r := a.Prompt(ctx, o.Prompt, terminal.People(io.Discard, os.Stderr, func(error) {}))
	if r.Cancelled {
		return failed(errors.New("the sub-agent was cancelled"))
	}
	text := r.Text
	if r.Subtype != loop.Success {
		why := strings.Join(append([]string{"The sub-agent ended with " + r.Subtype}, r.Errors...), ": ")
		text = strings.TrimSpace(why + "\n\n" + r.Text)
	}
	return failed(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"text": text, "tool_calls": append([]string{}, r.Tools...), "is_error": r.Subtype != loop.Success,
	}))
}
