package effect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// Unpack is an archive whose files are written into a directory, over those that are there.
type Unpack struct {
	Archive program.Word // not known where it comes through a pipe
	Dir     program.Word
	Strip   int // how many segments the names lose in front
	// Tracked: git archive makes it, so that it holds files that git tracks.
	Tracked bool
}

// unpacks notes the archive of a tar or unzip that may write over files. It notes nothing if an option keeps existing
// files (unzip -n, tar -k), if nothing is written (unzip -l, tar -O), or for unzip without -o, which asks before it
// writes over a file. An archive that arrives over a pipe is noted only if git archive made it, because the names in
// any other are not known.
func (r *reader) unpacks() {
	out := Unpack{Dir: program.Literal(".", r.At), Tracked: r.In.Archive}
	switch coreName(r.Name) {
	case "unzip":
		writes := !slices.ContainsFunc([]string{"-l", "-p", "-t", "-Z", "-n"}, r.option)
		if !r.option("-o") || !writes || len(r.words()) == 0 {
			return
		}
		out.Archive = r.words()[0]
		if v := r.Values["-d"]; len(v) > 0 {
			out.Dir = v[len(v)-1]
		}
	default: // tar; the reader has followed its -C
		if !r.extracts() || slices.ContainsFunc([]string{
			"-k", "--keep-old-files", "--skip-old-files", "-O", "--to-stdout", "--keep-newer-files",
		}, r.option) || r.letters("kO") {
			return
		}
		if v := r.Values["-f"]; len(v) > 0 && !v[0].Is("-") {
			out.Archive = v[0]
		}
		for _, w := range r.Values["--strip-components"] {
			out.Strip, _ = strconv.Atoi(w.Lit()) // tar refuses what is no number, and unpacks nothing
		}
	}
	if out.Archive.Text != "" || out.Tracked {
		r.out.Unpacks = append(r.out.Unpacks, out)
	}
}

// extracts reports whether tar is told to, by an option or by the letters in front.
func (r *reader) extracts() bool {
	if r.option("-x") || r.option("--extract") || r.option("--get") {
		return true
	}
	return r.letters("x")
}

// letters reports whether the first word is letters of options without a dash, with one of these.
func (r *reader) letters(any string) bool {
	return len(r.Argv) > 1 && !strings.HasPrefix(r.Argv[1].Text, "-") && strings.ContainsAny(r.Argv[1].Lit(), any)
}
