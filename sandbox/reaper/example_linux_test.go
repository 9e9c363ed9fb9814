package reaper_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/reaper"
)

// The daemon's end of the protocol, of a program that prints and ends.
func Example() {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	ours, theirs := os.NewFile(uintptr(pair[0]), "reaper"), os.NewFile(uintptr(pair[1]), "daemon")
	daemon, err := net.FileConn(ours)
	must(err)
	ours.Close()
	defer daemon.Close()
	child := exec.Command("/proc/self/exe", reaper.Flag) // of the daemon it is sandboxd-child
	child.ExtraFiles = []*os.File{theirs}                // descriptor 3
	must(child.Start())
	theirs.Close()

	order, err := json.Marshal(reaper.Order{
		Path: []byte("/bin/sh"), Argv: [][]byte{[]byte("sh"), []byte("-c"), []byte("echo hello; exit 3")},
	})
	must(err)
	in, err := os.Open(os.DevNull)
	must(err)
	defer in.Close()
	out, printed, err := os.Pipe()
	must(err)
	defer out.Close()
	streams := unix.UnixRights(int(in.Fd()), int(printed.Fd()), int(printed.Fd()))
	_, _, err = daemon.(*net.UnixConn).WriteMsgUnix(order, streams, nil)
	must(err)
	printed.Close()

	for said := json.NewDecoder(daemon); ; {
		var r reaper.Report
		if said.Decode(&r) != nil {
			break // the end of its stream: nothing is left
		}
		fmt.Printf("started %v, ended %v with %d, alone %v\n", r.Started, r.Ended, r.Code, r.Alone)
	}
	must(child.Wait())
	text := make([]byte, 100)
	n, err := out.Read(text)
	fmt.Printf("%q %v\n", text[:n], err)
	// Output:
	// started true, ended false with 0, alone false
	// started false, ended true with 3, alone true
	// "hello\n" <nil>
}
