package seccomp

import (
	"sync"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Filters compiles the filters of both isolation levels, each once, when it is first
// needed. It is safe for concurrent use.
type Filters struct {
	namespaces, noNamespaces           func() (plain, listen wire.Program)
	boundNamespaces, boundNoNamespaces func() wire.Program
}

// New returns filters that are not compiled yet.
func New() *Filters {
	compile := func(noNamespaces bool) func() (plain, listen wire.Program) {
		return sync.OnceValues(func() (wire.Program, wire.Program) {
			table := rules(noNamespaces)
			return filter(table), listenFilter(table)
		})
	}
	bind := func(noNamespaces bool) func() wire.Program {
		return sync.OnceValue(func() wire.Program { return boundFilter(rules(noNamespaces)) })
	}
	return &Filters{
		namespaces: compile(false), noNamespaces: compile(true),
		boundNamespaces: bind(false), boundNoNamespaces: bind(true),
	}
}

// For returns the filter of an isolation level, and the same one with a listener. They
// are shared: do not change them.
func (f *Filters) For(noNamespaces bool) (plain, listen wire.Program) {
	if noNamespaces {
		return f.noNamespaces()
	}
	return f.namespaces()
}

// Bound returns the filter with a listener for a call with bound files: it also asks the
// launcher about every call that package bound lists.
func (f *Filters) Bound(noNamespaces bool) wire.Program {
	if noNamespaces {
		return f.boundNoNamespaces()
	}
	return f.boundNamespaces()
}
