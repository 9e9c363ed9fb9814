package effect

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// gitOptions are those options of a subcommand that take the next word.
type gitOptions struct {
	short string // letters
	long  []string
	keeps bool // the subcommand throws nothing away, and is no verb of a table
}

// gitValued are the options by subcommand, from tables/git.txt.
var gitValued map[string]*gitOptions

// gitLine is a command of git, read as git reads it.
type gitLine struct {
	r        *reader
	sub      string
	settings []string // NAME=VALUE of -c
	flags    []string // -f, --force; long ones as they stand, perhaps abbreviated
	operands []program.Word
	paths    []program.Word // behind --
	dashes   bool
	unsure   bool // a word may be any option
	// elsewhere: options name another repository or tree than the one of the directory.
	elsewhere bool
	shows     bool
}

// git adds what a command of git throws away. No other function does.
//
// What a rebase, an amended commit or a soft reset leaves behind is none of it, --onto or not: it stops at work
// that is in no commit, and the reflog and ORIG_HEAD say where the branch was.
//
// It reports whether the subcommand may be a verb of a table.
func (r *reader) git() bool {
	if r.Name == "bfg" || r.Name == "git-filter-repo" {
		if len(r.Argv) > 1 && !r.option("--help") && !r.option("--version") && !r.option("--analyze") &&
			!r.option("--dry-run") {
			r.discard(History)
		}
		return false
	}
	g := r.gitLine()
	if g.shows {
		return false
	}
	if o := gitValued[g.sub]; o == nil || o.keeps {
		return o == nil
	}
	switch g.sub {
	case "push":
		g.push()
	case "fetch", "pull":
		g.fetch()
	case "reset":
		if g.has("--hard", "--merge", "--keep") {
			r.discard(Work)
		}
	case "checkout":
		g.checkout()
	case "switch":
		if g.has("-f", "--force", "--discard-changes") {
			r.discard(Work)
		}
		if g.has("-C", "--force-create") {
			r.discard(Refs)
		}
	case "restore":
		if g.has("-S", "--staged") && !g.has("-W", "--worktree") {
			break
		}
		if g.has("-S", "-s", "--source", "-m", "--merge", "-p", "--patch", "--ours", "--theirs",
			"--pathspec-from-file") {
			r.discard(Work)
			break
		}
		r.out.Discards = append(r.out.Discards, Discard{What: Work, Only: g.only(slices.Concat(g.operands, g.paths))})
	case "clean":
		forced := g.has("-f", "--force") || g.has("-i", "--interactive") || g.set("clean.requireforce")
		if forced && !g.has("-n", "--dry-run") {
			r.discard(Untracked)
		}
	case "stash":
		g.stash()
	case "rm":
		if g.has("-f", "--force") && !g.has("--cached") && !g.has("-n", "--dry-run") {
			r.discard(Work)
		}
	case "mv":
		if n := len(g.operands) - 1; n > 0 && g.has("-f", "--force") && !g.has("-n", "--dry-run") {
			r.replace(g.operands[n], g.operands[:n])
		}
	case "branch":
		forced := g.has("-f", "--force")
		if g.has("-D", "-M", "-C") || forced && len(g.operands)+len(g.paths) > 0 && !g.has("-l", "--list") ||
			g.has("-m", "--move") && len(g.operands) > 1 && isMain(g.operands[0].Lit()) {
			r.discard(Refs)
		}
	case "tag":
		if g.has("-d", "--delete") || g.has("-f", "--force") {
			r.discard(Refs)
		}
	case "update-ref":
		r.discard(Refs)
	case "symbolic-ref":
		if g.has("-d", "--delete") {
			r.discard(Refs)
		}
	case "replace":
		if g.has("-d", "--delete") || len(g.operands)+len(g.paths) > 0 && !g.has("-l", "--list") ||
			g.has("--convert-graft-file") {
			r.discard(Refs) // what a commit shows is another one's
		}
	case "notes":
		forced := g.has("-f", "--force")
		if (g.first("remove", "prune") || g.first("add", "copy") && forced) && !g.has("-n", "--dry-run") {
			r.discard(Refs)
		}
	case "reflog":
		if g.first("expire", "delete", "drop") && !g.has("-n", "--dry-run") {
			r.discard(Reflog)
		}
	case "gc":
		if g.has("--prune") || g.set("gc.pruneexpire") || g.set("gc.reflogexpire") ||
			g.set("gc.reflogexpireunreachable") {
			r.discard(Reflog)
		}
	case "prune":
		if !g.has("-n", "--dry-run") {
			r.discard(Reflog)
		}
	case "filter-branch", "filter-repo":
		if !g.has("--analyze", "--dry-run") {
			r.discard(History)
		}
	case "fast-import":
		if g.has("--force") {
			r.discard(Refs)
		}
	case "worktree":
		g.worktree()
	case "submodule":
		if g.first("deinit", "update") && g.has("-f", "--force") {
			r.discard(Work)
		}
	case "apply":
		if g.has("-R", "--reverse") && !g.has("--check", "--stat", "--numstat", "--summary") &&
			!(g.has("--cached") && !g.has("--index")) {
			r.discard(Work)
		}
	case "checkout-index":
		if g.has("-f", "--force") {
			r.discard(Work)
		}
	case "read-tree":
		if g.has("--reset") || g.has("-u") {
			r.discard(Work)
		}
	case "remote":
		if g.first("prune", "remove", "rm") && g.has("--mirror") {
			r.discard(Refs)
		}
	}
	return false
}

