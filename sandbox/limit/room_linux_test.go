package limit

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheReserveFitsTheDisk(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name  string
		bytes int64
		space Space
		keep  uint64
		low   bool
	}{
		{"a tmpfs", 0, Space{Size: 48 * mib, Avail: 6 * mib}, 6 * mib, false},
		{"a tmpfs with less", 0, Space{Size: 48 * mib, Avail: 6*mib - 1}, 6 * mib, true},
		{"a disk", 0, Space{Size: 1 << 40, Avail: 1 << 30}, 256 * mib, false},
		{"as a setting says", 3 << 30, Space{Size: 1 << 40, Avail: 1 << 30}, 3 << 30, true},
		{"files run out", 0, Space{Size: 1 << 40, Avail: 1 << 30, Files: 6400, FreeFiles: 99}, 256 * mib, true},
		{
			"files that are enough", 0,
			Space{Size: 1 << 40, Avail: 1 << 30, Files: 6400, FreeFiles: 100},
			256 * mib, false,
		},
		{"files without a bound", 0, Space{Size: 1 << 40, Avail: 1 << 30}, 256 * mib, false},
	} {
		r := Reserve{Bytes: tt.bytes}
		if keep, low := r.Keep(tt.space), r.Low(tt.space); keep != tt.keep || low != tt.low {
			t.Errorf("%s: keeps %d, low %v, want %d, %v", tt.name, keep, low, tt.keep, tt.low)
		}
	}
}

// TestAFileSystemWithoutASize refuses nobody.
func TestAFileSystemWithoutASize(t *testing.T) {
	if s := spaceOf(unix.Statfs_t{Bsize: 4096}); (Reserve{}).Low(s) || (Reserve{Bytes: 1 << 40}).Low(s) {
		t.Errorf("%+v is low", s)
	}
	s := spaceOf(unix.Statfs_t{Bsize: 4096, Blocks: 10, Bfree: 5, Bavail: 4, Files: 3, Ffree: 2})
	if want := (Space{Free: 5 * 4096, Avail: 4 * 4096, Size: 10 * 4096, Files: 3, FreeFiles: 2}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// mustWrite makes a file of so many bytes, with the directories above it.
func mustWrite(t *testing.T, path string, n int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, n), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyWhatACallWroteIsRemoved: files from before stay, links lead nowhere, and neither a
// closed directory nor a second name saves what was written.
func TestOnlyWhatACallWroteIsRemoved(t *testing.T) {
	dir := t.TempDir()
	place, outside := dir+"/place", dir+"/outside"
	mustWrite(t, place+"/before", 1<<16)
	mustWrite(t, outside+"/theirs", 1<<16)
	time.Sleep(50 * time.Millisecond) // the clock of the file system is a tick behind
	since := time.Now()
	mustWrite(t, place+"/new", 1<<20)
	mustWrite(t, place+"/closed/new", 1<<20)
	mustWrite(t, place+"/held", 1<<20)
	mustWrite(t, outside+"/late", 1<<16)
	held, err := os.Open(place + "/held")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, err := range []error{
		os.Chmod(place+"/closed", 0), os.Symlink(outside, place+"/link"), os.Symlink(outside+"/late", place+"/file"),
		syscall.Mkfifo(place+"/fifo", 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(place)
	if err != nil {
		t.Fatal(err)
	}
	device := info.Sys().(*syscall.Stat_t).Dev
	if n := removeChanged([]string{place}, since, device+1); n != 0 {
		t.Errorf("%d bytes of another file system are removed", n)
	}
	if n := removeChanged([]string{place, dir + "/absent"}, since, device); n < 3<<20 {
		t.Errorf("%d bytes are removed, want those of three files", n)
	}
	for path, there := range map[string]bool{
		place + "/before": true, outside + "/theirs": true, outside + "/late": true, place + "/link": true,
		place + "/new": false, place + "/closed/new": false, place + "/held": false,
	} {
		if _, err := os.Lstat(path); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", path, err, there)
		}
	}
	if info, err := held.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("a file that is open keeps its room: %v, %v", info, err)
	}
	if info, err := os.Stat(outside + "/late"); err != nil || info.Size() != 1<<16 {
		t.Errorf("a file behind a link: %v, %v", info, err)
	}
}

func TestWhatADirectoryHolds(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir+"/links/a", 1<<20)
	if err := os.Link(dir+"/links/a", dir+"/links/b"); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir+"/hole/a", 1)
	if err := os.Truncate(dir+"/hole/a", 1<<40); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir+"/deep/a", 1)
	mustWrite(t, dir+"/file", 1<<20)
	deep, err := os.OpenRoot(dir + "/deep")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 250)
	for range unix.PathMax/len(name) + 1 {
		if err := deep.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := deep.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = deep.Close()
		deep = next
	}
	_ = deep.Close()
	kept, err := Kept(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := kept["links"]; n < 1<<20 || n >= 2<<20 {
		t.Errorf("two names of one file: %d bytes", n)
	}
	if n := kept["hole"]; n >= 1<<20 {
		t.Errorf("a hole: %d bytes", n)
	}
	if n := kept["deep"]; n != tooDeep {
		t.Errorf("a tree that no path leads into: %d bytes", n)
	}
	if _, ok := kept["file"]; ok {
		t.Error("a file counts as a directory")
	}
}

