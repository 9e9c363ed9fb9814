package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// runsLater: nothing that the host runs by itself is written silently, at any depth.
func runsLater() []try {
	var out []try
	// Names that a program of the host obeys, each below the root, and how it is changed.
	for _, x := range []struct{ name, text string }{
		{"pkg/x/.envrc", "touch PWNED\n"},
		{"pkg/x/.claude/settings.json", `{"hooks":{}}`},
		{"pkg/x/.vscode/tasks.json", `{"tasks":[]}`},
		{"pkg/x/.mcp.json", `{"mcpServers":{}}`},
		{"pkg/x/.husky/pre-commit", "touch PWNED\n"},
		{"pkg/x/.idea/workspace.xml", "<x/>"},
		{"pkg/x/.cursor/mcp.json", `{}`},
		{"pkg/x/.gemini/settings.json", `{}`},
		{"pkg/x/.codex/config.toml", "x=1\n"},
		{"pkg/x/.devcontainer/devcontainer.json", `{}`},
		{"pkg/x/.zed/tasks.json", `[]`},
		{"pkg/x/.nvim.lua", "x\n"},
		{"pkg/x/.exrc", "x\n"},
		{"pkg/x/mise.toml", "x=1\n"},
		{"pkg/x/.dir-locals.el", "()\n"},
		{"pkg/x/.gdbinit", "x\n"},
		{".git/hooks/pre-commit", "touch PWNED\n"},
		{".git/config", "[core]\n\tfsmonitor = touch PWNED\n"},
	} {
		out = append(out,
			x2("Write to an existing "+x.name, x.name, func(w *world, s string) (string, []byte) {
				b, _ := json.Marshal(map[string]string{"file_path": filepath.Join(w.ws, x.name), "content": x.text})
				return w.outcome(s, "Write", string(b))
			}),
			x2("a program that writes an existing "+x.name, x.name, func(w *world, s string) (string, []byte) {
				return w.outcome(s, "Bash", bash("python3 - <<'E'\nopen(\""+x.name+"\",\"w\").write('''"+x.text+"''')\nE"))
			}),
		)
	}
	for _, x := range []struct{ how, command string }{
		{"removed and made again", "rm -f pkg/x/.envrc; printf 'touch PWNED\\n' > pkg/x/.envrc"},
		{"renamed over", "printf 'touch PWNED\\n' > n; python3 -c 'import os;os.rename(\"n\",\"pkg/x/.envrc\")'"},
		{"linked to another file", "printf 'touch PWNED\\n' > n; python3 -c 'import os;os.unlink(\"pkg/x/.envrc\");os.link(\"n\",\"pkg/x/.envrc\")'"},
		{"written by a script", "printf 'echo touch PWNED > pkg/x/.envrc' > s.sh; sh s.sh"},
		{"written through a link", "python3 -c 'import os;os.symlink(\"pkg/x\",\"l\");open(\"l/.envrc\",\"w\").write(\"touch PWNED\")'"},
		{"copied over by a tree", "mkdir -p t/x && printf 'touch PWNED\\n' > t/x/.envrc; python3 -c 'import shutil;shutil.copytree(\"t\",\"pkg\",dirs_exist_ok=True)'"},
	} {
		out = append(out, x2("an existing .envrc, "+x.how, "pkg/x/.envrc", func(w *world, s string) (string, []byte) {
			return w.outcome(s, "Bash", bash(x.command))
		}))
		if x.how != "linked to another file" { // to unlink a file by Python is asked about, whatever its name is
			out = append(out, plain("an existing file that nothing obeys, "+x.how, strings.ReplaceAll(x.command, ".envrc", "plain.txt")))
		}
	}
	out = append(out, plain("a program that writes an existing file that nothing obeys",
		"python3 -c 'open(\"pkg/x/plain.txt\",\"w\").write(\"touch PWNED\")'"))
	out = append(out, try{"an existing .envrc, another directory in the place of its own", "not there, or told", func(w *world) (string, []byte) {
		w.file(w.ws+"/pkg/x/.envrc", "before\n", 0o644)
		w.own(w.ws)
		return x3("", "pkg/x/.envrc", "python3 -c 'import os;os.rename(\"pkg\",\"old\");os.makedirs(\"pkg/x\");"+
			"open(\"pkg/x/.envrc\",\"w\").write(\"touch PWNED\")'").run(w)
	}})
	// What git obeys that a call leaves behind.
	for _, x := range []struct{ name, command string }{
		{".git/rebase-merge/git-rebase-todo", "mkdir -p .git/rebase-merge && printf 'exec touch PWNED\\n' > .git/rebase-merge/git-rebase-todo"},
		{".git/config.worktree", "printf '[core]\\n\\tfsmonitor = touch PWNED\\n' > .git/config.worktree"},
		{".git/hooks/post-checkout", "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch PWNED\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout"},
	} {
		out = append(out, x3("git's own "+x.name, x.name, "python3 -c 'import subprocess;subprocess.run([\"sh\",\"-c\",\"\"\""+
			strings.ReplaceAll(x.command, "'", "'\\''")+"\"\"\"])'"))
	}
	for _, name := range []string{".envrc", "new/dir/.envrc", ".vscode/tasks.json", "new/.claude/settings.json", ".gdbinit"} {
		out = append(out, x3("a new "+name, name, "mkdir -p \"$(dirname "+name+")\"; python3 -c 'open(\""+name+"\",\"w\").write(\"touch PWNED\")'"))
	}
	// What a call may leave in a git directory, and what git of the host then does.
	for _, x := range []struct{ name, command, git string }{
		{"rebase-apply/0001", "mkdir -p .git/rebase-apply && printf 'From x\\nexec touch PWNED\\n' > .git/rebase-apply/0001", "am --continue"},
		{"sequencer/todo", "mkdir -p .git/sequencer && printf 'exec touch PWNED\\n' > .git/sequencer/todo", "cherry-pick --continue"},
		{"info/attributes", "printf '* filter=x diff=x merge=x\\n' > .git/info/attributes; echo more >> README.md", "add README.md"},
		{"objects/info/alternates", "printf '/nowhere\\n' > .git/objects/info/alternates", "log -p"},
		{"rebase-merge without a list", "mkdir -p .git/rebase-merge && printf 'refs/heads/main\\n' > .git/rebase-merge/head-name; " +
			"printf 'touch PWNED' > .git/rebase-merge/gpg_sign_opt", "rebase --continue"},
	} {
		out = append(out, try{"git's own .git/" + x.name + ", then git " + x.git, "git runs nothing of it", func(w *world) (string, []byte) {
			_, told := w.outcome(w.session(), "Bash", bash(x.command))
			for _, args := range [][]string{{"status"}, {"diff"}, strings.Fields(x.git)} {
				cmd := exec.Command("git", append([]string{"-C", w.ws}, args...)...)
				cmd.Env = append(os.Environ(), "HOME="+w.home, "GIT_EDITOR=true")
				cmd.SysProcAttr = w.credential()
				_ = cmd.Run() // it may refuse what it finds
			}
			if _, err := os.Stat(w.ws + "/PWNED"); err == nil {
				return "BROKEN: git ran it", told
			}
			return "git runs nothing of it", told
		}})
	}
	return out
}

