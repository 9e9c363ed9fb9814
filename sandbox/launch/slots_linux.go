package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/bound"
	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Slot leads to a process that is confined and waits. After Enter, pass it to Begin.
type Slot struct {
	wire.Slot
	End <-chan wire.Reply // how the call ended; closed without a value if the launcher ends
	fd  int
}

// Entry is what a call needs of its slot.
type Entry struct {
	Limits wire.Limits
	Room   int          // bytes that its script needs
	Masks  []string     // sockets of the host that it must not see
	Kept   []Kept       // files that it must not write
	Bound  []bound.File // files that it executes or obeys with this content
	Listen wire.Program // the filter of a call with bound files
}

// Kept are the paths below a root that programs must not write. A later list for the same
// root has a higher version.
type Kept struct {
	Root    string
	Version uint64
	Paths   []wire.Kept
}

// Enter returns a slot for a call. The process behind it sees no path that must be hidden,
// and can write none that must be kept. If ctx ends first and the launcher is stopped, the
// launcher is ended.
func (l *Launcher) Enter(ctx context.Context, e Entry) (_ Slot, err error) {
	generation, masks, kept := l.mustScan(e)
	defer func() {
		if err != nil && ctx.Err() != nil && l.Stopped() {
			l.kill() // so that the next call of the session gets one that works
		}
	}()
	r := wire.Request{Masks: masks, Limits: e.Limits, Room: e.Room}
	var files []*os.File
	if len(e.Bound) > 0 {
		r.Bound = &wire.Bound{Listen: e.Listen}
		for _, f := range e.Bound {
			if f.Content == nil {
				r.Bound.Absent = append(r.Bound.Absent, f.Names...)
				continue
			}
			r.Bound.Names, files = append(r.Bound.Names, f.Names), append(files, f.Content)
		}
	}
	for {
		var slot Slot
		var answer <-chan wire.Message
		slot, r, answer = l.takeSlot(generation, kept, r)
		if answer == nil {
			return slot, nil
		}
		body, err := json.Marshal(r)
		if err == nil {
			err = l.write(ctx, body, files...)
		}
		// After ECONNRESET, what it had not read is lost.
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, net.ErrClosed) {
			return Slot{}, ErrGone
		}
		if err != nil {
			return Slot{}, fmt.Errorf("send a request to the launcher: %w", err)
		}
		select {
		case m, ok := <-answer:
			if !ok {
				return Slot{}, ErrGone
			}
			if m.Error != "" {
				return Slot{}, errors.New(m.Error)
			}
		case <-ctx.Done():
			l.abandon(r)
			return Slot{}, context.Cause(ctx)
		}
		l.mu.Lock()
		l.scanned = max(l.scanned, generation)
		l.mu.Unlock()
	}
}

// maxMasked bounds the memory for sockets that come and go. Above it those that are gone
// are forgotten, and the launcher scans before every call.
const maxMasked = 4096

// mustScan returns the generation that the launcher must have scanned, all sockets that it
// must hide, and all files that it must keep. A scan for one call counts for all calls, so it
// covers the sockets that any of them knew of, and the latest list of files of each root.
func (l *Launcher) mustScan(e Entry) (generation int, masks []string, kept []wire.Kept) {
	l.scanning.Lock()
	defer l.scanning.Unlock()
	unchanged := l.dirs.Unchanged()
	for _, k := range e.Kept {
		if k.Version > l.kept[k.Root].Version {
			l.kept[k.Root], unchanged = k, false
		}
	}
	for _, p := range e.Masks {
		if l.masked[p] {
			continue
		}
		unchanged = false
		if len(l.masked) >= maxMasked {
			l.dirs.Invalidate()
			maps.DeleteFunc(l.masked, func(p string, _ bool) bool {
				_, err := os.Lstat(p)
				return err != nil
			})
		}
		l.masked[p] = true
		if len(l.masked) < maxMasked {
			l.dirs.Add(filepath.Dir(p))
		}
	}
	if !unchanged {
		l.generation++
		l.keep = nil
		for _, root := range slices.Sorted(maps.Keys(l.kept)) {
			l.keep = append(l.keep, l.kept[root].Paths...)
		}
	}
	return l.generation, slices.Sorted(maps.Keys(l.masked)), l.keep
}

// takeSlot takes a slot that fits. If there is none, it returns the request for one and the
// channel for the answer. The channel is closed without a value if the launcher ends. A slot with
// bound files fits only its own request, so pass the request that takeSlot returned before.
func (l *Launcher) takeSlot(generation int, kept []wire.Kept, r wire.Request) (
	Slot, wire.Request, <-chan wire.Message,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Slots, r.Kept = nil, nil
	if l.scanned < generation {
		r.Kept = kept
	}
	for i, slot := range l.slots {
		if r.Bound != nil && r.ID == 0 || !slot.Fits(r.Limits, r.Room, only(r)) {
			continue
		}
		if l.scanned >= generation {
			l.slots = slices.Delete(l.slots, i, i+1)
			end := make(chan wire.Reply, 1)
			l.calls[slot.Call], slot.End = end, end
			return slot, r, nil
		}
		r.Slots = append(r.Slots, slot.Call)
	}
	// Slots of earlier limits would keep processes waiting for nothing.
	l.closeSlots(func(s Slot) bool { return s.Bound == 0 && !s.Fits(r.Limits, 0, 0) })
	answer := make(chan wire.Message, 1)
	if l.answers == nil {
		close(answer)
		return Slot{}, r, answer
	}
	l.next++
	r.ID, r.Newest = l.next, l.newest
	l.answers[r.ID] = answer
	return Slot{}, r, answer
}

// only returns what the slot of a request must say it was made for: the request itself if it has bound files,
// otherwise any.
func only(r wire.Request) uint64 {
	if r.Bound == nil {
		return 0
	}
	return r.ID
}

// abandon drops what comes for a request that nobody waits for any more. Only a slot with
// bound files is of no use to others.
func (l *Launcher) abandon(r wire.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.answers, r.ID)
	if r.Bound != nil {
		l.closeSlots(func(s Slot) bool { return s.Bound == r.ID })
	}
}

// closeSlots closes the slots that no call will take, which ends their processes. l.mu is
// held.
func (l *Launcher) closeSlots(useless func(Slot) bool) {
	l.slots = slices.DeleteFunc(l.slots, func(s Slot) bool {
		if useless(s) {
			_ = unix.Close(s.fd)
			return true
		}
		return false
	})
}

// Begin sends a script through a slot, which is used up. files are the streams of the
// program. After an error no program was run.
func (l *Launcher) Begin(slot Slot, s *script.Script, files []*os.File) (err error) {
	defer func() {
		_ = unix.Close(slot.fd)
		if err != nil {
			l.mu.Lock()
			delete(l.calls, slot.Call)
			l.mu.Unlock()
		}
	}()
	var fds []int
	for _, f := range files {
		// Fd, not SyscallConn: it makes the file blocking again, which is what programs
		// expect of their streams.
		fd := f.Fd()
		if fd == ^uintptr(0) {
			return os.ErrClosed
		}
		fds = append(fds, int(fd))
	}
	return s.Send(slot.fd, fds)
}
