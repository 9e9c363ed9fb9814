package vars

import "github.com/sandboxd/sandboxd/tool"

// authors is a set of origins, as the database keeps it.
type authors uint16

// ordered gives every origin its bit. The order is stored: only append.
var ordered = [...]tool.Origin{
	tool.OriginModel, tool.OriginRepository, tool.OriginWeb, tool.OriginMCP,
	tool.OriginPerson, tool.OriginRule, tool.OriginTool,
}

const (
	byModel authors = 1 << iota
	byRepository
	byWeb
	byMCP
	byPerson
	byRule
	byTool

	untrusted = byWeb | byMCP                // texts that copies are searched for
	onPurpose = byModel | byPerson | byRule  // authors whose references inside a value count (CX-16)
	everybody = authors(1)<<len(ordered) - 1 // what an unknown origin stands for
)

// of is the set of these origins. A name that is not known could be anybody's.
func of(origins ...tool.Origin) (a authors) {
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

func (a authors) list() []tool.Origin {
	var origins []tool.Origin
	for i, o := range ordered {
		if a&(1<<i) != 0 {
			origins = append(origins, o)
		}
	}
	return origins
}

// worst is the one author to name when there is room for one.
func (a authors) worst() tool.Origin {
	for _, o := range []tool.Origin{tool.OriginWeb, tool.OriginMCP, tool.OriginRepository, tool.OriginTool, tool.OriginModel, tool.OriginPerson, tool.OriginRule} {
		if a&of(o) != 0 {
			return o
		}
	}
	return tool.OriginTool
}
