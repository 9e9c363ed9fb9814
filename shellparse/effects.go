package shellparse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/effect"
	"github.com/sandboxd/sandboxd/shellparse/program"
)

// Effects are what a command would lose, publish or change elsewhere.
type Effects struct {
	Deletes  []Delete  `json:"deletes,omitempty"`
	Replaces []Replace `json:"-"`
	Discards []Discard `json:"discards,omitempty"`
	Acts     []Act     `json:"acts,omitempty"` // on services, registries, and this machine
	Runs     []Run     `json:"runs,omitempty"` // code that cannot be read here, or that hides its effect
	Feeds    []Feed    `json:"-"`
	Unpacks  []Unpack  `json:"-"`
}

// Unpack is an archive whose files are written into a directory, over files that are there.
type Unpack struct {
	Archive, Dir File
	Strip        int  // how many segments are cut from the front of each name
	Tracked      bool // git tracks its files
}

// Feed is a file from which a command takes statements for a database.
type Feed struct {
	File
	// Destroys says that by its name the statements destroy. That counts if nobody can read them.
	Destroys bool
	// Of returns what the command does with such text, and the files that the text names.
	Of func(text string) ([]Act, []Feed)
}

// Act is what a command does to a service, a registry or this machine.
type Act = effect.Act

// What [Act].Does may be, besides effect.Changes.
const (
	Destroys  = effect.Destroys
	Publishes = effect.Publishes
	Plants    = effect.Plants
)

// Delete is a file or tree that a command removes, empties or moves.
type Delete struct {
	File
	Many  bool     `json:"many,omitempty"`  // named by a pattern, a list, a loop or a search
	Names []string `json:"names,omitempty"` // of a tree, only what has such a name; empty: everything
	Moved string   `json:"moved,omitempty"` // where it is afterwards, as Path; "": nowhere
	// Outside says that the path is unknown only because of variables that the line does not set.
	Outside bool `json:"outside,omitempty"`
}

// Replace is a file that gets the content of others, or a directory in which files do.
type Replace struct {
	To    File
	Names []string // names of the files, if To is a directory
	From  []File
}

// Discard is something that git throws away: one of the constants of package effect.
type Discard struct {
	What string `json:"what"`
	// IfThere is a path: the discard happens only if a file lies there, because the word may name a branch as well.
	IfThere string `json:"-"`
	Mixed   bool   `json:"-"` // if no file has that name, the first of Only may be a commit
	// Only says that nothing but these files and trees is changed, to what the index has.
	Only []File `json:"-"`
}

// Run is code that a command executes and that lies in no file of the workspace.
type Run struct {
	From string `json:"from"`           // decoder, download, text, unknown, words
	Does string `json:"does,omitempty"` // of words: deletes, starts, hides
	Part string `json:"part,omitempty"` // what shows it: the program that makes the text, or a call in the text
}

