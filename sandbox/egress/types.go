package egress

import (
	"context"
	"slices"
)

// Connection is what is judged when a program connects.
type Connection struct {
	Host     string // canonical, see guard.CanonicalHost
	Port     int
	Protocol string // ProtocolTLS, …
	Method   string // of an HTTP request that can be seen; "" of all else
	Path     string // likewise, without the query
	Via      string // ViaTransparent, …
}

// What a connection carries.
const (
	ProtocolTLS  = "tls"
	ProtocolHTTP = "http"
	ProtocolTCP  = "tcp"
	ProtocolDNS  = "dns" // a look-up that was refused; in a ledger alone
	ProtocolUDP  = "udp" // is always refused; in a ledger alone
)

// How a program connects.
const (
	ViaTransparent = "transparent" // by the name of the host, as if there were no sandbox
	ViaConnect     = "connect"     // through the proxy: CONNECT
	ViaSocks5      = "socks5"      // through the proxy: SOCKS5
	ViaProxy       = "proxy"       // through the proxy: a request with an absolute address
	ViaFetch       = "fetch"       // a tool of the daemon
)

// Verdict is what is decided about a connection. The zero value refuses it.
type Verdict struct {
	Allow  bool
	Rule   string // what decided: a setting, the id of a rule, or "person"
	Reason string
	Hint   string // for the model: what would allow it
	// Ended is closed when what was allowed is forbidden from then on: the connection is
	// reset. nil: never.
	Ended <-chan struct{}
	// Pace is how fast what was allowed may connect and pass bytes. nil: nothing bounds it.
	Pace *Pace
}

// Judge decides each new connection, and each HTTP request that can be seen: the connection is
// judged first, without a method, except for requests that the proxy gets with an absolute address.
// It may wait for a person; ctx ends with the call.
type Judge func(ctx context.Context, c Connection) Verdict

// Ledger is what one call connected to.
type Ledger struct {
	Connections []Row `json:"connections"`
	Omitted     int   `json:"omitted"` // rows that there was no room for
	// WaitedMS is how long connections waited for the [Pace] of the account, all together.
	WaitedMS int64 `json:"waited_ms,omitempty"`
}

// MaxRows is how many rows a ledger has at most.
const MaxRows = 64

// Row is all connections of a call to one host and port with one verdict. Protocol, Via, Rule and
// Reason are those of the first one. It never has a path, query or header.
type Row struct {
	Host       string `json:"host"`
	Port       int    `json:"port"`
	Protocol   string `json:"protocol"`
	Via        string `json:"via"`
	Verdict    string `json:"verdict"` // allow or deny
	Rule       string `json:"rule,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Address    string `json:"address,omitempty"` // of the host, as it was dialled last
	Count      int    `json:"count"`
	BytesIn    int64  `json:"bytes_in"`
	BytesOut   int64  `json:"bytes_out"`
	DurationMS int64  `json:"duration_ms"`
}

// The verdicts of a row.
const (
	Allowed = "allow"
	Denied  = "deny"
)

// Add puts a row into the ledger, or adds its numbers to the row of the same host, port and
// verdict.
func (l *Ledger) Add(r Row) {
	i := slices.IndexFunc(l.Connections, func(have Row) bool {
		return have.Host == r.Host && have.Port == r.Port && have.Verdict == r.Verdict
	})
	switch {
	case i >= 0:
		have := &l.Connections[i]
		have.Count += r.Count
		have.BytesIn += r.BytesIn
		have.BytesOut += r.BytesOut
		have.DurationMS += r.DurationMS
		if r.Address != "" {
			have.Address = r.Address
		}
	case len(l.Connections) >= MaxRows:
		if r.Count > 0 { // what only has numbers belongs to a row that was counted before
			l.Omitted++
		}
	default:
		l.Connections = append(l.Connections, r)
	}
}

// Merge adds what another ledger has.
func (l *Ledger) Merge(other Ledger) {
	for _, r := range other.Connections {
		l.Add(r)
	}
	l.Omitted += other.Omitted
	l.WaitedMS += other.WaitedMS
}

// Clock is the wall clock of a call.
type Clock interface {
	// Pause stops it until resume is called. It may be stopped several times at once.
	Pause() (resume func())
}

type clockKey struct{}

// WithClock gives the clock of a call to its [Judge].
func WithClock(ctx context.Context, c Clock) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// Pause stops the clock of the call while a person thinks.
func Pause(ctx context.Context) (resume func()) {
	if c, ok := ctx.Value(clockKey{}).(Clock); ok {
		return c.Pause()
	}
	return func() {}
}
