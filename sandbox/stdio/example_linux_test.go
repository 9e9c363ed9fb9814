package stdio_test

import (
	"bytes"
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/stdio"
)

// A program without input whose output goes into memory, 5 bytes at most.
func Example() {
	var out bytes.Buffer
	var s stdio.Streams
	if err := s.Open(nil, &out, &out, stdio.Limit{Bytes: 5}, func() { fmt.Println("nobody reads") }); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("opened inside:", s.Devices[0].Path)
	fmt.Fprint(s.Files[0], "hello, world") // as the program would
	s.Start()
	s.Wait()
	fmt.Println("passed on:", out.String(), "exceeded:", s.Exceeded())
	// Output:
	// opened inside: /dev/null
	// passed on: hello exceeded: true
}
