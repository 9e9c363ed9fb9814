// Package stdio prepares the three standard streams of a program in the sandbox.
//
// A program never holds a regular file, directory or block device of the host. Through
// a descriptor it could change the file's mode and times, or open it again for writing
// on a mount that is not read-only. So a file on standard input is copied into a file
// of memory, which can be sought in and mapped; a large one comes through a pipe. What
// goes into a file or an io.Writer comes out through a pipe. Pipes (named ones too),
// sockets, terminals and other character devices are passed as they are: pass none
// whose mode or times the program must not change. Memory devices such as /dev/null are
// opened inside, where they are the sandbox's own.
//
//	var s stdio.Streams
//	err := s.Open(stdin, stdout, stderr, stdio.Limit{Bytes: 1 << 20}, stop)
//	send(s.Files, s.Devices) // to the program
//	s.Start()                // also when sending failed
//	s.Wait()                 // when the program has ended; then call Exceeded
//
// A Streams is for one program. Exceeded says whether that wrote too much. The function stop is
// called if a writer fails. After an error of Open there is nothing to start or to wait for.
//
// Guaranteed: a directory is refused, since a program could open what lies below it
// without the mounts that hide and protect. Of the output that comes through the pipes
// made here, at most Limit.Bytes are passed on for stdout and stderr together, unless
// Limit.Whole is set; what comes after that is read slowly. Streams that are passed as
// they are (a pipe, socket or terminal of the caller) are neither counted nor bounded.
package stdio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/script"
)

// MaxCopied is how much of a file on standard input is copied before the program starts.
// More comes through a pipe.
const MaxCopied = 16 << 20

// Streams are the streams of one program. The zero value is ready for Open; a Streams
// must not be copied.
type Streams struct {
	Files   []*os.File       // to send to the program, in order
	Devices [3]script.Device // to open inside; the others are in Files

	// Owner is the uid that may open again what is made here for the program, as by
	// /dev/stdout; 0 is whoever makes it.
	Owner int

	limit Limit
	stop  func()
	room  atomic.Int64 // bytes of output that may still come
	own   []*os.File   // ends that only the program needs
	pipes []pipe
	pumps sync.WaitGroup
	input *os.File // the pipe that standard input is written to, or nil
}

// Limit bounds the output of a program. The zero value passes nothing on.
type Limit struct {
	Bytes    int64
	Whole    bool   // pass on everything all the same: the writers bound what they keep
	Exceeded func() // called, more than once, when there is too much; may be nil
}

// pipe is output on its way to a writer.
type pipe struct {
	from *os.File
	to   io.Writer
}

// Open prepares the streams. nil is /dev/null. stdout and stderr may be the same value,
// which keeps their order. stop, which must not be nil, is called when nobody reads the output of the program.
func (s *Streams) Open(stdin *os.File, stdout, stderr io.Writer, limit Limit, stop func()) error {
	s.limit, s.stop = limit, stop
	s.room.Store(limit.Bytes)
	for _, given := range [3]any{stdin, stdout, stderr} {
		if err := notDirectory(given); err != nil {
			return err
		}
	}
	var std [3]*os.File
	switch {
	case stdin == nil:
	case isStored(stdin):
		var err error
		if std[0], err = s.copied(stdin); err != nil {
			return fmt.Errorf("copy %s for a program: %w", stdin.Name(), err)
		}
		s.own = append(s.own, std[0])
	default:
		std[0] = stdin
	}
	for i, w := range [2]io.Writer{stdout, stderr} {
		f, isFile := w.(*os.File)
		switch {
		case i == 1 && w != nil && equal(stdout, stderr):
			std[2] = std[1]
		case w == nil || isFile && f == nil:
		case isFile && !isStored(f):
			std[i+1] = f
		default:
			r, pw, err := os.Pipe()
			if err != nil {
				s.Start()
				s.Wait()
				return fmt.Errorf("prepare the output of a program: %w", err)
			}
			std[i+1] = pw
			s.own = append(s.own, pw)
			s.pipes = append(s.pipes, pipe{r, w})
		}
	}
	for i, f := range std {
		switch d := deviceOf(f); {
		case f == nil:
			s.Devices[i] = script.Device{Path: "/dev/null", Flags: unix.O_RDWR}
		case d.Path != "":
			s.Devices[i] = d
		default:
			s.Files = append(s.Files, f)
		}
	}
	if err := s.give(); err != nil {
		s.Start()
		s.Wait()
		return err
	}
	return nil
}

