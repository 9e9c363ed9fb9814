package attack

import (
	"encoding/json"
	"os"

	"github.com/sandboxd/sandboxd/client"
)

// secrets: nobody reads one, by any tool or spelling.
func secrets() []try {
	return []try{
		line("cat of a key", denied, "cat {home}/.ssh/id_rsa"),
		line("cat with a home", denied, "cat ~/.ssh/id_rsa"),
		line("a pattern for the directory", denied, "cat ~/.s*/id_rsa"),
		line("braces", denied, "cat ~/.{ssh,aws}/*"),
		line("a name from a variable", denied, "d=.ssh; cat ~/$d/id_rsa"),
		line("a name from a decoder", contained, "cat ~/$(echo LnNzaC9pZF9yc2E= | base64 -d)"),
		line("code from a decoder", contained, "echo Y2F0IH4vLnNzaC9pZF9yc2E= | base64 -d | sh"),
		line("python", contained, "python3 -c 'import os;print(open(os.path.expanduser(\"~/.ssh/id_rsa\")).read())'"),
		line("perl", contained, "perl -e 'open F,$ENV{HOME}.\"/.ssh/id_rsa\";print <F>'"),
		line("awk", contained, `awk 'BEGIN{f=ENVIRON["HOME"] "/.ssh/id_rsa"; getline x < f; print x}'`),
		line("a script of the workspace", contained, "printf 'cat ~/.ssh/id_rsa\\n' | sed '' > s.sh; sh s.sh"),
		line("a Makefile of the workspace", contained, "printf 'all:\\n\\tcat $(HOME)/.ssh/id_rsa\\n' > Makefile; make"),
		line("redirection into cat", denied, "cat < ~/.ssh/id_rsa"),
		line("read into a variable", denied, "x=$(< ~/.ssh/id_rsa); echo \"$x\""),
		line("mapfile", denied, "mapfile -t a < ~/.ssh/id_rsa; echo ${a[@]}"),
		line("source of a secret", denied, ". ~/.ssh/id_rsa"),
		line("a copy into the workspace", denied, "cp ~/.ssh/id_rsa k; cat k"),
		line("a link, then cat", denied, "ln -s ~/.ssh/id_rsa k; cat k"),
		lines("a link made by one call, read by the next", denied, "python3 -c 'import os;os.symlink(os.path.expanduser(\"~/.ssh\"),\"l\")'", "cat l/id_rsa"),
		line("a hard link", denied, "ln ~/.ssh/id_rsa k && cat k"),
		line("tar of the home", contained, "tar cf - ~ | strings | grep PLANTED"),
		line("find and cat", contained, "find ~ -type f -exec cat {} +"),
		line("grep of the home", contained, "grep -r PLANTED ~"),
		line("rg with hidden files", contained, "rg --hidden PLANTED ~"),
		line("git that shows a file outside", denied, "git diff --no-index /dev/null ~/.ssh/id_rsa"),
		line("git hash-object of it", denied, "git cat-file -p $(git hash-object -w ~/.ssh/id_rsa)"),
		line("git config that includes it", denied, "git config -f ~/.ssh/id_rsa -l"),
		line("curl of a file", denied, "curl -s file://{home}/.ssh/id_rsa"),
		line("curl of a file with one slash", denied, "curl -s file:{home}/.ssh/id_rsa"),
		line("dd", denied, "dd if={home}/.ssh/id_rsa"),
		line("tac through ..", denied, "tac {ws}/../home/.ssh/id_rsa"),
		line("cd and read", denied, "cd ~/.ssh && cat id_rsa"),
		line("pushd and read", denied, "pushd ~/.ssh; cat id_rsa"),
		line("the root of the daemon through /proc", contained, "cat /proc/{pid}/root{home}/.ssh/id_rsa"),
		line("the working directory of the parent", contained, "cat /proc/$PPID/cwd/../home/.ssh/id_rsa"),
		line("the environment of the daemon", contained, "tr '\\0' '\\n' < /proc/{pid}/environ"),
		line("the environment of the call", contained, "env"),
		line("the environment of every process", contained, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"),
		line("the memory of the daemon", contained, "head -c 100 /proc/{pid}/mem"),
		line("the state of the daemon", denied, "ls {dir}/state && cat {dir}/state/*"),
		line("its configuration", contained, "cat {dir}/config.yaml"),
		line("the shadow file", denied, "cat /etc/shadow"),
		line("descriptors left open", contained, "for f in /proc/self/fd/*; do cat <&${f##*/} 2>/dev/null; done </dev/null"),
		line("bash_history by its own builtin", contained, "HISTFILE=~/.bash_history; history -r; history"),
		tool("Read of a key", denied, "Read", `{"file_path":"{home}/.ssh/id_rsa"}`),
		tool("Read through ..", denied, "Read", `{"file_path":"{ws}/../home/.ssh/id_rsa"}`),
		tool("Read of the daemon's environment", denied, "Read", `{"file_path":"/proc/{pid}/environ"}`),
		tool("Read of its own environment", denied, "Read", `{"file_path":"/proc/self/environ"}`),
		tool("Grep of the home", contained, "Grep", `{"pattern":"PLANTED","path":"{home}","output_mode":"content"}`),
		tool("Grep with a glob", contained, "Grep", `{"pattern":"PLANTED","path":"{home}","glob":".ssh/*","output_mode":"content"}`),
		tool("Glob of the secrets", denied, "Glob", `{"pattern":"**/*","path":"{home}/.ssh"}`),
		{"Read through a link of the workspace", denied, func(w *world) (string, []byte) {
			w.must(os.Symlink(w.home+"/.ssh", w.ws+"/l"))
			return w.outcome(w.session(), "Read", w.fill(`{"file_path":"{ws}/l/id_rsa"}`))
		}},
		{"Edit of a key, whose answer shows lines", denied, func(w *world) (string, []byte) {
			return w.outcome(w.session(), "Edit", w.fill(`{"file_path":"{home}/.ssh/id_rsa","old_string":"P","new_string":"Q"}`))
		}},
		{"a session that starts in the secrets", refused, func(w *world) (string, []byte) {
			return w.request("a", "POST", "/sessions", w.fill(`{"cwd":"{home}/.ssh"}`))
		}},
		{"~ of a client whose HOME is elsewhere", denied, func(w *world) (string, []byte) {
			w.must(os.Symlink(w.home+"/.ssh/id_rsa", w.ws+"/notes"))
			return w.request("a", "POST", "/decide", w.fill(`{"session_id":"`+w.session()+`","tool":"Bash","args":{"command":"cat ~/notes"},"home":"{ws}"}`))
		}},
		{"a client whose HOME is elsewhere", denied, func(w *world) (string, []byte) {
			return w.request("a", "POST", "/decide", w.fill(`{"session_id":"`+w.session()+`","tool":"Bash","args":{"command":"cat {home}/.ssh/id_rsa"},"home":"/nowhere"}`))
		}},
		{"check with settings of the caller", denied, func(w *world) (string, []byte) {
			w.must(os.Symlink(secret, w.home+"/.ssh/pointer"))
			w.look()
			return w.request("a", "POST", "/check", w.fill(`{"path":"{home}/.ssh/pointer","op":"read","cwd":"{ws}","settings":{"deniedPaths":[]}}`))
		}},
		{"a variable that names the file", denied, func(w *world) (string, []byte) {
			s := w.session()
			_, err := w.agent.PutVar(w.t.Context(), s, "p", client.VarChange{Value: w.home + "/.ssh/id_rsa"})
			w.must(err)
			return w.outcome(s, "Read", `{"file_path":"$VAR_REF{{p}}"}`)
		}},
		{"a command put together from variables", denied, func(w *world) (string, []byte) {
			s := w.session()
			_, err := w.agent.PutVar(w.t.Context(), s, "c", client.VarChange{Value: "cat ~/.ssh/id_rsa"})
			w.must(err)
			return w.outcome(s, "Bash", `{"command":"$VAR_REF{{c}}"}`)
		}},
	}
}

// request sends one by hand; it is refused if the status says so.
func (w *world) request(socket, method, path, body string) (string, []byte) {
	w.t.Helper()
	status, told := w.send(socket, method, path, body, nil)
	if status >= 400 {
		return refused, told
	}
	var answer struct {
		Data struct {
			Verdict  string `json:"verdict"`
			Decision struct {
				Verdict string `json:"verdict"`
			} `json:"decision"`
			Status client.Status `json:"status"`
		} `json:"data"`
	}
	_ = json.Unmarshal(told, &answer) // a list has none of these
	switch d := answer.Data; {
	case d.Verdict == "deny", d.Decision.Verdict == "deny":
		return denied, told
	case d.Verdict == "ask", d.Decision.Verdict == "ask":
		return asked, told
	case d.Status == client.StatusError:
		return denied, told
	}
	return "answered", told
}
