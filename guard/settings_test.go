package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLimitsAreOnlyLowered(t *testing.T) {
	base := Limits{
		WallSeconds: 10, CPUSeconds: 10, MemoryBytes: 10, Processes: 10, FileSizeBytes: 10, OpenFiles: 10,
		OutputBytes: 10, DiskBytes: 10,
	}
	other := Limits{
		WallSeconds: 5, CPUSeconds: 20, MemoryBytes: 0, Processes: 9, FileSizeBytes: 10, OpenFiles: 11,
		OutputBytes: 1, DiskBytes: -1,
	}
	want := Limits{
		WallSeconds: 5, CPUSeconds: 10, MemoryBytes: 10, Processes: 9, FileSizeBytes: 10, OpenFiles: 10,
		OutputBytes: 1, DiskBytes: 10,
	}
	if got := base.Tighten(other); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, tt := range [][3]string{
		{"", "", ""}, {"truncate", "kill", "kill"}, {"kill", "truncate", "kill"}, {"", "kill", "kill"},
	} {
		if got := (Limits{OutputAction: tt[0]}).Tighten(Limits{OutputAction: tt[1]}).OutputAction; got != tt[2] {
			t.Errorf("%q and %q: got %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}

func TestOutputActionIsOneOfTwo(t *testing.T) {
	long := strings.Repeat("x", 100)
	for text, want := range map[string]string{
		`{"limits": {"outputAction": "kill"}}`: "",
		`{"limits": {}}`:                       "",
		`{"limits": {"outputAction": "drop"}}`: `limits.outputAction: "drop" is not truncate or kill`,
		`{"limits": {"outputAction": "Kill"}}`: `limits.outputAction: "Kill" is not truncate or kill`,
		`{"limits": {"outputAction": true}}`:   "limits.outputAction: true is not a value for it: want a text",
		`{"limits": {"memoryBytes": "2GB"}}`:   `limits.memoryBytes: "2GB" is not a value for it: want a whole number of bytes`,
		`{"limits": {"processes": "many"}}`:    `limits.processes: "many" is not a value for it: want a whole number`,
		`{"autoAllowBashIfSandboxed": 1}`:      `autoAllowBashIfSandboxed: 1 is not a value for it: want true or false`,
		`{"env": ["A=b"]}`:                     `env: ["A=b"] is not a value for it: want names with texts`,
		`{"network": {"search": "any"}}`:       `network.search: "any" is not a value for it: want a provider, and perhaps its url`,
		`{"limits": "` + long + `"}`:           `limits: "` + long[:59] + `… is not an object`,
		`{"limits": {"outputaction": "kill"}}`: `unknown key "limits.outputaction": write "outputAction"`,
	} {
		s, err := ParseSettings([]byte(text))
		if err == nil {
			_, _, err = s.Normalise()
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got := (Limits{}).WithDefaults().OutputAction; got != OutputTruncate {
		t.Errorf("the default is %q", got)
	}
}

func TestHomesAndTheirSecretsAreDenied(t *testing.T) {
	denied := deniedInHomes("/home/ann/project", []string{"/var/lib/sandboxd"}, []string{"/home/ann", "/home/bob", "/root"}, nil)
	for path, want := range map[string]bool{
		"/var/lib/sandboxd/.ssh":  true,
		"/var/lib/sandboxd":       false,
		"/home/bob":               true,
		"/root":                   true,
		"/home/ann":               false, // the workspace lies in it
		"/home/ann/.netrc":        true,
		"/home/ann/.config/gh":    true,
		"/home/ann/project/.ssh":  false,
		"/home/ann/.config/other": false,
	} {
		if got := slices.Contains(denied, path); got != want {
			t.Errorf("%s is denied: %v, want %v", path, got, want)
		}
	}
}

// TestUnconfineKeepsTheSecrets: outside of the sandbox every file may be touched but
// the denied ones, and nothing else changes.
func TestUnconfineKeepsTheSecrets(t *testing.T) {
	s := Settings{
		AllowedReadPaths: []string{"/w"}, AllowedWritePaths: []string{"/w"}, DeniedPaths: []string{"/s"},
		DeniedCommands: []string{"rm"}, Network: Network{AllowedDomains: []string{}},
	}
	open := s.Unconfine()
	for _, tt := range []struct {
		command string
		want    bool
	}{{"touch /etc/x", true}, {"cat /s/key", false}, {"rm /w/x", false}, {"curl http://h.example", false}} {
		if got := JudgeCommand(tt.command, "/w", "/h", open).Verdict == Allow; got != tt.want {
			t.Errorf("%s is allowed: %t, want %t", tt.command, got, tt.want)
		}
	}
	if JudgeCommand("touch /etc/x", "/w", "/h", s).Verdict == Allow {
		t.Error("the settings themselves were changed")
	}
}

// TestALinkThatAProgramMadeIsNotFollowed: a link in a tree that programs may write
// does not choose what else they may read and write.
func TestALinkThatAProgramMadeIsNotFollowed(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree, secret := root+"/tree", root+"/secret"
	for _, dir := range []string{tree, secret} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{tree + "/link": secret, root + "/own": secret} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	s, warnings, err := Settings{
		AllowedWritePaths: []string{tree, tree + "/link"}, AllowedReadPaths: []string{tree + "/link"},
	}.Normalise()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.AllowedWritePaths, []string{tree}) {
		t.Errorf("may write %v, want the tree alone", s.AllowedWritePaths)
	}
	if !slices.Equal(s.AllowedReadPaths, []string{NoPath}) {
		t.Errorf("may read %v, want nothing: an empty list is everything", s.AllowedReadPaths)
	}
	if n := strings.Count(strings.Join(warnings, "\n"), "leads through a link in a tree"); n != 2 {
		t.Errorf("%d warnings of links, want 2: %q", n, warnings)
	}
	// A link outside of what programs may write was made by a person: it is followed.
	s, _, err = Settings{AllowedWritePaths: []string{tree}, AllowedReadPaths: []string{root + "/own"}}.Normalise()
	if err != nil || !slices.Equal(s.AllowedReadPaths, []string{secret}) {
		t.Errorf("may read %v, %v, want %s", s.AllowedReadPaths, err, secret)
	}
}

func TestSettingsThatAreWrongAreRefused(t *testing.T) {
	for _, s := range []Settings{
		{Network: Network{AllowedDomains: []string{"*"}}},
		{Network: Network{AllowedDomains: []string{"a/b"}}},
		{Network: Network{AllowedDomains: []string{"xn--a"}}},
		{AllowedCommands: []string{""}},
		{DeniedCommands: []string{"rm x"}},
		{DeniedPaths: []string{"rel"}},
		{AllowedReadPaths: []string{"/a\x00b"}},
		{AllowedWritePaths: []string{"/" + strings.Repeat("a", 5000)}},
	} {
		if j := JudgeCommand("ls", "/w", "/h", s); j.Verdict != Deny || j.Reasons[0].Code != "settings_invalid" {
			t.Errorf("%+v: %s %+v", s, j.Verdict, j.Reasons)
		}
		if j := JudgePath("/w", Read, "/w", "/h", s); j.Verdict != Deny || j.Reasons[0].Code != "settings_invalid" {
			t.Errorf("%+v: %s %+v", s, j.Verdict, j.Reasons)
		}
	}
}

// Homes that are neither the caller's nor above it are others'.
func TestTheHomesOfOthers(t *testing.T) {
	for own, want := range map[string]int{"/home/mine": 1, "/root": 0, "/root/below": 0} {
		n := 0
		for _, h := range otherHomes([]string{own}, accounts()) {
			if h == "/root" {
				n++
			}
			if h == own || h == "/nonexistent" {
				t.Errorf("%s is among the homes of others than %s", h, own)
			}
		}
		if n != want {
			t.Errorf("beside %s, /root is there %d times, want %d", own, n, want)
		}
	}
}

// A user's home counts wherever it lies; the directories of system accounts do not.
func TestTheHomesOfOthersLieAnywhere(t *testing.T) {
	all := []account{{1000, "/srv/home/u"}, {1001, "/data"}, {999, "/var/lib/service"}, {1002, "/srv/home/me"}}
	got := otherHomes([]string{"/srv/home/me"}, all)
	for home, want := range map[string]bool{
		"/srv/home/u": true, "/data": false, "/var/lib/service": false, "/srv/home/me": false,
	} {
		if slices.Contains(got, home) != want {
			t.Errorf("%s among the homes of others: %v, want %v", home, !want, want)
		}
	}
}
