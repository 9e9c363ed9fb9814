// Package secrets reads the secrets that the daemon puts into requests of sandboxed programs to a host
// (network.secrets, [guard.Secret]): from a file, from a credential of systemd, or from a program of the
// operator.
//
//	r := &secrets.Reader{}
//	secret := guard.Secret{Host: "api.test", File: "/etc/token"} // an element of Network.Secrets
//	token, err := r.Value(ctx, secret) // each time it is needed: another file is used at once
//
// Guaranteed: an error never has the secret in it, and nothing is returned that could not be a
// header or that could not be masked in an answer. A secret is one line of at most 8 KiB. Its file
// is a regular file that neither its group nor others can use (those of systemd are its own).
//
// Files are read each time. One Reader keeps what a program prints for [Lasts], and a failure for
// [FailureLasts]. A program runs outside of the sandbox, with the rights and the
// environment of this process, for at most 10 seconds. All callers share its run, so the
// context of one ends neither the run nor the wait.
//
// The package decides nothing about hosts, and neither sends nor masks a secret: package egress
// and the tool that makes the request do. Another source is a field of guard.Secret and a case in
// Reader.Value.
package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress/mask"
)

const (
	Lasts        = 5 * time.Minute // how long the output of a program is used
	FailureLasts = 5 * time.Second // how long a program that failed is not run again

	maxSecret   = 8 << 10
	commandTime = 10 * time.Second
)

// Reader reads secrets. The zero value is ready. It may be used by several goroutines.
type Reader struct {
	Stderr io.Writer // of programs; nil: discarded, for it may have anything in it

	mu   sync.Mutex
	kept map[string]*answer // guarded by mu; by command
}

// answer is what a program printed. One goroutine runs it, and others wait.
type answer struct {
	mu     sync.Mutex
	secret string
	err    error
	until  time.Time
}

// Value reads a secret.
func (r *Reader) Value(_ context.Context, s guard.Secret) (string, error) {
	if len(s.Command) > 0 {
		return r.printed(s.Command)
	}
	path, err := place(s)
	if err != nil {
		return "", err
	}
	return read(path, s.File != "")
}

// place returns where the file of a secret is.
func place(s guard.Secret) (string, error) {
	if s.File != "" {
		return s.File, nil
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return "", fmt.Errorf("credential %q: this process has none; give it to the daemon's unit with LoadCredential=",
			s.Credential)
	}
	return filepath.Join(dir, s.Credential), nil
}

// read reads a file. Those of systemd are its own to protect.
func read(path string, private bool) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes would hold the request
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case private && info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s can be used by others (mode %04o); chmod 600 it", path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+3)) // with the line break
	if err != nil {
		return "", err
	}
	secret, err := usable(text)
	if err != nil {
		return "", fmt.Errorf("%s %w", path, err)
	}
	return secret, nil
}

// usable returns the secret of a file or a program without the line break at its end.
func usable(text []byte) (string, error) {
	secret := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case strings.TrimSpace(secret) == "":
		return "", errors.New("is empty")
	case len(secret) > maxSecret:
		return "", fmt.Errorf("has more than %d bytes", maxSecret)
	case strings.ContainsAny(secret, "\r\n"):
		return "", errors.New("has several lines; a header is one")
	case !httpguts.ValidHeaderFieldValue(secret):
		return "", errors.New("has control characters, which no header can have")
	case strings.TrimSpace(secret) != secret:
		return "", errors.New("begins or ends with a space, which a header loses")
	case len(secret) < mask.Least:
		return "", fmt.Errorf("has less than %d characters; it could not be told from other text in an answer",
			mask.Least)
	}
	return secret, nil
}

// printed returns what a program printed last, or prints now.
func (r *Reader) printed(command []string) (string, error) {
	key := strings.Join(command, "\x00")
	r.mu.Lock()
	a := r.kept[key]
	if a == nil {
		a = &answer{}
		if r.kept == nil {
			r.kept = map[string]*answer{}
		}
		r.kept[key] = a
	}
	r.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().Before(a.until) {
		return a.secret, a.err
	}
	a.secret, a.err = r.run(command, commandTime)
	lasts := Lasts
	if a.err != nil {
		lasts = FailureLasts
	}
	a.until = time.Now().Add(lasts)
	return a.secret, a.err
}

// run starts the program. It is shared by all who wait for it, so no call ends it.
func (r *Reader) run(command []string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = "/", r.Stderr, time.Second
	out := &limited{}
	cmd.Stdout = out
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s did not end within %v", command[0], within)
	}
	if err != nil {
		return "", fmt.Errorf("%s failed: %w", command[0], err)
	}
	secret, err := usable(out.Bytes())
	if err != nil {
		return "", fmt.Errorf("what %s prints %w", command[0], err)
	}
	return secret, nil
}

// limited keeps a byte more than a secret may have, and drops the rest.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxSecret + 1 - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
