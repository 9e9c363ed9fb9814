package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

// maxDigestFile bounds how much of one file is read for a digest; of a larger
// file its inode, size and times stand for the content.
const maxDigestFile = 8 << 20

// digest covers everything an approval binds: who asks, what runs, what it would
// touch, under which rules, and the content of the files it names.
func (p *Pipeline) digest(ctx context.Context, c *tool.Call) (string, error) {
	args, err := tool.Canonical(c.In.Args)
	if err != nil {
		return "", err
	}
	files, err := p.contents(ctx, c)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(struct {
		Session, Tool, Dir, Mode, Profile, Policy string
		Args                                      json.RawMessage
		Facts                                     tool.Facts
		Settings                                  sandbox.Settings
		Files                                     map[string]string
	}{
		c.Session.ID, c.Spec.Name, c.Session.Dir, c.Session.Mode, c.Session.Profile, c.Decision.Revision,
		args, c.Facts, c.Settings, files,
	})
	if err != nil {
		return "", fmt.Errorf("digest of the call: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// contents hashes every file that the call names or executes. A file that cannot
// be opened counts as absent: if it can be later, the digest differs.
func (p *Pipeline) contents(ctx context.Context, c *tool.Call) (map[string]string, error) {
	paths := named(c.Facts.Uses, c.In)
	if len(paths) == 0 {
		return nil, nil
	}
	box, err := p.box(ctx, c)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	sums := map[string]string{}
	for _, path := range paths {
		sums[path] = fileSum(ctx, box, path)
	}
	return sums, nil
}

func named(u sandbox.Uses, in tool.In) []string {
	var paths []string
	for _, use := range u.Paths {
		if use.Path != "" {
			paths = append(paths, use.Path)
		}
	}
	if u.Script == nil {
		return paths
	}
	for _, cmd := range u.Script.Commands {
		if !strings.Contains(cmd.Path, "/") {
			continue
		}
		dir := cmd.Dir
		if dir == "" {
			dir = in.Dir
		}
		if path, err := sandbox.Resolve(cmd.Path, dir, in.Home); err == nil {
			paths = append(paths, filepath.Clean(path))
		}
	}
	return paths
}

func fileSum(ctx context.Context, box sandbox.Box, path string) string {
	f, err := box.Open(ctx, sandbox.PathUse{Raw: path, Path: path, Op: sandbox.Read}, unix.O_RDONLY)
	if err != nil {
		return "absent"
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "absent"
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "not a file"
	}
	if st.Size > maxDigestFile {
		return fmt.Sprintf("inode %d, %d bytes, changed %d.%d", st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxDigestFile+1)); err != nil {
		return "unreadable"
	}
	return hex.EncodeToString(h.Sum(nil))
}
