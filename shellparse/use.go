package shellparse

import (
	"net/url"
	"path"
	"strings"
)

// use gives one word its meaning.
func (a *act) use(k kind, f field) {
	switch k {
	case reads:
		a.file(f, Read, false)
	case writes:
		a.file(f, Write, false)
	case both:
		a.file(f, Read, false)
		a.file(f, Write, false)
	case tree:
		a.file(f, Read, true)
	case cuts:
		a.file(f, Write, true)
	case shell:
		a.shellText(f, nil)
	case program, argv:
		a.command([]field{f})
	case chdir:
		a.chdir(f)
	case host:
		a.host(f.lit())
	case urlKind:
		a.url(f)
	case code:
		a.opaque("inline_code", a.cmd.Name+" executes code given in the line, which is not read here", f.at)
	case refuse:
		a.opaque("unknown_option", a.cmd.Name+" is told to run something that is not read here: "+f.text, f.at)
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
		if name, val, ok := strings.Cut(f.text, "="); ok && f.known {
			a.call.env = append(a.call.env, assignment{name: name, value: value{words: []field{f.sub(val)}}, known: !f.glob, at: f.at})
			a.cmd.Env = append(a.cmd.Env, Assign{Name: name, Value: f.sub(val).word()})
		}
	}
}

func (a *act) file(f field, access Access, recursive bool) {
	if f.is("-") {
		return // standard input or output
	}
	a.cmd.Files = append(a.cmd.Files, a.w.file(f, access, recursive, a.sc)...)
}

// chdir moves the rest of the command, not the shell.
func (a *act) chdir(f field) {
	if !a.moved {
		a.sc, a.moved = a.sc.clone(), true
	}
	a.file(f, Read, false)
	a.sc.dirs = moveTo(a.sc.dirs, f)
	a.cmd.Dir = a.sc.dir()
}

func moveTo(from []workdir, f field) []workdir {
	if !f.known || f.glob {
		return []workdir{{}}
	}
	if strings.HasPrefix(f.text, "/") {
		return []workdir{{path: f.text}}
	}
	var out []workdir
	for _, d := range from {
		if d.path != "" {
			d.path = join(d.path, f.text)
		}
		out = append(out, d)
	}
	return out
}

// join keeps ".." where a link could stand in front of it, as the kernel does.
func join(dir, rel string) string {
	if strings.Contains(rel, "..") {
		return dir + "/" + rel
	}
	return path.Join(dir, rel)
}

func (a *act) host(h string) {
	if i := strings.LastIndexByte(h, '@'); i >= 0 {
		h = h[i+1:]
	}
	if i := strings.LastIndexByte(h, ':'); i >= 0 && digits(h[i+1:]) && strings.Count(h, ":") == 1 {
		h = h[:i]
	}
	h = strings.Trim(h, "[]")
	if h != "" {
		a.cmd.Hosts = append(a.cmd.Hosts, h)
	}
}

func (a *act) url(f field) {
	text := f.lit()
	if text == "" {
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
		a.opaque("unknown_option", "a URL that cannot be read: "+text, f.at)
	case u.Scheme == "file" && strings.ContainsAny(text, "{}[]*?"):
		a.cmd.Files = append(a.cmd.Files, File{Path: text, Access: Read, At: f.at}) // curl expands these
	case u.Scheme == "file":
		a.file(f.sub(u.Path), Read, false)
	default:
		a.host(u.Host)
	}
}

// remote is an operand of scp, rsync or git: host:path, a URL, or a local path.
func (a *act) remote(f field, access Access) {
	text := f.text
	colon, slash := strings.IndexByte(text, ':'), strings.IndexByte(text, '/')
	switch {
	case f.known && strings.Contains(text, "://"):
		a.url(f)
	case f.known && colon > 0 && (slash < 0 || colon < slash):
		a.host(text[:colon])
	default:
		a.file(f, access, true)
	}
}

// maybePath is a word of which only its look is known.
func (a *act) maybePath(f field) {
	if f.fd {
		return
	}
	if !f.known {
		if strings.Contains(f.skeleton, " ") {
			return // a sentence
		}
		// It could be anything, a path too; the rules for unknown paths say what
		// follows from it.
		a.cmd.Files = append(a.cmd.Files, File{Path: f.text, Access: Read, At: f.at})
		return
	}
	text := f.text
	switch {
	case text == "" || text == "-" || strings.ContainsAny(text, "\n") || len(text) > 1024:
		return
	case strings.Contains(text, "://"):
		a.url(f)
		return
	case strings.HasPrefix(text, "-"):
		if _, val, ok := strings.Cut(text, "="); ok {
			a.maybePath(f.sub(val))
		} else if i := strings.IndexByte(text, '/'); i > 0 {
			a.maybePath(f.sub(text[i:]))
		}
		return
	case strings.HasPrefix(text, "@"):
		a.maybePath(f.sub(text[1:]))
		return
	}
	if name, val, ok := strings.Cut(text, "="); ok && !strings.Contains(name, "/") {
		a.maybePath(f.sub(val))
		return
	}
	if strings.ContainsAny(text, " ") && !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, ".") {
		return // a sentence
	}
	a.cmd.Files = append(a.cmd.Files, a.w.file(f, Read, true, a.sc)...)
	if strings.ContainsAny(text, "/.") || f.glob {
		a.cmd.Files = append(a.cmd.Files, a.w.file(f, Write, true, a.sc)...)
	}
}

// generic is a command without a table line: it may read and write whatever could
// be a path.
func (a *act) generic(args []field) {
	for _, f := range args {
		a.use(maybe, f)
	}
}

// atFile is text that may name a file after @, as curl takes it.
func (a *act) atFile(f field) {
	if rest, ok := strings.CutPrefix(f.text, "@"); ok && f.known {
		a.file(f.sub(rest), Read, false)
		return
	}
	for _, sep := range []string{"=@", "=<", "@"} {
		if _, rest, ok := strings.Cut(f.text, sep); ok && f.known && (sep != "@" || strings.HasPrefix(rest, "/")) {
			a.file(f.sub(before(rest, ";")), Read, false)
			return
		}
	}
}

// volume is what a container is given of the host.
func (a *act) volume(f field) {
	if !f.known {
		a.file(f, Write, true)
		return
	}
	source := before(f.text, ":")
	if strings.Contains(f.text, "=") {
		source = ""
		for _, part := range strings.Split(f.text, ",") {
			if k, v, _ := strings.Cut(part, "="); k == "src" || k == "source" {
				source = v
			}
		}
	}
	if strings.ContainsAny(source, "/.~") {
		a.file(f.sub(source), Read, true)
		a.file(f.sub(source), Write, true)
	}
}
