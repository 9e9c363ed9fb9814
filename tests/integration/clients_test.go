package integration

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/golden"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// clientPackages is the variable with the folder of installed npm packages; make
// test-clients sets it. withoutNet says that this process has no network.
const (
	clientPackages = "SANDBOXD_TEST_NPM"
	withoutNet     = "SANDBOXD_TEST_NO_NETWORK"
)

// dayConfig has a hook that rewrites, and rules about tools that are not ours.
const dayConfig = `hooks:
  preToolUse:
    - name: rewrite
      command: |
        case $(cat) in *'rewrite me'*) echo '{"updatedInput": {"command": "echo what the hook wrote"}}' ;; esac
policy:
  rules:
    allow: ["WebFetch(domain:good.example)", "mcp__notes__search", "mcp__notes__ListMcpResourcesTool",
      "mcp__notes__list_mcp_resources", "mcp__notes__list_mcp_resource_templates"]
    deny: ["WebFetch(domain:evil.example)"]
`

// day is a session of a real client with a scripted model, offline: its model is served here,
// on a loopback that is all the network it has. Its hook is what sandboxd hook install writes.
type day struct {
	*testing.T
	*running
	client  string
	model   *model
	program string // of the client
	url     string // of the model
	steps   []scriptedCall
}

// newDay starts a daemon with the hook of a client, or runs the test again without a network.
// It returns nil in the process that has one.
func newDay(t *testing.T, client, program string, steps func(d *day) []scriptedCall) *day {
	packages := os.Getenv(clientPackages)
	if packages == "" {
		needs.Elsewhere(t, "make test-clients runs it, with the clients installed")
	}
	if os.Getenv(withoutNet) == "" {
		rerunWithoutNetwork(t)
		return nil
	}
	loopback(t)
	d := &day{T: t, running: newDaemon(t, dayConfig), client: client, program: filepath.Join(packages, ".bin", program)}
	if out, err := d.exec("sandboxd", "hook", "install", client, "--write"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := d.exec("git", "init", "-q"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.write("ws/escape.sh", "echo x > ~/escaped; echo escape $?\n")
	d.write("ws/a.txt", "one\ntwo\nthree\n")
	d.steps = steps(d)
	d.model = newModel(t, d.steps)
	api := httptest.NewServer(d.model)
	t.Cleanup(api.Close)
	d.url = api.URL
	return d
}

// notes is the command of an MCP server.
func notes() string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return self
}

// run starts the client, with a person who answers the questions of the script, and holds
// what the model read against the script.
func (d *day) run(env []string, args ...string) {
	ctx, cancel := context.WithTimeout(d.Context(), 5*time.Minute)
	defer cancel()
	person, asked := context.WithCancel(ctx)
	answered := make(chan int)
	go func() { answered <- d.answer(person) }()
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.WaitDelay = 5 * time.Second // what it leaves behind may hold its output open
	cmd.Dir = d.ws
	cmd.Env = append(slices.Clone(d.env), env...)
	out, err := cmd.CombinedOutput()
	asked()
	questions := <-answered
	if err != nil {
		d.Errorf("%v", err)
	}
	d.Logf("the client said: %.3000s", out)
	tools := map[string]bool{}
	wanted := 0
	for i, s := range d.steps {
		tools[s.tool] = true
		if s.answer != nil {
			wanted++
		}
		if i >= len(d.model.results) {
			d.Errorf("call %d, %s, has no result", i+1, s.tool)
			continue
		}
		d.hold(i, s, d.model.results[i])
	}
	for i, s := range d.model.subs {
		if i >= len(d.model.sub) {
			if s.want == "" { // with which it ends
				continue
			}
			d.Errorf("call %d of the sub-agent, %s, has no result", i+1, s.tool)
			continue
		}
		d.hold(i, s, d.model.sub[i])
	}
	if questions != wanted {
		d.Errorf("%d questions were answered, want %d", questions, wanted)
	}
	if len(d.steps) < 40 || len(tools) < 12 {
		d.Errorf("the day has %d calls of %d tools, want 40 of 12", len(d.steps), len(tools))
	}
	if _, err := os.Stat(d.home + "/escaped"); err == nil {
		d.Error("a command wrote outside of the workspace")
	}
	d.Logf("%s: %d calls of %d tools and %d of a sub-agent; %d questions", d.client, len(d.steps), len(tools),
		len(d.model.sub), questions)
	d.kept()
}

// hold compares what the model read with the script. What is not told to be refused is not.
func (d *day) hold(i int, s scriptedCall, got string) {
	refused := strings.Contains(got, "sandboxd denied") || strings.Contains(got, "sandboxd asks")
	may := strings.Contains(s.want, "sandboxd") || strings.Contains(s.want, "What to do") || s.answer["approved"] == false
	if !strings.Contains(got, s.want) || s.not != "" && strings.Contains(got, s.not) || refused && !may {
		d.Errorf("call %d, %s: the model read %.600s\nwant %q and not %q", i+1, s.tool, got, s.want, s.not)
	}
}

// answer is a person who answers each question as the script says, until ctx ends.
func (d *day) answer(ctx context.Context) (n int) {
	done := map[string]bool{}
	for ctx.Err() == nil {
		var waiting []struct {
			ID     string          `json:"id"`
			Args   json.RawMessage `json:"args"`
			Status string          `json:"status"`
		}
		if err := d.operator.Do(ctx, http.MethodGet, "/approvals", nil, &waiting); err != nil {
			continue
		}
		for _, item := range waiting {
			if done[item.ID] {
				continue
			}
			done[item.ID] = true
			s, ok := d.model.now()
			answer := s.answer
			if !ok || answer == nil {
				d.Errorf("nobody expected the question about %s", item.Args)
				answer = map[string]any{"approved": false, "reason": "nobody expected this question"}
			}
			n++
			if err := d.operator.Do(ctx, http.MethodPost, "/approvals/"+item.ID, answer, nil); err != nil {
				d.Error(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return n
}

// kept holds that every judged call has its decision, and that the daemon complained of none.
func (d *day) kept() {
	out, err := d.exec("sandboxd", "log", "--json", "-n", "1000")
	if err != nil {
		d.Fatalf("%v: %s", err, out)
	}
	verdicts, calls := map[string]int{}, map[string]bool{}
	for line := range strings.Lines(out) {
		var l struct {
			Call    string `json:"call_id"`
			Verdict string `json:"verdict"`
			DryRun  bool   `json:"dry_run"`
			Waits   string `json:"approval_id"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			d.Fatal(err)
		}
		if l.Call == "" || l.Waits != "" {
			continue
		}
		calls[l.Call] = true
		verdicts[l.Verdict]++
	}
	lost := 0
	for call := range calls {
		if !waitFor(func() bool {
			return d.operator.Do(d.Context(), http.MethodGet, "/decisions/"+call, nil, nil) == nil
		}) {
			lost++
			d.Errorf("the decision about %s is lost", call)
		}
	}
	d.Logf("%s: %d calls were judged, %v, of which %d decisions are lost", d.client, len(calls), verdicts, lost)
	for _, bad := range []string{"UNIQUE constraint", "not kept", "panic"} {
		if strings.Contains(d.log.String(), bad) {
			d.Errorf("the log of the daemon says %q:\n%s", bad, d.log)
		}
	}
	if out, err := d.exec("sandboxd", "audit", "verify"); err != nil {
		d.Errorf("%v: %s", err, out)
	}
}

// rerunWithoutNetwork runs this test again in a network namespace of its own.
func rerunWithoutNetwork(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	if golden.Update() {
		cmd.Args = append(cmd.Args, "-update")
	}
	cmd.Env = append(os.Environ(), withoutNet+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// loopback switches on the only interface there is.
func loopback(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) != 1 || interfaces[0].Name != "lo" {
		t.Fatalf("there is more than a loopback: %v, %v", interfaces, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		t.Fatal(err)
	}
}

// exec runs a program as somebody who uses this daemon.
func (d *running) exec(name string, args ...string) (string, error) {
	if name == "sandboxd" {
		name = filepath.Join(bin, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = d.ws, d.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
