package config

import (
	"bytes"
	"strings"
)

// atStart are the keys that a running daemon cannot change: its places, the settings with which its cage and its
// database were opened, and those that sessions already hold.
var atStart = []string{
	"paths.", "workspace.", "sessions.perAccount", "approvals.", "vars.", "store.", "audit.", "limits.", "metrics.",
	"api.group", "api.mode", "api.operatorGroup", "api.operatorMode", "mcp.listen", "mcp.tokenFile",
}

// NeedsRestart returns the first key that next changes and that a running daemon cannot change. "" is none.
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
