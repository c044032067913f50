/* Results on one rank against the same work split over all ranks, for each way of splitting.
 *
 * Every rank has the whole problem from one seed and computes it alone; then it computes its own
 * share and the ranks exchange as training does. The largest relative difference of any element
 * anywhere is the answer: rounding only, since sums are made in another order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

enum { ROWS = 64, WIDTH = 96, INNER = 128, POOL = 16 };

/* Buffers of one case, freed together. */
typedef struct pool {
    float *buffer[POOL];
    int count;
    int ranks, rank;
} pool;

static float *take(pool *p, uint64_t floats) {
    float *out = p->count < POOL ? cpu_floats(floats, (uint64_t)p->count + 11) : NULL;
    if (out == NULL) {
        abort(); /* a few kilobytes */
    }
    p->buffer[p->count++] = out;
    return out;
}

static double differ(const float *a, const float *b, uint64_t count) {
    double most = 0, scale = 1e-6;
    for (uint64_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs((double)b[i]));
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return most / scale;
}

static void rectify(float *x, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        x[i] = x[i] > 0 ? x[i] : 0;
    }
}

/* Columns [from, from + count) of a [rows, width] matrix. */
static void columns(const float *x, uint64_t rows, uint64_t width, uint64_t from, uint64_t count,
                    float *out) {
    for (uint64_t i = 0; i < rows; i++) {
        memcpy(out + i * count, x + i * width + from, count * sizeof *out);
    }
}

