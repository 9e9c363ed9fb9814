package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// lower are the host's caches that those of a session lie over: compiling the standard
// library anew takes a minute, and without a network no crate can be fetched again.
func (c *cage) lower(s Settings) map[string]string {
	out := map[string]string{}
	for _, cache := range []struct{ place, variable, inHome string }{
		{child.GoCache, "GOCACHE", ".cache/go-build"},
		{child.CargoHome, "CARGO_HOME", ".cargo"},
	} {
		dir := os.Getenv(cache.variable)
		if dir == "" && c.opts.Home != "" {
			dir = filepath.Join(c.opts.Home, cache.inHome)
		}
		if dir = c.usable(dir, s); dir != "" {
			out[cache.place] = dir
		}
	}
	return out
}

// usable is the physical name of a directory of which programs may read all and write
// none, else "".
func (c *cage) usable(dir string, s Settings) string {
	dir = physical(dir)
	if info, err := os.Stat(dir); dir == "" || err != nil || !info.IsDir() || strings.ContainsAny(dir, `:,\"`) {
		return ""
	}
	if NewRules(s).Check(Uses{Paths: []PathUse{{Path: dir, Op: Read, Recursive: true}}}) != nil {
		return ""
	}
	for _, p := range c.opts.Private {
		if Within(dir, p) || Within(p, dir) {
			return ""
		}
	}
	// What a session can write, another one must not compile from.
	if len(s.AllowedWritePaths) == 0 {
		return ""
	}
	for _, w := range bound(s.AllowedWritePaths) {
		if Within(dir, w) || Within(w, dir) {
			return ""
		}
	}
	return dir
}

// overOf is the place for what the programs of one launcher write over those: two
// mounts must not share one.
func overOf(session string, t child.Template) (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return filepath.Join(session, "over", hex.EncodeToString(sum[:8])), nil
}

func makeOver(over string) error {
	for _, place := range child.Overlaid {
		upper, work := child.OverDirs(over, place)
		for _, dir := range []string{upper, work} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return fmt.Errorf("make a cache of a session: %w", err)
			}
		}
	}
	return nil
}
