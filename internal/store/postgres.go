package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// SharedOptions says where the PostgreSQL database is that several daemons share.
type SharedOptions struct {
	URL      string        // postgres://user@host/database, without a password
	Password string        // "" for none
	Timeout  time.Duration // how long a transaction waits for the database; 0 is 5 s
	MaxConns int           // connections of this daemon; 0 is 10; at least 3
	// Daemon is the id of this daemon, which its rows carry. No other daemon may have it, and it may not change.
	Daemon string
	AsIs   bool // as in [Options]
}

// shared is what only a [DB] over PostgreSQL has.
type shared struct {
	o      SharedOptions
	config *pgx.ConnConfig // for the connections of transactions
	offset atomic.Int64    // of the database's clock, in nanoseconds
	away   atomic.Int64    // since when the database does not answer, in Unix nanoseconds; 0 if it does
	said   atomic.Value    // string: why it does not answer
	barred atomic.Int64    // reads are refused until then, in Unix nanoseconds; 0 is never
	life   life
	// writing is the transaction of the Write that is going on; guarded by turns.
	writing *sql.Tx
	alone   bool // DB.Alone holds the writer's connection; guarded by turns

	stop      context.CancelFunc // ends what listens for notices
	listening sync.WaitGroup
}

// writeLock is the advisory lock that every write holds until it is committed. So one daemon writes at a time, as
// one goroutine does over a file: a write sees everything that was written before it, and numbers of sequences
// become visible in their order.
const writeLock = 0x73627864

// OpenShared opens a database of PostgreSQL, and brings up to date the schemas that have tables for it. Several
// daemons may do that at once. It waits for a database that does not answer until ctx ends.
func OpenShared(ctx context.Context, o SharedOptions, schemas ...Schema) (*DB, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.MaxConns == 0 {
		o.MaxConns = 10
	}
	where := Where(o.URL)
	config, err := sharedConfig(o)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", where, err)
	}
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	db := &DB{
		stmts: map[string]*sql.Stmt{}, asIs: o.AsIs,
		shared: &shared{o: o, config: config, stop: stop},
	}
	db.ending, db.end = context.WithCancel(context.Background())
	db.writer = stdlib.OpenDB(*config, stdlib.OptionAfterConnect(db.connected))
	db.writer.SetMaxOpenConns(1)
	db.reader = stdlib.OpenDB(*config, stdlib.OptionAfterConnect(db.connected))
	db.reader.SetMaxOpenConns(max(o.MaxConns-2, 1)) // the writer and listen have one each
	db.reader.SetMaxIdleConns(max(o.MaxConns-2, 1))
	for !o.AsIs {
		if err = migrate(ctx, db, schemas); err == nil {
			err = clearShared(db.reader.PingContext(ctx)) // clearShared notes which database this is
		}
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", where, err), db.Close())
	}
	db.shared.listening.Go(func() { db.listen(listening) })
	return db, nil
}

// Where returns the address of a database without its secrets.
func Where(url string) string {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return "of store.url"
	}
	return fmt.Sprintf("%q of user %q at %s", config.Database, config.User,
		net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
}

// CheckURL refuses a text that is no address of a database, and one with a password.
func CheckURL(url string) error {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return errors.New("it does not begin with postgres://")
	}
	if _, err := pgx.ParseConfig(url); err != nil {
		return errors.New("it is not an address of PostgreSQL, such as postgres://user@host:5432/database")
	}
	if u, err := neturl.Parse(url); err != nil || hasPassword(u) {
		return errors.New("it has a password, which process lists would show: put that into store.passwordFile")
	}
	return nil
}

// near reports whether a host is this machine: a socket or a loopback address.
func near(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// allNear reports whether all hosts of an address are this machine, because one setting of TLS holds for all.
func allNear(config *pgx.ConnConfig) bool {
	far := func(f *pgconn.FallbackConfig) bool { return !near(f.Host) }
	return near(config.Host) && !slices.ContainsFunc(config.Fallbacks, far)
}

func hasPassword(u *neturl.URL) bool {
	_, has := u.User.Password()
	return has || u.Query().Has("password") || u.Query().Has("sslpassword")
}

func sharedConfig(o SharedOptions) (*pgx.ConnConfig, error) {
	if err := CheckURL(o.URL); err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, errors.New("cannot happen, the address was checked")
	}
	if u, err := neturl.Parse(o.URL); err == nil && !allNear(config) && !u.Query().Has("sslmode") {
		q := u.Query() // by default the driver would go on without TLS if the server has none
		q.Set("sslmode", "verify-full")
		u.RawQuery = q.Encode()
		if config, err = pgx.ParseConfig(u.String()); err != nil {
			return nil, errors.New("the address has no sslmode, and TLS with a known certificate cannot be set up")
		}
	}
	if o.Password != "" {
		config.Password = o.Password
	}
	limit := strconv.Itoa(int(o.Timeout.Milliseconds()))
	name := daemons
	if o.AsIs {
		name = "sandboxd store"
	}
	for name, value := range map[string]string{
		"application_name": name, "lock_timeout": limit, "statement_timeout": limit,
		// The server ends the write of a daemon that stopped in the middle after so long.
		"idle_in_transaction_session_timeout": limit,
	} {
		config.RuntimeParams[name] = value
	}
	config.ConnectTimeout = o.Timeout
	if config.ValidateConnect == nil { // after a failover, take the server that accepts writes
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return limited{c, 2 * o.Timeout}, nil
	}
	return config, nil
}

