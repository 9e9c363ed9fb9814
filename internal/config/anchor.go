package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/guard"
)

// checkAnchor refuses an anchor that agents could write, and one that lies beside the log.
func (c *Config) checkAnchor() error {
	a := c.Audit.Anchor
	if a.File != "" && len(a.Command) > 0 {
		return errors.New("want file or command, not both")
	}
	if a.Every < time.Second {
		return fmt.Errorf("every is %v, want a second or more", a.Every)
	}
	if a.File != "" {
		if err := c.apart("anchor", a.File); err != nil {
			return err
		}
		if guard.Within(a.File, c.Paths.StateDir) || guard.Within(a.File, c.Paths.KeyDir) {
			return fmt.Errorf("anchor %q lies with the record or its key, and would be lost or changed with it; "+
				"name a file on another disk", a.File)
		}
	}
	if len(a.Command) == 0 {
		return nil
	}
	return c.checkArgv(a.Command)
}
