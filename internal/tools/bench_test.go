package tools

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/bench"
	"github.com/sandboxd/sandboxd/tests/needs"
)

func benchFile(b *testing.B, dir, name string, size int) string {
	b.Helper()
	path := filepath.Join(dir, name)
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	chunk := bytes.Repeat([]byte("a line of forty characters, as code has\n"), 1<<20/40)
	for written := 0; written < size; written += len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			needs.Missing(b, "no room for the file: %v", err)
		}
	}
	return path
}

// calls makes one call after the other, judged and confined, with these arguments in
// turn.
func calls(t testing.TB, tl tool.Tool, box sandbox.Box, s guard.Settings, dir string, args ...string) func() {
	i := 0
	return func() {
		in := tool.In{Dir: dir, Args: []byte(args[i%len(args)]), Emit: func(tool.Progress) {}}
		i++
		if _, err := judgedCall(t, tl, in, box, s); err != nil {
			t.Fatal(err)
		}
	}
}

// allocated is how many bytes f takes from the heap.
func allocated(f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// bare runs a program.
func bare(t testing.TB, dir, name string, args ...string) func() {
	return func() {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.Output(); err != nil {
			t.Fatalf("%s: %v: %.100s", name, err, out)
		}
	}
}

// BenchmarkRead holds a large file against a small one and its end against tail.
func BenchmarkRead(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	benchFile(b, dir, "small", 1<<20)
	large := benchFile(b, dir, "large", 1<<30)
	s := guard.Settings{AllowedReadPaths: []string{dir}, AllowedWritePaths: []string{dir}}
	box := cageBox(b, s)
	end := calls(b, Read{}, box, s, dir, `{"file_path":"large","offset":-2000}`)
	bench.Compare(b, []bench.Case{
		{Name: "start of 1 MB", Run: calls(b, Read{}, box, s, dir, `{"file_path":"small"}`)},
		{Name: "start of 1 GB", Run: calls(b, Read{}, box, s, dir, `{"file_path":"large"}`)},
		{Name: "end of 1 GB", Run: end},
		{Name: "tail", Run: bare(b, dir, "tail", "-n", "2000", large)},
	},
		bench.Limit{Case: "start of 1 GB", Over: "start of 1 MB", AtMost: 2},
		bench.Limit{Case: "end of 1 GB", Over: "tail", AtMost: 1.5})
	bench.Value(b, "allocated for the end of 1 GB", allocated(end)/(1<<20), "MiB", 16)
	bench.Value(b, "allocated for lines in the middle of 1 GB by number",
		allocated(calls(b, Read{}, box, s, dir, `{"file_path":"large","offset":13000000,"limit":10}`))/(1<<20), "MiB", 16)
}

// BenchmarkEdit holds an edit of 50 MB against reading and writing the file.
func BenchmarkEdit(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	path := benchFile(b, dir, "f", 50<<20)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.WriteString("the one place\n"); err != nil {
		b.Fatal(err)
	}
	f.Close()
	s := guard.Settings{AllowedReadPaths: []string{dir}, AllowedWritePaths: []string{dir}}
	box := cageBox(b, s)
	bench.Compare(b, []bench.Case{
		{Name: "edit", Run: calls(b, Edit{}, box, s, dir,
			`{"file_path":"f","old_string":"the one place","new_string":"the only place"}`,
			`{"file_path":"f","old_string":"the only place","new_string":"the one place"}`)},
		{Name: "read and write", Run: func() {
			content, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+".new", content, 0o644)
			}
			if err == nil {
				err = os.Rename(path+".new", path)
			}
			if err != nil {
				b.Fatal(err)
			}
		}},
	}, bench.Limit{Case: "edit", Over: "read and write", AtMost: 1.5})
}
