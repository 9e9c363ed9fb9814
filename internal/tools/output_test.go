package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
)

// TestOutputOverTheLimitIsCutInWhatIsKept: the two streams share the limit, and what
// one leaves over the other may have.
func TestOutputOverTheLimitIsCutInWhatIsKept(t *testing.T) {
	const mark = "...(truncated)..."
	for _, tt := range []struct {
		name         string
		out, errs    string
		most         int64
		wantO, wantE string
		cut          bool
	}{
		{"no limit", "0123456789", "abc", 0, "0123456789", "abc", false},
		{"within it", "0123456789", "abc", 13, "0123456789", "abc", false},
		{"one stream alone", "0123456789", "", 6, "012" + mark + "789", "", true},
		{"a little beside much", "0123456789", "ab", 8, "012" + mark + "789", "ab", true},
		{"both too long", "0123456789", "abcdefghij", 8, "01" + mark + "89", "ab" + mark + "ij", true},
		{"no half characters", "äöüß", "", 6, "ä" + mark + "ß", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs capture
			for s, text := range map[*capture]string{&out: tt.out, &errs: tt.errs} {
				if _, err := s.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			gotO, gotE, cut := texts(&out, &errs, tt.most)
			if gotO != tt.wantO || gotE != tt.wantE || cut != tt.cut {
				t.Errorf("got %q, %q, %v, want %q, %q, %v", gotO, gotE, cut, tt.wantO, tt.wantE, tt.cut)
			}
		})
	}
}

func TestBash_WholeOutputInAFile(t *testing.T) {
	e := toolstest.New(t)
	e.Write("old.log", "old")
	e.Write("sub/file", "")
	if err := os.Chmod(filepath.Join(e.Dir, "old.log"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, command, file, want string }{
		{"both streams", "echo out; sleep 0.01; echo err >&2; exit 3", "new.log", "out\nerr\n"},
		{"more than is kept", "seq 1 200000", "long.log", "200000\n"},
		{"a file that is there", "echo new", "old.log", "new\n"},
		{"in a new directory", "echo new", "deep/er/new.log", "new\n"},
		{"the name that the text uses elsewhere", "cd sub && echo inner > both.log; echo outer", "both.log", "outer\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, _, err := e.Call(Bash{}, m{"command": tt.command, "output_file": tt.file})
			if err != nil {
				t.Fatal(err)
			}
			got := e.Read(tt.file)
			if !strings.HasSuffix(got, tt.want) || len(tt.want) > 7 && got != tt.want {
				t.Errorf("the file ends with %q, want %q", got[max(0, len(got)-40):], tt.want)
			}
			if want := "[the whole output is in " + filepath.Join(e.Dir, tt.file) + "]"; !strings.Contains(text, want) {
				t.Errorf("the model is not told where it is: %.200s", text)
			}
		})
	}
	if got := e.Read("long.log"); strings.Count(got, "\n") != 200_000 {
		t.Errorf("%d lines, want all", strings.Count(got, "\n"))
	}
	if info, err := os.Stat(filepath.Join(e.Dir, "old.log")); err != nil || info.Mode() != 0o600 {
		t.Errorf("got %v, %v, want the mode it had", info.Mode(), err)
	}
	left, err := filepath.Glob(filepath.Join(e.Dir, "*", ".sandboxd-*"))
	if top, err2 := filepath.Glob(filepath.Join(e.Dir, ".sandboxd-*")); err != nil || err2 != nil || len(left)+len(top) > 0 {
		t.Errorf("left behind: %q %q", left, top)
	}
}

// TestBash_NothingRunsWithoutItsFile: where the output cannot go, the command is not run.
func TestBash_NothingRunsWithoutItsFile(t *testing.T) {
	e := toolstest.New(t)
	e.Box.Denied = []string{filepath.Join(e.Dir, "secret")}
	e.Write("dir/file", "")
	for _, file := range []string{"secret/x", "dir", "a\x00b"} {
		if _, _, err := e.Call(Bash{}, m{"command": "touch ran", "output_file": file}); err == nil {
			t.Errorf("%q was taken", file)
		}
	}
	if _, err := os.Stat(filepath.Join(e.Dir, "ran")); err == nil {
		t.Error("the command ran")
	}
	// And where it was not judged.
	in := e.In(m{"command": "touch ran", "output_file": "x"})
	var te *tool.Error
	if _, err := (Bash{}).Run(t.Context(), in, e.Box); !errors.As(err, &te) || te.Code != "not_judged" {
		t.Errorf("got %v, want not_judged", err)
	}
	uses, err := Bash{}.Uses(t.Context(), in)
	if err != nil || len(uses.Paths) < 1 || uses.Paths[0].Op != guard.Write || uses.Paths[0].Path != filepath.Join(e.Dir, "x") {
		t.Errorf("got %+v, %v, want the file as a write", uses.Paths, err)
	}
	if _, err := (Bash{}).Argv(in); err == nil {
		t.Error("another program is to run it, and cannot keep its output")
	}
}

func TestBash_WhatWasWrittenStaysWhenItIsCancelled(t *testing.T) {
	e := toolstest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	in := e.In(m{"command": "echo started; sleep 30", "output_file": "x.log"})
	in.Emit = func(tool.Progress) { cancel() }
	var err error
	if in.Judged, err = (Bash{}).Uses(ctx, in); err != nil {
		t.Fatal(err)
	}
	if _, err := (Bash{}).Run(ctx, in, e.Box); err == nil {
		t.Fatal("it was not cancelled")
	}
	if got := e.Read("x.log"); got != "started\n" {
		t.Errorf("got %q", got)
	}
}

func TestBash_ASmallLimitOfOutputEndsNothing(t *testing.T) {
	e := toolstest.New(t)
	s := guard.Settings{
		AllowedWritePaths: []string{e.Dir}, Limits: guard.Limits{OutputBytes: 1000},
	}
	box := cageBox(t, s)
	in := e.In(m{"command": "seq 1 100000; exit 3", "output_file": "all.log"})
	text, err := judgedCall(t, Bash{}, in, box, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1\n2\n3\n", "...(truncated)...", "\n99999\n100000\n", "[the output had 588895 bytes, and its middle is left out]",
		"Exit code: 3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the model reads %q, which lacks %q", text, want)
		}
	}
	if len(text) > 1200 {
		t.Errorf("%d bytes are kept", len(text))
	}
	if n := len(e.Read("all.log")); n != 588895 {
		t.Errorf("the file has %d bytes", n)
	}
	s.Limits.OutputAction = guard.OutputKill
	_, err = judgedCall(t, Bash{}, e.In(m{"command": "seq 1 100000; exit 3"}), cageBox(t, s), s)
	var te *tool.Error
	if !errors.As(err, &te) || te.Code != "limit_output" || !strings.Contains(te.Hint, "file") {
		t.Errorf("got %v, want limit_output", err)
	}
}
