package tools

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
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
			b.Skipf("no room for the file: %v", err)
		}
	}
	return path
}

func benchCalls(t tool.Tool, box sandbox.Box, s sandbox.Settings, dir string, args ...string) func(*testing.B) {
	return func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			in := tool.In{Dir: dir, Args: []byte(args[i%len(args)]), Emit: func(string, []byte) {}}
			if _, err := judgedCall(b, t, in, box, s); err != nil {
				b.Fatal(err)
			}
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
	s := sandbox.Settings{AllowedReadPaths: []string{dir}, AllowedWritePaths: []string{dir}}
	box := cageBox(b, s)
	b.Run("start of 1 MB", benchCalls(Read{}, box, s, dir, `{"file_path":"small"}`))
	b.Run("start of 1 GB", benchCalls(Read{}, box, s, dir, `{"file_path":"large"}`))
	b.Run("end of 1 GB", benchCalls(Read{}, box, s, dir, `{"file_path":"large","offset":-2000}`))
	b.Run("end of 1 GB by tail", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("tail", "-n", "2000", large).Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("last lines of 1 GB by number", benchCalls(Read{}, box, s, dir, `{"file_path":"large","offset":26000000,"limit":10}`))
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
	s := sandbox.Settings{AllowedReadPaths: []string{dir}, AllowedWritePaths: []string{dir}}
	box := cageBox(b, s)
	b.Run("ours", benchCalls(Edit{}, box, s, dir,
		`{"file_path":"f","old_string":"the one place","new_string":"the only place"}`,
		`{"file_path":"f","old_string":"the only place","new_string":"the one place"}`))
	b.Run("read and write", func(b *testing.B) {
		for b.Loop() {
			content, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(path+".new", content, 0o644); err != nil {
				b.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				b.Fatal(err)
			}
		}
	})
}
