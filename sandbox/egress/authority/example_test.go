package authority_test

import (
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/egress/authority"
)

func Example() {
	a, err := authority.New("api.test")
	if err != nil {
		panic(err)
	}
	bundle := a.PEM()
	cert, err := a.Leaf("api.test")
	fmt.Println(strings.HasPrefix(bundle, "-----BEGIN CERTIFICATE-----"), cert.Leaf.DNSNames, err)
	// Output: true [api.test] <nil>
}
