package identity

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ID is a user as the kernel knows one. The zero value is root.
type ID struct {
	UID, GID int
	Groups   []int `json:",omitempty"` // supplementary
}

// Valid reports whether a process can have these ids: the kernel takes -1 for "as before".
func (id ID) Valid() bool {
	for _, n := range append([]int{id.UID, id.GID}, id.Groups...) {
		if n < 0 || n >= math.MaxUint32 {
			return false
		}
	}
	return true
}

// String returns the same text for IDs that the kernel does not tell apart.
func (id ID) String() string {
	groups := slices.Clone(id.Groups)
	slices.Sort(groups)
	text := fmt.Sprintf("uid %d, gid %d", id.UID, id.GID)
	for n, g := range slices.Compact(groups) {
		if n == 0 {
			text += ", groups"
		}
		text += fmt.Sprintf(" %d", g)
	}
	return text
}

// HasUID and HasGID report whether the user namespace of this process has a number.
func HasUID(uid int) bool {
	return slices.ContainsFunc(uidMap(), func(r idRange) bool { return r.has(uid) })
}

// HasGID is HasUID for groups.
func HasGID(gid int) bool {
	return slices.ContainsFunc(gidMap(), func(r idRange) bool { return r.has(gid) })
}

// uidMap and gidMap do not change while a process lives.
var (
	uidMap = sync.OnceValue(func() []idRange { return readMap("/proc/self/uid_map") })
	gidMap = sync.OnceValue(func() []idRange { return readMap("/proc/self/gid_map") })
)

type idRange struct{ first, n int }

func (r idRange) has(id int) bool { return id >= r.first && id-r.first < r.n }

func readMap(file string) (all []idRange) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		var r idRange
		var outside int
		if _, err := fmt.Sscan(line, &r.first, &outside, &r.n); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// ErrNotTaken is the error of Do where it has not run f.
var ErrNotTaken = errors.New("take the rights")

// ErrNotGivenBack is the error of Do if the thread may still have rights of the ID. The goroutine must end.
var ErrNotGivenBack = errors.New("give back the rights")

// forIDs are the capabilities to take any ids that the user namespace has.
const forIDs = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID

// forFiles are those with which the kernel does not judge a file by the ids alone; with CAP_MAC_OVERRIDE, which is
// in the second word, they are those that setfsuid drops.
const forFiles = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER | 1<<unix.CAP_CHOWN |
	1<<unix.CAP_FSETID | 1<<unix.CAP_MKNOD | 1<<unix.CAP_LINUX_IMMUTABLE

// Takes reports whether this process may take the rights of others.
func Takes() bool {
	caps, err := capabilities()
	return err == nil && caps[0].Effective&forIDs == forIDs
}

// Do runs f on one thread with the rights of the ID to files. f starts no goroutine that
// needs them. If they cannot be taken, f is not run. If they cannot be given back, Do fails
// after f, and the goroutine must end.
func (id ID) Do(f func() error) (err error) {
	if !id.Valid() {
		return fmt.Errorf("%w of uid %d, gid %d: no process can have them", ErrNotTaken, id.UID, id.GID)
	}
	runtime.LockOSThread()
	back, err := id.take()
	defer func() {
		if failed := back(); failed != nil { // the thread ends with its goroutine
			err = errors.Join(err, fmt.Errorf("%w of uid %d: %w", ErrNotGivenBack, id.UID, failed))
			return
		}
		runtime.UnlockOSThread()
	}()
	if err != nil {
		return fmt.Errorf("%w of uid %d: %w", ErrNotTaken, id.UID, err)
	}
	return f()
}

// changing: [Unchanged] holds it for writing, so that no thread changes its ids meanwhile. With the ids of a
// thread the kernel takes from the whole process the right to write in its own /proc.
var changing sync.RWMutex

