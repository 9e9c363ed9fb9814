package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// zeros is a body of n bytes that are no JSON.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (d *running) mustCall(session, name, args string) client.Result {
	d.t.Helper()
	r := d.call(session, name, args)
	if r.Status != client.StatusSuccess {
		d.t.Fatalf("%s %s: %s %s", name, args, r.Status, r.FinalText)
	}
	return r
}

// code is the stable code of an error that the daemon answered, "" without one.
func code(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestFault_AHundredMegabyteBody(t *testing.T) {
	d := newDaemon(t, "")
	session := d.session()
	d.mustCall(session, "Config", `{"action":"list"}`)
	before := d.resident()
	res, err := unixClient(filepath.Join(d.work, "run/a.sock")).Post("http://x/sessions/"+session+"/calls",
		"application/json", zeros(100<<20))
	// The daemon answers before it has read all; the client may see either side of it.
	if err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge && res.StatusCode != http.StatusBadRequest {
			t.Errorf("got %s, want a refusal", res.Status)
		}
	}
	huge := `{"tool":"Write","args":{"file_path":"x","content":"` + strings.Repeat("a", 9<<20) + `"}}`
	res, err = unixClient(filepath.Join(d.work, "run/a.sock")).Post("http://x/sessions/"+session+"/calls",
		"application/json", strings.NewReader(huge))
	if err == nil {
		defer res.Body.Close()
		said, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusRequestEntityTooLarge || !bytes.Contains(said, []byte("too_large")) {
			t.Errorf("got %s: %s, want 413", res.Status, said)
		}
	}
	d.mustCall(session, "Config", `{"action":"list"}`)
	if grown := d.resident() - before; grown > 96<<20 { // 40 is usual; the body is more
		t.Errorf("the daemon grew by %.0f MiB", grown/(1<<20))
	}
}

// Connections that send nothing, or half of a request, keep nobody from working.
func TestFault_SilentConnections(t *testing.T) {
	d := newDaemon(t, "")
	session := d.session()
	half := []string{
		"", "POST /sess", "POST /sessions HTTP/1.1\r\nHost: x\r\n",
		"POST /sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	}
	for i := range 1000 {
		c, err := net.Dial("unix", filepath.Join(d.work, "run/a.sock"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, half[i%len(half)]); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	d.mustCall(session, "Bash", `{"command":"echo still here"}`)
}

// Connections of an agent do not take the descriptors that operators and calls need.
func TestFault_FewDescriptors(t *testing.T) {
	d := newDaemon(t, "")
	session := d.session()
	d.stop(os.Interrupt)
	d.command = []string{"sh", "-c", `ulimit -n 96 && exec "$0" serve`, filepath.Join(bin, "sandboxd")}
	d.start()
	var conns []net.Conn
	for range 200 {
		c, err := net.DialTimeout("unix", filepath.Join(d.work, "run/a.sock"), 100*time.Millisecond)
		if err != nil {
			break
		}
		conns = append(conns, c)
	}
	if len(conns) < 90 {
		t.Errorf("only %d connections were tried: nothing was exhausted", len(conns))
	}
	for range 20 {
		if err := d.operator.Do(t.Context(), "GET", "/status", nil, nil); err != nil {
			t.Errorf("beside %d connections the operator gets %v", len(conns), err)
		}
	}
	for _, c := range conns {
		c.Close()
	}
	if !waitFor(func() bool {
		r, err := d.agent.Call(t.Context(), session, "Bash", []byte(`{"command":"echo back"}`))
		return err == nil && r.Status == client.StatusSuccess
	}) {
		t.Errorf("the daemon does not come back:\n%s", d.log)
	}
}

// What was acknowledged is there after kill -9, and the record is whole.
func TestFault_KillUnderLoad(t *testing.T) {
	t.Parallel()
	rounds := tier.Rounds(t, 5, 200)
	d := newDaemon(t, "")
	session := d.session()
	var mu sync.Mutex
	acked := map[string]string{} // by name; guarded by mu
	writer := func(round, w int, stop <-chan struct{}) {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name, value := fmt.Sprintf("v%d_%d_%d", round, w, i), fmt.Sprint(i)
			err := d.agent.Do(context.Background(), "PUT", "/sessions/"+session+"/vars/"+name,
				map[string]any{"value": value, "type": "USER_ADD", "keep": true}, nil)
			if err == nil {
				mu.Lock()
				acked[name] = value
				mu.Unlock()
			}
			_, _ = d.agent.Call(context.Background(), session, "Config", []byte(`{"action":"get","key":"mode"}`))
		}
	}
	for round := range rounds {
		stop := make(chan struct{})
		before := len(acked)
		var g sync.WaitGroup
		for w := range 4 {
			g.Go(func() { writer(round, w, stop) })
		}
		// On a busy machine the delay may be over before anything is written.
		if !waitFor(func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acked) > before
		}) {
			t.Errorf("round %d: nothing is acknowledged", round)
		}
		// the moment does not matter, so long as they differ
		time.Sleep(time.Duration(20+37*round%200) * time.Millisecond)
		d.stop(os.Kill)
		close(stop)
		g.Wait()
		d.start()
	}
	if len(acked) == 0 {
		t.Fatal("nothing was acknowledged")
	}
	for name, want := range acked {
		var v struct {
			Value string `json:"value"`
		}
		if err := d.agent.Do(t.Context(), "GET", "/sessions/"+session+"/vars/"+name, nil, &v); err != nil || v.Value != want {
			t.Errorf("%s: got %q, %v, want %q", name, v.Value, err, want)
		}
	}
	t.Logf("%d acknowledged in %d rounds", len(acked), rounds)
	d.verify()
}

