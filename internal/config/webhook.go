package config

import (
	"bytes"
	"errors"
	"os"

	"github.com/sandboxd/sandboxd/approvals"
)

// readWebhook reads the secret, and refuses a webhook that cannot work.
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

func (c *Config) checkCommand() error {
	if len(c.Approvals.Command) == 0 {
		return nil
	}
	return c.checkArgv(c.Approvals.Command)
}
