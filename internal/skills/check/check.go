// Package check is a linter for skill packages. Its rules are fixed; no model is asked.
//
// Fourteen rules (SKILL, WF, PATH, STEP and SEQ) are those of the BMAD method, skills that plan and
// build software step by step. SPEC rules report what violates the Agent Skills specification. REF
// rules report references that lead nowhere, absolute paths, and files that cannot be read. SPEC and
// REF findings are at most MEDIUM.
//
//	c := check.New("", dir) // no prefix of names is demanded; paths are relative to dir
//	packages, err := c.Find() // all below dir, or those of the directories that are named
//	found := c.Check(packages...)
//	check.Sort(found)
//	check.Print(os.Stdout, found, len(packages)) // or Annotate, Summary
//	failed := check.Fails(found)                 // one is CRITICAL or HIGH
//
// Find returns an error only for a named directory that cannot be used. Check returns none: it
// turns what it cannot read into a finding. Summary returns the error of its writer.
//
// Strangers write the files. SKILL.md and the .md, .yaml, .yml and .csv files are each read once,
// with bounds, and none is executed. No file outside of the package is read, not even through a link;
// but whether a referenced path exists is looked up wherever it leads. The functions in report.go
// escape names and texts for where they write them.
//
// A new rule is a line in the table of check.go, a check in rules.go or beside.go, and a row of docs/skills.md. A rule
// about lines also needs its word in cues (rules.go): a line without any of these words is not
// checked.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/sandboxd/sandboxd/internal/skills/front"
)

// Severity is the severity of a finding.
type Severity string

// The severities, the worst first.
const (
	Critical Severity = "CRITICAL"
	High     Severity = "HIGH"
	Medium   Severity = "MEDIUM"
	Low      Severity = "LOW"
)

var severities = []Severity{Critical, High, Medium, Low}

// Finding is one problem at one place.
type Finding struct {
	Skill    string   `json:"skill"` // the package, relative to the working directory
	Rule     string   `json:"rule"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"` // relative to the package
	Line     *int     `json:"line"` // null: the whole file
	Detail   string   `json:"detail"`
	Fix      string   `json:"fix"`
}

// titles maps each rule to what it demands.
var titles = map[string]string{
	"SKILL-01": "SKILL.md exists",
	"SKILL-02": "The front matter has a name",
	"SKILL-03": "The front matter has a description",
	"SKILL-04": "The name has the form of names",
	"SKILL-05": "The name is that of the directory",
	"SKILL-06": "The description says when to use the skill, in at most 1024 characters",
	"SKILL-07": "There is text behind the front matter",
	"WF-01":    "Only SKILL.md has a name",
	"WF-02":    "Only SKILL.md has a description",
	"PATH-02":  "Nothing depends on installed_path",
	"STEP-01":  "Files of steps are named step-NN-words.md",
	"STEP-06":  "Files of steps have no name and no description",
	"STEP-07":  "There are 2 to 10 steps",
	"SEQ-02":   "Nothing says how long it takes",
	"SPEC-01":  "Agent Skills: front matter is YAML",
	"SPEC-02":  "Agent Skills: fields are those of the specification",
	"SPEC-03":  "Agent Skills: compatibility has at most 500 characters",
	"SPEC-04":  "Agent Skills: spaces stand between allowed-tools",
	"SPEC-05":  "Agent Skills: the text has at most 500 lines",
	"REF-01":   "What {project-root} refers to exists",
	"REF-02":   "What exec refers to exists",
	"REF-03":   "No path is absolute",
	"REF-04":   "What a CSV file refers to exists",
	"REF-05":   "Files can be read, and links stay in the package",
}

const maxBeside = 4 << 20 // bytes of a file beside SKILL.md; a larger file is not read

// Checker checks skill packages.
type Checker struct {
	prefix string
	name   *regexp.Regexp
	cwd    string
}

// New returns a checker that demands a prefix of names, and reports paths relative to cwd.
func New(prefix, cwd string) *Checker {
	return &Checker{
		prefix: prefix, cwd: cwd,
		name: regexp.MustCompile(`^` + regexp.QuoteMeta(prefix) + `[a-z0-9]+(-[a-z0-9]+)*$`),
	}
}

