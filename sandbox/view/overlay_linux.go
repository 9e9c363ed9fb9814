package view

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// lower returns the host's caches that those of a session lie over. Compiling the standard
// library again takes a minute, and without a network no crate can be fetched again.
func (v *View) lower() map[string]string {
	out := map[string]string{}
	for _, cache := range []struct{ place, variable, inHome string }{
		{wire.GoCache, "GOCACHE", ".cache/go-build"},
		{wire.CargoHome, "CARGO_HOME", ".cargo"},
	} {
		dir := ""
		for _, e := range v.env {
			if value, ok := strings.CutPrefix(e, cache.variable+"="); ok {
				dir = value
			}
		}
		if dir == "" && v.options.Home != "" {
			dir = filepath.Join(v.options.Home, cache.inHome)
		}
		if dir = v.sharable(dir); dir != "" {
			out[cache.place] = dir
		}
	}
	return out
}

// sharable returns the physical path of a directory if programs may read all of it and
// write nothing in it, else "".
func (v *View) sharable(dir string) string {
	dir = physical(dir)
	if info, err := os.Stat(dir); dir == "" || err != nil || !info.IsDir() || strings.ContainsAny(dir, `:,\"`) {
		return ""
	}
	if v.rules.Check(guard.Uses{Paths: []guard.PathUse{{Path: dir, Op: guard.Read, Recursive: true}}}) != nil {
		return ""
	}
	for _, p := range v.options.Private {
		if guard.Within(dir, p) || guard.Within(p, dir) {
			return ""
		}
	}
	// A session must not compile from what another one can write.
	if len(v.settings.AllowedWritePaths) == 0 {
		return ""
	}
	for _, w := range bound(v.settings.AllowedWritePaths) {
		if guard.Within(dir, w) || guard.Within(w, dir) {
			return ""
		}
	}
	return dir
}

// overDir returns the directory for what the programs of one launcher write over the
// caches. Each template has its own: two mounts must not share one.
func overDir(session string, t wire.Template) (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return filepath.Join(session, "over", hex.EncodeToString(sum[:8])), nil
}

// MakeOver makes the directories below wire.Template.Over.
func MakeOver(over string) error {
	for _, place := range wire.Overlaid {
		upper, work := wire.OverDirs(over, place)
		for _, dir := range []string{upper, work} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return fmt.Errorf("make a cache of a session: %w", err)
			}
		}
	}
	return nil
}
