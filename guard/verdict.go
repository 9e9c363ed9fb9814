package guard

// Verdict is the outcome of judging, of the guard and of a whole call. The zero
// value denies.
type Verdict int

// The verdicts, strictest first.
const (
	Deny Verdict = iota
	Ask
	Allow
)

var verdictNames = [...]string{"deny", "ask", "allow"}

func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdictNames) {
		return "deny"
	}
	return verdictNames[v]
}

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; unknown text is Deny.
func (v *Verdict) UnmarshalText(b []byte) error {
	*v = Deny
	for i, n := range verdictNames {
		if n == string(b) {
			*v = Verdict(i)
		}
	}
	return nil
}
