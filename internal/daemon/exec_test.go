package daemon

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// The options of one command go over the configuration; what is no mode is refused, and limits that somebody set stay.
func TestTheOptionsOfOneCommand(t *testing.T) {
	for _, tt := range []struct {
		o       StandaloneOptions
		wall    int // what is configured
		profile sandbox.Profile
		mode    tool.Mode
		raised  bool
		fails   string
	}{
		{o: StandaloneOptions{}, profile: "strict", mode: tool.ModeAuto},
		{o: StandaloneOptions{Profile: "light", Mode: tool.ModePlan}, profile: "light", mode: tool.ModePlan},
		{o: StandaloneOptions{Mode: "wild"}, profile: "strict", mode: tool.ModeAuto, fails: "unknown mode wild"},
		{o: StandaloneOptions{Terminal: true}, profile: "strict", mode: tool.ModeAuto, raised: true},
		{o: StandaloneOptions{Terminal: true}, wall: 7, profile: "strict", mode: tool.ModeAuto},
		{o: StandaloneOptions{Settings: "/no.json"}, profile: "strict", mode: tool.ModeAuto, fails: "/no.json"},
	} {
		s := &Site{Config: &config.Config{Profile: "strict"}}
		s.Config.Sessions.Mode = tool.ModeAuto
		s.Settings.Limits = guard.DefaultLimits
		if tt.wall != 0 {
			s.Settings.Limits.WallSeconds = tt.wall
		}
		before := s.Settings.Limits
		err := s.applyExec(tt.o)
		if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%+v: got %v, want %q", tt.o, err, tt.fails)
		}
		if s.Config.Profile != tt.profile || s.Config.Sessions.Mode != tt.mode {
			t.Errorf("%+v: %s, %s", tt.o, s.Config.Profile, s.Config.Sessions.Mode)
		}
		now := s.Settings.Limits
		if raised := now.WallSeconds > before.WallSeconds; raised != tt.raised {
			t.Errorf("%+v: the wall limit went from %d to %d", tt.o, before.WallSeconds, now.WallSeconds)
		}
		if tt.fails == "" && now.OutputBytes <= before.OutputBytes {
			t.Errorf("%+v: the output is limited to %d", tt.o, now.OutputBytes)
		}
	}
}

// The collector runs as the operator says, and else less often than Go would have it.
func TestHowOftenTheCollectorRuns(t *testing.T) {
	for set, want := range map[string]int{"": 300, "off": -1, "50": 50, "often": 300} {
		t.Setenv("GOGC", set)
		if got := gcPercent(); got != want {
			t.Errorf("GOGC=%s: %d, want %d", set, got, want)
		}
	}
}

// What only a daemon asks is named where nobody asks it.
func TestWhatIsNotAskedWithoutADaemon(t *testing.T) {
	c := &config.Config{}
	s := &Site{Config: c}
	if got := s.notAsked(); got != "" {
		t.Errorf("without any: %q", got)
	}
	c.Policy.CanUseTool.Webhook = "http://127.0.0.1:1"
	if got := s.notAsked(); !strings.HasPrefix(got, "policy.canUseTool of the configuration") {
		t.Errorf("got %q", got)
	}
	c.Hooks = map[string][]hooks.Definition{"preToolUse": {{}}}
	c.Policy.CanUseTool.Webhook, c.Policy.CanUseTool.Command = "", []string{"/bin/true"}
	if got := s.notAsked(); !strings.HasPrefix(got, "hooks and policy.canUseTool of the configuration") {
		t.Errorf("got %q", got)
	}
}

// A copy is between a directory and a database, and what it replaces is a directory.
func TestWhichCopiesThereAre(t *testing.T) {
	const database = "postgres://db.test/x"
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, tt := range []struct {
		copy StoreCopy
		says string
	}{
		{StoreCopy{From: a, To: b}, "between a state directory and PostgreSQL"},
		{StoreCopy{From: database, To: database}, "between a state directory and PostgreSQL"},
		{StoreCopy{From: a, To: database, Replace: true}, "for copies into a state directory"},
		{StoreCopy{From: a, To: database, Daemon: "d"}, "for copies into a state directory"},
	} {
		_, err := new(Site).StoreCopy(t.Context(), tt.copy)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != "validation_error" || !strings.Contains(e.Msg, tt.says) {
			t.Errorf("%+v: got %v, want %q", tt.copy, err, tt.says)
		}
	}
}
