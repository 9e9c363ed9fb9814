package wire

// What may be added here: a path that the daemon (package view) and the launcher (package
// child) must agree on. SystemPaths are readable for every program of every session, so
// a path belongs there only if programs do not start without it and nobody keeps a secret
// in it. What one session shows or hides is decided in package view.

// Paths inside the sandbox that are the same for every session.
const (
	CacheDir  = "/run/cache"    // writable; lives as long as the session
	GoCache   = "/run/go-build" // the same, over the host's build cache
	CargoHome = "/run/cargo"    // the same, over the host's ~/.cargo

	// TrustFile has the authorities of the host and that of the session; see Template.Authority.
	TrustFile = "/run/.trust/ca-certificates.crt"
	// JavaTrustFile has the same as JVMs read it.
	JavaTrustFile = "/run/.trust/cacerts"
)

// Overlaid are the caches that lie over those of the host.
var Overlaid = []string{GoCache, CargoHome}

// SystemPaths are what programs need to start at all. They are readable whatever the
// read list says: none of them holds secrets.
var SystemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf",
	"/etc/localtime", "/etc/timezone", "/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki/tls/certs",
	"/etc/gitconfig", "/etc/inputrc", "/etc/terminfo", "/etc/mime.types", "/etc/protocols", "/etc/services",
}

// OwnPlaces are directories that the sandbox makes itself and never binds whole from
// the host.
var OwnPlaces = []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/home", "/root", "/lost+found"}
