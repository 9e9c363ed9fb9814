package config

import (
	"bytes"
	"fmt"
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
	text, err := c.readSecret("passwordFile", s.PasswordFile)
	if err != nil {
		return err
	}
	s.Password = string(bytes.TrimRight(text, "\r\n"))
	return nil
}
