package toolkit_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

// What the kernel says of a file has a code; what has none of its own is io_error, and keeps the kernel's words.
func TestWhatAFileErrorIsCalled(t *testing.T) {
	denied := &guard.Denied{Refusals: []guard.Refusal{{Code: "path_denied", Message: "it is denied", Hint: "leave it"}}}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"it is not there", fs.ErrNotExist, "file_not_found: file a does not exist"},
		{"its mode", syscall.EACCES, "permission_denied: cannot read a: permission denied"},
		{"a link that appeared", syscall.ELOOP, "path_changed: cannot read a: too many levels of symbolic links"},
		{"a file above it", syscall.ENOTDIR, "not_a_directory: cannot read a: not a directory"},
		{"a directory", syscall.EISDIR, "is_directory: cannot read a: is a directory"},
		{"a full disk", syscall.ENOSPC, "no_space: cannot read a: no space left on device"},
		{"a quota", syscall.EDQUOT, "no_space: cannot read a: disk quota exceeded"},
		{"a broken disk", syscall.EIO, "io_error: cannot read a: input/output error"},
		{"an error of a tool", &tool.Error{Code: "own", Msg: "as it is"}, "own: as it is"},
		{"the guard's", denied, "path_denied: it is denied"},
	} {
		err := &os.PathError{Op: "open", Path: "/src/a", Err: tt.err}
		e, ok := errors.AsType[*tool.Error](toolkit.FileError("read", guard.PathUse{Raw: "a"}, err))
		if !ok {
			t.Fatalf("%s: got %T", tt.name, err)
		}
		if got := fmt.Sprintf("%s: %s", e.Code, e.Msg); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A directory is refused with the same advice whoever notices it, the kernel at the open or Open after it: Glob lists
// only files.
func TestWhatToDoWithADirectory(t *testing.T) {
	dir := guard.PathUse{Raw: "d", Path: t.TempDir()}
	_, _, open := toolkit.Open(t.Context(), box{}, dir)
	for _, err := range []error{open, toolkit.FileError("write", dir, syscall.EISDIR)} {
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != "is_directory" || e.Hint != "list it with Bash and ls, or its files with Glob" {
			t.Errorf("got %#v", err)
		}
	}
}

// box opens what it is told to, without a cage.
type box struct{ sandbox.Box }

func (box) Open(_ context.Context, u guard.PathUse, flag int) (*os.File, error) {
	return os.OpenFile(u.Path, flag, 0)
}
