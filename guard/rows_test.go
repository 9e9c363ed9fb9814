package guard

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestX16_SegmentBoundary(t *testing.T) {
	for _, tt := range []struct {
		path, root string
		want       bool
	}{
		{"/project/src/file.swift", "/project/", true},
		{"/project/src/file.swift", "/project", true},
		{"/project-backup/file.swift", "/project/", false},
		{"/project-backup", "/project", false},
		{"/project", "/project/", true},
		{"/project", "/project", true},
		{"/proj", "/project", false},
		{"/anything", "/", true},
		{"/", "/project", false},
	} {
		if got := Within(tt.path, tt.root); got != tt.want {
			t.Errorf("Within(%q, %q) = %v, want %v", tt.path, tt.root, got, tt.want)
		}
	}
}

// TestX20_OrderOfPathRules is the table of denied × list given × inside.
func TestX20_OrderOfPathRules(t *testing.T) {
	for _, tt := range []struct {
		denied, list []string
		path         string
		want         bool
	}{
		{nil, nil, "/a/x", true},
		{nil, []string{"/a"}, "/a/x", true},
		{nil, []string{"/a"}, "/b/x", false},
		{[]string{"/a"}, nil, "/a/x", false},
		{[]string{"/a"}, nil, "/b/x", true},
		{[]string{"/a"}, []string{"/a"}, "/a/x", false},
		{[]string{"/a/s"}, []string{"/a"}, "/a/x", true},
		{[]string{"/a"}, []string{"/b"}, "/c/x", false},
	} {
		for _, op := range []Op{Read, Write} {
			s := Settings{DeniedPaths: tt.denied, AllowedReadPaths: tt.list, AllowedWritePaths: tt.list}
			if got := pathAllowed(tt.path, op, s); got != tt.want {
				t.Errorf("%s %s under denied %v and allowed %v: %v, want %v", op, tt.path, tt.denied, tt.list, got,
					tt.want)
			}
		}
	}
}

func TestX01_X02_ReadAndWriteListsAreApart(t *testing.T) {
	s := Settings{AllowedReadPaths: []string{"/project"}, AllowedWritePaths: []string{"/project/src"}}
	for _, tt := range []struct {
		path string
		op   Op
		want bool
	}{
		{"/project/a", Read, true},
		{"/project/a", Write, false},
		{"/project/src/a", Write, true},
		{"/other", Read, false},
		{"/other", Write, false},
	} {
		if got := pathAllowed(tt.path, tt.op, s); got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.op, tt.path, got, tt.want)
		}
	}
}

func TestX04_X05_CX34_CX35_AllowedCommandsDecideAlone(t *testing.T) {
	for _, tt := range []struct {
		allowed, denied []string
		cmd             string
		want            bool
	}{
		{[]string{"git"}, []string{"git"}, "git status", true},
		{[]string{"git"}, nil, "ls", false},
		{[]string{}, nil, "ls", false},
		{[]string{}, nil, "true", false},
		{nil, []string{"rm"}, "ls", true},
		{nil, []string{"rm"}, "rm x", false},
		{nil, []string{"rm"}, "/bin/rm x", false},
		{nil, []string{"rm"}, "/bin/ls", true},
		{nil, []string{"/opt/x/tool"}, "/opt/x/tool", false},
		{nil, []string{"/opt/x/tool"}, "/opt/y/../x/tool", false},
		{nil, []string{"/opt/x/tool"}, "/opt/y/tool", true},
		{nil, nil, "rm x", true},
	} {
		s := Settings{AllowedCommands: tt.allowed, DeniedCommands: tt.denied}
		if got := commandAllowed(tt.cmd, s); got != tt.want {
			t.Errorf("%q under allowed %v denied %v: %v, want %v", tt.cmd, tt.allowed, tt.denied, got, tt.want)
		}
	}
	_, warnings, err := Settings{AllowedCommands: []string{"git"}, DeniedCommands: []string{"rm"}}.Normalise()
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "deniedCommands is ignored") {
		t.Errorf("warnings %q, error %v", warnings, err)
	}
}

