package integration

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/textcall"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkGuardedCall is a call of a tool that does nothing, judged, recorded and
// remembered, over an echo of the same bytes by net/http on the same kind of
// socket.
func BenchmarkGuardedCall(b *testing.B) {
	var cases []bench.Case
	for _, sync := range []string{"interval", "always"} {
		d := newDaemon(b, "audit:\n  sync: "+sync+"\n")
		session := d.session()
		cases = append(cases, bench.Case{Name: "guarded, sync " + sync, N: 200, Run: func() {
			d.call(session, "Config", `{"action": "get", "key": "mode"}`)
		}})
	}
	echo := echoClient(b)
	cases = append(cases, bench.Case{Name: "echo", N: 200, Run: func() {
		if err := echo.Do(context.Background(), "POST", "/",
			map[string]any{"tool": "Config", "args": map[string]any{"action": "get", "key": "mode"}}, nil); err != nil {
			b.Fatal(err)
		}
	}})
	bench.Compare(b, cases,
		bench.Limit{Case: "guarded, sync interval", Over: "echo", AtMost: 8},
		bench.Limit{Case: "guarded, sync always", Over: "echo"})
}

// echoSocket, in the environment, makes this program serve an echo there.
const echoSocket = "SANDBOXD_BENCH_ECHO"

