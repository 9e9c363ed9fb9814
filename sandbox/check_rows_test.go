package sandbox

import (
	"encoding/json"
	"errors"
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
			if got := IsPathAllowed(tt.path, op, s); got != tt.want {
				t.Errorf("%s %s under denied %v and allowed %v: %v, want %v", op, tt.path, tt.denied, tt.list, got, tt.want)
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
		if got := IsPathAllowed(tt.path, tt.op, s); got != tt.want {
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
		{nil, nil, "rm x", true},
	} {
		s := Settings{AllowedCommands: tt.allowed, DeniedCommands: tt.denied}
		if got := IsCommandAllowed(tt.cmd, s); got != tt.want {
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
	for _, tt := range []struct{ got, want string }{
		{message(CheckPath("/etc/hosts", Read, s)), "path '/etc/hosts' is outside allowed read scope"},
		{message(CheckPath("/etc/hosts", Write, s)), "path '/etc/hosts' is outside allowed write scope"},
		{message(CheckCommand("rm /project/x", s)), "command 'rm' is denied by sandbox policy"},
		{message(CheckCommand("echo $(rm /project/x)", s)), "command 'rm' is denied by sandbox policy (detected in substitution)"},
		{message(CheckCommand("echo 'open", s)), "command contains unparseable shell metacharacters"},
		{message(CheckCommand("cat /project/secret/x", s)), "path '/project/secret/x' in command is denied by sandbox policy"},
	} {
		if tt.got != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
	}
}

func message(err error) string {
	if d := (*Denied)(nil); errors.As(err, &d) {
		return d.Error()
	}
	return ""
}

// TestX22_BypassesOfNames are.
func TestX22_BypassesOfNames(t *testing.T) {
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
		if IsCommandAllowed(tt.cmd, s) {
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
		if got := IsCommandAllowed(cmd, s); got != want {
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
		if got := IsCommandAllowed(cmd, s); got != want {
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
		"cat /project/README.md": true, "cat /etc/passwd": false, "touch /project/src/a": true, "touch /project/a": false,
		"sudo ls": false, "chmod +x /project/src/a": false, "cp /project/a /tmp/x": false, "go version": true,
	} {
		if got := IsCommandAllowed(cmd, s); got != want {
			t.Errorf("%q: %v, want %v", cmd, got, want)
		}
	}
}

func TestX41_SettingsAreData(t *testing.T) {
	for _, s := range []Settings{
		{},
		{AllowedCommands: []string{}},
		{AllowedCommands: []string{"git"}, AllowedReadPaths: []string{"/a"}, Network: Network{AllowedDomains: []string{}, AllowLocalBinding: true}},
		{AllowNestedSandbox: true, EnableWeakerNestedSandbox: true, AutoAllowBashIfSandboxed: true, AllowUnsandboxedCommands: true, Limits: Limits{MemoryBytes: 1 << 40}},
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

// TestX09_HostsOfACommand judges the hosts that a line names against the list.
func TestX09_HostsOfACommand(t *testing.T) {
	s := Settings{Network: Network{AllowedDomains: []string{"api.example.com"}}}
	for cmd, want := range map[string]bool{
		"curl https://api.example.com/x":                   true,
		"curl https://evil.test/x":                         false,
		"curl https://api.example.com@evil.test/":          false,
		"curl -x evil.test:80 https://api.example.com/":    false,
		"wget -O- http://api.example.com http://evil.test": false,
		"git clone https://evil.test/r.git":                false,
		"ssh evil.test true":                               false,
		"echo https://evil.test/":                          true,
	} {
		if got := IsCommandAllowed(cmd, s); got != want {
			t.Errorf("%q: %v, want %v (%v)", cmd, got, want, CheckCommand(cmd, s))
		}
	}
	if !IsCommandAllowed("curl https://evil.test/", Settings{}) {
		t.Error("settings without a list of domains refuse a host")
	}
}

// TestX14_X15_CheckerIsPure asks the four functions the same thing from many
// goroutines: they keep nothing, and bool and error agree.
func TestX14_X15_CheckerIsPure(t *testing.T) {
	s := Settings{AllowedReadPaths: []string{"/project"}, AllowedWritePaths: []string{"/project/src"}, DeniedCommands: []string{"rm"}}
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				for _, tt := range []struct {
					allowed bool
					err     error
					want    bool
				}{
					{IsPathAllowed("/project/a", Read, s), CheckPath("/project/a", Read, s), true},
					{IsPathAllowed("/project/a", Write, s), CheckPath("/project/a", Write, s), false},
					{IsPathAllowed("/project/src/a", Write, s), CheckPath("/project/src/a", Write, s), true},
					{IsPathAllowed("/project/a", "", s), CheckPath("/project/a", "", s), false},
					{IsPathAllowed("/project/a", "execute", s), CheckPath("/project/a", "execute", s), false},
					{IsCommandAllowed("ls /project", s), CheckCommand("ls /project", s), true},
					{IsCommandAllowed("rm /project/src/a", s), CheckCommand("rm /project/src/a", s), false},
				} {
					var denied *Denied
					if tt.allowed != tt.want || (tt.err == nil) != tt.want || tt.err != nil && !errors.As(tt.err, &denied) {
						t.Errorf("got %v, %v, want %v and an error that agrees", tt.allowed, tt.err, tt.want)
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

func TestX13_Domains(t *testing.T) {
	for _, tt := range []struct {
		host    string
		domains []string
		want    bool
	}{
		{"api.example.com", []string{"*.example.com"}, true},
		{"API.Example.COM", []string{"api.example.com"}, true},
		{"example.com", []string{"*.example.com"}, false},
		{"evilexample.com", []string{"*.example.com"}, false},
		{"example.com.evil.test", []string{"example.com"}, false},
		{"example.com.", []string{"example.com"}, true},
		{"bücher.example", []string{"xn--bcher-kva.example"}, true},
		{"10.0.0.1", []string{"*.0.0.1"}, false},
		{"10.0.0.1", []string{"10.0.0.1"}, true},
		{"::ffff:10.0.0.1", []string{"10.0.0.1"}, true},
		{"127.0.0.1", []string{"example.com"}, false},
		{"", []string{"example.com"}, false},
		{"a b", []string{"*.b"}, false},
		{"x", nil, false},
	} {
		if got := HostAllowed(tt.host, tt.domains); got != tt.want {
			t.Errorf("HostAllowed(%q, %v) = %v, want %v", tt.host, tt.domains, got, tt.want)
		}
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
	for name, target := range map[string]string{"/p/l": "/etc/passwd", "/p/d": root + "/out", "/p/a": "b", "/p/b": "a", "/p/c1": "c2", "/p/c2": "sub", "/p/new": root + "/out/none", "/p/proc": "/proc/self/root"} {
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

func TestTightenNeverLoosens(t *testing.T) {
	s := Settings{AllowedWritePaths: []string{"/w"}, Network: Network{AllowedDomains: []string{"a.b"}}, Limits: Limits{WallSeconds: 10}}
	got := s.Tighten(Obligations{NoNetwork: true, ReadOnly: true, WallSeconds: 20})
	if IsPathAllowed("/w/x", Write, got) || HostAllowed("a.b", got.Network.AllowedDomains) || got.Limits.WallSeconds != 10 {
		t.Errorf("%+v", got)
	}
	if open := (Settings{}).Tighten(Obligations{ReadOnly: true}); IsPathAllowed("/w/x", Write, open) {
		t.Error("read-only over an empty list leaves writes open")
	}
}

func TestMerge(t *testing.T) {
	base := Settings{AllowedWritePaths: []string{"/w"}, DeniedPaths: []string{"/s"}, AllowedCommands: []string{"git"}, Limits: Limits{WallSeconds: 5, CPUSeconds: 6}}
	for _, tt := range []struct {
		name, doc string
		want      func(*Settings)
		fails     string
	}{
		{"nothing", "", func(*Settings) {}, ""},
		{"a list replaces", `{"allowedWritePaths":["/x"]}`, func(s *Settings) { s.AllowedWritePaths = []string{"/x"} }, ""},
		{"denied paths add", "deniedPaths: [/t]", func(s *Settings) { s.DeniedPaths = []string{"/s", "/t"} }, ""},
		{"no defaults", "defaults: none\ndeniedPaths: [/t]", func(s *Settings) { s.DeniedPaths = []string{"/t"} }, ""},
		{"null commands", `{"allowedCommands":null}`, func(s *Settings) { s.AllowedCommands = nil }, ""},
		{"no commands", `{"allowedCommands":[]}`, func(s *Settings) { s.AllowedCommands = []string{} }, ""},
		{"limits by key", "limits: {wallSeconds: 9}", func(s *Settings) { s.Limits.WallSeconds = 9 }, ""},
		{"a JSON document with tabs", "{\n\t\"allowNestedSandbox\": true\n}", func(s *Settings) { s.AllowNestedSandbox = true }, ""},
		{"unknown key", `{"allowedPaths":[]}`, nil, "unknown key"},
		{"wrong case", `{"AllowedCommands":[]}`, nil, `write "allowedCommands"`},
		{"X-11: managed domains", `{"network":{"allowManagedDomainsOnly":true}}`, nil, "not supported"},
		{"X-11: sockets", `{"network":{"allowUnixSockets":[]}}`, nil, "not supported"},
		{"X-11: all sockets", `{"network":{"allowAllUnixSockets":true}}`, nil, "not supported"},
		{"X-11: proxy", `{"network":{"httpProxyPort":1}}`, nil, "not supported"},
		{"X-11: SOCKS proxy", `{"network":{"socksProxyPort":1}}`, nil, "not supported"},
		{"X-11: violations", `{"ignoreViolations":{}}`, nil, "not supported"},
		{"X-11: ripgrep", `{"ripgrep":{"command":"rg"}}`, nil, "not supported"},
		{"X-06 and X-08: taken as written", `{"allowNestedSandbox":true,"enableWeakerNestedSandbox":true,"allowUnsandboxedCommands":true}`, func(s *Settings) {
			s.AllowNestedSandbox, s.EnableWeakerNestedSandbox, s.AllowUnsandboxedCommands = true, true, true
		}, ""},
		{"X-10: taken as written", `{"network":{"allowLocalBinding":true}}`, func(s *Settings) { s.Network.AllowLocalBinding = true }, ""},
		{"twice in JSON", `{"deniedPaths":[],"deniedPaths":["/x"]}`, nil, "twice"},
		{"twice in YAML", "deniedPaths: []\ndeniedPaths: []", nil, "already defined"},
		{"wrong type", `{"limits":{"wallSeconds":"x"}}`, nil, "wallSeconds"},
		{"not an object", `[1]`, nil, "not an object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := base.Merge([]byte(tt.doc))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("error %v, want %q", err, tt.fails)
				}
				return
			}
			want := base
			tt.want(&want)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
		})
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
		"cat ~/.ssh/id_rsa": false, "cat /home/someone/.aws/credentials": false, "cat /etc/shadow": false, "ls /run/sandboxd": false,
		"touch /etc/x": false, "echo x >> ~/.bashrc": false, "curl https://example.com": false,
	} {
		n, _, err := s.Normalise()
		if err != nil {
			t.Fatal(err)
		}
		if j := NewRules(n).JudgeCommand(cmd, ws, "/home/someone"); (j.Verdict == Allow) != want {
			t.Errorf("%q: %s, want allowed %v: %+v", cmd, j.Verdict, want, j.Reasons)
		}
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
	want := []string{`{"id":1,"verdict":"allow"`, `{"id":null,"error":`, `{"id":"b","verdict":"deny"`, `{"id":"c","error":"no settings"`, `{"id":"d","error":"unknown key`, `{"id":"e","error":"no command"`, `{"id":"f","verdict":"deny"`}
	if len(lines) != len(want) {
		t.Fatalf("%d answers to %d lines", len(lines), len(want))
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d: %s, want %s…", i+1, lines[i], want[i])
		}
	}
}
