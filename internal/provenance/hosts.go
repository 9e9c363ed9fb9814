package provenance

import (
	"slices"
	"strings"
	"unicode"
)

// Hosts are the hosts that text of the web came from, as the database keeps them: one a line.
// The first [MaxHosts] have names; [OtherHosts] stands for the rest.
type Hosts string

const (
	MaxHosts   = 8
	OtherHosts = "and others"

	maxHostName = 253 // of DNS
)

// And adds names. What cannot be the name of a host is one of the others.
func (h Hosts) And(names ...string) Hosts {
	list := h.List()
	others := slices.Contains(list, OtherHosts)
	list = slices.DeleteFunc(list, func(s string) bool { return s == OtherHosts })
	for _, name := range names {
		switch {
		case name == "" || slices.Contains(list, name):
		case len(list) == MaxHosts || len(name) > maxHostName || strings.ContainsFunc(name, notInName):
			others = true
		default:
			list = append(list, name)
		}
	}
	if others {
		list = append(list, OtherHosts)
	}
	return Hosts(strings.Join(list, "\n"))
}

func notInName(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }

// List returns the names, [OtherHosts] last. The zero value has none.
func (h Hosts) List() []string {
	if h == "" {
		return nil
	}
	return strings.Split(string(h), "\n")
}
