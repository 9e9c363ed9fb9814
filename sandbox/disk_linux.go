package sandbox

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel limits what one file may grow to, not what a call writes in all. So
// that is measured: once a second the free space is looked at, which costs
// nothing, and only when it has fallen by more than the limit since the call
// began are the files counted that have changed in the places it may write.
//
// What this does not see: files that are deleted while a program holds them open,
// and a burst within a second. Calls of one session share its private places, so
// one may end for what another wrote there.

const (
	diskTick  = time.Second
	countTime = 2 * time.Second // of one count, on a tree that is too large for it
)

// watchDisk begins to measure a call.
func (c *cage) watchDisk(p *proc) {
	p.free = c.freeSpace(p.places)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing[p] = true
	if !c.watching && !c.closed {
		c.watching = true
		c.background.Go(c.measure)
	}
}

func (c *cage) unwatchDisk(p *proc) {
	c.mu.Lock()
	delete(c.writing, p)
	c.mu.Unlock()
}

// measure looks at all running calls until there are none.
func (c *cage) measure() {
	tick := time.NewTicker(diskTick)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		c.mu.Lock()
		var all []*proc
		for p := range c.writing {
			all = append(all, p)
		}
		if c.watching = len(all) > 0; !c.watching {
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		for _, p := range all {
			p.checkDisk(c.freeSpace(p.places))
		}
	}
}

func (p *proc) checkDisk(free map[uint64]uint64) {
	for id, before := range p.free {
		if now, ok := free[id]; ok && now < before && before-now > uint64(p.limits.DiskBytes) {
			if changedBytes(p.places, p.started, p.limits.DiskBytes) > p.limits.DiskBytes {
				p.stopAt("disk")
			}
			return
		}
	}
}

// freeSpace is that of each file system that the paths are on.
func freeSpace(paths []string) map[uint64]uint64 {
	out := map[uint64]uint64{}
	for _, p := range paths {
		var st unix.Stat_t
		var fst unix.Statfs_t
		if unix.Stat(p, &st) == nil && unix.Statfs(p, &fst) == nil {
			out[st.Dev] = fst.Bfree * uint64(fst.Bsize)
		}
	}
	return out
}

// changedBytes counts what files below the places hold that have changed since
// then, until it is more than enough.
func changedBytes(places []string, since time.Time, enough int64) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	seen := map[[2]uint64]bool{}
	var sum int64
	for _, place := range places {
		_ = filepath.WalkDir(place, func(_ string, e fs.DirEntry, err error) error {
			if sum > enough || ctx.Err() != nil {
				return fs.SkipAll
			}
			if err != nil || !e.Type().IsRegular() {
				return nil
			}
			info, err := e.Info()
			if err != nil {
				return nil
			}
			st := info.Sys().(*syscall.Stat_t)
			// A program can set the time of modification, but not this one. The
			// clock of the file system is a tick behind.
			if changed := time.Unix(st.Ctim.Unix()); changed.Before(since.Add(-10*time.Millisecond)) || seen[[2]uint64{st.Dev, st.Ino}] {
				return nil
			}
			seen[[2]uint64{st.Dev, st.Ino}] = true
			sum += st.Blocks * 512
			return nil
		})
	}
	return sum
}

// places are where a call of this box may write on the host. If that is everywhere,
// only the private places and the working directory are measured.
func (b *box) places(dir string) []string {
	paths := slices.Clone(b.settings.AllowedWritePaths)
	if len(paths) == 0 {
		paths = []string{b.host(dir)}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		return slices.Contains([]string{"/tmp", "/var/tmp"}, p) || Within(p, "/dev") || Within(p, "/proc")
	})
	private := b.cage.sessionDir(b.session)
	for _, name := range []string{"tmp", "vartmp", "cache", "over"} {
		paths = append(paths, filepath.Join(private, name))
	}
	return paths
}
