package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"golang.org/x/sys/unix"
)

// faulty are kernels that refuse for other reasons than doctor has rows for.
var faulty = map[string][]refusal{
	// As with kernel.unprivileged_userns_clone=0: processes can be made, namespaces cannot.
	"namespaces": {
		{nr: unix.SYS_UNSHARE, err: unix.EPERM}, {nr: unix.SYS_CLONE, err: unix.EPERM, mask: namespaces},
	},
	// Memory of the kernel runs out, for one thing or the other.
	"memory for processes of the daemon": {{nr: unix.SYS_CLONE, err: unix.ENOMEM, mask: unix.CLONE_VFORK}},
	"memory for calls":                   {{nr: unix.SYS_CLONE3, err: unix.ENOMEM}},
	"memory for sockets":                 {{nr: unix.SYS_SOCKETPAIR, err: unix.ENOMEM}},
	"memory for files of memory":         {{nr: unix.SYS_MEMFD_CREATE, err: unix.ENOMEM}},
	"memory for rules":                   {{nr: unix.SYS_LANDLOCK_ADD_RULE, err: unix.ENOMEM}},
	"memory for filters":                 {{nr: unix.SYS_SECCOMP, err: unix.ENOMEM}},
}

// The kernel has no memory for one step of a call. Then the call does not run, and says so; what
// needs no process goes on, and the record is whole.
func TestFault_NoMemoryForAStep(t *testing.T) {
	for what := range faulty {
		if what == "namespaces" {
			continue
		}
		t.Run(what, func(t *testing.T) {
			d := newDaemon(t, "approvals: {approver: false}\npolicy: {profile: observe, rules: {allow: [Bash, Write]}}\n")
			d.stop(os.Interrupt)
			d.becomeAnother(0, what)
			d.start()
			session := d.session()
			for range 3 {
				r := d.call(session, "Bash", `{"command":"echo x > ran.txt","timeout":20000}`)
				_, err := os.Stat(filepath.Join(d.ws, "ran.txt"))
				if ran := err == nil; ran != (r.Status == client.StatusSuccess) {
					t.Errorf("it ran: %v, and the answer is %s %s", ran, r.Status, r.FinalText)
				} else if !ran && (r.Error == nil || r.Error.Msg == "") {
					t.Errorf("it did not run, and nothing says why: %+v", r)
				}
			}
			d.mustCall(session, "Write", `{"file_path":"made.txt","content":"x"}`)
			if strings.Contains(d.log.String(), "panic") {
				t.Errorf("it panicked:\n%s", d.log)
			}
			d.stop(os.Interrupt)
			d.verify()
		})
	}
}

// The daemon itself gets no more memory while it works. It may die of that; what it has acknowledged
// is there when it runs again, and the record is whole.
func TestFault_NoMemoryForTheDaemon(t *testing.T) {
	d := newDaemon(t, "limits: {agentBytes: 1073741824}\n")
	session := d.session()
	d.mustCall(session, "Bash", `{"command":"true"}`)
	var size uint64
	var rest string
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(status), &size, &rest); err != nil {
		t.Fatal(err)
	}
	limit := size*uint64(os.Getpagesize()) + 8<<20
	if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex
	acked := map[string]string{} // by name; guarded by mu
	failed := false              // guarded by mu
	var all sync.WaitGroup
	value := strings.Repeat("v", 1<<20)
	for w := range 8 {
		all.Go(func() {
			for i := range 40 {
				name := fmt.Sprintf("big%d_%d", w, i)
				body, _ := json.Marshal(value) // text always encodes
				err := d.agent.Do(ctx, "PUT", "/sessions/"+session+"/vars/"+name,
					map[string]any{"value": string(body), "type": "USER_ADD", "keep": true}, nil)
				mu.Lock()
				if err == nil {
					acked[name] = string(body)
				} else {
					failed = true
				}
				stop := failed
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	all.Wait()
	if !failed {
		t.Log("the daemon needed no more memory than it had")
	}
	d.stop(os.Kill)
	d.start()
	for name, want := range acked {
		var v struct {
			Value string `json:"value"`
		}
		if err := d.agent.Do(t.Context(), "GET", "/sessions/"+session+"/vars/"+name, nil, &v); err != nil || v.Value != want {
			t.Errorf("%s is not what was acknowledged: %v", name, err)
		}
	}
	d.mustCall(session, "Bash", `{"command":"echo again"}`)
	d.stop(os.Interrupt)
	d.verify()
}
