package limit

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	diskTick    = time.Second           // between two looks at what each call writes
	reserveTick = 25 * time.Millisecond // between two looks at the file systems of the reserve
	countTime   = 2 * time.Second       // for one count; a larger tree is counted in part
	endTime     = 2 * time.Second       // in which calls that were ended make room, before others are
)

// Disk measures what running calls write. The kernel limits the size of one file, not
// what a call writes altogether.
//
// It looks at the free space of file systems, which costs little: forty times a second at those
// of the [Reserve], and once a second at those that calls may write. If the free space has fallen
// by more than the limit of a call since that call began, it counts the files that changed since
// then. It ends a call
//
//   - that wrote more than its limit;
//   - whose private files took much, and more than half of what was free above the reserve when it
//     began. When it has ended, what it wrote there is removed;
//   - that wrote much, when the reserve is touched; if none did, all of them. What
//     such a call wrote to its private files is removed, if the reserve is still touched;
//   - whose session keeps too much, as [Reserve.Over] says.
//
// So files that are deleted, and that a program still has open, are seen only when the reserve is
// touched. Deleted files that are only mapped are never seen. Calls of one session share private
// places: one call may be ended for what another wrote there, and files of the other call may be
// removed.
type Disk struct {
	FreeSpace func(paths []string) map[uint64]Space // by device; replaced by tests

	reserve Reserve
	stop    chan struct{} // closed by Close
	ticker  sync.WaitGroup

	mu      sync.Mutex
	calls   map[*DiskUse]bool // guarded by mu
	running bool              // guarded by mu: the ticker
	closed  bool              // guarded by mu
}

// DiskUse is one running call. Set the exported fields before Watch.
type DiskUse struct {
	Session  string
	Places   []string // directories that the call may write
	Private  []string // those of them that nobody but its session has
	Since    time.Time
	Limit    int64  // bytes
	Exempt   bool   // from the reserve
	Exceeded func() // called, perhaps more than once, when the call has written more
	// Deleted is the size of the deleted files on a file system that processes of the session still
	// have open; nil: there are none.
	Deleted func(device uint64) int64

	free map[uint64]Space // when it began
	held map[uint64]Space // the same of the reserve

	mu    sync.Mutex
	ended time.Time // guarded by mu: when it was ended for the reserve, or ended
}

// NewDisk returns a Disk that measures nothing yet.
func NewDisk(r Reserve) *Disk {
	return &Disk{FreeSpace: FreeSpace, reserve: r, stop: make(chan struct{}), calls: map[*DiskUse]bool{}}
}

// Watch begins to measure a call.
func (d *Disk) Watch(u *DiskUse) {
	u.free, u.held = d.FreeSpace(u.Places), d.FreeSpace(d.reserve.Dirs)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[u] = true
	if !d.running && !d.closed {
		d.running = true
		d.ticker.Go(d.measure)
	}
}

// Unwatch ends measuring a call of which no process is left. It reports whether the call
// wrote more than it might at the end, and what was removed of that, in bytes.
func (d *Disk) Unwatch(u *DiskUse) (exceeded bool, removed int64) {
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.calls, u)
	}()
	u.ends() // no other call ends for what this one takes away now
	for device, now := range d.FreeSpace(d.reserve.Dirs) {
		if u.Exempt {
			break
		}
		took := d.reserve.Low(now) && u.changed(device, u.Private, d.much(now)) >= d.much(now)
		if !took && !u.wroteRoom(d, device, now) {
			continue
		}
		if took {
			d.took(u)
		}
		exceeded = true
		removed += removeChanged(u.Private, u.since(), device)
	}
	return exceeded, removed
}

// Close ends all measuring.
func (d *Disk) Close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.stop)
	}
	d.mu.Unlock()
	d.ticker.Wait()
}

// measure looks at all running calls until there are none.
func (d *Disk) measure() {
	tick := time.NewTicker(reserveTick)
	defer tick.Stop()
	var looked time.Time
	for {
		select {
		case <-d.stop:
			return
		case <-tick.C:
		}
		d.mu.Lock()
		var all []*DiskUse
		for u := range d.calls {
			all = append(all, u)
		}
		if d.running = len(all) > 0; !d.running {
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		d.guard(slices.DeleteFunc(slices.Clone(all), func(u *DiskUse) bool { return u.Exempt }))
		if time.Since(looked) < diskTick {
			continue
		}
		looked = time.Now()
		for _, u := range all {
			u.check(d.FreeSpace(u.Places))
		}
	}
}

// guard ends the calls that take the reserve, or more than their part of the rest.
func (d *Disk) guard(all []*DiskUse) {
	for device, now := range d.FreeSpace(d.reserve.Dirs) {
		for _, u := range all {
			if u.wroteRoom(d, device, now) {
				u.end()
			}
		}
		if d.reserve.Low(now) {
			d.makeRoom(all, device, now)
		}
	}
	for _, u := range all {
		if d.reserve.Over != nil && d.reserve.Over(u.Session) {
			u.Exceeded()
		}
	}
}

// makeRoom ends the calls that wrote much, or else all.
// It waits for those that were ended: they may be what took it.
func (d *Disk) makeRoom(all []*DiskUse, device uint64, now Space) {
	var others, wrote []*DiskUse
	counting := time.Now()
	for _, u := range all {
		if at := u.endedAt(); !at.IsZero() {
			if time.Since(at) < endTime {
				return
			}
			continue
		}
		others = append(others, u)
		if time.Since(counting) < countTime && u.wrote(device, d.much(now)) {
			wrote = append(wrote, u)
		}
	}
	for _, u := range wrote {
		d.took(u)
	}
	if len(wrote) == 0 {
		// A call that has ended meanwhile may have taken it, and takes its files away.
		ending := func(u *DiskUse) bool { return !u.endedAt().IsZero() && time.Since(u.endedAt()) < endTime }
		if slices.ContainsFunc(all, ending) || !d.reserve.Low(d.FreeSpace(d.reserve.Dirs)[device]) {
			return
		}
		wrote = others
	}
	for _, u := range wrote {
		u.end()
	}
}

func (d *Disk) took(u *DiskUse) {
	if d.reserve.Took != nil {
		d.reserve.Took(u.Session)
	}
}

// much returns how many bytes make a call one of those that took the reserve.
func (d *Disk) much(s Space) int64 { return max(1<<16, int64(d.reserve.Keep(s)/8)) }

func (u *DiskUse) end() {
	u.ends()
	u.Exceeded()
}

func (u *DiskUse) ends() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended.IsZero() {
		u.ended = time.Now()
	}
}

