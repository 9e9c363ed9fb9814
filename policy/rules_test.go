package policy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/permission"
)

func TestPermissionRulesMatchMeaning(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules permission.Rules
		call  func(t testing.TB) *tool.Call
		want  tool.Verdict
	}{
		{"a bare tool name matches the tool", permission.Rules{Deny: []string{"Bash"}}, cmd("ls"), tool.Deny},
		{"and no other", permission.Rules{Deny: []string{"Bash"}}, read("/src/a"), tool.Ask},
		{"allow answers the mode", permission.Rules{Allow: []string{"Bash(git log *)"}}, cmd("git log --oneline"), tool.Allow},
		{"a prefix matches the bare command", permission.Rules{Allow: []string{"Bash(git log *)"}}, cmd("git log"), tool.Allow},
		{"the older spelling means the same", permission.Rules{Allow: []string{"Bash(git log:*)"}}, cmd("git log -3"), tool.Allow},
		{"a space before the star is a word boundary", permission.Rules{Allow: []string{"Bash(ls *)"}}, cmd("lsof -i"), tool.Ask},
		{"no space, no boundary", permission.Rules{Allow: []string{"Bash(ls*)"}}, cmd("lsof -i"), tool.Allow},
		{"a star in the middle", permission.Rules{Allow: []string{"Bash(git * main)"}}, cmd("git merge main"), tool.Allow},
		{"exactly this command", permission.Rules{Allow: []string{"Bash(make)"}}, cmd("make"), tool.Allow},
		{"and nothing more", permission.Rules{Allow: []string{"Bash(make)"}}, cmd("make install"), tool.Ask},
		{"every command of a line must be allowed", permission.Rules{Allow: []string{"Bash(git log *)"}}, cmd("git log && ls"), tool.Ask},
		{"by any of the rules", permission.Rules{Allow: []string{"Bash(git log *)", "Bash(ls)"}}, cmd("git log && ls"), tool.Allow},
		{
			"an allow does not see through options",
			permission.Rules{Allow: []string{"Bash(git log *)"}},
			cmd("git -c core.pager=x log"), tool.Ask,
		},
		{"an allow wants the system's program", permission.Rules{Allow: []string{"Bash(git *)"}}, cmd("./git log"), tool.Ask},
		{"nor past a variable that may choose what runs", permission.Rules{Allow: []string{"Bash(make)"}}, cmd("TOOLS=x make"), tool.Ask},
		{"nor past one beside one that cannot", permission.Rules{Allow: []string{"Bash(make)"}}, cmd("CI=1 TOOLS=x make"), tool.Ask},
		{"a variable that cannot is no hindrance", permission.Rules{Allow: []string{"Bash(make)"}}, cmd("CI=1 make"), tool.Allow},
		{"deny sees past every variable", permission.Rules{Deny: []string{"Bash(make)"}}, cmd("TOOLS=x make"), tool.Deny},
		{"deny sees through options", permission.Rules{Deny: []string{"Bash(git push *)"}}, cmd("git -C x push"), tool.Deny},
		{"deny knows clustered flags", permission.Rules{Deny: []string{"Bash(rm -rf *)"}}, cmd("rm -v -fr src"), tool.Deny},
		{"deny wants all flags of the rule", permission.Rules{Deny: []string{"Bash(rm -rf *)"}}, cmd("rm -r src/x.o"), tool.Ask},
		{"deny holds for any command of a line", permission.Rules{Deny: []string{"Bash(curl *)"}}, cmd("ls && curl x"), tool.Deny},
		{"deny beats allow", permission.Rules{Allow: []string{"Bash"}, Deny: []string{"Bash(curl *)"}}, cmd("curl x"), tool.Deny},
		{"deny beats ask beats allow", permission.Rules{Allow: []string{"Bash"}, Ask: []string{"Bash(curl *)"}}, cmd("curl x"), tool.Ask},
		{"an absolute tree", permission.Rules{Deny: []string{"Read(//etc/**)"}}, read("/etc/ssl/x"), tool.Deny},
		{"the root of the tree too", permission.Rules{Deny: []string{"Read(//etc)"}}, read("/etc"), tool.Deny},
		{"never a sibling that begins alike", permission.Rules{Deny: []string{"Read(//etc)"}}, read("/etcetera"), tool.Ask},
		{"what a search of a tree goes through", permission.Rules{Deny: []string{"Read(//etc/*)"}}, cmd("grep -r x /etc"), tool.Deny},
		{"what goes with a tree", permission.Rules{Deny: []string{"Edit(docs/*.md)"}}, cmd("rm -r docs"), tool.Deny},
		{"no search for a pattern at any depth", permission.Rules{Deny: []string{"Read(*.pem)"}}, cmd("grep -r x ."), tool.Ask},
		{"home", permission.Rules{Deny: []string{"Read(~/.ssh/**)"}}, read("/home/u/.ssh/id"), tool.Deny},
		{"the session's directory", permission.Rules{Deny: []string{"Edit(/docs/**)"}}, write("/src/docs/a.md"), tool.Deny},
		{"a relative pattern", permission.Rules{Allow: []string{"Edit(docs/*.md)"}}, write("/src/docs/a.md"), tool.Allow},
		{"one star stays in its segment", permission.Rules{Allow: []string{"Edit(docs/*.md)"}}, write("/src/docs/x/a.md"), tool.Ask},
		{"a bare pattern at any depth", permission.Rules{Allow: []string{"Edit(*.md)"}}, write("/src/docs/x/a.md"), tool.Allow},
		{"but not outside", permission.Rules{Allow: []string{"Edit(*.md)"}}, write("/home/u/a.md"), tool.Ask},
		{"a pattern for reading is not for writing", permission.Rules{Deny: []string{"Read(*.md)"}}, write("/src/a.md"), tool.Ask},
		{"Write means what Edit means", permission.Rules{Deny: []string{"Write(*.md)"}}, write("/src/a.md"), tool.Deny},
		{"a star of a file tool holds for its likes", permission.Rules{Deny: []string{"Write(*)"}}, write("/tmp/a"), tool.Deny},
		{"and for commands", permission.Rules{Deny: []string{"Edit(**)"}, Allow: []string{"Bash"}}, cmd("echo x > f"), tool.Deny},
		{"that change a file in its place", permission.Rules{Ask: []string{"Edit(*)"}, Allow: []string{"Bash"}}, cmd("sed -i s/a/b/ f"), tool.Ask},
		{"or read", permission.Rules{Deny: []string{"Read(**)"}, Allow: []string{"Bash"}}, cmd("cat f"), tool.Deny},
		{"not for those of the other kind", permission.Rules{Deny: []string{"Edit(*)"}, Allow: []string{"Bash"}}, cmd("cat f"), tool.Allow},
		{"an allow with a star is for the tool", permission.Rules{Allow: []string{"Edit(**)"}}, write("/tmp/a"), tool.Allow},
		{"and for it alone", permission.Rules{Allow: []string{"Edit(**)"}}, cmd("echo x > f"), tool.Ask},
		{"a host", permission.Rules{Allow: []string{"WebFetch(domain:go.dev)"}}, fetch("go.dev"), tool.Allow},
		{"not its subdomain", permission.Rules{Allow: []string{"WebFetch(domain:go.dev)"}}, fetch("x.go.dev"), tool.Ask},
		{"subdomains", permission.Rules{Allow: []string{"WebFetch(domain:*.go.dev)"}}, fetch("a.b.go.dev"), tool.Allow},
		{"subdomains end at a label", permission.Rules{Allow: []string{"WebFetch(domain:*.go.dev)"}}, fetch("evilgo.dev"), tool.Ask},
		{"an MCP server", permission.Rules{Deny: []string{"mcp__git"}}, other("mcp__git__push", nil), tool.Deny},
		{"all its tools", permission.Rules{Deny: []string{"mcp__git__*"}}, other("mcp__git__push", nil), tool.Deny},
		{"one MCP tool", permission.Rules{Deny: []string{"mcp__git__push"}}, other("mcp__git__pull", nil), tool.Ask},
		{"a parameter", permission.Rules{Deny: []string{"Agent(model:opus)"}}, other("Agent",
			map[string]any{"model": "opus"}), tool.Deny},
		{"another value", permission.Rules{Deny: []string{"Agent(model:opus)"}}, other("Agent",
			map[string]any{"model": "x"}), tool.Ask},
		{"a parameter that is no text", permission.Rules{Deny: []string{"Agent(force:true)"}}, other("Agent",
			map[string]any{"force": true}), tool.Deny},
		{"a number", permission.Rules{Deny: []string{"Agent(n:1*)"}}, other("Agent", map[string]any{"n": 12}), tool.Deny},
		{"a parameter that is not there", permission.Rules{Deny: []string{"Agent(n:*)"}}, other("Agent",
			map[string]any{"m": 1}), tool.Ask},
		{"a parameter pattern", permission.Rules{Deny: []string{"Agent(model:claude-*)"}}, other("Agent",
			map[string]any{"model": "claude-x"}), tool.Deny},
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

// TestReadersThatARuleForReadingSees: what is moved can be read at its new place, git prints files as cat does, and a
// search of a tree around the session reads what is in the session's.
func TestReadersThatARuleForReadingSees(t *testing.T) {
	e := newEngine(t, Options{Rules: permission.Rules{
		Deny:  []string{"Read(/keys/**)", "Read(nest/keys)", "Read(*.pem)", "Read(~/.own/**)"},
		Allow: []string{"Bash"},
	}})
	for want, lines := range map[tool.Verdict][]string{
		tool.Deny: {
			"mv keys k2", "mv keys/a.txt x", "mv nest n2", "mv -t u keys/a.txt", "mv k.pem x", "git mv keys sub/",
			"git mv k.pem x", "rename s/pem/txt/ k.pem", "git worktree move keys x", "busybox mv keys x", "trash k.pem",
			"git grep X", "git grep X keys/a.txt", "git grep -e X keys", "git grep X -- '*.pem'", "git grep X -- :/",
			"git grep X HEAD", "git grep X HEAD -- ':!src'", "git grep -n X HEAD:keys", "cd sub; git grep X HEAD:keys",
			"git blame keys/a.txt", "git diff HEAD~1 -- keys/a.txt", "git diff HEAD:keys/a.txt", "git log -p keys",
			"git diff --no-index . /tmp", "git show HEAD:keys/a.txt", "git show :k.pem", "git cat-file blob HEAD:k.pem",
			"git archive HEAD keys", "git stash push keys/a.txt", "x=keys/a.txt; git blame $x",
			"grep -rn X ..", "grep -rn X /", "find .. -name a.txt -exec cat {} +", "cp -r ../src /tmp/x", "cp -r /home /tmp/x",
			"tar cf x.tar ..",
		},
		tool.Allow: {
			"mv src/a src/b", "mv sub s2", "git mv src/a src/b", "git grep X src", "git grep X -- src", "git diff",
			"git diff --stat HEAD~1", "git diff main...HEAD -- src", "git log -p -3", "git log dev", "git diff $base",
			"git show HEAD", "git show HEAD:src/a", "git blame src/a", "git stash push -m keys", "git stash pop stash@{0}",
			"git archive HEAD src", "git cat-file -p HEAD", "grep -rn X src", "ls ..", "cat ../x", "grep X /tmp/y",
		},
	} {
		for _, line := range lines {
			if d := decide(t, e, bash(t, tool.ModeDefault, line)); d.Verdict != want {
				t.Errorf("%s: %s %+v, want %s", line, d.Verdict, d.Reasons, want)
			}
		}
	}
	trees := newEngine(t, Options{Rules: permission.Rules{Deny: []string{"Read(*.pem)"}, Allow: []string{"Bash"}}})
	for _, line := range []string{"git grep X", "mv sub s2", "grep -rn X .."} { // as grep -r X .
		if d := decide(t, trees, bash(t, tool.ModeDefault, line)); d.Verdict != tool.Allow {
			t.Errorf("%s: %s %+v: a rule for a name at any depth is not about a whole tree", line, d.Verdict, d.Reasons)
		}
	}
}

func cmd(line string) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call { return bash(t, tool.ModeDefault, line) }
}

