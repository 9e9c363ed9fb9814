package audit

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Accepted is a loss of lines that an operator has accepted. The log keeps its line for ever.
type Accepted struct {
	Line    uint64    `json:"line"`
	Time    time.Time `json:"time"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	Problem string    `json:"problem"`         // what did not fit
	Moved   string    `json:"moved,omitempty"` // where the log is that could not be continued
}

// ErrWhole is the error of [Accept] if the record is whole, so that there is nothing to accept.
var ErrWhole = errors.New("the record is what was written: there is nothing to accept")

const (
	eventAccept = "accept"
	maxAccepted = 100 // in a report
)

// Accept makes a record usable again after a file of it was lost, moved away or restored from
// a copy. Lines that are in order are continued; another log is moved aside. A line of the log
// holds who, why, what did not fit and what was known of the lines that are gone. Hold
// [LockState] meanwhile. If it fails, it can be tried again.
func Accept(ctx context.Context, o Options, m Mirror, by, reason string) (Accepted, error) {
	if strings.TrimSpace(reason) == "" {
		return Accepted{}, errors.New("accept the record: no reason is given")
	}
	a, err := accept(ctx, o, m, Accepted{By: by, Reason: reason})
	if err != nil {
		return Accepted{}, fmt.Errorf("accept the record: %w", err)
	}
	return a, nil
}

func accept(ctx context.Context, o Options, m Mirror, a Accepted) (Accepted, error) {
	key, problem, err := keyToAccept(ctx, o, m)
	if err != nil {
		return a, err
	}
	k, err := look(ctx, o, m, key)
	if err != nil {
		return a, err
	}
	bad, err := walkWhole(ctx, o, &verifier{known: k})
	if err != nil {
		return a, err
	}
	if bad == nil && problem == "" {
		return a, ErrWhole
	}
	if bad != nil {
		problem = bad.String()
	}
	a.Problem = problem

	redact := o.Redactor
	if redact == nil {
		redact = NewRedactor()
	}
	l := &Log{path: o.Path(), key: key, mirror: m, redact: redact}
	if l.keeper, err = openKeeper(o, key, k.kept); err != nil {
		return a, err
	}
	detail, err := l.resume(ctx, o, k, &a)
	if err == nil {
		err = l.writeAccepted(&a, detail)
	}
	if err == nil {
		err = l.replaceKnown(ctx, o)
	}
	return a, errors.Join(err, l.closeFiles())
}

// keyToAccept returns the key of the record, or a new key if the old one is lost.
func keyToAccept(ctx context.Context, o Options, m Mirror) (key ed25519.PrivateKey, problem string, err error) {
	key, err = loadKey(ctx, o, m)
	if !errors.Is(err, ErrTampered) {
		return key, "", err
	}
	key, createErr := createKey(o)
	return key, strings.TrimPrefix(err.Error(), ErrTampered.Error()+": "), createErr
}

// walkWhole reads the whole log.
func walkWhole(ctx context.Context, o Options, v *verifier) (*Bad, error) {
	f, err := openRegular(o.Path(), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		rep, err := v.run(ctx, strings.NewReader(""))
		return rep.Bad, err
	}
	if errors.Is(err, ErrTampered) {
		return &Bad{0, strings.TrimPrefix(err.Error(), ErrTampered.Error()+": ")}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rep, err := v.run(ctx, f)
	return rep.Bad, err
}

// resume opens the log behind its last line, if its lines are in order and the head beside the
// key (without one, the database) knows no other ones. Otherwise it moves the log aside.
func (l *Log) resume(ctx context.Context, o Options, k known, a *Accepted) (map[string]string, error) {
	trusted := known{public: k.public, kept: k.kept}
	if k.kept.Seq == 0 {
		trusted.mirror.Head = k.mirror.Head
	}
	v := verifier{known: trusted}
	f, err := openRegular(o.Path(), os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, ErrTampered):
		if err := moveAside(o, a); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		bad, err := v.walk(ctx, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if bad != nil {
			v = verifier{}
			if err := moveAside(o, a); err != nil {
				return nil, err
			}
		}
	}
	if l.file, err = openLog(o, os.O_CREATE); err != nil {
		return nil, err
	}
	if err := l.file.Truncate(v.at.size); err != nil { // half of a line
		return nil, err
	}
	l.tail, l.unsaved = v.at, v.newer
	for i, c := range l.unsaved {
		l.unsaved[i].Signature = sign(l.key, forCheckpoint, c.Seq, c.Hash)
	}
	detail := map[string]string{
		"by": a.By, "problem": a.Problem, "lines": strconv.FormatUint(v.at.seq, 10),
		"head":     fmt.Sprint(k.kept.Seq, " ", k.kept.Hash),
		"database": fmt.Sprint(k.mirror.Head.Seq, " ", k.mirror.Head.Hash),
	}
	if k.anchor != nil {
		detail["anchor"] = fmt.Sprint(k.anchor.Seq, " ", k.anchor.Hash)
	}
	if a.Moved != "" {
		digest, err := digestOf(a.Moved)
		if err != nil {
			return nil, err
		}
		detail["moved"] = a.Moved + " " + digest
	}
	return detail, nil
}

// moveAside keeps a log that cannot be continued: it is evidence.
func moveAside(o Options, a *Accepted) error {
	to := o.Path() + ".rejected-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(o.Path(), to); err != nil {
		return err
	}
	a.Moved = to
	return syncDir(o.Dir)
}

// notRegular is in a line instead of the digest of what was moved.
const notRegular = "is no regular file"

func digestOf(path string) (string, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if errors.Is(err, ErrTampered) {
		return notRegular, nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), err
}

// writeAccepted writes the line, and a checkpoint that fixes it.
func (l *Log) writeAccepted(a *Accepted, detail map[string]string) error {
	e := Entry{Event: eventAccept, Message: a.Reason, Detail: detail}
	e.redact(l.redact)
	if err := l.writeLine(e); err != nil {
		return err
	}
	a.Line, a.Time = l.tail.seq, time.Now().UTC()
	return errors.Join(l.writeCheckpoint(), l.file.Sync())
}

// replaceKnown makes the database, the anchor and last the head beside the key refer to this log and to no other one.
// Until the head does, the daemon refuses the record as before.
func (l *Log) replaceKnown(ctx context.Context, o Options) error {
	t := l.tail
	head := Head{t.seq, t.hash, sign(l.key, forHead, t.seq, t.hash)}
	if err := l.mirror.Replace(ctx, Mirrored{head, l.unsaved}); err != nil {
		return err
	}
	if err := syncDir(o.Dir); err != nil {
		return err
	}
	h := Kept{Seq: t.seq, Hash: t.hash, Checkpoints: len(l.unsaved), Closed: true, Time: time.Now().UTC()}
	h.Count = l.keeper.last.Count + 1
	line, err := h.sign(l.key)
	if err == nil {
		err = o.Anchor.write(ctx, line)
	}
	if err != nil {
		return err
	}
	if o.Anchor.File != "" {
		h.Anchor, h.Anchored = placeDigest(o.Anchor.File), t.seq
	}
	return l.keeper.keep(h)
}

// accepted notes the line of an accepted loss.
func (v *verifier) accepted(e Entry) {
	if len(v.report.Accepted) == maxAccepted {
		return
	}
	moved, _, _ := strings.Cut(strings.TrimSuffix(e.Detail["moved"], " "+notRegular), " sha256:")
	v.report.Accepted = append(v.report.Accepted, Accepted{
		Line: e.Seq, Time: e.Time, By: e.Detail["by"], Reason: e.Message, Problem: e.Detail["problem"], Moved: moved,
	})
}
