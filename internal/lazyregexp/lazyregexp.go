// Package lazyregexp compiles a regular expression when it is first used. Each program of sandboxd,
// the hook of every call among them, would pay at its start for expressions that it never needs.
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

// New returns the expression, compiled once. Any number of goroutines may call it.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
