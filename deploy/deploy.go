// Package deploy holds the files that an installation needs, for sandboxd setup.
package deploy

import "embed"

// Units are the units for systemd: of the system, and below user that of a person.
//
//go:embed *.service *.socket user/*.service
var Units embed.FS
