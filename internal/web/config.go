package web

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Config is the section web of the configuration.
type Config struct {
	Listen       string `yaml:"listen"`       // host:port; "" is off
	SessionHours int    `yaml:"sessionHours"` // hours after which a login ends, 1 to 720
	TLS          TLS    `yaml:"tls"`
}

// TLS is the certificate of the listener. Without one the listener must be on loopback.
type TLS struct {
	CertFile string `yaml:"certFile"` // PEM; its names are those that the page may be opened under
	KeyFile  string `yaml:"keyFile"`
}

// Trusts implements [part.Trusting]. Who writes these files is the server of the page.
func (c *Config) Trusts() map[string][]string {
	if c.TLS.KeyFile == "" {
		return nil
	}
	return map[string][]string{"tls": {c.TLS.CertFile, c.TLS.KeyFile}}
}

// Hides implements [part.Hiding].
func (c *Config) Hides() []string {
	if c.TLS.KeyFile == "" {
		return nil
	}
	return []string{c.TLS.KeyFile}
}

// Check refuses settings that cannot be served, or that would open the page to the network without TLS.
func (c *Config) Check() error {
	switch {
	case c.SessionHours < 1 || c.SessionHours > 720:
		return fmt.Errorf("web.sessionHours is %d: 1 to 720", c.SessionHours)
	case (c.TLS.CertFile == "") != (c.TLS.KeyFile == ""):
		return fmt.Errorf("web.tls needs both certFile and keyFile")
	case c.Listen == "" && c.TLS.CertFile != "":
		return fmt.Errorf("web.tls does nothing without web.listen")
	case c.Listen == "":
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return &tool.Error{Msg: "web.listen: " + err.Error(), Hint: "such as 127.0.0.1:3456"}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return &tool.Error{
			Msg: fmt.Sprintf("web.listen: %q is no address", host), Hint: "such as 127.0.0.1:3456, or [::1]:3456",
		}
	}
	if !addr.IsLoopback() && c.TLS.CertFile == "" {
		return &tool.Error{
			Msg:  fmt.Sprintf("web.listen: %s is open to the network, without TLS", host),
			Hint: "listen on 127.0.0.1, or set web.tls",
		}
	}
	return nil
}
