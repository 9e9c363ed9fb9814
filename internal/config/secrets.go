package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/secrets"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// checkSecrets refuses secrets that no request could get, and those that agents could read or write. The user who
// checks may see less than the daemon.
func (c *Config) checkSecrets(d *document) error {
	n := c.Sandbox.Network
	var errs []error
	at := func(i int) []string { return []string{"sandbox", "network", "secrets", strconv.Itoa(i)} }
	for _, i := range n.Unused() {
		errs = append(errs, d.errorAt(at(i), fmt.Errorf(
			"%s is not in network.intercept, and neither the proxy nor the provider of WebSearch, "+
				"so no request could get the secret; add it there", n.Secrets[i].Host)))
	}
	for i, s := range n.Secrets {
		if err := c.checkSecret(s); err != nil {
			errs = append(errs, d.errorAt(at(i), err))
		}
	}
	if n.CAFile != "" {
		err := c.apart("file of authorities", n.CAFile)
		if err == nil {
			_, err = (&egress.Dialer{}).Roots(n)
		}
		errs = append(errs, d.errorAt([]string{"sandbox", "network", "caFile"}, err))
	}
	return errors.Join(errs...)
}

func (c *Config) checkSecret(s guard.Secret) error {
	switch s.Source() {
	case "command":
		return c.checkArgv(s.Command)
	case "credential":
		if os.Getenv("CREDENTIALS_DIRECTORY") == "" { // this is not the unit of the daemon
			return nil
		}
	case "file":
		if err := c.apart("secret", s.File); err != nil {
			return err
		}
	}
	_, err := (&secrets.Reader{}).Value(context.Background(), s)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
