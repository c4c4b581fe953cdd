// What a program got, in order: in DIR/rankN.log, and as a number made from all of it, in which order counts.
//
// Delays are drawn from what the kernel has collected: no two runs are alike, and no two replays.
#pragma once
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "../random/dice.h"

enum { MOST_RANKS = 32 };

static int rank, ranks, delay_us = 300;
static FILE *log_file;
static uint64_t result = 1;
static struct dice chance;

static inline void note(const char *what, int a, int b, int c, int d)
{
    fprintf(log_file, "%s %d %d %d %d\n", what, a, b, c, d);
    const int numbers[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        result = (result ^ (uint32_t)numbers[i]) * 0x100000001b3ULL;
}

static inline void pause_a_little(void)
{
    if (delay_us > 0 && roll(&chance, 3) == 0)
        usleep(roll(&chance, (uint32_t)delay_us));
}

// The word behind an option.
static inline const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

// Behind MPI_Init.
static void open_log(const char *folder)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint64_t seeds[2];
    if (getrandom(seeds, sizeof seeds, 0) != sizeof seeds)
        MPI_Abort(MPI_COMM_WORLD, 2);
    chance = dice_of(seeds[0], seeds[1], (uint64_t)rank);
    char path[4096];
    snprintf(path, sizeof path, "%s/rank%d.log", folder, rank);
    log_file = fopen(path, "w");
    if (!log_file || ranks > MOST_RANKS) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

// Prints the numbers of all ranks.
static void close_log(void)
{
    uint64_t all[MOST_RANKS];
    MPI_Gather(&result, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < ranks; i++)
        printf("result of rank %d: %016llx\n", i, (unsigned long long)all[i]);
    fclose(log_file);
}
