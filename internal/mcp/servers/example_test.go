package servers_test

import (
	"encoding/json"
	"fmt"

	"github.com/sandboxd/sandboxd/internal/mcp/servers"
)

func Example() {
	good, wrong := servers.Parse(map[string]json.RawMessage{
		"git":  json.RawMessage(`{"command":"mcp-server-git","sandbox":{"allowedWritePaths":["/repo"]}}`),
		"a__b": json.RawMessage(`{"command":"x"}`),
		"odd":  json.RawMessage(`{"type":"http","url":"ftp://example.com"}`),
	})
	fmt.Println(good["git"].Kind(), good["git"].Timeout())
	fmt.Println(wrong["a__b"])
	fmt.Println(wrong["odd"])
	// Output:
	// stdio 1m0s
	// "a__b" is no name of a server: __ parts it from the tool in mcp__server__tool
	// url: "ftp" is neither http nor https
}
