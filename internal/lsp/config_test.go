package lsp

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConfigCheck(t *testing.T) {
	good := Server{Command: "gopls", Extensions: []string{".go"}}
	with := func(change func(*Server)) map[string]Server {
		s := good
		change(&s)
		return map[string]Server{"go": s}
	}
	for _, tt := range []struct {
		name string
		c    Config
		says string // "": it is good
	}{
		{"defaults", *Defaults(), ""},
		{"a server", Config{Servers: with(func(*Server) {}), Timeout: time.Second, Idle: time.Second}, ""},
		{"an absolute command", Config{Servers: with(func(s *Server) { s.Command = "/opt/gopls" }), Timeout: time.Minute, Idle: time.Minute}, ""},
		{"a timeout for nothing", Config{Timeout: time.Second, Idle: Defaults().Idle}, "lsp.timeout does nothing without lsp.servers"},
		{"idle for nothing", Config{Timeout: Defaults().Timeout, Idle: time.Hour}, "lsp.idle does nothing without lsp.servers"},
		{"a day", Config{Servers: with(func(*Server) {}), Timeout: 24 * time.Hour, Idle: 24 * time.Hour}, ""},
		{
			"more than a day",
			Config{Servers: with(func(*Server) {}), Timeout: 24*time.Hour + 1, Idle: time.Minute},
			"lsp.timeout: 24h0m0.000000001s is not between 1s and 24h",
		},
		{"no time", Config{Servers: with(func(*Server) {}), Idle: time.Minute}, "lsp.timeout: 0s is not between"},
		{"a negative time", Config{Servers: with(func(*Server) {}), Timeout: time.Minute, Idle: -1}, "lsp.idle: -1ns is not between"},
		{"no command", Config{Servers: with(func(s *Server) { s.Command = "" })}, "command is missing"},
		{"a relative command", Config{Servers: with(func(s *Server) { s.Command = "./gopls" })}, "is relative"},
		{"no extensions", Config{Servers: with(func(s *Server) { s.Extensions = nil })}, "extensions is missing"},
		{"an extension without a dot", Config{Servers: with(func(s *Server) { s.Extensions = []string{"go"} })}, `"go" is not an extension`},
		{"two extensions in one", Config{Servers: with(func(s *Server) { s.Extensions = []string{".tar.gz"} })}, "is not an extension"},
		{"an extension with a directory", Config{Servers: with(func(s *Server) { s.Extensions = []string{".a/b"} })}, "is not an extension"},
		{"an extension twice", Config{Servers: map[string]Server{"a": good, "b": good}}, `servers.b: extensions: ".go" is of a already`},
		{"a zero byte", Config{Servers: with(func(s *Server) { s.Args = []string{"a\x00b"} })}, "zero byte"},
		{"a variable with =", Config{Servers: with(func(s *Server) { s.Env = map[string]string{"A=B": "c"} })}, "cannot be the name of a variable"},
		{"a name with a slash", Config{Servers: map[string]Server{"a/b": good}}, "a name begins with a letter or digit, and is at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.c.Check()
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

func TestConfigOfAFile(t *testing.T) {
	c := Config{Servers: map[string]Server{
		"go": {Command: "/opt/gopls", Extensions: []string{".go"}}, "py": {Command: "pyls", Extensions: []string{".py", ".pyi"}},
	}}
	for file, want := range map[string]string{"a.go": "go", "/x/b.pyi": "py", "a.c": "", "go": "", "": ""} {
		if got, _, ok := c.server(file); got != want || ok != (want != "") {
			t.Errorf("%q is of %q", file, got)
		}
	}
	delete(c.Servers, "py")
	if got, _, _ := c.server(""); got != "go" {
		t.Errorf("no file is of %q", got)
	}
	if got := c.Trusts()["servers"]; !slices.Equal(got, []string{"/opt/gopls"}) {
		t.Errorf("trusts %q", got)
	}
}
