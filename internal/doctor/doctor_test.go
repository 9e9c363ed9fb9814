package doctor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/doctor"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/sandbox"
)

// host is a sandbox that lets the scripts through that hold one of its holes.
type host struct {
	sandbox.Backend
	report  sandbox.Report
	holes   []string
	binds   error
	noBox   error
	status  int      // of what is no hole; 0 stands for 1
	denied  []string // of the box that was made
	require []string
}

func (h *host) Probe() sandbox.Report { return h.report }
func (h *host) Binds() error          { return errors.Join(h.binds, h.noBox) }

func (h *host) Box(_ context.Context, _ string, _ sandbox.Profile, s guard.Settings) (sandbox.Box, error) {
	h.denied, h.require = s.DeniedPaths, s.Require
	return box{h: h}, h.noBox
}

type box struct {
	sandbox.Box
	h *host
}

func (box) Close() error { return nil }

func (b box) Start(_ context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	script := s.Argv[len(s.Argv)-1]
	if slices.ContainsFunc(b.h.holes, func(hole string) bool { return strings.Contains(script, hole) }) {
		_, err := io.WriteString(s.Stdout, "done\n")
		return proc{0}, err
	}
	return proc{cmp.Or(b.h.status, 1)}, nil
}

type proc struct{ code int }

func (p proc) Wait() (sandbox.Exit, error) { return sandbox.Exit{Code: p.code}, nil }
func (proc) Apart() bool                   { return false }
func (proc) Sweep() []sandbox.Denial       { return nil }
func (proc) Terminate(time.Duration)       {}

func (proc) Dial(context.Context, uint16) (net.Conn, error) { return nil, net.ErrClosed }

