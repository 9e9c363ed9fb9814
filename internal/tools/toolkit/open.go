package toolkit

import (
	"context"
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// listInstead is the hint of is_directory.
const listInstead = "list it with Bash and ls, or its files with Glob"

// Open opens a regular file for reading. The caller closes it. It refuses directories, devices, fifos and sockets.
func Open(ctx context.Context, box sandbox.Box, u guard.PathUse) (*os.File, os.FileInfo, error) {
	f, err := box.Open(ctx, u, os.O_RDONLY)
	if err != nil {
		return nil, nil, FileError("open", u, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, FileError("look at", u, err)
	}
	if info.IsDir() {
		f.Close()
		return nil, nil, &tool.Error{
			Code: "is_directory", Msg: fmt.Sprintf("%s is a directory", u.Raw),
			Hint: listInstead,
		}
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return nil, nil, &tool.Error{
			Code: "not_a_file", Msg: fmt.Sprintf("%s is %s, not a regular file", u.Raw, modeName(info.Mode())),
			Hint: "only regular files can be read or edited",
		}
	}
	return f, info, nil
}

func modeName(m os.FileMode) string {
	switch {
	case m&os.ModeNamedPipe != 0:
		return "a fifo"
	case m&os.ModeSocket != 0:
		return "a socket"
	case m&os.ModeDevice != 0:
		return "a device"
	}
	return "special"
}
