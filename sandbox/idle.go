package sandbox

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
)

// Idle names the settings that have no effect on this host. The report must come from
// [Box.Report].
func (r Report) Idle(s guard.Settings) []string {
	var out []string
	say := func(setting, why string) { out = append(out, setting+" has no effect on this host: "+why) }
	for _, layer := range s.Require {
		if err := r.Require(guard.Settings{Require: []string{layer}}); err != nil {
			out = append(out, fmt.Sprintf("require: nothing runs on this host: %v", err))
		}
	}
	if r.Isolation == "" {
		return append(out, "no program runs on this host: nothing confines it, see sandboxd doctor")
	}
	noNet := r.Isolation == "landlock"
	switch {
	case noNet && s.Network.AllowLocalBinding:
		say("network.allowLocalBinding", "without network namespaces no program opens a socket")
	case !noNet && !s.Network.AllowLocalBinding && r.Landlock < landlockNet:
		say("network.allowLocalBinding: false", fmt.Sprintf("it needs Landlock %d, and this is %d; "+
			"a program may listen on the loopback of its own call", landlockNet, r.Landlock))
	}
	if noNet && s.Network.Reaches() {
		say("network", "without network namespaces no program opens a socket, so none reaches a host")
	}
	for _, limit := range slices.Sorted(maps.Keys(r.Limits)) {
		if r.Limits[limit] == "nothing" {
			say("limits."+limit, "nothing enforces it for root without control groups")
		}
	}
	return out
}

// landlockNet is the version of Landlock that can refuse to listen.
const landlockNet = 4
