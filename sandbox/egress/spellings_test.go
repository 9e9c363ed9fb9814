package egress

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

// Each spelling of a host gets the same verdict from the check of the command before it runs and when a
// program connects. Clients send some spellings as another one; the proxy refuses those as they are.
func TestOneVerdictBeforeTheRunAndAtTheConnection(t *testing.T) {
	network := guard.Network{
		AllowedDomains: []string{"a.test", "*.wild.test", "xn--bcher-kva.test"}, DeniedDomains: []string{"no.wild.test"},
	}
	sent := map[string]string{ // by clients, for what was typed
		"a%2etest":      "a.test",
		"ａ.test":        "a.test",
		"a。test":        "a.test",
		"bücher.test":   "xn--bcher-kva.test",
		"BÜCHER.test":   "xn--bcher-kva.test",
		"no。wild.test":  "no.wild.test",
		"а.test":        "xn--80a.test",
		"a.test@b.test": "b.test",
		"b.test@a.test": "a.test",
	}
	const allow, ask, deny = "allow", "ask", "deny"
	for _, tt := range []struct{ host, listed, other string }{
		{"a.test", allow, allow},
		{"A.TEST", allow, allow},
		{"a.test.", allow, allow},
		{"a%2etest", allow, allow},
		{"ａ.test", allow, allow},
		{"a。test", allow, allow},
		{"bücher.test", allow, allow},
		{"BÜCHER.test", allow, allow},
		{"xn--bcher-kva.test", allow, allow},
		{"x.wild.test", allow, allow},
		{"x.y.wild.test", allow, allow},
		{"X.Wild.Test.", allow, allow},
		{"no.wild.test", deny, deny},
		{"NO.wild.test", deny, deny},
		{"no.wild.test.", deny, deny},
		{"x.no.wild.test", allow, allow},
		{"no。wild.test", deny, deny},
		{"wild.test", deny, ask},
		{"xwild.test", deny, ask},
		{"a.test.b.test", deny, ask},
		{"xa.test", deny, ask},
		{"b.test", deny, ask},
		{"а.test", deny, ask}, // the first letter is Cyrillic
		{"intranet", deny, deny},
		{"a.test@b.test", deny, ask},
		{"b.test@a.test", allow, allow},
		{"10.0.0.1", deny, deny},
		{"0x0a000001", deny, deny},
		{"167772161", deny, deny},
		{"10.1", deny, deny},
		{"012.0.0.1", deny, deny},
		{"[::ffff:10.0.0.1]", deny, deny},
		{"[fd00::1]", deny, deny},
		{"169.254.169.254", deny, deny},
		{"a..test", deny, deny},
		{"-.test", deny, deny},
		{"a_b.test", deny, deny},
	} {
		for unlisted, want := range map[string]string{guard.UnlistedDeny: tt.listed, guard.UnlistedAsk: tt.other} {
			n := network
			n.Unlisted = unlisted
			if got := beforeTheRun(tt.host, n); got != want {
				t.Errorf("%s with unlisted %s: %s before the run, want %s", tt.host, unlisted, got, want)
			}
			if got := atTheConnection(t, cmp.Or(sent[tt.host], tt.host), n); got != want {
				t.Errorf("%s with unlisted %s: %s at the connection, want %s", tt.host, unlisted, got, want)
			}
			if sent[tt.host] != "" && atTheConnection(t, tt.host, n) != deny {
				t.Errorf("%s with unlisted %s passes as it is", tt.host, unlisted)
			}
		}
	}
}

func beforeTheRun(host string, n guard.Network) string {
	j := guard.JudgeCommand("curl 'http://"+host+"/'", "/w", "/h", guard.Settings{Network: n})
	switch {
	case len(j.Reasons) == 0:
		return "allow"
	case j.Reasons[0].Ask:
		return "ask"
	}
	return "deny"
}

func atTheConnection(t *testing.T, host string, n guard.Network) string {
	said := "deny"
	w := newWorld(t, func(o *CallOptions) {
		o.Network = n
		o.Judge = func(_ context.Context, k Connection) Verdict {
			v, _ := n.Connect(k.Host, k.Port)
			said = strings.ToLower(fmt.Sprint(v))
			return Verdict{}
		}
	})
	request := "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
	if _, err := w.exchangeAt(w.proxy(), []byte(request)); err != nil {
		t.Error(err)
	}
	return said
}
