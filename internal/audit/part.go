package audit

import "github.com/sandboxd/sandboxd/internal/part"

// Status is how far the record goes, and who knows of it.
type Status struct {
	Line   uint64        `json:"line"`             // the newest
	Kept   uint64        `json:"kept"`             // the newest that the head beside the key knows
	Anchor *AnchorStatus `json:"anchor,omitempty"` // absent without one
}

// Status returns how far the record goes.
func (l *Log) Status() Status {
	l.mu.Lock()
	s := Status{Line: l.tail.seq, Kept: l.kept.Seq}
	l.mu.Unlock()
	if l.anchoring != nil {
		a := l.anchoring.Status()
		s.Anchor = &a
	}
	return s
}

// Part returns the record as a part of the daemon.
func (l *Log) Part() part.Part {
	anchor := func(value func(AnchorStatus) float64) func() float64 {
		return func() float64 {
			if a := l.Status().Anchor; a != nil {
				return value(*a)
			}
			return 0
		}
	}
	return part.Part{
		Routes: handlers{l}.routes(),
		Status: func() any { return l.Status() },
		Metrics: []part.Gauge{
			{
				Name: "audit_lines", Help: "Lines of the record.",
				Value: func() float64 { return float64(l.Status().Line) },
			},
			{
				Name: "audit_kept_line", Help: "The newest line that the head beside the key knows.",
				Value: func() float64 { return float64(l.Status().Kept) },
			},
			{
				Name: "audit_anchored_line", Help: "The newest line that the anchor knows; 0 without one.",
				Value: anchor(func(a AnchorStatus) float64 { return float64(a.Line) }),
			},
			{
				Name: "audit_anchor_failing", Help: "1 while the anchor cannot be written.",
				Value: anchor(func(a AnchorStatus) float64 {
					if a.Failing != "" {
						return 1
					}
					return 0
				}),
			},
		},
	}
}
