package child

import (
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Places tell whether anything has changed in directories, or in files. Whatever comes,
// goes or changes its name in a directory changes the time of its status, which nobody
// can set: while the times of all stay, what was found there holds. A dozen places are
// asked for each call instead of hundreds of paths. The zero value has none; it is not
// safe for concurrent use.
type Places struct {
	list    []spot
	added   map[string]bool
	devices map[[2]uint32]bool // and whether their file systems note every change
	never   bool
}

type spot struct {
	text    []byte // the path with its NUL
	mount   uint64 // that it was on when it was added, or that would be made on
	at      stamp
	settled bool // whatever changes after at was taken changes it
}

// stamp is the state of a place; the zero stamp is one that is not there.
type stamp struct {
	inode  uint64
	device [2]uint32
	mount  uint64
	change unix.StatxTimestamp
}

// unsettled is how long a change may hide behind one before it: the clock of file
// systems goes in steps of up to ten milliseconds.
const unsettled = 50 * time.Millisecond

// Add is called before somebody looks there.
func (p *Places) Add(path string) {
	if p.added[path] {
		return
	}
	if p.added == nil {
		p.added, p.devices = map[string]bool{}, map[[2]uint32]bool{}
	}
	p.added[path] = true
	a := spot{text: append([]byte(path), 0), mount: p.mountOf(path)}
	at, known := p.stamp(a.text)
	a.same(at, known, recently())
	p.list = append(p.list, a)
}

// mountOf is the mount that a path is on, or would be made on.
func (p *Places) mountOf(path string) uint64 {
	for {
		at, _ := p.stamp(append([]byte(path), 0))
		above := filepath.Dir(path)
		if at.mount != 0 || above == path {
			return at.mount
		}
		path = above
	}
}

// Never makes what was found hold for no time: it depends on more than places.
func (p *Places) Never() { p.never = true }

// Unchanged reports whether all places are as they were when they were added or when
// this was asked last. The caller looks afterwards, so what changes meanwhile is seen
// the next time.
func (p *Places) Unchanged() bool {
	recent := recently()
	same := !p.never
	for i := range p.list {
		at, known := p.stamp(p.list[i].text)
		same = p.list[i].same(at, known, recent) && same
	}
	return same
}

// recently is the time after which changes are not settled.
func recently() int64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return 0
	}
	return now.Nano() - int64(unsettled)
}

// same takes the stamp of now. One that was recent, or is not to be trusted, says
// nothing the next time.
func (a *spot) same(at stamp, known bool, recent int64) bool {
	same := a.settled && at == a.at
	// What is mounted over a place later is not what a sandbox that was made before sees.
	covered := at.mount != 0 && at.mount != a.mount
	a.at, a.settled = at, known && !covered && at.change.Sec*1e9+int64(at.change.Nsec) < recent
	return same
}

// stamp is that of a path now; false where the times of the file system may be coarse,
// or those of another machine.
func (p *Places) stamp(path []byte) (stamp, bool) {
	const want = unix.STATX_INO | unix.STATX_CTIME
	const mount = unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE // unique since Linux 6.8
	var st unix.Statx_t
	_, _, err := unix.Syscall6(unix.SYS_STATX, atFDCWD, addr(path), unix.AT_NO_AUTOMOUNT, want|mount, uintptr(unsafe.Pointer(&st)), 0)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return stamp{}, true
	}
	if err != 0 || st.Mask&want != want || st.Mask&mount == 0 {
		return stamp{}, false
	}
	at := stamp{st.Ino, [2]uint32{st.Dev_major, st.Dev_minor}, st.Mnt_id, st.Ctime}
	return at, p.local(at.device, path)
}

// local reports whether a device holds a file system that is known to note the time
// of every change at once.
func (p *Places) local(device [2]uint32, path []byte) bool {
	known, asked := p.devices[device]
	if !asked {
		var fs unix.Statfs_t
		known = unix.Statfs(string(path[:len(path)-1]), &fs) == nil && slices.Contains(localFileSystems, int64(fs.Type))
		p.devices[device] = known
	}
	return known
}

var localFileSystems = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}
