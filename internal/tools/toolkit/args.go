package toolkit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Path resolves the path of one argument.
func Path(in tool.In, raw string, op guard.Op) (guard.PathUse, error) {
	path, err := in.Rules.Resolve(raw, in.Dir, in.Home)
	if err != nil {
		var pe *guard.PathError
		if errors.As(err, &pe) {
			return guard.PathUse{}, &tool.Error{Code: pe.Code, Msg: pe.Msg, Hint: pe.Hint}
		}
		return guard.PathUse{}, err
	}
	return guard.PathUse{Raw: raw, Path: path, Op: op}, nil
}

// Judged returns the path that was judged for an argument. It does not resolve the argument again, because a link
// that was swapped in since could lead elsewhere.
func Judged(in tool.In, raw string, op guard.Op) (guard.PathUse, error) {
	for _, u := range in.Judged.Paths {
		if u.Raw == raw && u.Op == op {
			return u, nil
		}
	}
	return guard.PathUse{}, &tool.Error{
		Code: "not_judged",
		Msg: fmt.Sprintf("a %s of %q was not judged: it is not in tool.In.Judged, which cannot happen and is refused",
			op, raw),
	}
}

// Shown returns the form of a path that the model sees: relative to the working directory if the path is below it.
func Shown(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return rel
	}
	return path
}

// FileError returns an error that says in terms of the call why a file could not be opened or read.
func FileError(verb string, u guard.PathUse, err error) error {
	var own *tool.Error
	if errors.As(err, &own) {
		return own
	}
	var denied *guard.Denied
	if errors.As(err, &denied) && len(denied.Refusals) > 0 {
		r := denied.Refusals[0]
		return &tool.Error{Code: r.Code, Msg: r.Message, Hint: r.Hint}
	}
	e := &tool.Error{Code: "io_error", Msg: fmt.Sprintf("cannot %s %s: %v", verb, u.Raw, reason(err))}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Msg = "file_not_found", fmt.Sprintf("file %s does not exist", u.Raw)
		e.Hint = "check the path; Glob finds files by name"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Hint = "permission_denied", "the sandbox or the mode of the file does not allow it"
	case errors.Is(err, syscall.ELOOP):
		e.Code, e.Hint = "path_changed", "a symbolic link appeared in the path while the call ran; look at the path "+
			"and call again"
	case errors.Is(err, syscall.ENOTDIR):
		e.Code, e.Hint = "not_a_directory", "a part of the path is a file"
	case errors.Is(err, syscall.EISDIR):
		e.Code, e.Hint = "is_directory", listInstead
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Code, e.Hint = "no_space", "nothing was written; free some space and call again"
	}
	return e
}

// reason returns the message of an error without the operation and path that package os puts before it.
func reason(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