func (u *DiskUse) endedAt() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// wroteRoom reports whether the private files of the call took much, and more than half of what was
// free above the reserve of a file system when it began.
func (u *DiskUse) wroteRoom(d *Disk, device uint64, now Space) bool {
	before, ok := u.held[device]
	keep := d.reserve.Keep(before)
	if !ok || before.Avail <= keep || now.Avail >= before.Avail {
		return false
	}
	room := max((before.Avail-keep)/2, uint64(d.much(before)))
	return before.Avail-now.Avail > room && u.changed(device, u.Private, int64(room)) > int64(room)
}

// wrote reports whether the call wrote much.
func (u *DiskUse) wrote(device uint64, much int64) bool {
	return u.Deleted != nil && u.Deleted(device) >= much || u.changed(device, u.Places, much) >= much
}

// changed returns what the call wrote to places on a file system, about; it counts on until that is more than
// enough. What it hid from this process counts as all that is missing.
func (u *DiskUse) changed(device uint64, places []string, enough int64) int64 {
	n, hidden := changedBytes(places, u.since(), enough, device)
	if hidden {
		return enough + 1
	}
	return n
}

func (u *DiskUse) since() time.Time { return earliest(u.Since, time.Since(u.Since), time.Now()) }

func (u *DiskUse) check(free map[uint64]Space) {
	for device, before := range u.free {
		if now, ok := free[device]; ok && now.Free < before.Free && before.Free-now.Free > uint64(u.Limit) {
			if n, _ := changedBytes(u.Places, u.since(), u.Limit, anyDevice); n > u.Limit {
				u.Exceeded()
			}
			return
		}
	}
}

// earliest returns the time that files changed since then can have at least. Their times are of the clock of the
// host, which may have been set since: elapsed is measured by another one.
func earliest(since time.Time, elapsed time.Duration, now time.Time) time.Time {
	if begun := now.Add(-elapsed); begun.UnixNano() < since.UnixNano() {
		return begun
	}
	return since
}

// FreeSpace returns the space of each file system that the paths are on, by its device.
func FreeSpace(paths []string) map[uint64]Space {
	out := map[uint64]Space{}
	for _, p := range paths {
		var st unix.Stat_t
		var fst unix.Statfs_t
		if unix.Stat(p, &st) == nil && unix.Statfs(p, &fst) == nil {
			out[st.Dev] = spaceOf(fst)
		}
	}
	return out
}

// unsaid is what a file system has that says nothing of its size, as some of virtual machines
// and containers: there nothing can be kept.
const unsaid = 1 << 60

func spaceOf(fst unix.Statfs_t) Space {
	if fst.Blocks == 0 {
		return Space{Free: unsaid, Avail: unsaid, Size: unsaid}
	}
	unit := uint64(fst.Bsize)
	return Space{
		Free: fst.Bfree * unit, Avail: fst.Bavail * unit, Size: fst.Blocks * unit,
		Files: fst.Files, FreeFiles: fst.Ffree,
	}
}

// anyDevice is no file system's number.
const anyDevice = 0

// changedBytes counts what the files below the places hold that have changed since then, on one
// file system or any. It stops when that is more than enough. hidden says that there is a
// directory that this process may not read.
func changedBytes(places []string, since time.Time, enough int64, device uint64) (sum int64, hidden bool) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	seen := map[[2]uint64]bool{}
	for _, place := range places {
		_ = filepath.WalkDir(place, func(_ string, e fs.DirEntry, err error) error {
			if sum > enough || ctx.Err() != nil {
				return fs.SkipAll
			}
			if err != nil {
				hidden = hidden || isHidden(err)
				return nil
			}
			if !e.Type().IsRegular() {
				return nil
			}
			info, err := e.Info()
			if err != nil {
				return nil
			}
			st := info.Sys().(*syscall.Stat_t)
			file := [2]uint64{st.Dev, st.Ino}
			if !changedSince(st, since) || seen[file] || device != anyDevice && st.Dev != device {
				return nil
			}
			seen[file] = true
			sum += st.Blocks*512 + inodeBytes
			return nil
		})
	}
	return sum, hidden
}

// changedSince looks at the change time: a program can set the time of modification. The clock
// of the file system is a tick behind.
func changedSince(st *syscall.Stat_t, since time.Time) bool {
	return !time.Unix(st.Ctim.Unix()).Before(since.Add(-10 * time.Millisecond))
}
