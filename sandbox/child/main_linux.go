package child

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/sandboxd/sandboxd/sandbox/bound"
	"github.com/sandboxd/sandboxd/sandbox/reaper"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// Main serves one session until the daemon closes the socket. It never returns. With the flag of package
// reaper it is a reaper instead.
func Main() {
	if len(os.Args) == 2 && os.Args[1] == reaper.Flag {
		reaper.Main()
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd-child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve() error {
	debug.SetGCPercent(40) // the heap is small, and there is one for each session
	kind, err := unix.GetsockoptInt(wire.SocketFD, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		return fmt.Errorf("this is a part of sandboxd and is started by it")
	}
	unix.CloseOnExec(wire.SocketFD)
	given := groupsFromEnv()
	// No process of the same uid may read or write this one: the init process of every
	// call shares its memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the launcher undumpable: %w", err)
	}
	// These signals are received and dropped. If they were ignored, every program would
	// inherit that.
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGHUP)
	s, r, err := start(given)
	if err != nil {
		_ = s.send(wire.Message{For: r.ID, Error: "build the root of the session: " + err.Error()})
		return nil // the daemon has the reason, or is gone
	}
	s.answer(r, nil)
	return s.loop()
}

// start reads the template and the first request, and builds the root.
func start(given groups) (s *server, first wire.Request, err error) {
	s = &server{
		groups: given, covered: map[string]uint64{}, kept: map[uint64]bool{},
		pinned: map[string]uint64{}, calls: map[uint64]*running{},
		body: make([]byte, wire.MaxMessage), oob: make([]byte, unix.CmsgSpace(4*(1+bound.MaxFiles))),
	}
	root := os.Getenv(wire.RootEnv)
	var early error // reported when the template has come
	if root != "" {
		early = foundation(root)
	}
	// The first use of a type takes long, and nobody waits yet.
	for _, v := range []any{&s.t, &first} {
		_ = json.Unmarshal([]byte("{}"), v)
	}
	_, _ = json.Marshal(wire.Message{Slot: &wire.Slot{}, Reply: &wire.Reply{}})
	for _, v := range []any{&s.t, &first} {
		body, files, err := s.receive()
		closeAll(files) // none is expected
		if err == nil {
			err = json.Unmarshal(body, v)
		}
		if err != nil {
			return s, first, fmt.Errorf("read the template: %w", err)
		}
	}
	if early != nil {
		return s, first, early
	}
	if u := s.t.User; u != nil && !u.Valid() { // setresuid would leave the launcher's
		return s, first, fmt.Errorf("no program can have uid %d and gid %d", u.UID, u.GID)
	}
	s.abi = landlockABI()
	s.spares.wanted = 1
	if s.listeners, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return s, first, fmt.Errorf("make a socket for listeners: %w", err)
	}
	s.lastCap = lastCap()
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // as the kernel answers: 20 less the priority
	if err != nil {
		return s, first, fmt.Errorf("read the priority of the launcher: %w", err)
	}
	s.nice = min(20-own+wire.Nice, 19)
	if s.t.NoNamespaces {
		return s, first, s.startWithoutNamespaces()
	}
	if s.t.Network {
		if err := s.startNetwork(root + "/proc"); err != nil {
			return s, first, err
		}
	}
	if err := build(s.t, root); err != nil {
		return s, first, err
	}
	s.rules = rules(s.t)
	s.watched = watchList(s.t)
	s.privileged = true
	s.procMasks = secretsOfProc()
	if s.t.Profile != wire.ProfileStrict { // a strict call has a /proc of its own
		for _, p := range s.procMasks {
			if err := mount(maskDir+"/file", p, "", unix.MS_BIND, ""); err != nil {
				return s, first, err
			}
		}
	}
	return s, first, nil
}

// secretsOfProc returns the files of /proc about the machine's memory, its keys and its
// other users, as far as this uid can read them. The uid of the host's root can read most.
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
	return 63 // too many is an error, so the call is refused; too few would leave capabilities
}
