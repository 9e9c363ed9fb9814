package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// tried is a daemon whose configuration changes.
type tried struct {
	*daemon
	t    *testing.T
	ctx  context.Context
	dir  string // beside the workspace
	conf string
}

// withPolicies opens a daemon with this section policy; @ stands for its directory.
func withPolicies(t *testing.T, section string, files map[string]string) *tried {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &tried{t: t, dir: dir, conf: filepath.Join(dir, "conf.yaml")}
	d.write("work/file", "")
	for name, text := range files {
		d.write(name, text)
	}
	d.configure(section)
	d.daemon, d.ctx, _ = daemonIn(t, dir, d.conf)
	return d
}

func (d *tried) write(name, text string) {
	d.t.Helper()
	p := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o700); err != nil {
		d.t.Fatal(err)
	}
}

func (d *tried) configure(section string) {
	d.write("conf.yaml", "workspace: {roots: ["+d.dir+"/work]}\napprovals: {approver: false}\npolicy: "+
		strings.ReplaceAll(section, "@", d.dir)+"\n")
}

// judge judges a call that another program runs, and returns the verdict.
func (d *tried) judge(line string) tool.Verdict {
	d.t.Helper()
	s, err := d.current.Load().sessions.Create(d.ctx, tool.Session{
		Account: "a", Dir: filepath.Join(d.dir, "work"), Home: d.dir, Mode: tool.ModeBypassPermissions, Profile: "strict",
	})
	if err != nil {
		d.t.Fatal(err)
	}
	args, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		d.t.Fatal(err)
	}
	c := d.line.Load().Decide(d.ctx, tool.Request{
		Account: "a", Role: tool.RoleAgent, Session: s.ID, Tool: "Bash", Args: args,
	})
	if len(c.Decision.Reasons) == 0 {
		d.t.Fatalf("%s is not judged: %+v", line, c.Result.Error)
	}
	return c.Decision.Verdict
}

// denies is a policy that denies a program.
func denies(name, obligations string) string {
	return `package sandboxd.policies.acme.` + name + `

findings contains {"id": "acme.` + name + `", "effect": "deny", "message": "m"` + obligations + `} if "` + name + `" in input.starts
`
}

// A reload that lets recorded calls pass needs a word, whichever setting does it.
func TestAGuardedReloadThatLoosensNeedsAWord(t *testing.T) {
	program := map[string]string{"may-run": "#!/bin/sh\necho '{\"behavior\": \"deny\", \"message\": \"no\"}'\n"}
	rego := map[string]string{"p/a.rego": denies("make", ""), "q/a.rego": denies("cc", "")}
	for _, tt := range []struct {
		name, before, after string
		files               map[string]string
		want                string // of the error; "" passes
	}{
		{"nothing", "guardReload: true", "guardReload: true, keepDecisions: 24h", nil, ""},
		{"a rule goes", `guardReload: true, rules: {deny: [Bash(make)]}`, "guardReload: true", nil, "it loosens 1 of 2 recorded calls: Bash make: deny by deny Bash(make), now allow"},
		{"a rule comes", "guardReload: true", `guardReload: true, rules: {deny: [Bash(make)]}`, nil, ""},
		{"a rule is narrowed", `guardReload: true, rules: {deny: [Bash]}`, `guardReload: true, rules: {deny: [Bash(ls)]}`, nil, "loosens 1 of 2"},
		{"files", "{guardReload: true, dirs: [@/p]}", "{guardReload: true, dirs: [@/q]}", rego, "acme.make"},
		{"the profile", "guardReload: true, profile: strict", "guardReload: true", nil, "loosens 2 of 2"},
		{"the program that is asked", "guardReload: true, canUseTool: {command: [@/may-run]}", "guardReload: true", program, "loosens 2 of 2 recorded calls: Bash make: deny by canUseTool"},
		{"a program that nobody asked", "guardReload: true", "guardReload: true, canUseTool: {command: [@/may-run]}", program, "2 cannot be compared"},
		{"the guard itself", "guardReload: true", "guardReload: false", nil, "policy.guardReload is on, and would be off"},
		{"no guard", `rules: {deny: [Bash(make)]}`, "profile: developer", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := withPolicies(t, braced(tt.before), tt.files)
			make1 := d.judge("make")
			d.judge("ls")
			revision := d.current.Load().policy.Status().Revision
			d.configure(braced(tt.after))
			err := d.Reload(d.ctx, "ann", false)
			var said *tool.Error
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want == "":
				if loosened := d.judge("make") > make1; loosened != (d.Config().Loosens != nil) {
					t.Errorf("loosened %v, and said %+v", loosened, d.Config().Loosens)
				}
				return
			case !errors.As(err, &said) || said.Code != "reload_loosens" || !strings.Contains(said.Msg, tt.want):
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if d.current.Load().policy.Status().Revision != revision || d.judge("make") != make1 || d.Config().Failure == nil {
				t.Error("what was refused is in force, or left no trace")
			}
			if err := d.Reload(d.ctx, "ann", true); err != nil {
				t.Fatalf("with a word: %v", err)
			}
		})
	}
}

// braced is a section in one line.
func braced(section string) string {
	if strings.HasPrefix(section, "{") {
		return section
	}
	return "{" + section + "}"
}

