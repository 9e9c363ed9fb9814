package hooks

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// giveRights lets a program run as a user, where that is not the daemon. It is an error if the daemon could
// not find and end the processes of that user again: their requests would be those of the user, not of the agent.
func (p *program) giveRights(by tool.Identity) error {
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
	p.user = id
	p.env = slices.DeleteFunc(p.env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == "HOME" || name == "USER" || name == "LOGNAME"
	})
	if by.Name != "" {
		p.env = append(p.env, "USER="+by.Name, "LOGNAME="+by.Name)
	}
	if by.Home != "" {
		p.env = append(p.env, "HOME="+by.Home)
	}
	return nil
}

// finds reports whether this process may see processes of other users, where /proc hides them, and end them.
func finds() bool {
	const needed = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_KILL
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[0].Effective&needed == needed
}
