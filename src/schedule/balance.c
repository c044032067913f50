/* Cutting a chain of layers into chunks of nearly equal time, exactly.
 *
 * First the least possible longest chunk: longest[k][i] = min over j of max(longest[k-1][j],
 * time of layers j..i as chunk k). Then, among the cuts that reach it, the most even one by the
 * same recursion over sums of deviations. Chunks that break the memory cap cost infinity. */
#include <string.h>

#include "schedule/schedule_int.h"

static const int64_t NEVER = INT64_MAX;

typedef struct cutter {
    const orr_balance *b;
    uint32_t chunks;
    int64_t *time;           /* [layers+1] sums of what lies before */
    uint64_t *fixed, *saved; /* likewise, bytes */
    uint64_t cap;            /* of a chunk; 0: none */
    int64_t total;
    int64_t *cost;  /* [2][layers+1] of the chunks up to the one at hand, cut before layer i */
    uint32_t *from; /* [chunks+1][layers+1] where the last chunk begins; NULL on the first pass */
} cutter;

/* Chunk k of the chain sits on rank k mod pp; in_flight counts by rank, then chunk. */
static uint32_t held(const cutter *c, uint32_t k) {
    uint32_t vpp = c->chunks / c->b->pp;
    return c->b->in_flight == NULL ? 0 : c->b->in_flight[k % c->b->pp * vpp + k / c->b->pp];
}

static bool fits(const cutter *c, uint32_t k, uint32_t j, uint32_t i) {
    uint64_t bytes = c->fixed[i] - c->fixed[j], live;
    bytes += (k == 0 ? c->b->first_bytes : 0) + (k + 1 == c->chunks ? c->b->last_bytes : 0);
    return c->cap == 0 || (orr_mul_u64(c->saved[i] - c->saved[j], held(c, k), &live) &&
                           orr_add_u64(bytes, live, &bytes) && bytes <= c->cap);
}

static int64_t time_of(const cutter *c, uint32_t k, uint32_t j, uint32_t i) {
    return c->time[i] - c->time[j] + (k == 0 ? c->b->first_ps : 0) +
           (k + 1 == c->chunks ? c->b->last_ps : 0);
}

/* What a chunk adds: on the first pass its time, to be maximised over; on the second, where no
 * chunk may be longer than `limit`, its distance from the mean times the number of chunks. */
static int64_t join(const cutter *c, int64_t before, int64_t time, int64_t limit) {
    if (limit < 0) {
        return before > time ? before : time;
    }
    if (time > limit) {
        return NEVER;
    }
    int64_t off = time * c->chunks - c->total;
    return before + (off < 0 ? -off : off);
}

static void extend(cutter *c, uint32_t k, const int64_t *before, int64_t *after, int64_t limit) {
    uint32_t layers = c->b->layers, least = c->b->least;
    for (uint32_t i = 0; i <= layers; i++) {
        after[i] = NEVER;
        for (uint32_t j = i + 1; j-- > 0;) {
            if (i - j < least || before[j] == NEVER) {
                continue;
            }
            int64_t time = time_of(c, k, j, i);
            if (!fits(c, k, j, i) || (limit >= 0 && time > limit) ||
                (limit < 0 && time >= after[i])) {
                break; /* longer chunks only get worse */
            }
            int64_t cost = join(c, before[j], time, limit);
            if (cost < after[i]) {
                after[i] = cost;
                if (c->from != NULL) {
                    c->from[(size_t)(k + 1) * (layers + 1) + i] = j;
                }
            }
        }
    }
}

static int64_t run(cutter *c, int64_t limit) {
    uint32_t layers = c->b->layers;
    int64_t *before = c->cost, *after = c->cost + layers + 1;
    for (uint32_t i = 0; i <= layers; i++) {
        before[i] = i == 0 ? 0 : NEVER;
    }
    for (uint32_t k = 0; k < c->chunks; k++) {
        extend(c, k, before, after, limit);
        int64_t *swap = before;
        before = after;
        after = swap;
    }
    return before[layers];
}

