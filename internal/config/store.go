package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
)

// Bounds of the settings of a database that daemons share.
const (
	minStoreTimeout = 100 * time.Millisecond
	minStoreConns   = 3 // one writes, one listens, one reads
	maxStoreConns   = 1000
)

// readStore reads the password, and refuses an address that cannot work.
func (c *Config) readStore() error {
	s := &c.Store
	if s.URL == "" {
		return nil
	}
	if err := store.CheckURL(s.URL); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if s.Timeout < minStoreTimeout || s.Timeout > time.Minute {
		return fmt.Errorf("timeout: %v is not between %v and %v", s.Timeout, minStoreTimeout, time.Minute)
	}
	if s.MaxConns < minStoreConns || s.MaxConns > maxStoreConns {
		return fmt.Errorf("maxConns: %d is not between %d and %d", s.MaxConns, minStoreConns, maxStoreConns)
	}
	if s.PasswordFile == "" {
		return nil
	}
	if !filepath.IsAbs(s.PasswordFile) {
		return fmt.Errorf("passwordFile: %q is relative; write the absolute path", s.PasswordFile)
	}
	if err := c.apart("password of the database", s.PasswordFile); err != nil {
		return err
	}
	text, err := readRegular(s.PasswordFile)
	if err != nil {
		return err
	}
	if fi, err := os.Stat(s.PasswordFile); err != nil || fi.Mode().Perm()&0o077 != 0 {
		return errors.Join(err, errors.New("passwordFile can be read by others; chmod 600 it"))
	}
	s.Password = string(bytes.TrimRight(text, "\r\n"))
	return nil
}
