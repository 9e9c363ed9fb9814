package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/skills/front"
)

// specified lists the fields of the Agent Skills specification.
var specified = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools"}

// specification reports what violates the Agent Skills specification but none of the other rules.
func (p *pack) specification(m front.Matter) {
	var b strings.Builder
	for line, f := 1, 0; f < len(m.Fields); line++ { // each field at its line of the file
		if line < m.Fields[f].Line {
			b.WriteByte('\n')
			continue
		}
		b.WriteString(m.Fields[f].Key + ":" + m.Fields[f].Raw + "\n")
		line += strings.Count(m.Fields[f].Raw, "\n")
		f++
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(b.String()), &root); err != nil {
		p.find("SPEC-01", Medium, skillFile, 0, "Put quotes around values that begin with [ or {, or hold `: `.",
			"A reader of YAML refuses it: %s.", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	p.repeated(&root)
	for _, f := range m.Fields {
		if !slices.Contains(specified, f.Key) {
			p.find("SPEC-02", Low, skillFile, f.Line,
				"Leave it where its readers are known, or move it below metadata.",
				"%q is no field of the specification.", f.Key)
		}
	}
	if n := utf8.RuneCountInString(m.Text("compatibility")); n > 500 {
		p.find("SPEC-03", Medium, skillFile, 0, "Shorten it.", "compatibility is %d characters (max 500).", n)
	}
	f, _ := m.Get("allowed-tools")
	if tools := f.Text(); strings.ContainsAny(tools, ",[\n") || strings.HasPrefix(tools, "-") {
		p.find("SPEC-04", Low, skillFile, f.Line, "Put spaces between the tools.",
			"allowed-tools is another list than words with spaces between them.")
	}
	if n := strings.Count(strings.TrimSpace(m.Body), "\n") + 1; n > 500 {
		p.find("SPEC-05", Low, skillFile, 0, "Move parts into files that SKILL.md names.",
			"The text has %d lines (max 500).", n)
	}
}

// repeated reports keys that occur twice in a mapping, because YAML parsers refuse them.
func (p *pack) repeated(n *yaml.Node) {
	seen := map[string]int{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode {
			key := child.ShortTag() + child.Value
			if seen[key] == 1 {
				p.find("SPEC-01", Medium, skillFile, child.Line, "Keep one of them.",
					"A reader of YAML refuses it: the key %q stands twice.", clip(child.Value))
			}
			seen[key]++
		}
		p.repeated(child)
	}
}

var (
	rootRef = lazyregexp.New(`\{project-root\}/([A-Za-z0-9_./-]*[A-Za-z0-9_/-])`)
	execRef = lazyregexp.New(`\bexec="([^"]+)"`)
	// absolute matches an absolute path into somebody's home directory. With <user>, ... or $HOME in it, it is valid
	// on any machine.
	absolute = lazyregexp.New(`(?:^|[\s"'(=` + "`" + `])((?:/Users/|/home/|[A-Za-z]:\\+)` +
		`[\pL\pN_][^\s"')` + "`" + `]*)`)
)

// references reports references in a line that lead to no file.
func (p *pack) references(rel string, n int, line string) {
	if strings.Contains(line, "{project-root}/") {
		for _, ref := range rootRef().FindAllStringSubmatch(line, -1) {
			if !strings.Contains(line, "exec=\"{project-root}/"+ref[1]) {
				p.fromRoot(rel, n, ref[1])
			}
		}
	}
	if strings.Contains(line, "exec=") {
		for _, ref := range execRef().FindAllStringSubmatch(line, -1) {
			if target := p.target(rel, ref[1]); target != "" && !exists(target) {
				p.find("REF-02", Medium, rel, n, "Mend the path, or add the file.",
					"exec target %q does not exist.", ref[1])
			}
		}
	}
	if strings.Contains(line, "/Users/") || strings.Contains(line, "/home/") || strings.Contains(line, `:\`) {
		if ref := absolute().FindStringSubmatch(line); ref != nil {
			p.find("REF-03", Low, rel, n, "Use a path relative to the package.",
				"%q is a path of one machine.", clip(ref[1]))
		}
	}
}

// fromRoot checks a reference to a file of the project. All references below one missing directory make one finding,
// because often a later step creates the directory.
func (p *pack) fromRoot(rel string, n int, ref string) {
	project := p.project()
	if exists(filepath.Join(project, ref)) {
		return
	}
	absent := filepath.Dir(filepath.Clean(ref))
	if absent == "." || exists(filepath.Join(project, absent)) {
		p.find("REF-01", Medium, rel, n, "Mend the path, or add the file.", "%q does not exist.", "{project-root}/"+ref)
		return
	}
	for up := filepath.Dir(absent); up != "." && !exists(filepath.Join(project, up)); up = filepath.Dir(absent) {
		absent = up
	}
	if !slices.Contains(p.absent, absent) {
		p.absent = append(p.absent, absent)
		p.find("REF-01", Medium, rel, n,
			"Mend the path, or add the directory. Other references to what is below it are not listed.",
			"%q does not exist, nor does the directory %q.", "{project-root}/"+ref, "{project-root}/"+absent)
	}
}

// csv checks the cells of a CSV file that name files of the project.
func (p *pack) csv(rel, text string) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		for cell := range strings.SplitSeq(line, ",") {
			cell = strings.Trim(strings.TrimSpace(cell), `"`)
			ext := filepath.Ext(cell)
			if !strings.ContainsRune(cell, '/') || ext != ".md" && ext != ".yaml" && ext != ".yml" && ext != ".csv" {
				continue
			}
			if target := p.target(rel, cell); target != "" && !exists(target) {
				p.find("REF-04", Medium, rel, n, "Mend the path, or add the file.", "%q does not exist.", clip(cell))
			}
		}
	}
}

// target returns the path that a reference leads to: below the project, or beside the file. "" means that it is
// unknown.
func (p *pack) target(rel, ref string) string {
	if rest, is := strings.CutPrefix(ref, "{project-root}/"); is {
		return filepath.Join(p.project(), rest)
	}
	if strings.ContainsAny(ref, "{}$*?<>\x00") || strings.Contains(ref, "://") {
		return ""
	}
	if filepath.IsAbs(ref) {
		return ref
	}
	beside := filepath.Join(p.Dir, filepath.Dir(rel), ref)
	if exists(beside) || strings.HasPrefix(ref, ".") {
		return beside
	}
	return filepath.Join(p.Dir, ref)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// project returns the root directory of the project: that of the nearest git repository, or the working directory.
func (p *pack) project() string {
	for dir := p.Dir; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, ".git")) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return p.cwd
		}
	}
}
