package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

func TestPermissionRulesMatchMeaning(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules Rules
		call  func(t testing.TB) *tool.Call
		want  tool.Verdict
	}{
		{"a bare tool name matches the tool", Rules{Deny: []string{"Bash"}}, cmd("ls"), tool.Deny},
		{"and no other", Rules{Deny: []string{"Bash"}}, read("/src/a"), tool.Ask},
		{"allow answers the mode", Rules{Allow: []string{"Bash(git log *)"}}, cmd("git log --oneline"), tool.Allow},
		{"a prefix matches the bare command", Rules{Allow: []string{"Bash(git log *)"}}, cmd("git log"), tool.Allow},
		{"the older spelling means the same", Rules{Allow: []string{"Bash(git log:*)"}}, cmd("git log -3"), tool.Allow},
		{"a space before the star is a word boundary", Rules{Allow: []string{"Bash(ls *)"}}, cmd("lsof -i"), tool.Ask},
		{"no space, no boundary", Rules{Allow: []string{"Bash(ls*)"}}, cmd("lsof -i"), tool.Allow},
		{"a star in the middle", Rules{Allow: []string{"Bash(git * main)"}}, cmd("git merge main"), tool.Allow},
		{"exactly this command", Rules{Allow: []string{"Bash(make)"}}, cmd("make"), tool.Allow},
		{"and nothing more", Rules{Allow: []string{"Bash(make)"}}, cmd("make install"), tool.Ask},
		{"every command of a line must be allowed", Rules{Allow: []string{"Bash(git log *)"}}, cmd("git log && ls"), tool.Ask},
		{"by any of the rules", Rules{Allow: []string{"Bash(git log *)", "Bash(ls)"}}, cmd("git log && ls"), tool.Allow},
		{"an allow does not see through options", Rules{Allow: []string{"Bash(git log *)"}}, cmd("git -c core.pager=x log"), tool.Ask},
		{"an allow wants the system's program", Rules{Allow: []string{"Bash(git *)"}}, cmd("./git log"), tool.Ask},
		{"deny sees through options", Rules{Deny: []string{"Bash(git push *)"}}, cmd("git -C x push"), tool.Deny},
		{"deny knows clustered flags", Rules{Deny: []string{"Bash(rm -rf *)"}}, cmd("rm -v -fr src"), tool.Deny},
		{"deny wants all flags of the rule", Rules{Deny: []string{"Bash(rm -rf *)"}}, cmd("rm -r src/x.o"), tool.Ask},
		{"deny holds for any command of a line", Rules{Deny: []string{"Bash(curl *)"}}, cmd("ls && curl x"), tool.Deny},
		{"deny beats allow", Rules{Allow: []string{"Bash"}, Deny: []string{"Bash(curl *)"}}, cmd("curl x"), tool.Deny},
		{"deny beats ask beats allow", Rules{Allow: []string{"Bash"}, Ask: []string{"Bash(curl *)"}}, cmd("curl x"), tool.Ask},
		{"an absolute tree", Rules{Deny: []string{"Read(//etc/**)"}}, read("/etc/ssl/x"), tool.Deny},
		{"the root of the tree too", Rules{Deny: []string{"Read(//etc)"}}, read("/etc"), tool.Deny},
		{"never a sibling that begins alike", Rules{Deny: []string{"Read(//etc)"}}, read("/etcetera"), tool.Ask},
		{"what a search of a tree goes through", Rules{Deny: []string{"Read(//etc/*)"}}, cmd("grep -r x /etc"), tool.Deny},
		{"what goes with a tree", Rules{Deny: []string{"Edit(docs/*.md)"}}, cmd("rm -r docs"), tool.Deny},
		{"no search for a pattern at any depth", Rules{Deny: []string{"Read(*.pem)"}}, cmd("grep -r x ."), tool.Ask},
		{"home", Rules{Deny: []string{"Read(~/.ssh/**)"}}, read("/home/u/.ssh/id"), tool.Deny},
		{"the session's directory", Rules{Deny: []string{"Edit(/docs/**)"}}, write("/src/docs/a.md"), tool.Deny},
		{"a relative pattern", Rules{Allow: []string{"Edit(docs/*.md)"}}, write("/src/docs/a.md"), tool.Allow},
		{"one star stays in its segment", Rules{Allow: []string{"Edit(docs/*.md)"}}, write("/src/docs/x/a.md"), tool.Ask},
		{"a bare pattern at any depth", Rules{Allow: []string{"Edit(*.md)"}}, write("/src/docs/x/a.md"), tool.Allow},
		{"but not outside", Rules{Allow: []string{"Edit(*.md)"}}, write("/home/u/a.md"), tool.Ask},
		{"a pattern for reading is not for writing", Rules{Deny: []string{"Read(*.md)"}}, write("/src/a.md"), tool.Ask},
		{"Write means what Edit means", Rules{Deny: []string{"Write(*.md)"}}, write("/src/a.md"), tool.Deny},
		{"a host", Rules{Allow: []string{"WebFetch(domain:go.dev)"}}, fetch("go.dev"), tool.Allow},
		{"not its subdomain", Rules{Allow: []string{"WebFetch(domain:go.dev)"}}, fetch("x.go.dev"), tool.Ask},
		{"subdomains", Rules{Allow: []string{"WebFetch(domain:*.go.dev)"}}, fetch("a.b.go.dev"), tool.Allow},
		{"subdomains end at a label", Rules{Allow: []string{"WebFetch(domain:*.go.dev)"}}, fetch("evilgo.dev"), tool.Ask},
		{"an MCP server", Rules{Deny: []string{"mcp__git"}}, other("mcp__git__push", nil), tool.Deny},
		{"all its tools", Rules{Deny: []string{"mcp__git__*"}}, other("mcp__git__push", nil), tool.Deny},
		{"one MCP tool", Rules{Deny: []string{"mcp__git__push"}}, other("mcp__git__pull", nil), tool.Ask},
		{"a parameter", Rules{Deny: []string{"Agent(model:opus)"}}, other("Agent", map[string]any{"model": "opus"}), tool.Deny},
		{"another value", Rules{Deny: []string{"Agent(model:opus)"}}, other("Agent", map[string]any{"model": "x"}), tool.Ask},
		{"a parameter that is no text", Rules{Deny: []string{"Agent(force:true)"}}, other("Agent", map[string]any{"force": true}), tool.Deny},
		{"a number", Rules{Deny: []string{"Agent(n:1*)"}}, other("Agent", map[string]any{"n": 12}), tool.Deny},
		{"a parameter that is not there", Rules{Deny: []string{"Agent(n:*)"}}, other("Agent", map[string]any{"m": 1}), tool.Ask},
		{"a parameter pattern", Rules{Deny: []string{"Agent(model:claude-*)"}}, other("Agent", map[string]any{"model": "claude-x"}), tool.Deny},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{Rules: tt.rules})
			c := tt.call(t)
			if got := decide(t, e, c); got.Verdict != tt.want {
				t.Errorf("verdict %s, want %s: %+v", got.Verdict, tt.want, got.Reasons)
			}
		})
	}
}

