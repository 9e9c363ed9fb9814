// Package operate tests installations with real users, a daemon that is not root, and systemd.
// It needs root, and the programs that make users: package needs skips or fails the tests otherwise. make test-operate
// runs all of them, and starts systemd as process 1 of a namespace for TestUnderSystemd, which is skipped without
// OPERATE_SYSTEMD=1. go test ./tests/operate -run TestThreeUsers, as root, runs one alone.
//
// A test begins with `if !inside(t) { return }`, then calls newMachine (or installed, with a
// daemon). It runs in mount and process namespaces of its own, with a copy of /etc, with an empty
// /run and /var/lib, and with the programs alone in /usr/local/bin. Nothing that it changes there is
// left on the machine.
//
// TestUnderSystemd alone runs under systemd, by testdata/boot.sh. A test of setup goes into
// setup_test.go, and one of users into users_test.go. What needs a real systemd goes into underSystemd
// (systemd_test.go), or into underSystemdOfAPerson (person_test.go) for the service of one person.
package operate
