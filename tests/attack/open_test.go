package attack

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// elsewhere is a try against a daemon of its own, with this configuration.
func elsewhere(name, want, config string, run func(w *world) (string, []byte)) try {
	return try{name, want, func(outer *world) (string, []byte) {
		w := newWorld(outer.t, outer.uid, strings.ReplaceAll(config, "{bin}", bin))
		w.start()
		w.look()
		outcome, told := run(w)
		w.endSessions()
		if harm := w.harm(told); harm != "" {
			outer.t.Errorf("BROKEN: %s", harm)
		}
		return outcome, told
	}}
}

// failOpen: what breaks denies.
func failOpen() []try {
	touch := func(w *world) (string, []byte) { return w.outcome(w.session(), "Bash", bash("touch ran")) }
	// hook is a try with a hook before every call.
	hook := func(name, want, command, rest string) try {
		return elsewhere(name, want, "hooks: {preToolUse: [{name: h, command: '"+command+"'"+rest+"}]}\n", touch)
	}
	canUse := func(name, want, how string) try {
		return elsewhere(name, want, "policy: {canUseTool: {"+how+"}}\n", touch)
	}
	return []try{
		hook("a hook that fails", denied, "exit 1", ""),
		hook("a hook that is killed", denied, "kill -9 $$", ""),
		hook("a hook that answers half an object", denied, "echo {", ""),
		hook("a hook that answers block twice", denied, `echo "{\"block\":true,\"block\":false}"`, ""),
		hook("a hook that answers another case of block", denied, `echo "{\"Block\":true}"`, ""),
		hook("a hook that answers without end", denied, "yes", ", timeout: 3000"),
		hook("a hook that does not end", denied, "sleep 60", ", timeout: 300"),
		hook("a hook whose program is gone", denied, "exec /nowhere/hook", ""),
		hook("a hook that fails and asks then", asked, "exit 1", ", onError: ask"),
		canUse("canUseTool that fails", denied, "command: [/bin/false]"),
		canUse("canUseTool that says something else", denied, "command: [/bin/echo, yes]"),
		elsewhere("canUseTool that is gone", denied, "{}", func(w *world) (string, []byte) {
			judge := w.dir + "/judge"
			w.file(judge, "#!/bin/sh\necho '{\"behavior\": \"allow\"}'\n", 0o755)
			w.file(w.dir+"/config.yaml", "policy: {canUseTool: {command: ["+judge+"]}}\n", 0o600)
			w.own(w.dir)
			if status, said := w.send("o", "POST", "/reload", `{}`, nil); status != 200 {
				w.t.Fatalf("reload: %d %s", status, said)
			}
			w.must(os.Remove(judge))
			return touch(w)
		}),
		canUse("canUseTool that does not end", denied, "command: [/bin/sleep, '60'], timeout: 300ms"),
		canUse("canUseTool at an address where nobody listens", denied, "webhook: 'http://127.0.0.1:1/'"),
		elsewhere("nobody can be asked", asked, "approvals: {approver: false}\n", func(w *world) (string, []byte) {
			return w.outcome(w.session(), "Bash", bash("git push --force origin main"))
		}),
		elsewhere("nobody answers in time", asked, "approvals: {timeout: 200ms}\n", func(w *world) (string, []byte) {
			w.answer = func(question) map[string]any { return nil }
			return w.outcome(w.session(), "Bash", bash("git push --force origin main"))
		}),
		elsewhere("a reload of a broken configuration", denied, `policy: {rules: {deny: ["Bash(touch *)"]}}`,
			func(w *world) (string, []byte) {
				w.file(w.dir+"/config.yaml", "policy: {rules: {deny: [", 0o600)
				w.own(w.dir + "/config.yaml")
				w.send("o", "POST", "/reload", `{}`, nil)
				return touch(w)
			}),
		elsewhere("a reload of Rego that does not compile", denied, `policy: {rules: {deny: ["Bash(touch *)"]}}`,
			func(w *world) (string, []byte) {
				w.file(w.dir+"/rules/r.rego", "package sandboxd.policies.x.y\n\nfindings contains {", 0o600)
				w.file(w.dir+"/config.yaml", "policy: {dirs: ["+w.dir+"/rules]}\n", 0o600)
				w.own(w.dir)
				w.send("o", "POST", "/reload", `{}`, nil)
				return touch(w)
			}),
		elsewhere("the database is removed", refused, "", func(w *world) (string, []byte) {
			s := w.session()
			for _, f := range []string{"", "-wal", "-shm"} {
				w.must(os.Remove(w.dir + "/state/state.db" + f))
			}
			status, told := w.send("a", "POST", "/sessions/"+s+"/calls", `{"tool":"Bash","args":`+bash("touch ran")+`}`, nil)
			if _, err := os.Stat(w.ws + "/ran"); err == nil || status != http.StatusServiceUnavailable {
				return fmt.Sprint(status, err), told
			}
			return refused, told
		}),
		elsewhere("the record is removed", withheld, "", func(w *world) (string, []byte) {
			w.must(os.Remove(w.dir + "/state/audit.jsonl"))
			return touch(w)
		}),
		elsewhere("the private files of sessions are removed", denied, "", func(w *world) (string, []byte) {
			s := w.session()
			_ = os.RemoveAll(w.dir + "/state/cage")
			return w.outcome(s, "Bash", bash("cat ~/.ssh/id_rsa || python3 -c 'open(\""+w.outside+"/new\",\"w\")'"))
		}),
		elsewhere("the launchers are killed", "nothing got out", "", func(w *world) (string, []byte) {
			s := w.session()
			w.outcome(s, "Bash", bash("true"))
			for _, pid := range w.launchers() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			var told []byte
			for range 3 { // the first may meet a launcher that is gone, the last has one that was started after that
				_, told = w.outcome(s, "Bash", bash("python3 -c 'open(\""+w.outside+"/new\",\"w\")'"))
			}
			if len(w.launchers()) == 0 {
				return "no launcher was started again", told
			}
			return "nothing got out", told
		}),
		elsewhere("the daemon is killed while a question waits", "the question waits again", "", func(w *world) (string, []byte) {
			s := w.session()
			first := make(chan struct{})
			w.answer = func(question) map[string]any {
				select {
				case <-first:
				default:
					close(first)
				}
				return nil
			}
			go func() {
				_, _ = w.agent.Call(w.t.Context(), s, "Bash", []byte(bash("git push --force origin main; touch ran")))
			}()
			<-first
			w.signal(syscall.SIGKILL)
			w.serve()
			var list []question
			w.must(w.operator.Do(w.t.Context(), "GET", "/approvals", nil, &list))
			if _, err := os.Stat(w.ws + "/ran"); err == nil || len(list) != 1 {
				return "it ran, or the question is lost", nil
			}
			return "the question waits again", nil
		}),
		{"the hook of another agent, without a daemon", denied, func(w *world) (string, []byte) {
			return w.program(`{"hook_event_name":"PreToolUse","session_id":"x","cwd":"`+w.ws+`","tool_name":"Bash","tool_input":{"command":"ls"}}`,
				[]string{"SANDBOXD_SOCKET=/nowhere"}, "hook", "--timeout", "2s")
		}},
		{"the hook of another agent, with half an object", denied, func(w *world) (string, []byte) {
			return w.program(`{"hook_event_name":"PreToolUse"`, nil, "hook")
		}},
		{"the hook of another agent, with a field twice", denied, func(w *world) (string, []byte) {
			return w.program(w.fill(`{"hook_event_name":"PreToolUse","session_id":"x","cwd":"{ws}","tool_name":"Read","tool_input":{"file_path":"README.md"},"tool_input":{"file_path":"{home}/.ssh/id_rsa"}}`), nil, "hook")
		}},
		{"the hook of another agent, with a field in two cases", denied, func(w *world) (string, []byte) {
			return w.program(w.fill(`{"hook_event_name":"PreToolUse","session_id":"x","cwd":"{ws}","tool_name":"Write","tool_input":{"file_path":"{ws}/x","content":"x"},"Tool_Input":{"file_path":"{ws}/.git/hooks/x","content":"x"}}`), nil, "hook")
		}},
		{"exec of a question without a terminal", denied, func(w *world) (string, []byte) {
			return w.program("", nil, "exec", "--", "git", "push", "--force", "origin", "main")
		}},
		{"exec of what reads a secret", contained, func(w *world) (string, []byte) {
			return w.program("", nil, "exec", "--", "python3", "-c", "print(open('"+w.home+"/.ssh/id_rsa').read())")
		}},
		{"exec with settings of the workspace", denied, func(w *world) (string, []byte) {
			w.file(w.ws+"/sandboxd.yaml", "sandbox: {defaults: none}\n", 0o644)
			return w.program("", nil, "exec", "--", "cat", w.home+"/.ssh/id_rsa")
		}},
	}
}

