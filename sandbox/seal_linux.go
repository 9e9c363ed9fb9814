package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// errTooLarge is the error for a file above MaxBound.
var errTooLarge = errors.New("the file is too large")

// seal copies what r gives into a file of memory that cannot be changed any more. It
// returns that file and the SHA-256 of the copy.
func seal(r io.Reader) (_ *os.File, sum string, err error) {
	fd, err := unix.MemfdCreate("approved", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, "", fmt.Errorf("make a file of memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "approved")
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(r, MaxBound+1))
	if err != nil {
		return nil, "", fmt.Errorf("copy into a file of memory: %w", err)
	}
	if n > MaxBound {
		return nil, "", errTooLarge
	}
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, all); err != nil {
		return nil, "", fmt.Errorf("seal a file of memory: %w", err)
	}
	return f, hex.EncodeToString(h.Sum(nil)), nil
}
