package servers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// The kinds of servers (M-01).
const (
	TypeStdio         = "stdio"
	TypeSSE           = "sse"
	TypeHTTP          = "http"
	TypeSDK           = "sdk"
	TypeClaudeAIProxy = "claudeAIProxy"
)

var types = []string{TypeStdio, TypeSSE, TypeHTTP, TypeSDK, TypeClaudeAIProxy}

// Server is the configuration of one server.
type Server struct {
	Type string `json:"type,omitempty" yaml:"type"` // "" is stdio

	Command  string            `json:"command,omitempty" yaml:"command"`
	Args     []string          `json:"args,omitempty" yaml:"args"`
	Env      map[string]string `json:"env,omitempty" yaml:"env"`
	EnvFiles map[string]string `json:"envFiles,omitempty" yaml:"envFiles"` // files with the values, by variable

	URL         string            `json:"url,omitempty" yaml:"url"`
	Headers     map[string]string `json:"headers,omitempty" yaml:"headers"`
	HeaderFiles map[string]string `json:"headerFiles,omitempty" yaml:"headerFiles"` // files, by header
	ID          string            `json:"id,omitempty" yaml:"id"`                   // for claudeAIProxy

	Tools       Lists    `json:"tools,omitzero" yaml:"tools"`
	CallTimeout Duration `json:"callTimeout,omitzero" yaml:"callTimeout"`
	Sandbox     Sandbox  `json:"sandbox,omitzero" yaml:"sandbox"`
	Limits      Limits   `json:"limits,omitzero" yaml:"limits"`

	// SDK is a server in this process.
	SDK *InProcess `json:"-" yaml:"-"`
}

// InProcess is a server whose tools are called directly (M-23).
type InProcess struct {
	Name, Version string
	Tools         []tool.Tool
}

// check returns an error for tools with equal names. That is a mistake in the code that made them (M-26).
func (p *InProcess) check(server string) error {
	if p == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, t := range p.Tools {
		name := t.Spec().Name
		if err := vet.CheckTool(server, name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("server %s %s has two tools of the name %q", p.Name, p.Version, name)
		}
		seen[name] = true
	}
	return nil
}

// Lists selects tools of a server. An empty Allow allows all.
type Lists struct {
	Allow []string `json:"allow,omitempty" yaml:"allow"`
	Deny  []string `json:"deny,omitempty" yaml:"deny"`
}

// Has reports whether the lists allow a tool.
func (l Lists) Has(name string) bool {
	return (len(l.Allow) == 0 || slices.Contains(l.Allow, name)) && !slices.Contains(l.Deny, name)
}

// Sandbox says what a server of type stdio may access. Its read paths and denied paths are added to the session's
// lists. A remote server may access the host of its URL; of the network it has caFile, upstreamProxy and deniedDomains.
type Sandbox struct {
	AllowedReadPaths  []string      `json:"allowedReadPaths,omitempty" yaml:"allowedReadPaths"`
	AllowedWritePaths []string      `json:"allowedWritePaths,omitempty" yaml:"allowedWritePaths"`
	DeniedPaths       []string      `json:"deniedPaths,omitempty" yaml:"deniedPaths"`
	Network           guard.Network `json:"network,omitzero" yaml:"network"`
}

// Kind returns the type, stdio by default.
func (s Server) Kind() string { return cmp.Or(s.Type, TypeStdio) }

// Timeout returns how long a call may take.
func (s Server) Timeout() time.Duration {
	return cmp.Or(time.Duration(s.CallTimeout), defaultCallTimeout)
}

// Remote reports whether the server is reached by a URL.
func (s Server) Remote() bool {
	return s.Kind() == TypeSSE || s.Kind() == TypeHTTP || s.Kind() == TypeClaudeAIProxy
}

