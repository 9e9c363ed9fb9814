package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/identity"
	"github.com/sandboxd/sandboxd/sandbox/limit"
)

// User is somebody with whose rights a [Box] opens files and runs programs. The zero value is
// nobody, for whom it does neither. Whether a file may be opened is for the kernel to say:
// nothing is looked up and compared before.
type User struct {
	known, own bool
	id         identity.ID
	name, home string // "": unknown
}

// Daemon returns the user of this process.
func Daemon() User { return User{known: true, own: true} }

// NewUser returns the user with these ids, as the kernel gave them for a process. name and home come from the user
// database. If this process may not take the rights of others, every user is the daemon: see [TakesRights].
func NewUser(uid, gid int, groups []int, name, home string) User {
	if uid == os.Geteuid() || !TakesRights() {
		return Daemon()
	}
	return User{known: true, id: identity.ID{UID: uid, GID: gid, Groups: groups}, name: name, home: home}
}

// TakesRights reports whether files are opened and programs are run with the rights of the
// calling user. If it is false, they have those of the daemon.
func TakesRights() bool { return identity.Takes() }

// Do runs f on one thread with the rights of the user to files. If they cannot be taken, f is
// not run.
func (u User) Do(f func() error) error {
	if !u.known {
		return &os.PathError{Op: "open", Path: "a file for nobody", Err: unix.EACCES}
	}
	if u.own {
		return f()
	}
	if err := u.Missing(); err != nil {
		return err
	}
	return u.id.Do(f)
}

// ID returns the ids with which programs of the user run. nil is those of this process.
func (u User) ID() *identity.ID {
	if u.own {
		return nil
	}
	return &u.id
}

// Rights names the rights that Do and programs of the user have. "" are those of the daemon.
// Equal texts are equal rights.
func (u User) Rights() string {
	switch {
	case u.own:
		return ""
	case !u.known:
		return "nobody"
	}
	return u.id.String()
}

// RightsOf is [User.Rights] for a process that runs programs itself. No setting of the daemon changes its rights.
func RightsOf(uid, gid int, groups []int) string {
	if uid == os.Geteuid() {
		return ""
	}
	return identity.ID{UID: uid, GID: gid, Groups: groups}.String()
}

// RightsError says that no process of the daemon can have the rights of a user.
type RightsError struct{ Why, Hint string }

func (e *RightsError) Error() string { return e.Why + "; " + e.Hint }

// Missing returns a [*RightsError] if no process here can have all ids of the user. A group counts
// as much as the uid: a mode such as 0604 denies its members what everybody else may.
func (u User) Missing() error {
	switch {
	case u.own:
		return nil
	case !u.id.Valid() || !identity.HasUID(u.id.UID) || !identity.HasGID(u.id.GID):
		return &RightsError{
			fmt.Sprintf("the daemon cannot take the rights of uid %d and gid %d", u.id.UID, u.id.GID),
			"name the uid in accounts, and reload the daemon when no call runs",
		}
	}
	for _, g := range u.id.Groups {
		if identity.HasGID(g) {
			continue
		}
		e := &RightsError{
			fmt.Sprintf("the daemon cannot take group %d of uid %d, and without it files could be open "+
				"that are closed to that group", g, u.id.UID),
			"reload the daemon when no call runs: it takes the groups that the database of users gives its " +
				"accounts; or call from a process without that group",
		}
		if g == 0 {
			e.Hint = "call from a process without that group: only a daemon that is root takes the group " +
				"of root"
		}
		return e
	}
	return nil
}

// LeaveGroup makes room in the control group of this process for those of a daemon that it
// starts.
func LeaveGroup() error { return limit.Leave() }

// key distinguishes users.
func (u User) key() string {
	if u.own {
		return ""
	}
	return fmt.Sprint(u.known, u.id, u.home)
}

// environ returns the variables of the daemon's environment that are the same for this user.
func (u User) environ(own []string) []string {
	if u.own {
		return own
	}
	out := slices.DeleteFunc(slices.Clone(own), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(ofTheDaemon, name)
	})
	if u.name != "" {
		out = append(out, "USER="+u.name, "LOGNAME="+u.name)
	}
	return out
}

// ofTheDaemon are variables that say something about the daemon's own user.
var ofTheDaemon = []string{"USER", "LOGNAME", "SHELL", "GOCACHE", "CARGO_HOME"}
