// Package audit is the record of the daemon: one JSON line when a call begins, one when it ends,
// and one for each other event that its callers append, such as a question, a session or a reload.
//
//	opts := audit.Options{Dir: state, KeyFile: key}
//	err := opts.CheckDatabase(path) // Call it before you open db: opening creates a missing file.
//	lock, err := audit.LockState(ctx, state) // one writer at a time; released after log.Close
//	log, err := audit.Open(ctx, opts, audit.NewMirror(db)) // db has the tables of audit.Schema
//	err = log.Begin(ctx, call) // nil: the line is in the file, the call may run
//	err = log.End(ctx, call)   // an error: the result must be withheld
//	err = log.Close()          // before db is closed; then lock.Release()
//	rep, err := audit.Verify(ctx, opts, audit.MirrorAt(path)) // may run beside a daemon; see rep.Bad
//
// [Log.Append] writes other events. A program that is not the daemon writes single lines with
// [Shared]. [Find] and [Tail] read lines and check nothing.
//
// Every line has a number, the hash of the line before and a hash over its own bytes. Every 1,000
// lines and at [Log.Close] there is a checkpoint, signed with a key that must lie in another
// directory. Outside of the file, three places know how far it goes: the database (checkpoints and,
// at every sync, the newest line), the head beside the key (at most once in [Options.KeepEvery]),
// and [Options.Anchor] on another disk or machine, if there is one.
//
// Guarantees:
//   - Somebody who can write the file, but has neither the key nor the database, cannot alter,
//     remove, reorder or cut off a synced line without [Verify] noticing. Somebody who can write
//     both, but not the directory of the key, cannot do so up to the head beside the key.
//   - When Begin, End and Append return nil, the line survives a kill of the daemon. It survives a
//     loss of power after the next sync, or at once with Sync "always".
//   - A line has digests of arguments and results, never the values. Every free text in it goes
//     through a [Redactor].
//   - If a sync of the file fails, every later line is an error until the daemon starts again.
//
// Not guaranteed: after a crash, lines behind the newest one that is known outside can be changed,
// cut off or added; hashes need no key, so they protect from accidents alone. Whoever can write the
// directory of the key too can rewrite everything, except what the anchor keeps.
//
// [Open] refuses a record that was changed with [ErrTampered]; [Accept] begins again, and records
// that. A new field of a line belongs in [Entry]. If somebody else chooses its text, it must be
// redacted in entry.go.
package audit

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	fileName        = "audit.jsonl"
	checkpointEvery = 1000
)

// ErrTampered is a log that is not what was written. Nothing is appended to it.
var ErrTampered = errors.New("the audit log was changed from outside")

// Options says where the record is and what an acknowledged line survives.
type Options struct {
	Dir       string        // state directory; the log is Dir/audit.jsonl
	KeyFile   string        // signing key, created if absent; must not lie in Dir
	KeyWhy    string        // why the key is looked for there, for the message when it is not
	Sync      string        // "interval" (also "") or "always"
	SyncEvery time.Duration // 0: 100 ms
	KeepEvery time.Duration // how often at most the head beside the key is written; 0: a second
	Anchor    Anchor
	Redactor  *Redactor // nil: patterns only
	// Progress hears how many bytes of the log [Verify] has read, and of how many. nil: nobody does.
	Progress func(read, size int64)

	testOnlyDisk        func(*os.File) file // stands between the log and its file
	testOnlyCheckpoints uint64              // a checkpoint after so many lines; 0: 1000
}

// Path returns the file of the log.
func (o Options) Path() string { return filepath.Join(o.Dir, fileName) }

// Log is the open record. It is safe for concurrent use and is the only writer
// of its file: hold [LockState] while it is open.
type Log struct {
	options   Options
	path      string
	key       ed25519.PrivateKey
	mirror    Mirror
	keeper    *keeper // used by the sync loop, then by close
	anchoring *anchoring
	redact    *Redactor
	always    bool
	every     time.Duration
	keepEvery time.Duration

	checkpoints uint64 // one after so many lines

	wake chan struct{} // something has to be synced; capacity 1
	stop chan struct{}
	done chan struct{}

	verifying sync.Mutex // held while a route reads the whole log

	mu       sync.Mutex // guards what follows, and the order of lines
	file     file
	tail     position     // of the last line written
	unsaved  []Checkpoint // not in the mirror yet
	mirrored int          // checkpoints that are
	synced   uint64       // last line that is durable and mirrored
	kept     Kept         // beside the key
	keptAt   time.Time
	broken   error // for good: the file can no longer be trusted
	unsynced error // until a sync succeeds
	unkept   error // until the head is written
	round    chan struct{}
	closed   bool
}

// position is the end of one line of the chain.
type position struct {
	seq  uint64
	hash string
	size int64 // bytes of the file up to and with the line
}

