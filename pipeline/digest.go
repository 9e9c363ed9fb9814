package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// digest hashes everything that an approval binds: the caller, the call and its rights, the paths and
// hosts that it would touch, the rules, and the content of the files that it names or executes. It
// fills Binding and Digest.
func (p *Pipeline) digest(ctx context.Context, c *tool.Call) error {
	c.Digest = ""
	if err := p.bind(ctx, c); err != nil {
		return err
	}
	defer budget.Of(ctx).Compute(ctx)() // arguments may have megabytes
	args, err := strictjson.Canonical(c.In.Args)
	if err != nil {
		return err
	}
	b, err := json.Marshal(struct {
		Session, Tool, Dir, Mode, Profile, Policy string
		RunsAs                                    string
		Made                                      time.Time // of the session, whose id may be used again
		Args                                      json.RawMessage
		Facts                                     tool.Facts
		Settings                                  guard.Settings
		Binding                                   tool.Binding
	}{
		c.Session.ID, c.Spec.Name, c.Session.Dir, string(c.Session.Mode), string(c.Session.Profile),
		c.Decision.Revision, c.Request.RunsAs, c.Session.Created,
		args, c.Facts, c.Settings, c.Binding,
	})
	if err != nil {
		return fmt.Errorf("digest of the call: %w", err)
	}
	sum := sha256.Sum256(b)
	c.Digest = hex.EncodeToString(sum[:])
	return nil
}

const notAFile = "not a file"

// content describes the content of a file for a digest.
type content struct {
	sum  string // or why there is none; if that changes, the digest differs
	ok   bool   // sum is one
	size int64
	head []byte
}

// contentOf reads a file. One that cannot be opened counts as absent.
func contentOf(ctx context.Context, box sandbox.Box, path string) content {
	f, err := box.Open(ctx, guard.PathUse{Raw: path, Path: path, Op: guard.Read}, unix.O_RDONLY)
	if err != nil {
		return content{sum: tool.Absent}
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return content{sum: tool.Absent}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return content{sum: notAFile}
	}
	if st.Size > sandbox.MaxBound {
		// Its inode, size and times stand for the content.
		return content{
			sum:  fmt.Sprintf("inode %d, %d bytes, changed %d.%d", st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec),
			size: st.Size,
		}
	}
	head := make([]byte, min(st.Size, sandbox.HeadSize))
	n, _ := f.ReadAt(head, 0)
	h := sha256.New()
	size, err := io.Copy(h, io.LimitReader(f, sandbox.MaxBound+1))
	if err != nil {
		return content{sum: "unreadable"}
	}
	return content{sum: hex.EncodeToString(h.Sum(nil)), ok: size <= sandbox.MaxBound, size: size, head: head[:n]}
}