func (r *reader) discard(what string) { r.out.Discards = append(r.out.Discards, Discard{What: what}) }

// isMain reports whether a branch is one that others build on by its name. To give it another one takes it away.
func isMain(branch string) bool {
	return slices.Contains([]string{"main", "master", "trunk", "develop"}, branch)
}

// gitLine reads the options in front of the subcommand, the subcommand, and its own.
func (r *reader) gitLine() *gitLine {
	g := &gitLine{r: r}
	args := r.Argv[1:]
	if sub, ok := strings.CutPrefix(r.Name, "git-"); ok {
		g.sub = sub
	}
	for g.sub == "" && len(args) > 0 {
		w := args[0]
		args = args[1:]
		text := w.Text
		switch {
		case !w.Known && w.Many:
		case !w.Known:
			return g
		case text == "-c" || text == "--config-env":
			if len(args) > 0 {
				g.settings = append(g.settings, strings.ToLower(args[0].Text))
				args = args[1:]
			}
		case strings.HasPrefix(text, "-c") && len(text) > 2:
			g.settings = append(g.settings, strings.ToLower(text[2:]))
		case text == "-C" || text == "--git-dir" || text == "--work-tree" || text == "--namespace" ||
			text == "--exec-path" ||
			text == "--super-prefix" || text == "--attr-source":
			args = args[min(1, len(args)):]
			g.elsewhere = g.elsewhere || text != "-C"
		case text == "--help" || text == "-h" || text == "--version" || text == "-v":
			g.shows = true
			return g
		case text == "--":
		case strings.HasPrefix(text, "-"):
			g.elsewhere = g.elsewhere || strings.Contains(text, "=")
		default:
			g.sub = strings.ToLower(text)
		}
	}
	if o := gitValued[g.sub]; o != nil && !o.keeps {
		g.options(args)
	}
	return g
}

