// Package input makes the document that policies judge.
//
// A call goes in, with the facts that were found out about it. A [Document] comes out: the tool,
// the session, the arguments, and every path, host, command and unreadable part. What rules look
// up is derived once, such as the directories above a path and the prefixes of a command.
//
//	in, err := input.New(call) // an error only if the arguments are no JSON object
//	// in.Commands[0].Prefixes: git, git push
//	value := in.Value(nil) // for the engine; not nil: only the fields that rules read
//
// [NewConnecting] is New for a connection of a call that runs, and [NewChanged] for what a call has
// changed. Package policy then sets what it knows itself: Recent and RuleKinds. Rules see the
// document and the data of their revision, nothing else. Time and random numbers are not in it, so
// a decision can be repeated. The model wrote the arguments and all texts that are taken from them.
// The document judges nothing.
//
// The schema is rego/schemas/input.json. A new field belongs there, in the Go type, and in the list
// in value.go that makes it a value of the engine. A test compares the three.
package input

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

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Version is raised when a field of [Document] changes its meaning.
const Version = 2

// Document is what rules see, and all that they see.
type Document struct {
	Version  int             `json:"version"`
	Tool     Tool            `json:"tool"`
	Mode     tool.Mode       `json:"mode"`
	Session  Session         `json:"session"`
	Params   json.RawMessage `json:"params"` // the arguments, after references
	Paths    []Path          `json:"paths"`
	Hosts    []Host          `json:"hosts"`
	Commands []Command       `json:"commands"`
	Opaque   []Opaque        `json:"opaque"`
	Origins  tool.Origins    `json:"origins"`
	Settings Settings        `json:"settings"`

	Starts    []string      `json:"starts"`     // the prefixes of all commands
	Elsewhere bool          `json:"elsewhere"`  // another program runs the call, outside of the sandbox
	Effects   []string      `json:"effects"`    // kinds of effects that the call has
	Plants    []Plant       `json:"plants"`     // what it makes others run by themselves
	Authors   []tool.Origin `json:"authors"`    // of any argument, each once
	RuleKinds []string      `json:"rule_kinds"` // set by the engine: kinds of permission rules that can hold

	MCP *tool.MCP `json:"mcp,omitempty"` // of a tool of an MCP server that the daemon keeps

	Recent *Recent `json:"recent,omitempty"` // set by package policy where a rule reads it

	Connection *Connection `json:"connection,omitempty"` // of a program that runs and connects

	Changes []tool.Changed `json:"changes,omitempty"` // of a call that has ended

	bases notations
	at    map[string]shellparse.Pos // by id of a command, path or opaque part
}

// Tool describes the tool that is called.
type Tool struct {
	Name        string `json:"name"`
	Class       string `json:"class"`
	ReadOnly    bool   `json:"read_only"`
	Destructive bool   `json:"destructive"`
	OpenWorld   bool   `json:"open_world"`
	Server      string `json:"server"` // of mcp__server__tool; "" for all others
}

// Session describes the session.
type Session struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Dir     string `json:"dir"`
	Base    string `json:"base"` // where it began: /x and ./x of rules are below it
	Home    string `json:"home"`
	Profile string `json:"profile"`
}

// Path describes one path that the call touches.
type Path struct {
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
	Spelled     []string `json:"spelled"`    // more forms, for rules that tighten; see notations
	SpelledIn   []string `json:"spelled_in"` // each of them and every directory above it
	InWorkspace bool     `json:"in_workspace"`
	Looks       bool     `json:"looks"`      // a test or a listing: nothing of the content is read
	RunsLater   string   `json:"runs_later"` // the program of the host that obeys it by itself
	Loses       []Loss   `json:"loses"`      // files whose content would be gone, and of which git has no copy
}

// Loss describes one file whose content a call would destroy.
type Loss struct {
	Path        string   `json:"path"`
	Below       []string `json:"below"` // its segments below the workspace
	InWorkspace bool     `json:"in_workspace"`
}

// Host describes one host that the call reaches.
type Host struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Suffixes []string `json:"suffixes"` // the name and every domain above it
	Private  bool     `json:"private"`  // a private, loopback or link-local address, or localhost
	Listed   bool     `json:"listed"`   // network.allowedDomains names it; of a connection, with its port
}

