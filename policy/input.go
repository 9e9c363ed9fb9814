package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

// InputVersion is raised when a field of [Input] changes its meaning.
const InputVersion = 1

// Input is the document that rules see, and all that they see; its schema is
// rego/schemas/input.json. Time and random numbers are not in it, so that a
// decision can be repeated.
type Input struct {
	Version  int             `json:"version"`
	Tool     ToolFacts       `json:"tool"`
	Mode     string          `json:"mode"`
	Session  SessionFacts    `json:"session"`
	Params   json.RawMessage `json:"params"` // the arguments, after references
	Paths    []PathFacts     `json:"paths"`
	Hosts    []HostFacts     `json:"hosts"`
	Commands []CommandFacts  `json:"commands"`
	Opaque   []OpaqueFacts   `json:"opaque"`
	Origins  tool.Origins    `json:"origins"`
	Settings SettingsFacts   `json:"settings"`

	Starts    []string      `json:"starts"`     // the prefixes of all commands
	Authors   []tool.Origin `json:"authors"`    // of any argument, each once
	RuleKinds []string      `json:"rule_kinds"` // set by the engine: kinds of permission rules that can hold

	at map[string]shellparse.Pos // by id of a command, path or opaque part
}

// ToolFacts describe the tool that is called.
type ToolFacts struct {
	Name        string `json:"name"`
	Class       string `json:"class"`
	ReadOnly    bool   `json:"read_only"`
	Destructive bool   `json:"destructive"`
	OpenWorld   bool   `json:"open_world"`
	Server      string `json:"server"` // of mcp__server__tool; "" for all others
}

// SessionFacts describe the session.
type SessionFacts struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Dir     string `json:"dir"`
	Home    string `json:"home"`
	Profile string `json:"profile"`
}

// PathFacts describe one path that the call touches.
type PathFacts struct {
	ID          string   `json:"id"`
	Raw         string   `json:"raw"`
	Path        string   `json:"path"` // physical; "" when it cannot be known
	Op          string   `json:"op"`
	Recursive   bool     `json:"recursive"`
	Base        string   `json:"base"`
	Segments    []string `json:"segments"`
	Ancestors   []string `json:"ancestors"`  // the path itself and every directory above it
	Forms       []string `json:"forms"`      // the path as /abs and, where it lies there, as ~/x and ./x
	Under       []string `json:"under"`      // each form and every directory above it
	Spelled     []string `json:"spelled"`    // as Forms, of the path as it was written, where links lead elsewhere
	SpelledIn   []string `json:"spelled_in"` // as Under, of the same
	InWorkspace bool     `json:"in_workspace"`
}

// HostFacts describe one host that the call reaches.
type HostFacts struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Suffixes []string `json:"suffixes"` // the name and every domain above it
	Private  bool     `json:"private"`  // a private, loopback or link-local address, or localhost
}

// CommandFacts describe one program start.
type CommandFacts struct {
	ID       string      `json:"id"`
	Name     string      `json:"name"` // "" when unknown
	Path     string      `json:"path"`
	Known    bool        `json:"known"` // the name and every word
	Argv     []string    `json:"argv"`
	Prefixes []string    `json:"prefixes"` // "git", "git push", "git push origin": name and plain words, without global options
	Flags    []string    `json:"flags"`    // "-f" of -fu, "--force" of --force=x
	Operands []string    `json:"operands"` // words that are not flags, without those in Prefixes[1]
	Via      []string    `json:"via"`
	Env      []string    `json:"env"` // names that are set in front
	Dir      string      `json:"dir"`
	Files    []FileFacts `json:"files"`
	Hosts    []string    `json:"hosts"`
	Text     string      `json:"text"`      // the words as resolved, with single spaces
	Literal  []string    `json:"literal"`   // the first word, the first two, … up to 16, flags included
	Plain    bool        `json:"plain"`     // nothing is unknown or hidden: no wrapper, no odd path, no environment that changes what runs
	PipedNet bool        `json:"piped_net"` // its input or words come from a program that reads the network
}

// FileFacts describe one file that a command names.
type FileFacts struct {
	Path      string   `json:"path"`
	Known     bool     `json:"known"`
	Op        string   `json:"op"`
	Recursive bool     `json:"recursive"`
	Base      string   `json:"base"`
	Ancestors []string `json:"ancestors"`
}

// OpaqueFacts describe code that cannot be read.
type OpaqueFacts struct {
	ID      string `json:"id"`
	Code    string `json:"code"`
	Command string `json:"command"`
}

// SettingsFacts are the parts of the floor that rules need.
type SettingsFacts struct {
	AllowNestedSandbox bool     `json:"allow_nested_sandbox"`
	WorkspaceRoots     []string `json:"workspace_roots"`
}

// NewInput builds the document for one call. It fails only on arguments that
// are not a JSON object.
func NewInput(c *tool.Call) (*Input, error) {
	args := bytes.TrimSpace(c.In.Args)
	if len(args) == 0 {
		args = []byte("{}")
	}
	if !json.Valid(args) || args[0] != '{' {
		return nil, fmt.Errorf("arguments of %s are not one JSON object", c.Spec.Name)
	}
	in := &Input{
		Version: InputVersion,
		Tool:    toolFacts(c.Spec),
		Mode:    c.Session.Mode,
		Session: SessionFacts{
			ID: c.Session.ID, Account: c.Session.Account, Dir: c.Session.Dir,
			Home: c.Session.Home, Profile: c.Session.Profile,
		},
		Params: args,
		Origins: tool.Origins{
			Args: maps.Clone(c.Facts.Origins.Args), Session: slices.Clone(c.Facts.Origins.Session),
		},
		Settings: SettingsFacts{
			AllowNestedSandbox: c.Settings.AllowNestedSandbox,
			WorkspaceRoots:     c.Settings.AllowedWritePaths,
		},
		at: map[string]shellparse.Pos{},
	}
	for _, authors := range in.Origins.Args {
		in.Authors = append(in.Authors, authors...)
	}
	slices.Sort(in.Authors)
	in.Authors = slices.Compact(in.Authors)
	in.addUses(c.Facts.Uses)
	return in, nil
}