// The record of a reload says what it loosens, also when nobody asked for the reload.
func TestTheRecordSaysThatChangedFilesLoosen(t *testing.T) {
	d := withPolicies(t, "{dirs: [@/p]}", map[string]string{"p/a.rego": denies("make", "")})
	d.judge("make")
	d.write("p/a.rego", denies("cc", ""))
	if err := d.current.Load().policy.Reload(d.ctx, false); err != nil {
		t.Fatal(err)
	}
	d.policiesChanged(d.ctx, d.current.Load(), nil)
	record, err := os.ReadFile(filepath.Join(d.dir, "state", "audit.jsonl"))
	want := "policies loaded, for their files changed: it loosens 1 of 1 recorded calls: Bash make"
	if err != nil || !strings.Contains(string(record), want) {
		t.Errorf("%v: the record has %s, want %q", err, record, want)
	}
}

// Without a recorded call nobody knows what a reload loosens.
func TestAGuardWithoutRecordedCallsRefuses(t *testing.T) {
	d := withPolicies(t, "{guardReload: true}", nil)
	d.configure(`{guardReload: true, rules: {deny: [Bash]}}`)
	if err := d.Reload(d.ctx, "ann", false); err == nil || !strings.Contains(err.Error(), "no recorded call can be compared") {
		t.Errorf("got %v", err)
	}
}

// A comparison that takes too long says nothing, so a guard refuses; without one it is passed over.
func TestAComparisonThatTakesTooLongIsNone(t *testing.T) {
	for guard, want := range map[string]string{"true": "so it is not known what it loosens", "false": ""} {
		d := withPolicies(t, "{guardReload: "+guard+"}", nil)
		d.judge("ls")
		d.current.Load().testOnlyCompare = time.Nanosecond
		d.configure("{guardReload: " + guard + ", rules: {deny: [Bash]}}")
		err := d.Reload(d.ctx, "ann", false)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("guard %s: got %v, want %q", guard, err, want)
		}
	}
}

// Files change, and a reload of the whole configuration comes before they are compared: that
// is no failure.
func TestAComparisonThatNobodyWantsAnyMoreSaysNothing(t *testing.T) {
	d := withPolicies(t, "{rules: {deny: [Read]}}", nil)
	d.judge("ls")
	var log bytes.Buffer
	d.current.Load().log = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	judge := d.current.Load().policy.Judge()
	if _, err := d.current.Load().compare(ctx, judge, judge, false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", &log)
	}
}

// A shadow with a mistake keeps nothing from starting, and is told.
func TestAShadowThatDoesNotLoadIsTold(t *testing.T) {
	d := withPolicies(t, "{shadow: @/next}", map[string]string{"next/a.rego": "package"})
	if d.judge("ls") != tool.Allow {
		t.Error("nothing runs")
	}
	s := d.statusOf(d.current.Load()).Policy.Shadow
	if s == nil || !strings.Contains(s.Failure, "a.rego") || s.Revision != "" {
		t.Errorf("got %+v", s)
	}
	d.write("next/a.rego", denies("ls", `, "obligations": {"read_only": true}`))
	if err := d.Reload(d.ctx, "ann", false); err != nil {
		t.Fatal(err)
	}
	if v := d.judge("ls"); v != tool.Allow {
		t.Errorf("the shadow decides: %s", v)
	}
	r, err := d.shadow.Report(d.ctx, 10, 0)
	if err != nil || r.Tighter != 1 || r.Failure != "" || len(r.Differences) != 1 || r.Differences[0].Shadow.Rule != "acme.ls" {
		t.Errorf("got %+v, %v", r, err)
	}
	if d.statusOf(d.current.Load()).Policy.Shadow.Revision != r.Revision || r.Dirs[0] != d.dir+"/next" {
		t.Errorf("got %+v", r)
	}
	d.configure("{}")
	if err := d.Reload(d.ctx, "ann", false); err != nil {
		t.Fatal(err)
	}
	if s := d.statusOf(d.current.Load()).Policy.Shadow; s != nil {
		t.Errorf("without a shadow: %+v", s)
	}
}

// What the daemon keeps is judged again by the request path's own decision: nothing flips.
func TestTheDaemonsCallsAreJudgedAgainAsTheyWere(t *testing.T) {
	d := withPolicies(t, "{rules: {deny: [Bash(make)], ask: ['Bash(git *)']}, profile: developer}", nil)
	for _, line := range []string{"ls", "make", "git status", "cat /etc/shadow", "rm -rf /usr", "bwrap sh", "curl a.example", "eval $x", "git push -f"} {
		d.judge(line)
	}
	d.current.Load().decisions.Flush()
	n := 0
	for rec, err := range d.current.Load().decisions.Records().All(d.ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		again, err := rec.Again()
		if err != nil {
			t.Errorf("%s: %v", rec.What(), err)
			continue
		}
		got, err := d.current.Load().policy.Judge().Judge(d.ctx, again, nil)
		if err != nil || got.Decision.Verdict != rec.Decision.Verdict || got.Decision.By != rec.Decision.By ||
			len(got.Decision.Reasons) != len(rec.Decision.Reasons) {
			t.Errorf("%s: %+v, %v, and it was %+v", rec.What(), got.Decision, err, rec.Decision)
		}
	}
	if n != 9 {
		t.Errorf("%d calls", n)
	}
}

// TestTheFilesOfAShadowAreWatched: a change of them needs no reload, as one of policy.dirs does not.
func TestTheFilesOfAShadowAreWatched(t *testing.T) {
	d := withPolicies(t, "{shadow: @/next}", map[string]string{"next/a.rego": denies("ls", "")})
	revision := func() string { return d.statusOf(d.current.Load()).Policy.Shadow.Revision }
	before := revision()
	for n := range 3000 { // each change is another one: the watch may begin after the first
		d.write("next/a.rego", denies("ls", "")+strings.Repeat("\n", n))
		if time.Sleep(20 * time.Millisecond); revision() != before {
			return
		}
	}
	t.Errorf("the shadow is still %s", before)
}
