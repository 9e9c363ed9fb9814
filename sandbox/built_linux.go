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

// built is the host's Go build cache where programs may read all of it and write
// none of it, else "". Compiling the standard library anew takes a minute.
func (c *cage) built(s Settings) string {
	dir := os.Getenv("GOCACHE")
	if dir == "" && c.opts.Home != "" {
		dir = filepath.Join(c.opts.Home, ".cache", "go-build")
	}
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

// builtOver is the place for what the programs of one launcher write over it: two
// mounts must not share one.
func builtOver(session string, t child.Template) (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return filepath.Join(session, "go", hex.EncodeToString(sum[:8])), nil
}

func makeBuilt(over string) error {
	for _, name := range []string{"upper", "work"} {
		if err := os.MkdirAll(filepath.Join(over, name), 0o700); err != nil {
			return fmt.Errorf("make the build cache of a session: %w", err)
		}
	}
	return nil
}
