package child

import (
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// directory is one that watched paths lie in. Whatever comes, goes or changes its
// name in a directory changes the time of its status, which nobody can set: while
// that of all directories stays, what was found in them holds. A dozen of them are
// asked for each call instead of a hundred paths.
type directory struct {
	text    []byte // the path with its NUL
	at      stamp
	settled bool // whatever changes after at was taken changes it
}

// stamp is the state of a directory; the zero stamp is one that is not there.
type stamp struct {
	inode  uint64
	device [2]uint32
	change unix.StatxTimestamp
}

func directories(list []watched) []directory {
	var out []directory
	seen := map[string]bool{}
	for _, w := range list {
		if dir := filepath.Dir(w.path); !seen[dir] {
			seen[dir] = true
			out = append(out, directory{text: append([]byte(dir), 0)})
		}
	}
	return out
}

// unsettled is how long a change may hide behind one before it: the clock of file
// systems goes in steps of up to ten milliseconds.
const unsettled = 50 * time.Millisecond

// unchanged reports whether everything in the directories above the watched paths
// is as it was when this was asked last. The stamps are taken before the caller
// looks, so what changes meanwhile is seen the next time.
func (s *server) unchanged() bool {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return false
	}
	recent := now.Nano() - int64(unsettled)
	same := true
	for i := range s.above {
		d := &s.above[i]
		at, known := s.stamp(d.text)
		same = d.same(at, known, recent) && same
	}
	return same
}

// same takes the stamp of now. One that was recent, or is not to be trusted, says
// nothing the next time.
func (d *directory) same(at stamp, known bool, recent int64) bool {
	same := d.settled && at == d.at
	d.at, d.settled = at, known && at.change.Sec*1e9+int64(at.change.Nsec) < recent
	return same
}

// stamp is that of a directory now; false where the times of the file system may be
// coarse, or those of another machine.
func (s *server) stamp(path []byte) (stamp, bool) {
	const want = unix.STATX_INO | unix.STATX_CTIME
	_, _, err := unix.RawSyscall6(unix.SYS_STATX, atFDCWD, addr(path), unix.AT_NO_AUTOMOUNT, want, uintptr(unsafe.Pointer(&s.stat)), 0)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES {
		return stamp{}, true
	}
	if err != 0 || s.stat.Mask&want != want {
		return stamp{}, false
	}
	at := stamp{s.stat.Ino, [2]uint32{s.stat.Dev_major, s.stat.Dev_minor}, s.stat.Ctime}
	return at, s.local(at.device, path)
}

// local reports whether a device holds a file system that is known to note the time
// of every change at once.
func (s *server) local(device [2]uint32, path []byte) bool {
	known, asked := s.devices[device]
	if !asked {
		var fs unix.Statfs_t
		known = unix.Statfs(string(path[:len(path)-1]), &fs) == nil && slices.Contains(localFileSystems, int64(fs.Type))
		s.devices[device] = known
	}
	return known
}

var localFileSystems = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}