func TestX21_X34_Texts(t *testing.T) {
	s := Settings{
		AllowedReadPaths: []string{"/project"}, AllowedWritePaths: []string{"/project"},
		DeniedPaths: []string{"/project/secret"}, DeniedCommands: []string{"rm"},
	}
	only := Settings{AllowedCommands: []string{"git"}}
	for _, tt := range []struct {
		got        Judgement
		code, want string
	}{
		{
			JudgePath("/etc/hosts", Read, "", "", s), "path_outside_read_scope",
			"path '/etc/hosts' is outside allowed read scope",
		},
		{
			JudgePath("/etc/hosts", Write, "", "", s), "path_outside_write_scope",
			"path '/etc/hosts' is outside allowed write scope",
		},
		{JudgePath("~bob/x", Read, "", "", s), "path_tilde_user", "path '~bob/x' names another user's home"},
		{JudgeCommand("rm /project/x", "", "", s), "command_denied", "command 'rm' is denied by sandbox policy"},
		{JudgeCommand("ls", "", "", only), "command_not_allowed", "command 'ls' is denied by sandbox policy"},
		{
			JudgeCommand("$(id) x", "", "", only), "command_unknown", "command '$(id)' is only known when it runs",
		},
		{
			JudgeCommand("echo $(rm /project/x)", "", "", s), "command_denied",
			"command 'rm' is denied by sandbox policy (detected in substitution)",
		},
		{JudgeCommand("echo 'open", "", "", s), "syntax", "command contains unparseable shell metacharacters"},
		{
			JudgeCommand("cat /project/secret/x", "", "", s), "path_denied",
			"path '/project/secret/x' in command is denied by sandbox policy",
		},
	} {
		if len(tt.got.Reasons) == 0 || tt.got.Reasons[0].Code != tt.code || message(tt.got) != tt.want {
			t.Errorf("got  %+v\nwant %s: %s", tt.got.Reasons, tt.code, tt.want)
		}
	}
}

func message(j Judgement) string {
	if len(j.Reasons) == 0 {
		return ""
	}
	return j.Reasons[0].Message
}

// Every way to write a denied name is refused.
func TestX22_X23_X24_X25_X26_X27_X28_X29_X31_BypassesOfNames(t *testing.T) {
	s := Settings{DeniedCommands: []string{"rm"}}
	for _, tt := range []struct{ id, cmd string }{
		{"X-23", "rm -rf /tmp"},
		{"X-24", "/usr/bin/rm -rf /tmp"},
		{"X-25", `\rm -rf /tmp`},
		{"X-26", `"rm" -rf /tmp`},
		{"X-26", `'rm' -rf /tmp`},
		{"X-27", `bash -c "rm -rf /tmp"`},
		{"X-27", `sh -c "rm x"`},
		{"X-27", `zsh -c "rm x"`},
		{"X-27", `dash -c "rm x"`},
		{"X-27", `ksh -c "rm x"`},
		{"X-27", `/bin/bash -c "rm x"`},
		{"X-27", "bash -c"},
		{"X-28", `bash -c "bash -c 'rm x'"`},
		{"X-29", "echo $(rm x)"},
		{"X-29", "echo `rm x`"},
		{"X-29", "rm $(echo x)"},
		{"X-31", "ls; rm x"},
		{"X-31", "echo y | xargs rm"},
		{"X-31", "A=1 rm x"},
		{"X-31", "env rm x"},
		{"X-31", "(rm x)"},
		{"X-31", "sudo rm x"},
		{"X-31", "exec rm x"},
		{"X-31", "eval rm x"},
		{"X-31", "nohup rm x"},
		{"X-31", "time rm x"},
		{"X-31", "command rm x"},
		{"X-31", "builtin eval rm x"},
	} {
		if commandAllowed(tt.cmd, s) {
			t.Errorf("%s: %q is allowed", tt.id, tt.cmd)
		}
	}
}

func TestX30_X32_PathsInCommands(t *testing.T) {
	s := Settings{DeniedPaths: []string{"/etc/"}}
	for cmd, want := range map[string]bool{
		"cat /etc/x": false, `bash -c "cat /etc/x"`: false, "rm /tmp/x": true, "ls > /etc/x": false,
		"cat /project/src/../../etc/passwd": false,
	} {
		if got := commandAllowed(cmd, s); got != want {
			t.Errorf("%q: %v, want %v", cmd, got, want)
		}
	}
}

func TestX33_EveryCommandOfAListMustBeListed(t *testing.T) {
	s := Settings{AllowedCommands: []string{"git", "echo", "bash"}}
	for cmd, want := range map[string]bool{
		"echo $(git log)": true, "echo $(id)": false,
		`bash -c "git log"`: true, `bash -c "id"`: false, // A3: the wrapper too
	} {
		if got := commandAllowed(cmd, s); got != want {
			t.Errorf("%q: %v, want %v", cmd, got, want)
		}
	}
}

