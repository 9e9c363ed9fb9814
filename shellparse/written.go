package shellparse

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/effect"
	"github.com/sandboxd/sandboxd/shellparse/program"
)

// A line may write a script and run it. What it writes is read as what it runs, as far as the words and
// here-documents of the line say it.

const (
	maxWritten = 32      // files whose text is remembered, and texts of one file
	maxMade    = 64      // files of which it is remembered what has made them
	maxScript  = 1 << 16 // bytes of one
	maxScripts = 16      // scripts that are followed
)

// writes remembers what the command writes into files.
func (a *act) writes() {
	w := a.w
	paths := writtenTo(a.call.files)
	a.copiesPrograms()
	switch a.Name {
	case "mv", "cp", "install", "ln":
		a.links()
		a.renames()
		if len(a.Operands) > 0 && program.IsStdin(a.Operands[0]) && a.In.Kind != program.Inherited {
			a.copiesInput(writtenTo(a.cmd.Files))
		}
		if slices.ContainsFunc(a.Operands, func(f program.Word) bool { return f.Fd }) { // cp <(…) f
			run, ok := a.made(true, true)
			w.keepsMade(writtenTo(a.cmd.Files), run, ok)
		}
		return
	case "tee", "sponge", "dd":
		paths = append(paths, writtenTo(a.cmd.Files)...)
	default:
		if to := writtenTo(a.cmd.Files); len(to) > 0 {
			run, ok := a.made(strings.HasSuffix(a.Name, "split") && a.composes(), false)
			w.keepsMade(to, run, ok)
		}
		a.renames()
	}
	g := w.group
	if a.call.own {
		g = nil
	}
	if len(paths) == 0 && g == nil {
		return
	}
	text, ok := a.prints()
	if !ok {
		run, made := a.made(a.composes(), true)
		w.keepsMade(paths, run, made)
		g.takes("", run)
		return
	}
	if a.In.Source != "" && passesOn(a.Name) {
		run, made := a.made(false, true)
		w.keepsMade(paths, run, made)
		g.takes("", run)
		if strings.Trim(text, "_ \n") == "" { // nothing of it is known
			return
		}
	}
	g.takes(text, Run{})
	for _, p := range paths {
		if a.Name == "echo" && w.nested > 0 && strings.Contains(text, `\`) { // a sh may print it
			other, _ := program.Echo(a.Argv[1:], true)
			w.writesText(p, other, false)
		}
		w.writesText(p, text, a.appends())
	}
}

// made returns what makes the bytes that the command writes, if nobody can read them. printed are those on its output,
// not in its operands: only there stands what a word of it gives.
func (a *act) made(composed, printed bool) (best Run, ok bool) {
	w := a.w
	run, found := w.madeBy(append(slices.Clip(a.cmd.Files), a.inputs()...)) // it copies
	best.strengthen(run, found)
	best.strengthen(fromHost, w.connected) // it may read what is connected
	// After exec, anything later may print into the file.
	composed = composed || a.Name == "exec" && len(a.Operands) == 0 || a.In.Typed && program.PassesOn(a.Name)
	best.strengthen(Run{From: "text", Part: a.Name}, composed)
	from := a.maker()
	best.strengthen(Run{From: from, Part: a.Name}, from == "decoder" || from == "download")
	values, ok := w.ofValues(a.In.Source)
	best.strengthen(values, ok)
	for _, x := range w.inside {
		best.strengthen(x.Run, within(x.at, a.cmd.Fed) || (printed || x.process) && within(x.at, a.cmd.At))
	}
	return best, best.From != ""
}

// strengthen replaces a run by a stronger one, if that is there.
func (r *Run) strengthen(other Run, there bool) {
	if there && (r.From == "" || stronger(other.From, r.From)) {
		*r = other
	}
}

// copiesInput remembers that the input is copied into files.
func (a *act) copiesInput(paths []string) {
	text := a.In.Output
	if a.In.Kind == program.HereText {
		text = a.In.Text
	}
	run, made := a.made(false, true)
	for _, p := range paths {
		if a.In.Source != "" {
			a.w.keepsMade([]string{p}, run, made)
			text = a.In.Text
		}
		if text == "" {
			a.w.keepsMade([]string{p}, Run{From: "text", Part: a.Name}, true)
			continue
		}
		a.w.writesText(p, text, false)
	}
}

// keepsMade remembers what makes files, if anything does that nobody can read.
func (w *walker) keepsMade(paths []string, run Run, made bool) {
	for _, p := range paths {
		switch {
		case !made:
		case len(w.made) == maxMade:
			w.unkept = run
		case w.made == nil:
			w.made = map[string]Run{p: run}
		default:
			w.made[p] = run
		}
	}
}

// inputs are the files that the input of the command is made of.
func (a *act) inputs() (files []File) {
	for _, f := range a.In.Files {
		files = append(files, a.w.file(f, Read, false, a.sc)...)
	}
	return files
}

// key is the name under which a file is remembered. A path that is not known, or not wholly (T=$(mktemp)), is known
// again if it is written in the same way.
func (f File) key() string {
	if f.Known {
		if n, ok := strings.CutPrefix(path.Clean(f.Path), "/proc/self/fd/"); ok {
			return "/dev/fd/" + n
		}
		return path.Clean(f.Path)
	}
	return strings.NewReplacer(`"`, "", "{", "", "}", "").Replace(f.Path)
}

// madeBy returns what has made one of the files that are read.
func (w *walker) madeBy(files []File) (run Run, ok bool) {
	for _, f := range files {
		switch {
		case f.Looks || f.Access != Read:
		case connection(f.Path):
			return fromHost, true
		default:
			for _, made := range remembered(w, w.made, f) {
				return w.made[made], true
			}
		}
	}
	return w.unkept, w.unkept.From != "" && slices.ContainsFunc(files, func(f File) bool { return f.Access == Read })
}

// runs notes what the command executes, once.
func (a *act) runs(run Run) {
	if e := a.given(); !slices.Contains(e.Runs, run) {
		e.Runs = append(e.Runs, run)
	}
}

// writtenTo returns the paths of files that are written.
func writtenTo(files []File) (paths []string) {
	for _, f := range files {
		if f.Access == Write && f.Path != "/dev/null" && (f.Known || strings.Contains(f.Path, "$")) {
			paths = append(paths, f.key())
		}
	}
	return paths
}

// writesText remembers what a file holds, or what is put behind that.
func (w *walker) writesText(p, text string, appends bool) {
	if len(w.written) == maxWritten || len(w.written[p]) == maxWritten || text == "" {
		return
	}
	if w.written == nil {
		w.written = map[string][]string{}
	}
	if n := len(w.written[p]); n > 0 && appends && len(w.written[p][n-1])+len(text) <= maxScript {
		w.written[p][n-1] += text
	} else if !slices.Contains(w.written[p], text) {
		w.written[p] = append(w.written[p], text)
	}
}

// appends reports whether what the command writes follows what is in the file.
func (a *act) appends() bool {
	return slices.ContainsFunc(a.call.files, func(f File) bool { return f.Access == Write && f.Keeps }) ||
		a.Name == "tee" && hasWord(&a.cmd, "-a", "--append")
}

// feeds reads the files from which the command takes text: at once what the line writes there, else later.
func (a *act) feeds(feeds []effect.Feed) {
	for _, x := range feeds {
		for _, f := range a.w.file(x.Word, Read, false, a.sc) {
			if !f.Known || f.Glob {
				continue
			}
			p := path.Clean(f.Path)
			if run, ok := a.w.made[p]; ok && x.Written {
				a.runs(run)
			}
			for _, text := range a.w.written[p] {
				a.does(x.Of(text))
			}
			if a.w.written[p] == nil && !x.Written {
				e := a.given()
				feed := fed(f, x, a.sc.dir())
				// The line may write it, and not all that it writes is remembered.
				feed.Destroys = feed.Destroys || len(a.w.written) == maxWritten
				e.Feeds = append(e.Feeds, feed)
			}
		}
	}
}

// fed returns a file that has to be read. What its text names is relative to the directory of the command.
func fed(f File, x effect.Feed, dir string) Feed {
	return Feed{f, x.Destroys(), func(text string) ([]Act, []Feed) {
		found := x.Of(text)
		var more []Feed
		for _, y := range found.Feeds {
			g := f
			if g.Path = y.Word.Text; !path.IsAbs(g.Path) {
				if dir == "" {
					continue
				}
				g.Path = join(dir, g.Path)
			}
			more = append(more, fed(g, y, dir))
		}
		return found.Acts, more
	}}
}

// script follows a script that the line itself has written.
func (a *act) script(script program.Word, shell bool, args []program.Word) {
	w := a.w
	early := w.rounds+w.beside > 0
	if len(w.written)+len(w.made) == 0 && !early && !w.connected {
		return
	}
	for _, f := range w.file(script, Read, false, a.sc) {
		texts := remembered(w, w.written, f)
		if run, ok := w.madeBy([]File{f}); ok {
			a.runsFile(run, f.Path, script.At)
		} else if early && len(w.scripted) < maxWritten {
			w.scripted = append(w.scripted, scripted{f, w.textsOf(f), a.cmd.At})
		}
		if len(texts) > 0 && w.writesElsewhere(texts) { // it may be the same file
			a.Opaque("inline_code", a.cmd.Name+" executes "+f.Path+", and the line writes a file that is only known "+
				"when it runs", script.At)
		}
		for _, key := range texts {
			for _, text := range w.written[key] {
				if !a.text(text, script, shell, args) { // a shell runs what stands in front of the mistake
					a.runsFile(Run{From: "text", Part: "the line"}, f.Path, script.At)
				}
			}
		}
	}
}

// writesElsewhere reports whether the line writes a text into a file whose name is not known, and is none of these.
func (w *walker) writesElsewhere(keys []string) bool {
	for key := range w.written {
		if strings.Contains(key, "$") && !slices.Contains(keys, key) {
			return true
		}
	}
	return false
}

// textsOf returns how many texts of a file are known.
func (w *walker) textsOf(f File) (n int) {
	for _, key := range remembered(w, w.written, f) {
		n += len(w.written[key])
	}
	return n
}

// slurped is a $(<f) of a file that the line has made.
type slurped struct {
	at Pos
	Run
}

// scripted is a script, and the command that runs it.
type scripted struct {
	file  File
	texts int // how many texts of it were known then
	at    Pos
}

// runsMade says of each command whose script a later place of the text makes where that comes from.
func (w *walker) runsMade() {
	for _, s := range w.scripted {
		run, ok := w.madeBy([]File{s.file})
		if !ok && w.textsOf(s.file) > s.texts {
			run, ok = Run{From: "text", Part: "a later command"}, true
		}
		if ok && run.From == "text" {
			w.opaque(Opaque{
				Code: "dynamic_eval", Message: "a script that a later place of the line writes: " + s.file.Path,
				Hint: "write the script first", Inline: true, At: s.at,
			})
		}
		for i := range w.out.Commands {
			if c := &w.out.Commands[i]; ok && c.At == s.at {
				if c.Effects == nil {
					c.Effects = &Effects{}
				}
				c.Effects.Runs = append(c.Effects.Runs, run)
			}
		}
	}
}

// text is that of a script: of a shell, or of what its first line names. It returns false if it is a script of a shell
// that nobody can read here.
func (a *act) text(text string, script program.Word, shell bool, args []program.Word) (read bool) {
	first, rest, _ := strings.Cut(text, "\n")
	if name, ok := strings.CutPrefix(first, "#!"); ok && !shell {
		fields := strings.Fields(name)
		if len(fields) > 1 && path.Base(fields[0]) == "env" {
			fields = slices.DeleteFunc(fields[1:], func(f string) bool { return strings.HasPrefix(f, "-") })
		}
		if len(fields) == 0 {
			return true
		}
		if name = path.Base(fields[0]); !strings.HasSuffix(name, "sh") || name == "jsh" {
			call := program.Call{
				Shell: a, Name: name, Argv: []program.Word{program.Literal(name, script.At)}, At: script.At,
				In: program.Input{Kind: program.HereText, Text: rest, At: script.At},
			}
			if found := effect.Of(&call, a.w.outside); found != nil {
				a.does(found)
			}
			return true
		}
	}
	if a.w.scripts++; a.w.nested >= maxNested || a.w.scripts > maxScripts {
		return true
	}
	if _, err := Parse(text, Options{Dir: a.sc.dir(), Home: a.w.opts.Home}); err != nil {
		// Of a mistake in the first line nothing runs, but bash ends a here-document at the end of the text.
		e := (*Error)(nil)
		return errors.As(err, &e) && e.Code == "syntax" && e.At.Line == 1 && !strings.Contains(text, "<<")
	}
	a.shellText(program.Literal(text, script.At), args)
	return true
}

// recipes follows those of a Makefile that the line itself has written, or gives to make.
func (a *act) recipes() {
	files := []program.Word{
		program.Literal("Makefile", a.At), program.Literal("makefile", a.At), program.Literal("GNUmakefile", a.At),
	}
	if f, ok := a.variable("MAKEFILES"); ok {
		for name := range strings.FieldsSeq(f.Text) {
			files = append(files, f.Sub(name))
		}
	}
	for i, w := range a.Argv[1:] {
		before := a.Argv[i]
		if value, ok := strings.CutPrefix(w.Text, "--eval="); ok && w.Known {
			a.recipesIn(value, w)
		} else if (before.Is("--eval") || before.Is("-E")) && w.Known {
			a.recipesIn(w.Text, w)
		} else if before.Is("-f") || before.Is("--file") || before.Is("--makefile") {
			files = append(files, w)
		} else if name, ok := strings.CutPrefix(w.Text, "-f"); ok && name != "" {
			files = append(files, w.Sub(name))
		} else if _, name, ok := strings.Cut(w.Text, "file="); ok && strings.HasPrefix(w.Text, "--") {
			files = append(files, w.Sub(name))
		}
	}
	for _, file := range files {
		if (program.IsStdin(file) || file.Is("-")) && a.In.Kind == program.HereText {
			a.recipesIn(a.In.Text, file)
		}
		a.recipesIn(file.Given, file)
		for _, f := range a.w.file(file, Read, false, a.sc) {
			for _, text := range a.w.written[path.Clean(f.Path)] {
				a.recipesIn(text, file)
			}
		}
	}
}

// recipesIn follows those of a text.
func (a *act) recipesIn(text string, from program.Word) {
	var recipes strings.Builder
	for line := range strings.Lines(text) {
		_, behind, rule := strings.Cut(line, ";")
		if recipe, ok := strings.CutPrefix(line, "\t"); ok || rule {
			if !ok {
				recipe = behind
			}
			recipes.WriteString(strings.ReplaceAll(strings.TrimLeft(recipe, "@-+ "), "$$", "$"))
		}
	}
	if recipes.Len() > 0 {
		a.text(recipes.String(), from, true, nil)
	}
}
