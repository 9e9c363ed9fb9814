package listen_test

import (
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/internal/mcp/listen"
)

func Example() {
	dir, err := os.MkdirTemp("", "listen")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, token := filepath.Join(dir, "token"), strings.Repeat("0123456789abcdef", 4)
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	p, err := listen.Open("127.0.0.1:0", file)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	for _, bearer := range []string{token, "guess"} {
		r := httptest.NewRequest("POST", p.URL(), nil)
		r.Header.Set("Authorization", "Bearer "+bearer)
		by, err := p.Caller(httptest.NewRecorder(), r)
		fmt.Println(err == nil && by.UID == os.Geteuid(), err)
	}
	// Output:
	// true <nil>
	// false the request does not bear the token of mcp.tokenFile
}
