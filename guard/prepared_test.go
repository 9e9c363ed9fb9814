package guard

import (
	"reflect"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
	"pgregory.net/rapid"
)

// someSettings differ in what is prepared, and in what is not.
func someSettings(t *rapid.T) Settings {
	list := func(name string, from ...string) []string {
		if rapid.Bool().Draw(t, name+" is nil") {
			return nil
		}
		return rapid.SliceOfN(rapid.SampledFrom(from), 0, 2).Draw(t, name)
	}
	return Settings{
		DeniedPaths: list("denied", "/w/a", "/w/b"), AllowedReadPaths: list("read", "/w", "/r"),
		AllowedWritePaths: list("write", "/w", "/w/a"), AllowedCommands: list("allowed", "rm", "ls"),
		DeniedCommands: list("refused", "rm", "ls"), AllowUnsandboxedCommands: rapid.Bool().Draw(t, "unsandboxed"),
		Network: Network{AllowedDomains: list("domains", "a.example")},
	}
}

func TestPreparedRulesSayTheSame(t *testing.T) {
	script, err := shellparse.Parse("rm a b; ls > c; curl https://a.example/x", shellparse.Options{Dir: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	u := (*Rules)(nil).ScriptUses(script, "/w")
	u.Unconfined, u.Hosts = true, []string{"a.example", "b.example"}
	var p Prepared
	rapid.Check(t, func(t *rapid.T) {
		s := someSettings(t)
		if got, want := p.Rules(s).Check(u), NewRules(s).Check(u); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if len(p.kept) > maxPrepared {
			t.Errorf("%d are kept", len(p.kept))
		}
	})
}

// Rules are of what the settings say now, whatever was prepared from the same slice.
func TestPreparedRulesFollowAListThatIsWrittenTo(t *testing.T) {
	var p Prepared
	s := Settings{DeniedPaths: []string{"/w/a"}}
	u := Uses{Paths: []PathUse{{Raw: "b", Path: "/w/b", Op: Read}}}
	if got := p.Rules(s).Check(u); got != nil {
		t.Errorf("got %+v", got)
	}
	s.DeniedPaths[0] = "/w/b"
	if got := p.Rules(s).Check(u); len(got) != 1 {
		t.Errorf("got %+v, want a refusal", got)
	}
}

func TestPreparedRulesAreMadeOnce(t *testing.T) {
	var p Prepared
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, name := range []string{"/w/a", "/w/b"} {
				p.Rules(Settings{DeniedPaths: []string{name}})
				p.Rules(Settings{DeniedPaths: []string{name}, AllowNestedSandbox: true})
			}
		})
	}
	wg.Wait()
	if len(p.kept) != 2 {
		t.Errorf("%d are kept, want one for each list", len(p.kept))
	}
}
