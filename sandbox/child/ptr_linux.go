package child

import (
	"syscall"
	"unsafe"
)

const (
	cloneArgsSize = unsafe.Sizeof(cloneArgs{})
	sysCloseRange = 436 // the same on every architecture

	doorFD = socketFD // where a process made ahead waits for its call
)

//go:nosplit
//go:norace
func ptr32(p *int32) uintptr { return uintptr(unsafe.Pointer(p)) }

//go:nosplit
//go:norace
func ptr64(p *uint64) uintptr { return uintptr(unsafe.Pointer(p)) }

//go:nosplit
//go:norace
func ptrUsage(p *syscall.Rusage) uintptr { return uintptr(unsafe.Pointer(p)) }

//go:nosplit
//go:norace
func ptrMsg(p *syscall.Msghdr) uintptr { return uintptr(unsafe.Pointer(p)) }
