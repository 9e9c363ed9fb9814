package upstream

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lateTransport connects when it is told, whatever its context says.
type lateTransport struct {
	mcp.Transport
	wait <-chan struct{}
}

func (l lateTransport) Connect(context.Context) (mcp.Connection, error) {
	<-l.wait
	return l.Transport.Connect(context.Background())
}

// A server that answers after nobody waits any more loses its connection.
func TestALateConnectionIsClosed(t *testing.T) {
	late := errors.New("too late")
	there, here := mcp.NewInMemoryTransports()
	server := mcp.NewServer(&mcp.Implementation{Name: "late"}, nil)
	s, err := server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	began, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	wait := make(chan struct{})
	if _, err := connect(t.Context(), began, Options{}, lateTransport{here, wait}, func() {}); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
	close(wait)
	if err := s.Wait(); err != nil { // it hangs if nobody closes the connection
		t.Error(err)
	}
}