// effects asks package effect what the command does.
func (a *act) effects() {
	a.elsewhere()
	a.empties()
	if !effect.Knows(a.Name) {
		return
	}
	found := effect.Of(&a.Call, a.w.outside)
	if found == nil {
		return
	}
	e := a.given()
	for _, d := range found.Deletes {
		many := d.Many || a.w.rounds > 0 && !d.Word.Known
		moved := ""
		if d.Moved {
			if moved = d.To.Text; d.To.Known && !d.To.Glob && !strings.HasPrefix(moved, "/") && a.sc.dir() != "" {
				moved = join(a.sc.dir(), moved)
			}
		}
		for _, f := range a.w.file(d.Word, Write, d.Tree, a.sc) {
			if a.w.deletes++; a.w.deletes > maxDeletes {
				a.w.fail(&Error{
					Code: "too_large",
					Msg:  fmt.Sprintf("command deletes or moves more than %d names one by one", maxDeletes),
					Hint: "name the directory or a pattern, or split the command", At: a.cmd.At,
				})
			}
			e.Deletes = append(e.Deletes, Delete{
				File: f, Many: many, Names: d.Names, Moved: moved, Outside: a.w.outside(d.Word) &&
					!a.setsInFront(d.Word),
			})
		}
	}
	for _, x := range found.Replaces {
		var from []File
		for _, word := range x.From {
			from = append(from, a.w.file(word, Read, false, a.sc)...)
		}
		for _, f := range a.w.file(x.Word, Write, false, a.sc) {
			e.Replaces = append(e.Replaces, Replace{f, x.Names, from})
		}
	}
	for _, d := range found.Discards {
		var only []File
		if !a.setsGit() {
			for _, word := range d.Only {
				only = append(only, a.w.file(word, Write, false, a.sc)...)
			}
		}
		if d.IfThere == nil {
			e.Discards = append(e.Discards, Discard{What: d.What, Mixed: d.Mixed, Only: only})
			continue
		}
		for _, f := range a.w.file(*d.IfThere, Write, false, a.sc) {
			if f.Known {
				e.Discards = append(e.Discards, Discard{What: d.What, IfThere: f.Path, Only: only})
			}
		}
	}
	from := a.sc
	if a.moved {
		from = a.from // tar opens the archive before it changes the directory
	}
	for _, x := range found.Unpacks {
		for _, dir := range a.w.file(x.Dir, Write, true, a.sc) {
			for _, archive := range append(a.w.file(x.Archive, Read, false, from), File{})[:1] {
				e.Unpacks = append(e.Unpacks, Unpack{archive, dir, x.Strip, x.Tracked})
			}
		}
	}
	a.does(found)
	a.feeds(found.Feeds)
	if len(e.Deletes)+len(e.Replaces)+len(e.Discards)+len(e.Acts)+len(e.Runs)+len(e.Feeds)+len(e.Unpacks) == 0 {
		a.cmd.Effects = nil
	}
}

// does adds what a command does elsewhere, and which code it is given.
func (a *act) does(found *effect.Effects) {
	if len(found.Acts)+len(found.Code) == 0 {
		return
	}
	e := a.given()
	e.Acts = append(e.Acts, found.Acts...)
	for _, c := range found.Code {
		e.Runs = append(e.Runs, Run{From: "words", Does: c.Does, Part: c.Part})
	}
}

// setsGit reports whether a variable says which repository or tree git works on.
func (a *act) setsGit() bool {
	return slices.ContainsFunc(a.cmd.Env, func(e Assign) bool { return strings.HasPrefix(e.Name, "GIT_") }) ||
		len(a.w.assigned) == maxNames ||
		slices.ContainsFunc(a.w.assigned, func(name string) bool { return strings.HasPrefix(name, "GIT_") })
}

// empties handles a redirection of nothing into files that a pattern or a loop names.
func (a *act) empties() {
	if a.cmd.Path != ":" && a.cmd.Path != "true" {
		return
	}
	for _, f := range a.call.files {
		if f.Access == Write && (f.Glob || f.Recursive || a.w.rounds > 0 && !f.Known) {
			e := a.given()
			e.Deletes = append(e.Deletes, Delete{File: f, Many: true})
		}
	}
}

// setsInFront reports whether a variable of a word is set before the command. The shell expands the word earlier, so
// the variable has its old value there, which a reader of the line does not expect.
func (a *act) setsInFront(f program.Word) bool {
	names := variables(f.Text)
	return slices.ContainsFunc(a.cmd.Env, func(e Assign) bool { return slices.Contains(names, e.Name) })
}

// given returns where the effects of the command are collected.
func (a *act) given() *Effects {
	if a.cmd.Effects == nil {
		a.cmd.Effects = &Effects{}
	}
	return a.cmd.Effects
}

// outside reports whether a word is unknown because of variables that the line does not set. Whoever started the
// shell chose their values.
func (w *walker) outside(f program.Word) bool {
	names := variables(f.Text)
	if f.Known || len(names) == 0 || strings.ContainsAny(f.Text, "`") || strings.Contains(f.Text, "$(") {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		return w.isSet(name) || len(w.calls) > 0 && strings.Trim(name, "0123456789@*") == ""
	})
}

