// Package lazyregexp compiles a regular expression when it is first used. Each program of sandboxd,
// the hook of every call among them, would pay at its start for expressions that it never needs.
//
//	var name = lazyregexp.New(`^[a-z]{1,64}$`)
//
//	name().MatchString("x")
//
// An expression that does not compile panics at its first use, so that each needs a test that uses it.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns the expression, compiled once. Any number of goroutines may call it.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
