package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A hook of the configuration in force hears of a reload before it happens, and
// may keep things as they are.
func TestH04_ConfigChange(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, conf, heard := filepath.Join(dir, "work"), filepath.Join(dir, "conf.yaml"), filepath.Join(dir, "heard")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	configure := func(hook string) {
		t.Helper()
		text := "workspace: {roots: [" + work + "]}\nhooks:\n  configChange:\n    - command: '" + hook + "'\n"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("/bin/cat >" + heard)
	d, ctx, _ := daemonIn(t, dir, conf)

	configure("echo frozen >&2; exit 2")
	if err := d.Reload(ctx, "ann", false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(heard)
	if err != nil || !strings.Contains(string(text), `"trigger":"ann"`) {
		t.Errorf("the hook before heard %s, %v", text, err)
	}
	before := d.current.Load()
	configure("true")
	if err := d.Reload(ctx, "ann", false); err == nil || !strings.Contains(err.Error(), "frozen") {
		t.Errorf("got %v", err)
	}
	if d.current.Load() != before || d.Config().Failure == nil {
		t.Error("a reload that a hook blocked took effect, or left no trace")
	}
}
