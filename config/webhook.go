package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/approvals"
)

// readWebhook reads the secret, and refuses a webhook that could not work.
func (c *Config) readWebhook() error {
	w := &c.Approvals.Webhook
	if w.URL == "" && w.SecretFile == "" {
		return nil
	}
	if w.URL == "" || w.SecretFile == "" {
		return errors.New("want both url and secretFile, or neither")
	}
	if err := c.apart("webhook secret", w.SecretFile); err != nil {
		return err
	}
	text, err := readRegular(w.SecretFile)
	if err != nil {
		return err
	}
	w.Secret = string(bytes.TrimSpace(text))
	if fi, err := os.Stat(w.SecretFile); err != nil || fi.Mode().Perm()&0o077 != 0 {
		return errors.Join(err, errors.New("the secret file can be read by others; chmod 600 it"))
	}
	return approvals.Webhook{URL: w.URL, Secret: w.Secret}.Check()
}

// checkCommand refuses a program that agents could write.
func (c *Config) checkCommand() error {
	argv := c.Approvals.Command
	if len(argv) == 0 {
		return nil
	}
	if !filepath.IsAbs(argv[0]) {
		return fmt.Errorf("program %q is relative; write the absolute path", argv[0])
	}
	return c.apart("program", argv[0])
}
