#include "textflag.h"

// func clone3(args *cloneArgs, size uintptr, a *arena, role uintptr) int
TEXT ·clone3(SB),NOSPLIT,$0-40
	MOVD	args+0(FP), R0
	MOVD	size+8(FP), R1
	MOVD	a+16(FP), R10
	MOVD	role+24(FP), R11
	MOVD	$435, R8
	SVC
	CBZ	R0, child
	MOVD	R0, ret+32(FP)
	RET
child:
	// On the new stack; nothing above it.
	MOVD	ZR, R29
	SUB	$48, RSP
	MOVD	R10, 8(RSP)
	MOVD	R11, 16(RSP)
	// Through a register: this stack is a new one, which the linker, adding up
	// frames, cannot know.
	MOVD	$·rawMain(SB), R12
	CALL	(R12)
	MOVD	ZR, R0
	MOVD	R0, (R0) // rawMain does not return
	RET