func toolFacts(s tool.Spec) ToolFacts {
	f := ToolFacts{
		Name: s.Name, Class: string(s.Class), ReadOnly: s.ReadOnly,
		Destructive: s.Destructive(), OpenWorld: s.Annotations == nil || s.Annotations.OpenWorld,
	}
	if rest, ok := strings.CutPrefix(s.Name, "mcp__"); ok {
		f.Server, _, _ = strings.Cut(rest, "__")
	}
	return f
}

func (in *Input) addUses(u sandbox.Uses) {
	for i, p := range u.Paths {
		f := PathFacts{
			ID: "path:" + strconv.Itoa(i), Raw: p.Raw, Path: p.Path, Op: string(p.Op), Recursive: p.Recursive,
			Ancestors: ancestors(p.Path), Segments: segments(p.Path),
		}
		if p.Path != "" {
			f.Base = path.Base(p.Path)
			f.InWorkspace = inside(f.Ancestors, in.Settings.WorkspaceRoots)
			f.Forms, f.Under = in.forms(f.Ancestors)
			if a := ancestors(in.spelled(p.Raw)); a != nil && a[0] != f.Ancestors[0] {
				f.Spelled, f.SpelledIn = in.forms(a)
			}
		}
		in.Paths = append(in.Paths, f)
		in.locate(f.ID, p.At)
	}
	for i, h := range u.Hosts {
		in.Hosts = append(in.Hosts, hostFacts("host:"+strconv.Itoa(i), h))
	}
	if u.Script == nil {
		return
	}
	for i, c := range u.Script.Commands {
		f := commandFacts("command:"+strconv.Itoa(i), c)
		f.PipedNet = pipedNet(u.Script.Commands, i)
		in.Commands = append(in.Commands, f)
		in.Starts = append(in.Starts, f.Prefixes...)
		in.locate(f.ID, c.At)
	}
	for i, o := range u.Script.Opaque {
		f := OpaqueFacts{ID: "opaque:" + strconv.Itoa(i), Code: o.Code, Command: o.Command}
		in.Opaque = append(in.Opaque, f)
		in.locate(f.ID, o.At)
	}
}

// locate remembers where a subject stands; a tool's own argument stands nowhere.
func (in *Input) locate(id string, at shellparse.Pos) {
	if at.Line > 0 {
		in.at[id] = at
	}
}

// editsWorkspace reports whether the call is an edit of files, all of which are
// known and inside the workspace (P-05).
func (in *Input) editsWorkspace() bool {
	if in.Tool.Class != string(tool.ClassWrite) || in.Tool.Destructive || len(in.Paths) == 0 {
		return false
	}
	for _, p := range in.Paths {
		if p.Op != string(sandbox.Read) && !p.InWorkspace {
			return false
		}
	}
	return true
}

// ancestors are p and every directory above it, whole segments only, so that a
// rule for /a is a lookup that cannot match /ab.
func ancestors(p string) []string {
	if !path.IsAbs(p) {
		return nil
	}
	p = path.Clean(p)
	out := []string{p}
	for p != "/" {
		p = path.Dir(p)
		out = append(out, p)
	}
	return out
}

func segments(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// spelled is the absolute path that raw says, whatever links are on it.
func (in *Input) spelled(raw string) string {
	if rest, ok := strings.CutPrefix(raw, "~/"); ok {
		return path.Join(in.Session.Home, rest)
	}
	if !path.IsAbs(raw) {
		return path.Join(in.Session.Dir, raw)
	}
	return path.Clean(raw)
}

// forms writes a path in the three notations of permission rules.
func (in *Input) forms(ancestors []string) (forms, under []string) {
	forms, under = append(forms, ancestors[0]), slices.Clone(ancestors)
	for _, base := range []struct{ dir, mark string }{{in.Session.Dir, "."}, {in.Session.Home, "~"}} {
		i := slices.Index(ancestors, path.Clean(base.dir))
		if base.dir == "" || base.dir == "/" || i < 0 {
			continue
		}
		for j := range i + 1 {
			a := base.mark + ancestors[j][len(ancestors[i]):]
			under = append(under, a)
			if j == 0 {
				forms = append(forms, a)
			}
		}
	}
	return forms, under
}

// inside reports whether a path with these ancestors is below one of roots. No
// roots at all means that nothing is restricted, which makes nothing a workspace.
func inside(ancestors, roots []string) bool {
	for _, r := range roots {
		if slices.Contains(ancestors, path.Clean(r)) {
			return true
		}
	}
	return false
}

func hostFacts(id, name string) HostFacts {
	f := HostFacts{ID: id, Name: strings.TrimSuffix(strings.ToLower(name), ".")}
	if a, err := netip.ParseAddr(strings.Trim(f.Name, "[]")); err == nil {
		a = a.Unmap()
		f.Suffixes = []string{f.Name}
		f.Private = a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified()
		return f
	}
	f.Private = f.Name == "localhost" || strings.HasSuffix(f.Name, ".localhost")
	for rest, more := f.Name, true; more; _, rest, more = strings.Cut(rest, ".") {
		f.Suffixes = append(f.Suffixes, rest)
	}
	return f
}
