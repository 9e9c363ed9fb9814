// Package operate tests installations with real users, a daemon that is not root, and systemd.
// It needs root; make test-operate also starts systemd, as process 1 of a namespace.
//
// Each test runs in mount and process namespaces of its own, with a copy of /etc, and with an
// empty /run, /var/lib and /usr/local/bin. It begins with inside, and goes on with newMachine.
// Nothing that it changes there is left on the machine.
package operate
