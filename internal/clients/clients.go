package clients

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Act is what happens to a call.
type Act string

// The acts.
const (
	// Pass: the call reads and writes nothing but what the client keeps for itself, at
	// places that no argument chooses. The client goes on by its own rules.
	Pass Act = "pass"
	// As: the call is judged as one of our tools.
	As Act = "as"
	// Outside: as As, by the rules for a tool of that name, which the daemon does not run.
	Outside Act = "outside"
	// ByName: permission rules by the name of the tool decide, and otherwise a person.
	ByName Act = "by-name"
	// Server: as ByName, with the name that a tool of an MCP server has: the call reads
	// from the server that an argument names.
	Server Act = "server"
)

// renames reports whether the fields of such a tool become those of another.
func (a Act) renames() bool { return a == As || a == Outside }

// Client is one program whose hook can be answered.
type Client struct {
	Name    string // claude-code
	Title   string // Claude Code
	Package string // on the npm registry
	Version string // from which the table was made
	Program string // that people start
	Tools   []Tool // in the order of the table
}

// Tool says what happens to the calls of one tool.
type Tool struct {
	Name string
	Act  Act
	Ours string // with As and Outside: the name by which it is judged

	// Fields are the arguments that are understood. A call of Pass or As with any other
	// asks a person.
	Fields []Field
	Fixed  map[string]string // with As: arguments of ours that theirs does not have
	Why    string            // one sentence for people
}

// Field is one argument of a tool.
type Field struct {
	Name string
	Ours string   // with As: its name in our tool; "" changes nothing about what is touched
	Only []string // the values that are understood; nil: all
	ID   bool     // names something that the client made: letters, digits, "-", "_" and dots between them

	Asks   bool // a call with it asks a person
	Dir    bool // the directory of the call
	Uncage bool // true asks to run outside of every sandbox
	Patch  bool // text in the patch format of Codex; each file in it is one call
}

// anyField, as the Name of a [Field], stands for every argument that no field before it names.
const anyField = "*"

//go:embed *.txt
var files embed.FS

// The clients, as people name them.
const (
	ClaudeCode = "claude-code"
	Codex      = "codex"
	Gemini     = "gemini"
	OpenCode   = "opencode"
)

// order is how the clients are listed.
var order = []string{ClaudeCode, Codex, Gemini, OpenCode}

// All are the clients of the tables.
var All = sync.OnceValue(func() []Client {
	var out []Client
	for _, name := range order {
		text, err := files.ReadFile(name + ".txt")
		if err != nil {
			panic("a table is missing: " + err.Error()) // cannot happen: it is embedded
		}
		c, err := parse(name, string(text))
		if err != nil {
			panic("a table cannot be read: " + err.Error()) // cannot happen: a test reads it
		}
		out = append(out, c)
	}
	return out
})

// Names returns the names of all clients.
func Names() []string { return slices.Clone(order) }

// Find returns the client of a name.
func Find(name string) (Client, bool) {
	for _, c := range All() {
		if c.Name == name {
			return c, true
		}
	}
	return Client{}, false
}

// Tool returns what happens to the calls of a tool; of one that the table does not have, by its name.
func (c Client) Tool(name string) Tool {
	for _, t := range c.Tools {
		if t.Name == name {
			return t
		}
	}
	return Tool{Name: name, Act: ByName}
}

// Field returns the argument of a name.
func (t Tool) Field(name string) (Field, bool) {
	for _, f := range t.Fields {
		if f.Name == name || f.Name == anyField {
			return f, true
		}
	}
	return Field{}, false
}

// Knows reports whether a tool of any client has this name and is judged by it, so that a
// permission rule about it has an effect.
func Knows(name string) bool {
	for _, c := range All() {
		for _, t := range c.Tools {
			if t.Act == ByName && t.Name == name || t.Act == Outside && t.Ours == name {
				return true
			}
		}
	}
	return false
}

