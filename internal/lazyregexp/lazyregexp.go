// Package lazyregexp compiles a regular expression when it is first used. Compiled at the start,
// expressions slow each program of sandboxd, also the hook that runs before every call.
//
//	var name = lazyregexp.New(`^[a-z]{1,64}$`)
//
//	name().MatchString("x") // the first call of name compiles, later ones return the same
//
// An expression that does not compile panics whenever it is used, not when the program starts. So
// each needs a test that uses it. Goroutines may share name.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles expr at its first call. Any number of goroutines may call the function.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
