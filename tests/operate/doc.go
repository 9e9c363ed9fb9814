// Package operate tests installations with real users, a daemon that is not root, and systemd.
// It needs root; make test-operate also starts systemd, as process 1 of a namespace.
//
// A test begins with `if !inside(t) { return }`, then calls newMachine (or installed, with a
// daemon). It runs in mount and process namespaces of its own, with a copy of /etc, with an empty
// /run and /var/lib, and with the programs alone in /usr/local/bin. Nothing that it changes there is
// left on the machine.
//
// TestUnderSystemd alone runs under systemd, by testdata/boot.sh. A test of setup goes into
// setup_test.go, of users into users_test.go; what needs a real systemd goes into underSystemd or
// underSystemdOfAPerson.
package operate