// parse reads a table. Words of a line, by their position:
//
//	title TITLE | package NAME VERSION | program NAME | everywhere FIELD…
//	TOOL pass|by-name|server [FIELD…] [# WHY]
//	TOOL as|outside OURS [FIELD…] [# WHY]
//
// and a field, other than one that every tool may have and that changes nothing, is one of
//
//	name         means the same in our tool, or may have any value
//	name>ours    has another name in our tool
//	name:a|b     is understood with these values alone
//	^name        is an id, or a list of them
//	*            stands for all fields
//	-name        asks
//	~name        changes nothing about what is touched
//	@name        is the directory of the call
//	!name        asks to leave the sandbox
//	%name        is a patch
//	=ours:value  is not theirs: what our tool is given
func parse(name, text string) (Client, error) {
	c := Client{Name: name}
	var everywhere []Field
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, why, _ := strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		fail := func(what string) (Client, error) { return Client{}, fmt.Errorf("%s.txt:%d: %s", name, n, what) }
		switch {
		case len(words) < 2:
			return fail("want a name and what happens")
		case words[0] == "title":
			c.Title = strings.Join(words[1:], " ")
		case words[0] == "program":
			c.Program = words[1]
		case words[0] == "everywhere":
			for _, word := range words[1:] {
				everywhere = append(everywhere, Field{Name: word})
			}
		case words[0] == "package" && len(words) == 3:
			c.Package, c.Version = words[1], words[2]
		default:
			t, err := parseTool(words)
			if err != nil {
				return fail(err.Error())
			}
			t.Why = strings.TrimSpace(why)
			if slices.ContainsFunc(c.Tools, func(o Tool) bool { return o.Name == t.Name }) {
				return fail("a second line for " + t.Name)
			}
			c.Tools = append(c.Tools, t)
		}
	}
	for i := range c.Tools {
		c.Tools[i].Fields = append(c.Tools[i].Fields, everywhere...)
	}
	if c.Title == "" || c.Package == "" || c.Version == "" || c.Program == "" || len(c.Tools) == 0 {
		return Client{}, fmt.Errorf("%s.txt has no title, package, program or tool", name)
	}
	return c, nil
}

func parseTool(words []string) (Tool, error) {
	t := Tool{Name: words[0], Act: Act(words[1])}
	rest := words[2:]
	switch t.Act {
	case Pass, ByName:
	case Server:
		if len(rest) == 0 {
			return t, fmt.Errorf("%s names no field for the server", t.Name)
		}
	case As, Outside:
		if len(rest) == 0 {
			return t, fmt.Errorf("%s names none of our tools", t.Name)
		}
		t.Ours, rest = rest[0], rest[1:]
	default:
		return t, fmt.Errorf("%q is none of pass, as, outside, by-name, server", t.Act)
	}
	for _, word := range rest {
		if fixed, ok := strings.CutPrefix(word, "="); ok {
			ours, value, has := strings.Cut(fixed, ":")
			if !has || !t.Act.renames() {
				return t, fmt.Errorf("%q gives our tool nothing", word)
			}
			if t.Fixed == nil {
				t.Fixed = map[string]string{}
			}
			t.Fixed[ours] = value
			continue
		}
		f, err := parseField(word, t.Act)
		if err != nil {
			return t, err
		}
		t.Fields = append(t.Fields, f)
	}
	return t, nil
}

func parseField(word string, act Act) (Field, error) {
	mark := word[0]
	if mark == '-' && len(word) > 1 {
		return Field{Name: word[1:], Asks: true}, nil
	}
	if strings.IndexByte("~@!%", mark) >= 0 {
		f := Field{Name: word[1:], Dir: mark == '@', Uncage: mark == '!', Patch: mark == '%'}
		if !act.renames() || f.Name == "" {
			return f, fmt.Errorf("%q is for calls that are judged as ours", word)
		}
		return f, nil
	}
	name, only, has := strings.Cut(word, ":")
	id := strings.HasPrefix(name, "^")
	f := Field{Name: strings.TrimPrefix(name, "^"), ID: id}
	if has {
		f.Only = strings.Split(only, "|")
	}
	if !act.renames() {
		return f, nil
	}
	theirs, ours, renamed := strings.Cut(name, ">")
	f.Name, f.Ours = theirs, theirs
	if renamed {
		f.Ours = ours
	}
	if f.Name == "" || f.Ours == "" || f.Only != nil || id {
		return f, fmt.Errorf("%q is no field of a call that is judged as ours", word)
	}
	return f, nil
}