// Check checks packages. The findings of each package are sorted: BMAD rules first, then SPEC, then REF; within these,
// as they were found.
func (c *Checker) Check(packages ...Package) []Finding {
	each := make([][]Finding, len(packages))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range packages {
		g.Go(func() error {
			each[i] = c.one(p)
			return nil
		})
	}
	_ = g.Wait() // the functions return no error
	return slices.Concat(each...)
}

func (c *Checker) one(of Package) []Finding {
	skill, err := filepath.Rel(c.cwd, of.Dir)
	if err != nil {
		skill = of.Dir
	}
	p := pack{Checker: c, Package: of, skill: skill}
	p.check()
	slices.SortStableFunc(p.findings, func(a, b Finding) int {
		return cmp.Compare(order(a.Rule), order(b.Rule))
	})
	return p.findings
}

// order returns the rank of a rule: those of the BMAD method come first.
func order(rule string) int {
	switch rule[:4] {
	case "SPEC":
		return 1
	case "REF-":
		return 2
	}
	return 0
}

// Sort sorts findings by severity, and keeps the order of those with the same severity.
func Sort(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
}

// Fails reports whether a strict check fails with these findings.
func Fails(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Severity == Critical || f.Severity == High })
}

// pack is a package during its check.
type pack struct {
	*Checker
	Package
	skill    string
	root     *os.Root
	findings []Finding
	steps    []string // files that describe steps
	absent   []string // missing directories of the project that were reported
}

func (p *pack) find(rule string, s Severity, file string, line int, fix, format string, args ...any) {
	f := Finding{
		Skill: p.skill, Rule: rule, Title: titles[rule], Severity: s, File: file,
		Detail: fmt.Sprintf(format, args...), Fix: fix,
	}
	if line > 0 {
		f.Line = &line
	}
	p.findings = append(p.findings, f)
}

// check reads and checks each file once.
func (p *pack) check() {
	if !p.found {
		p.find("SKILL-01", Critical, skillFile, 0, "Write a SKILL.md: agents begin there.",
			"SKILL.md not found in skill directory.")
		return
	}
	var text string
	root, err := os.OpenRoot(p.Dir)
	if err == nil {
		defer root.Close()
		p.root = root
		text, err = p.read(skillFile, front.MaxFile)
	}
	if err != nil {
		p.find("SKILL-01", Critical, skillFile, 0, "Make it a readable file of at most 1 MiB in the package.",
			"SKILL.md cannot be read: %v.", err)
		return
	}
	p.entry(text)
	p.lines(skillFile, text, true)
	for _, rel := range p.files {
		p.file(rel)
	}
	for _, d := range p.closed {
		p.find("REF-05", Medium, d.rel, 0, "Make it readable.", "It cannot be read: %v.", d.err)
	}
	p.countSteps()
}

func (p *pack) file(rel string) {
	ext := filepath.Ext(rel)
	if ext != ".md" && ext != ".yaml" && ext != ".yml" && ext != ".csv" {
		return
	}
	text, err := p.read(rel, maxBeside)
	if err != nil {
		p.find("REF-05", Medium, rel, 0, "Make it a readable file of at most 4 MiB in the package.",
			"It is not judged: %v.", err)
		return
	}
	if ext == ".csv" {
		p.csv(rel, text)
		return
	}
	if ext == ".md" {
		p.other(rel, text)
	}
	p.lines(rel, text, ext == ".md")
}

// read returns at most so many bytes of a file of the package. It is an error if a link leads out of the package.
func (p *pack) read(rel string, most int64) (string, error) {
	f, err := p.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if pe, ok := err.(*fs.PathError); ok {
			err = pe.Err
		}
		if _, statErr := os.Stat(filepath.Join(p.Dir, rel)); statErr == nil && !errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("it is a link that leads out of the package (%w)", err)
		}
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("it is no file")
	case info.Size() > most:
		return "", fmt.Errorf("it has %d bytes, more than %d", info.Size(), most)
	}
	b := make([]byte, info.Size())
	n, err := io.ReadFull(f, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the file is empty, or was shortened
		err = nil
	}
	return string(b[:n]), err
}
