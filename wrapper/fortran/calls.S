// Calls of Fortran programs, for each function that is in `names.inc` (which the build makes of what the wrapper defines).
//
// The Fortran libraries of Open MPI, and those of MPICH for `mpi_f08`, go past MPI_Send to PMPI_Send. So does the wrapper itself, and so do
// parts of the MPI library: who calls decides. What Fortran's arguments are in C is left to these libraries.

#define FORTRAN_CODE(n) movq (%rsp), %r11; subq fortran_code + 16 * n(%rip), %r11; cmpq fortran_code + 16 * n + 8(%rip), %r11

	.text

// Goes on to the function behind ours; in r11 and r10 are its name and where its address is kept. By this name whoever reads the file
// knows that it is no MPI library, though it has the second names of its functions.
	.globl dmscope_wraps_mpi
	.type dmscope_wraps_mpi, @function
dmscope_wraps_mpi:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	pushq %rax
	andq $-16, %rsp
	movq %r11, %rdi
	movq %r10, %rsi
	call fortran_find
	movq %rax, %r11
	leaq -56(%rbp), %rsp
	popq %rax
	popq %r9
	popq %r8
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	popq %rbp
	.cfi_def_cfa %rsp, 8
	jmp *%r11
	.cfi_endproc
	.size dmscope_wraps_mpi, . - dmscope_wraps_mpi

// The rest of a function: jumps to the one of the same name behind it.
.macro NEXT symbol
	movq 8f(%rip), %r11
	testq %r11, %r11
	jz 7f
	jmp *%r11
7:	leaq 9f(%rip), %r11
	leaq 8f(%rip), %r10
	jmp dmscope_wraps_mpi
	.cfi_endproc
	.size \symbol, . - \symbol
	.data
	.balign 8
8:	.quad 0
	.section .rodata
9:	.asciz "\symbol"
	.text
.endm

.macro BEGIN symbol
	.globl \symbol
	.type \symbol, @function
	.balign 16
\symbol:
	.cfi_startproc
.endm

// The program's own call: the place is noted, since the wrapper is called from the Fortran library.
.macro PLACE symbol
	BEGIN \symbol
	movq (%rsp), %r11
	movq fortran_return@gottpoff(%rip), %r10
	movq %r11, %fs:(%r10)
	NEXT \symbol
.endm

.macro CALL name, lower
	BEGIN PMPI_\name
	FORTRAN_CODE(0)
	jb 1f
	FORTRAN_CODE(1)
	jb 1f
	FORTRAN_CODE(2)
	jae 2f
1:	jmp MPI_\name
2:	NEXT PMPI_\name
	PLACE mpi_\lower\()_
	PLACE mpi_\lower\()_f08_
	PLACE mpi_\lower\()_f08ts_
.endm

#include "names.inc"

	.section .note.GNU-stack, "", @progbits
