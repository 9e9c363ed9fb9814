package egress_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// A tool of the daemon fetches a page: the same judge and dialer as for programs.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		io.WriteString(rw, "hello")
	}))
	defer server.Close()

	call := egress.NewCall(&egress.Dialer{}, egress.CallOptions{
		Judge: func(_ context.Context, k egress.Connection) egress.Verdict {
			return egress.Verdict{Allow: k.Host == "docs.test", Rule: "network.allowedDomains", Reason: "it is not listed"}
		},
		Network: guard.Network{Hosts: map[string]string{"docs.test": server.Listener.Addr().String()}},
		Limits:  egress.Limits{Bytes: 1 << 20, Connections: 8},
	})
	conn, err := call.Dial(context.Background(), egress.Connection{Host: "docs.test", Port: 80, Protocol: "http", Via: "fetch"})
	if err == nil {
		io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		io.ReadAll(conn)
		conn.Close()
	}
	_, err = call.Dial(context.Background(), egress.Connection{Host: "other.test", Port: 80, Protocol: "http", Via: "fetch"})
	fmt.Println(err)
	for _, r := range call.End().Connections {
		fmt.Println(r.Host, r.Port, r.Verdict, r.BytesIn > 0)
	}
	// Output:
	// other.test is refused: it is not listed (network.allowedDomains)
	// docs.test 80 allow true
	// other.test 80 deny false
}
