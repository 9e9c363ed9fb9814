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
	data = append(data, make([]byte, 20)...)
	names, err := gitindex.Read(data)
	if err != nil {
		log.Fatal(err)
	}
	e, ok := names.Entry("src/a.go")
	fmt.Println(names.List, names.Has("src"), names.Has("build"), ok, e.Stage)

	before, err := gitindex.Sum(data)
	if err != nil {
		log.Fatal(err)
	}
	data[12+8]++ // the time of the file, which git status writes anew
	after, err := gitindex.Sum(data)
	fmt.Println(before == after, err)
	// Output:
	// [src/a.go] true false true 0
	// true <nil>
}
