package child

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketFD is where the daemon's end of the conversation is found.
const socketFD = 3

// maxMessage bounds one message; larger requests come in a file.
const maxMessage = 64 << 10

// Main serves one session until the daemon closes the socket. It never returns.
func Main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd-child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve() error {
	debug.SetGCPercent(40) // the heap is small, and there is one for each session
	if kind, err := unix.GetsockoptInt(socketFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return fmt.Errorf("this is a part of sandboxd and is started by it")
	}
	unix.CloseOnExec(socketFD)
	given := groupsFromEnv()
	// Nobody with the same uid may read or write this process, whose memory the
	// first instructions of every call share.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the launcher undumpable: %w", err)
	}
	// Taken and thrown away, not ignored: what is ignored stays so in every program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGHUP)
	s, err := start(given)
	ready := Ready{Landlock: landlockABI()}
	if err != nil {
		ready.Error = err.Error()
	}
	if e := s.send(ready); e != nil || err != nil {
		return nil // the daemon has the reason, or is gone
	}
	s.spares.size = s.size(&Request{}) + 64<<10
	return s.loop()
}

// start reads the template and builds its root.
func start(given groups) (*server, error) {
	s := &server{groups: given, covered: map[string]uint64{}, pinned: map[string]uint64{}, calls: map[uint64]*running{}, body: make([]byte, maxMessage), oob: make([]byte, unix.CmsgSpace(4*4))}
	root := os.Getenv(RootEnv)
	var early error // told when somebody listens
	if root != "" {
		early = foundation(root)
	}
	body, fds, err := s.receive()
	if err != nil {
		return s, err
	}
	if early != nil {
		closeAll(fds)
		return s, early
	}
	if len(fds) > 0 { // too large for a message
		f := os.NewFile(uintptr(fds[0]), "template")
		closeAll(fds[1:])
		body, err = io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
		f.Close()
		if err != nil {
			return s, fmt.Errorf("read the template: %w", err)
		}
	}
	if err := json.Unmarshal(body, &s.t); err != nil {
		return s, fmt.Errorf("read the template: %w", err)
	}
	s.abi = landlockABI()
	s.spares = spares{want: 1, limits: groupLimits{s.t.Memory, s.t.Processes}}
	s.lastCap = lastCap()
	if s.t.Bare {
		return s, s.startBare()
	}
	if err := build(s.t, root); err != nil {
		return s, err
	}
	s.rules = rules(s.t)
	s.watched = watchList(s.t)
	for _, w := range s.watched {
		s.above.Add(filepath.Dir(w.path))
	}
	s.privileged = true
	// So that what is made for the first call has them.
	if err := s.hide(nil); err != nil {
		return s, err
	}
	s.procMasks = secretsOfProc()
	if s.t.Profile != "strict" { // which has a /proc of its own in every call
		for _, p := range s.procMasks {
			if err := mount(maskDir+"/file", p, "", unix.MS_BIND, ""); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// secretsOfProc are the files of /proc that tell about the machine's memory, its
// keys and its other users, of those that this uid can read at all. With the uid of
// the host's root that is most of them.
func secretsOfProc() []string {
	var out []string
	for _, name := range []string{
		"kcore", "keys", "key-users", "timer_list", "sched_debug", "latency_stats",
		"kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "vmallocinfo", "pagetypeinfo",
	} {
		if p := "/proc/" + name; unix.Access(p, unix.R_OK) == nil {
			out = append(out, p)
		}
	}
	return out
}

func lastCap() int {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			return n
		}
	}
	return 63 // above the last is an error, and the call is refused: never fewer
}
