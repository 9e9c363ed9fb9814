package toolkit_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
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
