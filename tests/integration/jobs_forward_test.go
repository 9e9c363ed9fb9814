package integration

import (
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestAnOperatorForwardsAPortOfAJob: a server in the session is reached at the loopback of the
// host, at 127.0.0.1 alone, until the job ends. An agent cannot do that, and the record has it.
func TestAnOperatorForwardsAPortOfAJob(t *testing.T) {
	needs.Program(t, "python3")
	d := newDaemon(t, "")
	s := d.session()
	for _, tt := range []struct{ name, at, kind string }{
		{"IPv4", "127.0.0.1", "AF_INET"}, {"IPv6", "::1", "AF_INET6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d.write("ws/serve.py", `
import http.server, socket
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"by " + self.client_address[0].encode())
class S(http.server.HTTPServer):
    address_family = socket.`+tt.kind+`
s = S(("`+tt.at+`", 8080), H)
print("up", flush=True)
s.serve_forever()
`)
			id := d.begin(s, `{"command":"exec python3 serve.py","run_in_background":true}`)
			if !waitFor(func() bool { o, err := d.agent.ReadJob(t.Context(), id, 0); return err == nil && o.Output == "up\n" }) {
				t.Fatal("it does not begin")
			}
			if _, err := d.agent.ForwardJob(t.Context(), id, 8080, 0); errorCode(err) != "operator_only" {
				t.Errorf("an agent: %v", err)
			}
			out, err := d.exec("sandboxd", "jobs", "forward", id, "8080", "--at", "0")
			address := strings.TrimSpace(out)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for range 3 {
				res, err := http.Get("http://" + address)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || string(body) != "by "+tt.at {
					t.Errorf("got %q, %v", body, err)
				}
			}
			_, port, _ := net.SplitHostPort(address)
			if c, err := net.Dial("tcp", "127.0.0.2:"+port); err == nil {
				c.Close()
				t.Error("it listens elsewhere, too")
			}
			if j, err := d.agent.Job(t.Context(), id); err != nil || len(j.Forwards) != 1 || j.Forwards[0].Address != address {
				t.Errorf("got %+v, %v", j, err)
			}
			if out, err := d.exec("sandboxd", "jobs", "forward", id, port); err == nil ||
				!strings.Contains(out, "port "+port+" of the host cannot be had") {
				t.Errorf("a port of the job whose number is taken on the host: %v, %s", err, out)
			}
			if out, err := d.exec("sandboxd", "jobs", "forward", id, "8080", "--end"); err != nil {
				t.Errorf("--end: %v, %s", err, out)
			}
			if c, err := net.Dial("tcp", address); err == nil {
				c.Close()
				t.Error("the port is offered after --end")
			}
			out, err = d.exec("sandboxd", "jobs", "forward", id, "8080", "--at", "0")
			if address = strings.TrimSpace(out); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err = d.exec("sandboxd", "jobs", "stop", id)
			if err != nil || !strings.Contains(out, "sandboxd: job "+id+": killed by the agent (143)\n") {
				t.Errorf("stop: %v, %s", err, out)
			}
			if c, err := net.Dial("tcp", address); err == nil {
				c.Close()
				t.Error("the port outlives the job")
			}
			out, err = d.exec("sandboxd", "jobs")
			row := regexp.MustCompile(`(?m)^ID +STATE +STARTED +PRINTED +COMMAND\n` + id +
				` +killed by the agent \(143\) +[0-9-]{10} [0-9:]{8} +[0-9]+ +exec python3 serve.py$`)
			if err != nil || !row.MatchString(out) {
				t.Errorf("the list: %v, %s", err, out)
			}
			if out, err := d.exec("sandboxd", "jobs", "forward", id, "8080"); err == nil || !strings.Contains(out, "has ended") {
				t.Errorf("after the end: %v, %s", err, out)
			}
			out, err = d.exec("sandboxd", "audit", "tail", "-n", "20", "--json")
			if err != nil || !strings.Contains(out, `"event":"job_forwarded"`) || !strings.Contains(out, address) {
				t.Errorf("the record: %v\n%s", err, out)
			}
		})
	}
}

// TestAForwardOfASessionThatIsStopped: a launcher that does not answer costs its own
// connections, and nothing is left of them.
func TestAForwardOfASessionThatIsStopped(t *testing.T) {
	d := newDaemon(t, "")
	id := d.begin(d.session(), `{"command":"sleep 100000","run_in_background":true}`)
	f, err := d.operator.ForwardJob(t.Context(), id, 8080, 0)
	if err != nil {
		t.Fatal(err)
	}
	stopped := launchers(d.cmd.Process.Pid)
	for _, pid := range stopped {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	c, err := net.Dial("tcp", f.Address)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // this test had to wait for longer than the daemon waits
		t.Fatal(err)
	}
	if err := d.operator.EndForward(t.Context(), id, 8080); err != nil {
		t.Fatal(err)
	}
	if c != nil {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still open")
		}
		c.Close()
	}
	for _, pid := range stopped {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := d.agent.StopJob(t.Context(), id); err != nil || j.State != "killed" {
		t.Errorf("got %+v, %v", j, err)
	}
}
