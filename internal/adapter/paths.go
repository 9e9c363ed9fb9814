package adapter

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// namesFile reports whether an argument of one of our tools is a path, or a pattern of paths.
func namesFile(ours, arg string) bool {
	switch arg {
	case "file_path", "notebook_path", "path", "glob":
		return true
	}
	return arg == "pattern" && ours == "Glob"
}

// percent is a character as addresses write it.
var percent = lazyregexp.New(`%[0-9A-Fa-f]{2}`)

// plainPath reports why a client may open another file than the one that a path names. Clients
// trim paths as JavaScript does, compose their accents, and some decode them as addresses, take
// an @ away, or know no home directory. What they do changes with each version, so such a path
// is refused instead of guessed.
func plainPath(arg, path string) error {
	why, todo := "", ""
	switch {
	case strings.TrimFunc(path, blank) != path:
		why, todo = "begins or ends with white space", "leave the white space out"
	case !norm.NFC.IsNormalString(path):
		why, todo = "has letters in a decomposed form (it is not NFC)", "write it in NFC"
	case strings.HasPrefix(path, "~"):
		why, todo = "begins with ~", "write the path out from /, or put ./ in front of a name that begins with ~"
	case strings.HasPrefix(path, "@"):
		why, todo = "begins with @", "put ./ in front of a name that begins with @"
	case percent().MatchString(path):
		why, todo = "has a character in the form %XX", "write the character itself"
	default:
		return nil
	}
	return &tool.Error{
		Code: "path_ambiguous",
		Msg:  fmt.Sprintf("%s %.200q %s, and agents may open another file than that", arg, path, why),
		Hint: todo + "; a file that really has such a name can be reached with a shell command",
	}
}

// blank reports whether JavaScript, or another language, takes a character for white space.
func blank(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' || r == '\u180e' || r == '\u200b' }

// plainPaths holds all paths of a call to plainPath.
func (c ourCall) plainPaths(client string) error {
	for arg, value := range c.args {
		if !namesFile(c.tool, arg) {
			continue
		}
		path := textOf(value)
		if err := plainPath(arg, path); err != nil {
			return err
		}
		if client == clients.Gemini && c.tool == "Edit" && !filepath.IsAbs(path) {
			// It looks for a file of this name in the whole workspace, and changes that one.
			if _, err := os.Lstat(filepath.Join(c.dir, path)); err != nil {
				return &tool.Error{
					Code: "path_ambiguous", Msg: fmt.Sprintf("%s %.200q is not there, and the agent may take another "+
						"file of that name", arg, path), Hint: "write the path out from /",
				}
			}
		}
	}
	return nil
}