// Command describes one program start.
type Command struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"` // "" when unknown
	Path  string   `json:"path"`
	Known bool     `json:"known"` // the name and every word
	Argv  []string `json:"argv"`
	// Prefixes are "git", "git push", "git push origin": name and plain words, without
	// global options.
	Prefixes []string `json:"prefixes"`
	Flags    []string `json:"flags"`    // "-f" of -fu, "--force" of --force=x
	Operands []string `json:"operands"` // words that are not flags
	Via      []string `json:"via"`
	Env      []string `json:"env"` // names that are set in front
	Dir      string   `json:"dir"`
	Files    []File   `json:"files"`
	Hosts    []string `json:"hosts"`
	Text     string   `json:"text"`    // the words as resolved, with single spaces
	Literal  []string `json:"literal"` // the first word, the first two, … up to 16, flags included
	// Plain says that nothing is unknown or hidden: no wrapper, no odd path, no
	// environment that changes what runs.
	Plain    bool `json:"plain"`
	PipedNet bool `json:"piped_net"` // its input or words come from a program that reads the network

	Deletes   []Delete `json:"deletes"`
	Discards  []string `json:"discards"`  // what git throws away: work, untracked, refs, …
	Publishes []string `json:"publishes"` // what it makes public: the words that say so
	Remote    []Remote `json:"remote"`
	RunsText  []Run    `json:"runs_text"`
}

// Delete describes a file or tree that a command removes, empties or moves.
type Delete struct {
	Raw         string   `json:"raw"`
	Path        string   `json:"path"` // physical; "" when it cannot be known
	Tree        bool     `json:"tree"`
	Many        bool     `json:"many"`
	Names       []string `json:"names"`
	Below       []string `json:"below"` // its segments below the workspace
	InWorkspace bool     `json:"in_workspace"`
	To          []string `json:"to"` // of what is moved: the segments of where it is afterwards
	Outside     bool     `json:"outside"`
	Was         []string `json:"was"`     // the segments below the workspace of what lies there now
	Tracked     bool     `json:"tracked"` // git tracks some of it, or it is a repository
	Unsaved     bool     `json:"unsaved"` // one file, of whose content git has no copy
}

// Remote describes what a command does to a service, or to this machine.
type Remote struct {
	Program string `json:"program"`
	Verb    string `json:"verb"`
	Target  string `json:"target"`
	Does    string `json:"does"`
}

// Plant describes something that a call makes a program start by itself, later.
type Plant struct {
	Subject string `json:"subject"` // the path or command that plants it
	Raw     string `json:"raw"`     // as written: the path, or the words
	Path    string `json:"path"`    // physical; "" for words
	Program string `json:"program"` // what starts it
	From    string `json:"from"`    // what makes the bytes: download, decoder, text, ""
}

// Run describes code that a command executes and that is no file of the workspace.
type Run struct {
	From string `json:"from"`
	Does string `json:"does"`
	Part string `json:"part"`
}

// File describes one file that a command names.
type File struct {
	Path      string   `json:"path"`
	Known     bool     `json:"known"`
	Op        string   `json:"op"`
	Recursive bool     `json:"recursive"`
	Base      string   `json:"base"`
	Ancestors []string `json:"ancestors"`
}

// Opaque describes code that cannot be read.
type Opaque struct {
	ID      string `json:"id"`
	Code    string `json:"code"`
	Command string `json:"command"`
}

// Settings are the parts of the floor that rules need.
type Settings struct {
	AllowNestedSandbox bool     `json:"allow_nested_sandbox"`
	WorkspaceRoots     []string `json:"workspace_roots"`
}

// New builds the document for one call. It fails only on arguments that
// are not a JSON object.
func New(c *tool.Call) (*Document, error) {
	args := bytes.TrimSpace(c.In.Args)
	if len(args) == 0 {
		args = []byte("{}")
	}
	if !json.Valid(args) || args[0] != '{' {
		return nil, fmt.Errorf("arguments of %s are not one JSON object", c.Spec.Name)
	}
	in := &Document{
		Version: Version,
		Tool:    toolFacts(c.Spec),
		Mode:    c.Session.Mode,
		Session: Session{
			ID: c.Session.ID, Account: c.Session.Account, Dir: c.Session.Dir,
			Base: base(c.Session), Home: c.Session.Home, Profile: string(c.Session.Profile),
		},
		Params: args,
		Origins: tool.Origins{
			Args: maps.Clone(c.Facts.Origins.Args), Session: slices.Clone(c.Facts.Origins.Session),
			Hosts: slices.Clone(c.Facts.Origins.Hosts),
		},
		Settings: Settings{
			AllowNestedSandbox: c.Settings.AllowNestedSandbox,
			WorkspaceRoots:     c.Settings.AllowedWritePaths,
		},
		bases: notationsOf(c),
		at:    map[string]shellparse.Pos{},
	}
	for _, authors := range in.Origins.Args {
		in.Authors = append(in.Authors, authors...)
	}
	slices.Sort(in.Authors)
	in.Authors = slices.Compact(in.Authors)
	in.Elsewhere = c.Request.Theirs || c.Request.Outside
	in.MCP = c.Spec.MCP
	in.addUses(c.Facts.Uses)
	for i := range in.Hosts {
		v, _ := c.Settings.Network.Host(in.Hosts[i].Name)
		in.Hosts[i].Listed = v == guard.Allow
	}
	return in, nil
}

