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

// What a call of the program returns to, of which this is what the wrapper returns to.
static inline uintptr_t program_return(uintptr_t address)
{
    for (int i = 0; i < FORTRAN_LIBRARIES; i++)
        if (address - fortran_code[i].begin < fortran_code[i].bytes && fortran_return)
            return fortran_return;
    return address;
}
