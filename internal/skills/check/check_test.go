package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/internal/skills/front"
	"github.com/sandboxd/sandboxd/tests/bench"
)

const good = "---\nname: good-skill\ndescription: Does good. Use when good is wanted.\n---\n# Good\n\nDo it.\n"

// tree makes files in a directory.
func tree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// judge finds and checks what a directory stands for.
func judge(t testing.TB, c *Checker, dir string) []Finding {
	t.Helper()
	packages, err := c.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c.Check(packages...)
}

// told is findings in short: RULE SEVERITY FILE:LINE.
func told(all []Finding) string {
	var list []string
	for _, f := range all {
		at := f.File
		if f.Line != nil {
			at += fmt.Sprint(":", *f.Line)
		}
		list = append(list, f.Rule+" "+string(f.Severity)+" "+at)
	}
	return strings.Join(list, ", ")
}

func steps(n int) map[string]string {
	files := map[string]string{"SKILL.md": good}
	for i := range n {
		files[fmt.Sprintf("steps/step-%02d-x.md", i+1)] = "x\n"
	}
	return files
}

func fields(text string) map[string]string {
	return map[string]string{"SKILL.md": "---\n" + text + "---\nDo it.\n"}
}

func with(name, text string) map[string]string {
	return map[string]string{"SKILL.md": good, name: text}
}

func step(name, text string) map[string]string {
	files := steps(2)
	files["steps/"+name] = text
	return files
}

const use = "description: Use when asked.\n"

