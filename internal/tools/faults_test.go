package tools

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/search"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// names lists what is in a directory.
func names(e *toolstest.Env, dir string) []string {
	e.T.Helper()
	entries, err := os.ReadDir(filepath.Join(e.Dir, dir))
	if err != nil {
		e.T.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Without space a file stays as it was, or does not come to be, and nothing half
// written is left.
func TestFault_NoSpace(t *testing.T) {
	e := toolstest.New(t)
	disk := filepath.Join(e.Dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		needs.Root(t, "to mount")
		needs.Missing(t, "mount a small file system: %v", err)
	}
	defer unix.Unmount(disk, unix.MNT_DETACH)
	e.Write("disk/f", "one needle\n")
	big := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		tool tool.Tool
		args m
	}{
		{Write{}, m{"file_path": "disk/f", "content": big}},
		{Write{}, m{"file_path": "disk/new", "content": big}},
		{Edit{}, m{"file_path": "disk/f", "old_string": "needle", "new_string": big}},
	} {
		_, _, err := e.Call(tt.tool, tt.args)
		if toolstest.Code(err) != "no_space" {
			t.Errorf("%s: got %v, want no_space", tt.tool.Spec().Name, err)
		}
		if got := names(e, "disk"); len(got) != 1 || e.Read("disk/f") != "one needle\n" {
			t.Errorf("%s left %q", tt.tool.Spec().Name, got)
		}
	}
}

// What is no file is refused by every tool at once: nothing waits for a writer or
// reads a device.
func TestFault_WhatIsNoFile(t *testing.T) {
	e := toolstest.New(t)
	if err := unix.Mkfifo(e.Dir+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(e.Dir+"/fifo.ipynb", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(e.Dir+"/socket", unix.S_IFSOCK|0o644, 0); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"fifo", "socket", "/dev/zero"} {
		for _, tt := range []struct {
			tool tool.Tool
			args m
		}{
			{Read{}, m{"file_path": path}},
			{Write{}, m{"file_path": path, "content": "x"}},
			{Edit{}, m{"file_path": path, "old_string": "a", "new_string": "b"}},
			{NotebookEdit{}, m{"notebook_path": "fifo.ipynb", "cell_id": "a", "new_source": "x"}},
		} {
			if _, _, err := e.Call(tt.tool, tt.args); toolstest.Code(err) == "" {
				t.Errorf("%s of %s: got %v, want an error with a code", tt.tool.Spec().Name, path, err)
			}
		}
	}
	if got := e.OK(search.Grep{}, m{"pattern": "x"}); strings.Contains(got, "fifo") {
		t.Errorf("got %q", got)
	}
	if fi, err := os.Lstat(e.Dir + "/fifo"); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the fifo became %v, %v", fi, err)
	}
}

// A file that grows while it is read ends where it ended, or a little later.
func TestFault_AFileThatGrows(t *testing.T) {
	e := toolstest.New(t)
	path := e.Write("log", strings.Repeat("a line\n", 1000))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stop atomic.Bool
	grown := make(chan struct{})
	go func() {
		defer close(grown)
		chunk := bytes.Repeat([]byte("a line more\n"), 1000)
		for written := 0; !stop.Load() && written < 512<<10; written += len(chunk) {
			if _, err := f.Write(chunk); err != nil {
				return
			}
		}
	}()
	for range 5 {
		for _, tt := range []struct {
			tool tool.Tool
			args m
		}{
			{Read{}, m{"file_path": "log"}},
			{Read{}, m{"file_path": "log", "offset": -5}},
			{search.Grep{}, m{"pattern": "line", "output_mode": "count"}},
		} {
			if text := e.OK(tt.tool, tt.args); text == "" {
				t.Errorf("%s %v is empty", tt.tool.Spec().Name, tt.args)
			}
		}
	}
	stop.Store(true)
	<-grown
}

// manyFiles is how many files a tree of these tests has.
func manyFiles(t *testing.T) int { return tier.Rounds(t, 5_000, 200_000) }

// A tree of many files, of which 500 and fewer are answered, takes bounded memory.
func TestFault_ManyFiles(t *testing.T) {
	e := toolstest.New(t)
	n := manyFiles(t)
	for i := range n {
		dir := fmt.Sprintf("%s/d%d", e.Dir, i/1000)
		if i%1000 == 0 {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(fmt.Sprintf("%s/f%d.txt", dir, i), []byte("needle\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if got := strings.Count(e.OK(search.Glob{}, m{"pattern": "**/*.txt"}), ".txt"); got < 100 || got > 501 {
		t.Errorf("glob answers %d names", got)
	}
	if got := e.OK(search.Grep{}, m{"pattern": "needle", "output_mode": "count", "head_limit": 10}); strings.Count(got, "\n") > 20 {
		t.Errorf("grep answers %d lines", strings.Count(got, "\n"))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("%d files left %d MiB on the heap", n, grown>>20)
	}
}

// Directories that come and go while they are walked make neither an error nor an
// endless walk.
func TestFault_ATreeThatChanges(t *testing.T) {
	e := toolstest.New(t)
	e.Write("stays/f.txt", "needle\n")
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; !stop.Load(); i++ {
			dir := fmt.Sprintf("%s/d%d/x/y", e.Dir, i%50)
			if os.MkdirAll(dir, 0o755) == nil {
				_ = os.WriteFile(dir+"/f.txt", []byte("needle\n"), 0o644)
			}
			_ = os.RemoveAll(fmt.Sprintf("%s/d%d", e.Dir, (i+25)%50))
			_ = os.Rename(fmt.Sprintf("%s/d%d", e.Dir, (i+10)%50), fmt.Sprintf("%s/stays/d%d", e.Dir, i%7))
			if i%100 == 0 {
				_ = os.RemoveAll(fmt.Sprintf("%s/stays/d%d", e.Dir, i%7))
			}
		}
	}()
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		for _, tl := range []tool.Tool{search.Glob{}, search.Grep{}} {
			args := m{"pattern": "**/*.txt"}
			if tl.Spec().Name == "Grep" {
				args = m{"pattern": "needle"}
			}
			if text := e.OK(tl, args); !strings.Contains(text, "stays/f.txt") {
				t.Errorf("%s lost the file that stays: %q", tl.Spec().Name, text)
			}
		}
	}
	stop.Store(true)
	<-ended
}
