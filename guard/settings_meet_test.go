package guard

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What a sub-agent may do is never more than what its parent may.
func TestN10_MeetNeverAllowsMoreThanEither(t *testing.T) {
	lines := readCorpus(t, "guard.jsonl")
	profiles := readProfiles(t)
	names := make([]string, 0, len(profiles))
	for name := range profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	commands := []string{"git", "ls", "cat", "x", "/usr/bin/git"}
	paths := []string{"/home/dev/app", "/home/dev/app/src", "/usr", "/nowhere", NoPath}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Settings {
			s, err := ParseSettings(profiles[rapid.SampledFrom(names).Draw(t, name)])
			if err != nil {
				t.Fatal(err)
			}
			some := func(of []string, what string) []string {
				return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 3, rapid.ID[string]).Draw(t, name+what)
			}
			s.DeniedPaths = append(slices.Clone(s.DeniedPaths), some(paths, " denied")...)
			s.AllowedReadPaths = append(slices.Clone(s.AllowedReadPaths), some(paths, " read")...)
			s.AllowedWritePaths = append(slices.Clone(s.AllowedWritePaths), some(paths, " write")...)
			if rapid.Bool().Draw(t, name+" lists") {
				s.AllowedCommands = some(commands, " allowed commands")
			} else {
				s.DeniedCommands = append(slices.Clone(s.DeniedCommands), some(commands, " denied commands")...)
			}
			return s
		}
		a, b := draw("child"), draw("parent")
		line := rapid.SampledFrom(lines).Draw(t, "line").Command
		judge := func(s Settings) Verdict { return JudgeCommand(line, "/home/dev/app", "/home/dev", s).Verdict }
		if got, most := judge(a.Meet(b)), min(judge(a), judge(b)); got > most {
			t.Fatalf("%q is %s under both, and at most %s", line, got, most)
		}
	})
}

func TestN10_MeetOfNetworks(t *testing.T) {
	entries := []string{
		"a.test", "*.a.test", "b.a.test", "*.b.a.test", "b.a.test:443", "a.test:8080", "*.a.test:8080", "c.test:80",
	}
	hosts := []string{"a.test", "b.a.test", "c.b.a.test", "c.test", "d.test", "single"}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Network {
			some := func(what string) []string {
				return rapid.SliceOfNDistinct(rapid.SampledFrom(entries), 0, 4, rapid.ID[string]).Draw(t, name+what)
			}
			return Network{
				AllowedDomains: some(" allowed"), DeniedDomains: some(" denied"),
				Unlisted: rapid.SampledFrom([]string{"", UnlistedAsk, UnlistedDeny}).Draw(t, name+" unlisted"),
			}
		}
		a, b := draw("child"), draw("parent")
		host, port := rapid.SampledFrom(hosts).Draw(t, "host"), rapid.SampledFrom([]int{80, 443, 8080}).Draw(t, "port")
		connect := func(n Network) Verdict { v, _ := n.Connect(host, port); return v }
		if got, most := connect(a.meet(b)), min(connect(a), connect(b)); got > most {
			t.Fatalf("%s:%d is %s under both, and at most %s", host, port, got, most)
		}
		if err := a.meet(b).validate(); err != nil {
			t.Fatal(err)
		}
	})
	got := Network{AllowedDomains: []string{"*.a.test", "c.test"}}.
		meet(Network{AllowedDomains: []string{"b.a.test:443", "*.b.a.test", "c.test:80"}}).AllowedDomains
	if want := []string{"b.a.test:443", "*.b.a.test", "c.test:80"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestN10_MeetIsBothLists(t *testing.T) {
	a := Settings{
		AllowedReadPaths: []string{"/a", "/b"}, AllowedWritePaths: []string{"/a"}, DeniedPaths: []string{"/a/x"},
		AllowedCommands: []string{"git", "ls"}, AutoAllowBashIfSandboxed: true, Limits: Limits{WallSeconds: 60},
		Env: map[string]string{"A": "1", "B": "2"},
	}
	b := Settings{
		AllowedReadPaths: []string{"/a/c", "/d"}, AllowedWritePaths: []string{"/b"}, DeniedPaths: []string{"/y"},
		DeniedCommands: []string{"ls"}, Limits: Limits{WallSeconds: 600, Processes: 3}, Env: map[string]string{"A": "1"},
		Require: []string{"seccomp"},
	}
	m := a.Meet(b)
	for _, tt := range []struct {
		name      string
		got, want []string
	}{
		{"read", m.AllowedReadPaths, []string{"/a/c"}},
		{"write", m.AllowedWritePaths, []string{NoPath}},
		{"denied", m.DeniedPaths, []string{"/a/x", "/y"}},
		{"commands", m.AllowedCommands, []string{"git"}},
		{"require", m.Require, []string{"seccomp"}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	if m.AutoAllowBashIfSandboxed || m.Limits.WallSeconds != 60 || m.Limits.Processes != 3 || len(m.Env) != 1 {
		t.Errorf("got %+v", m)
	}
}

// What adds to what programs may do has to be in both settings.
func TestN10_MeetAddsNothingOfOne(t *testing.T) {
	secret := Secret{Host: "a.test", File: "/etc/a"}
	full := Settings{
		AllowNestedSandbox: true, EnableWeakerNestedSandbox: true,
		AutoAllowBashIfSandboxed: true, AllowUnsandboxedCommands: true,
		Network: Network{
			Hosts: map[string]string{"a.test": "10.0.0.1"}, Secrets: []Secret{secret},
			CAFile: "/etc/ca", Search: &Search{}, AllowLocalBinding: true, Unlisted: UnlistedAsk,
		},
		Env: map[string]string{"A": "1"},
	}
	other := secret
	other.File = "/etc/b"
	for _, tt := range []struct{ a, b Settings }{
		{full, Settings{}},
		{Settings{}, full},
		{full, Settings{
			Network: Network{
				Secrets: []Secret{other}, CAFile: "/etc/other", Hosts: map[string]string{"a.test": "10.0.0.2"},
			},
			Env: map[string]string{"A": "2"},
		}},
	} {
		m := tt.a.Meet(tt.b)
		n := m.Network
		if m.AllowNestedSandbox || m.EnableWeakerNestedSandbox || m.AutoAllowBashIfSandboxed ||
			m.AllowUnsandboxedCommands || len(m.Env) != 0 {
			t.Errorf("got %+v", m)
		}
		if len(n.Hosts) != 0 || len(n.Secrets) != 0 || n.CAFile != "" || n.Search != nil || n.AllowLocalBinding ||
			n.Unlisted != UnlistedDeny {
			t.Errorf("got %+v", n)
		}
	}
	same := full
	same.Require = []string{"seccomp"}
	if got := full.Meet(same).Network.Secrets; len(got) != 1 || got[0].File != secret.File {
		t.Errorf("secrets of both: %+v", got)
	}
}
