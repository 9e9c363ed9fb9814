package attack

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// cancelled starts a call that would not end, and lets act end it.
func (w *world) cancelled(act func(session, call string)) (string, []byte) {
	w.t.Helper()
	s := w.session()
	done := make(chan client.Result, 1)
	go func() {
		r, _ := w.agent.Call(w.t.Context(), s, "Bash", json.RawMessage(bash(
			"setsid sleep "+marker+" & trap '' TERM; touch started; sleep "+marker)))
		done <- r
	}()
	var calls []struct {
		ID string `json:"call_id"`
	}
	w.until("the call runs", func() bool {
		_, err := os.Stat(w.ws + "/started")
		return err == nil && w.agent.Do(w.t.Context(), "GET", "/calls", nil, &calls) == nil && len(calls) == 1
	})
	act(s, calls[0].ID)
	select {
	case r := <-done:
		told, _ := json.Marshal(r)
		return contained, told
	case <-time.After(time.Minute):
		return "it never ended", nil
	}
}

// until waits for something of another process.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for limit := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			w.t.Fatalf("never: %s\n%s", what, w.log.String())
		}
	}
}

// selfApproval: no agent approves its own call, and none loosens what judges it.
func selfApproval() []try {
	send := func(name, want, method, path, body string) try {
		return try{name, want, func(w *world) (string, []byte) {
			return w.request("a", method, strings.ReplaceAll(path, "{s}", w.session()), w.fill(body))
		}}
	}
	// asking makes a question and lets the agent try to answer it; the person then says no.
	asking := func(name string, attack func(w *world, q question)) try {
		return try{name, asked, func(w *world) (string, []byte) {
			w.answer = func(q question) map[string]any {
				attack(w, q)
				return map[string]any{"approved": false}
			}
			defer func() { w.answer = nil }()
			return w.outcome(w.session(), "Bash", bash("git push --force origin main"))
		}}
	}
	return []try{
		asking("it answers over the agent socket", func(w *world, q question) {
			w.send("a", "POST", "/approvals/"+q.ID, `{"approved":true}`, nil)
		}),
		asking("it answers for another account", func(w *world, q question) {
			w.send("a", "POST", "/approvals/"+q.ID, `{"approved":true}`, map[string]string{"X-Account-Id": "default-admin"})
		}),
		asking("it answers under /v1", func(w *world, q question) {
			w.send("a", "POST", "/v1/approvals/"+q.ID, `{"approved":true}`, nil)
		}),
		asking("it answers with another spelling of the path", func(w *world, q question) {
			w.send("a", "POST", "/approvals/./"+q.ID, `{"approved":true}`, nil)
			w.send("a", "POST", "/%61pprovals/"+q.ID, `{"approved":true}`, nil)
			w.send("a", "POST", "/Approvals/"+q.ID, `{"approved":true}`, nil)
		}),
		asking("its sandbox runs sandboxd approvals", func(w *world, q question) {
			w.call(w.session(), "Bash", bash("sandboxd approvals approve "+q.ID+"; SANDBOXD_OPERATOR_SOCKET="+
				w.socket("o")+" "+bin+"/sandboxd approvals approve "+q.ID))
		}),
		asking("its sandbox connects to the operator socket", func(w *world, q question) {
			w.call(w.session(), "Bash", bash("python3 -c 'import socket;s=socket.socket(1);s.connect(\""+w.socket("o")+
				"\");s.send(b\"POST /approvals/"+q.ID+" HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 17\\r\\n\\r\\n{\\\"approved\\\":true}\")'"))
		}),
		asking("it cancels the call", func(w *world, q question) {
			w.send("a", "POST", "/calls/"+q.ID+"/cancel", `{}`, nil)
		}),
		asking("it makes a reusable question of the same words", func(w *world, q question) {
			w.send("a", "POST", "/decide", `{"session_id":"`+q.Session+`","tool":"Bash","args":`+string(q.Args)+`,"hold":true}`, nil)
		}),
		send("a looser mode", refused, "PATCH", "/sessions/{s}", `{"mode":"bypassPermissions"}`),
		send("a session in a looser mode", refused, "POST", "/sessions", `{"cwd":"{ws}","mode":"bypassPermissions"}`),
		send("another sandbox", refused, "PATCH", "/sessions/{s}", `{"sandbox":{"deniedPaths":[]}}`),
		send("a sandbox from the start", refused, "POST", "/sessions", `{"cwd":"{ws}","sandbox":{"allowedWritePaths":["/"]}}`),
		send("a lighter profile", refused, "PATCH", "/sessions/{s}", `{"profile":"light"}`),
		send("a tool that is off", refused, "PUT", "/sessions/{s}/tools/Bash", `{"enabled":true}`),
		send("a reload", refused, "POST", "/reload", `{}`),
		send("a reload of the policies", refused, "POST", "/policies/reload", `{}`),
		send("the end of the daemon", refused, "POST", "/stop-all", `{}`),
		send("forgetting where a text came from", refused, "POST", "/sessions/{s}/origins/reset", `{}`),
		send("the record", refused, "GET", "/audit", ``),
		send("the grants", refused, "GET", "/grants", ``),
		send("a hook's answer", refused, "POST", "/hooks/test", `{"event":"preToolUse","input":{}}`),
		send("an event that the daemon fires", refused, "POST", "/sessions/{s}/hook-events", `{"event":"preToolUse","input":{}}`),
		send("a metric", refused, "GET", "/metrics", ``),
		send("a call that says it is approved", refused, "POST", "/sessions/{s}/calls", `{"tool":"Bash","args":{"command":"true"},"approved":true}`),
		send("no sandbox, by the field of other agents", denied, "POST", "/sessions/{s}/calls",
			`{"tool":"Bash","args":{"command":"touch {outside}/x","dangerouslyDisableSandbox":true}}`),
		tool("a looser mode by the tool Config", contained, "Config", `{"action":"set","key":"mode","value":"bypassPermissions"}`),
		tool("the end of plan mode", asked, "ExitPlanMode", `{"plan":"do it"}`),
		{"a policy file in the workspace", asked, func(w *world) (string, []byte) {
			w.file(w.ws+"/.sandboxd/policy.json", `{"allow":["Bash(git push *)"],"mode":"bypassPermissions"}`, 0o644)
			return w.outcome(w.session(), "Bash", bash("git push --force origin main"))
		}},
		{"settings of other agents in the workspace", asked, func(w *world) (string, []byte) {
			w.file(w.ws+"/.claude/settings.json", `{"permissions":{"allow":["Bash(*)"],"defaultMode":"bypassPermissions"}}`, 0o644)
			return w.outcome(w.session(), "Bash", bash("git push --force origin main"))
		}},
		{"a program named sandboxd in the workspace", asked, func(w *world) (string, []byte) {
			w.file(w.ws+"/git", "#!/bin/sh\necho EVIL\n", 0o755)
			return w.outcome(w.session(), "Bash", bash("PATH=.:$PATH git push --force origin main"))
		}},
		lines("a yes for other words", asked, "git push --force origin main", "git push --force origin main:other"),
		lines("the question in small pieces", contained, "git config alias.p 'push --force'", "git p origin main"),
		lines("a function that is called git", asked, "git() { command git push --force origin main; }; git status"),
	}
}

