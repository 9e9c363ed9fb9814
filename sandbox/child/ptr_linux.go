package child

import (
	"syscall"
	"unsafe"
)

const (
	cloneArgsSize = unsafe.Sizeof(cloneArgs{})
	sysCloseRange = 436 // the same on every architecture
)

//go:nosplit
func ptr32(p *int32) uintptr { return uintptr(unsafe.Pointer(p)) }

//go:nosplit
func ptr64(p *uint64) uintptr { return uintptr(unsafe.Pointer(p)) }

//go:nosplit
func ptrUsage(p *syscall.Rusage) uintptr { return uintptr(unsafe.Pointer(p)) }