// x2 changes a file of which git has a copy. It holds when the file is as it was, and the answer says why.
func x2(title, name string, act func(w *world, session string) (string, []byte)) try {
	return try{title, "unchanged, and told", func(w *world) (string, []byte) {
		path := filepath.Join(w.ws, name)
		if _, err := os.Stat(path); err != nil {
			w.file(path, "before\n", 0o644)
			w.own(w.ws)
			if !strings.HasPrefix(name, ".git/") { // else it is the only copy, which is asked about for that
				w.git("add", "-f", name)
				w.git("commit", "-qm", "x")
			}
		}
		before, err := os.ReadFile(path)
		w.must(err)
		outcome, told := act(w, w.session())
		after, err := os.ReadFile(path)
		return keptAndTold(name, err == nil && bytes.Equal(before, after), outcome, told), told
	}}
}

// plain does to a file that nothing obeys what another try does to one that something obeys. That is let through: so the
// other try is stopped for the name.
func plain(title, command string) try {
	return try{title, "written", func(w *world) (string, []byte) {
		const name = "pkg/x/plain.txt"
		w.file(filepath.Join(w.ws, name), "before\n", 0o644)
		w.own(w.ws)
		w.git("add", name)
		w.git("commit", "-qm", "x")
		outcome, told := w.outcome(w.session(), "Bash", bash(command))
		after, err := os.ReadFile(filepath.Join(w.ws, name))
		if outcome != contained || err != nil || !strings.Contains(string(after), "touch PWNED") {
			return fmt.Sprintf("%s, with %q in it, %v", outcome, after, err), told
		}
		return "written", told
	}}
}

// x3 makes what is not there. It holds when it is gone again, or a person was asked, or
// the answer names it.
func x3(title, name, command string) try {
	return try{title, "not there, or told", func(w *world) (string, []byte) {
		path := filepath.Join(w.ws, name)
		outcome, told := w.outcome(w.session(), "Bash", bash(command))
		_, err := os.Lstat(path)
		if err == nil && !names(told, name) && outcome == contained {
			return "BROKEN: it is there, and nobody was told", told
		}
		return "not there, or told", told
	}}
}

func keptAndTold(name string, same bool, outcome string, told []byte) string {
	switch {
	case !same:
		return "BROKEN: it changed"
	case outcome == contained && !names(told, name):
		return "BROKEN: nobody was told"
	}
	return "unchanged, and told"
}

// names reports whether a denial in an answer names a file or its directory.
func names(told []byte, name string) bool {
	var r struct {
		Sandbox struct {
			Denials []struct {
				Act string `json:"act"`
			} `json:"denials"`
		} `json:"sandbox"`
		Error *struct {
			Msg string `json:"message"`
		} `json:"error"`
		FinalText string `json:"final_text"`
	}
	if json.Unmarshal(told, &r) != nil {
		return false
	}
	text := r.FinalText
	for _, d := range r.Sandbox.Denials {
		text += d.Act + "\n"
	}
	if r.Error != nil {
		text += r.Error.Msg
	}
	return strings.Contains(text, filepath.Base(name)) || strings.Contains(text, filepath.Dir(name))
}
