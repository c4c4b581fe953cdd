// Calls of Fortran programs: see `calls.S`.
#pragma once
#include <stdint.h>

enum { FORTRAN_LIBRARIES = 3 };

#define HIDDEN __attribute__((visibility("hidden")))

// Code of a Fortran library: where it begins, and how long it is.
struct fortran_code {
    uintptr_t begin, bytes;
};

extern struct fortran_code fortran_code[FORTRAN_LIBRARIES] HIDDEN;
// What the program's last call of such a library returns to.
extern __thread uintptr_t fortran_return HIDDEN __attribute__((tls_model("initial-exec")));

// An interpreter loads libraries of MPI for one of its modules alone: has their names found by all.
void find_mpi_libraries(void) HIDDEN;

// Where the program goes on after its call, if the wrapper returns to this address.
static inline uintptr_t program_return(uintptr_t address)
{
    for (int i = 0; i < FORTRAN_LIBRARIES; i++)
        if (address - fortran_code[i].begin < fortran_code[i].bytes && fortran_return)
            return fortran_return;
    return address;
}