// limited is a connection that is closed if an answer takes too long, because a server that has stopped keeps no
// timeouts.
type limited struct {
	net.Conn
	limit time.Duration
}

func (c limited) Read(b []byte) (int, error) {
	t := time.AfterFunc(c.limit, func() { c.Conn.Close() })
	defer t.Stop()
	return c.Conn.Read(b)
}

// connected prepares a new connection for transactions.
func (db *DB) connected(ctx context.Context, c *pgx.Conn) error {
	m := c.TypeMap()
	m.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{wrapTruth}, m.TryWrapEncodePlanFuncs...)
	return db.shared.life.check(ctx, c)
}

// wrapTruth lets a truth value stand for 1 and 0, as columns of all databases have it here.

func wrapTruth(value any) (plan pgtype.WrappedEncodePlanNextSetter, next any, ok bool) {
	if b, is := value.(bool); is {
		return &truthPlan{}, number(b), true
	}
	return nil, nil, false
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

type truthPlan struct{ next pgtype.EncodePlan }

func (p *truthPlan) SetNext(next pgtype.EncodePlan) { p.next = next }

func (p *truthPlan) Encode(value any, buf []byte) ([]byte, error) {
	return p.next.Encode(number(value.(bool)), buf)
}

// Shared reports whether other daemons may change the database.
func (db *DB) Shared() bool { return db.shared != nil }

// Daemon returns the id that the rows of this daemon carry. It is "" if no other daemon shares the database.
func (db *DB) Daemon() string {
	if db.shared == nil {
		return ""
	}
	return db.shared.o.Daemon
}

// Text returns how a query reads a column of bytes into a string. Over a file this saves the driver a copy.
func (db *DB) Text(expression string) string {
	if db.shared != nil {
		return expression
	}
	return `CAST(` + expression + ` AS TEXT)`
}

// Now returns the time by the clock of the database, which is the same for all daemons.
func (db *DB) Now() time.Time {
	if db.shared == nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(db.shared.offset.Load()))
}

// Away returns since when the database does not answer, and why. It returns false if the last use succeeded.
func (db *DB) Away() (since time.Time, why string, away bool) {
	if db.shared == nil {
		return time.Time{}, "", false
	}
	ns := db.shared.away.Load()
	if ns == 0 {
		return time.Time{}, "", false
	}
	why, _ = db.shared.said.Load().(string)
	return time.Unix(0, ns).UTC(), why, true
}

// answered notes whether the database answers.
func (s *shared) answered(err error) {
	if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrRestored) {
		if s.barred.Load() == 0 {
			s.away.Store(0)
		}
		return
	}
	s.isAway(err)
}

func (s *shared) isAway(err error) {
	s.said.Store(err.Error())
	s.away.CompareAndSwap(0, time.Now().UnixNano())
}

// wrote notes whether the database accepts writes. If not, reads are refused for a moment too, because work that
// begins with them could not be written down.
func (s *shared) wrote(err error) {
	switch {
	case errors.Is(err, ErrFull), errors.Is(err, ErrReadOnly):
		s.barred.Store(time.Now().Add(lookEvery).UnixNano())
		s.isAway(err)
	case err == nil && !s.isBarred(): // a read-only database also accepts a write that changes nothing
		s.barred.Store(0)
		s.away.Store(0)
	}
}

// refused returns why nothing is read now. nil is no reason.
func (s *shared) refused() error {
	if s.life.ended() {
		return ErrRestored
	}
	if s.isBarred() {
		return errNotWritten
	}
	return nil
}

func (s *shared) isBarred() bool { return time.Now().UnixNano() < s.barred.Load() }
