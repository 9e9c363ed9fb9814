package later

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
)

// mounts tells when something is mounted where the daemon looks. A mount covers directories
// that are watched, and inotify says nothing of it.
type mounts struct {
	mu     sync.Mutex
	fd     int    // guarded by mu; 0: not open. No os.File, for Go's own poll would take the answer
	closed bool   // guarded by mu
	count  uint64 // guarded by mu; of changes
}

// mountState is what was mounted around a tree at some time.
type mountState struct {
	count  uint64
	around string
}

const mountinfo = "/proc/self/mountinfo"

// changes counts the changes so far. Where the kernel does not tell, each look counts as one.
func (m *mounts) changes() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd == 0 {
		if !m.closed {
			m.open()
		}
		m.count++
		return m.count
	}
	poll := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}
	if _, err := unix.Poll(poll, 0); err != nil || poll[0].Revents != 0 {
		m.count++
	}
	return m.count
}

func (m *mounts) open() {
	if fd, err := unix.Open(mountinfo, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		m.fd = fd
	}
}

func (m *mounts) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd != 0 {
		_ = unix.Close(m.fd)
	}
	m.fd, m.closed = 0, true
}

// around returns what is mounted above and below a root now.
func (m *mounts) around(root string) mountState {
	s := mountState{count: m.changes()}
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return s
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if at := unescape.Replace(fields[4]); guard.Within(at, root) || guard.Within(root, at) {
			out.WriteString(line)
		}
	}
	s.around = out.String()
	return s
}

// unescape undoes what the kernel writes for white space.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// changed reports whether anything was mounted around a root since then, or may have been.
func (s *mountState) changed(m *mounts, root string) bool {
	count := m.changes()
	if count == s.count {
		return false
	}
	now := m.around(root)
	if now.around == "" || now.around != s.around {
		return true
	}
	*s = now
	return false
}
