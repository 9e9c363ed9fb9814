package guard

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// homeSecrets are the places below a home directory where credentials, keys and
// private records live.
var homeSecrets = []string{
	".ssh", ".gnupg", ".aws", ".config/gcloud", ".azure", ".kube", ".docker", ".netrc",
	".git-credentials", ".config/gh", ".config/sandboxd", ".local/share/sandboxd", ".local/state/sandboxd",
	".bash_history", ".zsh_history", ".history", ".python_history", ".node_repl_history", ".psql_history",
	".mysql_history", ".sqlite_history", ".lesshst", ".local/share/fish/fish_history",
	".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/opera", ".config/vivaldi", ".thunderbird",
	".pgpass", ".password-store", ".local/share/keyrings",
}

var systemSecrets = []string{"/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sandboxd"}

// streams are the caller's own output, which may always be written.
var streams = []string{"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"}

// DefaultSettings returns the settings of a daemon without a configuration: programs write in the workspace and the
// private /tmp, read the system except secrets, and have no network but the loopback inside the cage. private are
// the daemon's own directories.
func DefaultSettings(workspace, home string, private []string, callers ...int) Settings {
	denied := slices.Clone(systemSecrets)
	denied = append(denied, private...)
	own := callersHomes(home)
	denied = append(denied, deniedInHomes(workspace, own, otherHomes(own, accounts()), callers)...)
	slices.Sort(denied)
	return Settings{
		AllowedWritePaths: append([]string{workspace, "/tmp"}, streams...),
		DeniedPaths:       slices.Compact(denied),
		Network:           Network{AllowedDomains: []string{}, Unlisted: UnlistedDeny},
		Limits:            DefaultLimits,

		AutoAllowBashIfSandboxed: true,
	}
}

// deniedInHomes returns the secrets in the own homes, and the homes of others. If the workspace lies in the home of
// another user, the operator has sent the daemon there: then only the secrets of that home are denied.
func deniedInHomes(workspace string, own, others []string, callers []int) []string {
	var denied []string
	worked := slices.Clone(own)
	ofCaller := func(home string) bool {
		return slices.ContainsFunc(accounts(), func(a account) bool {
			return a.home == home && slices.Contains(callers, a.uid)
		})
	}
	for _, h := range others {
		if Within(workspace, h) || ofCaller(h) {
			worked = append(worked, h)
		} else {
			denied = append(denied, h)
		}
	}
	for _, h := range worked {
		for _, secret := range homeSecrets {
			denied = append(denied, filepath.Join(h, secret))
		}
	}
	return denied
}

// Homes returns the known home directories of users. That of the caller is the first.
func Homes(home string) []string {
	own := callersHomes(home)
	return append(own, otherHomes(own, accounts())...)
}

// callersHomes returns $HOME and the home in the user database, because a changed HOME must not uncover the keys of
// the account.
func callersHomes(home string) []string {
	var homes []string
	if filepath.IsAbs(home) {
		homes = append(homes, filepath.Clean(home))
	}
	for _, a := range accounts() {
		if a.uid == os.Getuid() && !slices.Contains(homes, a.home) {
			homes = append(homes, a.home)
		}
	}
	return homes
}

func otherHomes(own []string, all []account) []string {
	found := []string{"/root"}
	for _, a := range all {
		// System accounts have homes such as /bin or /. Those hold no secrets, and to deny them would hide the
		// system.
		if a.uid >= 1000 && strings.Count(a.home, "/") >= 2 {
			found = append(found, a.home)
		}
	}
	entries, _ := os.ReadDir("/home")
	for _, e := range entries {
		found = append(found, filepath.Join("/home", e.Name()))
	}
	var others []string
	for _, h := range found {
		mine := slices.ContainsFunc(own, func(o string) bool { return Within(o, h) })
		if !mine && !slices.Contains(others, h) && h != "/nonexistent" {
			others = append(others, h)
		}
	}
	return others
}

type account struct {
	uid  int
	home string
}

func accounts() []account {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []account
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Split(sc.Text(), ":")
		if len(fields) < 7 {
			continue
		}
		uid, err := strconv.Atoi(fields[2])
		if err == nil && filepath.IsAbs(fields[5]) {
			out = append(out, account{uid, filepath.Clean(fields[5])})
		}
	}
	return out
}
