package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestOutputThatIsNoTerminalPassesThroughHere(t *testing.T) {
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	dir := t.TempDir()
	a, again, b := open(filepath.Join(dir, "a")), open(filepath.Join(dir, "a")), open(filepath.Join(dir, "b"))
	device := open(os.DevNull)

	out, errs := streams(a, b)
	for _, w := range []any{out, errs} {
		if _, file := w.(*os.File); file {
			t.Error("a regular file is handed to the program, where nobody counts")
		}
	}
	if out == errs {
		t.Error("two files became one stream")
	}
	if out, errs = streams(a, again); out != errs {
		t.Error("one file became two streams, which loses the order")
	}
	if out, _ = streams(device, b); out != device {
		t.Errorf("got %T for a character device, want the device itself", out)
	}
}

func TestOnlyADefaultOutputLimitIsRaised(t *testing.T) {
	for _, tt := range []struct {
		name      string
		got, want int64
	}{
		{"not set", 0, outputBytes},
		{"the default", int64(guard.DefaultLimits.OutputBytes), outputBytes},
		{"set by somebody", 7, 7},
	} {
		var s guard.Settings
		s.Limits.OutputBytes = tt.got
		if RaiseOutputLimit(&s); s.Limits.OutputBytes != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, s.Limits.OutputBytes, tt.want)
		}
	}
}

func TestOnlyADefaultWallLimitIsRaised(t *testing.T) {
	const month = 30 * 24 * 3600
	for _, tt := range []struct{ got, want int }{{0, month}, {guard.DefaultLimits.WallSeconds, month}, {7, 7}} {
		var s guard.Settings
		s.Limits.WallSeconds = tt.got
		if RaiseWallLimit(&s); s.Limits.WallSeconds != tt.want {
			t.Errorf("%d became %d, want %d", tt.got, s.Limits.WallSeconds, tt.want)
		}
	}
}

func TestATerminalNeedsATerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var e *tool.Error
	if _, err := NewTerminal(f, f); !errors.As(err, &e) || e.Code != "not_a_terminal" || e.Hint == "" {
		t.Errorf("got %v", err)
	}
}

func TestNothingRunsWithoutWords(t *testing.T) {
	for _, args := range []string{`{}`, `{"argv": []}`, `{"argv": "ls"}`, `[]`} {
		in := tool.In{Args: []byte(args), Dir: "/"}
		if _, err := new(Program).Uses(context.Background(), in); err == nil {
			t.Errorf("%s was judged", args)
		}
		if _, err := new(Program).Run(context.Background(), in, nil); err == nil {
			t.Errorf("%s was run", args)
		}
	}
}
