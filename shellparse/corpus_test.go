package shellparse

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// corpusLine is one line of the guard's corpora, as far as parsing is concerned.
type corpusLine struct {
	ID, Technique, Command, Cwd, Expect, Profile string
	Code                                         string // of the first reason; "" is any
	Runs                                         bool   // real bash starts rm
	Settings                                     *corpusSettings
}

type corpusSettings struct {
	AllowedCommands, DeniedCommands                  []string
	AllowedReadPaths, AllowedWritePaths, DeniedPaths []string
}

// readCorpora reads the lines of the guard. What is denied there can only be denied
// because of what is found here.
func readCorpora(t *testing.T) []corpusLine {
	t.Helper()
	dir := filepath.Join("..", "guard", "testdata")
	raw, err := os.ReadFile(filepath.Join(dir, "profiles.json"))
	if err != nil {
		t.Fatal(err)
	}
	var profiles map[string]*corpusSettings
	if err := json.Unmarshal(raw, &profiles); err != nil {
		t.Fatal(err)
	}
	var lines []corpusLine
	for _, name := range []string{"commands.jsonl", "guard.jsonl", "differences.jsonl"} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(file)
		sc.Buffer(nil, 1<<22)
		for sc.Scan() {
			var l corpusLine
			if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
				t.Fatal(err)
			}
			if l.Profile != "" {
				l.Settings, l.Cwd = profiles[l.Profile], "/home/dev/app"
			}
			if l.Settings == nil {
				t.Fatalf("%s has no settings", l.ID)
			}
			lines = append(lines, l)
		}
		if err := errors.Join(sc.Err(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// TestX22_FactsOfTheCorpora holds what is found in each line of the corpora against
// what is recorded of it: a line that must be denied has a fact that denies it or is
// refused, and a line that must be allowed is read, and has no fact against it.
func TestX22_FactsOfTheCorpora(t *testing.T) {
	lines := readCorpora(t)
	refused := 0 // at most one ordinary line may be, as in package guard
	for _, l := range lines {
		s, err := Parse(l.Command, Options{Dir: l.Cwd, Home: "/home/dev"})
		var against string
		if err == nil {
			against = l.Settings.against(s)
		}
		if e := (*Error)(nil); l.Code == "parser_difference" && (!errors.As(err, &e) || e.Code != l.Code) {
			t.Errorf("%s: %v, want a refusal %s: %q", l.ID, err, l.Code, l.Command)
		}
		switch {
		case l.Technique == "unknown-names-denied": // the guard looks for names in words
		case l.Expect == "deny" && err == nil && against == "":
			t.Errorf("%s: nothing is found against %q: %q", l.ID, l.Command, starts(s))
		case l.Expect == "allow" && (err != nil || against != ""):
			refused++
			t.Logf("%s: found against %q: %s, %v", l.ID, l.Command, against, err)
		}
	}
	if len(lines) < 3900 || refused > 1 {
		t.Errorf("of %d lines, %d that must be allowed are not", len(lines), refused)
	}
}

// TestX22_WhatBashStartsIsListed: where real bash is recorded to start rm, rm is
// listed, or a program whose name is not known, or the line is refused or opaque.
func TestX22_WhatBashStartsIsListed(t *testing.T) {
	n := 0
	for _, l := range readCorpora(t) {
		if !l.Runs {
			continue
		}
		n++
		s, err := Parse(l.Command, Options{Dir: l.Cwd, Home: "/home/dev"})
		if err != nil || len(s.Opaque) > 0 {
			continue
		}
		if !slices.ContainsFunc(s.Commands, func(c Command) bool { return c.Name == "rm" || c.Name == "" }) {
			t.Errorf("%s: bash starts rm, and it is not in %q: %q", l.ID, starts(s), l.Command)
		}
	}
	if n < 300 {
		t.Errorf("%d lines are recorded to start rm: the test shows too little", n)
	}
}

// withoutFeeds leaves out what cannot be compared: functions.
func withoutFeeds(s *Script) {
	if s == nil {
		return
	}
	for i := range s.Commands {
		if e := s.Commands[i].Effects; e != nil {
			e.Feeds = nil
		}
	}
}

// TestFactsAreWellFormed: all that is found has a place in the text, and a refusal
// says what it is and what to do.
func TestFactsAreWellFormed(t *testing.T) {
	for _, l := range readCorpora(t) {
		s, err := Parse(l.Command, Options{Dir: l.Cwd, Home: "/home/dev"})
		again, errAgain := Parse(l.Command, Options{Dir: l.Cwd, Home: "/home/dev"})
		withoutFeeds(s)
		withoutFeeds(again)
		if !reflect.DeepEqual(s, again) || !reflect.DeepEqual(err, errAgain) {
			t.Errorf("%s: a second reading is another one: %q", l.ID, l.Command)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Code == "" || e.Error() == "" || e.Hint == "" || e.Code == "internal" {
				t.Errorf("%s: %#v: %q", l.ID, err, l.Command)
			}
			continue
		}
		for _, at := range placesOf(s) {
			if at == (Pos{}) {
				continue // not in the text: the home directory of a cd without words
			}
			if at.Offset < 0 || at.End < at.Offset || int(at.End) > len(l.Command) {
				t.Errorf("%s: %+v is outside of %q", l.ID, at, l.Command)
			} else if want := placeIn(l.Command, at); at != want {
				t.Errorf("%s: %+v, want %+v: %q", l.ID, at, want, l.Command)
			}
		}
		for _, o := range s.Opaque {
			if o.Code == "" || o.Message == "" {
				t.Errorf("%s: %+v: %q", l.ID, o, l.Command)
			}
		}
	}
}

// placeIn is a place with the line and the column that its offset has in text.
func placeIn(text string, at Pos) Pos {
	front := text[:at.Offset]
	at.Line = int32(strings.Count(front, "\n") + 1)
	at.Col = int32(len(front) - strings.LastIndexByte(front, '\n'))
	return at
}

// placesOf are the positions of all that a script holds.
func placesOf(s *Script) []Pos {
	var out []Pos
	files := slices.Clone(s.Files)
	for _, c := range s.Commands {
		out = append(out, c.At)
		for _, w := range c.Args {
			out = append(out, w.At)
		}
		files = append(files, c.Files...)
	}
	for _, f := range files {
		out = append(out, f.At)
	}
	for _, o := range s.Opaque {
		out = append(out, o.At)
	}
	return out
}

// against is the first fact that the settings deny, "" if there is none. It knows no
// file system: the corpora name files that are not there.
func (c *corpusSettings) against(s *Script) string {
	pathsMatter := len(c.AllowedReadPaths)+len(c.AllowedWritePaths)+len(c.DeniedPaths) > 0
	for _, o := range s.Opaque {
		if o.Code == "path_extended" {
			continue // PATH=~/bin:$PATH: the guard allows it where the rest is
		}
		if pathsMatter && !o.CommandsOnly || len(c.DeniedCommands) > 0 || c.AllowedCommands != nil {
			return "opaque: " + o.Message
		}
	}
	files := slices.Clone(s.Files)
	for _, cmd := range s.Commands {
		files = append(files, cmd.Files...)
		switch {
		case cmd.Name == "" && (len(c.DeniedCommands) > 0 || c.AllowedCommands != nil):
			return "a program that is not known"
		case c.AllowedCommands == nil && slices.Contains(c.DeniedCommands, cmd.Name):
			return cmd.Name
		case c.AllowedCommands != nil && !cmd.Script && !c.lists(cmd):
			return cmd.Path + " is not listed"
		}
	}
	for _, f := range files {
		if pathsMatter && c.forbids(f) {
			return string(f.Access) + " " + f.Path
		}
	}
	return ""
}

// lists reports whether a program is on the list: a name there is one of the system.
func (c *corpusSettings) lists(cmd Command) bool {
	dir := path.Dir(path.Clean(cmd.Path))
	ofSystem := slices.Contains([]string{"/bin", "/sbin", "/usr/bin", "/usr/sbin"}, dir)
	return slices.Contains(c.AllowedCommands, cmd.Name) && (dir == "." && !strings.Contains(cmd.Path, "/") || ofSystem)
}

func (c *corpusSettings) forbids(f File) bool {
	at := path.Clean("/" + f.Path)
	if !f.Known || ofAProcess(f, at) {
		return true
	}
	for _, d := range c.DeniedPaths {
		if reaches(at, d, f.Glob) || f.Recursive && reaches(d, at, false) {
			return true
		}
	}
	list := c.AllowedReadPaths
	if f.Access == Write {
		list = c.AllowedWritePaths
	}
	inList := func(p string) bool { return reaches(at, p, false) }
	return len(list) > 0 && at != "/dev/null" && !slices.ContainsFunc(list, inList)
}

// ofAProcess reports a path that is another file for each process.
func ofAProcess(f File, at string) bool {
	for _, dir := range []string{"/proc/self", "/proc/thread-self", "/proc/1", "/dev/fd"} {
		if reaches(at, dir, f.Glob) {
			return true
		}
	}
	rest, ok := strings.CutPrefix(at, "/proc/")
	number, _, _ := strings.Cut(rest, "/")
	return ok && strings.Trim(number, "0123456789") == ""
}

// reaches reports whether a path is dir or below it. A pattern is, if one of the names
// that it stands for is.
func reaches(at, dir string, pattern bool) bool {
	have, want := strings.Split(at, "/"), strings.Split(strings.TrimSuffix(dir, "/"), "/")
	if len(have) < len(want) {
		return false
	}
	for i, name := range want {
		if ok, err := path.Match(have[i], name); have[i] != name && !(pattern && (ok || err != nil)) {
			return false
		}
	}
	return true
}
