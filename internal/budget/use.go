package budget

// reason is why something was refused.
type reason int

const (
	byBytes reason = iota
	byRequests
	byRate
	byConnections
	byIdle
	reasons
)

// Reasons are the names of what was refused, for metrics.
var Reasons = [reasons]string{"bytes", "requests", "rate", "connections", "idle"}

// Use is what is taken now, and what was refused since the start by [Reasons].
type Use struct {
	Bytes       int64
	Connections int
	Requests    int
	Refused     [reasons]uint64
}

// Use says what all accounts have.
func (b *Budget) Use() Use {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Use{Bytes: b.bytes, Connections: b.conns, Requests: b.requests, Refused: b.refused}
}