func toolFacts(s tool.Spec) Tool {
	f := Tool{
		Name: s.Name, Class: string(s.Class), ReadOnly: s.ReadOnly,
		Destructive: s.Destructive(), OpenWorld: s.Annotations == nil || s.Annotations.OpenWorld,
	}
	if rest, ok := strings.CutPrefix(s.Name, "mcp__"); ok {
		f.Server, _, _ = strings.Cut(rest, "__")
	}
	return f
}

func (in *Document) addUses(u guard.Uses) {
	lost := map[int][]guard.Loss{}
	for _, l := range u.Losses {
		lost[l.Use] = append(lost[l.Use], l)
	}
	for i, p := range u.Paths {
		f := Path{
			ID: "path:" + strconv.Itoa(i), Raw: p.Raw, Path: p.Path, Op: string(p.Op), Recursive: p.Recursive,
			Ancestors: ancestors(p.Path), Segments: segments(p.Path), Looks: p.Looks,
		}
		if p.Path != "" {
			f.Base = path.Base(p.Path)
			f.InWorkspace = inside(f.Ancestors, in.Settings.WorkspaceRoots)
			f.RunsLater = p.RunsLater(in.Settings.WorkspaceRoots)
			if program := p.Plants(in.Settings.WorkspaceRoots); program != "" {
				in.plants(Plant{Subject: f.ID, Raw: p.Raw, Path: p.Path, Program: program, From: p.From})
			}
			in.bases.write(&f, ancestors(in.spelled(p.Raw)))
		}
		for _, l := range lost[i] {
			loss := Loss{Path: l.Path}
			loss.Below, loss.InWorkspace = in.below(l.Path)
			f.Loses = append(f.Loses, loss)
			in.has("loses")
		}
		in.Paths = append(in.Paths, f)
		in.locate(f.ID, p.At)
	}
	in.addHosts(u.Hosts, shellparse.Pos{})
	if u.Script == nil {
		return
	}
	fetching := newFetching(u.Script.Commands)
	for i, c := range u.Script.Commands {
		in.addHosts(c.Hosts, c.At)
		f := commandFacts("command:"+strconv.Itoa(i), c)
		f.PipedNet = fetching.feeds(i, c)
		in.effects(&f, i, &u)
		in.Commands = append(in.Commands, f)
		in.Starts = append(in.Starts, f.Prefixes...)
		in.locate(f.ID, c.At)
	}
	for i, o := range u.Script.Opaque {
		f := Opaque{ID: "opaque:" + strconv.Itoa(i), Code: o.Code, Command: o.Command}
		in.Opaque = append(in.Opaque, f)
		in.locate(f.ID, o.At)
	}
}

// addHosts adds the hosts that are not there yet.
func (in *Document) addHosts(names []string, at shellparse.Pos) {
	for _, name := range names {
		h := hostFacts("host:"+strconv.Itoa(len(in.Hosts)), name)
		if slices.ContainsFunc(in.Hosts, func(have Host) bool { return have.Name == h.Name }) {
			continue
		}
		in.Hosts = append(in.Hosts, h)
		in.locate(h.ID, at)
	}
}

// locate remembers where a subject stands; a tool's own argument stands nowhere.
func (in *Document) locate(id string, at shellparse.Pos) {
	if at.Line > 0 {
		in.at[id] = at
	}
}

// Place returns where a command, path or opaque part stands in the command line.
func (in *Document) Place(id string) (at shellparse.Pos, ok bool) {
	at, ok = in.at[id]
	return at, ok
}

// EditsWorkspace reports whether the call is an edit of files, all of which are
// known and inside the workspace (P-05).
func (in *Document) EditsWorkspace() bool {
	if in.Tool.Class != string(tool.ClassWrite) || in.Tool.Destructive || len(in.Paths) == 0 {
		return false
	}
	for _, p := range in.Paths {
		if p.Op != string(guard.Read) && !p.InWorkspace {
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

// spelled returns the absolute path that raw says, whatever links are on it.
func (in *Document) spelled(raw string) string {
	if rest, ok := strings.CutPrefix(raw, "~/"); ok {
		return path.Join(in.Session.Home, rest)
	}
	if !path.IsAbs(raw) {
		return path.Join(in.Session.Dir, raw)
	}
	return path.Clean(raw)
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

// Below reports whether a path is a directory or lies below it.
func Below(p, dir string) bool { return inside(ancestors(p), []string{dir}) }

func hostFacts(id, name string) Host {
	f := Host{ID: id, Name: strings.TrimSuffix(strings.ToLower(name), ".")}
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
