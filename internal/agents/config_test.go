package agents

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestN07_WhatIsWrongInTheConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		says   string
	}{
		{"nothing", func(*Config) {}, ""},
		{"no time", func(c *Config) { c.Spawner.Timeout = 0 }, "agents.spawner.timeout"},
		{"variables for nobody", func(c *Config) { c.Spawner.PassEnv = []string{"A"} }, "no spawner.command"},
		{"a variable that is none", func(c *Config) {
			c.Spawner.Command, c.Spawner.PassEnv = []string{"/x"}, []string{"A=b"}
		}, `"A=b"`},
		{"a variable of the daemon's own", func(c *Config) {
			c.Spawner.Command, c.Spawner.PassEnv = []string{"/x"}, []string{"SANDBOXD_OPERATOR_SOCKET"}
		}, "cannot be passed on"},
		{"a built-in type", func(c *Config) { c.Types = map[string]Type{"Explore": {}} }, "built in"},
		{"a name that is none", func(c *Config) { c.Types = map[string]Type{"a b": {}} }, "no name of a type"},
		{"a name like an option", func(c *Config) { c.Types = map[string]Type{"-a": {}} }, "no name of a type"},
		{"turns below 0", func(c *Config) { c.Types = map[string]Type{"a": {MaxTurns: -1}} }, "agents.types.a.maxTurns"},
		{"a tool with arguments", func(c *Config) { c.Types = map[string]Type{"a": {Tools: []string{"Bash(ls)"}}} }, "Bash(ls)"},
	} {
		c := defaults()
		tt.change(c)
		err := c.Check()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.says)
		}
	}
}

func TestN07_Types(t *testing.T) {
	c := defaults()
	c.Types = map[string]Type{"Mine": {MaxTurns: 3}}
	if c.Spawner.Timeout != time.Hour {
		t.Errorf("an agent may work %v", c.Spawner.Timeout)
	}
	for name, want := range map[string]int{"Explore": 10, "Plan": 10, "Mine": 3, "": 10} {
		got, x, ok := c.find(name)
		if !ok || cmp.Or(x.MaxTurns, maxTurns) != want || name != "" && got != name {
			t.Errorf("%q is %q, %+v, %v", name, got, x, ok)
		}
	}
	for _, name := range []string{"explore", "Nobody"} {
		if _, _, ok := c.find(name); ok {
			t.Errorf("there is a type %q", name)
		}
	}
	if got := strings.Join(c.names(), " "); got != "Explore Mine Plan general-purpose" {
		t.Errorf("types are %s", got)
	}
}

func FuzzReadAnswer(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"text":"a"}`, `{"text":"a"}{}`, `{"text":null}`, `{"text":"a","tool_calls":["b"]} x`, `[1]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := read([]byte(s)); err == nil && a.Text == nil {
			t.Errorf("%q has no text", s)
		}
	})
}

// TestWhatAnAgentHasIsNotGivenAgain: an argument that would have no effect is an error.
func TestWhatAnAgentHasIsNotGivenAgain(t *testing.T) {
	for name, value := range map[string]string{
		"subagent_type": `"Explore"`, "name": `"a"`, "isolation": `"worktree"`, "mode": `"plan"`,
	} {
		given := `{"prompt":"p","description":"d","` + name + `":` + value
		if _, err := decode(tool.In{Args: json.RawMessage(given + "}")}); err != nil {
			t.Errorf("a new agent: %v", err)
		}
		_, err := decode(tool.In{Args: json.RawMessage(given + `,"resume":"agent_1"}`)})
		if err == nil || !strings.Contains(err.Error(), name+" and resume exclude each other") {
			t.Errorf("%s with resume: %v", name, err)
		}
	}
}

// Where the program that runs agents lies is looked at as for every program of the daemon.
func TestTheSpawnerIsAProgramOfTheDaemon(t *testing.T) {
	c := defaults()
	if got := c.Programs(); len(got) != 0 {
		t.Errorf("without a command: %v", got)
	}
	c.Spawner.Command = []string{"/opt/agent", "--once"}
	if got := c.Programs()["spawner.command"]; !slices.Equal(got, c.Spawner.Command) {
		t.Errorf("got %v", got)
	}
}