// variables returns the names after a $ in source text.
func variables(text string) []string {
	var names []string
	for {
		_, rest, ok := strings.Cut(text, "$")
		if !ok {
			return names
		}
		text = strings.TrimLeft(rest, "{!#")
		end := 0
		for end < len(text) && program.IsWordByte(text[end]) && text[end] != '-' && text[end] != '.' {
			end++
		}
		if end == 0 && text != "" && strings.ContainsRune("@*", rune(text[0])) {
			end = 1
		}
		if end > 0 {
			names = append(names, text[:end])
		}
		text = text[end:]
	}
}

// notes that the line sets a variable.
func (w *walker) sets(name string) {
	if name == "BASH_ARGV0" {
		w.sets("0")
	}
	if len(w.assigned) < maxNames && !slices.Contains(w.assigned, name) {
		w.assigned = append(w.assigned, name)
	}
}

// isSet reports whether the line sets a variable. One that sets more than are remembered may set any.
func (w *walker) isSet(name string) bool {
	return len(w.assigned) == maxNames || slices.Contains(w.assigned, name)
}

// runsText says of each command where the code comes from that it executes and that nobody can read.
func (w *walker) runsText() {
	if len(w.opaqueCommands) == 0 {
		return
	}
	commands := w.out.Commands
	opaque := make(map[Pos]bool, len(w.opaqueCommands))
	for _, at := range w.opaqueCommands {
		opaque[at] = true
	}
	var makers []maker
	for i := range commands {
		if run, ok := w.makerOf(&commands[i]); ok {
			makers = append(makers, maker{i, run})
		}
	}
	for i := range commands {
		c := &commands[i]
		if !opaque[c.At] {
			continue
		}
		run, found := w.origin(i, makers)
		if !found || run.From == "text" && effect.Queries(c.Name) {
			continue
		}
		if c.Effects == nil {
			c.Effects = &Effects{}
		}
		if !slices.Contains(c.Effects.Runs, run) {
			c.Effects.Runs = append(c.Effects.Runs, run)
		}
	}
}

// makerOf returns what a command prints, if it composes, decodes or downloads that, or reads a file that is made so.
func (w *walker) makerOf(c *Command) (Run, bool) {
	run := Run{From: c.Makes(), Part: c.Name}
	if run.From == "" && c.relays {
		run.From = "text"
	}
	if values, ok := w.ofValues(c.source); ok && passesOn(c.Name) {
		run.strengthen(values, true)
	}
	if made, ok := w.madeBy(c.Files); ok && (run.From == "" || stronger(made.From, run.From)) {
		run = made
	}
	return run, run.From != ""
}

// maker is a command that composes, decodes or downloads text.
type maker struct {
	command int
	Run
}

// origin returns the strongest origin of the text that a command executes.
func (w *walker) origin(i int, makers []maker) (Run, bool) {
	c := &w.out.Commands[i]
	made := w.unknownWords(c)
	best, found := Run{}, false
	// Values in code of another language are data as a rule.
	if values, ok := w.ofValues(c.source); ok && (readsShell(c.Name) || stronger(values.From, "text")) {
		best, found = values, true
	}
	if slices.Contains(w.opaqueReads, c.At) {
		run, ok := w.madeBy(c.Files)
		best.strengthen(run, ok)
		found = found || ok
	}
	for _, m := range makers {
		j := m.command
		f := &w.out.Commands[j]
		if j == i || f.relays && c.fedText && f.Makes() == "" { // the text is read as its input
			continue
		}
		if !c.takes(f) && !(i < j && fedLater(c)) && !(j < i && piped(c) && piped(f)) && !(made && substituted(f)) {
			continue
		}
		if !found || stronger(m.From, best.From) {
			best, found = m.Run, true
		}
	}
	for _, s := range w.slurped {
		if (within(s.at, c.At) || within(s.at, c.Fed)) && (!found || stronger(s.From, best.From)) {
			best, found = s.Run, true
		}
	}
	if w.connected && (!found || stronger(fromHost.From, best.From)) {
		best, found = fromHost, true
	}
	if !found && made {
		return Run{From: "unknown"}, true
	}
	return best, found
}