func cmd(line string) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call { return bash(t, ModeDefault, line) }
}

func read(path string) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call { return fileCall(t, ModeDefault, "Read", path) }
}

func write(path string) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call { return fileCall(t, ModeDefault, "Edit", path) }
}

func fetch(host string) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call {
		c := newCall(t, ModeDefault, "WebFetch", map[string]string{"url": "https://" + host})
		c.Spec.Class = tool.ClassNet
		c.Facts.Uses.Hosts = []string{host}
		return c
	}
}

func other(name string, args map[string]any) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call {
		if args == nil {
			args = map[string]any{}
		}
		return newCall(t, ModeDefault, name, args)
	}
}

func TestRulesThatCanNeverMatchAreRefused(t *testing.T) {
	for _, tt := range []struct{ rule, want string }{
		{"Bash(", "not closed"},
		{"Bash()", "empty"},
		{" Bash", "space"},
		{"Ba sh", "not a tool name"},
		{"", "not a tool name"},
		{"Bash(git push && git pull)", "joins commands"},
		{"Bash(a | b *)", "joins commands"},
		{"Bash(FOO=1 make)", "assignment"},
		{"Bash(echo $(id))", "substitution"},
		{"Read(../x)", ".."},
		{"Read(~bob/x)", "only ~ itself"},
		{`Read(a\b)`, "mean nothing"},
		{`Read(//a\*b)`, "mean nothing"},
		{"Read(*.{pem,key})", "one rule for each"},
		{"Read($HOME/x)", "~/x"},
		{"Read(file:///etc/x)", "URL"},
		{"Bash(./run.sh *)", "want run.sh"},
		{"Bash(/bin/rm:*)", "want rm"},
		{"Bash(scripts/x*)", "without a directory"},
		{"Read([a)", "not closed"},
		{"WebFetch(https://x.org)", "domain:NAME"},
		{"WebFetch(domain:https://x.org)", "not a host name"},
		{"WebFetch(domain:x.*)", "not a host name"},
		{"Todo(x)", "no specifier"},
		{"mcp__git__push(x)", "no specifier"},
		{"mcp__", "want mcp__server"},
	} {
		err := Rules{Allow: []string{tt.rule}}.Check()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("rule %q: error %v, want one about %q", tt.rule, err, tt.want)
		}
	}
	err := Rules{Allow: []string{"Bash"}, Deny: []string{"Bash"}}.Check()
	if err == nil || !strings.Contains(err.Error(), "in deny") {
		t.Errorf("the same rule in allow and deny: error %v, want a refusal", err)
	}
}

