package check

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/skills/front"
)

var (
	trigger  = lazyregexp.New(`(?i)use\s+(?:when|if)\b`)
	stepName = lazyregexp.New(`^step-\d{2}[a-z]?-[a-z0-9-]+\.md$`)
	estimate = lazyregexp.New(`(?i:takes?\s+\d+\s*min|~\s*\d+\s*min|estimated\s+time)|\bETA\b`)
)

const (
	maxName        = 64
	maxDescription = 1024
	fixName        = "Use lower-case letters, digits and single hyphens, at most 64 characters."
)

// entry checks SKILL.md.
func (p *pack) entry(text string) {
	m := front.Parse(text)
	if m.Closed && !front.Parse(text[:min(len(text), front.MaxMatter)]).Closed {
		p.find("SKILL-01", Critical, skillFile, 0, "Shorten the front matter to at most 64 KiB.",
			"SKILL.md is no skill: its front matter does not end within %d bytes.", front.MaxMatter)
	}
	name := p.needed(m, "SKILL-02", "name", "Add `name: "+filepath.Base(p.Dir)+"`.")
	description := p.needed(m, "SKILL-03", "description", "Say what the skill does, and when to use it.")
	if name != "" && (!p.name.MatchString(name) || len(name) > maxName) {
		p.find("SKILL-04", High, skillFile, 0, fixName, "name %q does not match pattern: %s", name, p.name)
	}
	if base := filepath.Base(p.Dir); name != "" && name != base {
		p.find("SKILL-05", High, skillFile, 0, "Rename one of the two.",
			"name %q does not match directory name %q.", name, base)
	}
	if n := utf8.RuneCountInString(description); n > maxDescription {
		p.find("SKILL-06", Medium, skillFile, 0, "Shorten it, and move the rest into the text.",
			"description is %d characters (max %d).", n, maxDescription)
	}
	if description != "" && !trigger().MatchString(description) && m.Text("when-to-use", "when_to_use") == "" {
		p.find("SKILL-06", Medium, skillFile, 0, `Add a sentence that begins with "Use when".`,
			`description does not contain "Use when" or "Use if" trigger phrase.`)
	}
	begun := !m.Closed && strings.HasPrefix(strings.TrimPrefix(text, "\ufeff"), "---")
	if begun || strings.TrimSpace(m.Body) == "" {
		p.find("SKILL-07", High, skillFile, 0, "Write what the agent should do behind the closing ---.",
			"SKILL.md has no content after frontmatter.")
	}
	if m.Closed {
		p.specification(m)
	}
}

// needed reports a required field that is missing or empty, and returns its value.
func (p *pack) needed(m front.Matter, rule, key, fix string) string {
	f, there := m.Get(key)
	value := f.Text()
	switch {
	case !m.Closed || !there:
		p.find(rule, Critical, skillFile, 0, fix, "Frontmatter is missing the `%s` field.", key)
	case value == "":
		p.find(rule, Critical, skillFile, 0, fix, "Frontmatter `%s` field is empty.", key)
	}
	return value
}

// other checks a Markdown file beside SKILL.md.
func (p *pack) other(rel, text string) {
	step := filepath.Dir(rel) == "steps"
	if step {
		p.steps = append(p.steps, rel)
		if base := filepath.Base(rel); !stepName().MatchString(base) {
			p.find("STEP-01", Medium, rel, 0, "Rename it to step-NN-words.md, with two digits.",
				"Filename %q does not match pattern: %s", base, stepName())
		}
	}
	m := front.Parse(text)
	if !m.Closed {
		return
	}
	for _, key := range []struct{ name, rule string }{{"name", "WF-01"}, {"description", "WF-02"}} {
		if _, there := m.Get(key.name); !there {
			continue
		}
		fix := "Take `" + key.name + "` out of its front matter."
		p.find(key.rule, High, rel, 0, fix, "frontmatter contains `%s` — this belongs only in SKILL.md.", key.name)
		if step {
			p.find("STEP-06", Medium, rel, 0, fix, "Step file frontmatter contains `%s`, which the skill has already.",
				key.name)
		}
	}
}