// TestDeletedFilesThatAreOpen are found in the processes below one, each once.
func TestDeletedFilesThatAreOpen(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir+"/x", 1<<20)
	f, err := os.Open(dir + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	device := info.Sys().(*syscall.Stat_t).Dev
	if n := DeletedBytes(os.Getpid(), device); n >= 1<<20 {
		t.Errorf("%d bytes before it is deleted", n)
	}
	if err := os.Remove(dir + "/x"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "cat; true") // two processes more that have it
	cmd.ExtraFiles = []*os.File{f}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stdin.Close(), cmd.Wait() }()
	if n := DeletedBytes(os.Getpid(), device); n < 1<<20 || n >= 2<<20 {
		t.Errorf("%d bytes, want those of one file", n)
	}
	if n := DeletedBytes(cmd.Process.Pid, device+1); n != 0 {
		t.Errorf("%d bytes on another file system", n)
	}
}

// TestWhatTookTheRoomIsRemoved: when a call has ended that wrote much while the reserve was touched, or more than half
// of what was free above it, its private files of that time go. Those of other calls stay, and those of a call that wrote
// little to a disk that was nearly full.
func TestWhatTookTheRoomIsRemoved(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name          string
		before, after uint64 // free
		wrote         int
		exempt, goes  bool
	}{
		{"the reserve is touched", 64 * mib, 4 * mib, 2 * mib, false, true},
		{"by others", 64 * mib, 4 * mib, mib / 2, false, false},
		{"by an operator", 64 * mib, 4 * mib, 2 * mib, true, false},
		{"more than half of what was free", 10 * mib, 8*mib + mib/2, 2 * mib, false, true},
		{"half of nearly nothing, and little", 8*mib + 4096, 8 * mib, 4096, false, false},
		{"less than half of it", 20 * mib, 18 * mib, 2 * mib, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			device := func() uint64 {
				info, err := os.Stat(dir)
				if err != nil {
					t.Fatal(err)
				}
				return uint64(info.Sys().(*syscall.Stat_t).Dev)
			}()
			took := 0
			d := NewDisk(Reserve{Dirs: []string{dir}, Bytes: 8 * mib, Took: func(string) { took++ }})
			d.Close() // nothing looks while the call runs
			free := tt.before
			d.FreeSpace = func([]string) map[uint64]Space {
				return map[uint64]Space{device: {Size: 1 << 30, Free: free, Avail: free}}
			}
			mustWrite(t, dir+"/private/before", 1<<16)
			time.Sleep(50 * time.Millisecond) // the clock of the file system is a tick behind
			u := &DiskUse{
				Session: "s", Places: []string{dir}, Private: []string{dir + "/private"}, Since: time.Now(),
				Limit: 1 << 40, Exempt: tt.exempt, Exceeded: func() {},
			}
			d.Watch(u)
			mustWrite(t, dir+"/private/new", tt.wrote)
			mustWrite(t, dir+"/shared", tt.wrote)
			free = tt.after
			exceeded, removed := d.Unwatch(u)
			if exceeded != tt.goes || (removed >= int64(tt.wrote)) != tt.goes || !tt.goes && removed != 0 {
				t.Errorf("exceeded %v, %d bytes are removed", exceeded, removed)
			}
			for path, there := range map[string]bool{"/private/before": true, "/shared": true, "/private/new": !tt.goes} {
				if _, err := os.Lstat(dir + path); (err == nil) != there {
					t.Errorf("%s: %v, want it there: %v", path, err, there)
				}
			}
		})
	}
}

// TestWhoTookTheRoomAboveTheReserve: a call that wrote more than half of it, if there was room and it became less.
func TestWhoTookTheRoomAboveTheReserve(t *testing.T) {
	const mib = 1 << 20
	place := t.TempDir()
	mustWrite(t, place+"/new", 2*mib)
	info, err := os.Stat(place)
	if err != nil {
		t.Fatal(err)
	}
	device := info.Sys().(*syscall.Stat_t).Dev
	d := NewDisk(Reserve{Bytes: mib})
	defer d.Close()
	for _, tt := range []struct {
		name        string
		before, now uint64 // MiB
		places      []string
		want        bool
	}{
		{"most of it", 4, 1, []string{place}, true},
		{"less than half", 4, 3, []string{place}, false},
		{"another call took it", 4, 1, nil, false},
		{"others have deleted something", 4, 5, []string{place}, false},
		{"there was no room above the reserve", 1, 0, []string{place}, false},
	} {
		u := &DiskUse{Private: tt.places, Since: time.Now().Add(-time.Hour)}
		u.held = map[uint64]Space{device: {Size: 100 * mib, Avail: tt.before * mib}}
		now := Space{Size: 100 * mib, Avail: tt.now * mib}
		if got := u.wroteRoom(d, device, now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if u.wroteRoom(d, device+1, now) {
			t.Errorf("%s: on a file system that it did not begin with", tt.name)
		}
	}
}

// What cannot be looked at hides what a call wrote, for whatever reason: rights, or a path that is too long.
func TestWhatHidesFiles(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, fs.ErrNotExist: false, unix.ENOENT: false,
		unix.EACCES: true, unix.ENAMETOOLONG: true, unix.ELOOP: true, unix.EIO: true,
	} {
		if err != nil {
			err = &fs.PathError{Op: "open", Path: "x", Err: err}
		}
		if got := isHidden(err); got != want {
			t.Errorf("%v hides: %t", err, got)
		}
	}
}
