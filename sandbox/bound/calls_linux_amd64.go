package bound

import "golang.org/x/sys/unix"

var archCalls = []Call{
	{NR: unix.SYS_OPEN, Kind: Open, Dir: -1, Path: 0, Flags: 1},
	{NR: unix.SYS_CREAT, Kind: Open, Dir: -1, Path: 0, Flags: -1},
	{NR: unix.SYS_RENAME, Kind: Change, Dir: -1, Path: 0},
	{NR: unix.SYS_RENAME, Kind: Change, Dir: -1, Path: 1},
	{NR: unix.SYS_UNLINK, Kind: Change, Dir: -1, Path: 0},
	{NR: unix.SYS_MKDIR, Kind: Make, Dir: -1, Path: 0},
	{NR: unix.SYS_SYMLINK, Kind: Make, Dir: -1, Path: 1},
	{NR: unix.SYS_LINK, Kind: Make, Dir: -1, Path: 1},
	{NR: unix.SYS_MKNOD, Kind: Make, Dir: -1, Path: 0},
}