// TestRulesThatNameALinkTighten: what a person denies by the name of a link is denied
// when a call uses that name; an allow is for the real place alone, since links can
// be put there by anybody who can write.
func TestRulesThatNameALinkTighten(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"real/deep", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rules Rules
		line  string
		want  tool.Verdict
	}{
		{Rules{Deny: []string{"Read(link/**)"}}, "cat link/f", tool.Deny},
		{Rules{Deny: []string{"Read(link/**)"}}, "cat ./link/deep/../f", tool.Deny},
		{Rules{Deny: []string{"Read(/" + dir + "/link/**)"}}, "cat " + dir + "/link/f", tool.Deny},
		{Rules{Deny: []string{"Read(link/f)"}}, "cat link/f", tool.Deny},
		{Rules{Deny: []string{"Read(link/*.go)"}}, "cat link/a.go", tool.Deny},
		{Rules{Deny: []string{"Edit(link/deep/**)"}}, "rm -r link", tool.Deny},
		{Rules{Deny: []string{"Read(real/**)"}}, "cat link/f", tool.Deny},
		{Rules{Deny: []string{"Read(link/**)"}}, "cat other/f", tool.Allow},
		{Rules{Deny: []string{"Read(link/*.go)"}}, "cat link/a.txt", tool.Allow},
		{Rules{Deny: []string{"Read(links/**)"}}, "cat link/f", tool.Allow},
	} {
		tt.rules.Allow = []string{"Bash"}
		e := newEngine(t, Options{Rules: tt.rules})
		c := bashIn(t, dir, ModeDefault, tt.line)
		c.Facts.Uses = sandbox.ScriptUses(c.Facts.Uses.Script, dir, "/home/u") // with links resolved
		if d := decide(t, e, c); d.Verdict != tt.want {
			t.Errorf("%v, %s: %s %+v, want %s", tt.rules.Deny, tt.line, d.Verdict, d.Reasons, tt.want)
		}
	}

	e := newEngine(t, Options{Rules: Rules{Allow: []string{"Read(link/**)"}}})
	c := newCall(t, ModeDefault, "Read", map[string]string{"file_path": "link/f"})
	c.Session.Dir, c.In.Dir = dir, dir
	c.Facts.Uses.Paths = []sandbox.PathUse{{Raw: "link/f", Path: filepath.Join(dir, "real/f"), Op: sandbox.Read}}
	if d := decide(t, e, c); d.Verdict == tool.Allow {
		t.Errorf("%s by %s: an allow that names a link allows the place that it leads to", d.Verdict, d.By)
	}
}
