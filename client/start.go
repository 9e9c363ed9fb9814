package client

import (
	"os"
	"path/filepath"
)

// userUnits lists the places where the systemd unit of a user's daemon may be.
var userUnits = []string{
	"/usr/lib/systemd/user", "/usr/local/lib/systemd/user", "/etc/systemd/user",
	"~/.local/share/systemd/user", "~/.config/systemd/user",
}

// StartHint returns the command that starts a daemon for this user: that of the user service if one is installed and
// the user's service manager runs, otherwise the program itself.
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

// inHome replaces the ~ of a directory. It returns false if there is no home directory.
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