static orr_status check(const orr_balance *b, uint32_t chunks, orr_err *err) {
    uint64_t time = (uint64_t)b->first_ps + (uint64_t)b->last_ps, bytes, sum = 0;
    bool small = b->layers <= ORR_MAX_BALANCED && b->pp > 0 && b->pp <= ORR_MAX_PP &&
                 b->vpp <= ORR_MAX_VPP && chunks <= ORR_MAX_BALANCED && b->first_ps >= 0 &&
                 b->last_ps >= 0 && orr_add_u64(b->first_bytes, b->last_bytes, &bytes);
    for (uint32_t i = 0; i < b->layers && small; i++) {
        small = b->time_ps[i] >= 0 && orr_add_u64(time, (uint64_t)b->time_ps[i], &time) &&
                (b->static_bytes == NULL || orr_add_u64(bytes, b->static_bytes[i], &bytes)) &&
                (b->live_bytes == NULL || orr_add_u64(sum, b->live_bytes[i], &sum));
    }
    /* the sum of all deviations, each times the number of chunks, has to stay in range */
    uint64_t most = small ? (uint64_t)INT64_MAX / 2 / chunks / chunks : 0;
    if (!small || time > most) {
        return orr_fail(err, ORR_E_LIMIT,
                        "cannot balance %u layers over %u chunks: at most %u of each, times not "
                        "negative and their sum at most %llu ps",
                        b->layers, chunks, (unsigned)ORR_MAX_BALANCED, (unsigned long long)most);
    }
    return ORR_OK;
}

static cutter new_cutter(orr_arena *work, const orr_balance *b, uint32_t chunks) {
    size_t cells = (size_t)b->layers + 1;
    cutter c = {.b = b, .chunks = chunks, .total = b->first_ps + b->last_ps};
    c.time = ORR_NEW_ARRAY(work, int64_t, cells);
    c.fixed = ORR_NEW_ARRAY(work, uint64_t, cells);
    c.saved = ORR_NEW_ARRAY(work, uint64_t, cells);
    c.cost = ORR_NEW_ARRAY(work, int64_t, 2 * cells);
    c.cap = b->cap_bytes == 0             ? 0
            : orr_max_u32(1, b->vpp) == 1 ? b->cap_bytes
                                          : b->cap_bytes / b->vpp;
    for (uint32_t i = 0; i < b->layers; i++) {
        c.time[i + 1] = c.time[i] + b->time_ps[i];
        c.fixed[i + 1] = c.fixed[i] + (b->static_bytes == NULL ? 0 : b->static_bytes[i]);
        c.saved[i + 1] = c.saved[i] + (b->live_bytes == NULL ? 0 : b->live_bytes[i]);
    }
    c.total += c.time[b->layers];
    return c;
}

static void read_cuts(const cutter *c, uint32_t *count, uint32_t *offset) {
    uint32_t layers = c->b->layers, vpp = c->chunks / c->b->pp, end = layers;
    for (uint32_t k = c->chunks; k-- > 0;) {
        uint32_t start = c->from[(size_t)(k + 1) * (layers + 1) + end];
        uint32_t at = k % c->b->pp * vpp + k / c->b->pp;
        count[at] = end - start;
        offset[at] = start;
        end = start;
    }
}

orr_status orr_split_balance(const orr_balance *balance, uint32_t *count, uint32_t *offset,
                             int64_t *worst_ps, orr_err *err) {
    uint32_t chunks = balance->pp <= ORR_MAX_PP && balance->vpp <= ORR_MAX_VPP
                          ? balance->pp * orr_max_u32(1, balance->vpp)
                          : UINT32_MAX;
    ORR_TRY(check(balance, chunks, err));
    orr_arena *work = orr_arena_new();
    cutter c = new_cutter(work, balance, chunks);
    int64_t worst = run(&c, -1);
    if (worst != NEVER) {
        c.from = ORR_NEW_ARRAY(work, uint32_t, (size_t)(chunks + 1) * (balance->layers + 1));
        (void)run(&c, worst);
        read_cuts(&c, count, offset);
    }
    orr_arena_free(work);
    if (worst == NEVER) {
        return orr_fail(err, ORR_E_INFEASIBLE,
                        "no split of %u layers over %u chunks of at least %u keeps every rank "
                        "within %llu bytes",
                        balance->layers, chunks, balance->least,
                        (unsigned long long)balance->cap_bytes);
    }
    if (worst_ps != NULL) {
        *worst_ps = worst;
    }
    return ORR_OK;
}
