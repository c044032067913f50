/* Dense and batched matrix products: the tile model of kernels.md §2.5.
 *
 * A library picks one of a few tile shapes and K splits for each problem; the model takes the best
 * of 11 x 7. For each, arithmetic, operand traffic from L2 and HBM traffic overlap imperfectly (a
 * q-norm), waves of tiles are quantised by an architecture-dependent weight, and part of the output
 * is written after everything else. It ignores clusters of tiles, cache residency of operands
 * between kernels, and data-dependent power. */
#include <math.h>

#include "base/num.h"
#include "cost/models.h"

static const struct {
    double m, n;
} TILE[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64},
            {64, 128},  {64, 64},   {256, 256}, {128, 32}, {64, 32}};
static const double SPLIT[] = {1, 2, 3, 4, 6, 8, 16};

enum { TILES = sizeof TILE / sizeof *TILE, SPLITS = sizeof SPLIT / sizeof *SPLIT };

static const double BLOCK_K = 64, LEAST_SPLIT_K = 256;
static const double THROTTLE_FROM_S = 1e-3, THROTTLE_DECADES = 1.7;

orr_machine orr_machine_of(const orr_accelerator *accelerator, orr_dtype dtype) {
    double peak = accelerator->peak_flops[dtype];
    if (!(peak > 0)) {
        peak = accelerator->peak_flops[ORR_BF16] > 0 ? accelerator->peak_flops[ORR_BF16]
                                                     : accelerator->peak_flops[ORR_FP16];
    }
    return (orr_machine){.units = accelerator->units,
                         .peak_flops = peak,
                         .hbm_Bps = accelerator->hbm_Bps,
                         .l2_bytes = accelerator->l2_bytes};
}

/* (a^q + b^q + c^q)^(1/q), scaled so that no power overflows. */
static double norm3(double a, double b, double c, double q) {
    double top = orr_max_f64(a, orr_max_f64(b, c));
    if (q >= 40 || !(top > 0)) {
        return top;
    }
    double sum = 0;
    const double term[] = {a / top, b / top, c / top};
    for (int i = 0; i < 3; i++) {
        if (term[i] >= 1) {
            sum += 1;
        } else if (term[i] > 0.01) {
            sum += pow(term[i], q);
        }
    }
    return sum > 1 ? top * pow(sum, 1 / q) : top;
}

/* What does not depend on tile or split. */
typedef struct problem {
    const orr_gemm_constants *c;
    const orr_gemm_shape *shape;
    double flops_per_unit, hbm_Bps;
    double operand_bytes, output_bytes;
    double units;
} problem;

/* Time of one tile shape and split, or `best` when it cannot be lower. */
static double candidate(const problem *p, double tiles, double tile_m, double tile_n, double split,
                        double best) {
    const orr_gemm_constants *c = p->c;
    double k = p->shape->k;
    if (split > 1) {
        k = ceil(k / split / BLOCK_K) * BLOCK_K;
        if (k < LEAST_SPLIT_K) {
            return best;
        }
    } else {
        k = ceil(k / BLOCK_K) * BLOCK_K;
    }
    double waves = tiles * split / p->units;
    double busy = waves < 1 ? waves : 1;
    waves = waves <= 1 ? 1 : waves + c->quantisation * (ceil(waves) - waves);
    double reach = orr_min_f64(1, c->occupancy * busy);
    double hbm_Bps = p->hbm_Bps * reach;
    double compute = waves * 2 * tile_m * tile_n * k / p->flops_per_unit;
    double operands = waves * (tile_m + tile_n) * k * p->shape->in_bytes / c->unit_Bps;
    double write = p->output_bytes / hbm_Bps;
    double hbm = p->operand_bytes / hbm_Bps + (1 - c->serial_output) * write;
    double serial = c->serial_output * write + waves * c->tile_s;
    if (split > 1) {
        serial += c->split_s + 4 * split * tiles * tile_m * tile_n / p->hbm_Bps;
    }
    double least = orr_max_f64(compute, orr_max_f64(operands, hbm)) + serial;
    return least >= best ? best : norm3(compute, operands, hbm, c->norm) + serial;
}

double orr_gemm_time_s(const orr_gemm_constants *c, const orr_machine *machine,
                       const orr_gemm_shape *shape, orr_power power) {
    if (!(shape->m > 0 && shape->n > 0 && shape->k > 0 && shape->batch > 0)) {
        return 0;
    }
    const problem p = {
        .c = c,
        .shape = shape,
        .flops_per_unit = machine->peak_flops * c->efficiency / machine->units,
        .hbm_Bps = machine->hbm_Bps * c->hbm_frac,
        .operand_bytes =
            (shape->m * shape->k + shape->n * shape->k) * shape->in_bytes * shape->batch,
        .output_bytes = shape->m * shape->n * shape->out_bytes * shape->batch,
        .units = machine->units,
    };
    double best = INFINITY;
    for (int i = 0; i < TILES; i++) {
        double tiles = ceil(shape->m / TILE[i].m) * ceil(shape->n / TILE[i].n) * shape->batch;
        for (int j = 0; j < SPLITS; j++) {
            double time = candidate(&p, tiles, TILE[i].m, TILE[i].n, SPLIT[j], best);
            best = orr_min_f64(best, time);
        }
    }
    double decades = THROTTLE_DECADES;
    if (power == ORR_POWER_BENCHMARK) {
        decades = orr_min_f64(THROTTLE_DECADES, orr_max_f64(0, log10(best / THROTTLE_FROM_S)));
    }
    return c->start_s + best * (1 + c->throttle * decades);
}