// Unchanged runs f while no thread changes its ids. Then this process may write the id maps of its
// children. It stays dumpable afterwards. A process of root may always, and one that cannot take ids
// never changes them; there f only runs. f must not call Do, which would wait for the end of f.
func Unchanged(f func() error) error {
	if os.Geteuid() == 0 || !Takes() { // root may always, others never had other ids
		return f()
	}
	changing.Lock()
	defer changing.Unlock()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return f()
}

// take gives this thread the rights, and returns what gives them back.
func (id ID) take() (back func() error, err error) {
	before, err := Groups()
	if err != nil {
		return func() error { return nil }, err
	}
	caps, err := capabilities()
	if err != nil {
		return func() error { return nil }, err
	}
	changing.RLock()
	defer changing.RUnlock()
	if err := SetGroups(id.Groups); err != nil { // nothing is changed
		return func() error { return nil }, err
	}
	gid, uid := setID(unix.SYS_SETFSGID, id.GID), setID(unix.SYS_SETFSUID, id.UID)
	back = func() error {
		changing.RLock()
		defer changing.RUnlock()
		// These two are the effective ids, which the kernel lets everybody take.
		setID(unix.SYS_SETFSUID, uid)
		setID(unix.SYS_SETFSGID, gid)
		if err := SetGroups(before); err != nil {
			return err
		}
		return setCapabilities(caps)
	}
	// These calls report no error. With an id that nobody has they change nothing, and
	// return what holds.
	const nobody = -1
	if got := setID(unix.SYS_SETFSGID, nobody); got != id.GID {
		return back, fmt.Errorf("the gid for files is %d, want %d: %w", got, id.GID, unix.EPERM)
	}
	if got := setID(unix.SYS_SETFSUID, nobody); got != id.UID {
		return back, fmt.Errorf("the uid for files is %d: %w", got, unix.EPERM)
	}
	// The kernel drops these by itself only where the uid for files was root's, and not
	// with every securebits.
	without := caps
	without[0].Effective &^= forFiles
	without[1].Effective &^= 1 << (unix.CAP_MAC_OVERRIDE - 32)
	return back, setCapabilities(without)
}

// setID is setfsuid or setfsgid, of this thread alone. It returns the id of before.
func setID(call uintptr, id int) (before int) {
	got, _, _ := unix.RawSyscall(call, uintptr(id), 0, 0)
	return int(got)
}

// capabilities and setCapabilities are of this thread alone.
func capabilities() (data [2]unix.CapUserData, err error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return data, unix.Capget(&head, &data[0])
}

func setCapabilities(data [2]unix.CapUserData) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	at := uintptr(unsafe.Pointer(&data[0]))
	_, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), at, 0)
	return asError("capset", errno)
}

// Groups and SetGroups are of this thread alone; those of package unix change all threads.
func Groups() ([]int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_GETGROUPS, 0, 0, 0)
	if errno != 0 || n == 0 {
		return nil, asError("getgroups", errno)
	}
	raw := make([]uint32, n)
	n, _, errno = unix.RawSyscall(unix.SYS_GETGROUPS, n, uintptr(unsafe.Pointer(&raw[0])), 0)
	if errno != 0 {
		return nil, asError("getgroups", errno)
	}
	groups := make([]int, 0, n)
	for _, g := range raw[:n] {
		groups = append(groups, int(g))
	}
	return groups, nil
}

// SetGroups sets the supplementary groups of this thread, for good. Call it only between
// [runtime.LockOSThread] and the end of the goroutine: another goroutine must not get the thread.
func SetGroups(groups []int) error {
	raw := make([]uint32, 0, len(groups)) // as the kernel takes them
	for _, g := range groups {
		raw = append(raw, uint32(g))
	}
	var first unsafe.Pointer
	if len(raw) > 0 {
		first = unsafe.Pointer(&raw[0])
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(raw)), uintptr(first), 0)
	return asError("setgroups", errno)
}

func asError(call string, errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return os.NewSyscallError(call, errno)
}
