package lazyregexp_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

func Example() {
	name := lazyregexp.New(`^[a-z]{1,64}$`)
	fmt.Println(name().MatchString("sandboxd"), name().MatchString("Sandboxd"))
	// Output: true false
}
