// Package diskspace bounds what agents take of the disks of the daemon.
//
// A reserve of free space stays on the file systems of the record and of the sessions' private
// files. When it is touched, new calls of agents are refused. Of those that run, the ones that
// wrote much are ended, or all if none did (package [github.com/sandboxd/sandboxd/sandbox/limit]
// does that).
//
// Before that, an account is refused that keeps more than is free above the reserve, and with twice
// as much its running calls are ended too. With [Options].PerAccount, that number counts for both.
// Less than a sixteenth of the reserve is never too much.
//
//	g := diskspace.New(diskspace.Options{State: state, Private: state + "/cage", …})
//	g.Begin()                         // once Sessions and Files can be asked
//	err := g.Admit("team", "", bytes) // before a request of an agent that makes the daemon keep more
//	g.Look()                          // instead, before one of an operator, which is never refused
//	err = g.Room(n)                   // before the database gets a value of n bytes, whoever writes
//	g.Forget(session)                 // after a session was deleted
//	g.Stop()                          // it measures no more; what is asked later has the last numbers
//	g.Close()                         // after the database was closed: earlier it would drop its locks
//
// The sandbox gets [Guard.Reserve]. With it the sandbox asks whether the calls of a session's account
// must end ([Guard.Over]), and tells which session took the reserve ([Guard.Took]): the account of that
// session is refused for some seconds.
//
// What an account keeps are the private files, the variables (of packages vars and scopes, with
// branches and pages), the transcripts and the output of jobs of its sessions, and its global
// variables, which have no session. It is measured beside the requests, when the free space has
// changed much, an account has sent much, a session was deleted, or some time has passed: what is
// known is some moments old. The free space is looked at by each request. The log and the database
// have a part of the reserve as blocks of their own, where the file system can do that: they can be
// written when the disk is full.
//
// An error is a *tool.Error: nothing may be kept then. If sessions cannot be measured, what is known of
// them stays. Admit, Look and Room of a nil *Guard refuse nothing. A Guard is safe for concurrent use, except
// that Close comes alone, after Stop.
//
// Not bounded: the workspaces, which are people's; the record, which nobody may cut. A feature that keeps
// more of sessions says so by Kept or KeptBy of its part, which the daemon adds to Options.Sessions.
package diskspace

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/limit"
)

// Options say what is measured.
type Options struct {
	State   string // directory of the record and of the database
	Private string // directory of the sessions' private files
	// Reserve is how many bytes stay free on each file system; 0 is as [limit.Reserve] says.
	Reserve int64
	// PerAccount is how many bytes an account may keep; 0 is as much as is free for all others.
	PerAccount int64

	Sessions func(context.Context) (map[string]Session, error)
	// Files is how many bytes the private files of each of these sessions take.
	Files func(sessions []string) (map[string]int64, error)
	// Tight is told when the reserve is touched, and when it is whole again; nil nobody. It must not call the Guard.
	Tight func(bool)
	Held  []string // files of the record, which get blocks beyond their end
	// Uncopied is how many bytes the database has in its log, and needs once more to copy them; nil none.
	Uncopied func() int64
	Log      *slog.Logger

	testOnlySpace func(paths []string) map[uint64]limit.Space
}

// How often is measured. An idle daemon measures nothing.
const (
	oldest   = time.Minute            // what is known may be so old
	soonest  = 100 * time.Millisecond // between two measurings
	fraction = 20                     // and so many times as long as the last one took, up to oldest
	fallen   = 16                     // which part of the room is gone when it is measured again
	upkeep   = time.Second            // between two looks at the files in reserve
	patience = 10 * time.Second       // for the database
)

// Guard knows what is free and who keeps what.
type Guard struct {
	o       Options
	reserve limit.Reserve

	mu       sync.Mutex // guards what follows
	space    spaces     // of the last look
	looked   time.Time
	measured time.Time // when the last measuring ended
	took     time.Duration
	before   spaces // of the last measuring
	sessions map[string]Session
	accounts map[string]*account
	working  bool // somebody measures
	grown    bool // much was sent since the last measuring
	upkept   time.Time
	unheld   error
	refused  [reasons]uint64
	closed   bool

	work sync.WaitGroup
	held *held // used by whoever works
}

// Session is what one session keeps.
type Session struct {
	Account string
	Values  int64 // bytes in the database, and in files of the daemon
	files   int64
}

