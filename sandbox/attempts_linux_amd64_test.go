package sandbox

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var archAttempts = append(refused(eperm, map[string]uintptr{
	"iopl": unix.SYS_IOPL, "ioperm": unix.SYS_IOPERM, "modify_ldt": unix.SYS_MODIFY_LDT,
	"lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE, "uselib": unix.SYS_USELIB,
}), []attempt{
	{"call of the x32 ABI", enosys, func(world) error { return sys(0x40000000 | unix.SYS_GETPID) }},
	{"mount by the x32 ABI", enosys, func(world) error { return sys(0x40000000 | unix.SYS_MOUNT) }},
	{"call by the gate of 32-bit programs", enosys, func(world) error { return int80(20) }}, // getpid
	{"mount by the gate of 32-bit programs", enosys, func(world) error { return int80(21) }},
	{"old chmod set-user-id", eperm, func(w world) error {
		return own(w, func(f string) error { return sys(unix.SYS_CHMOD, cstr(f), 0o4755) })
	}},
	{"creat with set-user-id", eperm, func(w world) error {
		return sys(unix.SYS_CREAT, cstr(w.Workspace+"/free/suid4"),
			0o4755)
	}},
	{"open with set-user-id", eperm, func(w world) error {
		return sys(unix.SYS_OPEN, cstr(w.Workspace+"/free/suid5"), unix.O_CREAT|unix.O_WRONLY, 0o4755)
	}},
	{"mknod with set-user-id", eperm, func(w world) error {
		return sys(unix.SYS_MKNOD, cstr(w.Workspace+"/free/suid6"), unix.S_IFREG|0o4755, 0)
	}},
}...)

// int80 makes a system call as a 32-bit program does, which any 64-bit one can.
func int80(nr byte) error {
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	// mov eax, nr; xor ebx..edx; int 0x80; cdqe; ret
	copy(code, []byte{0xb8, nr, 0, 0, 0, 0x31, 0xdb, 0x31, 0xc9, 0x31, 0xd2, 0xcd, 0x80, 0x48, 0x98, 0xc3})
	entry := uintptr(unsafe.Pointer(&code[0]))
	p := unsafe.Pointer(&entry)
	call := *(*func() int64)(unsafe.Pointer(&p))
	if r := call(); r < 0 {
		return syscall.Errno(-r)
	}
	return nil
}
