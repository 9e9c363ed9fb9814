package config

import (
	"bytes"
	"strings"
)

// atStart are the keys that a running daemon cannot change: its places, what its
// cage and its database were opened with, and what sessions already hold.
var atStart = []string{
	"paths.", "workspace.", "sessions.perAccount", "approvals.", "vars.", "store.", "audit.", "limits.", "metrics.",
	"api.group", "api.mode", "api.operatorGroup", "api.operatorMode", "mcp.listen", "mcp.tokenFile",
}

// NeedsRestart is the first key in which next differs from c and that cannot
// change while a daemon runs; "" when there is none.
func (c *Config) NeedsRestart(next *Config) string {
	if c.File != next.File || c.Home != next.Home {
		return "the place of the configuration"
	}
	now := map[string][]byte{}
	for _, v := range c.Explain() {
		now[v.Key] = v.Value
	}
	for _, v := range next.Explain() {
		if bytes.Equal(now[v.Key], v.Value) {
			continue
		}
		for _, prefix := range atStart {
			if strings.HasPrefix(v.Key, prefix) {
				return v.Key
			}
		}
	}
	return ""
}
