package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/limit"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// needGroups skips where memory and processes of a call are not counted together.
func needGroups(t *testing.T, b Backend) {
	t.Helper()
	needCage(t, b)
	if b.(*cage).groups != nil {
		return
	}
	needs.Missing(t, "no control groups: %s", b.(*cage).noGroups)
}

// TestLimit_MemoryOfAllProcessesTogether: many processes that each stay below the
// limit pass it together. One that is alone gets the same answer.
func TestLimit_MemoryOfAllProcessesTogether(t *testing.T) {
	backend := newCage(t, Options{})
	needGroups(t, backend)
	needs.Program(t, "perl")
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	// Those that are not killed sleep. The first that is killed ends the call of eight, however late that is.
	const eight = `trap 'exit 3' USR1; for i in 1 2 3 4 5 6 7 8; do
	{ perl -e '$x="a"x(24<<20); sleep 1000'; kill -USR1 $$; } & done; wait`
	for _, tt := range []struct{ name, script, limit string }{
		{"below", `perl -e '$x="a"x(8<<20)'`, ""},
		{"one process", `perl -e '$x="a"x(200<<20)'`, "memory"},
		{"eight processes", eight, "memory"},
		{"the shell goes on", `perl -e '$x="a"x(200<<20)'; echo still here`, "memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			e := runSpec(t, box, Spec{
				Argv: []string{"sh", "-c", tt.script}, Dir: ws, Stdout: &out, Stderr: &out,
				Limits: guard.Limits{MemoryBytes: 64 << 20, WallSeconds: 240},
			})
			if e.Limit != tt.limit {
				t.Errorf("exit %+v, want the limit %q: %s", e, tt.limit, out.String())
			}
		})
	}
	if e, out := runIn(t, box, ws, "echo", "still here"); e.Code != 0 || e.Limit != "" || out != "still here\n" {
		t.Errorf("the next call: %+v %q", e, out)
	}
}

// TestLimit_ProcessesAreCounted: below the least number that a pid namespace takes
// as its own limit.
func TestLimit_ProcessesAreCounted(t *testing.T) {
	backend := newCage(t, Options{})
	needGroups(t, backend)
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	var out bytes.Buffer
	e := runSpec(t, box, Spec{
		Argv: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 100 & done; echo all"}, Dir: ws,
		Stdout: &out, Stderr: &out, Limits: guard.Limits{Processes: 8},
	})
	if strings.Contains(out.String(), "all") || e.Code == 0 {
		t.Errorf("twelve processes run under a limit of eight: %+v %s", e, out.String())
	}
	if !slices.ContainsFunc(e.Denials, func(d Denial) bool {
		return d.Act == "fork" &&
			d.Setting == "limits.processes"
	}) {
		t.Errorf("the denials do not say so: %+v", e.Denials)
	}
}

// TestLimit_GroupsLeaveNothing looks at the host's tree.
func TestLimit_GroupsLeaveNothing(t *testing.T) {
	backend := newCage(t, Options{})
	needGroups(t, backend)
	dirs := backend.(*cage).groups.Dirs
	ws := shortTemp(t)
	for _, session := range []string{"a", "b", "c"} {
		box, err := backend.Box(t.Context(), session, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		if err != nil {
			t.Fatal(err)
		}
		if got := box.Report().Limits["memoryBytes"]; !strings.HasPrefix(got, "cgroup") {
			t.Errorf("memory is held by %q", got)
		}
		runSpec(t, box, Spec{Argv: []string{"true"}, Dir: ws})
		if err := backend.(*cage).Forget(session); err != nil {
			t.Fatal(err)
		}
	}
	if err := backend.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if _, err := os.Stat(d); err == nil {
			left, _ := filepath.Glob(d + "/*/*")
			t.Errorf("%s is left: %q", d, left)
		}
	}
}

// TestLimit_SessionsYield: a session that a program begins has no share of the processors of its own.
func TestLimit_SessionsYield(t *testing.T) {
	backend := newCage(t, Options{})
	needGroups(t, backend)
	groups := backend.(*cage).groups
	if !strings.HasSuffix(groups.Layer(), ",cpu") {
		needs.Elsewhere(t, "no cpu controller: %s", groups.Layer())
	}
	ws := shortTemp(t)
	for _, profile := range Profiles {
		box, err := backend.Box(t.Context(), "session of "+string(profile), profile, guard.Settings{AllowedWritePaths: []string{ws}})
		if err != nil {
			t.Fatal(err)
		}
		dir := groups.Dirs[len(groups.Dirs)-1] // of all programs
		if e, out := runIn(t, box, ws, "setsid", "--wait", "cat", "/proc/self/cgroup"); e.Code != 0 ||
			!regexp.MustCompile(`(?m)^\d+:(|.*\bcpu\b.*):/(.*/)?`+filepath.Base(dir)+"/").MatchString(out) {
			t.Errorf("%s: %+v, the program is not in %s: %s", profile, e, dir, out)
		}
	}
}

