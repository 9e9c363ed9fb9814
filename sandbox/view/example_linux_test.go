package view_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/view"
)

// A workspace below /tmp is shown at its own path; the rest of /tmp is the session's own.
func Example() {
	s := guard.Settings{AllowedWritePaths: []string{"/tmp/ws", "/tmp"}}
	o := view.Options{Home: "/home/me", Roots: []string{"/tmp/ws"}}
	v := view.New(o, s, guard.NewRules(s), "/run/sandboxd/s-1", nil)
	for _, path := range []string{"/tmp/ws/file", "/tmp/file", "/var/tmp/file", "/home/me/file"} {
		fmt.Println(path, "is", v.OnHost(path, ""))
	}
	fmt.Printf("hidden: %q %q\n", v.Hidden("/home/me/file"), v.Hidden("/home/other/file"))
	// Output:
	// /tmp/ws/file is /tmp/ws/file
	// /tmp/file is /run/sandboxd/s-1/tmp/file
	// /var/tmp/file is /run/sandboxd/s-1/vartmp/file
	// /home/me/file is /home/me/file
	// hidden: "" "/home"
}
