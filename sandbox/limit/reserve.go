package limit

import "context"

// Reserve is room on file systems that calls may not take. The zero value keeps none.
type Reserve struct {
	Dirs  []string // on these file systems
	Bytes int64    // on each; 0 is an eighth of it, and 256 MiB at most
	// Over reports whether the account of a session stores more than it may; nil is never. It
	// must not wait.
	Over func(session string) bool
	// Exempt reports whether a call with this context may take what is kept; nil is none.
	Exempt func(context.Context) bool
	// Took hears of a session whose call was ended because it took what is kept; nil nobody.
	Took func(session string)
}

// What is kept unless a setting says how much.
const (
	reservePart = 8
	reserveMost = 256 << 20
	// filesPart is which part of the files that a file system can have stays free.
	filesPart = 64
)

// Keep returns how many bytes of a file system are kept.
func (r Reserve) Keep(s Space) uint64 {
	if r.Bytes > 0 {
		return uint64(r.Bytes)
	}
	return min(s.Size/reservePart, reserveMost)
}

// Low reports whether the reserve of a file system is touched.
func (r Reserve) Low(s Space) bool {
	return s.Avail < r.Keep(s) || s.FreeFiles < s.Files/filesPart
}

// Space is what a file system has, in bytes.
type Space struct {
	Free  uint64 // for root
	Avail uint64 // for everybody
	Size  uint64
	// Files are how many files the file system can have, and FreeFiles how many more; 0 of
	// both where that has no bound.
	Files, FreeFiles uint64
}
