package child

import "golang.org/x/sys/unix"

// archCallNames are the names, in reports, of refused system calls that only amd64 has. They are older forms of calls
// in callNames. A filter refuses open and creat for the same bit of the mode, so both have one name.
var archCallNames = []call{
	{nr: unix.SYS_CHMOD, name: "chmod", path: 1},
	{nr: unix.SYS_CREAT, name: "create with a set-user-id bit", path: 1},
	{nr: unix.SYS_MKNOD, name: "mknod", path: 1},
	{nr: unix.SYS_OPEN, name: "create with a set-user-id bit", path: 1},
	{nr: unix.SYS_IOPL, name: "iopl"},
	{nr: unix.SYS_IOPERM, name: "ioperm"},
	{nr: unix.SYS_MODIFY_LDT, name: "modify_ldt"},
	{nr: unix.SYS_USELIB, name: "uselib", path: 1},
	{nr: unix.SYS_CHOWN, name: "chown", path: 1},
	{nr: unix.SYS_LCHOWN, name: "lchown", path: 1},
	{nr: unix.SYS_UTIME, name: "set the times of", path: 1},
	{nr: unix.SYS_UTIMES, name: "set the times of", path: 1},
	{nr: unix.SYS_FUTIMESAT, name: "set the times of", path: 2},
}

// resultRegister is the register with the result of a call, as the kernel orders them.
const resultRegister = 10 // rax
