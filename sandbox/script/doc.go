// Package script builds lists of system calls as data, and sends the one that turns a
// waiting process into the program of a call.
//
// Between clone and execve a process has no Go runtime, so it can only run a flat list:
// an [Op] is one system call with its arguments. Arguments that are pointers point into
// an [Area], memory that the process shares with the launcher. [Area.Encode] puts a list
// there as [Raw] operations. A list is data: it can be printed and tested, and an error
// names the operation that failed ([Explain]).
//
// A [Script] is such a list for one [Call]. The daemon asks for a slot with [Call.Room] bytes,
// compiles the script for the memory of that slot (a wire.Slot, which package launch holds), and sends
// it once, in one message:
//
//	s := script.Compile(slot, script.Call{Argv: []string{"true"}, Dir: "/work"})
//	err := s.Send(descriptor, streams) // of the slot; after an error no program was run
//
// If the program does not start, [Script.Failed] says why, from the reply of the launcher.
//
// The caller gives at least one word of Argv, and no word with a NUL. Guaranteed then: a script
// fits the memory that [Call.Room] asked for, and its last operation is an execve whose failure
// ends the script. Not here: what confines a process, which package child has done before a
// script arrives. A step that depends on the call belongs in script_linux.go.
//
// Methods are not safe for concurrent use.
package script
