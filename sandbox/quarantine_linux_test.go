package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

func TestX03_DeniedPathThatAppears(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		backend := newCage(t, Options{})
		needCage(t, backend)
		ws := shortTemp(t)
		env, deep := ws+"/.env", ws+"/conf/prod/key"
		box := newBox(t, backend, "strict", guard.Settings{
			AllowedWritePaths: []string{ws},
			DeniedPaths:       []string{env, deep, "/etc/shadow"},
		})

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
		kept, err := filepath.Glob(filepath.Join(backend.(*cage).sessionDir(t.Name(), Daemon()), "quarantine", "*"))
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

// TestX03_ALastingProgramKeepsNothingDenied: what it makes is taken away while it runs, and
// reported once; no limit of the settings that is made for calls ends it.
func TestX03_ALastingProgramKeepsNothingDenied(t *testing.T) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{
		AllowedWritePaths: []string{ws}, DeniedPaths: []string{ws + "/.env"},
		Limits: guard.Limits{WallSeconds: 1, OutputBytes: 10, OutputAction: guard.OutputKill},
	})
	var out bytes.Buffer
	// It ends when the file has gone twice.
	e := runSpec(t, box, Spec{
		Argv: []string{"sh", "-c", `for i in 1 2; do echo stolen > .env; while [ -e .env ]; do sleep 0.05; done; echo "gone, time $i"; done`},
		Dir:  ws, Stdout: &out, Stderr: &out, Bounded: true, Lasting: true,
	})
	if e.Code != 0 || e.TimedOut || e.Limit != "" || out.String() != "gone, time 1\ngone, time 2\n" {
		t.Errorf("got %+v %q", e, &out)
	}
	if len(e.Denials) != 1 || e.Denials[0].Layer != "denied_path_created" {
		t.Errorf("denials %+v", e.Denials)
	}
	// The clock of processors is that of calls, too; the size of a file is that of all.
	out.Reset()
	box = newBox(t, backend, "strict", guard.Settings{
		AllowedWritePaths: []string{ws}, Limits: guard.Limits{CPUSeconds: 7, FileSizeBytes: 1 << 20},
	})
	e = runSpec(t, box, Spec{
		Argv: []string{"bash", "-c", "ulimit -t; ulimit -f"}, Dir: ws, Stdout: &out, Lasting: true,
	})
	if e.Code != 0 || out.String() != "unlimited\n1024\n" {
		t.Errorf("got %+v %q, want no limit of processors, and the files of 1024 KiB", e, &out)
	}
	// Limits of its own hold.
	e = runSpec(t, box, Spec{Argv: []string{"sleep", "100"}, Dir: ws, Lasting: true, Limits: guard.Limits{WallSeconds: 1}})
	if !e.TimedOut {
		t.Errorf("got %+v, want that its own time was over", e)
	}
}

// TestOnlyProgramsOfTheSessionAreNamed: a call hears of those of its own session that it cannot reach.
func TestOnlyProgramsOfTheSessionAreNamed(t *testing.T) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	ws := shortTemp(t)
	begin := func(session, profile, name string) (Proc, func() Exit) {
		t.Helper()
		box, err := backend.Box(t.Context(), session, Profile(profile), guard.Settings{AllowedWritePaths: []string{ws}})
		if err != nil {
			t.Fatal(err)
		}
		in, hold, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p, err := box.Start(t.Context(), Spec{Argv: []string{"cat"}, Dir: ws, Stdin: in, Lasting: name != "", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return p, func() Exit {
			t.Helper()
			hold.Close()
			in.Close()
			e, err := p.Wait()
			if err != nil {
				t.Fatal(err)
			}
			box.Close()
			return e
		}
	}
	_, endMine := begin("mine", "strict", "web")
	_, endTheirs := begin("theirs", "strict", "db")
	_, end := begin("mine", "light", "")
	if e := end(); !slices.Equal(e.Apart, []string{"web"}) {
		t.Errorf("the call is told of %q, want web alone", e.Apart)
	}
	endMine()
	endTheirs()
}