// options reads the words behind the subcommand. Git takes options between operands, too.
func (g *gitLine) options(args []program.Word) {
	valued := gitValued[g.sub]
	if valued == nil {
		valued = &gitOptions{short: "-"}
	}
	for i := 0; i < len(args); i++ {
		w := args[i]
		text := w.Text
		switch {
		case !w.Known:
			alone := g.sub == "reset" || g.sub == "clean" // they are given no branch that a line works out
			g.unsure = g.unsure || (w.Many || alone) && g.r.unsure(w)
			if skeleton := w.Skeleton; strings.HasPrefix(skeleton, "-") && !w.Many {
				g.flags = append(g.flags, before(skeleton, "="))
				continue
			}
			g.operands = append(g.operands, w)
		case text == "--":
			g.dashes, g.paths = true, args[i+1:]
			return
		case strings.HasPrefix(text, "--") && len(text) > 2:
			name, _, attached := strings.Cut(text, "=")
			if name == "--help" && i == 0 {
				g.shows = true
			}
			g.flags = append(g.flags, name)
			if !attached && i+1 < len(args) && slices.ContainsFunc(valued.long,
				func(l string) bool { return abbreviates(name, l) }) {
				i++
			}
		case len(text) > 1 && text[0] == '-':
			if text == "-h" && len(args) == 1 {
				g.shows = true
			}
			for j := 1; j < len(text); j++ {
				g.flags = append(g.flags, "-"+text[j:j+1])
				if strings.IndexByte(valued.short, text[j]) >= 0 && text[j] != '-' {
					if j+1 == len(text) {
						i++
					}
					break
				}
			}
		default:
			g.operands = append(g.operands, w)
		}
	}
}

// has reports whether the line has one of the options, long ones abbreviated or not. An option that
// is only known when it runs may be any.
func (g *gitLine) has(names ...string) bool {
	for _, name := range names {
		if long, ok := strings.CutPrefix(name, "--"); ok && !dangerous(name) && g.negates("--no-"+long) {
			return false
		}
	}
	for _, name := range names {
		for _, flag := range g.flags {
			if flag == name || abbreviates(flag, name) {
				return true
			}
		}
	}
	return g.unsure && slices.ContainsFunc(names, dangerous)
}

// negates reports whether the line has an option that switches another one off, abbreviated or not.
func (g *gitLine) negates(option string) bool {
	return slices.ContainsFunc(g.flags, func(f string) bool { return len(f) > len("--no-") && abbreviates(f, option) })
}

// dangerous reports whether an option can make a command throw something away. Other options make it harmless. A word
// that is not known counts as a dangerous option.
func dangerous(option string) bool {
	switch option {
	case "-n", "--dry-run", "-S", "--staged", "--cached", "--check", "--stat", "--numstat", "--summary", "-l",
		"--list", "-a", "--all", "-v", "--analyze":
		return false
	}
	return true
}

// abbreviates reports whether git takes a word for a long option. A name with more in it
// (--force-with-lease) is one of its own.
func abbreviates(word, option string) bool {
	return len(word) > 2 && strings.HasPrefix(word, "--") && strings.HasPrefix(option, word) &&
		strings.HasPrefix(option, "--")
}

// first reports whether the first operand is one of these, or may be.
func (g *gitLine) first(names ...string) bool {
	if len(g.operands) == 0 {
		return false
	}
	w := g.operands[0]
	return slices.Contains(names, w.Lit()) || g.r.unsure(w)
}

// set reports whether -c sets a key, to one of the values or to any.
func (g *gitLine) set(key string, values ...string) bool {
	return slices.ContainsFunc(g.settings, func(s string) bool {
		k, v, _ := strings.Cut(s, "=")
		return k == key && (len(values) == 0 || slices.Contains(values, v))
	})
}

func (g *gitLine) push() {
	if g.has("-n", "--dry-run") {
		return
	}
	forced := g.has("-f", "--force", "--force-with-lease", "--mirror", "--delete", "-d", "--prune") ||
		slices.ContainsFunc(g.flags, func(f string) bool { return strings.HasPrefix(f, "--force") })
	for _, w := range slices.Concat(g.operands, g.paths) {
		forced = forced || moves(w)
	}
	for _, s := range g.settings {
		key, value, _ := strings.Cut(s, "=")
		forced = forced || strings.HasPrefix(key, "remote.") && (strings.HasSuffix(key, ".push") &&
			moves(program.Literal(value, g.r.At)) ||
			strings.HasSuffix(key, ".mirror") && value != "false")
	}
	if forced {
		g.r.discard(RemoteRefs)
	}
}

// moves reports whether a refspec moves or deletes whatever stands there. ":" alone pushes what both have.
func moves(w program.Word) bool {
	text := w.Text
	if !w.Known {
		text = w.Skeleton
	}
	return strings.HasPrefix(text, "+") || strings.HasPrefix(text, ":") && text != ":"
}

