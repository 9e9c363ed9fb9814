package tool

// Note is a line of the record that is not of a call. Every text in it is
// redacted and cut; do not put values of arguments or results there.
type Note struct {
	Name    string // "approval", "session", "reload", "operator", …
	Account string
	Session string
	Call    string
	Tool    string
	Digest  string
	Message string
	Detail  map[string]string
}
