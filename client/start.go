package client

import (
	"os"
	"path/filepath"
)

// userUnits is where the unit of a person's daemon may be, by the directory that it is in.
var userUnits = []string{
	"/usr/lib/systemd/user", "/usr/local/lib/systemd/user", "/etc/systemd/user",
	"~/.local/share/systemd/user", "~/.config/systemd/user",
}

// StartHint is the command that starts a daemon for this user: the user service where one is
// installed and a service manager runs for the user, else the program itself.
func StartHint() string {
	if manager := os.Getenv("XDG_RUNTIME_DIR"); manager != "" && exists(filepath.Join(manager, "systemd/private")) {
		for _, dir := range userUnits {
			if below, ok := inHome(dir); ok && exists(filepath.Join(below, "sandboxd.service")) {
				return "start it with: systemctl --user start sandboxd"
			}
		}
	}
	return "start one with: sandboxd serve"
}

// inHome is a directory whose ~ is replaced.
func inHome(dir string) (string, bool) {
	if dir[0] != '~' {
		return dir, true
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, dir[1:]), err == nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