// give makes what only the program needs its own.
func (s *Streams) give() error {
	for _, f := range s.own {
		if s.Owner == 0 {
			return nil
		}
		if err := f.Chown(s.Owner, -1); err != nil {
			return fmt.Errorf("give a program its streams: %w", err)
		}
	}
	return nil
}

// Start closes the ends that only the program needs, and begins to copy its output. Call
// it when the program has its streams, or will never get them.
func (s *Streams) Start() {
	for _, f := range s.own {
		f.Close()
	}
	for _, p := range s.pipes {
		s.pumps.Go(func() { s.pump(p.from, p.to) })
	}
}

// Wait returns when all output is copied.
func (s *Streams) Wait() {
	s.pumps.Wait()
	if s.input != nil {
		s.input.Close()
	}
}

// Exceeded reports whether the program wrote more than the limit. Call it after Wait.
func (s *Streams) Exceeded() bool { return s.room.Load() < 0 }

// excessPause is between two reads of what goes beyond the limit, so that a program that
// prints without end takes no core of the daemon: at most 32 MiB come in a second from each pipe.
const excessPause = 2 * time.Millisecond

// pumpBytes is what a pipe holds.
const pumpBytes = 64 << 10

// pump copies until every writer is gone.
func (s *Streams) pump(r *os.File, w io.Writer) {
	defer r.Close()
	buf := make([]byte, pumpBytes)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			keep := int64(n)
			left := s.room.Add(-keep)
			if left < 0 {
				if s.limit.Exceeded != nil {
					s.limit.Exceeded()
				}
				if !s.limit.Whole {
					keep = max(0, keep+left)
				}
			}
			if _, werr := w.Write(buf[:keep]); werr != nil {
				s.stop()
				w = io.Discard
			}
			if left < 0 {
				if !s.limit.Whole {
					w = io.Discard
				}
				time.Sleep(excessPause)
			}
		}
		if err != nil {
			return
		}
	}
}

func notDirectory(given any) error {
	f, ok := given.(*os.File)
	if !ok || f == nil {
		return nil
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory, and no program in the sandbox may hold one of the host", f.Name())
	}
	return nil
}

// isStored reports whether a file lies in a file system of the host or on a disk.
func isStored(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode().Type() == os.ModeDevice)
}

// copied returns a file of memory, or a pipe, with what is left of f to be read.
func (s *Streams) copied(f *os.File) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	memory := os.NewFile(uintptr(fd), "stdin")
	switch _, err := io.CopyN(memory, f, MaxCopied); {
	case err == nil:
		return s.piped(memory, f)
	case !errors.Is(err, io.EOF) && !errors.Is(err, unix.EBADF): // EBADF: f is not open for reading
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
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return err
}

// piped writes what was copied already, and then the rest, as long as somebody reads.
func (s *Streams) piped(begin, rest *os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		begin.Close()
		return nil, err
	}
	s.input = w
	go func() {
		defer begin.Close()
		defer w.Close()
		_, _ = io.Copy(w, io.MultiReader(io.NewSectionReader(begin, 0, MaxCopied), rest))
	}()
	return r, nil
}

// memoryDevices are the devices that are the same inside and outside, by their minor
// number; their major number is 1. The sandbox's own are on mounts that keep their mode
// and times.
var memoryDevices = map[uint32]string{
	3: "/dev/null", 5: "/dev/zero", 7: "/dev/full", 8: "/dev/random", 9: "/dev/urandom",
}

// deviceOf returns the memory device that a file is, if it is one.
func deviceOf(f *os.File) script.Device {
	var st unix.Stat_t
	if f == nil || unix.Fstat(int(f.Fd()), &st) != nil {
		return script.Device{}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(st.Rdev) != 1 {
		return script.Device{}
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return script.Device{}
	}
	const kept = unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK
	return script.Device{Path: memoryDevices[unix.Minor(st.Rdev)], Flags: flags & kept}
}

// equal compares as os/exec does: values that cannot be compared differ.
func equal(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}
