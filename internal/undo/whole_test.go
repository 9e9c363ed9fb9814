package undo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// Where not everything that a command may lose is kept, the journal says why.
func TestWhetherEverythingIsKept(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, w *world, c *tool.Call)
		why  string
	}{
		{"a tree", func(_ *testing.T, _ *world, _ *tool.Call) {}, ""},
		{"a file that may not be written", func(_ *testing.T, w *world, c *tool.Call) {
			c.Settings.DeniedPaths = []string{w.work + "/secret"}
			c.In.Rules = guard.NewRules(c.Settings)
			w.person("secret", "x")
		}, ""},
		{"what goes nowhere", func(_ *testing.T, _ *world, c *tool.Call) {
			c.Facts.Uses.Paths = []guard.PathUse{{Path: "/dev/null", Op: guard.Write}}
		}, ""},
		{"a file that is too large", func(_ *testing.T, w *world, _ *tool.Call) {
			w.must(os.Truncate(w.work+"/f", 2<<30))
		}, "/f is too large"},
		{"no room", func(_ *testing.T, w *world, _ *tool.Call) { w.left = 0 }, "no room in the store"},
		{"a directory that is closed", func(t *testing.T, w *world, c *tool.Call) {
			needs.Root(t, "to look with the rights of another user")
			w.openAbove()
			c.Request.User = userNumber(12345)
			w.must(os.Chmod(w.work+"/d", 0o700))
		}, "cannot be looked into"},
		{"something excluded", func(_ *testing.T, w *world, _ *tool.Call) {
			w.must(os.Mkdir(w.work+"/node_modules", 0o755))
			c := defaults()
			c.Exclude = []string{"node_modules/"}
			w.j.setConfig(*c)
		}, "undo.exclude"},
		{"nothing that is excluded", func(_ *testing.T, w *world, _ *tool.Call) {
			c := defaults()
			c.Exclude = []string{"node_modules/"}
			w.j.setConfig(*c)
		}, ""},
		{"a private file", func(_ *testing.T, _ *world, c *tool.Call) {
			c.Facts.Uses.Paths = []guard.PathUse{{Path: "/tmp/x", Op: guard.Write}}
		}, "of /tmp/x nothing is kept"},
		{"a file elsewhere that is read", func(_ *testing.T, _ *world, c *tool.Call) {
			c.Facts.Uses.Paths = []guard.PathUse{{Path: "/etc/hosts", Op: guard.Read}}
		}, ""},
		{"writing is not restricted", func(_ *testing.T, _ *world, c *tool.Call) { c.Settings.AllowedWritePaths = nil }, "not restricted"},
		{"a file tool", func(_ *testing.T, _ *world, c *tool.Call) { c.Spec.Class = tool.ClassWrite }, "only of commands"},
		{"off", func(_ *testing.T, w *world, _ *tool.Call) { w.j.setConfig(Config{Mode: "off"}) }, Off},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.must(os.MkdirAll(filepath.Join(w.work, "d"), 0o755))
			w.person("f", "one")
			w.person("d/f", "one")
			c := w.newCommand("call")
			tt.make(t, w, c)
			why := w.j.Whole(t.Context(), c)
			if tt.why == "" && why != "" || !strings.Contains(why, tt.why) {
				t.Errorf("got %q, want %q", why, tt.why)
			}
		})
	}
}
