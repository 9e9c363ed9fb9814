package audit

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Anchor keeps a second copy of the head, outside of the directories of this daemon. The zero value is no anchor.
type Anchor struct {
	File  string                                       // absolute, on another disk; replaced each time
	Ship  func(ctx context.Context, head []byte) error // sends it elsewhere; nil does not
	Every time.Duration                                // 0: a minute
	Told  func(err error)                              // when it begins to fail, and nil when it works again

	patience time.Duration // how long the last head may take when the log is closed; 0: 10 s
}

// anchored is the content of the file of an anchor.
type anchored struct {
	kept  *Kept // nil if there is none
	wrong error // it cannot be a head of this log
}

// read reads the file. After an error of the disk, the anchor says nothing about the record.
func (a Anchor) read(key ed25519.PublicKey) (anchored, error) {
	if a.File == "" {
		return anchored{}, nil
	}
	k, err := readKept(a.File, key)
	switch {
	case err == nil:
		return anchored{kept: &k}, nil
	case errors.Is(err, fs.ErrNotExist):
		return anchored{}, nil
	case !errors.Is(err, errNoHead):
		return anchored{}, fmt.Errorf("read the anchor: %w", err)
	}
	empty, statErr := isEmpty(a.File)
	if statErr != nil {
		return anchored{}, fmt.Errorf("read the anchor: %w", statErr)
	}
	if empty {
		return anchored{}, nil
	}
	return anchored{wrong: fmt.Errorf("the anchor was replaced: %w", err)}, nil
}

// against compares the anchor with what the head beside the key says about it.
func (a anchored) against(k Kept, file string) error {
	if file == "" || k.Anchored == 0 || k.Anchor != placeDigest(file) {
		return nil // it was never written
	}
	switch {
	case a.kept == nil:
		return fmt.Errorf("the anchor %s is missing or empty: it held line %d", file, k.Anchored)
	case a.kept.Seq < k.Anchored:
		return fmt.Errorf("the anchor %s is an older one: it holds line %d, it held line %d", file, a.kept.Seq,
			k.Anchored)
	}
	return nil
}

// write puts one head into the places of the anchor.
func (a Anchor) write(ctx context.Context, line []byte) error {
	if a.File != "" {
		if err := replaceFile(a.File, line); err != nil {
			return fmt.Errorf("anchor the audit log: %w", err)
		}
	}
	if a.Ship != nil {
		if err := a.Ship(ctx, line); err != nil {
			return fmt.Errorf("anchor the audit log: %w", err)
		}
	}
	return nil
}

// replaceFile writes a file so that a crash leaves the old or the new one.
func replaceFile(path string, text []byte) error {
	next := path + ".new"
	f, err := openRegular(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// AnchorStatus is the result of the last try to write the anchor.
type AnchorStatus struct {
	Line    uint64    `json:"line"`              // the newest that is anchored; 0: none since the start
	At      time.Time `json:"at,omitzero"`       // when that was
	Failing string    `json:"failing,omitempty"` // why the last try failed
}

// anchoring writes an anchor while the daemon runs. A nil one does nothing.
type anchoring struct {
	Anchor
	key    ed25519.PrivateKey
	newest func() Kept // beside the key
	kick   func()      // the head beside the key does not know yet what is anchored

	stop context.CancelFunc // nil until start
	done chan struct{}

	mu     sync.Mutex
	status AnchorStatus // guarded by mu
}

func (a *anchoring) running() bool { return a != nil && a.stop != nil }

// start writes the anchor at intervals, until finish.
func (a *anchoring) start() {
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.done = make(chan struct{})
	go func() {
		defer close(a.done)
		tick := time.NewTicker(a.Every)
		defer tick.Stop()
		for {
			a.try(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
}

// finish anchors the last line. It does not wait for ever: the disk may belong to a host that does not answer.
func (a *anchoring) finish() {
	a.stop()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(a.patience, 10*time.Second))
	defer cancel()
	last := make(chan struct{})
	go func() {
		defer close(last)
		<-a.done
		a.try(ctx)
	}()
	select {
	case <-last:
	case <-ctx.Done():
		a.settle(Kept{}, fmt.Errorf("anchor the last line: %w", ctx.Err()))
	}
}

// try anchors the newest head, unless that is done.
func (a *anchoring) try(ctx context.Context) {
	k := a.newest()
	if s := a.Status(); k.Seq == s.Line && s.Failing == "" {
		return
	}
	line, err := k.sign(a.key)
	if err == nil {
		err = a.write(ctx, line)
	}
	if err == nil || ctx.Err() == nil { // otherwise finish tries once more, or has said so
		a.settle(k, err)
	}
}

// settle stores the result of a try.
func (a *anchoring) settle(k Kept, err error) {
	a.mu.Lock()
	failed := a.status.Failing != ""
	if err == nil {
		a.status = AnchorStatus{Line: k.Seq, At: time.Now().UTC()}
	} else {
		a.status.Failing = err.Error()
	}
	a.mu.Unlock()
	if err == nil && a.File != "" {
		a.kick()
	}
	if a.Told != nil && failed != (err != nil) {
		a.Told(err)
	}
}

// Status returns the result of the last try.
func (a *anchoring) Status() AnchorStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// line returns the newest line that is certainly in the file. last is the line that the anchor had before.
func (a *anchoring) line(last uint64) uint64 {
	if !a.running() || a.File == "" {
		return last
	}
	return max(last, a.Status().Line)
}
