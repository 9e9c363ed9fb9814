package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

func TestX03_DeniedPathThatAppears(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		backend := newCage(t, Options{})
		needCage(t, backend)
		ws := shortTemp(t)
		env, deep := ws+"/.env", ws+"/conf/prod/key"
		box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}, DeniedPaths: []string{env, deep, "/etc/shadow"}})

		e, out := runIn(t, box, ws, "sh", "-c", "ls -A")
		if e.Code != 0 || out != "" || len(e.Denials) != 0 {
			t.Errorf("a stub is there: %q %+v", out, e)
		}
		e, _ = runIn(t, box, ws, "sh", "-c", "echo stolen > .env; mkdir -p conf/prod/key/sub; echo fine > other")
		if len(e.Denials) != 2 || e.Denials[0].Layer != "denied_path_created" || e.Denials[0].Setting == "" {
			t.Errorf("denials %+v", e.Denials)
		}
		for _, p := range []string{env, deep} {
			if exists(p) {
				t.Errorf("%s is still there", p)
			}
		}
		if b, err := os.ReadFile(ws + "/other"); err != nil || string(b) != "fine\n" {
			t.Errorf("another file: %q %v", b, err)
		}
		kept, err := filepath.Glob(filepath.Join(backend.(*cage).sessionDir(t.Name()), "quarantine", "*"))
		if err != nil || len(kept) != 2 {
			t.Errorf("kept %v, %v", kept, err)
		}

		if err := os.WriteFile(env, []byte("of the person"), 0o644); err != nil {
			t.Fatal(err)
		}
		e, out = runIn(t, box, ws, "sh", "-c", "cat .env; echo x > .env")
		if e.Code == 0 || len(e.Denials) != 0 || out == "" {
			t.Errorf("a file that was there: %+v %q", e, out)
		}
		if b, err := os.ReadFile(env); err != nil || string(b) != "of the person" {
			t.Errorf("the person's file: %q %v", b, err)
		}
	})
}
