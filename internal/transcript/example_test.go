package transcript_test

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/sandboxd/sandboxd/internal/transcript"
)

func Example() {
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d, err := transcript.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	n, err := d.Write(transcript.Metadata{ID: "s1"}, nil, 0, []json.RawMessage{
		[]byte(`{"role": "user", "content": "hello"}`), []byte(`{"role": "assistant", "content": "hi"}`),
	})
	if err == nil {
		err = n.Placed("s1")
	}
	if err != nil {
		log.Fatal(err)
	}
	f, err := d.Read("s1")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	page, err := f.Page(f.Messages()-1, 50)
	if err != nil {
		log.Fatal(err)
	}
	for m := range page.All() {
		fmt.Printf("%d of %d: %s\n", page.From+1, f.Messages(), m)
	}
	// Output:
	// 2 of 2: {"role":"assistant","content":"hi"}
}
