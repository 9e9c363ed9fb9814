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
	"slices"
	"strings"
)

// Report is what [Verify] found.
type Report struct {
	Lines       uint64     `json:"lines"`              // that are in order, from the first on
	Checkpoints int        `json:"checkpoints"`        // among them, with a right signature
	Mirrored    uint64     `json:"mirrored"`           // newest line that the database knows
	Kept        uint64     `json:"kept"`               // newest line that the head beside the key knows
	Anchored    uint64     `json:"anchored,omitempty"` // newest line that the anchor knows
	Accepted    []Accepted `json:"accepted,omitempty"` // what an operator has accepted
	Bad         *Bad       `json:"bad,omitempty"`
	TornBytes   int64      `json:"torn_bytes,omitempty"` // of a last line that a crash cut short
}

// Bad is the first line that is not what was written.
type Bad struct {
	Line   uint64 `json:"line"` // 1-based; the number the line has, or should have. 0: no line of the log
	Reason string `json:"reason"`
}

func (b Bad) String() string {
	if b.Line == 0 {
		return b.Reason
	}
	return fmt.Sprintf("line %d: %s", b.Line, b.Reason)
}

// Verify reads the whole log and holds it against everything that knows it. A log that was
// tampered with is a Report with Bad, not an error. It may run beside a daemon.
func Verify(ctx context.Context, o Options, m Mirror) (Report, error) {
	key, err := readKey(o.KeyFile)
	if errors.Is(err, os.ErrNotExist) {
		return Report{}, fmt.Errorf("verify audit log: %s: %w", o.noKey(), os.ErrNotExist)
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	rep, kept, err := verify(ctx, o, m, key)
	if err == nil && rep.Bad != nil && kept.Closed {
		if now, _ := readKept(o.HeadPath(), public(key)); now.Count != kept.Count {
			rep, _, err = verify(ctx, o, m, key) // a daemon has begun to write meanwhile
		}
	}
	if errors.Is(err, ErrTampered) {
		return Report{Bad: &Bad{0, strings.TrimPrefix(err.Error(), ErrTampered.Error()+": ")}}, nil
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	return rep, nil
}

func verify(ctx context.Context, o Options, m Mirror, key ed25519.PrivateKey) (Report, Kept, error) {
	k, err := look(ctx, o, m, key)
	if err != nil {
		return Report{}, k.kept, err
	}
	v := verifier{known: k}
	f, err := openRegular(o.Path(), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		rep, err := v.run(ctx, bytes.NewReader(nil))
		return rep, k.kept, err
	}
	if err != nil {
		return Report{}, k.kept, err
	}
	defer f.Close()
	r := &counted{Reader: f, progress: o.Progress}
	if info, err := f.Stat(); err == nil {
		r.size = info.Size()
	}
	rep, err := v.run(ctx, r)
	return rep, k.kept, err
}

// counted tells how far a read has come.
type counted struct {
	io.Reader
	progress   func(read, size int64)
	read, size int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	if c.progress != nil && n > 0 {
		c.progress(c.read, max(c.read, c.size))
	}
	return n, err
}

// verifier walks along the chain.
type verifier struct {
	known

	at     position     // end of the last good line
	next   int          // first of mirror.Checkpoints that is not passed yet
	newer  []Checkpoint // passed, and not in the mirror
	report Report
}

// readAtStart is up to which length a log is read as a whole when it is opened. That takes half
// a second: 60,000 lines of 240 bytes took 0.4 s.
const readAtStart = 16 << 20

// skipToCheckpoint starts at the last mirrored checkpoint that every witness has passed, so that
// opening a very long log does not read all of it; Verify does.
func (v *verifier) skipToCheckpoint(f io.ReaderAt, size int64) {
	if size <= readAtStart {
		return
	}
	fixed := v.fixed()
	for i, c := range slices.Backward(v.mirror.Checkpoints) {
		if c.Seq > fixed {
			continue
		}
		end := make([]byte, hashSuffix)
		if c.End > size || c.End < int64(hashSuffix) {
			return // reading from the start names the line
		}
		if _, err := f.ReadAt(end, c.End-int64(hashSuffix)); err != nil || string(end) != hashKey+c.Hash+"\"}\n" {
			return
		}
		at := v.at
		v.at, v.next = position{c.Seq, c.Hash, c.End}, i+1
		if v.compare() != "" {
			v.at, v.next = at, 0
		}
		return
	}
}

func (v *verifier) run(ctx context.Context, r io.Reader) (Report, error) {
	bad, err := v.walk(ctx, r)
	if err != nil {
		return Report{}, err
	}
	if bad == nil {
		bad = v.finish()
	}
	rep := &v.report
	rep.Lines, rep.Mirrored, rep.Kept = v.at.seq, v.mirror.Head.Seq, v.kept.Seq
	if v.anchor != nil {
		rep.Anchored = v.anchor.Seq
	}
	if bad != nil && bad.Line > 0 {
		rep.Lines = bad.Line - 1
	}
	switch other := v.disagree(); {
	case other == "":
	case bad == nil:
		bad = &Bad{0, other}
	default:
		bad.Reason += "; and " + other
	}
	rep.Bad = bad
	return *rep, nil
}

// walk reads up to the end, or the first line that is not what was written.
func (v *verifier) walk(ctx context.Context, r io.Reader) (*Bad, error) {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			v.report.TornBytes = int64(len(line))
			return nil, nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return &Bad{v.at.seq + 1, "it is longer than any line of the log"}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if bad := v.line(line); bad != nil {
			return bad, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
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
		return &Bad{
			want,
			"the signature of this checkpoint is wrong: it, or lines since the last checkpoint, were rewritten",
		}
	}
	v.at = position{e.Seq, e.Hash, v.at.size + int64(len(line))}
	if reason := v.compare(); reason != "" {
		return &Bad{v.lastGood() + 1, reason}
	}
	switch e.Event {
	case eventCheckpoint:
		v.passed(e)
	case eventAccept:
		v.accepted(e)
	}
	return nil
}

// compare holds a line against what others say of it.
func (v *verifier) compare() string {
	for _, w := range v.witnesses() {
		if w.seq == v.at.seq && w.hash != v.at.hash {
			return fmt.Sprintf("lines up to %d were rewritten: %s has another hash for that line", w.seq, w.who)
		}
	}
	if v.next < len(v.mirror.Checkpoints) {
		if c := v.mirror.Checkpoints[v.next]; c.Seq == v.at.seq && c.Hash != v.at.hash {
			return fmt.Sprintf("lines up to checkpoint %d were rewritten: the database has another hash for it", c.Seq)
		}
	}
	return ""
}

// lastGood returns the last line that a mirrored checkpoint vouches for.
func (v *verifier) lastGood() uint64 {
	if v.next == 0 {
		return 0
	}
	return v.mirror.Checkpoints[v.next-1].Seq
}

func (v *verifier) passed(e Entry) {
	v.report.Checkpoints++
	if v.next < len(v.mirror.Checkpoints) && v.mirror.Checkpoints[v.next].Seq == e.Seq {
		v.next++
		return
	}
	v.newer = append(v.newer, Checkpoint{Seq: v.at.seq, Hash: v.at.hash, End: v.at.size})
}

// finish is at the end of the file: what others know must have been there, and nothing follows
// the line in which the log was closed.
func (v *verifier) finish() *Bad {
	for _, w := range v.witnesses() {
		if v.at.seq < w.seq {
			return &Bad{v.at.seq + 1, fmt.Sprintf("the log is cut off: %s knows %d lines", w.who, w.seq)}
		}
	}
	if v.next < len(v.mirror.Checkpoints) {
		return &Bad{
			v.at.seq + 1,
			fmt.Sprintf("checkpoint %d of the database is not in the log", v.mirror.Checkpoints[v.next].Seq),
		}
	}
	if v.kept.Closed && (v.at.seq > v.kept.Seq || v.report.TornBytes > 0) {
		return &Bad{v.kept.Seq + 1, fmt.Sprintf("it was added after the log was closed at line %d", v.kept.Seq)}
	}
	return nil
}
