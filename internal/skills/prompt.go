package skills

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/skills/front"
)

// Bounds of the list in the system prompt: 500 tokens of four bytes (K-18).
const (
	listBytes       = 2000
	descriptionMost = 250
)

// List returns the list of skills for the model, as far as it fits the bounds.
func (s Set) List() string {
	var b strings.Builder
	left := 0
	for _, k := range s.Skills {
		if !k.UserInvocable || !k.Available {
			continue
		}
		if line := k.line() + "\n"; left == 0 && b.Len()+len(line) <= listBytes {
			b.WriteString(line)
		} else {
			left++
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// line returns the line of one skill: "- name hint: description TRIGGER when: ...".
func (k Skill) line() string {
	line := "- " + oneLine(k.Name)
	if hint := oneLine(val(k.ArgumentHint)); hint != "" {
		line += " " + hint
	}
	line += ": " + clip(oneLine(k.Description), descriptionMost)
	if when := oneLine(val(k.WhenToUse)); when != "" {
		line += " TRIGGER when: " + clip(when, descriptionMost)
	}
	return line
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// clip shortens a text to so many characters.
func clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Prompt reads the text of a skill from its file.
func (k Skill) prompt() (text string, err error) {
	if k.Source == Builtin {
		return k.text, nil
	}
	err = k.place.user.Do(func() error {
		open, err := k.place.open()
		if err != nil {
			return err
		}
		defer open.close()
		file, _, err := open.read(true)
		if err != nil {
			return err
		}
		text = k.body(file)
		return nil
	})
	return text, err
}

var link = lazyregexp.New(`\]\((?:\./)?([^)\s#:/][^)\s#:]*)`)

// body returns the prompt in the text of a SKILL.md. Relative links to supporting files become absolute.
func (k Skill) body(file string) string {
	text := strings.TrimSpace(strings.ToValidUTF8(front.Parse(file).Body, "\uFFFD"))
	return link().ReplaceAllStringFunc(text, func(found string) string {
		name := link().FindStringSubmatch(found)[1]
		if _, here := slices.BinarySearch(k.SupportingFiles, name); !here {
			return found
		}
		return "](" + filepath.Join(k.place.dir, name)
	})
}

const argumentsMark = "$ARGUMENTS"

// with inserts the arguments into a prompt: at $ARGUMENTS, or otherwise at its end.
func with(prompt, args string) string {
	switch {
	case strings.Contains(prompt, argumentsMark):
		return strings.ReplaceAll(prompt, argumentsMark, args)
	case args == "":
		return prompt
	}
	return prompt + "\n\n" + args
}