// fetch can move local branches: what follows the colon is no branch of a remote.
func (g *gitLine) fetch() {
	forced, prunes := g.has("-f", "--force"), g.has("-p", "--prune")
	for _, w := range slices.Concat(g.operands, g.paths) {
		spec, plus := strings.CutPrefix(w.Text, "+")
		_, to, ok := strings.Cut(spec, ":")
		if ok && !strings.Contains(w.Text, "://") && (plus || forced || prunes && strings.Contains(to, "*")) &&
			!strings.HasPrefix(to, "refs/remotes/") &&
			to != "" &&
			!strings.Contains(before(spec, ":"), "@") && (plus || w.At != first(g.operands).At) {
			g.r.discard(Refs)
			return
		}
	}
}

func first(words []program.Word) program.Word {
	if len(words) == 0 {
		return program.Word{}
	}
	return words[0]
}

func (g *gitLine) stash() {
	switch {
	case g.first("drop", "clear"):
		g.r.discard(Stash)
	case g.first("pop", "apply", "branch", "list", "show", "push", "save", "create", "store", "export", "import"):
	}
}

// checkout overwrites files when it is given some, or told to.
func (g *gitLine) checkout() {
	if g.has("-B") {
		g.r.discard(Refs)
	}
	if g.has("-f", "--force", "--ours", "--theirs", "-p", "--patch", "--pathspec-from-file") {
		g.r.discard(Work)
		return
	}
	if g.dashes && len(g.paths) > 0 {
		d := Discard{What: Work}
		if len(g.operands) == 0 && !g.has("-m", "--merge") {
			d.Only = g.only(g.paths)
		}
		g.r.out.Discards = append(g.r.out.Discards, d)
		return
	}
	if g.has("-b", "-B", "--orphan", "--detach", "-d") || g.dashes || len(g.operands) == 0 {
		return
	}
	if len(g.operands) > 1 {
		// The track option may take direct or inherit as a word of its own.
		if len(g.operands) == 2 && (g.has("-t", "--track") || g.has("--recurse-submodules")) &&
			slices.Contains([]string{"direct", "inherit", "checkout", "on-demand"}, g.operands[0].Lit()) {
			return
		}
		d := Discard{What: Work, Mixed: true}
		if !g.has("-m", "--merge") {
			d.Only = g.only(g.operands)
		}
		g.r.out.Discards = append(g.r.out.Discards, d)
		return
	}
	w := g.operands[0]
	switch {
	case !w.Known:
		if g.unsure {
			g.r.discard(Work)
		}
	case w.Glob || isPathspec(w.Text):
		g.r.out.Discards = append(g.r.out.Discards, Discard{What: Work, Only: g.only(g.operands)})
	case w.Text != "-" && !strings.HasPrefix(w.Text, "@"):
		g.r.out.Discards = append(g.r.out.Discards, Discard{What: Work, IfThere: &w, Only: g.only(g.operands)})
	}
}

// only returns the operands if they are plain names of files in the working tree, else nothing.
func (g *gitLine) only(words []program.Word) []program.Word {
	if g.elsewhere || g.unsure || len(g.settings) > 0 || slices.ContainsFunc(words, func(w program.Word) bool {
		return w.Lit() == "" || strings.HasPrefix(w.Text, ":") || strings.ContainsAny(w.Text, `*?[\`)
	}) {
		return nil
	}
	return words
}

// isPathspec reports whether a word can be no branch.
func isPathspec(text string) bool {
	return text == "." || text == ".." || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") ||
		strings.HasPrefix(text, "/") || strings.HasPrefix(text, ":") || strings.HasSuffix(text, "/") ||
		path.Clean(text) != text || strings.ContainsAny(text, "*?[")
}

func (g *gitLine) worktree() {
	switch {
	case g.first("remove") && g.has("-f", "--force"):
		g.r.discard(Work)
	case g.first("add") && g.has("-B"):
		g.r.discard(Refs)
	}
}

func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}
