package serve

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/internal/mcp/frame"
)

// Stdio serves one client over in and out, until in or ctx ends. Then it cancels running calls.
func (f *Face) Stdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	conn := frame.New(in, out, frame.Limits{})
	err := f.server.Run(ctx, &mcp.IOTransport{Reader: conn, Writer: conn.Writer()})
	if n, failed := conn.Dropped(), conn.Failed(); n+failed > 0 {
		f.Log.Warn("lines of the client were no messages", "dropped", n, "failed", failed)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
