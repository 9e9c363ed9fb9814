// Package doctor proves on a host what the sandbox stops.
//
// Examine starts a sandbox as calls get it and tries in it what it must stop: to
// read a denied file, to signal a process of the host, to connect to the loopback
// of the host, and so on. The finding of such an act says whether it was stopped.
// Other findings are read and not tried: what the kernel gives, whether approved
// files are bound, whose uid and rights the daemon and its tools have. Settings
// without effect and the rows of features are shown, and never make [Failed] true.
//
//	// backend is the sandbox.Backend of the daemon, settings its normalised guard.Settings
//	found, err := doctor.Examine(ctx, backend, doctor.Host{
//		Settings: settings, Profile: sandbox.ProfileStrict, Dir: "/src",
//	})
//	if err != nil || doctor.Failed(found) {
//		os.Exit(1)
//	}
//
// An act is not proved if its shell did not start, could not run a program, or was
// ended by a signal. What the kernel does not give is a finding, needed when
// sandbox.require names it. A proof holds for this moment and this host: it says
// nothing about bugs of the kernel that nobody tried.
//
// After an error nothing is proved. Call one Examine at a time for a backend: its
// sandbox always has the id doctor.
//
// A new act is a row of forbiddenActs (acts.go). A row about a feature belongs to the
// definition of the feature (package part) and comes in Host.Parts. The tests here
// use a fake sandbox. tests/integration/doctor_test.go uses the real one, also without
// what the kernel gives. The package repairs nothing.
package doctor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Finding is what is known about one layer.
type Finding struct {
	Layer  string `json:"layer"`
	Needed bool   `json:"needed"` // without it nothing is confined, or sandbox.require names it
	Proved bool   `json:"proved"`
	What   string `json:"what"` // what was tried, or what its absence means
}

// Failed reports whether something that is needed is not proved.
func Failed(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Needed && !f.Proved })
}

// Host is the configuration that is examined.
type Host struct {
	Settings  guard.Settings
	Profile   sandbox.Profile // sandbox profile of calls
	Dir       string          // a workspace, where the acts are tried
	RoleSplit string          // "enforced" when the daemon has a uid of its own, else "advisory"
	// TakesRights: tools have the rights of the uid that calls.
	TakesRights bool
	Idle        []string       // settings that have no effect; they are shown and decide nothing
	Parts       []part.Finding // of the features; the same
}

// Examine tries the forbidden acts in a sandbox of the backend and says what the
// kernel gives. The error is for what kept it from examining at all.
func Examine(ctx context.Context, backend sandbox.Backend, h Host) ([]Finding, error) {
	acts, closeListener, err := forbiddenActs()
	if err != nil {
		return nil, err
	}
	defer closeListener()
	rep := backend.Probe()
	found := tryAll(ctx, backend, h, acts)
	found = append(found, Finding{"rung", true, rep.Isolation != "", levels[rep.Isolation]})
	for _, layer := range rep.Layers {
		found = append(found, Finding{layer, required(h.Settings, layer), true, "the kernel gives it"})
	}
	for _, layer := range rep.Missing {
		name, why, _ := strings.Cut(layer, ": ")
		found = append(found, Finding{name, required(h.Settings, layer), false, cmp.Or(why, "missing on this host")})
	}
	found = append(found, approvedFiles(backend), roleSplit(h.RoleSplit))
	if h.RoleSplit == "enforced" {
		found = append(found, toolRights(h.TakesRights))
	}
	for _, line := range h.Idle {
		found = append(found, Finding{Layer: "settings", What: line})
	}
	for _, f := range h.Parts {
		found = append(found, Finding{Layer: f.What, Proved: f.OK, What: f.Why})
	}
	return found, nil
}

// levels say what confines a program, from the strongest isolation level down.
var levels = map[string]string{
	"namespaces": "the first: namespaces, Landlock and seccomp",
	"landlock": "the second: Landlock and seccomp without namespaces; " +
		"programs have no sockets, and some files that the settings let them write stay read-only",
	"": "none: nothing runs",
}

func required(s guard.Settings, layer string) bool {
	name, _, _ := strings.Cut(layer, ":")
	return slices.Contains(s.Require, name)
}

func approvedFiles(backend sandbox.Backend) Finding {
	if err := backend.Binds(); err != nil {
		return Finding{"approved_files", false, false, err.Error() + "; questions name each file as not bound"}
	}
	return Finding{"approved_files", false, true, "what an approved call executes has the content that was approved"}
}

func roleSplit(split string) Finding {
	if split == "enforced" {
		return Finding{"role_split", false, true, "the daemon has a uid of its own"}
	}
	return Finding{
		"role_split", false, false,
		split + ": an agent has the uid of the daemon or is an operator, so if it leaves the sandbox it could answer " +
			"its own questions",
	}
}

// toolRights matters where others than the daemon's own uid call.
func toolRights(taken bool) Finding {
	if taken {
		return Finding{"tool_rights", false, true, "file tools and programs have the rights of the uid that calls"}
	}
	return Finding{
		"tool_rights", false, false,
		"file tools and programs have the rights of the daemon, whoever calls: it may not take those of others; " +
			"see docs/security.md, rights of tools",
	}
}

// tryAll tries the acts in one sandbox. A layer that is missing does not end it: it
// becomes a finding of its own.
func tryAll(ctx context.Context, backend sandbox.Backend, h Host, acts []act) []Finding {
	settings := h.Settings
	settings.DeniedPaths = append(slices.Clone(settings.DeniedPaths), deniedForTest)
	settings.Require = nil
	box, cannot := backend.Box(ctx, "doctor", h.Profile, settings)
	if cannot == nil {
		defer box.Close()
	}
	var found []Finding
	for _, a := range acts {
		f := Finding{Layer: a.layer, Needed: true}
		var out string
		code, err := 0, cannot
		if err == nil {
			out, code, err = try(ctx, box, h.Dir, a.script)
		}
		switch {
		case err != nil:
			f.What = a.what + ": not tried: " + err.Error()
		case code > 125: // bash could not run it, or a signal ended it
			f.What = fmt.Sprintf("%s: not tried: it ended with status %d %s", a.what, code, strings.TrimSpace(out))
		case code == 0:
			f.What = a.what + ": NOT stopped " + strings.TrimSpace(out)
		default:
			f.Proved, f.What = true, a.what+": stopped"
		}
		found = append(found, f)
	}
	return found
}

func try(ctx context.Context, box sandbox.Box, dir, script string) (out string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var b bytes.Buffer
	argv := []string{"bash", "--norc", "--noprofile", "-c", script}
	proc, err := box.Start(ctx, sandbox.Spec{Argv: argv, Dir: dir, Stdout: &b, Stderr: &b})
	if err != nil {
		return "", 0, err
	}
	exit, err := proc.Wait()
	return b.String(), exit.Code, err
}
