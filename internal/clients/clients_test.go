package clients

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTablesCanBeRead(t *testing.T) {
	for _, name := range Names() {
		text, err := files.ReadFile(name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		c, err := parse(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range c.Tools {
			if tool.Act != As && tool.Why == "" {
				t.Errorf("%s: %s %ss, and the table does not say why", name, tool.Name, tool.Act)
			}
			if tool.Act.renames() && len(tool.Fields) == 0 {
				t.Errorf("%s: %s has no fields", name, tool.Name)
			}
		}
	}
}

// What passes is decided by hand: whoever adds a tool here has read what it does.
func TestPassing(t *testing.T) {
	want := map[string]string{
		ClaudeCode: "Agent AskUserQuestion CronCreate CronList EnterPlanMode ExitPlanMode ProposeGoal ProposeSkills " +
			"ReportFindings ScheduleWakeup ShowOnboardingRolePicker StructuredOutput Task TaskCreate TaskGet TaskList " +
			"TaskOutput TaskStop TaskUpdate TodoWrite ToolSearch",
		Codex: "close_agent create_goal get_goal multi_agent_v1close_agent multi_agent_v1resume_agent " +
			"multi_agent_v1send_input multi_agent_v1wait_agent request_user_input resume_agent send_input spawn_agent " +
			"tool_search update_goal update_plan wait_agent",
		Gemini: "ask_user complete_task enter_plan_mode exit_plan_mode invoke_agent list_background_processes " +
			"read_background_output tracker_add_dependency tracker_create_task tracker_get_task tracker_list_tasks " +
			"tracker_update_task tracker_visualize update_topic write_todos",
		OpenCode: "invalid question task todoread todowrite",
	}
	for _, c := range All() {
		var got []string
		for _, tool := range c.Tools {
			if tool.Act == Pass {
				got = append(got, tool.Name)
			}
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != want[c.Name] {
			t.Errorf("%s: these pass: %s\nwant %s", c.Name, s, want[c.Name])
		}
	}
}

func TestToolsThatNoTableHasAreJudgedByName(t *testing.T) {
	for _, c := range All() {
		for _, name := range []string{"", "Tomorrow", "BASH", "Write "} {
			if got := c.Tool(name); got.Act != ByName || got.Name != name {
				t.Errorf("%s: %q: got %+v", c.Name, name, got)
			}
		}
	}
}

func TestTablesWithMistakes(t *testing.T) {
	const head = "title T\npackage p 1.0.0\nprogram p\n"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "no title"},
		{"no tool", head, "no title, package, program or tool"},
		{"one word", head + "Read", "x.txt:4: want a name"},
		{"an act that there is not", head + "Read allow", `"allow" is none of`},
		{"as nothing", head + "Read as", "names none of our tools"},
		{"no server", head + "Read server", "names no field for the server"},
		{"twice", head + "Read pass\nRead pass", "x.txt:5: a second line for Read"},
		{"a directory of what passes", head + "Read pass @dir", "judged as ours"},
		{"values of what is judged", head + "Read as Read a:b", "is no field of a call"},
		{"ids of what is judged", head + "Read as Read ^a", "is no field of a call"},
		{"a value that goes nowhere", head + "Read pass =a:b", "gives our tool nothing"},
	} {
		if _, err := parse("x", tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

func TestVersionOfWhatIsInstalled(t *testing.T) {
	dir := t.TempDir()
	claude, _ := Find(ClaudeCode)
	write := func(path, text string) string {
		t.Helper()
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pkg := write("lib/node_modules/p/bin/claude", "")
	write("lib/node_modules/p/package.json", `{"name":"@anthropic-ai/claude-code","version":"2.2.0"}`)
	link := filepath.Join(dir, "claude")
	if err := os.Symlink(pkg, link); err != nil {
		t.Fatal(err)
	}
	other := write("lib/node_modules/q/bin/claude", "")
	write("lib/node_modules/q/package.json", `{"name":"somebody-else","version":"9.9.9"}`)
	for path, want := range map[string]string{
		link: "2.2.0", write("versions/2.1.7", ""): "2.1.7", other: "", filepath.Join(dir, "absent"): "", "": "",
	} {
		if got := claude.Installed(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	claude.Version = "2.1.330"
	for version, want := range map[string]bool{
		"2.1.330": false, "2.1.329": false, "2.1.331": true, "2.10.0": true, "3.0.0": true, "1.9.999": false,
		"2.1.330-beta.1": false, "2.2.0-nightly": true, "next": true, "2.1": true,
	} {
		if got := claude.Newer(version); got != want {
			t.Errorf("%s: got newer %v, want %v", version, got, want)
		}
	}
}

// Every tool that a client is known to have is in its table, with every argument: what is new
// in a client is decided by a person. The lists are made by make test-clients.
func TestTablesHaveEveryKnownTool(t *testing.T) {
	for _, c := range All() {
		text, err := os.ReadFile("testdata/" + c.Name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# The tools of "+c.Package+" "+c.Version+",") {
			t.Errorf("%s: the list is not of %s %s: %.80s", c.Name, c.Package, c.Version, text)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if words[0] == "#" {
				continue
			}
			n++
			i := slices.IndexFunc(c.Tools, func(tool Tool) bool { return tool.Name == words[0] })
			if i < 0 {
				t.Errorf("%s: %s is in no line of the table", c.Name, words[0])
				continue
			}
			if tool := c.Tools[i]; tool.Act == Pass || tool.Act.renames() {
				for _, f := range words[1:] {
					if _, ok := tool.Field(f); !ok {
						t.Errorf("%s: %s does not say what its argument %s does", c.Name, tool.Name, f)
					}
				}
			}
		}
		if n < 10 {
			t.Errorf("%s: only %d tools are listed", c.Name, n)
		}
	}
}
