// The libraries of MPI in this process, those for Fortran among them, and the functions behind those in `calls.S`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fortran.h"

struct fortran_code fortran_code[FORTRAN_LIBRARIES];
__thread uintptr_t fortran_return;

static int begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static int is_fortran(const char *file)
{
    static const char *const names[] = {"libmpi_mpifh", "libmpi_usempi", "libmpichfort", "libmpichf90", "libmpifort"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (begins_with(file, names[i]))
            return 1;
    return 0;
}

static const char *file_of(const struct dl_phdr_info *info)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    return slash ? slash + 1 : info->dlpi_name;
}

static int add_code(struct dl_phdr_info *info, size_t size, void *count)
{
    int *place = count;
    (void)size;
    if (!is_fortran(file_of(info)))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && *place < FORTRAN_LIBRARIES; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
            struct fortran_code code = {info->dlpi_addr + segment->p_vaddr, segment->p_memsz};
            // Others read them meanwhile: libraries stay where they are, so that what is there is written again as it was.
            fortran_code[(*place)++] = code;
        }
    }
    return 0;
}

enum { LIBRARIES = 8 };

struct paths {
    char all[LIBRARIES][PATH_MAX];
    int count;
};

static int add_path(struct dl_phdr_info *info, size_t size, void *data)
{
    struct paths *paths = data;
    (void)size;
    if (begins_with(file_of(info), "libmpi") && paths->count < LIBRARIES)
        snprintf(paths->all[paths->count++], PATH_MAX, "%s", info->dlpi_name);
    return 0;
}

void find_mpi_libraries(void)
{
    struct paths paths = {.count = 0};
    dl_iterate_phdr(add_path, &paths);
    for (int i = 0; i < paths.count; i++)
        dlopen(paths.all[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

// The function behind ours, whose address is kept.
__attribute__((visibility("hidden"))) void *fortran_find(const char *name, void **kept)
{
    int count = 0;
    void *found = dlsym(RTLD_NEXT, name);
    // One of them may have been loaded since.
    dl_iterate_phdr(add_code, &count);
    if (!found) {
        find_mpi_libraries();
        found = dlsym(RTLD_NEXT, name);
    }
    if (!found) {
        fprintf(stderr, "dmscope: the program's MPI library has no %s\n", name);
        _exit(127);
    }
    __atomic_store_n(kept, found, __ATOMIC_RELEASE);
    return found;
}
