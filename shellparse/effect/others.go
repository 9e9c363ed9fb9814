package effect

import (
	"fmt"
	"io/fs"
	"strings"
)

// readOthers reads the tables that have formats of their own.
func readOthers(files fs.FS, dir string) error {
	text, err := fs.ReadFile(files, dir+"/code.txt")
	if err != nil {
		return err
	}
	all.code = map[string][]needle{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		language, rest, _ := strings.Cut(line, " ")
		does, part, ok := strings.Cut(rest, " ")
		if !ok || part == "" {
			return fmt.Errorf("%s/code.txt: %q is no fact", dir, line)
		}
		all.code[language] = append(all.code[language], needle{does, part})
	}
	text, err = fs.ReadFile(files, dir+"/git.txt")
	if err != nil {
		return err
	}
	gitValued = map[string]*gitOptions{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || line[0] == '#' {
			continue
		}
		if len(f) != 3 {
			return fmt.Errorf("%s/git.txt: %q is no fact", dir, line)
		}
		gitValued[f[0]] = &gitOptions{short: f[1], long: strings.Split(f[2], ","), keeps: f[1] == "keeps"}
	}
	text, err = fs.ReadFile(files, dir+"/makers.txt")
	if err != nil {
		return err
	}
	all.makers = map[string][]*maker{}
	for line := range strings.Lines(string(text)) {
		front, needs, _ := strings.Cut(line, ":")
		f := strings.Fields(front)
		if len(f) < 2 || line[0] == '#' {
			continue
		}
		m := &maker{makes: f[0], needs: strings.Fields(needs)}
		for _, name := range f[1:] {
			all.makers[name] = append(all.makers[name], m)
		}
	}
	return nil
}
