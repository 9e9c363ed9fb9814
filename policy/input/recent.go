package input

// Recent counts what was judged before the call. Package policy fills it where a rule reads it,
// so it is absent from other documents.
type Recent struct {
	Session Windows `json:"session"`
	Account Windows `json:"account"`
}

// Windows are the last minute, hour and day. Each reaches back up to a twelfth further.
type Windows struct {
	Minute Count `json:"minute"`
	Hour   Count `json:"hour"`
	Day    Count `json:"day"`
}

// Count counts the calls that ran, or are under way, and the verdicts about calls that have
// ended.
type Count struct {
	Calls    int            `json:"calls"`
	Tools    map[string]int `json:"tools"`
	Rules    map[string]int `json:"rules"` // by id: calls about which the rule had a finding
	Verdicts Verdicts       `json:"verdicts"`
}

// Verdicts are numbers of calls.
type Verdicts struct {
	Allow int `json:"allow"`
	Ask   int `json:"ask"`
	Deny  int `json:"deny"`
}

// Add counts a verdict by its name.
func (v *Verdicts) Add(name string, n int) {
	switch name {
	case "allow":
		v.Allow += n
	case "ask":
		v.Ask += n
	case "deny":
		v.Deny += n
	}
}

func recentValue(r *Recent) map[string]any {
	return map[string]any{"session": windowsValue(r.Session), "account": windowsValue(r.Account)}
}

func windowsValue(w Windows) map[string]any {
	return map[string]any{"minute": countValue(w.Minute), "hour": countValue(w.Hour), "day": countValue(w.Day)}
}

func countValue(c Count) map[string]any {
	return map[string]any{
		"calls": c.Calls, "tools": numbers(c.Tools), "rules": numbers(c.Rules),
		"verdicts": map[string]any{"allow": c.Verdicts.Allow, "ask": c.Verdicts.Ask, "deny": c.Verdicts.Deny},
	}
}

func numbers(m map[string]int) map[string]any {
	out := make(map[string]any, len(m))
	for k, n := range m {
		out[k] = n
	}
	return out
}
