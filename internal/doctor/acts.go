package doctor

import (
	"fmt"
	"net"
	"os"
)

// act is something that must fail in the sandbox. A script that exits 0 did it,
// which is a hole.
type act struct {
	layer, what, script string
}

// deniedForTest is a file that every host has and everybody may read, so that only
// the settings can keep it away.
const deniedForTest = "/etc/hosts"

// forbiddenActs listens on the loopback of the host, and says how a program would
// try to get there and elsewhere.
func forbiddenActs() ([]act, func() error, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return []act{
		{"files", "read a denied file", ": < " + deniedForTest},
		{"files", "write to the system", "echo x > /usr/.sandboxd-doctor"},
		{"processes", "signal a process of the host", fmt.Sprintf("kill -0 %d", os.Getpid())},
		{"network", "connect to the loopback of the host", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", port)},
		{"privileges", "run without no_new_privs", unlessStatus("NoNewPrivs:", "1")},
		{"privileges", "keep capabilities", unlessStatus("CapEff:", "0000000000000000")},
		{"seccomp", "run without a system call filter", unlessStatus("Seccomp:", "2")},
	}, l.Close, nil
}

// unlessStatus returns a script that fails when the kernel reports this value for the shell itself. The shell reads
// its own status, which every isolation level allows it and nobody else.
func unlessStatus(key, value string) string {
	return fmt.Sprintf(
		`while read -r k v; do [ "$k $v" = "%s %s" ] && exit 1; done < /proc/self/status; exit 0`, key, value)
}
