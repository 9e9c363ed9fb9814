// Package deploy embeds the systemd units that sandboxd setup installs. Setup replaces the path
// /usr/bin/sandboxd in them with its own. The script install, for make install, installs the unit
// below user too: it replaces /usr/bin/ with its prefix. So each of their lines that starts the
// program begins with "ExecStart=/usr/bin/sandboxd ", the blank included.
//
// A new unit also needs its place among the plans of package setup. make test-operate, as root, has
// systemd verify the units and start them. The first lines of sandboxd.service say which settings of
// systemd would break the sandbox.
//
// The other files in this directory are not part of the program: scripts for make (need installs what
// the tests need), and a dashboard for Grafana, whose metrics a test of package metrics checks.
package deploy

import "embed"

// Units are the units for systemd: of the system, and below user that of a person.
//
//go:embed *.service *.socket user/*.service
var Units embed.FS