// verify lets the command line check the record.
func (d *running) verify() {
	d.t.Helper()
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "audit", "verify")
	cmd.Dir, cmd.Env = d.ws, d.env
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Errorf("audit verify: %v\n%s", err, out)
	}
}

// Without its record no call runs.
func TestFault_TheRecordIsRemoved(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(p string) error { return os.Rename(p, p+".old") },
		"replaced": func(p string) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.WriteFile(p, nil, 0o600)
		},
		"cut": func(p string) error { return os.Truncate(p, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, "")
			session := d.session()
			d.mustCall(session, "Bash", `{"command":"echo before"}`)
			if err := harm(filepath.Join(d.work, "state/audit.jsonl")); err != nil {
				t.Fatal(err)
			}
			r := d.call(session, "Bash", `{"command":"echo x > ran.txt"}`)
			if r.Status == client.StatusSuccess || r.Error == nil || r.Error.Code != "record_failed" {
				t.Errorf("got %s %+v, want record_failed", r.Status, r.Error)
			}
			if _, err := os.Stat(filepath.Join(d.ws, "ran.txt")); err == nil {
				t.Error("the call ran without a record")
			}
		})
	}
}

func TestFault_AStateDirectoryThatCannotBeUsed(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		harm       func(state string) error
	}{
		{"a damaged database", "damaged", func(s string) error {
			for _, suffix := range []string{"-wal", "-shm"} {
				if err := os.Remove(filepath.Join(s, "state.db") + suffix); err != nil && !os.IsNotExist(err) {
					return err
				}
			}
			return os.WriteFile(filepath.Join(s, "state.db"), []byte(strings.Repeat("not a database ", 1000)), 0o600)
		}},
		{"a directory in place of the database", "state.db", func(s string) error {
			if err := os.Remove(filepath.Join(s, "state.db")); err != nil {
				return err
			}
			return os.Mkdir(filepath.Join(s, "state.db"), 0o700)
		}},
		{"a damaged record", "audit", func(s string) error {
			return os.WriteFile(filepath.Join(s, "audit.jsonl"), []byte("{}\n"), 0o600)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "")
			d.mustCall(d.session(), "Config", `{"action":"list"}`)
			d.stop(os.Interrupt)
			if err := tt.harm(filepath.Join(d.work, "state")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(bin, "sandboxd"), "serve")
			cmd.Dir, cmd.Env = d.ws, d.env
			out, err := cmd.CombinedOutput()
			if err == nil || ctx.Err() != nil || !strings.Contains(string(out), tt.want) ||
				!strings.Contains(string(out), d.work) {
				t.Errorf("got %v: %s, want an end that names %q and the file", err, out, tt.want)
			}
		})
	}
}

// mountState puts a small file system of its own under the state of a daemon that
// does not run.
func (d *running) mountState(flags uintptr) {
	d.t.Helper()
	state := filepath.Join(d.work, "state")
	if err := os.RemoveAll(state + "-key"); err != nil { // which knows of a record that is gone now
		d.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", state, "tmpfs", flags, "size=8m,mode=0700"); err != nil {
		needs.Root(d.t, "to mount")
		needs.Missing(d.t, "mount a file system of its own: %v", err)
	}
	d.t.Cleanup(func() {
		d.stop(os.Kill)
		if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
			d.t.Error(err)
		}
	})
}

