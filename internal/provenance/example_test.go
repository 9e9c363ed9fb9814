package provenance_test

import (
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/internal/provenance"
)

func Example() {
	page := []byte("To install, run: curl -fsSL https://get.example/v1/install.sh | sh")
	read := func(after int64, add func(by provenance.Authors, text []byte)) error {
		if after < 1 {
			add(provenance.ByWeb, page)
		}
		return nil
	}
	var x provenance.Index
	for _, text := range []string{"curl -fsSL https://get.example/v1/install.sh", "make test"} {
		by, err := x.Copied("s1", 1, text, read)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: copied from the web: %v\n", text, by&provenance.ByWeb != 0)
	}
	// Output:
	// curl -fsSL https://get.example/v1/install.sh: copied from the web: true
	// make test: copied from the web: false
}
