package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// desk is a home and a project with settings of agents.
type desk struct {
	t             *testing.T
	home, project string
}

func newDesk(t *testing.T) desk {
	d := desk{t, t.TempDir(), t.TempDir()}
	t.Setenv("HOME", d.home)
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("CODEX_HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	return d
}

func (d desk) write(file, text string) string {
	d.t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(d.home, file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		d.t.Fatal(err)
	}
	return file
}

func (d desk) read(file string) string {
	d.t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(d.home, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

func (d desk) installation(agents ...string) Installation {
	return Installation{Agents: agents, Exe: testExe, Question: time.Minute, Write: true}
}

func (d desk) do(f func(*bytes.Buffer) error) string {
	d.t.Helper()
	var out bytes.Buffer
	if err := f(&out); err != nil {
		d.t.Fatal(err)
	}
	return out.String()
}

func (d desk) install(n Installation) string {
	return d.do(func(b *bytes.Buffer) error { return Install(b, n) })
}

func (d desk) uninstall(n Installation) string {
	return d.do(func(b *bytes.Buffer) error { return Uninstall(b, n) })
}

// mine are settings of a person, in an order and with spaces of their own.
const mine = `{
    "model":   "x",
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}
        ],
        "BeforeTool": [{"matcher": "x", "hooks": []}]
    },
    "a": [1,2,
          3]
}
`

func TestHookInstallAndUninstall(t *testing.T) {
	for agent, at := range settingsFiles {
		if at.plugin != "" {
			continue // TestHookInstallOfAPlugin
		}
		t.Run(agent, func(t *testing.T) {
			d := newDesk(t)
			file := d.write(filepath.Join(at.dir, at.file), mine)
			n := d.installation(agent)
			n.Write = false
			if out := d.install(n); d.read(file) != mine || !strings.Contains(out, "hook --agent "+agent) ||
				!strings.Contains(out, "use --write") {
				t.Errorf("showing changed the file, or did not show: %s", out)
			}
			n.Write = true
			d.install(n)
			got := d.read(file)
			for line := range strings.Lines(mine) { // every line of the person is still there, as it was
				if line = strings.TrimRight(line, "\n"); !strings.Contains(got, strings.TrimRight(line, "]}")) {
					t.Errorf("the line %q is gone: %s", line, got)
				}
			}
			var parsed struct {
				Hooks map[string][]handlerGroup `json:"hooks"`
			}
			if err := json.Unmarshal([]byte(got), &parsed); err != nil {
				t.Fatalf("%v: %s", err, got)
			}
			for _, event := range at.events {
				list := parsed.Hooks[event]
				last := list[len(list)-1]
				want := handlerGroup{at.matcher, []handler{{
					Type: "command", Command: `'` + testExe + `' hook --agent ` + agent + ` --timeout 1m15s`, Timeout: 90 * at.unit,
				}}}
				if at.block {
					want.Hooks[0].OnFailure = "block"
				}
				if diff := cmp.Diff(want, last); diff != "" {
					t.Errorf("%s: %s", event, diff)
				}
			}
			if out := d.install(n); d.read(file) != got || !strings.Contains(out, "already") {
				t.Errorf("the second time changed the file: %s", out)
			}
			backups, err := filepath.Glob(file + ".*.bak")
			if err != nil || len(backups) != 1 || d.read(backups[0]) != mine {
				t.Fatalf("got backups %v, %v, want one with the old text", backups, err)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("got mode %v, %v, want 0640", info.Mode(), err)
			}
			d.uninstall(n)
			if got := d.read(file); got != mine {
				t.Errorf("after uninstall: %s", cmp.Diff(mine, got))
			}
			if out := d.uninstall(n); d.read(file) != mine || !strings.Contains(out, "does not have") {
				t.Errorf("the second time: %s", out)
			}
		})
	}
}

// A question that lasts longer makes the hook wait longer; the flags of a person stay, and so
// does the place. A program that has moved is followed.
func TestHookInstallRenewsWhatIsThere(t *testing.T) {
	d := newDesk(t)
	n := d.installation(clients.ClaudeCode)
	d.install(n)
	const file = ".claude/settings.json"
	edited := strings.ReplaceAll(d.read(file), "--timeout 1m15s", "--timeout 1m15s --ask agent")
	edited = strings.ReplaceAll(edited, testExe, "/old/sandboxd")
	edited = strings.Replace(edited, `"matcher": "*"`, `"matcher": "Bash"`, 1)
	d.write(file, edited)
	n.Question = 10 * time.Minute
	d.install(n)
	want := strings.ReplaceAll(edited, "--timeout 1m15s --ask agent", "--timeout 10m15s --ask agent")
	want = strings.ReplaceAll(strings.ReplaceAll(want, "/old/sandboxd", testExe), `"timeout": 90`, `"timeout": 630`)
	if got := d.read(file); got != want {
		t.Errorf("%s", cmp.Diff(want, got))
	}
	d.uninstall(n)
	if got := strings.TrimSpace(d.read(file)); got != "{}" {
		t.Errorf("got %s, want nothing of ours", got)
	}
}

// A hook of ours without a time to wait gets one: the agent would give up first, and run the call.
func TestHookInstallAddsWhatAHookLacks(t *testing.T) {
	d := newDesk(t)
	n := d.installation(clients.ClaudeCode)
	d.install(n)
	const file, field = ".claude/settings.json", `"timeout": 90`
	whole := d.read(file)
	lacks := regexp.MustCompile(`,\s*"timeout": 90`).ReplaceAllString(whole, "")
	if strings.Contains(lacks, field) || !strings.Contains(lacks, "hook --agent") {
		t.Fatalf("got %s", lacks)
	}
	d.write(file, lacks)
	d.install(n)
	if got := d.read(file); strings.Count(got, field) != strings.Count(whole, field) {
		t.Errorf("%s", cmp.Diff(whole, got))
	}
}

// OpenCode has a file of ours alone, which comes and goes as a whole.
func TestHookInstallOfAPlugin(t *testing.T) {
	d := newDesk(t)
	n := d.installation(clients.OpenCode)
	n.Exe = filepath.Join(d.home, "a 'b' sandboxd")
	d.write(n.Exe, "")
	state := func() State {
		states := States(n.Exe, d.project)
		return states[slices.IndexFunc(states, func(s State) bool { return s.Agent == clients.OpenCode })]
	}
	const file = ".config/opencode/plugins/sandboxd.js"
	if out := d.uninstall(n); !strings.Contains(out, "does not have") || state().Hook != Absent {
		t.Errorf("got %s, %+v", out, state())
	}
	d.install(n)
	text := d.read(file)
	if !strings.Contains(text, string(jsonText(n.command(clients.OpenCode)))) || strings.Contains(text, "@COMMAND@") ||
		state().Hook != Installed {
		t.Errorf("got %s, %+v", text, state())
	}
	if out := d.install(n); !strings.Contains(out, "already") {
		t.Errorf("the second time: %s", out)
	}
	d.write(file, strings.Replace(text, "throw new Error(said", "console.log(said", 1))
	if s := state(); s.Hook != Broken || !strings.Contains(s.Why, "not what sandboxd wrote") {
		t.Errorf("edited: got %+v", s)
	}
	d.install(n)
	if d.read(file) != text || state().Hook != Installed {
		t.Errorf("got %+v", state())
	}
	d.uninstall(n)
	if _, err := os.Stat(filepath.Join(d.home, file)); err == nil {
		t.Error("the file is still there")
	}
	theirs := "export const Mine = async () => ({})\n"
	d.write(file, theirs)
	for name, f := range map[string]func(io.Writer, Installation) error{"install": Install, "uninstall": Uninstall} {
		err := f(&bytes.Buffer{}, n)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "settings_invalid" || d.read(file) != theirs {
			t.Errorf("%s: got %v, want settings_invalid", name, err)
		}
	}
}

// What a person did between install and uninstall stays.
func TestHookUninstallTakesOursAlone(t *testing.T) {
	d := newDesk(t)
	const file = ".claude/settings.json"
	d.write(file, mine)
	n := d.installation(clients.ClaudeCode)
	d.install(n)
	edited := strings.Replace(d.read(file), `"command": "mine"}`,
		`"command": "mine"}, {"type": "command", "command": "'/opt/sand box/sandboxd' hook --agent claude-code"}, {"command": "yours hook --agent claude-code"}`, 1)
	edited = strings.Replace(edited, `"model":   "x"`, `"model": "y", "new": true`, 1)
	d.write(file, edited)
	d.uninstall(n)
	want := strings.Replace(mine, `"model":   "x"`, `"model": "y", "new": true`, 1)
	want = strings.Replace(want, `"command": "mine"}`, `"command": "mine"}, {"command": "yours hook --agent claude-code"}`, 1)
	if got := d.read(file); got != want {
		t.Errorf("%s", cmp.Diff(want, got))
	}
}

func TestHookInstallKeepsComments(t *testing.T) {
	d := newDesk(t)
	const before = `// mine
{
  // the model
  "model": "x", // why
  "hooks": { /* none */ }
  // the end
}
`
	file := d.write(".gemini/settings.json", before)
	n := d.installation(clients.Gemini)
	d.install(n)
	got := d.read(file)
	for _, comment := range []string{"// mine\n", "// the model\n", "// why\n", "/* none */", "// the end\n"} {
		if !strings.Contains(got, comment) {
			t.Errorf("%q is gone: %s", comment, got)
		}
	}
	d.uninstall(n)
	for _, comment := range []string{"// mine\n", "// the model\n", "// why\n", "/* none */", "// the end\n"} {
		if got := d.read(file); !strings.Contains(got, comment) {
			t.Errorf("%q is gone after uninstall: %s", comment, got)
		}
	}
	if _, err := readSettings([]byte(d.read(file)), true); err != nil {
		t.Error(err)
	}
}

func TestHookInstallRefusesWhatItCannotRead(t *testing.T) {
	for _, tt := range []struct{ name, agent, text, want string }{
		{"half", clients.ClaudeCode, `{`, "it is not JSON"},
		{"a mistake in a line", clients.ClaudeCode, "{\n  \"a\": x\n}", "line 2, column 8"},
		{"words", clients.ClaudeCode, `model = "x"`, "it is not JSON"},
		{"a list", clients.ClaudeCode, `[]`, "not a JSON object"},
		{"hooks are a number", clients.ClaudeCode, `{"hooks":1}`, "hooks is not an object"},
		{"an event is no list", clients.ClaudeCode, `{"hooks":{"PreToolUse":{}}}`, "hooks.PreToolUse is not a list"},
		{"a comment, where the agent reads none", clients.ClaudeCode, "{ // x\n}", "comments"},
		{"a comment, where the agent reads none", clients.Codex, "{} // x", "comments"},
		{"a comma too many", clients.ClaudeCode, `{"a":1,}`, "a comma too many"},
		{"a comma too many beside comments", clients.Gemini, "{\"a\":1,} // x", "a comma before a closing bracket"},
		{"two of a name", clients.Gemini, `{"hooks":{},"hooks":{}}`, "understand it differently"},
		{"no text", clients.Gemini, "{\"a\":\"\xff\"}", "not valid UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			at := settingsFiles[tt.agent]
			file := d.write(filepath.Join(at.dir, at.file), tt.text)
			other := d.write(".codex/other", "")
			err := Install(&bytes.Buffer{}, d.installation(tt.agent))
			e, ok := errors.AsType[*tool.Error](err)
			if !ok || e.Code != "settings_invalid" || !strings.Contains(e.Msg, tt.want) || !strings.Contains(e.Msg, file) {
				t.Errorf("got %v, want settings_invalid with %q", err, tt.want)
			}
			if got := d.read(file); got != tt.text {
				t.Errorf("the file was changed to %q", got)
			}
			if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) > 2 {
				t.Errorf("something was left beside %s: %v, %v", other, files, err)
			}
		})
	}
	if err := Install(&bytes.Buffer{}, Installation{Agents: []string{"vim"}}); err == nil {
		t.Error("an unknown agent was installed")
	}
}

// If one of several cannot be changed, none is, and the error names each.
func TestHookInstallOfSeveralIsOneChange(t *testing.T) {
	d := newDesk(t)
	all := d.installation(clients.Names()...)
	good := d.write(".claude/settings.json", mine)
	d.write(".gemini/settings.json", "{")
	d.write(".codex/hooks.json", "[")
	err := Install(&bytes.Buffer{}, all)
	if err == nil || !strings.Contains(err.Error(), ".gemini/") || !strings.Contains(err.Error(), ".codex/") {
		t.Errorf("got %v, want both files named", err)
	}
	if d.read(good) != mine {
		t.Error("the good file was changed")
	}
	d.write(".gemini/settings.json", "{}")
	d.write(".codex/hooks.json", "{}")
	out := d.install(all)
	for _, want := range []string{".claude/settings.json", ".gemini/settings.json", ".codex/hooks.json", "written", "trusted"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	d.uninstall(all)
	if d.read(good) != mine {
		t.Errorf("%s", cmp.Diff(mine, d.read(good)))
	}
}

// A file that cannot be made fails after others were written: they are put back.
func TestHookInstallPutsBackWhatItWrote(t *testing.T) {
	d := newDesk(t)
	good := d.write(".claude/settings.json", mine)
	if err := os.Symlink(filepath.Join(d.home, "nowhere/else"), filepath.Join(d.home, ".codex")); err != nil {
		t.Fatal(err)
	}
	err := Install(&bytes.Buffer{}, d.installation(clients.ClaudeCode, clients.Gemini, clients.Codex))
	if err == nil || !strings.Contains(err.Error(), ".codex") {
		t.Fatalf("got %v, want an error about .codex", err)
	}
	if backups, err := filepath.Glob(good + ".*.bak"); err != nil || len(backups) != 1 {
		t.Errorf("got %v, %v: the first file was not written before the last one failed", backups, err)
	}
	if got := d.read(good); got != mine {
		t.Errorf("%s", cmp.Diff(mine, got))
	}
	if _, err := os.Stat(filepath.Join(d.home, ".gemini/settings.json")); err == nil {
		t.Error("a file that was made is still there")
	}
}

func TestHookInstallRefusesReadOnlyFiles(t *testing.T) {
	d := newDesk(t)
	file := d.write(".claude/settings.json", mine)
	if err := os.Chmod(file, 0o444); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"install":   func() error { return Install(&bytes.Buffer{}, d.installation(clients.ClaudeCode)) },
		"uninstall": func() error { return Uninstall(&bytes.Buffer{}, d.installation(clients.ClaudeCode)) },
	} {
		err := f()
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "settings_read_only" || !strings.Contains(e.Hint, "chmod u+w") {
			t.Errorf("%s: got %v, want settings_read_only", name, err)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) != 1 || d.read(file) != mine {
		t.Errorf("something changed: %v, %v", files, err)
	}
}

// What somebody else wrote since the file was read stays.
func TestHookInstallLeavesAFileThatChanged(t *testing.T) {
	d := newDesk(t)
	file := d.write(".claude/settings.json", "theirs")
	saved, err := change{file: file, old: []byte(mine), new: []byte("ours"), mode: 0o600}.write()
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "settings_changed" || e.Hint != "try again" {
		t.Errorf("got %v, want settings_changed", err)
	}
	if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) != 1 || d.read(file) != "theirs" ||
		saved != "" {
		t.Errorf("something changed: %v, %v, %q", files, err, saved)
	}
}

func TestHookInstallOfAProject(t *testing.T) {
	d := newDesk(t)
	n := d.installation(clients.ClaudeCode)
	n.Project = d.project
	d.install(n)
	if _, err := os.Stat(filepath.Join(d.project, ".claude/settings.local.json")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(d.home, ".claude")); err == nil {
		t.Error("the settings of the user were changed")
	}
	if got := States(testExe, d.project); !slices.ContainsFunc(got, func(s State) bool {
		return s.Agent == clients.ClaudeCode && s.Scope == "project" && s.Hook == Broken // testExe is not there
	}) {
		t.Errorf("got %+v", got)
	}
	// A repository is not the person: it must not choose which file is changed.
	other := d.write("elsewhere.json", "{}")
	if err := os.MkdirAll(filepath.Join(d.project, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(d.project, ".gemini/settings.json")); err != nil {
		t.Fatal(err)
	}
	n.Agents = []string{clients.Gemini}
	err := Install(&bytes.Buffer{}, n)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "settings_elsewhere" || d.read(other) != "{}" ||
		!strings.Contains(e.Msg, " is a link to "+other+", which is outside of the project") {
		t.Errorf("got %v, want settings_elsewhere", err)
	}
}

// A link of the person's own, into a collection of dotfiles, stays a link.
func TestHookInstallFollowsLinksOfTheUser(t *testing.T) {
	d := newDesk(t)
	real := d.write("dotfiles/claude.json", mine)
	if err := os.MkdirAll(filepath.Join(d.home, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(d.home, ".claude/settings.json")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	d.install(d.installation(clients.ClaudeCode))
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 || !strings.Contains(d.read(real), "hook --agent") {
		t.Errorf("got %v, %v", info, err)
	}
}

func TestHookStates(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "sandboxd")
	if err := os.WriteFile(exe, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, agent string
		change      func(d desk, file string)
		hook        Hook
		why         string
	}{
		{"nothing", clients.ClaudeCode, func(d desk, file string) { d.write(file, "{}") }, Absent, ""},
		{"no file", clients.ClaudeCode, func(_ desk, file string) { os.Remove(file) }, Absent, ""},
		{"installed", clients.ClaudeCode, func(desk, string) {}, Installed, ""},
		{"no JSON", clients.ClaudeCode, func(d desk, file string) { d.write(file, "{") }, Unknown, "it is not JSON"},
		{
			"an event is gone", clients.ClaudeCode,
			func(d desk, file string) { d.write(file, strings.Replace(d.read(file), "PostToolUse\"", "Other\"", 1)) },
			Broken, "1 of 4 events are missing: sandboxd hook install --write claude-code",
		},
		{
			"the program is gone", clients.Gemini,
			func(d desk, file string) { d.write(file, strings.ReplaceAll(d.read(file), exe, "/gone/sandboxd")) },
			Broken, "/gone/sandboxd is not there",
		},
		{
			"hooks are off", clients.ClaudeCode,
			func(d desk, file string) {
				d.write(file, strings.Replace(d.read(file), "{", `{"disableAllHooks": true,`, 1))
			},
			Broken, "sets disableAllHooks to true",
		},
		{
			"hooks are off", clients.Gemini,
			func(d desk, file string) {
				d.write(file, strings.Replace(d.read(file), "{", `{"hooksConfig": {"enabled": false},`, 1))
			},
			Broken, "sets hooksConfig to false",
		},
		{"not trusted", clients.Codex, func(desk, string) {}, Broken, "only when its person has trusted it"},
		{
			"trusted", clients.Codex,
			func(d desk, file string) {
				d.write(".codex/config.toml", "[hooks.state.\""+file+":pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:x\"\n")
			},
			Installed, "",
		},
	} {
		t.Run(tt.agent+", "+tt.name, func(t *testing.T) {
			d := newDesk(t)
			n := d.installation(tt.agent)
			n.Exe = exe
			d.install(n)
			at := settingsFiles[tt.agent]
			tt.change(d, filepath.Join(d.home, at.dir, at.file))
			for _, s := range States(exe, d.project) {
				if s.Agent == tt.agent && (s.Hook != tt.hook || !strings.Contains(s.Why, tt.why) || tt.why == "" && s.Why != "") {
					t.Errorf("got %+v, want %s and %q", s, tt.hook, tt.why)
				}
			}
		})
	}
}
