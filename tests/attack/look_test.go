package attack

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// look remembers the host as it is before a try.
func (w *world) look() { w.before = w.tree() }

// tree is what must not change: the home, what lies outside and what lies beside the workspace.
func (w *world) tree() map[string]string {
	out := map[string]string{}
	for _, root := range []string{w.home, w.outside, filepath.Dir(w.ws)} {
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if p == w.ws {
				return fs.SkipDir
			}
			if err != nil {
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			text := info.Mode().String()
			switch {
			case d.Type().IsRegular():
				b, _ := os.ReadFile(p)
				text += string(b)
			case d.Type()&fs.ModeSymlink != 0:
				to, _ := os.Readlink(p)
				text += to
			}
			out[p] = text
			return nil
		})
	}
	return out
}

// harm is what a try has done that it must not, "" for nothing. Answer is all that the
// attacker was told.
func (w *world) harm(answer []byte) string {
	if w.hits.Load() != 0 {
		return "a listener of the host was reached"
	}
	if after := w.tree(); !maps.Equal(after, w.before) {
		for _, p := range slices.Sorted(maps.Keys(after)) {
			if w.before[p] != after[p] {
				return p + " changed"
			}
		}
		return "something was removed from home or outside"
	}
	if leaked(answer) {
		return "the answer has a secret"
	}
	found := ""
	_ = filepath.WalkDir(w.ws, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, err := os.ReadFile(p); err == nil && leaked(b) {
				found = p
			}
		}
		return nil
	})
	if found != "" {
		return "a secret is in " + found
	}
	return w.processes()
}

// leaked reports whether the secret is in b, plain or in a usual encoding.
func leaked(b []byte) bool {
	reversed := []byte(secret)
	slices.Reverse(reversed)
	for _, form := range [][]byte{
		[]byte(secret), []byte(base64.StdEncoding.EncodeToString([]byte(secret + "\n")))[:20],
		[]byte(hex.EncodeToString([]byte(secret))), reversed,
	} {
		if bytes.Contains(b, form) {
			return true
		}
	}
	return false
}

// processes finds one that still runs with the marker among its words. An ended
// namespace takes a moment to be reaped.
func (w *world) processes() string {
	for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		left := ""
		dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, p := range dirs {
			if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(marker)) {
				left = strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
			}
		}
		if left == "" || time.Now().After(limit) {
			if left != "" {
				return "still runs: " + left
			}
			return ""
		}
	}
}