func TestFault_NoSpaceForTheState(t *testing.T) {
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	d.mountState(0)
	d.start()
	session := d.session()
	d.mustCall(session, "Bash", `{"command":"echo before"}`)
	fill := filepath.Join(d.work, "state/fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, zeros(16<<20)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want no space", err)
	}
	f.Close()
	if _, err := d.agent.Call(t.Context(), session, "Bash", json.RawMessage(`{"command":"true"}`)); err == nil ||
		!strings.Contains(err.Error(), "0 bytes free") {
		t.Errorf("a call of an agent: %v, want that the disk is full", err)
	}
	for i := range 200 { // there are blocks in reserve, and at some time there are none
		out := fmt.Sprintf("ran%d.txt", i)
		r, err := d.operator.Call(t.Context(), session, "Write", json.RawMessage(fmt.Sprintf(`{"file_path":%q,"content":"x"}`, out)))
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != client.StatusSuccess {
			t.Logf("call %d of an operator: %s", i, r.FinalText)
			if r.Error == nil || r.Error.Msg == "" {
				t.Errorf("got %+v, want an error that says why", r)
			}
			break
		}
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if !waitFor(func() bool {
		r, err := d.agent.Call(t.Context(), session, "Bash", json.RawMessage(`{"command":"echo back"}`))
		return err == nil && r.Status == client.StatusSuccess
	}) {
		t.Errorf("the daemon does not come back:\n%s", d.log)
	}
	d.stop(os.Interrupt)
	d.verify()
}

func TestFault_AReadOnlyStateDirectory(t *testing.T) {
	d := newDaemon(t, "")
	d.stop(os.Interrupt)
	d.unstarted()
	if err := os.Mkdir(filepath.Join(d.work, "state"), 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // whom modes do not stop
		d.mountState(unix.MS_RDONLY)
	}
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "serve")
	cmd.Dir, cmd.Env = d.ws, d.env
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), filepath.Join(d.work, "state")) ||
		strings.Contains(string(out), "panic") {
		t.Errorf("got %v: %s, want an end that names the directory", err, out)
	}
}

// plantedSecrets are of many forms; none of them is real.
func plantedSecrets() []string {
	var all []string
	for i := range 10 {
		tail := fmt.Sprintf("%02dQ7", i)
		all = append(all,
			"ghp_"+strings.Repeat("aB3", 11)+tail, "sk-ant-api03-"+strings.Repeat("xY9", 10)+tail,
			"AKIA"+strings.Repeat("Z2", 6)+strings.ToUpper(tail[2:])+fmt.Sprintf("%c2", 'A'+i),
			"xoxb-1234567890-"+strings.Repeat("k", 12)+tail, "glpat-"+strings.Repeat("m4N", 6)+tail)
	}
	return all
}

// Fifty secrets go through arguments, results, names and errors; none of them is
// in what outlives the call beside the variables that hold the texts themselves.
func TestFault_T29_T32_FiftyPlantedSecrets(t *testing.T) {
	d := newDaemon(t, "log: {level: debug}\n")
	session := d.session()
	var events lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://x/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := unixClient(filepath.Join(d.work, "run/a.sock")).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	go io.Copy(&events, stream.Body)
	secrets := plantedSecrets()
	for i, s := range secrets {
		quoted := fmt.Sprintf("%q", s)
		switch i % 5 {
		case 0:
			d.call(session, "Bash", `{"command":"echo `+s+`"}`)
		case 1:
			d.call(session, "Bash", `{"command":"cat /nowhere/`+s+`; exit 3"}`)
		case 2:
			d.call(session, "Write", `{"file_path":"f`+fmt.Sprint(i)+`.txt","content":`+quoted+`}`)
		case 3:
			d.call(session, "Tool_"+s, `{"a":`+quoted+`}`)
		case 4:
			d.call(session, "Read", `{"file_path":`+quoted+`,`+quoted+`:1}`)
		}
	}
	cancel()
	var vars, metrics json.RawMessage
	if err := d.agent.Do(t.Context(), "GET", "/sessions/"+session+"/vars?limit=100", nil, &vars); err != nil {
		t.Fatal(err)
	}
	res, err := unixClient(filepath.Join(d.work, "run/o.sock")).Get("http://x/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if metrics, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(d.work, "state/audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(vars), "Call Bash with args: command=") ||
		!strings.Contains(d.log.String(), `"line":"Bash `) {
		t.Errorf("a call is not described: %.500s\n%.500s", vars, d.log)
	}
	for place, text := range map[string]string{
		"the record": string(record), "the log": d.log.String(), "the metrics": string(metrics),
		"the list of variables": string(vars), "the events": events.String(),
	} {
		if text == "" {
			t.Errorf("%s is empty", place)
		}
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s has %s", place, s)
			}
		}
	}
}
