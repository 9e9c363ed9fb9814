package config

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// CanUseTool is a program or a webhook that is asked about every call after the rules. If it allows a call, that
// also answers the question of the mode. If it fails, the call is denied.
type CanUseTool struct {
	Command []string      `yaml:"command"`
	Webhook string        `yaml:"webhook"`
	Timeout time.Duration `yaml:"timeout"`
}

func (c *Config) checkCanUseTool(d *document) error {
	u := c.Policy.CanUseTool
	key := []string{"policy", "canUseTool"}
	switch {
	case len(u.Command) > 0 && u.Webhook != "":
		return d.errorAt(key, errors.New("name either a command or a webhook"))
	case u.Timeout <= 0:
		return d.errorAt(append(key, "timeout"), errors.New("want more than zero"))
	case len(u.Command) > 0:
		return d.errorAt(append(key, "command"), c.checkArgv(u.Command))
	case u.Webhook != "":
		if p, err := url.Parse(u.Webhook); err != nil || p.Scheme != "http" && p.Scheme != "https" || p.Host == "" {
			return d.errorAt(append(key, "webhook"), fmt.Errorf("%q is no http or https address", u.Webhook))
		}
	}
	return nil
}
