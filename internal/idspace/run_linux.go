package idspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/identity"
)

// IDs are those that the namespace has beside the ids of this process.
type IDs struct {
	UIDs, GIDs []int
}

// insideEnv names the descriptor of the inner process that leads to the outer one.
const insideEnv = "IDSPACE_FD"

// maxExtents is how many ranges of ids the kernel takes.
const maxExtents = 340

// Wanted reports whether this process could become any user and must not stay as it is.
func Wanted() bool { return os.Getenv(insideEnv) == "" && os.Geteuid() != 0 && identity.Takes() }

// inner are the capabilities of the inner process. They hold for the ids of its namespace.
var inner = []uintptr{
	unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
}

// Run starts this program again inside, with the same words, streams and inherited sockets,
// and returns when it has ended. The error is an [Ended] if it failed. An inner process that
// ends with [Again] is followed by another one, for the ids of a namespace cannot change. Ids
// says which ones each has.
func Run(ids func() (IDs, error)) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	inherited := inheritedFiles()
	runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer signal.Stop(signals)
	for {
		now, err := ids()
		if err != nil {
			return err
		}
		stop, err := once(exe, inherited, now, signals)
		if ended, ok := errors.AsType[Ended](err); !ok || ended != Again {
			return err
		}
		if stop {
			return nil
		}
	}
}

// once runs one inner process. It hands signals on, and says whether one of them asked for the
// end.
func once(exe string, inherited []*os.File, ids IDs, signals <-chan os.Signal) (stop bool, err error) {
	uids, gids, err := ids.all()
	if err != nil {
		return false, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("make a socket for the inner process: %w", err)
	}
	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "outer")
	cmd := &exec.Cmd{
		Path: exe, Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env:        append(os.Environ(), insideEnv+"="+strconv.Itoa(3+len(inherited))),
		ExtraFiles: append(slices.Clone(inherited), theirs),
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, AmbientCaps: inner, Pdeathsig: unix.SIGKILL,
			Setpgid:     true, // a terminal sends its signals to this process alone, which hands them on
			UidMappings: uids, GidMappings: gids, GidMappingsEnableSetgroups: true,
		},
	}
	// Nobody with the same uid may read this process, the inner one least of all. While the
	// inner one starts, this process stays readable: it must write the id map.
	err = setDumpable(1)
	if err == nil {
		err = cmd.Start()
	}
	theirs.Close()
	if err != nil {
		unix.Close(ours)
		return false, fmt.Errorf("go into a user namespace with the ids of the accounts: %w", err)
	}
	if err := setDumpable(0); err != nil {
		return false, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	go func() {
		answer(ours)
		unix.Close(ours)
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			stop = stop || s != unix.SIGHUP
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok { // it has said why
				return stop, Ended(max(exit.ExitCode(), 1))
			}
			return stop, err
		}
	}
}

// setDumpable sets whether other processes with this uid may read this process: 1 allows it, 0 forbids it.
func setDumpable(value uintptr) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, value, 0, 0, 0); err != nil {
		return fmt.Errorf("set whether others may read this process: %w", err)
	}
	return nil
}

// Ended is the exit status of the inner process, which has said why.
type Ended int

// Again is how an inner process ends that is to be followed by another one.
const Again Ended = 75

func (e Ended) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Valid returns an error if no namespace can have these ids.
func (ids IDs) Valid() error {
	_, _, err := ids.all()
	return err
}

// all returns the mappings of the namespace: every id has the same number inside.
func (ids IDs) all() (uids, gids []syscall.SysProcIDMap, err error) {
	groups, err := identity.Groups()
	if err != nil {
		return nil, nil, err
	}
	for _, l := range []struct {
		what string
		list []int
		into *[]syscall.SysProcIDMap
	}{
		{"uid", append([]int{os.Geteuid()}, ids.UIDs...), &uids},
		{"gid", slices.Concat([]int{os.Getegid()}, groups, ids.GIDs), &gids},
	} {
		slices.Sort(l.list)
		for _, id := range slices.Compact(l.list) {
			if id == 0 && l.what == "uid" {
				return nil, nil, errors.New("accounts names root: a daemon that is not root cannot take its rights")
			}
			if id > 0 { // the group of root would open what only root may read
				*l.into = append(*l.into, syscall.SysProcIDMap{ContainerID: id, HostID: id, Size: 1})
			}
		}
		if n := len(*l.into); n > maxExtents {
			return nil, nil, fmt.Errorf("the accounts have %d %ss, and the kernel takes %d", n, l.what, maxExtents)
		}
	}
	return uids, gids, nil
}

// inheritedFiles returns the sockets that a service manager gave this process.
func inheritedFiles() []*os.File {
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil
	}
	var all []*os.File
	for i := range n {
		all = append(all, os.NewFile(uintptr(3+i), "inherited"))
	}
	return all
}
