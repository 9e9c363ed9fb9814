package sessions

import (
	"fmt"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// What a session may hold of its client's words, in bytes.
const (
	maxTitle    = 1 << 10
	maxTag      = 256
	maxMetadata = 64 << 10
)

// checkBounds refuses a change that makes a field too large. A field that was too large before may stay, because older
// daemons had no bounds.
func checkBounds(old, sess tool.Session) error {
	for _, f := range []struct {
		name, old, now string
		most           int
	}{{"title", old.Title, sess.Title, maxTitle}, {"tag", old.Tag, sess.Tag, maxTag}} {
		if f.now == f.old {
			continue
		}
		if len(f.now) > f.most || !utf8.ValidString(f.now) {
			return &tool.Error{
				Code: "validation_error", Msg: fmt.Sprintf("%s has %d bytes, %d at most", f.name, len(f.now), f.most),
				Hint: "keep longer text in the metadata or in a variable",
			}
		}
	}
	if n := len(sess.Metadata); n > maxMetadata && string(old.Metadata) != string(sess.Metadata) {
		return &tool.Error{
			Code: "too_large", Msg: fmt.Sprintf("metadata has %d bytes, %d at most", n, maxMetadata),
			Hint: "keep large values in variables of the session",
		}
	}
	return nil
}

// sizeOf estimates the memory that a session takes.
func sizeOf(s tool.Session) int {
	n := 1000 + len(s.Title) + len(s.Tag) + len(s.Dir) + len(s.Begun) + len(s.Tree) + len(s.Home) + len(s.Metadata)
	for _, name := range s.Found {
		n += len(name) + 16
	}
	if x := s.Sandbox; x != nil { // written by operators; each list repeats the daemon's
		n += 100 * (len(x.AllowedReadPaths) + len(x.AllowedWritePaths) + len(x.DeniedPaths) + len(x.DeniedCommands) +
			len(x.AllowedCommands))
	}
	return n + 50*(len(s.Groups)+len(s.Tools))
}
