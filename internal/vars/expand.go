package vars

import (
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// These limits hold for one call, beside [Options].MaxExpanded: a model that writes references to empty values, long
// chains of references, or many slices of a large value could otherwise cost the daemon much work.
const (
	maxReferences = 100_000
	maxNesting    = 100
	loadFactor    = 8 // bytes read for one call, in units of MaxExpanded
)

// value is a variable as an expander sees it.
type value struct {
	text
	notText bool // guard of V-28: no stored value is
	nested  bool // references inside count
	origins provenance.Authors
	hosts   provenance.Hosts
}

// expander replaces the references of one call.
type expander struct {
	load      func(name string) (*value, error) // nil: there is none
	available func() ([]string, error)          // names for the message
	limit     int                               // bytes of output
	take      func(bytes int) error             // memory for output, before it is made; nil needs none

	size   int // bytes of output so far
	read   int // bytes loaded so far
	refs   int // references so far
	values map[string]*value
	names  []string         // found ones, in order
	hosts  provenance.Hosts // of those
}

// expand appends the text in, with every reference replaced by its value, and adds the authors of these values to those
// of the result. path lists the names whose values are being expanded now, to find cycles (V-23 to V-27).
func (e *expander) expand(out []byte, in string, path []string) ([]byte, provenance.Authors, error) {
	var from provenance.Authors
	at := 0
	for {
		ref, ok := nextReference(in, at)
		if !ok {
			break
		}
		var err error
		if out, err = e.append(out, in[at:ref.start]); err != nil {
			return nil, 0, err
		}
		var by provenance.Authors
		if out, by, err = e.reference(out, ref, path); err != nil {
			return nil, 0, err
		}
		from |= by
		at = ref.end
	}
	out, err := e.append(out, in[at:])
	return out, from, err
}

func (e *expander) reference(out []byte, ref reference, path []string) ([]byte, provenance.Authors, error) {
	if e.refs++; e.refs > maxReferences {
		return nil, 0, tooLarge("the arguments hold more than %d variable references", maxReferences)
	}
	r, v, err := e.find(ref.inner)
	if err != nil {
		return nil, 0, err
	}
	for i, name := range path {
		if name == r.name {
			return nil, 0, circular(append(path[i:len(path):len(path)], name))
		}
	}
	if r.sliced && v.notText {
		return nil, 0, &tool.Error{
			Code: "not_sliceable", Stage: "resolve", Msg: "Cannot slice non-string variable",
			Hint: "reference the whole of it",
		}
	}
	s, from := v.s, v.origins
	if r.sliced {
		s = v.slice(r.start, r.length)
		if len(path) == 0 { // inside a value, whoever wrote that value has cut it
			from |= provenance.ByModel
		}
	}
	if !v.nested || !strings.Contains(s, opening) {
		out, err := e.append(out, s)
		return out, from, err
	}
	if len(path) == maxNesting {
		return nil, 0, tooLarge("variable references are nested deeper than %d", maxNesting)
	}
	out, by, err := e.expand(out, s, append(path[:len(path):len(path)], r.name))
	return out, by | from, err
}

// find loads the variable that the inner text of a reference names.
func (e *expander) find(inner string) (reading, *value, error) {
	all := readings(inner)
	for _, r := range all {
		if wrongWithName(r.name) != "" {
			continue
		}
		v, known := e.values[r.name]
		if !known {
			var err error
			if v, err = e.load(r.name); err != nil {
				return reading{}, nil, err
			}
			if v != nil {
				e.read += len(v.s)
				e.names = append(e.names, r.name)
				e.hosts = e.hosts.And(v.hosts.List()...)
			}
			if e.read > loadFactor*e.limit {
				return reading{}, nil, tooLarge("the variables of one call hold more than %d bytes", loadFactor*e.limit)
			}
			e.values[r.name] = v
		}
		if v != nil {
			return r, v, nil
		}
	}
	return reading{}, nil, e.notFound(all[len(all)-1].name)
}

func (e *expander) append(out []byte, s string) ([]byte, error) {
	if e.size += len(s); e.size > e.limit {
		return nil, tooLarge("the arguments are larger than %d bytes after expanding variables", e.limit)
	}
	if len(out)+len(s) <= cap(out) {
		return append(out, s...), nil
	}
	grown := max(len(out)+len(s), 2*cap(out))
	if err := e.room(grown); err != nil {
		return nil, err
	}
	return append(append(make([]byte, 0, grown), out...), s...), nil
}

// room takes memory for output.
func (e *expander) room(bytes int) error {
	if e.take == nil {
		return nil
	}
	return e.take(bytes)
}

func (e *expander) notFound(name string) error {
	names, err := e.available()
	if err != nil {
		return err
	}
	msg := fmt.Sprintf("Variable '%s' not found", name)
	if len(names) > 0 {
		msg += ". Available variables: " + strings.Join(names, ", ")
	}
	return &tool.Error{Code: "variable_not_found", Stage: "resolve", Msg: msg, Hint: "ListVars shows all names"}
}

func circular(chain []string) error {
	return &tool.Error{
		Code: "circular_reference", Stage: "resolve",
		Msg:  "Circular variable reference detected: " + strings.Join(chain, " → "),
		Hint: "write the value without a reference to itself",
	}
}

func tooLarge(format string, args ...any) error {
	return &tool.Error{
		Code: "expansion_too_large", Stage: "resolve", Msg: fmt.Sprintf(format, args...),
		Hint: "reference a slice: $VAR_REF{{name:start:length}}",
	}
}
