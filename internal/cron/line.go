package cron

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/robfig/cron/v3"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Line says when a job runs.
type Line struct{ schedule cron.Schedule }

// maxLine is how many bytes a line may have.
const maxLine = 200

// shorthands are the lines that have a name.
var shorthands = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
	"@yearly": "0 0 1 1 *",
}

// fields are those of a line, each with its parser, so that an error names the field.
var fields = [...]struct {
	name, hint string
	parser     cron.Parser
}{
	{"minute", "minutes are 0 to 59", cron.NewParser(cron.Minute)},
	{"hour", "hours are 0 to 23", cron.NewParser(cron.Hour)},
	{"day of month", "days of the month are 1 to 31", cron.NewParser(cron.Dom)},
	{"month", "months are 1 to 12, or jan to dec", cron.NewParser(cron.Month)},
	{"day of week", "days of the week are 0 (Sunday) to 6, or sun to sat", cron.NewParser(cron.Dow)},
}

// field is what a field may be. The library takes more: "," as nothing at all, and "*-5" as "*".
var field = func() *regexp.Regexp {
	const value = `([0-9]{1,2}|[A-Za-z]{3})`
	const item = `(\*|` + value + `(-` + value + `)?)(/[0-9]{1,2})?`
	return regexp.MustCompile(`^` + item + `(,` + item + `)*$`)
}()

// whole reads a line whose fields are right.
var whole = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// ParseLine reads a line of five fields, or one of the shorthands. A line that never comes is an error.
func ParseLine(text string) (Line, error) {
	if len(text) > maxLine {
		return Line{}, badLine(fmt.Sprintf("the line has %d bytes, %d at most", len(text), maxLine), "")
	}
	words := strings.Fields(text)
	if len(words) > 0 && strings.HasPrefix(words[0], "@") {
		long, ok := shorthands[strings.Join(words, " ")]
		if !ok {
			return Line{}, badLine(fmt.Sprintf("unknown shorthand %q", text),
				"shorthands are "+strings.Join(slices.Sorted(maps.Keys(shorthands)), ", ")+
					"; */5 * * * * is every five minutes")
		}
		words = strings.Fields(long)
	}
	if len(words) != len(fields) {
		return Line{}, badLine(fmt.Sprintf("%q has %d fields, and a line has five", text, len(words)),
			"they are minute, hour, day of month, month and day of week; there are no seconds: a job runs once a "+
				"minute at most")
	}
	for i, w := range words {
		f := fields[i]
		if !field.MatchString(w) {
			return Line{}, badLine(fmt.Sprintf("%s: %q is not understood", f.name, w),
				f.hint+"; write *, 5, 1-5, */15 or a list such as 1,15,30")
		}
		switch _, err := f.parser.Parse(w); {
		case err != nil && strings.ContainsFunc(w, unicode.IsLetter): // "foo" has the form of "jan"
			return Line{}, badLine(fmt.Sprintf("%s: %q is not understood", f.name, w), f.hint)
		case err != nil:
			return Line{}, badLine(fmt.Sprintf("%s: %v", f.name, err), f.hint)
		}
	}
	s, err := whole.Parse(strings.Join(words, " "))
	if err != nil {
		return Line{}, badLine(err.Error(), "")
	}
	l := Line{s}
	if l.After(time.Now()).IsZero() {
		return Line{}, badLine(fmt.Sprintf("%q never comes", text), "no month that it names has that day")
	}
	return l, nil
}

func badLine(msg, hint string) error {
	return &tool.Error{Code: "invalid_schedule", Msg: "invalid schedule: " + msg, Hint: hint}
}

// After returns when the line comes next after t, by the zone of t; zero if it does not within five years.
func (l Line) After(t time.Time) time.Time { return l.schedule.Next(t) }

// maxCounted bounds how long the runs that were missed are counted.
const maxCounted = 100_000

// between returns how often the line comes from one time to another, both included, when it comes at the first.
func (l Line) between(first, last time.Time) int {
	n := 0
	for t := first; !t.After(last) && !t.IsZero() && n < maxCounted; t = l.After(t) {
		n++
	}
	return n
}