// account is what the sessions of one account keep.
type account struct {
	files, values int64
	since         int64     // bytes that it has sent since then
	told          bool      // that it was refused
	until         time.Time // refused until then, for one of its calls took the reserve
}

// New returns a guard that has measured nothing; Begin measures.
func New(o Options) *Guard {
	g := &Guard{
		o: o, sessions: map[string]Session{}, accounts: map[string]*account{}, held: &held{paths: o.Held},
		reserve: limit.Reserve{Dirs: []string{o.State, o.Private}, Bytes: o.Reserve},
	}
	g.reserve.Over, g.reserve.Took = g.Over, g.Took
	if g.o.Uncopied == nil {
		g.o.Uncopied = func() int64 { return 0 }
	}
	if g.o.Tight == nil {
		g.o.Tight = func(bool) {}
	}
	g.look()
	return g
}

// Begin measures for the first time, beside the caller, when everything that is asked is there.
func (g *Guard) Begin() { g.attend() }

// Reserve returns what calls may not take.
func (g *Guard) Reserve() limit.Reserve { return g.reserve }

// spaces are the file systems of the state and of private files, which may be one.
type spaces struct {
	state, private limit.Space
	same           bool
}

// look reads the free space.
func (g *Guard) look() spaces {
	read := g.o.testOnlySpace
	if read == nil {
		read = limit.FreeSpace
	}
	var s spaces
	all := read([]string{g.o.State})
	for device, space := range all {
		s.state = space
		s.private, s.same = space, true
		for other, private := range read([]string{g.o.Private}) {
			s.private, s.same = private, other == device
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if low := g.low(s); low != g.low(g.space) || g.looked.IsZero() {
		g.o.Tight(low)
	}
	g.space, g.looked = s, time.Now()
	return s
}

func (g *Guard) low(s spaces) bool { return g.reserve.Low(s.state) || g.reserve.Low(s.private) }

// Look is for requests that nobody refuses: those of operators.
func (g *Guard) Look() {
	if g != nil {
		g.look()
		g.attend()
	}
}

// room returns what is free above the reserve.
func (g *Guard) room(s limit.Space) int64 {
	if g.reserve.Low(s) {
		return 0
	}
	return int64(s.Avail - g.reserve.Keep(s))
}

// Admit admits a request of an account that brings n bytes to keep, or says why not:
// `account_disk` when it keeps too much, `disk_reserve` when nobody may have more. session is one
// of the account that the request is known to be for, or "".
func (g *Guard) Admit(name, session string, n int64) error {
	if g == nil {
		return nil
	}
	s := g.look()
	g.attend()
	need := g.need(n, s)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.sessions[session]; !known && session != "" {
		g.sessions[session] = Session{Account: name}
	}
	a := g.account(name)
	err := g.over(name, a, s)
	if wait := time.Until(a.until); err == nil && wait > 0 {
		err = &tool.Error{
			Code: "account_disk",
			Msg: fmt.Sprintf("a call of account %s took the disk that is kept for the record of all; come again in %v",
				name, wait.Round(time.Second/10)),
			Hint: "write less to /tmp and caches, or have an operator give the daemon a larger disk",
		}
	}
	if err != nil {
		g.refused[byAccount]++
		if !a.told {
			a.told = true
			g.o.Log.Warn("an account is refused for what it keeps on the disk", "account", name, "files", a.files,
				"variables", a.values)
		}
		return err
	}
	if need > g.room(s.state) || g.low(s) {
		g.refused[byReserve]++
		free := s.state
		if g.room(s.private) == 0 {
			free = s.private
		}
		return g.noRoom(free, need)
	}
	a.told = false
	if a.since += n; a.since > g.room(s.state)/fallen {
		g.grown = true
	}
	return nil
}

// Free returns how many bytes are free for what the daemon keeps beside the record.
func (g *Guard) Free() int64 { return g.room(g.look().state) }

// Room says whether the database has room for a value of n bytes, whoever writes it: the error is `disk_reserve`.
// A value below 64 KiB always has: the reserve is for those.
func (g *Guard) Room(n int) error {
	if g == nil || n < small {
		return nil
	}
	s := g.look()
	need := g.need(int64(n), s)
	if g.room(s.state) >= need {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[byReserve]++
	return g.noRoom(s.state, need)
}

// need returns how many bytes the database takes until it has copied a value of n bytes, which is in its log before
// that. After a large value some room stays for small ones, which nobody counts: when they touch the reserve,
// calls that wrote nothing may be ended.
func (g *Guard) need(n int64, s spaces) int64 {
	if n < small {
		return 2 * n
	}
	return 2*n + g.o.Uncopied() + int64(g.reserve.Keep(s.state)/marginPart)
}

// marginPart is which part of the reserve large values leave free above it.
const marginPart = 4

// small is a value that needs no look at the disk: it is one of those for which there is a
// reserve.
const small = 64 << 10

func (g *Guard) noRoom(free limit.Space, need int64) error {
	return &tool.Error{
		Code: "disk_reserve",
		Msg: fmt.Sprintf("the disk of the daemon has %s free, %s are kept for its record, and this needs %s",
			Size(free.Avail), Size(g.reserve.Keep(free)), Size(uint64(need))),
		Hint: "try again in a moment; if that does not help, delete sessions that are not needed " +
			"(sandboxd sessions delete ID), or have an operator make room on that disk",
	}
}

// Took notes that a call of a session took the reserve: its account is refused for a while, so
// that it cannot do that all the time.
func (g *Guard) Took(session string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name := g.sessions[session].Account; name != "" {
		g.account(name).until = time.Now().Add(penalty)
	}
}

// penalty is how long an account is refused whose call took the reserve.
const penalty = 5 * time.Second

// Over reports whether the account of a session keeps so much that its calls must end: twice
// what is free for all others.
func (g *Guard) Over(session string) bool {
	g.mu.Lock()
	s, old := g.space, time.Since(g.looked) > soonest
	g.mu.Unlock()
	if old {
		s = g.look()
		g.attend()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := g.sessions[session].Account
	a := g.accounts[name]
	if a == nil {
		return false
	}
	half := account{files: a.files / 2, values: a.values / 2, since: a.since / 2}
	if g.o.PerAccount > 0 {
		half = *a
	}
	return g.over(name, &half, s) != nil
}

// over says why an account may not have more, or nil. Whoever holds g.mu calls it.
func (g *Guard) over(name string, a *account, s spaces) error {
	values := a.values + a.since
	much := func(kept int64, s limit.Space) (most int64, is bool) {
		most = g.room(s)
		if g.o.PerAccount > 0 {
			most = g.o.PerAccount
		}
		// An account that keeps next to nothing is not what takes a disk that is nearly full.
		return most, kept > max(most, int64(g.reserve.Keep(s)/fallen))
	}
	kept, what := a.files+values, "private files (/tmp and caches) and variables"
	most, is := much(kept, s.state)
	if !s.same && g.o.PerAccount == 0 {
		kept, what = values, "variables"
		if most, is = much(kept, s.state); !is {
			kept, what = a.files, "private files (/tmp and caches)"
			most, is = much(kept, s.private)
		}
	}
	if !is {
		return nil
	}
	return &tool.Error{
		Code: "account_disk",
		Msg: fmt.Sprintf("the sessions of account %s keep %s in %s, and %s is the most that one account may have now",
			name, Size(uint64(kept)), what, Size(uint64(most))),
		Hint: "make room: delete sessions that are not needed (sandboxd sessions delete ID), or variables; " +
			"an operator can raise limits.accountDisk",
	}
}

// account returns the account of this name. Whoever holds g.mu calls it.
func (g *Guard) account(name string) *account {
	a := g.accounts[name]
	if a == nil {
		a = &account{}
		g.accounts[name] = a
	}
	return a
}

// Forget takes what a deleted session kept from its account.
func (g *Guard) Forget(session string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	k, ok := g.sessions[session]
	if !ok {
		return
	}
	delete(g.sessions, session)
	a := g.account(k.Account)
	a.files -= k.files
	a.values -= k.Values
	g.measured = time.Time{} // some of its room may not be known yet
}

// unmeasured is what a directory tree counts as that is too deep for a path.
const unmeasured = 1 << 50

// Size returns a number of bytes for people.
func Size(n uint64) string {
	const unit = 1024
	switch {
	case n < unit:
		return fmt.Sprintf("%d bytes", n)
	case n < unit*unit:
		return fmt.Sprintf("%d KiB", n/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
	}
	if n >= unmeasured {
		return "more than can be measured"
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
}

// Stop ends all measuring.
func (g *Guard) Stop() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.work.Wait()
}

// Close closes the files in reserve, when the database is closed.
func (g *Guard) Close() {
	if g != nil {
		g.held.close()
	}
}
