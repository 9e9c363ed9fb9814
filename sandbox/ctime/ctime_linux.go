// Package ctime reports whether directories and files have changed, by their change times.
//
// A directory gets a new change time when something in it is made, removed or renamed. No program can
// choose that time without setting the clock. So the answer to a question about many paths
// can be kept as long as the change times of their directories stay the same: asking a dozen
// directories costs less than asking hundreds of paths.
//
//	var dirs ctime.Set
//	dirs.Add("/work")          // first add, then look
//	found := list("/work")
//	if !dirs.Unchanged() {
//		found = list("/work")  // again: first ask, then look
//	}
//
// Guaranteed: if Unchanged reports true, nothing was made, removed or renamed in the
// added directories since they were added or since the last call, and the owner, mode and
// content of added paths are as they were. It reports false when it cannot know: for a path that
// exists on a file system that is not in trustedFileSystems, after a change that is more recent than
// the clock's step (a second where times have no nanoseconds), and where something was mounted over
// a path since it was added. An added path that is a link stands for its target. After
// [Set.Invalidate] it reports false for good. [Local] says whether a path lies on a trusted file
// system.
//
// A file system belongs in trustedFileSystems if it updates change times with every change, and only
// this kernel changes it. Overlayfs is one of them, also where its lower directories are not.
//
// Not guaranteed: anything about what lies deeper, or in a directory that this process cannot
// reach. A program that has mapped a file can write it without a new change time.
package ctime

import (
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Set is a set of paths. The zero value is empty. It is not safe for concurrent use.
type Set struct {
	list    []entry
	added   map[string]bool
	trusted map[[2]uint32]bool // by device; see fileSystemTrusted
	invalid bool
	size    int
}

type entry struct {
	path    []byte // with its NUL
	mount   uint64 // where path was when it was added, or would have been made
	at      stamp
	settled bool // every change after at was taken gives another stamp
}

// stamp is the state of a path. The zero value means that nothing is there.
type stamp struct {
	inode  uint64
	device [2]uint32
	mount  uint64
	change unix.StatxTimestamp
}

// clockStep is how long two changes may have the same time: the clock of file systems
// moves in steps of up to ten milliseconds.
const clockStep = 50 * time.Millisecond

// coarseStep is clockStep where times have no nanoseconds: ext4 with inodes of 128 bytes, ext3 and ext2, whose magic
// number is the same, have whole seconds.
const coarseStep = time.Second + clockStep

// Add adds a path, which need not exist. Call it before looking there.
func (s *Set) Add(path string) {
	if s.added[path] {
		return
	}
	if s.added == nil {
		s.added, s.trusted = map[string]bool{}, map[[2]uint32]bool{}
	}
	s.added[path] = true
	e := entry{path: append([]byte(path), 0), mount: s.mountOf(path)}
	at, trusted := s.stamp(e.path)
	e.set(at, trusted, settledBefore())
	s.list = append(s.list, e)
	s.size += 200 + 2*len(path)
}

// Size is about how many bytes the set has in memory.
func (s *Set) Size() int { return s.size }

// Invalidate makes Unchanged report false from now on: what was found depends on more
// than the paths of the set.
func (s *Set) Invalidate() { s.invalid = true }

// Unchanged reports whether all paths are as they were when they were added or when
// Unchanged was called last. Call it before looking there again: a change in between is
// then reported the next time.
func (s *Set) Unchanged() bool {
	before := settledBefore()
	unchanged := !s.invalid
	for i := range s.list {
		e := &s.list[i]
		at, trusted := s.stamp(e.path)
		unchanged = e.is(at) && unchanged
		e.set(at, trusted, before)
	}
	return unchanged
}

// is reports whether nothing has changed since set.
func (e *entry) is(at stamp) bool { return e.settled && at == e.at }

// set stores a stamp. It is settled, and can be compared, if its file system is trusted,
// its change is older than before, and nothing was mounted over the path: a sandbox that
// was made earlier does not see that mount.
func (e *entry) set(at stamp, trusted bool, before int64) {
	covered := at.mount != 0 && at.mount != e.mount
	change := at.change.Sec*1e9 + int64(at.change.Nsec)
	if at.inode != 0 && at.change.Nsec == 0 {
		before -= int64(coarseStep - clockStep)
	}
	e.at, e.settled = at, trusted && !covered && change < before
}

// settledBefore returns the time since when changes may share a stamp.
func settledBefore() int64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return 0
	}
	return now.Nano() - int64(clockStep)
}

// mountOf returns the mount that a path is on, or would be made on.
func (s *Set) mountOf(path string) uint64 {
	for {
		at, _ := s.stamp(append([]byte(path), 0))
		above := filepath.Dir(path)
		if at.mount != 0 || above == path {
			return at.mount
		}
		path = above
	}
}

// stamp asks the kernel about a path. The second result is false if the answer cannot be
// trusted to change with every change.
func (s *Set) stamp(path []byte) (stamp, bool) {
	const want = unix.STATX_INO | unix.STATX_CTIME
	const mount = unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE // unique since Linux 6.8
	const atFDCWD = ^uintptr(99)                               // AT_FDCWD is -100
	var st unix.Statx_t
	_, _, err := unix.Syscall6(unix.SYS_STATX, atFDCWD, uintptr(unsafe.Pointer(&path[0])), unix.AT_NO_AUTOMOUNT,
		want|mount, uintptr(unsafe.Pointer(&st)), 0)
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.ENAMETOOLONG:
		return stamp{}, true // what then can be seen has a stamp
	}
	if err != 0 || st.Mask&want != want || st.Mask&mount == 0 {
		return stamp{}, false
	}
	at := stamp{st.Ino, [2]uint32{st.Dev_major, st.Dev_minor}, st.Mnt_id, st.Ctime}
	return at, s.fileSystemTrusted(at.device, path)
}

// fileSystemTrusted reports whether the file system of a device is known to update change
// times with every change.
func (s *Set) fileSystemTrusted(device [2]uint32, path []byte) bool {
	trusted, asked := s.trusted[device]
	if !asked {
		var fs unix.Statfs_t
		err := unix.Statfs(string(path[:len(path)-1]), &fs)
		trusted = err == nil && slices.Contains(trustedFileSystems, int64(fs.Type))
		s.trusted[device] = trusted
	}
	return trusted
}

var trustedFileSystems = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC,
	unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}

// Local reports whether the file system of a path is known to update change times with
// every change, and to be changed by this kernel alone. A path that cannot be asked about,
// for one that is not there, counts as local.
func Local(path string) bool {
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	return err != nil || slices.Contains(trustedFileSystems, int64(fs.Type))
}
