package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

// versionLike is what the directory of a version is called.
var versionLike = lazyregexp.New(`^[0-9]+\.[0-9]+\.[0-9]+`)

// Installed returns the version of the client whose program has this path, or "". It is read from the package around
// the program, or is the name of a directory or file above it; nothing is run.
func (c Client) Installed(program string) string {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return ""
	}
	for dir := real; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if base := filepath.Base(dir); versionLike().MatchString(base) {
			return base
		}
		text, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err != nil {
			continue
		}
		var p struct{ Name, Version string }
		if json.Unmarshal(text, &p) == nil && p.Name == c.Package {
			return p.Version
		}
	}
	return ""
}

// Newer reports whether a version comes after the one of the table. A version that cannot be
// compared is newer.
func (c Client) Newer(version string) bool {
	a, okA := numbers(version)
	b, okB := numbers(c.Version)
	if !okA || !okB {
		return version != c.Version
	}
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return false
}

func numbers(version string) (out [3]int, ok bool) {
	plain, _, _ := strings.Cut(version, "-")
	parts := strings.Split(plain, ".")
	if len(parts) != len(out) {
		return out, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return out, false
		}
		out[i] = n
	}
	return out, true
}
