package tools

// m are arguments of a call.
type m = map[string]any