// Check returns an error if the server cannot be served, or has a key without effect for its type.
func (s Server) Check(name string) error {
	if err := vet.CheckServer(name); err != nil {
		return err
	}
	if !slices.Contains(types, s.Kind()) {
		return fmt.Errorf("unknown type %.50q: want one of %s", s.Type, strings.Join(types, ", "))
	}
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if idle := s.idle(); len(idle) > 0 {
		add("%s does nothing for a server of type %s", strings.Join(idle, ", "), s.Kind())
	}
	switch {
	case s.Kind() == TypeStdio && s.Command == "":
		add("command is missing: the program that is the server")
	case s.Kind() == TypeSDK && s.SDK == nil:
		add("type sdk is a server in this process, which only Go code can give")
	case s.Kind() == TypeClaudeAIProxy && s.ID == "":
		add("id is missing: the server behind the proxy")
	case s.Remote():
		if _, err := s.Endpoint(); err != nil {
			add("url: %w", err)
		}
	}
	errs = append(errs, s.SDK.check(name), s.checkEnv(), s.checkHeaders(), s.Limits.check())
	if t := time.Duration(s.CallTimeout); t < 0 || t > maxCallTimeout {
		add("callTimeout: %s is not between 0 and %s", t, maxCallTimeout)
	}
	if n := s.Sandbox.Network; n.Unlisted == guard.UnlistedAsk {
		add("sandbox.network.unlisted: a server lives longer than a call, so nobody is asked about its connections; " +
			"list its hosts in sandbox.network.allowedDomains")
	}
	g := guard.Settings{
		AllowedReadPaths: s.Sandbox.AllowedReadPaths, AllowedWritePaths: s.Sandbox.AllowedWritePaths,
		DeniedPaths: s.Sandbox.DeniedPaths, Network: s.Sandbox.Network,
	}
	if _, _, err := g.Normalise(); err != nil {
		add("sandbox.%w", err)
	} else if err := g.CheckCage(); err != nil {
		add("sandbox.%w", err)
	}
	return errors.Join(errs...)
}

// idle returns the keys that are set but have no effect for this type.
func (s Server) idle() []string {
	stdio, n := s.Kind() == TypeStdio, s.Sandbox.Network
	var names []string
	for _, k := range []struct {
		key  string
		set  bool
		kept bool // this type reads it
	}{
		{"command", s.Command != "", stdio},
		{"args", len(s.Args) > 0, stdio},
		{"env", len(s.Env) > 0, stdio},
		{"envFiles", len(s.EnvFiles) > 0, stdio},
		{"url", s.URL != "", s.Remote()},
		{"headers", len(s.Headers) > 0, s.Remote()},
		{"headerFiles", len(s.HeaderFiles) > 0, s.Remote()},
		{"id", s.ID != "", s.Kind() == TypeClaudeAIProxy},
		{"sandbox paths", len(s.Sandbox.AllowedReadPaths)+len(s.Sandbox.AllowedWritePaths)+
			len(s.Sandbox.DeniedPaths) > 0, stdio},
		{"sandbox.network.allowedDomains", len(n.AllowedDomains) > 0, stdio},
		{"sandbox.network.hosts", len(n.Hosts) > 0, stdio},
		{"sandbox.network.intercept", len(n.Intercept) > 0, stdio},
		{"sandbox.network.secrets", len(n.Secrets) > 0, stdio},
		{"sandbox.network.allowLocalBinding", n.AllowLocalBinding, stdio},
		{"sandbox.network.search", n.Search != nil, false},
		{"sandbox.network.deniedDomains", len(n.DeniedDomains) > 0, stdio || s.Remote()},
		{"sandbox.network.caFile", n.CAFile != "", stdio || s.Remote()},
		{"sandbox.network.upstreamProxy", n.UpstreamProxy != "", stdio || s.Remote()},
		{"limits.memoryBytes", s.Limits.MemoryBytes > 0, stdio},
		{"limits.processes", s.Limits.Processes > 0, stdio},
	} {
		if k.set && !k.kept {
			names = append(names, k.key)
		}
	}
	return names
}