/* x W1^T, rectified, W2^T: W1 [INNER, WIDTH] by rows, W2 [WIDTH, INNER] by columns. */
static double tensor(pool *p, bool sequence) {
    uint64_t own = (uint64_t)(INNER / p->ranks), first = own * (uint64_t)p->rank;
    float *x = take(p, ROWS * WIDTH), *w1 = take(p, INNER * WIDTH), *w2 = take(p, WIDTH * INNER);
    float *h = take(p, ROWS * INNER), *y = take(p, ROWS * WIDTH);
    cpu_gemm_nt(ROWS, INNER, WIDTH, x, w1, h, false);
    rectify(h, ROWS * INNER);
    cpu_gemm_nt(ROWS, WIDTH, INNER, h, w2, y, false);

    float *part = take(p, ROWS * own), *w2_part = take(p, WIDTH * own);
    float *partial = take(p, ROWS * WIDTH), *sum = take(p, ROWS * WIDTH);
    const float *input = x;
    uint64_t shard = (uint64_t)(ROWS / p->ranks) * WIDTH;
    if (sequence) {
        float *gathered = take(p, ROWS * WIDTH);
        (void)MPI_Allgather(x + shard * (uint64_t)p->rank, (int)shard, MPI_FLOAT, gathered,
                            (int)shard, MPI_FLOAT, MPI_COMM_WORLD);
        input = gathered;
    }
    cpu_gemm_nt(ROWS, own, WIDTH, input, w1 + first * WIDTH, part, false);
    rectify(part, ROWS * own);
    columns(w2, WIDTH, INNER, first, own, w2_part);
    cpu_gemm_nt(ROWS, WIDTH, own, part, w2_part, partial, false);
    if (sequence) {
        (void)MPI_Reduce_scatter_block(partial, sum, (int)shard, MPI_FLOAT, MPI_SUM,
                                       MPI_COMM_WORLD);
        return differ(sum, y + shard * (uint64_t)p->rank, shard);
    }
    (void)MPI_Allreduce(partial, sum, ROWS * WIDTH, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return differ(sum, y, ROWS * WIDTH);
}

/* Weight gradient of half the rows each, summed: all-reduce; or scattered, applied, gathered. */
static double data(pool *p, int zero) {
    uint64_t rows = (uint64_t)(ROWS / p->ranks), first = rows * (uint64_t)p->rank;
    float *x = take(p, ROWS * WIDTH), *dy = take(p, ROWS * INNER), *w = take(p, INNER * WIDTH);
    float *whole = take(p, INNER * WIDTH), *part = take(p, INNER * WIDTH);
    float *sum = take(p, INNER * WIDTH), *updated = take(p, INNER * WIDTH);
    cpu_gemm_tn(INNER, WIDTH, ROWS, dy, x, whole, false);
    cpu_gemm_tn(INNER, WIDTH, rows, dy + first * INNER, x + first * WIDTH, part, false);
    if (!zero) {
        (void)MPI_Allreduce(part, sum, INNER * WIDTH, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return differ(sum, whole, INNER * WIDTH);
    }
    static const float RATE = 0.125f;
    uint64_t shard = (uint64_t)(INNER * WIDTH / p->ranks), from = shard * (uint64_t)p->rank;
    float *own = take(p, shard), *gathered = take(p, INNER * WIDTH);
    (void)MPI_Reduce_scatter_block(part, own, (int)shard, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (uint64_t i = 0; i < INNER * WIDTH; i++) {
        updated[i] = w[i] - RATE * whole[i];
    }
    for (uint64_t i = 0; i < shard; i++) {
        own[i] = w[from + i] - RATE * own[i];
    }
    (void)MPI_Allgather(own, (int)shard, MPI_FLOAT, gathered, (int)shard, MPI_FLOAT,
                        MPI_COMM_WORLD);
    return differ(gathered, updated, INNER * WIDTH);
}

/* Weights that live in shards: gathered to be used, their gradients scattered. */
static double sharded(pool *p) {
    uint64_t shard = (uint64_t)(INNER * WIDTH / p->ranks), rows = (uint64_t)(ROWS / p->ranks);
    uint64_t first = rows * (uint64_t)p->rank;
    float *x = take(p, ROWS * WIDTH), *w = take(p, INNER * WIDTH), *y = take(p, ROWS * INNER);
    float *gathered = take(p, INNER * WIDTH), *own = take(p, ROWS * INNER);
    cpu_gemm_nt(ROWS, INNER, WIDTH, x, w, y, false);
    (void)MPI_Allgather(w + shard * (uint64_t)p->rank, (int)shard, MPI_FLOAT, gathered, (int)shard,
                        MPI_FLOAT, MPI_COMM_WORLD);
    cpu_gemm_nt(rows, INNER, WIDTH, x + first * WIDTH, gathered, own, false);
    double forward = differ(own, y + first * INNER, rows * INNER);
    float *dw = take(p, INNER * WIDTH), *part = take(p, INNER * WIDTH), *sum = take(p, shard);
    cpu_gemm_tn(INNER, WIDTH, ROWS, y, x, dw, false);
    cpu_gemm_tn(INNER, WIDTH, rows, own, x + first * WIDTH, part, false);
    (void)MPI_Reduce_scatter_block(part, sum, (int)shard, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return fmax(forward, differ(sum, dw + shard * (uint64_t)p->rank, shard));
}

/* A chain of one square layer a rank. */
static double pipeline(pool *p) {
    float *x = take(p, ROWS * WIDTH), *w = take(p, WIDTH * WIDTH), *alone = take(p, ROWS * WIDTH);
    float *next = take(p, ROWS * WIDTH), *received = take(p, ROWS * WIDTH);
    memcpy(alone, x, ROWS * WIDTH * sizeof *x);
    for (int r = 0; r < p->ranks; r++) {
        cpu_gemm_nt(ROWS, WIDTH, WIDTH, alone, w, next, false);
        memcpy(alone, next, ROWS * WIDTH * sizeof *x);
    }
    const float *input = x;
    if (p->rank > 0) {
        (void)MPI_Recv(received, ROWS * WIDTH, MPI_FLOAT, p->rank - 1, 3, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
        input = received;
    }
    cpu_gemm_nt(ROWS, WIDTH, WIDTH, input, w, next, false);
    if (p->rank + 1 < p->ranks) {
        (void)MPI_Send(next, ROWS * WIDTH, MPI_FLOAT, p->rank + 1, 3, MPI_COMM_WORLD);
        return 0;
    }
    return differ(next, alone, ROWS * WIDTH);
}

/* One expert a rank; row i of a rank's tokens goes to expert i mod ranks and comes back. */
static double experts(pool *p) {
    uint64_t ranks = (uint64_t)p->ranks, rows = ROWS / ranks * ranks, each = rows / ranks;
    float *all = take(p, ranks * rows * WIDTH), *w = take(p, ranks * WIDTH * WIDTH);
    const float *x = all + (uint64_t)p->rank * rows * WIDTH;
    float *alone = take(p, rows * WIDTH), *sorted = take(p, rows * WIDTH);
    float *arrived = take(p, rows * WIDTH), *done = take(p, rows * WIDTH);
    for (uint64_t i = 0; i < rows; i++) {
        cpu_gemm_nt(1, WIDTH, WIDTH, x + i * WIDTH, w + i % ranks * WIDTH * WIDTH,
                    alone + i * WIDTH, false);
        memcpy(sorted + (i % ranks * each + i / ranks) * WIDTH, x + i * WIDTH, WIDTH * sizeof *x);
    }
    int part = (int)(each * WIDTH);
    (void)MPI_Alltoall(sorted, part, MPI_FLOAT, arrived, part, MPI_FLOAT, MPI_COMM_WORLD);
    cpu_gemm_nt(rows, WIDTH, WIDTH, arrived, w + (uint64_t)p->rank * WIDTH * WIDTH, done, false);
    (void)MPI_Alltoall(done, part, MPI_FLOAT, arrived, part, MPI_FLOAT, MPI_COMM_WORLD);
    double most = 0;
    for (uint64_t i = 0; i < rows; i++) {
        most = fmax(most, differ(arrived + (i % ranks * each + i / ranks) * WIDTH,
                                 alone + i * WIDTH, WIDTH));
    }
    return most;
}

/* Queries of a rank against the keys of all. */
static double context(pool *p) {
    enum { DIM = 32 };
    uint64_t own = (uint64_t)(ROWS / p->ranks), first = own * (uint64_t)p->rank;
    int shard = (int)(own * DIM);
    float *q = take(p, ROWS * DIM), *k = take(p, ROWS * DIM), *v = take(p, ROWS * DIM);
    float *scores = take(p, ROWS * ROWS), *whole = take(p, ROWS * DIM);
    float *keys = take(p, ROWS * DIM), *values = take(p, ROWS * DIM), *out = take(p, own * DIM);
    cpu_head h = {.sq = ROWS, .sk = ROWS, .d = DIM, .dv = DIM, .causal = true};
    cpu_attend(&h, q, k, v, scores, whole);
    (void)MPI_Allgather(k + first * DIM, shard, MPI_FLOAT, keys, shard, MPI_FLOAT, MPI_COMM_WORLD);
    (void)MPI_Allgather(v + first * DIM, shard, MPI_FLOAT, values, shard, MPI_FLOAT,
                        MPI_COMM_WORLD);
    h.sq = own;
    h.first = first;
    cpu_attend(&h, q + first * DIM, keys, values, scores, out);
    return differ(out, whole + first * DIM, own * DIM);
}

/* The attention backward against finite differences: the kernel itself, on one rank. */
static double gradient(pool *p) {
    enum { S = 12, DIM = 8 };
    float *q = take(p, S * DIM), *k = take(p, S * DIM), *v = take(p, S * DIM);
    float *dout = take(p, S * DIM), *scores = take(p, S * S), *dp = take(p, S * S);
    float *out = take(p, S * DIM), *dq = take(p, S * DIM), *dk = take(p, S * DIM);
    float *dv = take(p, S * DIM);
    cpu_head h = {.sq = S, .sk = S, .d = DIM, .dv = DIM, .causal = true};
    cpu_attend(&h, q, k, v, scores, out);
    cpu_attend_back(&h, q, k, v, scores, dout, dp, dq, dk, dv);
    static const float STEP = 1.0f / 64;
    float *const inputs[] = {q, k, v};
    const float *const gradients[] = {dq, dk, dv};
    double most = 0, scale = 0;
    for (int which = 0; which < 3; which++) {
        for (uint64_t i = 0; i < S * DIM; i++) {
            double change = 0;
            float kept = inputs[which][i];
            for (int side = -1; side <= 1; side += 2) {
                inputs[which][i] = kept + (float)side * STEP;
                cpu_attend(&h, q, k, v, scores, out);
                for (uint64_t j = 0; j < S * DIM; j++) {
                    change += side * (double)out[j] * (double)dout[j];
                }
            }
            inputs[which][i] = kept;
            double own = (double)gradients[which][i];
            most = fmax(most, fabs(change / (2 * (double)STEP) - own));
            scale = fmax(scale, fabs(own));
        }
    }
    return most / scale;
}

int cpu_check(cpu *self, uint32_t index, const char **name, double *difference,
              orr_backend_message *message) {
    static const char *const names[] = {"tp", "sp", "dp", "zero1",   "fsdp",
                                        "pp", "ep", "cp", "gradient"};
    if (index >= sizeof names / sizeof *names) {
        return ORR_BACKEND_UNSUPPORTED;
    }
    if (ROWS % self->ranks != 0 || INNER % self->ranks != 0) {
        (void)snprintf(message->text, sizeof message->text, "%d ranks do not divide %d rows",
                       self->ranks, ROWS);
        return ORR_BACKEND_FAILED;
    }
    pool p = {.ranks = self->ranks, .rank = self->rank};
    double own = 0, most = 0;
    *name = names[index];
    switch (index) {
    case 0: own = tensor(&p, false); break;
    case 1: own = tensor(&p, true); break;
    case 2: own = data(&p, 0); break;
    case 3: own = data(&p, 1); break;
    case 4: own = sharded(&p); break;
    case 5: own = pipeline(&p); break;
    case 6: own = experts(&p); break;
    case 7: own = context(&p); break;
    default: own = gradient(&p); break;
    }
    for (int i = 0; i < p.count; i++) {
        free(p.buffer[i]);
    }
    if (MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS) {
        return ORR_BACKEND_LOST;
    }
    *difference = most;
    return ORR_BACKEND_OK;
}