func serveEcho(socket string) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"data":%s}`, body)
	})))
}

// echoClient talks to a server that answers with what it was sent, in a process
// of its own as the daemon is.
func echoClient(b *testing.B) *client.Client {
	path := filepath.Join(b.TempDir(), "s")
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	echo := exec.Command(exe)
	echo.Env = append(os.Environ(), echoSocket+"="+path)
	started(b, path, echo)
	return client.New(path)
}

// BenchmarkBashTrue is a confined command end to end: a request over the socket,
// judge, record, cage, answer.
func BenchmarkBashTrue(b *testing.B) {
	d := newDaemon(b, "")
	session := d.session()
	cases := []bench.Case{
		{Name: "plain", N: 200, Run: func() { run(b, "bash", "-c", "true") }},
		{Name: "Bash true", N: 200, Run: func() { d.call(session, "Bash", `{"command": "true"}`) }},
	}
	limits := []bench.Limit{{Case: "Bash true", Over: "plain"}}
	if _, err := exec.LookPath("bwrap"); err == nil {
		cases = append(cases, bench.Case{Name: "bwrap", N: 200, Run: func() {
			run(b, "bwrap", "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "bash", "-c", "true")
		}})
		limits = append(limits, bench.Limit{Case: "Bash true", Over: "bwrap"})
	}
	bench.Compare(b, cases, limits...)
}

func run(b *testing.B, argv ...string) {
	if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBatchOfReads is 100 small files in one request over 100 requests.
func BenchmarkBatchOfReads(b *testing.B) {
	d := newDaemon(b, "")
	session := d.session()
	var calls []map[string]any
	for i := range 100 {
		d.write(fmt.Sprintf("ws/f%d.txt", i), strings.Repeat("line\n", 20))
		calls = append(calls, map[string]any{
			"tool": "Read", "args": map[string]any{"file_path": fmt.Sprintf("f%d.txt", i)},
		})
	}
	bench.Compare(b, []bench.Case{
		{Name: "one request", Run: func() {
			if err := d.agent.Do(b.Context(), "POST", "/sessions/"+session+"/calls", map[string]any{"calls": calls}, nil); err != nil {
				b.Fatal(err)
			}
		}},
		{Name: "100 requests", Run: func() {
			for i := range 100 {
				d.call(session, "Read", fmt.Sprintf(`{"file_path": "f%d.txt"}`, i))
			}
		}},
	}, bench.Limit{Case: "one request", Over: "100 requests", AtMost: 0.2})
}

// BenchmarkReplyWithoutTag is what looking for a tag adds to a reply of 4 KiB that has none, over
// one call.
func BenchmarkReplyWithoutTag(b *testing.B) {
	d := newDaemon(b, "")
	session := d.session()
	d.write("ws/f.txt", "line\n")
	text := strings.Repeat("The list [1] is in file.go (line 7), so I CALL nobody here. ", 70)
	reply := map[string]any{"role": "assistant", "content": text}
	bench.Compare(b, []bench.Case{
		{Name: "no tag is found", Run: func() {
			if calls, _ := textcall.Parse(text, 1); calls != nil {
				b.Fatal(calls)
			}
		}},
		{Name: "the reply over the socket", N: 200, Run: func() {
			if err := d.agent.Do(b.Context(), "POST", "/sessions/"+session+"/text/reply", reply, nil); err != nil {
				b.Fatal(err)
			}
		}},
		{Name: "Read", N: 200, Run: func() { d.call(session, "Read", `{"file_path": "f.txt"}`) }},
	}, bench.Limit{Case: "no tag is found", Over: "Read", AtMost: 0.01},
		bench.Limit{Case: "the reply over the socket", Over: "Read"})
}

// BenchmarkStart is the time from starting the daemon until it answers.
func BenchmarkStart(b *testing.B) {
	d := newDaemon(b, "")
	exe := filepath.Join(bin, "sandboxd")
	bench.Compare(b, []bench.Case{
		{Name: "sandboxd version", N: 14, Run: func() { run(b, exe, "version") }},
		{Name: "start to ready", N: 14, Before: func() { d.stop(os.Interrupt) }, Run: d.start},
	}, bench.Limit{Case: "start to ready", Over: "sandboxd version", AtMost: 9})
}

// BenchmarkMemory is the resident size of a daemon that rests, and after 10,000
// calls.
func BenchmarkMemory(b *testing.B) {
	d := newDaemon(b, "")
	time.Sleep(time.Second) // the start gives back what it took
	bench.Value(b, "idle", d.resident()/(1<<20), "MiB", 35)
	session := d.session()
	call := func(n int) {
		for i := range n {
			d.call(session, "Config", fmt.Sprintf(`{"action": "set", "key": "title", "value": "%d"}`, i))
		}
	}
	call(5000)
	half := d.resident()
	call(5000)
	bench.Value(b, "after 5,000 calls", half/(1<<20), "MiB", 0)
	bench.Value(b, "growth over 5,000 more", (d.resident()-half)/(1<<20), "MiB", 4)
}

// resident is the resident size of the daemon in bytes.
func (d *running) resident() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		d.t.Fatal(err)
	}
	return float64(kib) * 1024
}

// BenchmarkShadowedCall is a call of a daemon with a shadow over one of a daemon without.
func BenchmarkShadowedCall(b *testing.B) {
	plain := newDaemon(b, "")
	work, err := newDir(bin, "next-")
	if err != nil {
		b.Fatal(err)
	}
	rule := "package sandboxd.policies.acme.next\n\n" +
		`findings contains {"id": "acme.next", "effect": "ask", "message": "m"} if "git push" in input.starts` + "\n"
	if err := os.WriteFile(filepath.Join(work, "next.rego"), []byte(rule), 0o600); err != nil {
		b.Fatal(err)
	}
	shadowed := newDaemon(b, "policy: {shadow: "+work+"}\n")
	var cases []bench.Case
	for name, d := range map[string]*running{"plain": plain, "shadowed": shadowed} {
		session := d.session()
		cases = append(cases, bench.Case{Name: name + ", Bash true", N: 400, Run: func() {
			d.call(session, "Bash", `{"command": "true"}`)
		}}, bench.Case{Name: name + ", Config", N: 400, Run: func() {
			d.call(session, "Config", `{"action": "get", "key": "mode"}`)
		}})
	}
	bench.Compare(b, cases,
		bench.Limit{Case: "shadowed, Bash true", Over: "plain, Bash true", AtMost: 1.02},
		bench.Limit{Case: "shadowed, Config", Over: "plain, Config"})
}
