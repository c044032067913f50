/* Seeded random numbers (splitmix64), for tests and for reproducible sampling. */
#ifndef ORR_BASE_RNG_H
#define ORR_BASE_RNG_H

#include <stdint.h>

typedef struct orr_rng {
    uint64_t state;
} orr_rng;

static inline uint64_t orr_rng_next(orr_rng *rng) {
    uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
/* Uniform in [0, below); below must be positive. */
static inline uint32_t orr_rng_below(orr_rng *rng, uint32_t below) {
    return (uint32_t)(((orr_rng_next(rng) >> 32) * below) >> 32);
}
static inline double orr_rng_unit(orr_rng *rng) { /* [0, 1) */
    return (double)(orr_rng_next(rng) >> 11) * 0x1p-53;
}

#endif
