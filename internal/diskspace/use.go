package diskspace

// reason is why something was refused.
type reason int

const (
	byReserve reason = iota
	byAccount
	reasons
)

// Reasons are the names of what was refused, for metrics.
var Reasons = [reasons]string{"reserve", "account"}

// Use is what is free, what is kept, and what was refused since the start by [Reasons].
type Use struct {
	Free    uint64 `json:"free"` // with the reserve, on the file system of the record
	Reserve uint64 `json:"reserve"`
	Low     bool   `json:"low"`    // the reserve is touched, on either file system
	Shared  bool   `json:"shared"` // private files are on the file system of the record
	Files   int64  `json:"files"`
	Values  int64  `json:"variables"`
	Full    int    `json:"full_accounts"` // that are refused
	// Unheld is why the log and the database have no blocks in reserve; "" when they have.
	Unheld string `json:"no_blocks,omitempty"`

	Refused [reasons]uint64 `json:"-"`
}

// Use looks at the disks; who keeps what is from the last measuring.
func (g *Guard) Use() Use {
	s := g.look()
	g.attend()
	g.mu.Lock()
	defer g.mu.Unlock()
	u := Use{
		Free: s.state.Avail, Reserve: g.reserve.Keep(s.state), Shared: s.same, Refused: g.refused,
		Low: g.low(s),
	}
	if g.unheld != nil {
		u.Unheld = g.unheld.Error()
	}
	for name, a := range g.accounts {
		u.Files += a.files
		u.Values += a.values
		if g.over(name, a, s) != nil {
			u.Full++
		}
	}
	return u
}
