package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/tool"
)

// hookTarget is how one agent is configured.
type hookTarget struct {
	file    string   // below the home directory
	events  []string //
	matcher string   // every tool
	unit    int      // the timeout is in seconds times this
	block   bool     // knows onFailure: block
	note    string
}

var hookTargets = map[string]hookTarget{
	agentClaude: {file: ".claude/settings.json", events: []string{"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"}, matcher: "*", unit: 1, block: true},
	agentCodex:  {file: ".codex/hooks.json", events: []string{"PreToolUse", "PermissionRequest", "PostToolUse"}, matcher: "*", unit: 1, note: "Codex may want the new hook to be trusted once, with /hooks"},
	agentGemini: {file: ".gemini/settings.json", events: []string{"BeforeTool", "AfterTool"}, matcher: ".*", unit: 1000},
}

// A question ends before the hook gives up, and the hook before the agent does,
// because most agents run the call when the hook is too late.
const (
	hookMargin  = 15 * time.Second
	agentMargin = 15 * time.Second
)

func hookInstallCmd() *cobra.Command {
	var file string
	var write bool
	c := &cobra.Command{
		Use:   "install claude-code|codex|gemini",
		Short: "Put this hook into the configuration of an agent",
		Long: `Shows the change. With --write it makes it, after saving the old file beside it.
The agent is told to wait for the hook longer than a question to a person lasts
(approvals.timeout).`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{agentClaude, agentCodex, agentGemini},
		RunE: func(cmd *cobra.Command, args []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			h, err := loadHouse(nil)
			if err != nil {
				return err
			}
			return installHook(cmd.OutOrStdout(), args[0], exe, file, h.approvalTimeout(), write)
		},
	}
	c.Flags().StringVar(&file, "file", "", "the agent's settings (default: those of the user)")
	c.Flags().BoolVar(&write, "write", false, "make the change")
	return c
}

func installHook(out io.Writer, agent, exe, file string, question time.Duration, write bool) error {
	target, ok := hookTargets[agent]
	if !ok {
		return &tool.Error{Code: "unknown_agent", Msg: fmt.Sprintf("unknown agent %q", agent), Hint: "use claude-code, codex or gemini"}
	}
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		file = filepath.Join(home, target.file)
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // a link into a dotfiles repository stays a link
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	changed, err := withHook(old, target, shellQuote(exe)+" hook --agent "+agent, question)
	if err != nil {
		return &tool.Error{Code: "settings_invalid", Msg: fmt.Sprintf("%s: %v", file, err), Hint: "repair the file first; nothing was changed"}
	}
	diff := udiff.Unified(file, file, string(old), string(changed))
	if diff == "" {
		_, err := fmt.Fprintf(out, "%s has the hook already\n", file)
		return err
	}
	if _, err := io.WriteString(out, diff); err != nil {
		return err
	}
	if !write {
		_, err := fmt.Fprintln(out, "nothing was changed; use --write to make this change")
		return err
	}
	if err := replaceFile(file, old, changed); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.TrimSpace("written. "+target.note))
	return err
}

var timeoutFlag = regexp.MustCompile(` --timeout[ =]\S+`)

// withHook adds the command to settings in which it may be already, perhaps with
// another timeout.
func withHook(old []byte, target hookTarget, command string, question time.Duration) ([]byte, error) {
	settings := map[string]any{}
	if len(strings.TrimSpace(string(old))) > 0 {
		if err := json.Unmarshal(old, &settings); err != nil {
			return nil, err
		}
	}
	hooks, err := objectIn(settings, "hooks")
	if err != nil {
		return nil, err
	}
	giveUp := question + hookMargin
	entry := map[string]any{
		"type": "command", "command": command + " --timeout " + giveUp.String(),
		"timeout": float64(int((giveUp+agentMargin)/time.Second) * target.unit),
	}
	if target.block {
		entry["onFailure"] = "block"
	}
	same := true
	for _, event := range target.events {
		list, ok := hooks[event].([]any)
		if !ok && hooks[event] != nil {
			return nil, fmt.Errorf("hooks.%s is not a list", event)
		}
		have := findHook(list, command)
		if have == nil {
			same = false
			hooks[event] = append(list, map[string]any{"matcher": target.matcher, "hooks": []any{entry}})
			continue
		}
		now := maps.Clone(have)
		maps.Copy(now, entry)
		now["command"] = timeoutFlag.ReplaceAllString(have["command"].(string), "") + " --timeout " + giveUp.String()
		if !maps.Equal(have, now) {
			same = false
			maps.Copy(have, now)
		}
	}
	if same {
		return old, nil
	}
	text, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

func objectIn(m map[string]any, name string) (map[string]any, error) {
	if m[name] == nil {
		m[name] = map[string]any{}
	}
	c, ok := m[name].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", name)
	}
	return c, nil
}

// findHook is the entry of a command, with whatever flags; nil if there is none.
func findHook(list []any, command string) map[string]any {
	for _, group := range list {
		g, _ := group.(map[string]any)
		hooks, _ := g["hooks"].([]any)
		for _, hook := range hooks {
			h, _ := hook.(map[string]any)
			if c, _ := h["command"].(string); c == command || strings.HasPrefix(c, command+" ") {
				return h
			}
		}
	}
	return nil
}

// replaceFile saves the old text beside the file, under a name that is free, and
// puts the new text in its place in one step.
func replaceFile(file string, old, changed []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if old != nil {
		backup := fmt.Sprintf("%s.%s.bak", file, time.Now().UTC().Format("20060102T150405.000"))
		f, err := os.OpenFile(backup, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return fmt.Errorf("save the old file: %w", err)
		}
		if _, err := f.Write(old); err != nil {
			return errors.Join(fmt.Errorf("save the old file: %w", err), f.Close())
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("save the old file: %w", err)
		}
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".sandboxd-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once it is renamed
	_, err = tmp.Write(changed)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return fmt.Errorf("write %q: %w", tmp.Name(), err)
	}
	return os.Rename(tmp.Name(), file)
}
