// Package deploy embeds the systemd units that sandboxd setup installs. Setup replaces the path
// /usr/bin/sandboxd in them with its own.
//
// The other files in this directory are not part of the program: scripts for make, and a dashboard
// for Grafana.
package deploy

import "embed"

// Units are the units for systemd: of the system, and below user that of a person.
//
//go:embed *.service *.socket user/*.service
var Units embed.FS
