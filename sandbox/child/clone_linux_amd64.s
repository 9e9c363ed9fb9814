#include "textflag.h"

// func clone3(args *cloneArgs, size uintptr, a *arena, role uintptr) int
TEXT ·clone3(SB),NOSPLIT,$0-40
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	a+16(FP), R12
	MOVQ	role+24(FP), R13
	MOVQ	$435, AX
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, ret+32(FP)
	RET
child:
	// On the new stack; nothing above it.
	XORQ	BP, BP
	ANDQ	$~15, SP
	SUBQ	$32, SP
	MOVQ	R12, 0(SP)
	MOVQ	R13, 8(SP)
	// Through a register: this stack is a new one, which the linker, adding up
	// frames, cannot know.
	MOVQ	$·rawMain(SB), AX
	CALL	AX
	MOVL	$0, AX
	MOVQ	AX, (AX) // rawMain does not return
	RET
