package guard

import (
	"os"
	"slices"

	"github.com/sandboxd/sandboxd/shellparse"
)

// Act is what a command of the script does to a service, by a file of statements that it reads.
type Act struct {
	Command int // its place in Script.Commands
	shellparse.Act
}

const (
	maxFed      = 16      // files of statements that one command is followed into, included ones too
	maxFedBytes = 4 << 20 // bytes of one
)

// feeds reads the files of statements that a command is given. One that is too large to be read may destroy anything.
func (r *Rules) feeds(u *Uses, i int, feeds []shellparse.Feed, dir string, git *tracker, left *int) {
	for _, f := range feeds {
		use := r.fileUse(f.File, dir, git.names)
		if *left--; *left < 0 || use.Path == "" || use.Glob || git.names.hides(use.Path) {
			continue
		}
		if info, err := os.Stat(use.Path); err == nil && info.Mode().IsRegular() && info.Size() > maxFedBytes {
			r.acts(u, i, []shellparse.Act{unread(u.Script.Commands[i].Name, f.Path, "that are too long to be read")})
			continue
		}
		text, err := git.read(use.Path, maxFedBytes)
		if err != nil {
			// Nothing is there, or only a program of the line makes it.
			if f.Destroys {
				r.acts(u, i, []shellparse.Act{unread(u.Script.Commands[i].Name, f.Path, "that are not there yet")})
			}
			continue
		}
		acts, more := f.Of(string(text))
		r.acts(u, i, acts)
		r.feeds(u, i, more, dir, git, left)
	}
}

// acts adds those that are not there.
func (r *Rules) acts(u *Uses, i int, acts []shellparse.Act) {
	for _, a := range acts {
		if act := (Act{i, a}); !slices.Contains(u.Acts, act) {
			u.Acts = append(u.Acts, act)
		}
	}
}

func unread(program, path, why string) shellparse.Act {
	return shellparse.Act{Program: program, Verb: "statements " + why, Target: path, Does: shellparse.Destroys}
}
