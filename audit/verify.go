package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
)

// Report is what [Verify] found.
type Report struct {
	Lines       uint64 `json:"lines"`       // that are in order, from the first on
	Checkpoints int    `json:"checkpoints"` // among them, with a right signature
	Mirrored    uint64 `json:"mirrored"`    // newest line that the database knows
	Bad         *Bad   `json:"bad,omitempty"`
	TornBytes   int64  `json:"torn_bytes,omitempty"` // of a last line that a crash cut short
}

// Bad is the first line that is not what was written.
type Bad struct {
	Line   uint64 `json:"line"` // 1-based; the number the line has, or should have
	Reason string `json:"reason"`
}

// Verify reads the whole log and holds it against key and mirror. A log that was
// tampered with is a Report with Bad, not an error. It may run beside a daemon.
func Verify(ctx context.Context, o Options, m Mirror) (Report, error) {
	key, err := readKey(o.KeyFile)
	if err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	// The mirror first: what is written meanwhile only makes the file longer.
	seen, err := m.Load(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("verify audit log: read the mirror: %w", err)
	}
	v := verifier{seen: seen, public: public(key)}
	f, err := os.Open(o.Path())
	if errors.Is(err, os.ErrNotExist) {
		return v.run(ctx, bytes.NewReader(nil))
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	defer f.Close()
	return v.run(ctx, f)
}

// verifier walks along the chain.
type verifier struct {
	seen   Mirrored
	public ed25519.PublicKey

	at     position     // end of the last good line
	next   int          // first of seen.Checkpoints that is not passed yet
	newer  []Checkpoint // passed, and not in the mirror
	report Report
}

// skipToCheckpoint starts at the last mirrored checkpoint, so that opening a
// long log does not read all of it; Verify does.
func (v *verifier) skipToCheckpoint(f io.ReaderAt, size int64) {
	n := len(v.seen.Checkpoints)
	if n == 0 {
		return
	}
	c := v.seen.Checkpoints[n-1]
	end := make([]byte, hashSuffix)
	if c.End > size || c.End < int64(hashSuffix) {
		return // reading from the start names the line
	}
	if _, err := f.ReadAt(end, c.End-int64(hashSuffix)); err != nil || string(end) != hashKey+c.Hash+"\"}\n" {
		return
	}
	v.at, v.next = position{c.Seq, c.Hash, c.End}, n
}

func (v *verifier) run(ctx context.Context, r io.Reader) (Report, error) {
	if reason := v.checkMirror(); reason != "" {
		return v.bad(1, reason), nil
	}
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			v.report.TornBytes = int64(len(line))
			return v.finish(), nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return v.bad(v.at.seq+1, "it is longer than any line of the log"), nil
		}
		if err != nil {
			return Report{}, fmt.Errorf("read the audit log: %w", err)
		}
		if bad := v.line(line); bad != nil {
			return v.bad(bad.Line, bad.Reason), nil
		}
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
	}
}

// checkMirror notices rows that were written without the key.
func (v *verifier) checkMirror() string {
	if h := v.seen.Head; h.Seq > 0 && !signed(v.public, forHead, h.Seq, h.Hash, h.Signature) {
		return "the newest line in the database is not signed with this key: the database or the key was replaced"
	}
	for _, c := range v.seen.Checkpoints {
		if !signed(v.public, forCheckpoint, c.Seq, c.Hash, c.Signature) {
			return fmt.Sprintf("checkpoint %d in the database is not signed with this key: the database or the key was replaced", c.Seq)
		}
	}
	return ""
}

func (v *verifier) line(line []byte) *Bad {
	want := v.at.seq + 1
	e, err := decode(line)
	switch {
	case err != nil:
		return &Bad{want, err.Error()}
	case e.Seq > want:
		return &Bad{want, fmt.Sprintf("it is missing: line %d stands in its place", e.Seq)}
	case e.Seq < want:
		return &Bad{want, fmt.Sprintf("lines are out of order: line %d stands in its place", e.Seq)}
	case e.Prev != v.at.hash && v.at.seq > 0:
		return &Bad{v.at.seq, fmt.Sprintf("it was rewritten, or line %d was: the chain is broken between them", want)}
	case e.Prev != v.at.hash:
		return &Bad{want, "it was rewritten: nothing can stand before it"}
	case e.Event == eventCheckpoint && !signed(v.public, forCheckpoint, v.at.seq, v.at.hash, e.Signature):
		return &Bad{want, "the signature of this checkpoint is wrong: it, or lines since the last checkpoint, were rewritten"}
	}
	v.at = position{e.Seq, e.Hash, v.at.size + int64(len(line))}
	if reason := v.compare(); reason != "" {
		return &Bad{v.lastGood() + 1, reason}
	}
	if e.Event == eventCheckpoint {
		v.passed(e)
	}
	return nil
}

// compare holds a line against what the mirror says of it.
func (v *verifier) compare() string {
	if v.at.seq == v.seen.Head.Seq && v.at.hash != v.seen.Head.Hash {
		return fmt.Sprintf("lines up to %d were rewritten: the database has another hash for that line", v.at.seq)
	}
	if v.next < len(v.seen.Checkpoints) {
		if c := v.seen.Checkpoints[v.next]; c.Seq == v.at.seq && c.Hash != v.at.hash {
			return fmt.Sprintf("lines up to checkpoint %d were rewritten: the database has another hash for it", c.Seq)
		}
	}
	return ""
}

// lastGood is the last line that a mirrored checkpoint vouches for.
func (v *verifier) lastGood() uint64 {
	if v.next == 0 {
		return 0
	}
	return v.seen.Checkpoints[v.next-1].Seq
}

func (v *verifier) passed(e Entry) {
	v.report.Checkpoints++
	if v.next < len(v.seen.Checkpoints) && v.seen.Checkpoints[v.next].Seq == e.Seq {
		v.next++
		return
	}
	v.newer = append(v.newer, Checkpoint{Seq: v.at.seq, Hash: v.at.hash, End: v.at.size})
}

// finish is at the end of the file: what the mirror knows must have been there.
func (v *verifier) finish() Report {
	if v.at.seq < v.seen.Head.Seq {
		return v.bad(v.at.seq+1, fmt.Sprintf("the log is cut off: the database knows %d lines", v.seen.Head.Seq))
	}
	if v.next < len(v.seen.Checkpoints) {
		return v.bad(v.at.seq+1, fmt.Sprintf("checkpoint %d of the database is not in the log", v.seen.Checkpoints[v.next].Seq))
	}
	v.report.Lines, v.report.Mirrored = v.at.seq, v.seen.Head.Seq
	return v.report
}

func (v *verifier) bad(line uint64, reason string) Report {
	v.report.Lines, v.report.Mirrored = line-1, v.seen.Head.Seq
	v.report.Bad = &Bad{line, reason}
	return v.report
}
