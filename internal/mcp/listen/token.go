package listen

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// A token has the form that RFC 6750 allows in a header. A shorter one could be guessed.
var token = lazyregexp.New(`^([A-Za-z0-9._~+/-]+)=*$`)

const (
	minToken, maxToken = 32, 1000 // as a part of the expression they would slow each start of the program
	maxFile            = 2 << 10
)

// readToken returns the token in a file, and the uid that owns the file.
func readToken(path string) (text string, uid int, err error) {
	// A link could lead to a file of another user, and a pipe would not answer: both are refused.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", 0, unusable(fmt.Sprintf("mcp.tokenFile: %v", err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, unusable(fmt.Sprintf("mcp.tokenFile: %v", err))
	}
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", 0, unusable(fmt.Sprintf("mcp.tokenFile: %s is not a regular file", path))
	case info.Mode().Perm()&0o077 != 0:
		mode := info.Mode().Perm()
		return "", 0, unusable(fmt.Sprintf("mcp.tokenFile: others can read or write %s (mode %04o)", path, mode))
	case st.Nlink > 1:
		return "", 0, unusable(fmt.Sprintf("mcp.tokenFile: %s has another name, which could be somebody else's", path))
	}
	all, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", 0, unusable(fmt.Sprintf("mcp.tokenFile: %v", err))
	}
	line := string(all)
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if m := token().FindStringSubmatch(line); m == nil || len(m[1]) < minToken || len(m[1]) > maxToken {
		return "", 0, unusable(fmt.Sprintf(
			"mcp.tokenFile: %s is not one line of %d to %d of the characters A-Z a-z 0-9 - . _ ~ + / =",
			path, minToken, maxToken))
	}
	return line, int(st.Uid), nil
}

func unusable(msg string) error {
	return route.Error{Status: 503, Said: &tool.Error{
		Code: "token_file_unusable", Msg: msg,
		Hint: "the user whose clients these are makes it: (umask 077; openssl rand -hex 32 > FILE)",
	}}
}

// ofUser returns a user with the groups that it has in the user database, or that this process has.
func ofUser(uid int) (route.Caller, error) {
	me := route.Caller{Role: tool.RoleAgent, UID: uid}
	if uid == os.Geteuid() {
		var err error
		me.GID = os.Getegid()
		me.Groups, err = os.Getgroups()
		return me, err
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return me, unusable(fmt.Sprintf("mcp.tokenFile belongs to uid %d: %v", uid, err))
	}
	ids, err := u.GroupIds()
	if err != nil {
		return me, unusable(fmt.Sprintf("mcp.tokenFile belongs to %s: %v", u.Username, err))
	}
	if me.GID, err = strconv.Atoi(u.Gid); err != nil {
		return me, unusable(fmt.Sprintf("mcp.tokenFile belongs to %s: %v", u.Username, err))
	}
	for _, id := range ids {
		gid, err := strconv.Atoi(id)
		if err != nil {
			return me, unusable(fmt.Sprintf("mcp.tokenFile belongs to %s: %v", u.Username, err))
		}
		me.Groups = append(me.Groups, gid)
	}
	slices.Sort(me.Groups)
	return me, nil
}
