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
	s, r, err := start(given)
	if err != nil {
		_ = s.send(Message{For: r.ID, Error: "build the root of the session: " + err.Error()})
		return nil // the daemon has the reason, or is gone
	}
	s.offer(r)
	return s.loop()
}

// start reads the template and the first request, and builds the root.
func start(given groups) (s *server, first Request, err error) {
	s = &server{groups: given, covered: map[string]uint64{}, pinned: map[string]uint64{}, calls: map[uint64]*running{}, body: make([]byte, maxMessage), oob: make([]byte, unix.CmsgSpace(4*4))}
	root := os.Getenv(RootEnv)
	var early error // told when somebody listens
	if root != "" {
		early = foundation(root)
	}
	// The first time of a type takes long, and nobody waits yet.
	for _, v := range []any{&s.t, &first} {
		_ = json.Unmarshal([]byte("{}"), v)
	}
	_, _ = json.Marshal(Message{Door: &Door{}, Reply: &Reply{}})
	for _, v := range []any{&s.t, &first} {
		body, err := s.receive()
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
	s.abi = landlockABI()
	s.spares.want = 1
	if s.ears, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return s, first, fmt.Errorf("make a socket for listeners: %w", err)
	}
	s.lastCap = lastCap()
	if s.t.Bare {
		return s, first, s.startBare()
	}
	if err := build(s.t, root); err != nil {
		return s, first, err
	}
	s.rules = rules(s.t)
	s.watched = watchList(s.t)
	s.privileged = true
	s.procMasks = secretsOfProc()
	if s.t.Profile != "strict" { // which has a /proc of its own in every call
		for _, p := range s.procMasks {
			if err := mount(maskDir+"/file", p, "", unix.MS_BIND, ""); err != nil {
				return s, first, err
			}
		}
	}
	return s, first, nil
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
