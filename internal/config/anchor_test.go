package config

import (
	"strings"
	"testing"
)

// TestAnAnchorIsOutOfReach: of agents, and of whoever loses the state directory.
func TestAnAnchorIsOutOfReach(t *testing.T) {
	h := newHome(t)
	c, err := h.load("{}")
	if err != nil {
		t.Fatal(err)
	}
	for anchor, want := range map[string]string{
		"{file: relative}":                           "relative",
		"{file: " + h.dir + "/head}":                 "agents can write",
		"{file: " + c.Paths.StateDir + "/head}":      "another disk",
		"{file: " + c.Paths.KeyDir + "/head}":        "another disk",
		"{command: [send]}":                          "relative",
		"{command: [" + h.dir + "/send]}":            "agents can write",
		"{command: [/bin/sh, " + h.dir + "/send]}":   "agents can write",
		"{file: /mnt/head, command: [/usr/bin/env]}": "not both",
		"{file: /mnt/head, every: 999ms}":            "a second or more",
		"{file: /mnt/head, often: 1m}":               "often",
		"{file: /mnt/head, every: 1s}":               "",
		"{command: [/usr/bin/env, now]}":             "",
	} {
		_, err := h.load("audit: {anchor: " + anchor + "}")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", anchor, err, want)
		}
	}
	c, err = h.load("audit: {anchor: {every: 5m}}")
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "audit.anchor.every has no effect") {
		t.Errorf("a time for no anchor: %v, %q", err, c.Warnings)
	}
}
