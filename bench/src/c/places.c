// A process that passes a chosen instruction as often as it is told.
//
// It reads commands from its standard input, one a line, and answers each with one line:
//
//   run PLACE TIMES FIRST SECOND THIRD   calls the function PLACE with these arguments
//   inside PLACE TIMES ...               the same, from within the function `outer`
//
// An argument is a number, `block` for a large heap block, or one of what functions of RDMA verbs are called with: `queue`,
// `request`, `completions`. Each place is a function whose first
// instruction is the one that its name says; there are 32 of each (push_00 to push_37, octal), so
// that every program has its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>

typedef uint64_t place(uint64_t first, uint64_t second, uint64_t third);

#define FUNCTION(name, code)                                                                                           \
    __asm__(".text\n.p2align 4\n.globl " name "\n.type " name ", @function\n" name ":\n" code                          \
            ".size " name ", . - " name "\n");
#define EIGHT(name, tens, code)                                                                                        \
    FUNCTION(name tens "0", code) FUNCTION(name tens "1", code) FUNCTION(name tens "2", code)                          \
    FUNCTION(name tens "3", code) FUNCTION(name tens "4", code) FUNCTION(name tens "5", code)                          \
    FUNCTION(name tens "6", code) FUNCTION(name tens "7", code)
#define MANY(name, code)                                                                                               \
    EIGHT(name, "_0", code) EIGHT(name, "_1", code) EIGHT(name, "_2", code) EIGHT(name, "_3", code)

// What is returned is an address, as an allocator's result is.
#define RESULT "mov $0x10000, %eax\n"

MANY("push", "push %rbp\n" RESULT "pop %rbp\nret\n")
MANY("nop", "nop\n" RESULT "ret\n")
MANY("nop5", ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n" RESULT "ret\n")
MANY("call", "call 1f\n" RESULT "ret\n1: ret\n")
MANY("jmp", ".byte 0xe9, 0, 0, 0, 0\n" RESULT "ret\n")
MANY("jcc", "je 1f\n1: " RESULT "ret\n")
MANY("sub", "sub $8, %rsp\n" RESULT "add $8, %rsp\nret\n")
MANY("lea", "lea 8(%rdi), %rax\nret\n")
MANY("endbr64", "endbr64\n" RESULT "ret\n")
MANY("zero", "push %rbp\nxor %eax, %eax\npop %rbp\nret\n")
MANY("one", "push %rbp\nmov $1, %eax\npop %rbp\nret\n")

// A queue pair, a work request of one segment, and a completion, as <infiniband/verbs.h> has them.
static struct {
    uint64_t words[20];
} queue;
static struct {
    uint64_t address;
    uint32_t bytes, key;
} segment = {.address = 4096, .bytes = 64};
static struct {
    uint64_t number, next;
    const void *segments;
    uint32_t segment_count, operation, flags, unused[17];
} request = {.number = 1, .segments = &segment, .segment_count = 1, .operation = 2};
static struct {
    uint64_t words[6];
} completions;

static struct {
    place *function;
    uint64_t times, arguments[3];
} task;

void pass(void);

__attribute__((used, noinline)) void pass(void)
{
    for (uint64_t i = 0; i < task.times; i++)
        task.function(task.arguments[0], task.arguments[1], task.arguments[2]);
}

// Stands for an MPI call: its first instruction is cheap to probe, and all passes happen below it.
void outer(void);
FUNCTION("outer", "push %rbp\ncall pass\npop %rbp\nret\n")

// Jumps through a slot, as calls through a linkage table do; and says where that is.
place *through_slot;
FUNCTION("through", "jmp *through_slot(%rip)\n")
FUNCTION("through_slot_address", "lea through_slot(%rip), %rax\nret\n")

static uint64_t argument(const char *word, void *block)
{
    const struct {
        const char *name;
        const void *at;
    } known[] = {{"block", block}, {"queue", &queue}, {"request", &request}, {"completions", &completions}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(word, known[i].name) == 0)
            return (uint64_t)known[i].at;
    return strtoull(word, NULL, 10);
}

static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL) {
        fprintf(stderr, "places: no function %s\n", name);
        exit(2);
    }
    return found;
}

int main(void)
{
    // What was started by a benchmark ends with it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void *block = malloc(64 << 10);
    through_slot = (place *)find("push_37");
    char line[256], command[16], name[32], words[3][24];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        const int count = sscanf(line, "%15s %31s %lu %23s %23s %23s", command, name, &task.times, words[0], words[1],
                                 words[2]);
        if (count == 6) {
            task.function = (place *)find(name);
            for (int i = 0; i < 3; i++)
                task.arguments[i] = argument(words[i], block);
            if (strcmp(command, "inside") == 0)
                outer();
            else
                pass();
            puts("done");
        } else {
            fprintf(stderr, "places: what is: %s", line);
            return 2;
        }
        fflush(stdout);
    }
    free(block);
    return 0;
}