// Open opens or creates the log. It checks the lines since the last mirrored
// checkpoint, and that log, database, head and anchor know of each other what they
// should; a line that a crash tore is cut off and accounted for in a "recovered" line,
// anything else that does not fit is [ErrTampered].
func Open(ctx context.Context, o Options, m Mirror) (*Log, error) {
	l, err := open(ctx, o, m)
	if err != nil {
		return nil, fmt.Errorf("open audit log %q: %w", o.Path(), err)
	}
	if l.anchoring != nil {
		l.anchoring.start()
	}
	return l, nil
}

func open(ctx context.Context, o Options, m Mirror) (*Log, error) {
	l, err := newLog(ctx, o, m)
	if err != nil {
		return nil, err
	}
	torn, err := l.openFile(ctx, o)
	if err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	l.kept = l.keeper.last
	go l.syncLoop()
	if torn > 0 {
		err := l.Append(ctx, tool.Note{
			Name: "recovered", Detail: map[string]string{"torn_bytes": strconv.FormatInt(torn, 10)},
		})
		if err != nil {
			return nil, errors.Join(err, l.close(false))
		}
	}
	if l.tail.seq > l.kept.Seq {
		l.kick() // what a crash left is not covered yet
	}
	return l, nil
}

// newLog returns a log without its file.
func newLog(ctx context.Context, o Options, m Mirror) (*Log, error) {
	if o.Sync != "" && o.Sync != "interval" && o.Sync != "always" {
		return nil, fmt.Errorf("unknown sync %q, want interval or always", o.Sync)
	}
	if m == nil {
		return nil, errors.New("no mirror: a cut-off log could not be noticed")
	}
	key, err := loadKey(ctx, o, m)
	if err != nil {
		return nil, err
	}
	if o.Redactor == nil {
		o.Redactor = NewRedactor()
	}
	l := &Log{
		options: o, path: o.Path(), key: key, mirror: m, redact: o.Redactor, always: o.Sync == "always",
		every: cmp.Or(o.SyncEvery, 100*time.Millisecond), keepEvery: cmp.Or(o.KeepEvery, time.Second),
		checkpoints: cmp.Or(o.testOnlyCheckpoints, checkpointEvery),
		wake:        make(chan struct{}, 1), round: make(chan struct{}),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if o.Anchor.File != "" || o.Anchor.Ship != nil {
		o.Anchor.Every = cmp.Or(o.Anchor.Every, time.Minute)
		l.anchoring = &anchoring{Anchor: o.Anchor, newest: l.newest, kick: l.kick, key: key}
	}
	return l, nil
}

// Begin records that a call is about to run.
func (l *Log) Begin(ctx context.Context, c *tool.Call) error {
	return l.write(ctx, beginEntry(c))
}

// End records how a call ended, also one that never began to run.
func (l *Log) End(ctx context.Context, c *tool.Call) error {
	return l.write(ctx, endEntry(c))
}

// Append records an event that is not a call.
func (l *Log) Append(ctx context.Context, e tool.Note) error {
	return l.write(ctx, noteEntry(e))
}

func (l *Log) write(ctx context.Context, e Entry) error {
	e.redact(l.redact)
	seq, err := l.append(e)
	if err == nil && l.always {
		err = l.waitSynced(ctx, seq)
	}
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Event, err)
	}
	return nil
}

// append adds one line, and a checkpoint after every thousandth. The chain in
// memory advances only when the bytes are in the file.
func (l *Log) append(e Entry) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	if err := l.writeLine(e); err != nil {
		return 0, err
	}
	seq := l.tail.seq
	if (seq+1)%l.checkpoints == 0 {
		// If this fails the call fails although its line stands: the record then
		// says more than happened, never less.
		if err := l.writeCheckpoint(); err != nil {
			return 0, err
		}
	}
	l.kick()
	return seq, nil
}

func (l *Log) usable() error {
	switch {
	case l.closed:
		return os.ErrClosed
	case l.broken != nil:
		return l.broken
	case l.unsynced != nil:
		return l.unsynced
	case l.unkept != nil:
		return l.unkept
	}
	return l.checkFile()
}

// Close writes a last checkpoint, syncs and closes. The head beside the key then says that
// nothing follows.
func (l *Log) Close() error { return l.close(true) }

func (l *Log) close(checkpoint bool) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	var err error
	if checkpoint && l.broken == nil && l.tail.seq > 0 {
		if err = l.checkFile(); err == nil {
			err = l.writeCheckpoint()
		}
	}
	l.closed = true
	l.mu.Unlock()
	close(l.stop)
	<-l.done
	tail, saved := l.save(true)
	if err = errors.Join(err, saved); err == nil {
		err = l.finish(tail)
	}
	return errors.Join(err, l.closeFiles())
}

// finish keeps and anchors the last line.
func (l *Log) finish(tail position) error {
	if l.anchoring.running() {
		if err := l.keep(tail, false); err != nil { // no anchor is newer than the head
			return err
		}
		l.anchoring.finish()
	}
	return l.keep(tail, true)
}

func (l *Log) closeFiles() error {
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	if l.keeper != nil {
		err = errors.Join(err, l.keeper.file.Close())
	}
	return err
}
