#include "textflag.h"

// func clone3(args *cloneArgs, size uintptr, a *arena, role, entry uintptr) int
TEXT ·clone3(SB),NOSPLIT,$0-48
	MOVD	args+0(FP), R0
	MOVD	size+8(FP), R1
	MOVD	a+16(FP), R10
	MOVD	role+24(FP), R11
	MOVD	entry+32(FP), R12
	MOVD	$435, R8
	SVC
	CBZ	R0, child
	MOVD	R0, ret+40(FP)
	RET
child:
	// As on amd64.
	MOVD	ZR, R29
	MOVD	R10, R0
	MOVD	R11, R1
	CALL	(R12)
	MOVD	ZR, R0
	MOVD	R0, (R0) // rawMain does not return
	RET
