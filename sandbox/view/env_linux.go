package view

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// caches point the usual tools at the session's writable caches. Their usual ones lie in
// the home directory, which is read-only.
var caches = map[string]string{
	"GOCACHE":          wire.GoCache,
	"CARGO_HOME":       wire.CargoHome,
	"npm_config_cache": wire.CacheDir + "/npm",
	"PIP_CACHE_DIR":    wire.CacheDir + "/pip",
	"XDG_CACHE_HOME":   wire.CacheDir + "/xdg",
	"TMPDIR":           "/tmp",
	"GOTOOLCHAIN":      "local", // there is no network to fetch another toolchain
}

// trustVars lead tools that have authorities of their own to those of the session.
var trustVars = []string{
	"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
	"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
}

// environment keeps what a program needs to behave as in the caller's shell, and nothing
// that could be a secret (X-40, CX-67). The caches replace that, and the settings replace
// both.
func environment(own []string, home string, s guard.Settings) []string {
	kept := []string{"USER", "LOGNAME", "LANG", "TERM", "TZ", "SHELL"}
	vars := map[string]string{}
	for _, e := range own {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case name == "PATH":
			vars[name] = searchPath(value, s)
		case slices.Contains(kept, name), strings.HasPrefix(name, "LC_"):
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
	if len(s.Network.Intercept) > 0 {
		for _, name := range trustVars {
			vars[name] = wire.TrustFile
		}
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

// searchPath keeps the directories of PATH that exist, so that tools in unusual places are
// found. It drops those that programs may write: a program could put a git there, and the
// next call would run it.
func searchPath(path string, s guard.Settings) string {
	var keep []string
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) || slices.Contains(keep, d) {
			continue
		}
		if info, err := os.Stat(d); err != nil || !info.IsDir() {
			continue
		}
		writable := func(root string) bool { return guard.Within(filepath.Clean(d), root) }
		if slices.ContainsFunc(s.AllowedWritePaths, writable) || slices.ContainsFunc(s.DeniedPaths, writable) {
			continue
		}
		keep = append(keep, d)
	}
	return strings.Join(keep, ":")
}

// WithEnv returns env with the variables of more added or replaced.
func WithEnv(env, more []string) []string {
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
