package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/sandbox/wire"
	"golang.org/x/sys/unix"
)

// bundles are where hosts keep their authorities in one file; the first that is there is used.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Arch, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora
	"/etc/ssl/ca-bundle.pem",             // SUSE
	"/etc/ssl/cert.pem",                  // BSD, and Alpine too
}

// maxBundle bounds what is read: those of hosts have a quarter of a megabyte.
const maxBundle = 4 << 20

// trust makes the files with the authorities of the host and that of the session, and puts them
// over those of the host. Nobody outside of this root sees it, and nobody inside can write it.
func (b builder) trust() error {
	if b.t.Authority == "" {
		return nil
	}
	text, err := hostBundle()
	if err != nil {
		return err
	}
	file := b.dir + wire.TrustFile
	dir := filepath.Dir(file)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of authorities: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := mount("trust", dir, "tmpfs", flags, "mode=755,size=9m"); err != nil {
		return err
	}
	text = append(append(text, '\n'), b.t.Authority...)
	java := b.dir + wire.JavaTrustFile
	for path, content := range map[string][]byte{file: text, java: keystore(text)} {
		if err := errors.Join(os.WriteFile(path, content, 0o644), os.Chmod(path, 0o644)); err != nil {
			return fmt.Errorf("write the authorities: %w", err)
		}
	}
	if err := setAttr(dir, unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	for from, places := range map[string][]string{file: bundles, java: javaStores} {
		for _, p := range places {
			if _, err := os.Stat(p); err != nil {
				continue
			}
			if err := b.cover(from, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostBundle is what programs trust without a sandbox; empty where the host has none.
func hostBundle() ([]byte, error) {
	for _, p := range bundles {
		f, err := os.Open(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the authorities of the host: %w", err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
		if err == nil && len(text) > maxBundle {
			err = fmt.Errorf("%s has more than %d bytes", p, maxBundle)
		}
		if err != nil {
			return nil, fmt.Errorf("read the authorities of the host: %w", err)
		}
		return text, nil
	}
	return nil, nil
}
