package bound

import "os"

// What one call may have bound.
const (
	MaxFile   = 32 << 20 // bytes of one file
	MaxFiles  = 64       // files
	MaxTotal  = 64 << 20 // bytes of all files
	MaxAbsent = 512      // paths at which nothing is
)

// File is a file that a call executes or obeys.
type File struct {
	Names   []string // absolute and clean: every path by which programs are known to open it
	Content *os.File // a copy in memory that nobody can change; nil: the file is not there
}
