package daemon

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// manager is the service manager's side of sd_notify.
func manager(t *testing.T) (c *net.UnixConn, env func(string) string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c, func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"}[name]
	}
}

func heard(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 256)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestTheManagerHearsHowTheDaemonIs(t *testing.T) {
	c, env := manager(t)
	n := newNotifier(env)
	n.send("READY=1")
	if got := heard(t, c); got != "READY=1" {
		t.Errorf("got %q", got)
	}
	n.reloading()
	if got := heard(t, c); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("got %q", got)
	}
	newNotifier(func(string) string { return "" }).send("READY=1") // nobody to tell is no error
}

// The watchdog speaks for the socket, not for the process: it is silent while
// the daemon does not answer.
func TestTheWatchdogAsksTheSocket(t *testing.T) {
	c, env := manager(t)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan bool, 10_000)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		w.Header().Set("Content-Type", "application/json")
		if len(asked) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		w.Write([]byte(`{"data":{}}`))
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- newNotifier(env).watchdog(ctx, socket) }()
	if got := heard(t, c); got != "WATCHDOG=1" {
		t.Errorf("got %q", got)
	}
	if len(asked) < 3 {
		t.Errorf("told the manager after %d answers, of which all failed", len(asked))
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
