package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX39_HostsBuildCache: what the host has compiled is used by a session, which
// changes it for nobody else.
func TestX39_HostsBuildCache(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		dir, ws := shortTemp(t), shortTemp(t)
		if err := os.WriteFile(dir+"/built", []byte("host"), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOCACHE", dir)
		cage := newCage(t, Options{Home: ws})
		needCage(t, cage)
		run := func(t *testing.T, s guard.Settings, script string) string {
			box := newBox(t, cage, "strict", s)
			_, out := runIn(t, box, ws, "sh", "-c", "cd $GOCACHE; "+script)
			return out
		}
		usual := guard.Settings{AllowedWritePaths: []string{ws}}
		t.Run("first", func(t *testing.T) {
			if out := run(t, usual, "cat built; echo session > built; echo more > new; cat built new"); out != "hostsession\nmore\n" {
				needs.Missing(t, "no overlay here: %q", out)
			}
			if out := run(t, usual, "cat built new"); out != "session\nmore\n" {
				t.Errorf("the session's own is gone: %q", out)
			}
			// What is in it takes the mount to tell, and file tools say so.
			var denied *guard.Denied
			box := newBox(t, cage, "strict", usual)
			if _, err := box.Open(t.Context(), guard.PathUse{Path: wire.GoCache + "/built", Op: guard.Read},
				os.O_RDONLY); !errors.As(err, &denied) || !strings.Contains(denied.Refusals[0].Hint, "with a command") {
				t.Errorf("a file tool: %v", err)
			}
		})
		t.Run("second", func(t *testing.T) {
			if out := run(t, usual, "ls; cat built"); out != "built\nhost" &&
				out != "cat: built: No such file or directory\n" {
				t.Errorf("another session sees %q", out)
			}
		})
		for name, s := range map[string]guard.Settings{
			"a denied path in it":        {AllowedWritePaths: []string{ws}, DeniedPaths: []string{dir + "/built"}},
			"a denied directory over it": {AllowedWritePaths: []string{ws}, DeniedPaths: []string{dir}},
			"not on the read list":       {AllowedWritePaths: []string{ws}, AllowedReadPaths: []string{ws}},
			"writable":                   {AllowedWritePaths: []string{ws, dir}},
			"everything writable":        {},
		} {
			t.Run(name, func(t *testing.T) {
				if out := run(t, s, "ls; echo x > new"); out != "" {
					t.Errorf("the cache begins with %q", out)
				}
			})
		}
		t.Run("cargo's beside it", func(t *testing.T) {
			dir := shortTemp(t)
			if err := os.WriteFile(dir+"/config.toml", []byte("host"), 0o644); err != nil {
				t.Fatal(err)
			}
			t.Setenv("CARGO_HOME", dir)
			out := run(t, usual, "cat $CARGO_HOME/config.toml; echo x > $CARGO_HOME/new; ls $CARGO_HOME")
			if out != "hostconfig.toml\nnew\n" && !strings.HasSuffix(out, "No such file or directory\nnew\n") {
				t.Errorf("a program sees %q", out)
			}
			if found, _ := filepath.Glob(dir + "/*"); len(found) != 1 {
				t.Errorf("the host has %q", found)
			}
		})
		if found, _ := filepath.Glob(dir + "/*"); len(found) != 1 {
			t.Errorf("the host has %q", found)
		}
		if b, err := os.ReadFile(dir + "/built"); err != nil || string(b) != "host" {
			t.Errorf("the host's file is %q, %v", b, err)
		}
	})
}