func read(path string) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call { return fileCall(t, tool.ModeDefault, "Read", path) }
}

func write(path string) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call { return fileCall(t, tool.ModeDefault, "Edit", path) }
}

func fetch(host string) func(testing.TB) *tool.Call {
	return func(t testing.TB) *tool.Call {
		c := newCall(t, tool.ModeDefault, "WebFetch", map[string]string{"url": "https://" + host})
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
		return newCall(t, tool.ModeDefault, name, args)
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
		rules permission.Rules
		line  string
		want  tool.Verdict
	}{
		{permission.Rules{Deny: []string{"Read(link/**)"}}, "cat link/f", tool.Deny},
		{permission.Rules{Deny: []string{"Read(link/**)"}}, "cat ./link/deep/../f", tool.Deny},
		{permission.Rules{Deny: []string{"Read(/" + dir + "/link/**)"}}, "cat " + dir + "/link/f", tool.Deny},
		{permission.Rules{Deny: []string{"Read(link/f)"}}, "cat link/f", tool.Deny},
		{permission.Rules{Deny: []string{"Read(link/*.go)"}}, "cat link/a.go", tool.Deny},
		{permission.Rules{Deny: []string{"Edit(link/deep/**)"}}, "rm -r link", tool.Deny},
		{permission.Rules{Deny: []string{"Read(real/**)"}}, "cat link/f", tool.Deny},
		{permission.Rules{Deny: []string{"Read(link/**)"}}, "cat other/f", tool.Allow},
		{permission.Rules{Deny: []string{"Read(link/*.go)"}}, "cat link/a.txt", tool.Allow},
		{permission.Rules{Deny: []string{"Read(links/**)"}}, "cat link/f", tool.Allow},
	} {
		tt.rules.Allow = []string{"Bash"}
		e := newEngine(t, Options{Rules: tt.rules})
		c := bashIn(t, dir, tool.ModeDefault, tt.line)
		c.Facts.Uses = (*guard.Rules)(nil).ScriptUses(c.Facts.Uses.Script, dir) // with links resolved
		if d := decide(t, e, c); d.Verdict != tt.want {
			t.Errorf("%v, %s: %s %+v, want %s", tt.rules.Deny, tt.line, d.Verdict, d.Reasons, tt.want)
		}
	}

	e := newEngine(t, Options{Rules: permission.Rules{Allow: []string{"Read(link/**)"}}})
	c := newCall(t, tool.ModeDefault, "Read", map[string]string{"file_path": "link/f"})
	c.Session.Dir, c.In.Dir = dir, dir
	c.Facts.Uses.Paths = []guard.PathUse{{Raw: "link/f", Path: filepath.Join(dir, "real/f"), Op: guard.Read}}
	if d := decide(t, e, c); d.Verdict == tool.Allow {
		t.Errorf("%s by %s: an allow that names a link allows the place that it leads to", d.Verdict, d.By)
	}
}
