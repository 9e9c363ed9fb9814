package view

// Known is how many sockets a search remembers.
func Known(s *Sockets) int { return len(s.found) }