// readsShell reports whether a program takes its input for shell text.
func readsShell(name string) bool {
	return slices.Contains(bashes, name) || name == "." || name == "source" || strings.HasSuffix(name, "sh") &&
		name != "ssh"
}

// Linked reports whether the i-th command takes part in what the one in front of it does: in a pipeline, or as a
// substitution in it. Pipelines that follow each other count as one.
func (s *Script) Linked(i int) bool {
	if i == 0 {
		return false
	}
	c, f := &s.Commands[i], &s.Commands[i-1]
	return c.takes(f) || piped(c) && piped(f)
}

// takes reports whether f stands in a substitution whose output the command gets: in its words, or in what may be
// its standard input.
func (c *Command) takes(f *Command) bool {
	if !substituted(f) {
		return false
	}
	for _, at := range append([]Pos{f.At}, f.called...) {
		given := func(call Pos) bool { return within(at, call) && !slices.Contains(f.called, call) }
		if within(at, c.At) || within(at, c.Fed) || slices.ContainsFunc(c.called, given) {
			return true
		}
	}
	return false
}

func within(inner, outer Pos) bool { return outer.Offset <= inner.Offset && inner.End <= outer.End }

// Makers says for each command where the bytes come from that it writes: "download", "decoder", or "text" for what
// it prints itself or gets by a pipe, a substitution, a variable or a file that the line has made, and "" for anything
// else. Pipelines that follow each other count as one.
func (s *Script) Makers() []string {
	out, own := make([]string, len(s.Commands)), make([]string, len(s.Commands))
	given := "" // by the earlier commands that are linked to this one
	for i := range s.Commands {
		c := &s.Commands[i]
		if !s.Linked(i) && !(i > 0 && c.Fed.End > 0 && c.Fed == s.Commands[i-1].Fed) {
			given = ""
		}
		own[i] = c.Makes()
		if stronger(c.gives, own[i]) {
			own[i] = c.gives
		}
		if own[i] != "" && (given == "" || stronger(own[i], given)) {
			given = own[i]
		}
		out[i] = given
	}
	later := ""
	for i := len(out) - 1; i >= 0; i-- {
		if fedLater(&s.Commands[i]) && stronger(later, out[i]) {
			out[i] = later
		}
		if stronger(own[i], later) {
			later = own[i]
		}
	}
	return out
}

// fedLater reports whether a command may read what a later one writes: echo x > >(sh).
func fedLater(c *Command) bool { return slices.Contains(c.Via, "process substitution") }

// Makes says what the command itself prints: "download", "decoder", "text" that it puts together, or "" for
// anything else.
func (c *Command) Makes() string {
	if c.Name == "date" && onlyDate(c) {
		return ""
	}
	return effect.Maker(c.Name, func() []string { return words(c) })
}

func words(c *Command) []string {
	out := make([]string, 0, len(c.Args))
	for _, a := range c.Args {
		out = append(out, a.Text)
	}
	return out
}

func stronger(a, b string) bool {
	order := []string{"text", "decoder", "download"}
	return slices.Index(order, a) > slices.Index(order, b)
}

// gives returns the origin of what a command puts into the files that it writes, if it has that from a file that the
// line has made, or from a variable that the line sets.
func (w *walker) gives(c *Command) string {
	run, _ := w.madeBy(c.Files)
	if len(w.inside) > 0 && w.unknownWords(c) {
		for _, x := range w.inside {
			run.strengthen(x.Run, true)
		}
	}
	return run.From
}

// unknownWords reports whether words of a command, or its name, come from variables that the line sets to unknown
// values.
func (w *walker) unknownWords(c *Command) bool {
	set := func(text string) bool {
		return slices.ContainsFunc(variables(text), w.isSet)
	}
	return set(c.Path) || slices.ContainsFunc(c.Args, func(a Word) bool { return !a.Known && set(a.Text) })
}

func substituted(c *Command) bool {
	return slices.ContainsFunc(c.Via, func(v string) bool { return strings.HasSuffix(v, "substitution") })
}

func piped(c *Command) bool { return slices.Contains(c.Via, "pipeline") || substituted(c) }
