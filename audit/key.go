package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const pemType = "SANDBOXD AUDIT KEY"

// What a signature is for.
const (
	forCheckpoint = "checkpoint"
	forHead       = "head"
)

// loadKey reads the signing key, or makes one. It must not lie in the directory
// of the log: who can change that directory could then sign as well.
func loadKey(o Options) (ed25519.PrivateKey, error) {
	if o.KeyFile == "" {
		return nil, errors.New("no key file is configured")
	}
	if err := os.MkdirAll(filepath.Dir(o.KeyFile), 0o700); err != nil {
		return nil, err
	}
	if err := apart(o); err != nil {
		return nil, err
	}
	key, err := readKey(o.KeyFile)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	return createKey(o.KeyFile)
}

func apart(o Options) error {
	dir, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return err
	}
	keyDir, err := filepath.EvalSymlinks(filepath.Dir(o.KeyFile))
	if err != nil {
		return err
	}
	if dir == keyDir {
		return fmt.Errorf("key file %q lies in the directory of the log", o.KeyFile)
	}
	return nil
}

func readKey(path string) (ed25519.PrivateKey, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key file %q has mode %v, want a regular file with mode 0600", path, info.Mode())
	}
	text := make([]byte, 4096)
	n, err := f.Read(text)
	if err != nil {
		return nil, fmt.Errorf("read key file %q: %w", path, err)
	}
	block, rest := pem.Decode(text[:n])
	if block == nil || block.Type != pemType || len(block.Bytes) != ed25519.SeedSize || len(bytes.TrimSpace(rest)) != 0 {
		return nil, fmt.Errorf("key file %q does not hold an audit key", path)
	}
	return ed25519.NewKeyFromSeed(block.Bytes), nil
}

// createKey writes the key under a temporary name first, so that a crash leaves
// no half key and of two processes at once one wins.
func createKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".audit-key-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	err = pem.Encode(f, &pem.Block{Type: pemType, Bytes: key.Seed()})
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("write key file %q: %w", path, err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readKey(path)
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// sign covers what the signature is for, so that a head cannot pass for a
// checkpoint.
func sign(key ed25519.PrivateKey, purpose string, seq uint64, hash string) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(key, message(purpose, seq, hash)))
}

func signed(key ed25519.PublicKey, purpose string, seq uint64, hash, signature string) bool {
	sig, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && len(sig) == ed25519.SignatureSize && ed25519.Verify(key, message(purpose, seq, hash), sig)
}

func message(purpose string, seq uint64, hash string) []byte {
	return fmt.Appendf(nil, "sandboxd audit %s\n%d\n%s\n", purpose, seq, hash)
}