// launchers are the processes of this daemon that start programs.
func (w *world) launchers() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range dirs {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndex(string(b), ")")+1:]))
		if f[1] == w.fill("{pid}") {
			pids = append(pids, atoi(filepath.Base(filepath.Dir(p))))
		}
	}
	return pids
}

func atoi(s string) (n int) {
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

// program runs sandboxd as the agent's user, in the workspace. It is denied if the status
// says so, or the answer of a hook.
func (w *world) program(stdin string, env []string, args ...string) (string, []byte) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(bin, "sandboxd"), args...)
	cmd.Dir, cmd.Stdin = w.ws, strings.NewReader(stdin)
	cmd.Env = append([]string{
		"HOME=" + w.home, "PATH=" + bin + ":" + os.Getenv("PATH"),
		"SANDBOXD_SOCKET=" + w.socket("a"), "SANDBOXD_OPERATOR_SOCKET=/nowhere",
		"SANDBOXD_STATE_DIR=" + w.dir + "/exec", "XDG_CONFIG_HOME=" + w.dir + "/config",
	}, env...)
	cmd.SysProcAttr = w.credential()
	told, err := cmd.CombinedOutput()
	status := 0
	if e, ok := err.(*exec.ExitError); ok {
		status = e.ExitCode()
	} else {
		w.must(err)
	}
	switch {
	case args[0] == "hook" && (status == 2 || strings.Contains(string(told), `"permissionDecision":"deny"`)),
		args[0] == "exec" && (status == 126 || status == 125), args[0] == "approvals" && status != 0:
		return denied, told
	case strings.Contains(string(told), `"permissionDecision":"ask"`):
		return asked, told
	}
	return contained, told
}
