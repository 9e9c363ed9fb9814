package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// A call takes a process that waits, confined, behind a door that the launcher has sent.
// It is good as long as nothing has come to be that must be hidden from the call: that is
// looked for here, and hidden there.

// door is a child.Door with its descriptor.
type door struct {
	child.Door
	fd  int
	end <-chan child.Reply // how the call ends, once it is one's; closed without one when the launcher dies
}

// drop sends away what no call will take. l.mu is held.
func (l *launcher) drop(useless func(door) bool) {
	l.doors = slices.DeleteFunc(l.doors, func(d door) bool {
		if useless(d) {
			_ = unix.Close(d.fd)
			return true
		}
		return false
	})
}

// maxMasked bounds the memory that sockets which come and go can take: above it those
// that are gone are forgotten, and the launcher looks before every call.
const maxMasked = 4096

// notice says after which change the launcher must have looked, so that nothing is
// there now that must be hidden and is not, and for which sockets. masks are those that
// this call knows of; a look for one call counts for all, so it is for what all know of.
func (l *launcher) notice(masks []string) (change int, all []string) {
	l.looking.Lock()
	defer l.looking.Unlock()
	same := l.places.Unchanged()
	for _, p := range masks {
		if l.masked[p] {
			continue
		}
		same = false
		if len(l.masked) >= maxMasked {
			l.places.Never()
			maps.DeleteFunc(l.masked, func(p string, _ bool) bool { return !exists(p) })
		}
		l.masked[p] = true
		if len(l.masked) < maxMasked {
			l.places.Add(filepath.Dir(p))
		}
	}
	if !same {
		l.change++
	}
	return l.change, slices.Sorted(maps.Keys(l.masked))
}

// enter gives a door to a process that nothing is visible to that must be hidden.
func (l *launcher) enter(ctx context.Context, limits child.Limits, room int, masks []string) (door, error) {
	change, masks := l.notice(masks)
	for {
		d, r, answer := l.find(change, child.Request{Masks: masks, Limits: limits, Room: room})
		if answer == nil {
			return d, nil
		}
		body, err := json.Marshal(r)
		if err == nil {
			err = l.write(body)
		}
		if err != nil {
			return door{}, fmt.Errorf("send a request to the launcher: %w", err)
		}
		select {
		case m, ok := <-answer:
			if !ok {
				return door{}, errLauncherGone
			}
			if m.Error != "" {
				return door{}, errors.New(m.Error)
			}
		case <-ctx.Done():
			return door{}, context.Cause(ctx)
		}
		l.mu.Lock()
		l.looked = max(l.looked, change)
		l.mu.Unlock()
	}
}

// find takes a door, or gives the request for one and where its answer comes; that is
// closed without one when the launcher dies.
func (l *launcher) find(change int, r child.Request) (door, child.Request, <-chan child.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, d := range l.doors {
		if !d.Fits(r.Limits, r.Room) {
			continue
		}
		if l.looked >= change {
			l.doors = slices.Delete(l.doors, i, i+1)
			end := make(chan child.Reply, 1)
			l.calls[d.Call], d.end = end, end
			return d, r, nil
		}
		r.Doors = append(r.Doors, d.Call)
	}
	// One limit after the other must not leave processes that wait for nothing.
	l.drop(func(d door) bool { return !d.Fits(r.Limits, 0) })
	answer := make(chan child.Message, 1)
	if l.answers == nil {
		close(answer)
		return door{}, r, answer
	}
	l.next++
	r.ID, r.Seen = l.next, l.seen
	l.answers[r.ID] = answer
	return door{}, r, answer
}

// begin sends a script through a door. After an error no program was run.
func (l *launcher) begin(d door, s *child.Script, files []*os.File) (err error) {
	defer func() {
		_ = unix.Close(d.fd)
		if err != nil {
			l.mu.Lock()
			delete(l.calls, d.Call)
			l.mu.Unlock()
		}
	}()
	var fds []int
	for _, f := range files {
		// Fd, and not SyscallConn: it makes the file blocking again, which is
		// what programs expect of their streams.
		fd := f.Fd()
		if fd == ^uintptr(0) {
			return os.ErrClosed
		}
		fds = append(fds, int(fd))
	}
	return s.Open(d.fd, fds)
}
