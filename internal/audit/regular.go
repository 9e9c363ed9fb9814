package audit

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// openRegular opens a file of the record. What lies in its place and is no regular file (a
// link, a pipe, a directory) is [ErrTampered]: opening or reading it could wait for ever.
func openRegular(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		for _, other := range []error{syscall.ELOOP, syscall.ENXIO, syscall.EISDIR} { // a link, a socket, a directory
			if errors.Is(err, other) {
				return nil, fmt.Errorf("%w: want a regular file: %w", ErrTampered, err)
			}
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s has mode %v, want a regular file", ErrTampered, path, info.Mode())
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
