package sandbox

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// caches point the usual tools at the private writable place of the session:
// their usual ones lie in the home directory, which is read-only.
var caches = map[string]string{
	"GOCACHE":          child.GoCache,
	"CARGO_HOME":       child.CargoHome,
	"npm_config_cache": child.CacheDir + "/npm",
	"PIP_CACHE_DIR":    child.CacheDir + "/pip",
	"XDG_CACHE_HOME":   child.CacheDir + "/xdg",
	"TMPDIR":           "/tmp",
	"GOTOOLCHAIN":      "local", // no network, so no other toolchain either
}

// environment is the allow list of X-40 and CX-67: what a program needs to behave
// as in the caller's shell, and nothing that could be a secret. Later ones win:
// the caches, then the settings.
func environment(own []string, home string, s Settings) []string {
	vars := map[string]string{}
	for _, e := range own {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case name == "PATH":
			vars[name] = searchPath(value, s)
		case slices.Contains([]string{"USER", "LOGNAME", "LANG", "TERM", "TZ", "SHELL"}, name), strings.HasPrefix(name, "LC_"):
			vars[name] = value
		}
	}
	if vars["PATH"] == "" {
		vars["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	if home != "" {
		vars["HOME"] = home
	}
	for k, v := range caches {
		vars[k] = v
	}
	for k, v := range s.Env {
		vars[k] = v
	}
	out := make([]string, 0, len(vars))
	for k, v := range vars {
		if !strings.Contains(k+v, "\x00") {
			out = append(out, k+"="+v)
		}
	}
	slices.Sort(out)
	return out
}

// searchPath keeps the directories that exist, so that tools in unusual places are
// found, but none that the caged programs may write: who puts a git there would
// have it run by the next call.
func searchPath(path string, s Settings) string {
	var keep []string
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) || slices.Contains(keep, d) {
			continue
		}
		if info, err := os.Stat(d); err != nil || !info.IsDir() {
			continue
		}
		writable := func(root string) bool { return Within(filepath.Clean(d), root) }
		if slices.ContainsFunc(s.AllowedWritePaths, writable) || slices.ContainsFunc(s.DeniedPaths, writable) {
			continue
		}
		keep = append(keep, d)
	}
	return strings.Join(keep, ":")
}

// withEnv puts more over env.
func withEnv(env, more []string) []string {
	if len(more) == 0 {
		return env
	}
	last := map[string]string{}
	for _, e := range more {
		if name, _, ok := strings.Cut(e, "="); ok && name != "" {
			last[name] = e
		}
	}
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return last[name] != ""
	})
	return append(out, slices.Sorted(maps.Values(last))...)
}