// cue is a word that a rule about lines searches for. at is the position of a letter in it that is rare in texts.
type cue struct {
	word string
	at   int
	fold bool // ignore case
}

// cues holds the words, by their rare letter.
var cues = [256][]cue{
	'_':  {{"installed_path", 9, true}},
	'm':  {{"min", 0, true}, {"estimated", 4, true}},
	'M':  {{"min", 0, true}, {"estimated", 4, true}},
	'T':  {{"ETA", 1, false}},
	'=':  {{"exec=", 4, false}},
	'{':  {{"{project-root}/", 0, false}},
	'/':  {{"/Users/", 0, false}, {"/home/", 0, false}},
	'\\': {{`:\`, 1, false}},
}

// isCue says for each byte whether a word has it as its rare letter.
var isCue = func() (table [256]bool) {
	for letter, words := range cues {
		table[letter] = len(words) > 0
	}
	return table
}()

// suspicious reports whether a rule about lines may find something in a text. It looks at each byte once, because
// most texts hold nothing.
func suspicious(text string) bool {
	for i := range len(text) {
		if !isCue[text[i]] {
			continue
		}
		for _, c := range cues[text[i]] {
			from, end := i-c.at, i-c.at+len(c.word)
			if from >= 0 && end <= len(text) && c.is(text[from:end]) {
				return true
			}
		}
	}
	return false
}

// is compares the last letter first, because most words differ there.
func (c cue) is(text string) bool {
	last := len(text) - 1
	return text[last]|0x20 == c.word[last]|0x20 && (text == c.word || c.fold && strings.EqualFold(text, c.word))
}

// lines checks the lines of a text, without its fenced code.
func (p *pack) lines(rel, text string, fences bool) {
	if !suspicious(text) {
		return
	}
	fence := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		if fences {
			if fence, line = fenced(fence, line); line == "" {
				continue
			}
		}
		if suspicious(line) {
			p.line(rel, n, line)
		}
	}
}

func (p *pack) line(rel string, n int, line string) {
	if strings.Contains(strings.ToLower(line), "installed_path") {
		p.find("PATH-02", High, rel, n, "Use relative paths (`./path` or `../path`) instead.",
			"`installed_path` reference found in content.")
	}
	if estimate().MatchString(line) {
		p.find("SEQ-02", Low, rel, n, "Leave it out: how long it takes depends on who does it.",
			"Time estimate pattern found: %q", clip(strings.TrimSpace(line)))
	}
	p.references(rel, n, line)
}

// fenced tracks fences of code. It returns the fence that is open after a line, and the line if it is not code.
func fenced(fence, line string) (string, string) {
	trimmed := strings.TrimLeft(line, " \t")
	mark := ""
	for _, m := range []string{"```", "~~~"} {
		if strings.HasPrefix(trimmed, m) {
			mark = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, m[:1]))]
		}
	}
	switch {
	case fence == "" && mark != "" && !(mark[0] == '`' && strings.Contains(trimmed[len(mark):], "`")):
		return mark, ""
	case fence == "":
		return "", line
	case strings.HasPrefix(mark, fence) && strings.TrimSpace(trimmed[len(mark):]) == "":
		return "", ""
	}
	return fence, ""
}

func clip(s string) string {
	if utf8.RuneCountInString(s) <= 200 {
		return s
	}
	return string([]rune(s)[:199]) + "…"
}

func (p *pack) countSteps() {
	n := 0
	for _, s := range p.steps {
		if strings.HasPrefix(filepath.Base(s), "step-") {
			n++
		}
	}
	switch {
	case n == 1:
		p.find("STEP-07", Low, "steps/", 0, "Move the step into the file that leads to it.",
			"Only %d step file found — consider inlining into workflow.md.", n)
	case n > 10:
		p.find("STEP-07", Low, "steps/", 0, "Join steps.",
			"%d step files found — more than 10 risks LLM context degradation.", n)
	}
}
