package integration

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// TestUnderAServiceManager plays systemd: it opens the sockets, passes them on,
// and hears when the daemon is ready, reloads, lives and stops.
func TestUnderAServiceManager(t *testing.T) {
	dir, err := os.MkdirTemp(bin, "manager-")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"work", "run"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	agent, operator := filepath.Join(dir, "run", "agent.sock"), filepath.Join(dir, "run", "operator.sock")

	// The manager says the pid of the daemon, which it knows before it runs.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" serve`, filepath.Join(bin, "sandboxd"))
	cmd.Dir = filepath.Join(dir, "work")
	cmd.Env = append(os.Environ(),
		"LISTEN_FDS=2", "LISTEN_FDNAMES=agent:operator", "NOTIFY_SOCKET="+filepath.Join(dir, "notify"),
		"WATCHDOG_USEC=200000",
		"SANDBOXD_SOCKET="+agent, "SANDBOXD_OPERATOR_SOCKET="+operator,
		"SANDBOXD_STATE_DIR="+filepath.Join(dir, "state"), "SANDBOXD_CONFIG=",
		"SANDBOXD_WORKSPACE_ROOTS="+filepath.Join(dir, "work"))
	for _, path := range []string{agent, operator} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if err := os.Chmod(path, 0o660); err != nil {
			t.Fatal(err)
		}
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		defer l.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	// A request that comes before the daemon waits in the socket.
	early := make(chan error, 1)
	go func() { early <- client.New(agent).Do(t.Context(), http.MethodGet, "/healthz", nil, nil) }()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	hears := func(want string) {
		t.Helper()
		if err := notify.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 256); ; {
			n, err := notify.Read(b)
			if err != nil {
				t.Fatalf("never heard %s: %v", want, err)
			}
			if strings.HasPrefix(string(b[:n]), want) {
				return
			}
		}
	}
	hears("READY=1")
	if err := <-early; err != nil {
		t.Errorf("the early request: %v", err)
	}
	hears("WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	hears("RELOADING=1\nMONOTONIC_USEC=")
	hears("READY=1")
	s, err := client.New(agent).SessionFor(t.Context(), cmd.Dir)
	if err != nil {
		t.Fatal(err)
	}
	// What the daemon was told by its manager is no business of what it runs.
	r, err := client.New(agent).Call(t.Context(), s.ID, "Bash", []byte(`{"command":"env; ls /proc/self/fd"}`))
	if err != nil || strings.Contains(r.FinalText, "LISTEN_") || strings.Contains(r.FinalText, "NOTIFY_SOCKET") {
		t.Errorf("a call sees %s, %v", r.FinalText, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hears("STOPPING=1")
	if err := <-ended; err != nil {
		t.Errorf("the daemon ended with %v\n%s", err, log.String())
	}
	// The sockets are the manager's: they are there for the next start.
	if _, err := os.Stat(agent); err != nil {
		t.Error(err)
	}
}