// TestX38_ExampleOfTheArticle is the set that the requirements give as an example.
func TestX38_ExampleOfTheArticle(t *testing.T) {
	s := Settings{
		AllowedReadPaths: []string{"/project/"}, AllowedWritePaths: []string{"/project/src/", "/project/tests/"},
		DeniedPaths: []string{"/etc/", "/var/", "/tmp/"}, DeniedCommands: []string{"rm", "sudo", "chmod", "chown"},
	}
	for cmd, want := range map[string]bool{
		"cat /project/README.md": true, "cat /etc/passwd": false, "touch /project/src/a": true,
		"touch /project/a": false,
		"sudo ls":          false, "chmod +x /project/src/a": false, "cp /project/a /tmp/x": false, "go version": true,
	} {
		if got := commandAllowed(cmd, s); got != want {
			t.Errorf("%q: %v, want %v", cmd, got, want)
		}
	}
}

func TestX41_SettingsAreData(t *testing.T) {
	for _, s := range []Settings{
		{},
		{AllowedCommands: []string{}},
		{
			AllowedCommands: []string{"git"}, AllowedReadPaths: []string{"/a"},
			Network: Network{AllowedDomains: []string{}, AllowLocalBinding: true},
		},
		{
			AllowNestedSandbox: true, EnableWeakerNestedSandbox: true, AutoAllowBashIfSandboxed: true,
			AllowUnsandboxedCommands: true, Limits: Limits{MemoryBytes: 1 << 40},
		},
	} {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseSettings(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s, back) {
			t.Errorf("%s came back as %+v", raw, back)
		}
		if (s.AllowedCommands == nil) != (back.AllowedCommands == nil) {
			t.Errorf("%s: null and [] are confused", raw)
		}
	}
}

// pathAllowed and commandAllowed judge without a working directory: what the floor
// asks a person about is not allowed.
func pathAllowed(path string, op Op, s Settings) bool {
	return JudgePath(path, op, "", "", s).Verdict == Allow
}

func commandAllowed(cmd string, s Settings) bool {
	return JudgeCommand(cmd, "", "", s).Verdict == Allow
}

// TestX14_X15_CheckerIsPure asks the same thing from many goroutines: the functions
// keep nothing, and what is not allowed has a reason.
func TestX14_X15_CheckerIsPure(t *testing.T) {
	s := Settings{
		AllowedReadPaths: []string{"/project"}, AllowedWritePaths: []string{"/project/src"},
		DeniedCommands: []string{"rm"},
	}
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				for _, tt := range []struct {
					got  Judgement
					want bool
				}{
					{JudgePath("/project/a", Read, "", "", s), true},
					{JudgePath("/project/a", Write, "", "", s), false},
					{JudgePath("/project/src/a", Write, "", "", s), true},
					{JudgePath("/project/a", "", "", "", s), false},
					{JudgePath("/project/a", "execute", "", "", s), false},
					{JudgeCommand("ls /project", "", "", s), true},
					{JudgeCommand("rm /project/src/a", "", "", s), false},
				} {
					if (tt.got.Verdict == Allow) != tt.want || (len(tt.got.Reasons) == 0) != tt.want {
						t.Errorf("got %+v, want allowed %v and reasons that agree", tt.got, tt.want)
					}
				}
			}
		})
	}
	wg.Wait()
	if after, err := json.Marshal(s); err != nil || string(after) != string(before) {
		t.Errorf("the settings became %s, %v", after, err)
	}
}

func TestX18_ConfiguredPaths(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root+"/real", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root+"/real", root+"/link"); err != nil {
		t.Fatal(err)
	}
	s, _, err := Settings{AllowedReadPaths: []string{root + "/link/", "/absent/x"}}.Normalise()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{root + "/real", "/absent/x"}; !reflect.DeepEqual(s.AllowedReadPaths, want) {
		t.Errorf("got %v, want %v", s.AllowedReadPaths, want)
	}
	if _, _, err := (Settings{DeniedPaths: []string{"proj"}}).Normalise(); err == nil {
		t.Error("a relative configured path is taken")
	}
}

// TestX18_NoConfiguredPathLeadsThroughALinkOfAProgram: whoever writes the tree could
// otherwise choose what else it may read.
func TestX18_NoConfiguredPathLeadsThroughALinkOfAProgram(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/tree", "/victim", "/docs"} {
		if err := os.Mkdir(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"/tree/in", "/tree/out"} {
		if err := os.Symlink(root+"/victim", root+link); err != nil {
			t.Fatal(err)
		}
	}
	tree, docs := root+"/tree", root+"/docs"
	s, warnings, err := Settings{
		AllowedReadPaths: []string{docs, tree + "/in"}, AllowedWritePaths: []string{tree, tree + "/out"},
	}.Normalise()
	if err != nil || len(warnings) != 2 {
		t.Errorf("%q, %v; want a warning for each link", warnings, err)
	}
	if !reflect.DeepEqual(s.AllowedReadPaths, []string{docs}) || !reflect.DeepEqual(s.AllowedWritePaths, []string{tree}) {
		t.Errorf("readable %q, writable %q", s.AllowedReadPaths, s.AllowedWritePaths)
	}
	for _, op := range []Op{Read, Write} {
		if pathAllowed(root+"/victim/file", op, s) {
			t.Errorf("%s of what the link leads to is allowed", op)
		}
	}
}