func Example() {
	backend := &host{
		report: sandbox.Report{Isolation: "namespaces", Layers: []string{"seccomp"}}, holes: []string{"/dev/tcp"},
	}
	found, err := doctor.Examine(context.Background(), backend, doctor.Host{
		Profile: "strict", Dir: "/src", RoleSplit: "enforced",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range found {
		fmt.Println(f.Layer, f.Proved, f.What)
	}
	fmt.Println("failed:", doctor.Failed(found))
	// Output:
	// files true read a denied file: stopped
	// files true write to the system: stopped
	// processes true signal a process of the host: stopped
	// network false connect to the loopback of the host: NOT stopped done
	// privileges true run without no_new_privs: stopped
	// privileges true keep capabilities: stopped
	// seccomp true run without a system call filter: stopped
	// rung true the first: namespaces, Landlock and seccomp
	// seccomp true the kernel gives it
	// approved_files true what an approved call executes has the content that was approved
	// role_split true the daemon has a uid of its own
	// tool_rights false file tools and programs have the rights of the daemon, whoever calls: it may not take those of others; see docs/security.md, rights of tools
	// failed: true
}

func TestWhatWasNotTriedIsNotProved(t *testing.T) {
	found, err := doctor.Examine(
		t.Context(), &host{noBox: errors.New("no cage here")}, doctor.Host{RoleSplit: "advisory"},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Proved {
			t.Errorf("%+v is proved", f)
		}
	}
	if !doctor.Failed(found) || !strings.Contains(found[0].What, "not tried: no cage here") {
		t.Errorf("got %+v, want a failure that names the reason", found)
	}
}

// TestAnActWithoutItsProgramIsNotProved: a shell that found no program, or was killed, has tried nothing.
func TestAnActWithoutItsProgramIsNotProved(t *testing.T) {
	for _, status := range []int{126, 127, 137} {
		backend := &host{report: sandbox.Report{Isolation: "namespaces"}, status: status}
		found, err := doctor.Examine(t.Context(), backend, doctor.Host{RoleSplit: "advisory"})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("read a denied file: not tried: it ended with status %d", status)
		if f := found[0]; f.Proved || !strings.HasPrefix(f.What, want) || !doctor.Failed(found) {
			t.Errorf("%d: got %+v", status, f)
		}
	}
}

func TestTheRowsOfPartsAreShownAndDecideNothing(t *testing.T) {
	backend := &host{report: sandbox.Report{Isolation: "namespaces"}}
	h := doctor.Host{
		RoleSplit: "enforced", Idle: []string{"x has no effect"},
		Parts: []part.Finding{{What: "notes", OK: false, Why: "no index"}},
	}
	found, err := doctor.Examine(t.Context(), backend, h)
	if err != nil || doctor.Failed(found) {
		t.Fatalf("got %+v, %v, want no failure", found, err)
	}
	if idle := found[len(found)-2]; idle != (doctor.Finding{Layer: "settings", What: "x has no effect"}) {
		t.Errorf("the row of the settings is %+v", idle)
	}
	if last := found[len(found)-1]; last != (doctor.Finding{Layer: "notes", What: "no index"}) {
		t.Errorf("the last row is %+v", last)
	}
}

// What a host gives and lacks is a row each, with the reason; only what settings require has to be there.
func TestTheRowsOfAHost(t *testing.T) {
	report := sandbox.Report{
		Isolation: "landlock", Layers: []string{"landlock:7", "seccomp"},
		Missing: []string{"cgroup2: not delegated", "netns"},
	}
	h := doctor.Host{Settings: guard.Settings{Require: []string{"landlock", "netns"}}, RoleSplit: "advisory"}
	for split, says := range map[string]string{
		"enforced": "the daemon has a uid of its own", "advisory": "advisory: an agent has the uid of the daemon",
	} {
		h.RoleSplit = split
		found, err := doctor.Examine(t.Context(), &host{report: report}, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []doctor.Finding{
			{"rung", true, true, "the second: Landlock and seccomp without namespaces"},
			{"landlock:7", true, true, "the kernel gives it"},
			{"seccomp", false, true, "the kernel gives it"},
			{"cgroup2", false, false, "not delegated"},
			{"netns", true, false, "missing on this host"},
			{"role_split", false, split == "enforced", says},
		} {
			if !slices.ContainsFunc(found, func(f doctor.Finding) bool {
				return f.Layer == want.Layer && f.Needed == want.Needed && f.Proved == want.Proved &&
					strings.HasPrefix(f.What, want.What)
			}) {
				t.Errorf("%s: want %+v among %+v", split, want, found)
			}
		}
	}
}

// Whose rights tools have is said where others than the daemon's own uid call.
func TestToolRightsAreSaid(t *testing.T) {
	for _, tt := range []struct {
		split string
		takes bool
		want  string
	}{
		{"enforced", true, "file tools and programs have the rights of the uid that calls"},
		{"enforced", false, "file tools and programs have the rights of the daemon"},
		{"advisory", false, ""},
	} {
		found, err := doctor.Examine(t.Context(), &host{}, doctor.Host{RoleSplit: tt.split, TakesRights: tt.takes})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, f := range found {
			if f.Layer == "tool_rights" {
				said = f.What
				if f.Needed || f.Proved != tt.takes {
					t.Errorf("%+v: got %+v", tt, f)
				}
			}
		}
		if !strings.HasPrefix(said, tt.want) || tt.want == "" && said != "" {
			t.Errorf("%+v: got %q", tt, said)
		}
	}
}

func TestAMissingLayerFailsWhereItIsRequired(t *testing.T) {
	report := sandbox.Report{Isolation: "landlock", Missing: []string{"cgroup2: not delegated", "netns"}}
	for require, want := range map[string]bool{"cgroup2": true, "netns": true, "userns": false} {
		backend := &host{report: report}
		h := doctor.Host{Settings: guard.Settings{Require: []string{require}}, RoleSplit: "advisory"}
		found, err := doctor.Examine(t.Context(), backend, h)
		if err != nil || doctor.Failed(found) != want {
			t.Errorf("%s is required: failed is %v, %v, want %v", require, doctor.Failed(found), err, want)
		}
		if len(backend.require) > 0 || !slices.Contains(backend.denied, "/etc/hosts") {
			t.Errorf("the box requires %v and denies %v", backend.require, backend.denied)
		}
	}
}

// TestAHostThatCannotBind is told of, and is no failure: each question names it.
func TestAHostThatCannotBind(t *testing.T) {
	found, err := doctor.Examine(t.Context(), &host{binds: errors.New("no listener")}, doctor.Host{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Layer == "approved_files" })
	if i < 0 || found[i].Proved || found[i].Needed || !strings.HasPrefix(found[i].What, "no listener; ") {
		t.Errorf("got %+v", found)
	}
}
