package attack

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/tests/prebuilt"
)

// bin is where the programs under test are.
var bin string

func TestMain(m *testing.M) {
	if dir := os.Getenv(forwardEnv); dir != "" {
		forward(dir)
		return
	}
	os.Exit(build(m))
}

// forwardEnv tells the test binary to be another user: what connects to the sockets
// agent.sock and operator.sock in the directory of the variable is passed on to a.sock
// and o.sock there, from a process of that user.
const forwardEnv = "SANDBOXD_ATTACK_FORWARD"

func forward(dir string) {
	for from, to := range map[string]string{"agent.sock": "a.sock", "operator.sock": "o.sock"} {
		l, err := net.Listen("unix", filepath.Join(dir, from))
		if err != nil {
			panic(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					panic(err)
				}
				go pass(c, filepath.Join(dir, to))
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it
}

func pass(c net.Conn, to string) {
	defer c.Close()
	d, err := net.Dial("unix", to)
	if err != nil {
		return
	}
	defer d.Close()
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(c, d); ended <- struct{}{} }()
	go func() { _, _ = io.Copy(d, c); ended <- struct{}{} }()
	<-ended
}

func build(m *testing.M) int {
	// Not below /tmp: that is private and writable in a sandbox.
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-attack-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin = dir
	if err := prebuilt.Programs(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
