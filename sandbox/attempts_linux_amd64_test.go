package sandbox

import "golang.org/x/sys/unix"

var archAttempts = append(refused(eperm, map[string]uintptr{
	"iopl": unix.SYS_IOPL, "ioperm": unix.SYS_IOPERM, "modify_ldt": unix.SYS_MODIFY_LDT, "lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE,
}), []attempt{
	{"call of the x32 ABI", enosys, func(world) error { return sys(0x40000000 | unix.SYS_GETPID) }},
	{"mount by the x32 ABI", enosys, func(world) error { return sys(0x40000000 | unix.SYS_MOUNT) }},
	{"old chmod set-user-id", eperm, func(w world) error {
		return own(w, func(f string) error { return sys(unix.SYS_CHMOD, cstr(f), 0o4755) })
	}},
	{"creat with set-user-id", eperm, func(w world) error { return sys(unix.SYS_CREAT, cstr(w.Workspace+"/suid4"), 0o4755) }},
	{"open with set-user-id", eperm, func(w world) error {
		return sys(unix.SYS_OPEN, cstr(w.Workspace+"/suid5"), unix.O_CREAT|unix.O_WRONLY, 0o4755)
	}},
	{"mknod with set-user-id", eperm, func(w world) error { return sys(unix.SYS_MKNOD, cstr(w.Workspace+"/suid6"), unix.S_IFREG|0o4755, 0) }},
}...)
