package source

// Pos is a half-open byte range in the text, with the place of its first byte. A
// script has many: they are small.
type Pos struct {
	Offset int32 `json:"offset"` // 0-based byte offset of the first byte
	End    int32 `json:"end"`    // byte offset after the last byte
	Line   int32 `json:"line"`   // 1-based
	Col    int32 `json:"col"`    // 1-based, in bytes
}

// Error is text that is refused before or while it is parsed.
type Error struct {
	// Code is stable: "too_large", "control_character", "invalid_utf8", "too_deep",
	// "syntax", "unsupported", "parser_difference", "internal".
	Code string
	Msg  string
	Hint string
	At   Pos
}

func (e *Error) Error() string { return e.Msg }
