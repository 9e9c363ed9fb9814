package gitindex_test

import (
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/guard/gitindex"
)

func Example() {
	// An index of version 2 with one entry, and no checksum that anybody compares.
	data := append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"), make([]byte, 60)...)
	data = append(data, "\x00\x08src/a.go\x00\x00"...)
	names, err := gitindex.Read(append(data, make([]byte, 20)...))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names.List, names.Has("src"), names.Has("build"))
	// Output: [src/a.go] true false
}
