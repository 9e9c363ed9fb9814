// Package operate tests installations with real users, a daemon that is not root, and systemd.
//
// Each test runs in mount and process namespaces of its own, with copies of what it changes of
// the machine: /etc, /run, /var/lib and /usr/local/bin. Nothing of it is left.
package operate
