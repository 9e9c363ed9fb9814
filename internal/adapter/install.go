package adapter

import (
	"bytes"
	_ "embed" // the plugin
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// settingsFile is how one agent is configured.
type settingsFile struct {
	home     string // the variable that moves dir, if there is one
	dir      string // below the home directory
	file     string // in dir
	project  string // below a project: what is not shared with others, where the agent has that
	events   []string
	matcher  string     // every tool
	unit     int        // the timeout is in seconds times this
	block    bool       // knows onFailure: block
	comments bool       // reads comments
	off      [][]string // members that switch hooks off, each with its value at the end
	trust    string     // in dir: where the agent keeps which hooks its person trusts
	note     string

	// plugin is the text of a file that is ours alone, with @COMMAND@ for the command of the
	// hook; then there are no entries.
	plugin string
}

var settingsFiles = map[string]settingsFile{
	clients.ClaudeCode: {
		home: "CLAUDE_CONFIG_DIR", dir: ".claude", file: "settings.json", project: ".claude/settings.local.json",
		events: []string{"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"}, matcher: "*", unit: 1,
		block: true, off: [][]string{{"disableAllHooks", "true"}},
	},
	clients.Codex: {
		home: "CODEX_HOME", dir: ".codex", file: "hooks.json", project: ".codex/hooks.json",
		events: []string{"PreToolUse", "PermissionRequest", "PostToolUse"}, matcher: "*", unit: 1,
		trust: "config.toml",
		note: "Codex runs a new or changed hook only when its person has trusted it: start codex, and say yes, or " +
			"open /hooks",
	},
	clients.Gemini: {
		dir: ".gemini", file: "settings.json", project: ".gemini/settings.json",
		events: []string{"BeforeTool", "AfterTool"}, matcher: ".*", unit: 1000, comments: true,
		off: [][]string{{"hooksConfig", "enabled", "false"}},
	},
	clients.OpenCode: {
		home: "XDG_CONFIG_HOME", dir: ".config", file: "opencode/plugins/sandboxd.js",
		project: ".opencode/plugins/sandboxd.js", plugin: opencodePlugin,
		note: "OpenCode loads the plugin when it starts next",
	},
}

//go:embed opencode.js
var opencodePlugin string

// withCommand returns a plugin that asks by this command.
func withCommand(plugin, command string) []byte {
	return []byte(strings.Replace(plugin, "@COMMAND@", string(jsonText(command)), 1))
}

// mark returns the first line of a plugin of ours.
func mark(plugin string) string {
	line, _, _ := strings.Cut(plugin, "\n")
	return line
}

// A question ends before the hook gives up, and the hook before the agent does,
// because most agents run the call when the hook is too late.
const (
	margin      = 15 * time.Second
	agentMargin = 15 * time.Second
)

// Installation says what is put into the configuration of agents, or taken out of it.
type Installation struct {
	Agents   []string      // names of package clients
	Exe      string        // path of sandboxd
	Project  string        // absolute path of a project; "" means all projects of the user
	File     string        // settings of the only agent; "" is where the agent looks
	Question time.Duration // how long a question to a person lasts; the hook and the agent wait longer
	Write    bool          // make the change; else it is only shown
}

// Install shows on out the change that puts the hook into the configuration of agents, and
// makes it if it is to be written. Each old file is saved beside the new one. If one of them
// cannot be changed, none is.
func Install(out io.Writer, n Installation) error {
	return n.apply(out, true, func(s *settings, agent string, at settingsFile) error {
		h := handler{
			Type: "command", Command: n.command(agent), Timeout: int((n.giveUp()+agentMargin)/time.Second) * at.unit,
		}
		if at.block {
			h.OnFailure = "block"
		}
		return s.put(at.events, at.matcher, h, ourCommand(n.Exe, agent))
	})
}

func (n Installation) giveUp() time.Duration { return n.Question + margin }

func (n Installation) command(agent string) string {
	return shellQuote(n.Exe) + " hook --agent " + agent + " --timeout " + n.giveUp().String()
}

// Uninstall is the opposite of Install: it takes our entries out and leaves all others.
func Uninstall(out io.Writer, n Installation) error {
	return n.apply(out, false, func(s *settings, agent string, _ settingsFile) error {
		s.take(ourCommand(n.Exe, agent))
		return nil
	})
}

// change is what becomes of one file.
type change struct {
	file     string
	old, new []byte
	mode     fs.FileMode
	absent   bool // there was no file
	note     string
}

func (n Installation) apply(
	out io.Writer, install bool, edit func(*settings, string, settingsFile) error,
) error {
	same := "does not have the hook"
	if install {
		same = "has the hook already"
	}
	var changes []change
	var errs []error
	for _, agent := range n.Agents {
		c, err := n.plan(agent, install, edit)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		changes = append(changes, c)
	}
	if len(errs) > 0 {
		return firstOf(errs)
	}
	return n.finish(out, changes, install, same)
}

// finish shows changes, and makes them if they are to be written.
func (n Installation) finish(out io.Writer, changes []change, install bool, same string) error {
	changed := 0
	for _, c := range changes {
		diff := udiff.Unified(c.file, c.file, string(c.old), string(c.new))
		if diff == "" {
			diff = c.file + " " + same + "\n"
		} else {
			changed++
		}
		if _, err := io.WriteString(out, diff); err != nil {
			return err
		}
	}
	if changed == 0 {
		return nil
	}
	if !n.Write {
		_, err := fmt.Fprintln(out, "nothing was changed; use --write to make this change")
		return err
	}
	for i, c := range changes {
		saved, err := c.write()
		if err != nil {
			return errors.Join(err, undo(changes[:i]))
		}
		if saved != "" {
			fmt.Fprintf(out, "the old file is %s\n", saved)
		}
	}
	_, err := fmt.Fprintln(out, "written")
	for _, c := range changes {
		if install && c.note != "" && !bytes.Equal(c.old, c.new) {
			_, err = fmt.Fprintln(out, c.note)
		}
	}
	return err
}

// firstOf is one error of several, which says that there are more.
func firstOf(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	var e *tool.Error
	if !errors.As(errs[0], &e) {
		return errors.Join(errs...)
	}
	all := *e
	for _, err := range errs[1:] {
		all.Msg += "; " + err.Error()
	}
	return &all
}

// plan returns the change of the file of one agent.
func (n Installation) plan(
	agent string, install bool, edit func(*settings, string, settingsFile) error,
) (change, error) {
	at, ok := settingsFiles[agent]
	if !ok {
		return change{}, unknownAgent(agent)
	}
	c := change{note: at.note}
	var err error
	if c.file, err = n.path(at); err != nil {
		return c, err
	}
	if c.old, err = os.ReadFile(c.file); errors.Is(err, fs.ErrNotExist) {
		c.absent = true
	} else if err != nil {
		return c, err
	}
	if c.mode, err = writable(c.file, c.absent); err != nil {
		return c, err
	}
	c.new = c.old
	if at.plugin != "" {
		return c, n.planPlugin(&c, agent, at, install)
	}
	s, err := readSettings(c.old, at.comments)
	if err == nil {
		before := s.text()
		if err = edit(s, agent, at); err == nil && !bytes.Equal(before, s.text()) {
			c.new = s.text()
		}
	}
	if err != nil {
		return c, &tool.Error{
			Code: "settings_invalid", Msg: fmt.Sprintf("%s cannot be changed: %v", c.file, err),
			Hint: "repair the file first; nothing was changed, in no file",
		}
	}
	return c, nil
}

// planPlugin writes a file that is ours alone, or removes it.
func (n Installation) planPlugin(c *change, agent string, at settingsFile, install bool) error {
	if !c.absent && !bytes.HasPrefix(c.old, []byte(mark(at.plugin))) {
		return &tool.Error{
			Code: "settings_invalid", Msg: c.file + " cannot be changed: it is not a file of sandboxd",
			Hint: "give it another name; nothing was changed, in no file",
		}
	}
	if c.new = nil; install {
		c.new = withCommand(at.plugin, n.command(agent))
	}
	return nil
}

// path returns the settings file of an agent, without links.
func (n Installation) path(at settingsFile) (string, error) {
	file := n.File
	switch {
	case file != "":
	case n.Project != "":
		file = filepath.Join(n.Project, at.project)
	default:
		dir, err := at.userDir()
		if err != nil {
			return "", err
		}
		file = filepath.Join(dir, at.file)
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return file, nil // it is not there yet
	}
	if n.Project != "" && n.File == "" {
		project, err := filepath.EvalSymlinks(n.Project)
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(real, project+"/") {
			return "", &tool.Error{
				Code: "settings_elsewhere",
				Msg:  fmt.Sprintf("%s is a link to %s, which is outside of the project", file, real),
				Hint: "a project must not decide which file is changed; remove the link, or name the file with --file",
			}
		}
	}
	return real, nil // a link into a dotfiles repository stays a link
}

// userDir returns where the settings of the user are.
func (at settingsFile) userDir() (string, error) {
	if at.home != "" {
		if dir := os.Getenv(at.home); filepath.IsAbs(dir) {
			return dir, nil
		}
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, at.dir), err
}

// writable returns the mode of a file that may be changed. A file that nobody may write is one that somebody wants
// to stay as it is, also for root.
func writable(file string, absent bool) (fs.FileMode, error) {
	if absent {
		return 0o600, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	mode := info.Mode().Perm()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err == nil {
		err = f.Close()
	}
	if err == nil && mode&0o222 == 0 {
		err = errors.New("it is read-only")
	}
	if err != nil {
		return 0, &tool.Error{
			Code: "settings_read_only", Msg: fmt.Sprintf("%s cannot be changed: %v", file, err),
			Hint: "change it where it comes from, or make it writable with chmod u+w; nothing was changed, in no file",
		}
	}
	return mode, nil
}

// write saves the old text beside the file, under a name that is free, and puts the new text
// in its place in one step. It returns where the old text is.
func (c change) write() (saved string, err error) {
	if bytes.Equal(c.old, c.new) {
		return "", nil
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return "", err
	}
	if now, err := os.ReadFile(c.file); err == nil && !bytes.Equal(now, c.old) {
		return "", &tool.Error{
			Code: "settings_changed", Msg: c.file + " was changed by somebody else just now", Hint: "try again",
		}
	}
	if !c.absent {
		f, err := c.backup()
		if err != nil {
			return "", fmt.Errorf("save the old file: %w", err)
		}
		saved = f.Name()
		_, err = f.Write(c.old)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return "", fmt.Errorf("save the old file: %w", err)
		}
	}
	if c.new == nil {
		return saved, os.Remove(c.file)
	}
	return saved, replaceFile(c.file, c.new, c.mode)
}

// backup returns a new file beside the old one.
func (c change) backup() (*os.File, error) {
	for {
		name := fmt.Sprintf("%s.%s.bak", c.file, time.Now().UTC().Format("20060102T150405.000000000"))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, c.mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func replaceFile(file string, text []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".sandboxd-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once it is renamed
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return fmt.Errorf("write %q: %w", tmp.Name(), err)
	}
	return os.Rename(tmp.Name(), file)
}

// undo puts back what was written before a later file failed.
func undo(changes []change) error {
	var errs []error
	for _, c := range changes {
		switch {
		case bytes.Equal(c.old, c.new):
		case c.absent:
			errs = append(errs, os.Remove(c.file))
		default:
			errs = append(errs, replaceFile(c.file, c.old, c.mode))
		}
	}
	return errors.Join(errs...)
}
