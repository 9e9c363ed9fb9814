package ctime

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

func newSet(paths ...string) *Set {
	s := &Set{}
	for _, path := range paths {
		s.Add(filepath.Dir(path))
	}
	return s
}

// settle waits until the directories are known to be unchanged.
func settle(t *testing.T, s *Set) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !s.Unchanged(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			needs.Missing(t, "this file system is none whose times are trusted")
		}
	}
}

func TestEveryChangeAboveAWatchedPathIsSeen(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(dir string)
	}{
		{"a file comes", func(d string) { must(os.WriteFile(d+"/home/secret", nil, 0o600)) }},
		{"a directory comes", func(d string) { must(os.Mkdir(d+"/home/secret", 0o700)) }},
		{"the directory above comes", func(d string) { must(os.MkdirAll(d+"/home/later/deep", 0o700)) }},
		{"a file goes", func(d string) { must(os.Remove(d + "/home/old")) }},
		{"a file is replaced", func(d string) { must(os.Rename(d+"/home/other", d+"/home/old")) }},
		{"the directory above is replaced", func(d string) {
			must(os.Rename(d+"/home", d+"/gone"))
			must(os.Rename(d+"/spare", d+"/home"))
		}},
		{"a link in the middle leads elsewhere", func(d string) {
			must(os.Remove(d + "/link"))
			must(os.Symlink("spare", d+"/link"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := t.TempDir()
			for _, p := range []string{"/home", "/spare"} {
				must(os.Mkdir(d+p, 0o700))
			}
			must(os.WriteFile(d+"/home/old", nil, 0o600))
			must(os.WriteFile(d+"/home/other", nil, 0o600))
			must(os.Symlink("home", d+"/link"))
			s := newSet(d+"/home/secret", d+"/home/old", d+"/home/later/deep/x", d+"/link/y")
			if s.Unchanged() {
				t.Fatal("what was made just now is taken for settled")
			}
			settle(t, s)
			tt.change(d)
			if s.Unchanged() {
				t.Error("the change was not seen")
			}
		})
	}
}

// TestTimesOfOtherFileSystemsAreNotTrusted: what a file system says that computes its times, or gets them from another
// machine, is never taken for unchanged. The kernel's own file systems stand for those of a network.
func TestTimesOfOtherFileSystemsAreNotTrusted(t *testing.T) {
	for _, path := range []string{"/proc", "/sys"} {
		s := &Set{}
		s.Add(path)
		for range 2 { // as added, and as looked at
			if s.Unchanged() || Local(path) {
				t.Errorf("the times of %s are trusted", path)
			}
		}
	}
}

// TestChangesWithinATickAreSeen makes changes as close to each other and to the
// questions as it can: the clock of the file system does not tell them apart.
func TestChangesWithinATickAreSeen(t *testing.T) {
	dir := t.TempDir()
	s := newSet(filepath.Join(dir, "x"))
	settle(t, s)
	there, held, rnd := false, 0, tier.Rand(t)
	for range tier.Rounds(t, 2000, 100_000) {
		changed := rnd.IntN(3) == 0
		if changed {
			var err error
			if there = !there; there {
				err = os.WriteFile(filepath.Join(dir, "x"), nil, 0o600)
			} else {
				err = os.Remove(filepath.Join(dir, "x"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		switch same := s.Unchanged(); {
		case same && changed:
			t.Fatal("a change was not seen")
		case same:
			held++
		}
		if rnd.IntN(20) == 0 {
			time.Sleep(time.Duration(rnd.IntN(80)) * time.Millisecond)
		}
	}
	if held == 0 {
		t.Error("never unchanged, so nothing is shown")
	}
}

// TestARecentStampIsNotTrusted is for kernels whose clock for files goes in steps:
// a second change in the same step leaves the stamp as it is.
func TestARecentStampIsNotTrusted(t *testing.T) {
	at := func(ns uint32) stamp { return stamp{inode: 1, change: unix.StatxTimestamp{Nsec: ns}} }
	type ask struct {
		at      stamp
		trusted bool
		before  int64
		want    bool
	}
	for name, asks := range map[string][]ask{
		"old":       {{at(10), true, 20, false}, {at(10), true, 21, true}, {at(10), true, 22, true}},
		"recent":    {{at(10), true, 5, false}, {at(10), true, 30, false}, {at(10), true, 31, true}},
		"changed":   {{at(10), true, 20, false}, {at(15), true, 21, false}, {at(15), true, 22, true}},
		"unknown":   {{at(10), false, 20, false}, {at(10), false, 21, false}, {at(10), true, 22, false}},
		"not there": {{stamp{}, true, 20, false}, {stamp{}, true, 21, true}, {at(15), true, 22, false}},
	} {
		var e entry
		for i, a := range asks {
			if got := e.is(a.at); got != a.want {
				t.Errorf("%s, asked %d times: %v, want %v", name, i+1, got, a.want)
			}
			e.set(a.at, a.trusted, a.before)
		}
	}
}

// A directory of a file system with whole seconds changes twice within one.
func TestWholeSecondsSettleLater(t *testing.T) {
	second, fine := unix.StatxTimestamp{Sec: 100}, unix.StatxTimestamp{Sec: 100, Nsec: 1}
	for _, tt := range []struct {
		name   string
		change unix.StatxTimestamp
		after  time.Duration
		want   bool
	}{
		{"one step of the clock", fine, 10 * time.Millisecond, false},
		{"more than a step", fine, 60 * time.Millisecond, true},
		{"whole seconds, within one", second, 900 * time.Millisecond, false},
		{"whole seconds, after it", second, 1100 * time.Millisecond, true},
	} {
		var e entry
		now := time.Unix(tt.change.Sec, int64(tt.change.Nsec)).Add(tt.after).UnixNano()
		if e.set(stamp{inode: 1, change: tt.change}, true, now-int64(clockStep)); e.settled != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, e.settled, tt.want)
		}
	}
}

// TestFileSystemsWhoseTimesAreTrusted are named by the documents; those of other machines are none of them.
func TestFileSystemsWhoseTimesAreTrusted(t *testing.T) {
	for name, tt := range map[string]struct {
		magic int64 // of linux/magic.h
		want  bool
	}{
		"ext4": {0xEF53, true}, "XFS": {0x58465342, true}, "Btrfs": {0x9123683E, true}, "F2FS": {0xF2F52010, true},
		"tmpfs": {0x01021994, true}, "overlayfs": {0x794C7630, true},
		"NFS": {0x6969, false}, "FUSE": {0x65735546, false}, "9P": {0x01021997, false}, "SMB": {0xFE534D42, false},
	} {
		if got := slices.Contains(trustedFileSystems, tt.magic); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
