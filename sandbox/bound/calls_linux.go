package bound

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Calls are all system calls about which a launcher is asked. openat2 is not among them:
// the filter refuses it.
var Calls = append([]Call{
	{NR: unix.SYS_OPENAT, Kind: Open, Dir: 0, Path: 1, Flags: 2},
	{NR: unix.SYS_EXECVE, Kind: Execute, Dir: -1, Path: 0},
	{NR: unix.SYS_EXECVEAT, Kind: Execute, Dir: 0, Path: 1},
	{NR: unix.SYS_CHDIR, Kind: Enter, Dir: -1, Path: 0},
	{NR: unix.SYS_RENAMEAT2, Kind: Change, Dir: 0, Path: 1},
	{NR: unix.SYS_RENAMEAT2, Kind: Change, Dir: 2, Path: 3},
	{NR: unix.SYS_RENAMEAT, Kind: Change, Dir: 0, Path: 1},
	{NR: unix.SYS_RENAMEAT, Kind: Change, Dir: 2, Path: 3},
	{NR: unix.SYS_UNLINKAT, Kind: Change, Dir: 0, Path: 1},
	{NR: unix.SYS_TRUNCATE, Kind: Change, Dir: -1, Path: 0},
	{NR: unix.SYS_MKDIRAT, Kind: Make, Dir: 0, Path: 1},
	{NR: unix.SYS_SYMLINKAT, Kind: Make, Dir: 1, Path: 2},
	{NR: unix.SYS_LINKAT, Kind: Make, Dir: 2, Path: 3},
	{NR: unix.SYS_MKNODAT, Kind: Make, Dir: 0, Path: 1},
}, archCalls...)

// Numbers returns the numbers of Calls, each once.
func Numbers() []uint32 {
	var out []uint32
	for _, c := range Calls {
		if !slices.Contains(out, c.NR) {
			out = append(out, c.NR)
		}
	}
	return out
}