func (s Server) checkEnv() error {
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("env: %q cannot be the name of a variable, or its value has a zero byte", name)
		}
		if _, twice := s.EnvFiles[name]; twice {
			return fmt.Errorf("env and envFiles both have %q", name)
		}
	}
	for name, path := range s.EnvFiles {
		if name == "" || strings.ContainsAny(name, "=\x00") || !filepath.IsAbs(path) {
			return fmt.Errorf("envFiles: want the name of a variable and an absolute path, not %q: %q", name, path)
		}
	}
	return nil
}

func (s Server) checkHeaders() error {
	given := map[string]bool{} // in one spelling: two spellings are one header, and either value could be sent
	for name, value := range s.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("headers: %q cannot be sent", name)
		}
		if given[http.CanonicalHeaderKey(name)] {
			return fmt.Errorf("headers: %q is given twice, in other letters", name)
		}
		given[http.CanonicalHeaderKey(name)] = true
	}
	files := map[string]bool{}
	for name, path := range s.HeaderFiles {
		if !httpguts.ValidHeaderFieldName(name) || !filepath.IsAbs(path) {
			return fmt.Errorf("headerFiles: want the name of a header and an absolute path, not %q: %q", name, path)
		}
		switch canonical := http.CanonicalHeaderKey(name); {
		case given[canonical]:
			return fmt.Errorf("headers and headerFiles both have %q", name)
		case files[canonical]:
			return fmt.Errorf("headerFiles: %q is given twice, in other letters", name)
		default:
			files[canonical] = true
		}
	}
	return nil
}

// Endpoint returns the address of a remote server (M-07).
func (s Server) Endpoint() (*url.URL, error) {
	if s.URL == "" {
		return nil, errors.New("it is missing")
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return nil, errors.New("it is no address")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%.40q is neither http nor https", u.Scheme)
	case u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, errors.New("want http://host/path or https://host/path, without a user; " +
			"credentials belong in headers or headerFiles")
	}
	return u, nil
}

// Environ returns the environment of the program, with secrets read from files (M-05).
func (s Server) Environ() ([]string, error) {
	values, err := withFiles(s.Env, s.EnvFiles)
	if err != nil {
		return nil, fmt.Errorf("envFiles: %w", err)
	}
	out := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, name+"="+values[name])
	}
	return out, nil
}

// Header returns the headers of each request (M-08, M-09).
func (s Server) Header() (http.Header, error) {
	values, err := withFiles(s.Headers, s.HeaderFiles)
	if err != nil {
		return nil, fmt.Errorf("headerFiles: %w", err)
	}
	h := http.Header{}
	for name, value := range values {
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("headerFiles: the value of %s has control characters", name)
		}
		h.Set(name, value)
	}
	if s.Kind() == TypeClaudeAIProxy {
		h.Set("X-ClaudeAI-Server-ID", s.ID)
	}
	return h, nil
}

func withFiles(given, files map[string]string) (map[string]string, error) {
	all := maps.Clone(given)
	if all == nil {
		all = map[string]string{}
	}
	for name, path := range files {
		value, err := secretFile(path)
		if err != nil {
			return nil, err
		}
		all[name] = strings.TrimRight(value, "\r\n")
	}
	return all, nil
}

// Equal reports whether two configurations are equal (M-18).
func (s Server) Equal(o Server) bool {
	if s.SDK != o.SDK {
		return false
	}
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && string(a) == string(b)
}

// Parse decodes the configurations that an operator sends, each by itself. Invalid ones are in errs, by name. A
// relative command is accepted, because an operator may name a program in a directory. The files that they name are
// neither hidden from calls nor checked, as those of a [Config] are.
func Parse(raw map[string]json.RawMessage) (good map[string]Server, errs map[string]error) {
	good, errs = map[string]Server{}, map[string]error{}
	for name, text := range raw {
		var s Server
		err := strictjson.CheckFolded(text)
		if err == nil {
			err = strictjson.Decode(text, &s)
		}
		if err == nil {
			err = s.Check(name)
		}
		if err != nil {
			errs[name] = err
			continue
		}
		good[name] = s
	}
	return good, errs
}