func TestB01_B02_B03_B04_B05_B06_B07_B08_B09_B10_B11_B12_B13_B18_TheRules(t *testing.T) {
	body := func(text string) map[string]string {
		return map[string]string{"SKILL.md": "---\nname: good-skill\n" + use + "---\na\n" + text + "\n"}
	}
	for _, tt := range []struct {
		name, dir string
		files     map[string]string
		want      string
	}{
		{"a good one", "", map[string]string{"SKILL.md": good}, ""},
		{"B-01 no SKILL.md, and nothing else", "", map[string]string{"workflow.md": "---\nname: x\n---\ninstalled_path"}, "SKILL-01 CRITICAL SKILL.md"},
		{"B-02 no name", "", fields(use), "SKILL-02 CRITICAL SKILL.md"},
		{"B-02 an empty name", "", fields("name: ''\n" + use), "SKILL-02 CRITICAL SKILL.md"},
		{"B-02 no description", "", fields("name: good-skill\n"), "SKILL-03 CRITICAL SKILL.md"},
		{"B-02 an empty description", "", fields("name: good-skill\ndescription:\n"), "SKILL-03 CRITICAL SKILL.md"},
		{"B-02 no front matter", "", map[string]string{"SKILL.md": "# Good\n"}, "SKILL-02 CRITICAL SKILL.md, SKILL-03 CRITICAL SKILL.md"},
		{"B-02 it does not end", "", map[string]string{"SKILL.md": "---\nname: good-skill\n"}, "SKILL-02 CRITICAL SKILL.md, SKILL-03 CRITICAL SKILL.md, SKILL-07 HIGH SKILL.md"},
		{"B-03 form", "Good_x", fields("name: Good_x\n" + use), "SKILL-04 HIGH SKILL.md"},
		{"B-03 two hyphens", "a--b", fields("name: a--b\n" + use), "SKILL-04 HIGH SKILL.md"},
		{"B-03 65 characters", strings.Repeat("a", 65), fields("name: " + strings.Repeat("a", 65) + "\n" + use), "SKILL-04 HIGH SKILL.md"},
		{"B-04 another name", "create-story", fields("name: make-story\n" + use), "SKILL-05 HIGH SKILL.md"},
		{"B-05 no trigger", "", fields("name: good-skill\ndescription: Good. Use whenever needed.\n"), "SKILL-06 MEDIUM SKILL.md"},
		{"B-05 iffy", "", fields("name: good-skill\ndescription: Good. Use iffy things.\n"), "SKILL-06 MEDIUM SKILL.md"},
		{"B-05 use if, in any case", "", fields("name: good-skill\ndescription: good. USE  IF so\n"), ""},
		{"B-05 no boundary in front is asked", "", fields("name: good-skill\ndescription: Reuse when needed.\n"), ""},
		{"B-05 when-to-use is a trigger too", "", fields("name: good-skill\ndescription: Good.\nwhen-to-use: asked\n"), "SPEC-02 LOW SKILL.md:4"},
		{"B-05 1024 characters", "", fields("name: good-skill\ndescription: Use when " + strings.Repeat("é", 1015) + "\n"), ""},
		{"B-05 1025", "", fields("name: good-skill\ndescription: Use when " + strings.Repeat("é", 1016) + "\n"), "SKILL-06 MEDIUM SKILL.md"},
		{"B-06 no text", "", map[string]string{"SKILL.md": "---\nname: good-skill\n" + use + "---\n \n"}, "SKILL-07 HIGH SKILL.md"},
		{"B-07 workflow with name", "", with("workflow.md", "---\nname: x\n---\nbody\n"), "WF-01 HIGH workflow.md"},
		{"B-07 a description deeper", "", with("a/b/c.md", "---\ndescription: x\n---\n"), "WF-02 HIGH a/b/c.md"},
		{"B-07 no front matter", "", with("a.md", "name: x\n"), ""},
		{"B-07 a package in it is judged by itself", "", with("in/SKILL.md", good), ""},
		{"B-08 in the text", "", body("see {Installed_Path}/x"), "PATH-02 HIGH SKILL.md:6"},
		{"B-08 in front matter and YAML", "", map[string]string{"SKILL.md": "---\nname: good-skill\n" + use + "metadata: installed_path\n---\na\n", "x.yaml": "a: 1\nb: INSTALLED_PATH\n", "x.txt": "installed_path"}, "PATH-02 HIGH SKILL.md:4, PATH-02 HIGH x.yaml:2"},
		{"B-08 fenced code is left out", "", body("```sh\ninstalled_path\n```\n~~~~\n```\ninstalled_path\n~~~~\nx `installed_path`"), "PATH-02 HIGH SKILL.md:13"},
		{"B-09 names of steps", "", step("Step1.md", "x"), "STEP-01 MEDIUM steps/Step1.md"},
		{"B-09 one digit", "", step("step-1.md", "x"), "STEP-01 MEDIUM steps/step-1.md"},
		{"B-09 an underscore", "", step("step-01_load.md", "x"), "STEP-01 MEDIUM steps/step-01_load.md"},
		{"B-09 two letters", "", step("step-01ab-x.md", "x"), "STEP-01 MEDIUM steps/step-01ab-x.md"},
		{"B-09 a letter", "", step("step-02a-analyze.md", "x"), ""},
		{"B-09 no Markdown is no step", "", step("notes.txt", "x"), ""},
		{"B-10 a description trips both", "", step("step-03-x.md", "---\ndescription: x\n---\nb\n"), "WF-02 HIGH steps/step-03-x.md, STEP-06 MEDIUM steps/step-03-x.md"},
		{"B-10 CX-56 a name trips both", "", step("step-03-x.md", "---\nname: x\n---\nb\n"), "WF-01 HIGH steps/step-03-x.md, STEP-06 MEDIUM steps/step-03-x.md"},
		{"B-11 one", "", steps(1), "STEP-07 LOW steps/"},
		{"B-11 two", "", steps(2), ""},
		{"B-11 ten", "", steps(10), ""},
		{"B-11 eleven", "", steps(11), "STEP-07 LOW steps/"},
		{"B-12 once in a line", "", body("it takes 5 min, ~5 min, ETA"), "SEQ-02 LOW SKILL.md:6"},
		{"B-12 spaces", "", body("~ 5 min"), "SEQ-02 LOW SKILL.md:6"},
		{"B-12 estimated", "", body("Estimated  Time"), "SEQ-02 LOW SKILL.md:6"},
		{"B-12 ETA", "", body("the ETA."), "SEQ-02 LOW SKILL.md:6"},
		{"B-12 words that are none", "", body("beta, eta, ETAS, takes five min, time"), ""},
		{"B-12 fenced", "", body("```\nETA\n```"), ""},
		{"B-13 three lines, CRLF and a byte order mark", "", map[string]string{"SKILL.md": "\ufeff" + strings.ReplaceAll("---\nname: \"good-skill\"\ndescription: |\n  Good.\n  Use when\n  asked.\n---\na\nETA\n", "\n", "\r\n")}, "SEQ-02 LOW SKILL.md:9"},
		{"B-13 --- in the text", "", body("\n---\n\nb"), ""},
		{"B-18 project root", "", body("{project-root}/no/x.md and {project-root}/there.md"), "REF-01 MEDIUM SKILL.md:6"},
		{
			"B-18 below a directory that is not there", "",
			body("{project-root}/no/x.md\n{project-root}/no/in/y.md {project-root}/no/../z.md\n{project-root}/good-skill/in/z.md\n{project-root}/good-skill/no.md"),
			"REF-01 MEDIUM SKILL.md:6, REF-01 MEDIUM SKILL.md:7, REF-01 MEDIUM SKILL.md:8, REF-01 MEDIUM SKILL.md:9",
		},
		{"B-18 exec", "", body(`exec="./no.md" exec="there.md" exec="{project-root}/none.md"`), "REF-02 MEDIUM SKILL.md:6, REF-02 MEDIUM SKILL.md:6"},
		{"B-18 a path with no name in it", "", body("`/Users/<name>/x`, /home/$USER, `/Users/`, /home/..., C:\\…\n"), ""},
		{"B-18 absolute paths", "", body("in /Users/a/x\n/home/b/y\n`C:\\x`\nhttps://a.b/home/x"), "REF-03 LOW SKILL.md:6, REF-03 LOW SKILL.md:7, REF-03 LOW SKILL.md:8"},
		{"B-18 what no path is", "", with("x.csv", "name,file\na,{dir}/x.md\nb,*/y.md\nc,https://e.test/z.md\n"), ""},
		{"B-18 CSV", "", with("x.csv", "name,file\na,\"no/x.md\"\nb,./SKILL.md\nc,d\n"), "REF-04 MEDIUM x.csv:2"},
		{
			"B-18 CSV of other files", "", with("x.csv", "no/x.yaml,no/x.go\nno/x.yml,\nno/x.csv,\n"),
			"REF-04 MEDIUM x.csv:1, REF-04 MEDIUM x.csv:2, REF-04 MEDIUM x.csv:3",
		},
		{"SPEC what a reader of YAML refuses", "", fields("name: good-skill\n" + use + "argument-hint: [a] [b]\n"), "SPEC-01 MEDIUM SKILL.md, SPEC-02 LOW SKILL.md:4"},
		{
			"SPEC keys twice, each on its line", "",
			fields("# a comment\nname: no\n# more\nname: good-skill\n" + use + "metadata:\n  a: 1\n  b: {c: 1, c: 2, c: 3}\n  a: 2\n"),
			"SPEC-01 MEDIUM SKILL.md:5, SPEC-01 MEDIUM SKILL.md:9, SPEC-01 MEDIUM SKILL.md:10",
		},
		{"SPEC allowed-tools and compatibility", "", fields("name: good-skill\n" + use + "allowed-tools: Bash, Read\ncompatibility: " + strings.Repeat("x", 501) + "\n"), "SPEC-03 MEDIUM SKILL.md, SPEC-04 LOW SKILL.md:4"},
		{
			"SPEC comments are no value", "",
			fields("name: # todo\ndescription:\n  # todo\nallowed-tools: Read # Bash, [Write]\n"),
			"SKILL-02 CRITICAL SKILL.md, SKILL-03 CRITICAL SKILL.md",
		},
		{
			"SPEC a comment before a list", "", fields("name: good-skill\n" + use + "allowed-tools:\n  # - Bash\n  - Read\n"),
			"SPEC-04 LOW SKILL.md:4",
		},
		{"SPEC tools in two lines", "", fields("name: good-skill\n" + use + "allowed-tools: Read\n  # Bash,\n"), ""},
		{"SPEC spaces in brackets", "", fields("name: good-skill\n" + use + "allowed-tools: Bash(git diff:*) Read\n"), ""},
		{"SPEC long", "", map[string]string{"SKILL.md": good + strings.Repeat("x\n", 500)}, "SPEC-05 LOW SKILL.md"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cwd := t.TempDir()
			tree(t, cwd, map[string]string{"there.md": ""})
			if tt.dir == "" {
				tt.dir = "good-skill"
			}
			dir := filepath.Join(cwd, tt.dir)
			tt.files["there.md"] = ""
			tree(t, dir, tt.files)
			got := judge(t, New("", cwd), dir)
			if told(got) != tt.want {
				t.Errorf("got  %s\nwant %s", told(got), tt.want)
			}
			for _, f := range got {
				if f.Title == "" || f.Detail == "" || f.Fix == "" || f.Skill != tt.dir {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// The words of the source document.
func TestB01_B07_B08_B11_TheWordsOfTheSource(t *testing.T) {
	files := steps(1)
	files["workflow.md"] = "---\nname: x\n---\ninstalled_path\n"
	dir := filepath.Join(t.TempDir(), "good-skill")
	tree(t, dir, files)
	got := map[string]Finding{}
	for _, f := range judge(t, New("", dir), dir) {
		got[f.Rule] = f
	}
	for rule, want := range map[string]string{
		"STEP-07": "Only 1 step file found — consider inlining into workflow.md.",
		"WF-01":   "frontmatter contains `name` — this belongs only in SKILL.md.",
		"PATH-02": "`installed_path` reference found in content.",
	} {
		if got[rule].Detail != want {
			t.Errorf("got %q, want %q", got[rule].Detail, want)
		}
	}
	if fix := got["PATH-02"].Fix; fix != "Use relative paths (`./path` or `../path`) instead." {
		t.Errorf("got %q", fix)
	}
	if all := judge(t, New("", dir), filepath.Join(dir, "steps")); all[0].Detail != "SKILL.md not found in skill directory." {
		t.Errorf("got %+v", all)
	}
	eleven := steps(11)
	more := filepath.Join(t.TempDir(), "good-skill")
	tree(t, more, eleven)
	if all := judge(t, New("", more), more); all[0].Detail != "11 step files found — more than 10 risks LLM context degradation." {
		t.Errorf("got %+v", all)
	}
}

func TestB03_CX57_APrefixIsLiteral(t *testing.T) {
	for name, ok := range map[string]bool{"bmad-create-story": true, "create-story": false, "bmad-": false, "Bmad_x": false} {
		cwd := t.TempDir()
		tree(t, filepath.Join(cwd, name), fields("name: "+name+"\n"+use))
		if got := told(judge(t, New("bmad-", cwd), filepath.Join(cwd, name))); (got == "") != ok {
			t.Errorf("%s: got %s", name, got)
		}
	}
	if New("a.", "/").name.MatchString("abc") {
		t.Error("the prefix is a pattern")
	}
}

func TestB14_WhatADirectoryStandsFor(t *testing.T) {
	cwd := t.TempDir()
	tree(t, cwd, map[string]string{
		"a/SKILL.md": good, "a/in/SKILL.md": good, ".claude/skills/b/SKILL.md": good, "node_modules/c/SKILL.md": good,
		".git/d/SKILL.md": good, "empty/x": "", "file": "",
	})
	if err := os.Symlink("..", filepath.Join(cwd, "a/loop")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dirs, want string }{
		{"", ".claude/skills/b a a/in"},
		{"a", "a"},
		{".", ".claude/skills/b a a/in"},
		{".claude a a", ".claude/skills/b a"},
		{"empty", "empty"},
		{"none", "error"},
		{"file", "error"},
	} {
		found, err := New("", cwd).Find(strings.Fields(tt.dirs)...)
		var got []string
		for _, f := range found {
			rel, _ := filepath.Rel(cwd, f.Dir)
			got = append(got, rel)
		}
		if err != nil {
			got = []string{"error"}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q: got %q, want %q", tt.dirs, got, tt.want)
		}
	}
}

func TestB14_B17_SeverityAndJSON(t *testing.T) {
	line := 3
	all := []Finding{
		{Skill: "s", Rule: "SEQ-02", Severity: Low, Line: &line},
		{Skill: "t", Rule: "SKILL-01", Severity: Critical},
		{Skill: "s", Rule: "WF-01", Severity: High},
		{Skill: "s", Rule: "SKILL-06", Severity: Medium},
	}
	for i, want := range []bool{false, true, true, false} {
		if Fails(all[i:i+1]) != want {
			t.Errorf("%+v", all[i])
		}
	}
	Sort(all)
	if got := told(all); got != "SKILL-01 CRITICAL , WF-01 HIGH , SKILL-06 MEDIUM , SEQ-02 LOW :3" {
		t.Errorf("got %s", got)
	}
	b, err := json.Marshal(all[3:])
	if want := `[{"skill":"s","rule":"SEQ-02","title":"","severity":"LOW","file":"","line":3,"detail":"","fix":""}]`; err != nil || string(b) != want {
		t.Errorf("got %s", b)
	}
}

func TestB15_B16_AnnotationsAndSummary(t *testing.T) {
	line := 7
	all := []Finding{
		{Skill: "a,b", Rule: "SEQ-02", Severity: Low, File: "x:y.md", Line: &line, Detail: "100%\r\nof | it"},
		{Skill: "c", Rule: "WF-01", Severity: High, File: "w.md", Detail: "d"},
	}
	var out, sum bytes.Buffer
	Annotate(&out, all)
	want := "::notice file=a%2Cb/x%3Ay.md,line=7::SEQ-02: 100%25%0D%0Aof | it\n::warning file=c/w.md,line=1::WF-01: d\n"
	if out.String() != want {
		t.Errorf("got %s", out.String())
	}
	if err := Summary(&sum, all, 2); err != nil {
		t.Fatal(err)
	}
	want = "## Skill Validation\n\n| Skill | Rule | Severity | File | Detail |\n|---|---|---|---|---|\n" +
		"| a,b | SEQ-02 | LOW | x:y.md | 100% of \\| it |\n| c | WF-01 | HIGH | w.md | d |\n\n2 packages, 2 findings\n"
	if sum.String() != want {
		t.Errorf("got %s", sum.String())
	}
	out.Reset()
	Print(&out, all[1:], 1)
	if want := "c\n  HIGH     WF-01     w.md: d\n                     \n\n1 package, 1 finding, 1 HIGH\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

// Whoever sends a change names its files, and a CI prints what is found in them.
func TestB15_NamesOfFilesAreNoCommandsOfTheCI(t *testing.T) {
	cwd := t.TempDir()
	for _, dir := range []string{"::stop-commands::x", " ##[group]x", "a\n::add-mask::b"} {
		tree(t, filepath.Join(cwd, dir), map[string]string{"SKILL.md": good, "steps/x\n::error::y.md": "ETA\n"})
	}
	packages, err := New("", cwd).Find()
	if err != nil || len(packages) != 3 {
		t.Fatal(len(packages), err)
	}
	all := New("", cwd).Check(packages...)
	var out bytes.Buffer
	Print(&out, all, 3)
	for line := range strings.Lines(out.String()) {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "::") || strings.HasPrefix(text, "##") {
			t.Errorf("the CI obeys %q", line)
		}
	}
	for _, name := range []string{"::stop-commands::x", "##[group]x", "::add-mask::b", "::error::y.md"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("nobody learns of %q:\n%s", name, out.String())
		}
	}
	out.Reset()
	Annotate(&out, all)
	if got, want := strings.Count(out.String(), "\n"), len(all); got != want {
		t.Errorf("%d annotations have %d lines", want, got)
	}
}

func TestFilesThatAreNotJudged(t *testing.T) {
	cwd := t.TempDir()
	dir := filepath.Join(cwd, "good-skill")
	tree(t, cwd, map[string]string{"secret.md": "installed_path\n"})
	tree(t, dir, with("large.md", strings.Repeat("ETA\n", maxBeside/4+1)))
	os.Symlink("../secret.md", filepath.Join(dir, "out.md"))
	os.Symlink("dangling", filepath.Join(dir, "none.md"))
	os.Symlink(".", filepath.Join(dir, "loop"))
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := told(judge(t, New("", cwd), dir))
	if want := "REF-05 MEDIUM fifo.md, REF-05 MEDIUM large.md, REF-05 MEDIUM none.md, REF-05 MEDIUM out.md"; got != want {
		t.Errorf("got %s", got)
	}
	for _, f := range judge(t, New("", cwd), dir) {
		if out := strings.Contains(f.Detail, "a link that leads out of the package"); out != (f.File == "out.md") {
			t.Errorf("%s: %s", f.File, f.Detail)
		}
	}
	os.Remove(filepath.Join(dir, "SKILL.md"))
	os.Symlink("../secret.md", filepath.Join(dir, "SKILL.md"))
	if got := told(judge(t, New("", cwd), dir)); got != "SKILL-01 CRITICAL SKILL.md" {
		t.Errorf("got %s", got)
	}
}

// What the loader refuses for its size does not pass the check.
func TestTheCheckKnowsTheBoundsOfTheLoader(t *testing.T) {
	front64 := func(n int) string {
		return "---\nname: good-skill\n" + use + strings.Repeat("#\n", n/2) + "---\nDo it.\n"
	}
	for name, tt := range map[string]struct{ text, want string }{
		"large":               {good + strings.Repeat("x", front.MaxFile), "SKILL-01 CRITICAL SKILL.md"},
		"as large as it may":  {good + strings.Repeat("x", front.MaxFile-len(good)), ""},
		"front matter":        {front64(front.MaxMatter), "SKILL-01 CRITICAL SKILL.md"},
		"front matter within": {front64(front.MaxMatter - 128), ""},
	} {
		cwd := t.TempDir()
		dir := filepath.Join(cwd, "good-skill")
		tree(t, dir, map[string]string{"SKILL.md": tt.text})
		if got := told(judge(t, New("", cwd), dir)); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// BenchmarkCheck compares finding and judging 1,000 packages with reading them.
func BenchmarkCheck(b *testing.B) {
	cwd := b.TempDir()
	var files []string
	text := strings.Repeat("Do this and then that, and see [more](references/x.md) in time.\n", 100)
	for i := range 1000 {
		name := fmt.Sprintf("s-%04d", i)
		files = append(files, filepath.Join(cwd, name, "SKILL.md"), filepath.Join(cwd, name, "references/x.md"))
		tree(b, filepath.Join(cwd, name), map[string]string{
			"SKILL.md": "---\nname: " + name + "\n" + use + "---\n" + text, "references/x.md": text,
		})
	}
	c := New("", cwd)
	bench.Compare(b, []bench.Case{
		{Name: "cat", Run: func() {
			for _, f := range files {
				if _, err := os.ReadFile(f); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{Name: "check", Run: func() {
			packages, err := c.Find()
			if all := c.Check(packages...); err != nil || len(packages) != 1000 || len(all) > 0 {
				b.Fatal(len(packages), told(all), err)
			}
		}},
	}, bench.Limit{Case: "check", Over: "cat", AtMost: 5})
}

func FuzzCheck(f *testing.F) {
	f.Add(good, "---\nname: x\n---\n", "a,b/c.md\n")
	f.Add("---\r\nname: [\r\n---\r\n```\nETA\n", "{project-root}/x exec=\"", "\"")
	f.Fuzz(func(t *testing.T, skill, other, csv string) {
		dir := filepath.Join(t.TempDir(), "good-skill")
		tree(t, dir, map[string]string{"SKILL.md": skill, "steps/step-01-x.md": other, "x.csv": csv})
		all := judge(t, New("", dir), dir)
		for _, f := range all {
			lines := strings.Count(skill+other+csv, "\n") + 3
			if f.Line != nil && (*f.Line < 1 || *f.Line > lines) || titles[f.Rule] == "" ||
				!slices.Contains(severities, f.Severity) {
				t.Errorf("%+v", f)
			}
			if order(f.Rule) > 0 && Fails([]Finding{f}) {
				t.Errorf("a strict check fails by %+v", f)
			}
		}
	})
}
