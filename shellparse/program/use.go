package program

import (
	"net/url"
	"strings"
)

// use gives one word its meaning.
func (a *Call) use(k kind, f Word) {
	switch k {
	case reads:
		if rest, ok := strings.CutPrefix(f.Text, "@"); ok && f.Known { // a file of more words, for many programs
			a.File(f.Sub(rest), Read, false)
		}
		a.File(f, Read, false)
	case writes:
		f.Keeps = a.Effects["keeps"]
		a.File(f, Write, false)
	case changes:
		f.Keeps, f.Makes = true, a.Effects["makes"]
		a.File(f, Write, false)
	case makes:
		f.Keeps, f.Makes = true, true
		a.File(f, Write, false)
	case both:
		a.use(reads, f)
		a.use(changes, f)
	case obeyed:
		a.Code(f)
	case tree:
		a.File(f, Read, true)
	case fileNames, treeNames:
		a.listed(k, f)
	case cuts:
		f.Keeps = true // what is cut is an effect
		a.File(f, Write, true)
	case moves:
		a.use(tree, f)
		a.use(cuts, f)
	case shell:
		a.Run(f)
	case program, argv:
		a.Start([]Word{f})
	case chdir:
		a.chdir(f)
	case host:
		a.host(f.Lit())
	case urlKind:
		a.url(f)
	case code:
		a.Inline(f)
	case refuse:
		a.Opaque("unknown_option", a.Name+" is told to run something that is not read here: "+f.Text, f.At)
	case maybe:
		a.maybePath(f)
	case remote:
		a.remote(f, Read)
	case remoteTo:
		a.remote(f, Write)
	case atFile:
		a.atFile(f)
	case volume:
		a.volume(f)
	case env:
		a.Setenv(f)
	}
}

func (a *Call) host(h string) {
	if strings.HasPrefix(h, "+") {
		return // an option of dig
	}
	if _, rest, ok := strings.Cut(h, "://"); ok { // of a proxy
		h = before(rest, "/")
	}
	if i := strings.LastIndexByte(h, '@'); i >= 0 {
		h = h[i+1:]
	}
	if i := strings.LastIndexByte(h, ':'); i >= 0 && AllDigits(h[i+1:]) && strings.Count(h, ":") == 1 {
		h = h[:i]
	}
	h = strings.Trim(h, "[]")
	if h != "" {
		a.Host(h)
	}
}

func (a *Call) url(f Word) {
	text := f.Lit()
	if text == "" {
		return
	}
	if rest, ok := strings.CutPrefix(strings.ToLower(text), "file:"); ok && !strings.HasPrefix(rest, "//") {
		a.File(f.Sub(text[len("file:"):]), Read, false)
		return
	}
	if !strings.Contains(text, "://") {
		if !strings.ContainsAny(before(text, "/"), " ") {
			a.host(before(before(text, "/"), "?"))
		}
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		a.Opaque("unknown_option", "a URL that cannot be read: "+text, f.At)
	case u.Scheme == "file" && strings.ContainsAny(text, "{}[]*?"):
		a.File(Word{Text: text, At: f.At}, Read, false) // curl expands these
	case u.Scheme == "file":
		a.File(f.Sub(u.Path), Read, false)
	case buckets[u.Scheme]: // the name of a bucket or of an entry, which no host has
	default:
		a.host(u.Host)
	}
}

var buckets = set("s3", "s3a", "s3n", "gs", "az", "abfs", "abfss", "wasb", "wasbs", "hdfs", "dbfs", "op", "arn",
	"env", "memory")

// remote is an operand of scp, rsync or git: host:path, a URL, or a local path.
func (a *Call) remote(f Word, access Access) {
	text := f.Text
	colon, slash := strings.IndexByte(text, ':'), strings.IndexByte(text, '/')
	switch {
	case f.Known && strings.Contains(text, "://"):
		a.url(f)
	case f.Known && colon > 0 && (slash < 0 || colon < slash):
		if !inContainers(a.Name) {
			a.host(text[:colon])
		}
	default:
		a.File(f, access, true)
	}
}

