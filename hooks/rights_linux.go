package hooks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// giveRights lets a command run as a user, where that is not the daemon. It is an error if the daemon could
// not find the processes of that user again: their requests would be those of the user, not of the agent.
func giveRights(cmd *exec.Cmd, by tool.Identity) error {
	user := sandbox.NewUser(by.UID, by.GID, by.Groups, by.Name, by.Home)
	id := user.ID()
	if id == nil {
		return nil
	}
	if err := user.Missing(); err != nil {
		return err
	}
	if !finds() {
		return fmt.Errorf("the daemon could not watch a program of uid %d: it lacks CAP_SYS_PTRACE or CAP_KILL", id.UID)
	}
	as := &syscall.Credential{Uid: uint32(id.UID), Gid: uint32(id.GID)}
	for _, g := range id.Groups {
		as.Groups = append(as.Groups, uint32(g))
	}
	cmd.SysProcAttr.Credential = as
	cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == "HOME" || name == "USER" || name == "LOGNAME"
	})
	if by.Name != "" {
		cmd.Env = append(cmd.Env, "USER="+by.Name, "LOGNAME="+by.Name)
	}
	if by.Home != "" {
		cmd.Env = append(cmd.Env, "HOME="+by.Home)
	}
	return nil
}

// finds reports whether this process may read the marks of processes of other users, and end them.
func finds() bool {
	const needed = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_KILL
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[0].Effective&needed == needed
}

// noAmbient takes from this thread what its programs would keep of its capabilities with any uid.
func noAmbient() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) { // a kernel without them
		return nil
	}
	return os.NewSyscallError("prctl", err)
}
