package pipeline

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// maxRefusals is how many refused hosts a model reads about. The answer has all.
const maxRefusals = 5

// succeeded reports whether a call ended without an error. Programs often try connections that they do not need, so a
// refused one is then not worth a note to the model.
func succeeded(c *tool.Call) bool {
	x, ok := c.Output.Data.(interface{ Ended() (code int, why string) })
	if !ok {
		return c.Result.Status == tool.StatusSuccess
	}
	code, _ := x.Ended()
	return code == 0
}

// refusedConnections tells a model which hosts were refused to the call, and what would allow
// them.
func refusedConnections(c *tool.Call) string {
	var notes []string
	more := 0
	for _, r := range c.Network.Connections {
		if r.Verdict != egress.Denied {
			continue
		}
		if len(notes) == maxRefusals {
			more++
			continue
		}
		act := "connect " + net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
		if r.Protocol == egress.ProtocolDNS {
			act = "look-up of " + r.Host
		}
		notes = append(notes, "[sandbox: stopped "+act+"; "+whyRefused(r)+"]")
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("[sandbox: stopped %d more hosts]", more))
	}
	return strings.Join(notes, "\n")
}

// whyRefused says which setting would allow the host, or why none does.
func whyRefused(r egress.Row) string {
	setting, _, _ := strings.Cut(r.Rule, ":")
	reason := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, r.Reason)
	switch {
	case setting == "network.allowedDomains":
		return "allowed by network.allowedDomains"
	case setting == "network.unlisted":
		return reason + "; allowed by network.allowedDomains"
	case setting == "network.deniedDomains":
		return "refused by network.deniedDomains"
	case strings.HasPrefix(setting, "limits."):
		return "allowed by " + setting
	case reason == "":
		return "refused by " + r.Rule
	}
	return reason
}
