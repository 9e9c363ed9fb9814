package view

// Known is how many sockets a search remembers, and how many of them were there when it looked last.
func Known(s *Sockets) (all, there int) {
	bound := parseDump(s.last.answer)
	if len(bound) == 0 {
		bound = boundByTable()
	}
	for _, b := range bound {
		if _, ok := s.found[b.number]; ok {
			there++
		}
	}
	return len(s.found), there
}
