package skills

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/skills/front"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/golden"
)

func names(s Set) (list []string) {
	for _, k := range s.Skills {
		list = append(list, k.Name)
	}
	return list
}

func code(err error) string {
	if e, ok := err.(*tool.Error); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestK02_K04_TheBuiltInSkills(t *testing.T) {
	w := newWorld(t, Config{})
	var got []string
	for _, k := range w.set().Skills {
		got = append(got, k.Name+" | "+strings.Join(k.Aliases, ", ")+" | "+strings.Join(k.ToolRestrictions, ", "))
		if b, err := json.Marshal(k.Aliases); err != nil || b[0] != '[' { // clients read a list
			t.Errorf("%s: the aliases are %s, %v", k.Name, b, err)
		}
	}
	want := []string{
		"commit | ci | bash, read, glob, grep",
		"review | review-pr, cr | bash, read, glob, grep",
		"simplify |  | bash, read, grep, glob",
		"debug | investigate, diagnose | read, grep, glob, bash",
		"test | run-tests | bash, read, write, glob, grep",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestK03_WhatTheBuiltInSkillsSay(t *testing.T) {
	w := newWorld(t, Config{})
	for name, points := range map[string][]string{
		"commit":   {"git diff", "message", "Never run git add, git commit or git push"},
		"review":   {"Correctness", "Security", "Performance", "Style", "Testing"},
		"simplify": {"Reuse", "Quality", "Efficiency"},
		"debug":    {"root cause", "Change nothing"},
		"test":     {"Write tests", "run them"},
	} {
		text, err := w.find(name).prompt()
		for _, p := range points {
			if err != nil || !strings.Contains(text, p) {
				t.Errorf("%s does not say %q, %v", name, p, err)
			}
		}
	}
}

func TestK05_TestNeedsAFramework(t *testing.T) {
	w := newWorld(t, Config{})
	for file, want := range map[string]bool{
		"": false, "README.md": false, "jest.configuration": false, "a.jest.config.js": false,
		"Package.swift": true, "pytest.ini": true, "Cargo.toml": true, "go.mod": true, "jest.config": true,
		"jest.config.ts": true, "vitest.config.mjs": true,
	} {
		if file != "" {
			w.write("work/"+file, "")
		}
		k := w.find("run-tests")
		if listed := strings.Contains(w.set().List(), "- test "); k.Available != want || listed != want {
			t.Errorf("with %q: available %v, listed %v, want %v", file, k.Available, listed, want)
		}
		_, err := w.run("c", `{"skill":"test"}`)
		if !want && code(err) != "skill_not_available" || want && err != nil {
			t.Errorf("with %q: %v", file, err)
		}
		w.session.Skills = nil
		os.Remove(filepath.Join(w.work, file))
	}
}

func TestK06_NamesAliasesAndTheirOrder(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/b/SKILL.md", "---\ndescription: d\naliases: x, debug\n---\nb\n")
	w.write("home/.claude/skills/mine/SKILL.md", "---\nname: commit\naliases: mine\n---\nm\n")
	set := w.set()
	if got := names(set); !slices.Equal(got, []string{"commit", "review", "simplify", "debug", "test", "b"}) {
		t.Errorf("got %q", got)
	}
	if _, found := set.Find("ci"); found {
		t.Error("the aliases of the skill that was replaced are there")
	}
	for alias, want := range map[string]string{"mine": "commit", "cr": "review", "x": "b", "debug": "debug"} {
		if k, _ := set.Find(alias); k.Name != want {
			t.Errorf("%s is %q, want %q", alias, k.Name, want)
		}
	}
	os.RemoveAll(filepath.Join(w.home, ".claude/skills/mine"))
	if w.find("ci").Source != Builtin {
		t.Error("the built-in one does not come back")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { w.set().Find("x") })
	}
	wg.Wait()
}

func TestK07_K08_TheLaterDirectoryWins(t *testing.T) {
	places := []string{
		"home/.config/agents/skills", "home/.agents/skills", "home/.claude/skills",
		"work/.agents/skills", "work/.claude/skills",
	}
	for _, workspace := range []bool{true, false} {
		w := newWorld(t, Config{Workspace: workspace})
		for i, p := range places {
			w.write(p+"/one/SKILL.md", fmt.Sprintf("---\ndescription: d%d\n---\nx\n", i))
			want := i
			if i > 2 && !workspace {
				want = 2
			}
			k := w.find("one")
			if k.Description != fmt.Sprint("d", want) || (k.Source == Workspace) != (want > 2) {
				t.Errorf("workspace %v, %d directories: got %s of %s", workspace, i+1, k.Description, k.Source)
			}
		}
	}
}

func TestK09_OnePackageIsCountedOnce(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.agents/skills/real/SKILL.md", "---\ndescription: d\n---\nx\n")
	w.write("home/.agents/skills/group/deep/SKILL.md", "---\ndescription: d\n---\nx\n")
	dir := filepath.Join(w.home, ".claude/skills")
	os.MkdirAll(dir, 0o755)
	os.Symlink(filepath.Join(w.home, ".agents/skills/real"), filepath.Join(dir, "other"))
	os.Symlink(dir, filepath.Join(dir, "loop"))
	if got := names(w.set())[5:]; !slices.Equal(got, []string{"real"}) {
		t.Errorf("got %q", got)
	}
}

func TestK10_ANameIsThatOfTheDirectory(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.agents/skills/real/SKILL.md", "---\ndescription: d\n---\nx\n")
	if k, found := w.set().Find("real"); !found || len(k.Diagnostics) > 0 {
		t.Errorf("got %+v", k)
	}
}

// Front matter is read as far as it goes, whatever its lines look like.
func TestK11_TheEndOfFrontMatter(t *testing.T) {
	w := newWorld(t, Config{})
	long := strings.Repeat("x ", firstRead)
	for name, matter := range map[string]string{
		"short": "description: d\n---\nbody\n---\n", "rule": "metadata:\n----\n---x\ndescription: d\n--- \t\nbody\n",
		"crlf": "description: d\r\n---\r\nbody\r\n", "open": "description: d\n---", "long": "license: " + long + "\ndescription: d\n---\nbody\n",
		"body": "description: d\n---\n" + long,
	} {
		w.write("home/.claude/skills/"+name+"/SKILL.md", "---\n"+matter)
		if k := w.find(name); k.Description != "d" {
			t.Errorf("%s: got %q", name, k.Description)
		}
		file := "---\n" + matter
		if end := matterEnd([]byte(file)); end > 0 && front.Parse(file[:end]).Body != "" {
			t.Errorf("%s: %q is more than front matter", name, file[:end])
		}
	}
}

func TestK10_FrontMatterOfASkill(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/polyv/SKILL.md", `---
name: polyv-live-cli
description: 管理保利威直播服务
aliases: live, plv
allowed-tools: Bash, Read, Write, Glob
when-to-use: user asks about live streaming management
argument-hint: [action] [options]
---

# polyv-live-cli Skill
`)
	w.write("home/.claude/skills/under/SKILL.md",
		"---\nallowed_tools: Read\nwhen_to_use: w\nargument_hint: h\nuser_invocable: false\nmodel: m\n---\n")
	k := w.find("plv")
	if k.Name != "polyv-live-cli" || k.Description != "管理保利威直播服务" || !slices.Equal(k.Aliases, []string{"live", "plv"}) ||
		!slices.Equal(k.ToolRestrictions, []string{"bash", "read", "write", "glob"}) || k.Model != nil ||
		val(k.WhenToUse) != "user asks about live streaming management" || val(k.ArgumentHint) != "[action] [options]" {
		t.Errorf("got %+v", k)
	}
	k = w.find("under")
	if !slices.Equal(k.ToolRestrictions, []string{"read"}) || val(k.WhenToUse)+val(k.ArgumentHint)+val(k.Model) != "whm" ||
		k.UserInvocable {
		t.Errorf("got %+v", k)
	}
}

func TestK11_WhatIsNoSkill(t *testing.T) {
	w := newWorld(t, Config{Workspace: true})
	for name, text := range map[string]string{
		"empty": "", "plain": "# Plain\n", "open": "---\nname: open\n", "control": "---\nname: \"a\\u0007\"\n---\n",
		"slash": "---\nname: a/b\n---\n", "long": "---\nname: " + strings.Repeat("a", 4*maxName+1) + "\n---\n",
		"large": "---\nname: large\n---\n" + strings.Repeat("x", front.MaxFile),
		"deep":  "---\nname: deep\n" + strings.Repeat("#\n", front.MaxMatter/2) + "---\n",
	} {
		w.write("home/.claude/skills/"+name+"/SKILL.md", text)
	}
	w.write("secret", "---\nname: out\n---\nsecret\n")
	w.write("work/.claude/skills/out/x", "")
	os.Symlink("../../../../secret", filepath.Join(w.work, ".claude/skills/out/SKILL.md"))
	w.write("work/.claude/skills/up/x", "")
	w.write("work/inside", "---\nname: up\n---\n")
	os.Symlink("../../../inside", filepath.Join(w.work, ".claude/skills/up/SKILL.md"))
	fifo := filepath.Join(w.home, ".claude/skills/fifo")
	os.Mkdir(fifo, 0o755)
	if err := syscall.Mkfifo(filepath.Join(fifo, "SKILL.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(filepath.Join(w.home, ".claude/skills/dir/SKILL.md"), 0o755)
	w.write("home/.claude/skills/nothing/README.md", "no package")
	set := w.set()
	if got := names(set)[5:]; len(got) != 0 {
		t.Errorf("these are skills: %q", got)
	}
	why := map[string]string{}
	for _, i := range set.Ignored {
		why[filepath.Base(i.Path)] = i.Reason
	}
	for name, want := range map[string]string{
		"empty": "front matter", "plain": "front matter", "open": "front matter", "control": "characters", "slash": "characters",
		"long":  "is too long",
		"large": "more than 1048576", "deep": "65536", "out": "escapes", "up": "escapes", "fifo": "is no file", "dir": "is no file",
	} {
		if !strings.Contains(why[name], want) {
			t.Errorf("%s: got %q, want %q in it", name, why[name], want)
		}
		delete(why, name)
	}
	if len(why) > 0 {
		t.Errorf("also ignored: %v", why)
	}
}

// A package may have so many files, in so many directories; hidden ones are none of it.
func TestK16_SupportingFilesAreBounded(t *testing.T) {
	w := newWorld(t, Config{})
	const at = "home/.claude/skills/"
	w.write(at+"wide/SKILL.md", "---\nname: wide\n---\n")
	for i := range maxDirs + 1 {
		w.write(fmt.Sprintf("%swide/d%d/f", at, i), "")
	}
	w.write(at+"wide/.env", "")
	w.write(at+"wide/.git/config", "")
	w.write(at+"wide/d0/.env", "")
	if got := w.find("wide").SupportingFiles; len(got) != maxDirs || slices.ContainsFunc(got, func(name string) bool {
		return strings.Contains(name, ".")
	}) {
		t.Errorf("files of %d directories, %q…", len(got), got[:3])
	}
	dir := filepath.Join(w.root, at, "wide", "d0")
	w.write(at+"wide/d0/g", "")
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := (pack{place: place{dir: dir}}).files(".", found, make([]string, maxEntries-1)); len(got) != maxEntries {
		t.Errorf("%d files", len(got))
	}
}

// What there is instead of a skill that is not there are at most fifty that can be used.
func TestAHintHasFiftyNames(t *testing.T) {
	var set Set
	for i := range 60 {
		set.Skills = append(set.Skills, Skill{Name: fmt.Sprint("s", i), Available: i != 3})
	}
	e, ok := errors.AsType[*tool.Error](notFound(set, strings.Repeat("n", 200)))
	if !ok || e.Code != "skill_not_found" || len(e.Msg) > 130 {
		t.Fatalf("got %+v", e)
	}
	if names := strings.Split(strings.TrimPrefix(e.Hint, "there are: "), ", "); len(names) != 50 || slices.Contains(names, "s3") ||
		names[49] != "s50" {
		t.Errorf("the hint has %d names: %s", len(names), e.Hint)
	}
}

func TestK13_K14_K15_NamesInAllowedTools(t *testing.T) {
	if len(tool.SkillNames) != 22 {
		t.Errorf("%d names", len(tool.SkillNames))
	}
	for _, tt := range []struct {
		in, want string
		says     string // in a diagnostic, or none
	}{
		{"Bash read WEBFETCH", "bash read webFetch", ""},
		{"taskCreate NotebookEdit", "taskCreate notebookEdit", ""},
		{"Foo", "Foo", "Foo is no tool"},
		{"*", "*", "no tool"},
		{"mcp__github__list_prs", "mcp__github__list_prs", ""},
		{"Bash(git diff:*)", "Bash(git diff:*)", ""},
		{"Read(src/*)", "Read(src/*)", "lets nothing be called"},
		{"", "", "empty"},
	} {
		f := front.Field{Raw: tt.in}
		list, said := restrict(f.List(true))
		if got := strings.Join(list, " "); got != tt.want || list == nil || !strings.Contains(strings.Join(said, "\n"), tt.says) ||
			(tt.says == "") != (len(said) == 0) {
			t.Errorf("%q: got %q, %q", tt.in, got, said)
		}
	}
}

func TestK16_SupportingFilesAreListedAndNotRead(t *testing.T) {
	w := newWorld(t, Config{})
	base := "home/.claude/skills/p/"
	w.write(base+"SKILL.md", "---\ndescription: d\n---\nSee [x](references/x.md), [y](./scripts/y.sh#L1), [z](no.md), [w](https://a.b/references/x.md).\n")
	w.write(base+"references/x.md", "x")
	w.write(base+"scripts/y.sh", "y")
	w.write(base+"scripts/lib/deep.sh", "too deep")
	w.write(base+"a.txt", "a")
	w.write(base+".hidden/x", "x")
	big, err := os.Create(filepath.Join(w.root, base+"templates.bin"))
	if err != nil {
		t.Fatal(err)
	}
	big.Truncate(10 << 30) // reading it would be noticed
	big.Close()
	os.Chmod(filepath.Join(w.root, base+"a.txt"), 0)
	k := w.find("p")
	if want := []string{"a.txt", "references/x.md", "scripts/y.sh", "templates.bin"}; !slices.Equal(k.SupportingFiles, want) {
		t.Errorf("got %q, want %q", k.SupportingFiles, want)
	}
	dir := filepath.Join(w.root, base)
	text, err := k.prompt()
	want := "See [x](" + dir + "/references/x.md), [y](" + dir + "/scripts/y.sh#L1), [z](no.md), [w](https://a.b/references/x.md)."
	if err != nil || text != want {
		t.Errorf("got  %q, %v\nwant %q", text, err, want)
	}
}

func TestK17_OtherDirectoriesAndAWhiteList(t *testing.T) {
	w := newWorld(t, Config{})
	for _, name := range []string{"a", "b", "c"} {
		w.write("home/.claude/skills/"+name+"/SKILL.md", "---\ndescription: d\n---\n")
		w.write("opt/"+name+"2/SKILL.md", "---\ndescription: d\n---\n")
	}
	for _, tt := range []struct {
		c    Config
		want string
	}{
		{Config{}, "a b c"},
		{Config{Names: []string{"b", "z"}}, "b"},
		{Config{Dirs: []string{filepath.Join(w.root, "opt")}}, "a2 b2 c2"},
		{Config{Dirs: []string{filepath.Join(w.root, "none")}}, ""},
	} {
		w.f.config.Store(&tt.c)
		if got := strings.Join(names(w.set())[5:], " "); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.c, got, tt.want)
		}
	}
}

func TestK18_TheListForThePromptIsGenerated(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("work/go.mod", "")
	w.write("home/.claude/skills/deploy/SKILL.md",
		"---\ndescription: |\n  Deploys.\n  In two lines.\nargument-hint: '[message] <file…>'\nwhen-to-use: asked to deploy\n---\n")
	w.write("home/.claude/skills/hidden/SKILL.md", "---\ndescription: d\nuser-invocable: false\n---\n")
	w.write("home/.claude/skills/long/SKILL.md", "---\ndescription: "+strings.Repeat("é", 300)+"\n---\n")
	golden.Check(t, "testdata/list.txt", w.set().List()+"\n")
	for i := range 100 {
		w.write(fmt.Sprintf("home/.claude/skills/s%03d/SKILL.md", i), "---\ndescription: "+strings.Repeat("d", 60)+"\n---\n")
	}
	if list := w.set().List(); len(list) > listBytes || len(list) < listBytes-200 || strings.HasSuffix(list, "\n") {
		t.Errorf("%d bytes", len(list))
	}
}

func TestK19_ErrorsOfTheToolSkill(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/self/SKILL.md", "---\nallowed-tools: Read, Skill\n---\n")
	w.write("home/.claude/skills/more/SKILL.md", "---\nallowed-tools: Read\nmodel: small\n---\nDo $ARGUMENTS.\n")
	for args, want := range map[string]string{
		`{"skill":"none"}`: "skill_not_found", `{"skill":"test"}`: "skill_not_available",
		`{"skill":"self"}`: "skill_restricts_skill",
	} {
		if _, err := w.run("c", args); code(err) != want || len(w.session.Skills) != 0 {
			t.Errorf("%s: got %v, %v", args, err, w.session.Skills)
		}
	}
	b, err := w.run("c1", `{"skill":"/more","args":"it"}`)
	want := began{
		Success: true, CommandName: "more", Prompt: "Do it.", AllowedTools: []string{"read"}, Model: opt("small"),
		BaseDir: opt(filepath.Join(w.home, ".claude/skills/more")), SupportingFiles: []string{},
	}
	if err != nil || !reflect.DeepEqual(b, want) {
		t.Errorf("got %+v, %v", b, err)
	}
	for i := range 3 {
		if _, err := w.run(fmt.Sprint("d", i), `{"skill":"ci"}`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.run("e", `{"skill":"ci"}`); code(err) != "skill_too_deep" || len(w.session.Skills) != 4 {
		t.Errorf("the fifth: %v, %d run", err, len(w.session.Skills))
	}
}

func TestK24_K25_ShownSkills(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/h/SKILL.md", "---\nuser-invocable: false\nargument-hint: '[message] <file…>'\n---\nDo $ARGUMENTS now.\n")
	got := routetest.Call(t, w.f.routes(), tool.RoleAgent, "GET /sessions/s/skills/h", "")
	if !strings.Contains(got, `"user_invocable":false`) || !strings.Contains(got, `"argument_hint":"[message] <file…>"`) ||
		!strings.Contains(got, `"prompt":"Do $ARGUMENTS now."`) {
		t.Errorf("got %s", got)
	}
	if list := routetest.Call(t, w.f.routes(), tool.RoleAgent, "GET /sessions/s/skills?format=prompt", ""); strings.Contains(list, "- h") {
		t.Errorf("got %s", list)
	}
	for _, tt := range []struct{ prompt, args, want string }{
		{"Do $ARGUMENTS, $ARGUMENTS.", "$ARGUMENTS `x`", "Do $ARGUMENTS `x`, $ARGUMENTS `x`."},
		{"Do it.", "a b", "Do it.\n\na b"},
		{"Do it.", "", "Do it."},
		{"Do $ARGUMENTS.", "", "Do ."},
	} {
		if got := with(tt.prompt, tt.args); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if b, err := w.run("c", `{"skill":"h","args":"this"}`); err != nil || b.Prompt != "Do this now." {
		t.Errorf("the model may use it: %+v, %v", b, err)
	}
}

func TestK01_TheShapeOfASkill(t *testing.T) {
	w := newWorld(t, Config{})
	got := routetest.Call(t, w.f.routes(), tool.RoleAgent, "GET /sessions/s/skills", "")
	want := `[{"name":"commit","description":"Analyses the diff and writes a commit message for it.","aliases":["ci"],` +
		`"user_invocable":true,"tool_restrictions":["bash","read","glob","grep"],"model":null,"available":true,` +
		`"when_to_use":"the user wants a commit message for the present changes",` +
		`"argument_hint":"[what the message should stress]","base_dir":null,"supporting_files":[],"source":"builtin","diagnostics":[]},`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %.600s", got)
	}
	if got := routetest.Call(t, w.f.routes(), tool.RoleAgent, "GET /sessions/s/skills/none", ""); !strings.HasPrefix(got, "skill_not_found: ") {
		t.Errorf("got %s", got)
	}
}

func TestConfigOfSkillsIsChecked(t *testing.T) {
	for _, c := range []Config{{Dirs: []string{"skills"}}, {Dirs: []string{"/a/../b"}}, {Names: []string{" "}}} {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	c := &Config{Dirs: []string{"/opt/skills"}, Names: []string{"a"}}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if got := c.Trusts()["dirs"]; !slices.Equal(got, c.Dirs) {
		t.Errorf("agents may write in %q", got)
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add("---\nname: a\nallowed-tools: Bash(git diff:*), Read\n---\nbody $ARGUMENTS [x](a.md)")
	f.Add("---\nallowed-tools: *\n---\n")
	f.Add("---\nname: \"\\u0000\"\n---\n")
	f.Fuzz(func(t *testing.T, file string) {
		k, err := describe("dir", file)
		if err != nil {
			return
		}
		if strings.Contains(file, "allowed-tools:") && strings.HasPrefix(file, "---\nallowed-tools:") && k.ToolRestrictions == nil {
			t.Errorf("%q restricts nothing", file)
		}
		if line := k.line(); strings.ContainsAny(line, "\n\r") {
			t.Errorf("%q is not one line", line)
		}
		k.body(file)
	})
}
