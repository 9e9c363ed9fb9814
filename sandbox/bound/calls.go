package bound

// Kind says what a system call does with the file that a path of it names.
type Kind int

// The kinds.
const (
	Open    Kind = iota // opens it
	Execute             // becomes the program
	Change              // replaces, moves, removes or cuts it
	Enter               // goes to a directory above it
	Make                // makes something where nothing is
)

// Call is a system call that reaches a file by a path. Arguments are counted from 0.
type Call struct {
	NR   uint32
	Kind Kind
	Path int // the argument that is the path
	Dir  int // the one that is the directory of a relative path; -1: the working directory
	// Flags is the argument with the flags of an Open; -1: it only writes.
	Flags int
}
