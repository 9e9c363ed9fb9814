package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// connectInside is the inside of the cage of the tests below. It prints a line for each word.
func connectInside(words []string) {
	line := func(c net.Conn, err error) string {
		if err == nil {
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			var s string
			if s, err = bufio.NewReader(c).ReadString('\n'); err == nil {
				return strings.TrimSuffix(s, "\n")
			}
		}
		var e syscall.Errno
		var dns *net.DNSError
		switch {
		case errors.As(err, &e):
			return unix.ErrnoName(e)
		case errors.As(err, &dns) && dns.IsNotFound:
			return "no such host"
		}
		return err.Error()
	}
	for _, w := range words {
		what, rest, _ := strings.Cut(w, "=")
		switch what {
		case "dial": // network:address
			network, addr, _ := strings.Cut(rest, ":")
			fmt.Println(line(net.Dial(network, addr)))
		case "hold": // until the end of the call
			c, err := net.Dial("tcp", rest)
			if err != nil {
				fmt.Println(err)
				continue
			}
			line(c, nil)
			d, _ := net.Dial("tcp", rest)
			bufio.NewReader(d).ReadString('\n')
			fmt.Println("held")
			io.Copy(io.Discard, d)
		case "times": // n,address: one after the other
			n, addr, _ := strings.Cut(rest, ",")
			times, _ := strconv.Atoi(n)
			count := map[string]int{}
			for range times {
				count[line(net.Dial("tcp", addr))]++
			}
			fmt.Println(count)
		case "hosts": // n,port: h0.test, h1.test, ... one after the other
			n, port, _ := strings.Cut(rest, ",")
			times, _ := strconv.Atoi(n)
			count := map[string]int{}
			for i := range times {
				count[line(net.Dial("tcp", fmt.Sprintf("h%d.test:%s", i, port)))]++
			}
			fmt.Println(count)
		case "atonce": // n,address: all open before any is closed
			n, addr, _ := strings.Cut(rest, ",")
			times, _ := strconv.Atoi(n)
			var all []net.Conn
			failed := 0
			for range times {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					failed++
					continue
				}
				all = append(all, c)
			}
			came := 0
			for _, c := range all {
				c.SetDeadline(time.Now().Add(time.Minute))
				if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
					came++
				}
			}
			fmt.Println(len(all), failed, came)
		case "epoll": // a socket that does not block, registered before it connects
			fmt.Println(epollConnect(rest))
		case "half": // sends, ends its half, and reads all
			c, err := net.Dial("tcp", rest)
			if err != nil {
				fmt.Println(err)
				continue
			}
			bufio.NewReader(c).ReadString('\n')
			c.Write([]byte("sent"))
			c.(*net.TCPConn).CloseWrite()
			b, err := io.ReadAll(c)
			fmt.Printf("%s %v\n", b, err)
		case "bound": // address,local
			addr, local, _ := strings.Cut(rest, ",")
			from, _ := net.ResolveTCPAddr("tcp", local)
			fmt.Println(line((&net.Dialer{LocalAddr: from}).Dial("tcp", addr)))
		case "udp":
			c, err := net.Dial("udp", rest)
			if err == nil {
				_, err = c.Write([]byte("x"))
			}
			fmt.Println(line(c, err))
		case "addrs":
			a, err := net.DefaultResolver.LookupHost(context.Background(), rest)
			fmt.Println(a, err)
		case "stay": // the connections may end before the program is killed
			time.Sleep(time.Minute)
		case "lookup": // txt,name
			_, name, _ := strings.Cut(rest, ",")
			_, err := net.DefaultResolver.LookupTXT(context.Background(), name)
			fmt.Println(line(nil, err))
		case "raw":
			for _, kind := range []int{unix.SOCK_RAW, unix.SOCK_DGRAM} {
				_, err := unix.Socket(unix.AF_INET, kind, unix.IPPROTO_ICMP)
				fmt.Println(err)
			}
		}
	}
	os.Exit(0)
}

func epollConnect(addr string) string {
	at, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return err.Error()
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err.Error()
	}
	ep, err := unix.EpollCreate1(0)
	if err == nil {
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET, Fd: int32(s)}
		err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, s, &event)
	}
	if err != nil {
		return err.Error()
	}
	err = unix.Connect(s, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())})
	if err != nil && err != unix.EINPROGRESS {
		return err.Error()
	}
	out := ""
	for events := make([]unix.EpollEvent, 4); !strings.HasSuffix(out, "\n"); {
		n, err := unix.EpollWait(ep, events, 20_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return fmt.Sprint("epoll: ", n, err)
		}
		b := make([]byte, 100)
		if k, err := unix.Read(s, b); err == nil && k > 0 {
			out += string(b[:k])
		} else if err != unix.EAGAIN {
			return fmt.Sprint("read: ", k, err)
		}
	}
	peer, err := unix.Getpeername(s)
	flags, _ := unix.FcntlInt(uintptr(s), unix.F_GETFL, 0)
	to, ok := peer.(*unix.SockaddrInet4)
	return fmt.Sprint(strings.TrimSuffix(out, "\n"), " ", ok && to.Port == at.Port, err, flags&unix.O_NONBLOCK != 0)
}

// internet are servers on the host's loopback, to which names lead.
type internet struct {
	hosts map[string]string

	mu   sync.Mutex
	open int // guarded by mu: connections
}

// serve serves TCP under a name: each connection gets a line, and then what it sends.
func (n *internet) serve(t *testing.T, name string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	n.hosts[name] = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.count(1)
			go func() {
				defer n.count(-1)
				defer c.Close()
				fmt.Fprintf(c, "hello from %s\n", name)
				io.Copy(c, c)
			}()
		}
	}()
}

func (n *internet) count(d int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open += d
}

// empty waits until no connection is open.
func (n *internet) empty(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n.mu.Lock()
		open := n.open
		n.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open", open)
		}
	}
}

// connected is a cage whose settings let the hosts of an internet be reached.
type connected struct {
	*internet
	cage Backend
	ws   string
	s    guard.Settings
}

func newConnected(t *testing.T) *connected {
	t.Helper()
	w := &connected{internet: &internet{hosts: map[string]string{}}, cage: newCage(t, Options{}), ws: shortTemp(t)}
	needCage(t, w.cage, "netns")
	copyFile(t, "/proc/self/exe", filepath.Join(w.ws, "try"), 0o755)
	w.s = guard.DefaultSettings(w.ws, "", nil)
	w.s.Network = guard.Network{AllowedDomains: []string{"*.test:5432", "*.test"}, Hosts: w.hosts, AllowLocalBinding: true}
	w.serve(t, "db.test")
	return w
}

func (w *connected) box(t *testing.T) Box {
	t.Helper()
	return newBox(t, w.cage, "strict", w.s)
}

// rows is a ledger without what differs each time.
func rows(l egress.Ledger) string {
	out := ""
	for _, r := range l.Connections {
		out += fmt.Sprintf("%s:%d %s %s %s %d\n", r.Host, r.Port, r.Protocol, r.Via, r.Verdict, r.Count)
	}
	return out
}
