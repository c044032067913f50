/* Checked and exact arithmetic, and unit constants. One unit per dimension inside the library:
 * seconds, bytes, flop, bytes per second; the schedule engine counts integer picoseconds. */
#ifndef ORR_BASE_NUM_H
#define ORR_BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

#define ORR_KIB 1024.0
#define ORR_MIB (1024.0 * 1024.0)
#define ORR_GIB (1024.0 * 1024.0 * 1024.0)
#define ORR_US 1e-6
#define ORR_MS 1e-3
#define ORR_PS 1e-12

/* Products and sums that say when they do not fit. */
static inline bool orr_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool orr_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

static inline uint64_t orr_div_up_u64(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : a / b + (a % b != 0);
}
static inline uint64_t orr_round_up_u64(uint64_t a, uint64_t multiple) {
    return orr_div_up_u64(a, multiple) * multiple;
}
static inline uint32_t orr_min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}
static inline uint32_t orr_max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}
static inline uint64_t orr_min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static inline uint64_t orr_max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
static inline double orr_min_f64(double a, double b) {
    return a < b ? a : b;
}
static inline double orr_max_f64(double a, double b) {
    return a > b ? a : b;
}

/* Smallest k with 2^k >= n; 0 for n <= 1. Exact where log2() need not be. */
static inline uint32_t orr_ceil_log2_u64(uint64_t n) {
    return n <= 1 ? 0 : 64u - (uint32_t)__builtin_clzll(n - 1);
}

/* Half width of a 90 % interval of a normal error, in standard deviations. */
#define ORR_HALF_90_SD 1.645

/* Quantile 0.95 of Student's t: Cornish and Fisher's expansion, good to 1 % from 3 degrees of
 * freedom. */
static inline double orr_t95(double dof) {
    const double z = 1.6448536269514722, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    return z + (z3 + z) / (4 * dof) + (5 * z5 + 16 * z3 + 3 * z) / (96 * dof * dof) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * dof * dof * dof);
}

/* Seconds to picoseconds, rounded; saturates, never negative. */
static inline int64_t orr_ps(double seconds) {
    double ps = seconds * 1e12 + 0.5;
    return !(ps > 0) ? 0 : ps >= 4e18 ? (int64_t)4000000000000000000 : (int64_t)ps;
}

#endif
