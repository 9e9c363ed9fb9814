package child

import (
	"syscall"
	"unsafe"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

const (
	cloneArgsSize = unsafe.Sizeof(cloneArgs{})

	slotFD = wire.SocketFD // the slot, in the process that waits for its script
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

func addr(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