func TestX19_LinksAreFollowedToWhereTheyLead(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"/p", "/out", "/p/sub"} {
		if err := os.Mkdir(root+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"/p/l": "/etc/passwd", "/p/d": root + "/out", "/p/a": "b", "/p/b": "a",
		"/p/c1": "c2", "/p/c2": "sub", "/p/new": root + "/out/none", "/p/proc": "/proc/self/root",
	} {
		if err := os.Symlink(target, root+name); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ path, want string }{
		{"l", "/etc/passwd"},
		{"d/new", root + "/out/new"},
		{"d/a/b/../c", root + "/out/a/c"},
		{"c1/x", root + "/p/sub/x"},
		{"c1/..", root + "/p"},
		{"new", root + "/out/none"},
		{"d/../x", root + "/x"}, // physical: d leads to out
		{"a", ""},
		{"a/x", ""},
		{"proc/etc/passwd", ""},
		{"/proc/self/root/x", ""},
		{"/proc/1/cwd", ""},
		{"/proc/thread-self/fd/3", ""},
		{"/proc/cpuinfo", "/proc/cpuinfo"},
		{"x\x00y", ""},
		{"x\ny", ""},
		{"x\u202ey", ""},
		{"", ""},
		{"~root/x", ""},
		{strings.Repeat("a", 300), ""},
		{strings.Repeat("a/", 3000), ""},
	} {
		got, err := Resolve(tt.path, root+"/p", "/home/x")
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("Resolve(%.40q) = %q, %v; want %q", tt.path, got, err, tt.want)
		}
	}
}

// TestDefaultSettings: everyday lines pass, secrets do not.
func TestDefaultSettings(t *testing.T) {
	ws := t.TempDir()
	s := DefaultSettings(ws, "/home/someone", []string{"/run/sandboxd"})
	for cmd, want := range map[string]bool{
		"go test ./... | tail -5": true, `git commit -m "rm; sudo"`: true, "npm test": true,
		`for f in *.go; do wc -l "$f"; done`: true, "cat > x.go <<'EOF'\n$(rm -rf /)\nEOF": true,
		"find . -name x | while read -r f; do wc -l \"$f\"; done": true,
		"echo x > /dev/stderr": true, "curl http://localhost:8080": true, "cat /etc/os-release": true,
		"cat ~/.ssh/id_rsa": false, "cat /home/someone/.aws/credentials": false, "cat /etc/shadow": false,
		"ls /run/sandboxd": false,
		"touch /etc/x":     false, "echo x >> ~/.bashrc": false, "curl https://example.com": false,
	} {
		n, _, err := s.Normalise()
		if err != nil {
			t.Fatal(err)
		}
		if j := NewRules(n).JudgeCommand(cmd, ws, "/home/someone"); (j.Verdict == Allow) != want {
			t.Errorf("%q: %s, want allowed %v: %+v", cmd, j.Verdict, want, j.Reasons)
		}
	}
	if !s.AutoAllowBashIfSandboxed {
		t.Error("confined commands are asked about")
	}
	if !reflect.DeepEqual(DefaultLimits, (Limits{}).WithDefaults()) {
		t.Error("the zero limits are not the default ones")
	}
}

func TestBulkAnswersEveryLine(t *testing.T) {
	in := strings.Join([]string{
		`{"id":1,"command":"ls","cwd":"/w","settings":{}}`,
		`not json`,
		`{"id":"b","command":"rm x","cwd":"/w","settings":{"deniedCommands":["rm"]}}`,
		`{"id":"c","command":"ls","cwd":"/w"}`,
		`{"id":"d","command":"ls","cwd":"/w","settings":{"nope":1}}`,
		`{"id":"e","cwd":"/w","settings":{}}`,
		`{"id":"f","command":"ls","cwd":"/w","settings":{"deniedPaths":["rel"]}}`,
	}, "\n")
	var out strings.Builder
	if err := CheckCommandLines(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`{"id":1,"verdict":"allow"`, `{"id":null,"error":`, `{"id":"b","verdict":"deny"`,
		`{"id":"c","error":"no settings"`, `{"id":"d","error":"unknown key`, `{"id":"e","error":"no command"`,
		`{"id":"f","verdict":"deny"`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d answers to %d lines", len(lines), len(want))
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d: %s, want %s…", i+1, lines[i], want[i])
		}
	}
}
