package config

import (
	"bytes"
	"errors"
	"fmt"
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
	text, err := c.readSecret("secretFile", w.SecretFile)
	if err != nil {
		return err
	}
	w.Secret = string(bytes.TrimSpace(text))
	return approvals.Webhook{URL: w.URL, Secret: w.Secret}.Check()
}

// readSecret reads the file of a secret, which nobody else may read. key names it in errors.
func (c *Config) readSecret(key, path string) ([]byte, error) {
	if err := c.apart(key, path); err != nil {
		return nil, err
	}
	text, err := readRegular(key, path)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm()&0o077 != 0 {
		return nil, errors.Join(err, fmt.Errorf("%s can be read by others; chmod 600 it", key))
	}
	return text, nil
}

func (c *Config) checkApprovalsCommand() error {
	if len(c.Approvals.Command) == 0 {
		return nil
	}
	return c.checkArgv(c.Approvals.Command)
}