// inContainers reports whether NAME:PATH of a program is in a container, and on no host.
func inContainers(name string) bool {
	switch name {
	case "docker", "podman", "nerdctl", "kubectl":
		return true
	}
	return false
}

// pathMax is PATH_MAX of Linux with the final zero: nothing longer names a file.
const pathMax = 4096

// maybePath is a word of which only its look is known.
func (a *Call) maybePath(f Word) {
	if f.Fd {
		return
	}
	if !f.Known {
		// It could be anything, a path too; the rules for unknown paths say what
		// follows from it.
		a.File(Word{Text: f.Text, At: f.At}, Read, false)
		return
	}
	text := f.Text
	switch {
	case text == "" || text == "-" || len(text) >= pathMax:
		return
	case strings.Contains(text, "://"):
		a.maybeURLs(text)
		return
	case strings.HasPrefix(text, "-"):
		if _, val, ok := strings.Cut(text, "="); ok {
			a.maybePath(f.Sub(val))
			return
		}
		slash := strings.IndexByte(text, '/')
		if slash > 0 {
			a.maybePath(f.Sub(text[slash:]))
		}
		if len(text) > 2 && text[1] != '-' && slash != 2 && strings.ContainsAny(text, "/.") {
			a.maybePath(f.Sub(text[2:])) // -ofile.c
		}
		return
	case strings.HasPrefix(text, "@"), strings.HasPrefix(text, "!"):
		a.maybePath(f.Sub(text[1:]))
	default:
		if name, val, ok := strings.Cut(text, "="); ok && !strings.Contains(name, "/") {
			a.maybePath(f.Sub(val))
		}
	}
	if scheme, val, ok := strings.Cut(text, ":"); ok && strings.HasPrefix(val, "/") && !strings.Contains(scheme, "/") {
		a.File(f.Sub(val), Read, true) // man:/path; it may be host:/path
	}
	a.File(f, Read, true)
	if strings.ContainsAny(text, "/.") || f.Glob {
		f.Guess = true
		a.File(f, Write, true)
	}
}

// maybeURLs are the URLs in a word of which only its look is known: with a name in front, several, or with
// marks that the program reads by itself.
func (a *Call) maybeURLs(text string) {
	for part := range strings.SplitSeq(text, ",") {
		scheme, rest, ok := strings.Cut(part, "://")
		if !ok {
			continue
		}
		if scheme = scheme[strings.LastIndexByte(scheme, '=')+1:]; strings.EqualFold(scheme, "file") {
			a.File(Word{Text: before(rest, "?"), Known: true, At: a.At}, Read, false)
			continue
		}
		if end := strings.IndexAny(rest, "/?#\"' "); end >= 0 {
			rest = rest[:end]
		}
		if !buckets[scheme] {
			a.host(rest)
		}
	}
}

// Generic judges the words of a command that no table has: each that could be a path may be read and written.
func (a *Call) Generic(args []Word) {
	for _, f := range args {
		a.use(maybe, f)
	}
}

// atFile is text that may name a file after @, as curl takes it.
func (a *Call) atFile(f Word) {
	if rest, ok := strings.CutPrefix(f.Text, "@"); ok && f.Known {
		a.File(f.Sub(rest), Read, false)
		return
	}
	for _, sep := range []string{"=@", "=<", "@"} {
		if _, rest, ok := strings.Cut(f.Text, sep); ok && f.Known && (sep != "@" || strings.HasPrefix(rest, "/")) {
			a.File(f.Sub(before(rest, ";")), Read, false)
			return
		}
	}
}

// volume is what a container is given of the host.
func (a *Call) volume(f Word) {
	if !f.Known {
		a.File(f, Write, true)
		return
	}
	source := before(f.Text, ":")
	if strings.Contains(f.Text, "=") {
		source = ""
		for _, part := range strings.Split(f.Text, ",") {
			if k, v, _ := strings.Cut(part, "="); k == "src" || k == "source" {
				source = v
			}
		}
	}
	if strings.ContainsAny(source, "/.~") {
		a.File(f.Sub(source), Read, true)
		a.File(f.Sub(source), Write, true)
	}
}
