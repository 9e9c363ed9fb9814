package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/client"
)

// notifier tells the service manager the state of the daemon, as sd_notify(3) says. Without a manager it does
// nothing.
type notifier struct {
	socket string
	every  time.Duration // half of the time after which the manager gives up; 0 without a watchdog
}

func newNotifier(env func(string) string) *notifier {
	n := &notifier{socket: env("NOTIFY_SOCKET")}
	if usec, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 {
		n.every = time.Duration(usec) * time.Microsecond / 2
	}
	return n
}

// send ignores errors: the manager notices by itself that no message comes.
func (n *notifier) send(state string) {
	if n.socket == "" {
		return
	}
	// A leading @ is an abstract socket, for Go as for systemd.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(state))
}

// reloading announces a reload, with the time that Type=notify-reload wants.
func (n *notifier) reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return
	}
	n.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000))
}

// watchdog tells the manager that the daemon lives, as long as the daemon answers on its own socket.
func (n *notifier) watchdog(ctx context.Context, socket string) error {
	if n.every <= 0 {
		return nil
	}
	tick := time.NewTicker(n.every)
	defer tick.Stop()
	self := client.New(socket)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		ask, cancel := context.WithTimeout(ctx, n.every)
		if self.Do(ask, http.MethodGet, "/healthz", nil, nil) == nil {
			n.send("WATCHDOG=1")
		}
		cancel()
	}
}
