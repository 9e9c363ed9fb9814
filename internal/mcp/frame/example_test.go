package frame_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/sandboxd/sandboxd/internal/mcp/frame"
)

func Example() {
	server := io.NopCloser(strings.NewReader("Welcome to my server!\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\r\n"))
	conn := frame.New(server, discard{}, frame.Limits{})
	lines := bufio.NewScanner(conn) // the SDK: &mcp.IOTransport{Reader: conn, Writer: conn.Writer()}
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(conn.Dropped(), "dropped")
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{}}
	// 1 dropped
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
