#include "textflag.h"

// func clone3(args *cloneArgs, size uintptr, a *arena, role, entry uintptr) int
TEXT ·clone3(SB),NOSPLIT,$0-48
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	a+16(FP), R12
	MOVQ	role+24(FP), R13
	MOVQ	entry+32(FP), R15
	MOVQ	$435, AX
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, ret+40(FP)
	RET
child:
	// On the new stack; nothing above it. The linker, which adds up frames,
	// cannot know that, so the call goes through a register. Arguments are where
	// Go's internal convention has them; g is not needed by code that neither
	// allocates nor grows its stack.
	XORQ	BP, BP
	ANDQ	$~15, SP
	SUBQ	$32, SP
	MOVQ	R12, AX
	MOVQ	R13, BX
	XORPS	X15, X15
	CALL	R15
	MOVL	$0, AX
	MOVQ	AX, (AX) // rawMain does not return
	RET
