package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// A program never holds a file of the host: through a descriptor it could change the
// file's mode and times, and open it again for writing, on a mount that nothing has
// made read-only. So a file on standard input is copied into one of memory, which can
// be sought in and mapped; a large one comes through a pipe, and so does what goes
// into a file. Pipes, sockets and terminals are handed in as they are.

// maxCopied is how much of standard input is copied before the program starts.
const maxCopied = 16 << 20

// streams are the three descriptors of the program, nil for /dev/null. The second
// result closes the ends that are not needed here once they are sent.
func (p *proc) streams(s Spec) ([]*os.File, func(), error) {
	p.room.Store(p.limits.OutputBytes)
	var mine []*os.File
	closeMine := func() {
		for _, f := range mine {
			f.Close()
		}
	}
	std := make([]*os.File, 3)
	for _, given := range []any{s.Stdin, s.Stdout, s.Stderr} {
		// From a directory of the host openat would reach what lies under it,
		// without the mounts that hide and protect.
		if f, ok := given.(*os.File); ok && f != nil {
			if info, err := f.Stat(); err == nil && info.IsDir() {
				return nil, nil, fmt.Errorf("%s is a directory, and no program in the sandbox may hold one of the host", f.Name())
			}
		}
	}
	var err error
	switch {
	case s.Stdin == nil:
	case isStored(s.Stdin):
		if std[0], err = p.copied(s.Stdin); err != nil {
			return nil, nil, fmt.Errorf("copy %s for a program: %w", s.Stdin.Name(), err)
		}
		mine = append(mine, std[0])
	default:
		std[0] = s.Stdin
	}
	for i, w := range []io.Writer{s.Stdout, s.Stderr} {
		f, isFile := w.(*os.File)
		switch {
		case i == 1 && w != nil && same(s.Stdout, s.Stderr):
			std[2] = std[1]
		case w == nil || isFile && f == nil:
		case isFile && !isStored(f):
			std[i+1] = f
		default:
			var r, pw *os.File
			if r, pw, err = os.Pipe(); err == nil {
				std[i+1] = pw
				mine = append(mine, pw)
				p.outputs = append(p.outputs, func() { p.pump(r, w) })
			}
		}
		if err != nil {
			closeMine()
			for _, copyOut := range p.outputs {
				copyOut() // to the end, which is there
			}
			return nil, nil, fmt.Errorf("prepare the output of a program: %w", err)
		}
	}
	return std, closeMine, nil
}

// isStored reports whether a file lies in a file system of the host or on a disk.
func isStored(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode().Type() == os.ModeDevice)
}

// copied is what is left of a file to be read.
func (p *proc) copied(f *os.File) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	memory := os.NewFile(uintptr(fd), "stdin")
	switch _, err := io.CopyN(memory, f, maxCopied); {
	case err == nil:
		return p.piped(memory, f)
	case !errors.Is(err, io.EOF) && !errors.Is(err, unix.EBADF): // which is not open for reading
		memory.Close()
		return nil, err
	}
	defer memory.Close()
	if err := errors.Join(unix.Fchmod(fd, 0o400), seal(fd)); err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprint("/proc/self/fd/", fd))
}

func seal(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return err
}

// piped gives what was read already, and then the rest, as long as somebody reads.
func (p *proc) piped(begin, rest *os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		begin.Close()
		return nil, err
	}
	p.input = w
	go func() {
		defer begin.Close()
		defer w.Close()
		_, _ = io.Copy(w, io.MultiReader(io.NewSectionReader(begin, 0, maxCopied), rest))
	}()
	return r, nil
}

// memoryDevices are those of /dev that are the same for everybody, by the minor of
// their number; the major is 1.
var memoryDevices = map[uint32]string{3: "/dev/null", 5: "/dev/zero", 7: "/dev/full", 8: "/dev/random", 9: "/dev/urandom"}

// devices are opened inside instead of being handed in: those of the sandbox are the
// same but for their mounts, which keep their mode and times. The second result is
// what is left.
func devices(std []*os.File) (out [3]child.Device, rest []*os.File) {
	for i, f := range std {
		switch d := deviceOf(f); {
		case f == nil:
			out[i] = child.Device{Path: "/dev/null", Flags: unix.O_RDWR}
		case d.Path != "":
			out[i] = d
		default:
			rest = append(rest, f)
		}
	}
	return out, rest
}

// deviceOf is the memory device that a file is, if it is one.
func deviceOf(f *os.File) child.Device {
	var st unix.Stat_t
	if f == nil || unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(st.Rdev) != 1 {
		return child.Device{}
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return child.Device{}
	}
	return child.Device{Path: memoryDevices[unix.Minor(st.Rdev)], Flags: flags & (unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK)}
}

// same compares as os/exec does: values that cannot be compared differ.
func same(a, b io.Writer) (equal bool) {
	defer func() { _ = recover() }()
	return a == b
}
