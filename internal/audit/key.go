package audit

import (
	"bytes"
	"context"
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

// loadKey reads the signing key. Where nothing is known of a record yet, it makes one, and
// the first head beside it. The key must not lie in the directory of the log: who can change
// that directory could then sign as well.
func loadKey(ctx context.Context, o Options, m Mirror) (ed25519.PrivateKey, error) {
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
	what, err := anything(ctx, o, m)
	if err != nil {
		return nil, err
	}
	if what != "" {
		return nil, fmt.Errorf("%s, and there is a record already: %s. Either the key is in another place, or %w",
			o.noKey(), what, ErrTampered)
	}
	return createKey(o)
}

// noKey says where the key was looked for, and why there.
func (o Options) noKey() string {
	if o.KeyWhy == "" {
		return "there is no key " + o.KeyFile
	}
	return fmt.Sprintf("there is no key %s (%s)", o.KeyFile, o.KeyWhy)
}

// anything names a part of a record; "" means that there is none.
func anything(ctx context.Context, o Options, m Mirror) (string, error) {
	for name, path := range map[string]string{"the log": o.Path(), "the anchor": o.Anchor.File} {
		if path == "" {
			continue
		}
		empty, err := isEmpty(path)
		if err != nil {
			return "", err
		}
		if !empty {
			return name + " " + path, nil
		}
	}
	seen, err := m.Load(ctx)
	if err != nil {
		return "", fmt.Errorf("read the mirror: %w", err)
	}
	if seen.Head.Seq > 0 || len(seen.Checkpoints) > 0 {
		return fmt.Sprintf("the database knows %d lines", seen.Head.Seq), nil
	}
	return "", nil
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
	if block == nil || block.Type != pemType || len(block.Bytes) != ed25519.SeedSize ||
		len(bytes.TrimSpace(rest)) != 0 {
		return nil, fmt.Errorf("key file %q does not hold an audit key", path)
	}
	return ed25519.NewKeyFromSeed(block.Bytes), nil
}

// createKey writes the head of an empty log, then the key. The key is written under another
// name first, so that a crash leaves no half key, and no key without a head.
func createKey(o Options) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(o.HeadPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k, err := openKeeper(o, key, Kept{})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(k.keep(Kept{}), k.file.Close()); err != nil {
		return nil, fmt.Errorf("write the head beside the key: %w", err)
	}
	dir := filepath.Dir(o.KeyFile)
	f, err := os.CreateTemp(dir, ".audit-key-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	err = pem.Encode(f, &pem.Block{Type: pemType, Bytes: key.Seed()})
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("write key file %q: %w", o.KeyFile, err)
	}
	if err := os.Link(f.Name(), o.KeyFile); err != nil {
		return nil, err
	}
	return key, syncDir(dir)
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
