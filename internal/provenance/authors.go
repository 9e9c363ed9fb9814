package provenance

import "github.com/sandboxd/sandboxd/internal/tool"

// Authors is a set of origins, as the database keeps it.
type Authors uint16

// ordered gives every origin its bit. The order is stored: only append.
var ordered = [...]tool.Origin{
	tool.OriginModel, tool.OriginRepository, tool.OriginWeb, tool.OriginMCP,
	tool.OriginPerson, tool.OriginRule, tool.OriginTool,
}

// The origins as bits, in the order of ordered.
const (
	ByModel Authors = 1 << iota
	byRepository
	ByWeb
	ByMCP
	ByPerson
	ByRule
	ByTool

	Untrusted = ByWeb | ByMCP                // texts that copies are searched for
	OnPurpose = ByModel | ByPerson | ByRule  // authors whose references inside a value count (CX-16)
	everybody = Authors(1)<<len(ordered) - 1 // what an unknown origin stands for
)

// Of returns the set of these origins. A name that is not known could be anybody's.
func Of(origins ...tool.Origin) (a Authors) {
	for _, o := range origins {
		bit := everybody
		for i, b := range ordered {
			if b == o {
				bit = 1 << i
			}
		}
		a |= bit
	}
	return a
}

// List returns the origins in the order of their bits.
func (a Authors) List() []tool.Origin {
	var origins []tool.Origin
	for i, o := range ordered {
		if a&(1<<i) != 0 {
			origins = append(origins, o)
		}
	}
	return origins
}

// Worst returns the one author to name when there is room for one.
func (a Authors) Worst() tool.Origin {
	for _, o := range []tool.Origin{
		tool.OriginWeb, tool.OriginMCP, tool.OriginRepository, tool.OriginTool,
		tool.OriginModel, tool.OriginPerson, tool.OriginRule,
	} {
		if a&Of(o) != 0 {
			return o
		}
	}
	return tool.OriginTool
}
