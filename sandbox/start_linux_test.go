package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

func TestT42_ExitsAndLimits(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		cage := newCage(t, Options{})
		needCage(t, cage)
		ws := shortTemp(t)
		for _, tt := range []struct {
			name   string
			script string
			limits guard.Limits
			want   Exit // Usage aside
		}{
			{"exit status", "exit 3", guard.Limits{}, Exit{Code: 3}},
			{"signal", "kill -TERM $$", guard.Limits{}, Exit{Code: 143, Signal: "SIGTERM"}},
			{"kill", "kill -KILL $$", guard.Limits{}, Exit{Code: 137, Signal: "SIGKILL"}},
			{"abort", "kill -ABRT $$", guard.Limits{}, Exit{Code: 134, Signal: "SIGABRT"}},
			{"wall clock", "sleep 1000", guard.Limits{WallSeconds: 1}, Exit{
				Code: 143, Signal: "SIGTERM",
				TimedOut: true,
			}},
			{
				"wall clock against a program that ignores TERM", "trap '' TERM; sleep 1000 & wait; sleep 1000",
				guard.Limits{WallSeconds: 5},
				Exit{Code: 137, Signal: "SIGKILL", TimedOut: true},
			},
			{
				"a program that stops itself", "kill -STOP $$",
				guard.Limits{WallSeconds: 1},
				Exit{Code: 137, Signal: "SIGKILL", TimedOut: true},
			},
			{
				"output, and the end of who writes it", "yes",
				guard.Limits{OutputBytes: 5000, OutputAction: guard.OutputKill},
				Exit{Code: 137, Signal: "SIGKILL", Limit: "output"},
			},
			{
				"output, which is cut", "head -c 100000 /dev/zero; exit 3",
				guard.Limits{OutputBytes: 5000},
				Exit{Code: 3, Overflow: 5000},
			},
			{"a slow reader", "head -c 900000 /dev/zero | tr '\\0' x", guard.Limits{}, Exit{}},
			{
				"cpu", "while :; do :; done",
				guard.Limits{CPUSeconds: 1},
				Exit{Code: 152, Signal: "SIGXCPU", Limit: "cpu"},
			},
			{
				"file size", "exec head -c 100000 /dev/zero > big",
				guard.Limits{FileSizeBytes: 5000},
				Exit{Code: 153, Signal: "SIGXFSZ", Limit: "file_size"},
			},
			{
				"processes", "i=0; while [ $i -lt 2000 ]; do sleep 1000 & i=$((i+1)); done",
				guard.Limits{Processes: 320, WallSeconds: 120},
				Exit{Code: 2},
			},
			{"fork bomb", "b() { b | b & b; }; b", guard.Limits{Processes: 320, WallSeconds: 2}, Exit{Code: -1}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
				var out bytes.Buffer
				e := runToEnd(t, box, Spec{
					Argv: []string{"sh", "-c", tt.script}, Dir: ws, Stdout: &out, Stderr: &out,
					Limits: tt.limits,
				})
				if tt.limits.OutputBytes > 0 && out.Len() != int(tt.limits.OutputBytes) {
					t.Errorf("%d bytes of output, want %d", out.Len(), tt.limits.OutputBytes)
				}
				e.Usage = Usage{}
				if tt.want.Code >= 0 && (e.Code != tt.want.Code || e.Signal != tt.want.Signal ||
					e.TimedOut != tt.want.TimedOut || e.Limit != tt.want.Limit || e.Overflow != tt.want.Overflow) {
					t.Errorf("exit %+v, want %+v; output %.200q", e, tt.want, out.String())
				}
				if e, out := runIn(t, box, ws, "echo", "still here"); e.Code != 0 || out != "still here\n" {
					t.Errorf("the next call: %+v %q", e, out)
				}
			})
		}
	})
}

// TestT42_WhoBoundsItsOutputGetsAll: the end of a long output is what people look for.
func TestT42_WhoBoundsItsOutputGetsAll(t *testing.T) {
	ws := shortTemp(t)
	bothLevels(t, func(t *testing.T, cage Backend) {
		box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		for action, want := range map[string]Exit{
			"":               {Code: 3, Overflow: 5000},
			guard.OutputKill: {Code: 137, Limit: "output"},
		} {
			// What is to be killed does not end before that by itself.
			script := "seq 1 20000; exit 3"
			if action == guard.OutputKill {
				script = "seq 1 20000; exec sleep 60"
			}
			var out bytes.Buffer
			e := runSpec(t, box, Spec{
				Argv: []string{"sh", "-c", script}, Dir: ws, Stdout: &out, Bounded: true,
				Limits: guard.Limits{OutputBytes: 5000, OutputAction: action},
			})
			if e.Code != want.Code || e.Overflow != want.Overflow || e.Limit != want.Limit {
				t.Errorf("%q: exit %+v, want %+v", action, e, want)
			}
			if whole := strings.HasSuffix(out.String(), "\n20000\n"); whole != (want.Limit == "") || !whole && out.Len() != 5000 {
				t.Errorf("%q: got %d bytes, the whole: %v", action, out.Len(), whole)
			}
		}
	})
}

func TestStart_WhatCannotRun(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	if err := os.WriteFile(ws+"/plain", []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	for _, tt := range []struct {
		name string
		argv []string
		code int
	}{
		{"no such name", []string{"no-such-program"}, 127},
		{"no such path", []string{"/no/such/program"}, 127},
		{"an empty name", []string{""}, 127},
		{"not executable", []string{"./plain"}, 126},
		{"a directory", []string{"/usr"}, 126},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := box.Start(context.Background(), Spec{Argv: tt.argv, Dir: ws})
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Wait()
			var start *StartError
			if !errors.As(err, &start) || start.Code != tt.code || e.Code != tt.code {
				t.Errorf("exit %d, %v; want %d", e.Code, err, tt.code)
			}
		})
	}
	for _, s := range []Spec{
		{Dir: ws},
		{Argv: []string{"true"}, Dir: "relative"},
		{Argv: []string{"true\x00"}, Dir: ws},
	} {
		if _, err := box.Start(context.Background(), s); err == nil {
			t.Errorf("%+v started", s)
		}
	}
	p, err := box.Start(context.Background(), Spec{Argv: []string{"true"}, Dir: ws + "/missing"})
	if err == nil {
		if _, err = p.Wait(); err == nil || !strings.Contains(err.Error(), "chdir") {
			t.Errorf("a missing directory: %v", err)
		}
	}
}

func TestStart_CancelEndsTheTree(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	box := newBox(t, cage, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	ctx, cancel := context.WithCancel(context.Background())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := box.Start(ctx, Spec{
		Argv: []string{"sh", "-c", "echo up; sleep 1000.5557; sleep 1000"}, Dir: ws,
		Stdout: w,
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	e, err := p.Wait()
	if err != nil || e.Signal != "SIGKILL" {
		t.Errorf("exit %+v, %v", e, err)
	}
	if left := processesWith(t, "1000.5557"); left != nil {
		t.Errorf("left: %v", left)
	}
}
