// Numbers that look random: the same from the same seed.
#pragma once
#include <stdint.h>

struct dice {
    uint64_t state;
};

static inline uint32_t roll(struct dice *dice, uint32_t sides)
{
    dice->state += 0x9e3779b97f4a7c15ULL;
    uint64_t z = dice->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (uint32_t)((z ^ (z >> 31)) % sides);
}

static inline struct dice dice_of(uint64_t seed, uint64_t round, uint64_t rank)
{
    struct dice dice = {seed * 1000003 + round * 8191 + rank};
    roll(&dice, 2);
    return dice;
}

static inline void shuffle(struct dice *dice, int *order, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)roll(dice, (uint32_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
