package input

import (
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Connection describes a connection of a program that runs. It is absent from the document
// of a call that has not begun. Its host is one of the hosts of the document, too.
type Connection struct {
	Host     string `json:"host"` // lower case, no final dot
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`         // tls, http or tcp
	Method   string `json:"method,omitempty"` // of an HTTP request that can be seen
	Path     string `json:"path,omitempty"`   // likewise, without the query
	Via      string `json:"via"`
}

// SubjectConnection is the subject of a finding about the connection.
const SubjectConnection = "connection"

// NewConnecting builds the document for a connection of a call that runs.
func NewConnecting(c *tool.Call, conn egress.Connection) (*Document, error) {
	in, err := New(c)
	if err != nil {
		return nil, err
	}
	in.addHosts([]string{conn.Host}, shellparse.Pos{})
	for i := range in.Hosts {
		if h := &in.Hosts[i]; h.Name == conn.Host {
			v, _ := c.Settings.Network.Connect(conn.Host, conn.Port)
			h.Listed = v == guard.Allow
		}
	}
	in.Connection = &Connection{
		Host: conn.Host, Port: conn.Port, Protocol: conn.Protocol, Method: conn.Method, Path: conn.Path, Via: conn.Via,
	}
	return in, nil
}

func connectionValue(c *Connection) map[string]any {
	v := map[string]any{"host": c.Host, "port": c.Port, "protocol": c.Protocol, "via": c.Via}
	if c.Method != "" {
		v["method"] = c.Method
	}
	if c.Path != "" {
		v["path"] = c.Path
	}
	return v
}