// TestLimit_WithoutGroups: the report says who holds what, and a requirement of
// control groups refuses.
func TestLimit_WithoutGroups(t *testing.T) {
	backend := newCage(t, Options{NoCgroups: true})
	needCage(t, backend)
	rep := backend.Probe()
	if !slices.ContainsFunc(rep.Missing, func(m string) bool { return strings.HasPrefix(m, "cgroup2: ") }) {
		t.Errorf("missing %q", rep.Missing)
	}
	if slices.ContainsFunc(rep.Layers, func(l string) bool { return strings.HasPrefix(l, "cgroup") }) {
		t.Errorf("layers %q", rep.Layers)
	}
	if _, err := backend.Box(t.Context(), "s", "strict", guard.Settings{Require: []string{"cgroup2"}}); err == nil {
		t.Error("cgroup2 is required and not there, and a box was given")
	}
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
	if got, want := box.Report().Limits["memoryBytes"], "rlimit of each process"; got != want {
		t.Errorf("memory is held by %q, want %q", got, want)
	}
	if got := box.Report().Limits["processes"]; strings.HasPrefix(got, "cgroup") {
		t.Errorf("processes are held by %q", got)
	}
	e := runSpec(t, box, Spec{
		Argv: []string{"sh", "-c", "x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo ${#x}"},
		Dir:  ws, Limits: guard.Limits{MemoryBytes: 32 << 20},
	})
	if e.Code == 0 {
		t.Error("100 MB fit into 32 MiB")
	}
}

// TestLimit_Disk: many files, none of them large, in the workspace or in the
// private /tmp. Free space is made up, for the host's changes for other reasons.
func TestLimit_Disk(t *testing.T) {
	for _, tt := range []struct{ name, dir, limit string }{
		{"workspace", ".", "disk"},
		{"private tmp", "/tmp", "disk"},
		{"what another program wrote", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			backend := newCage(t, Options{})
			needCage(t, backend)
			var left atomic.Uint64
			left.Store(1 << 40)
			backend.(*cage).disk.FreeSpace = func([]string) map[uint64]limit.Space {
				return map[uint64]limit.Space{1: {Free: left.Add(^uint64(1<<30 - 1))}}
			}
			ws := shortTemp(t)
			box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws, "/tmp"}})
			script := "sleep 3"
			if tt.dir != "" {
				script = "cd " + tt.dir + "; for i in 1 2 3 4 5 6 7 8; do head -c 2000000 /dev/zero > fill$i; done; sleep 100"
			}
			e := runSpec(t, box, Spec{
				Argv: []string{"sh", "-c", script}, Dir: ws,
				Limits: guard.Limits{DiskBytes: 10 << 20},
			})
			if e.Limit != tt.limit || tt.limit == "" && e.Code != 0 {
				t.Errorf("exit %+v, want the limit %q", e, tt.limit)
			}
		})
	}
}

// TestProgramsYieldToTheDaemon: also where that has a low priority itself, which nobody but root may raise.
func TestProgramsYieldToTheDaemon(t *testing.T) {
	needs.Program(t, "nice")
	const inside = "TEST_DAEMON_NICE"
	if own := os.Getenv(inside); own != "" {
		b := newCage(t, Options{})
		box := newBox(t, b, "strict", guard.Settings{})
		if e, out := runIn(t, box, "/", "nice"); e.Code != 0 || strings.TrimSpace(out) != own {
			t.Errorf("%+v: %q, want %s", e, out, own)
		}
		return
	}
	needCage(t, newCage(t, Options{}))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := exec.Command("nice").Output()
	if err != nil {
		t.Fatal(err)
	}
	began, err := strconv.Atoi(strings.TrimSpace(string(ours)))
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{0, 4, 12} {
		cmd := exec.Command("nice", "-n", strconv.Itoa(more), self, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"="+strconv.Itoa(min(began+more+10, 19)), "GOCOVERDIR=")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("%d more: %v\n%s", more, err, out)
		}
	}
}