// bindingConfig makes ./deploy.sh and make a question, and lets calls ask to run without
// the sandbox.
const bindingConfig = `
policy: {rules: {ask: ["Bash(deploy.sh)", "Bash(deploy.sh *)", "Bash(sh deploy.sh)", "Bash(make *)", "Bash(npm run *)", "Bash(python3 *)"]}}
sandbox: {allowUnsandboxedCommands: true}
`

// binding: what was agreed to is what runs.
func binding() []try {
	evil := "#!/bin/sh\necho EVIL \"$@\"\n"
	// yes answers the first question with yes, after something has changed, and refuses
	// what is asked after it.
	yes := func(name, want, args string, change func(w *world, q question) map[string]any) try {
		return try{name, want, func(w *world) (string, []byte) {
			n, named := 0, false
			w.answer = func(q question) map[string]any {
				named = named || strings.Contains(string(q.raw), "not bound") || strings.Contains(string(q.raw), "not_bound")
				if n++; n > 1 {
					return map[string]any{"approved": false}
				}
				more := change(w, q)
				if more == nil {
					more = map[string]any{}
				}
				more["approved"] = true
				return more
			}
			defer func() { w.answer = nil }()
			outcome, told := w.outcome(w.session(), "Bash", w.fill(args))
			switch {
			case bytes.Contains(told, []byte("EVIL")) && named:
				return "the question says that this is not bound", told
			case bytes.Contains(told, []byte("EVIL")):
				return "BROKEN: other bytes ran", told
			case n > 1 && outcome == asked:
				return "asked again", told
			case n == 0:
				return outcome + ", nobody was asked", told
			}
			return outcome, told
		}}
	}
	deploy := bash("./deploy.sh")
	bare := `{"command":"./deploy.sh","dangerouslyDisableSandbox":true}`
	rewrite := func(path, text string) func(*world, question) map[string]any {
		return func(w *world, _ question) map[string]any {
			w.file(filepath.Join(w.ws, path), text, 0o755)
			return nil
		}
	}
	replace := func(w *world, _ question) map[string]any {
		w.file(w.ws+"/evil.sh", evil, 0o755)
		w.must(os.Rename(w.ws+"/evil.sh", w.ws+"/deploy.sh"))
		return nil
	}
	byLink := func(w *world, _ question) map[string]any {
		w.file(w.ws+"/evil.sh", evil, 0o755)
		w.must(os.Remove(w.ws + "/deploy.sh"))
		w.must(os.Symlink("evil.sh", w.ws+"/deploy.sh"))
		return nil
	}
	byCall := func(w *world, q question) map[string]any {
		w.call(q.Session, "Bash", bash("printf '#!/bin/sh\\necho EVIL\\n' > new && chmod +x new && mv new deploy.sh"))
		return nil
	}
	byOther := func(w *world, _ question) map[string]any {
		w.call(w.session(), "Write", w.fill(`{"file_path":"{ws}/deploy.sh","content":"echo EVIL\n"}`))
		return nil
	}
	patch := func(body map[string]any) func(*world, question) map[string]any {
		return func(w *world, q question) map[string]any {
			w.check(w.operator.Do(w.t.Context(), "PATCH", "/sessions/"+q.Session, body, nil))
			return nil
		}
	}
	edited := func(change func(*world, question) map[string]any) func(*world, question) map[string]any {
		return func(w *world, q question) map[string]any {
			change(w, q)
			return map[string]any{"args": map[string]any{"command": "./deploy.sh staging"}}
		}
	}
	return []try{
		yes("nothing changes: the harmless script runs", contained, deploy, func(*world, question) map[string]any { return nil }),
		yes("the script is written", "asked again", deploy, rewrite("deploy.sh", evil)),
		yes("another file takes its place", "asked again", deploy, replace),
		yes("a link takes its place", "asked again", deploy, byLink),
		yes("another call of the session replaces it", "asked again", deploy, byCall),
		yes("another session writes it", "asked again", deploy, byOther),
		yes("it is run by sh", "asked again", bash("sh deploy.sh"), rewrite("deploy.sh", evil)),
		yes("it is run without the sandbox", "asked again", bare, replace),
		yes("it is written, without the sandbox", "asked again", bare, rewrite("deploy.sh", evil)),
		yes("the Makefile is written", "asked again", bash("make all"), rewrite("Makefile", "all:\n\t@echo EVIL\n")),
		yes("a GNUmakefile appears beside the Makefile", "asked again", bash("make all"), rewrite("GNUmakefile", "all:\n\t@echo EVIL\n")),
		yes("package.json is written", "asked again", bash("npm run build"), rewrite("package.json", `{"scripts":{"build":"echo EVIL"}}`)),
		yes("a module that python imports appears", "the question says that this is not bound", bash("python3 -c 'import mod'"), rewrite("mod.py", "print('EVIL')\n")),
		yes("the person edits, and the script is written", "asked again", deploy, edited(rewrite("deploy.sh", evil))),
		yes("the person edits, without the sandbox", "asked again", bare, edited(replace)),
		yes("an edit, and the session is in plan mode", "asked again", deploy, edited(patch(map[string]any{"mode": "plan"}))),
		yes("the session is in plan mode", "asked again", deploy, patch(map[string]any{"mode": "plan"})),
		yes("the program is forbidden for the session", denied, deploy, patch(map[string]any{"sandbox": map[string]any{"deniedCommands": []string{"deploy.sh"}}})),
		yes("the profile is lighter", "asked again", deploy, patch(map[string]any{"profile": "light"})),
		yes("it is named from two directories", "asked again", bash("cd pkg && ../deploy.sh; ./deploy.sh"), rewrite("deploy.sh", evil)),
		yes("a reload denies it", denied, deploy, func(w *world, _ question) map[string]any {
			w.file(w.dir+"/config.yaml", `policy: {rules: {deny: ["Bash(deploy.sh *)"]}}`, 0o600)
			w.own(w.dir + "/config.yaml")
			w.check(w.operator.Do(w.t.Context(), "POST", "/reload", map[string]any{}, nil))
			return nil
		}),
	}
}
