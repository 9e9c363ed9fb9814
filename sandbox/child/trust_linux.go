package child

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
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

// hostBundle returns what programs trust without a sandbox; empty where the host has none.
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

// javaStores are where hosts keep the authorities of every JVM that their packages install.
var javaStores = []string{"/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"}

// keystore returns a bundle of certificates as JVMs read it: the format JKS, which each version takes and which
// needs no password to be read.
func keystore(bundle []byte) []byte {
	var certificates [][]byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			certificates = append(certificates, block.Bytes)
		}
	}
	var b bytes.Buffer
	number := func(n any) { _ = binary.Write(&b, binary.BigEndian, n) } // it is memory
	text := func(s string) {
		number(uint16(len(s)))
		b.WriteString(s)
	}
	number(uint32(0xfeedfeed))
	number(uint32(2)) // version
	number(uint32(len(certificates)))
	now := time.Now().UnixMilli()
	for i, c := range certificates {
		number(uint32(2)) // a trusted certificate
		text(fmt.Sprintf("authority-%d", i))
		number(now)
		text("X.509")
		number(uint32(len(c)))
		b.Write(c)
	}
	// The digest stops accidents alone; the password is the one that all JVMs have for their own store.
	sum := sha1.New()
	_ = binary.Write(sum, binary.BigEndian, utf16.Encode([]rune("changeit")))
	sum.Write([]byte("Mighty Aphrodite"))
	sum.Write(b.Bytes())
	return sum.Sum(b.Bytes())
}
