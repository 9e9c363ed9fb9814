package adapter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/internal/clients"
)

// State says whether one settings file of an agent has the hook.
type State struct {
	Agent string `json:"agent"`
	Scope string `json:"scope"` // user or project
	File  string `json:"file"`
	Hook  Hook   `json:"hook"`
	Why   string `json:"why,omitempty"` // what is wrong, and what to do

	Version string `json:"version,omitempty"`       // of the agent that is installed, if that is known
	Table   string `json:"table_version,omitempty"` // of the agent from which its table of tools was made
}

// Hook is whether the hook is there.
type Hook string

// What can be said of a hook.
const (
	Installed Hook = "installed"
	Absent    Hook = "absent"
	Broken    Hook = "broken" // it is there, and does not work
	Unknown   Hook = "unknown"
)

// States returns the states of all agents: of the user's settings, and of those of the project where there are any.
func States(exe, project string) []State {
	var out []State
	for _, c := range clients.All() {
		at := settingsFiles[c.Name]
		version := c.Installed(onPath(c.Program))
		for _, dir := range []string{"", project} {
			n := Installation{Exe: exe, Project: dir}
			s := n.state(c, at)
			s.Version, s.Table = version, c.Version
			if dir == "" || s.Hook != Absent {
				out = append(out, s)
			}
		}
	}
	return out
}

// pluginState returns the state of a file that is ours alone.
func (n Installation) pluginState(s State, at settingsFile, text []byte) State {
	s.Hook = Installed
	before, after, _ := strings.Cut(at.plugin, "@COMMAND@")
	command, intact := bytes.CutPrefix(text, []byte(before))
	command, same := bytes.CutSuffix(command, []byte(after))
	again := "sandboxd hook install --write " + s.Agent
	m := program().FindStringSubmatch(textOf(command))
	switch {
	case !intact || !same || m == nil:
		s.Hook, s.Why = Broken, "the file is not what sandboxd wrote: "+again
	case filepath.IsAbs(programOf(m)):
		if _, err := os.Stat(programOf(m)); err != nil {
			s.Hook, s.Why = Broken, fmt.Sprintf("%s is not there: %s", programOf(m), again)
		}
	}
	return s
}

// trusted reports whether the agent has been told to run what this file names. It keeps that
// by the path of the file.
func (at settingsFile) trusted(file string) bool {
	dir, err := at.userDir()
	if err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(dir, at.trust))
	return err == nil && bytes.Contains(text, []byte(file+":pre_tool_use:"))
}

// onPath returns where a program is, or "".
func onPath(name string) string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

func (n Installation) state(c clients.Client, at settingsFile) State {
	s := State{Agent: c.Name, Scope: "user", Hook: Unknown}
	if n.Project != "" {
		s.Scope = "project"
	}
	file, err := n.path(at)
	if s.File = file; err != nil {
		s.Why = err.Error()
		return s
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		s.Hook = Absent
		return s
	}
	if at.plugin != "" && err == nil {
		return n.pluginState(s, at, text)
	}
	var have *settings
	if err == nil {
		have, err = readSettings(text, at.comments)
	}
	if err != nil {
		s.Why = fmt.Sprintf("the file cannot be read: %v", err)
		return s
	}
	count, command := have.has(at.events, ourCommand(n.Exe, c.Name))
	again := "sandboxd hook install --write " + c.Name
	if n.Project != "" {
		again = "sandboxd hook install --project --write " + c.Name
	}
	switch {
	case count == 0:
		s.Hook = Absent
		return s
	case count < len(at.events):
		s.Hook = Broken
		s.Why = fmt.Sprintf("%d of %d events are missing: %s", len(at.events)-count, len(at.events), again)
		return s
	}
	s.Hook = Installed
	if m := program().FindStringSubmatch(command); m != nil {
		if path := programOf(m); filepath.IsAbs(path) {
			if _, err := os.Stat(path); err != nil {
				s.Hook, s.Why = Broken, fmt.Sprintf("%s is not there: %s", path, again)
			}
		}
	}
	if at.trust != "" && !at.trusted(file) {
		s.Hook, s.Why = Broken, at.note
	}
	for _, off := range at.off {
		if last := len(off) - 1; have.is(off[last], off[:last]...) {
			s.Hook, s.Why = Broken, fmt.Sprintf("the agent runs no hooks: the file sets %s to %s", off[0], off[last])
		}
	}
	return s
}
