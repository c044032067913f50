/* Dense and batched matrix products: the tile model of docs/internals/cost.md.
 *
 * A library picks one of a few tile shapes and K splits for each problem; the model takes the best
 * of 11 x 7. For each, arithmetic, operand traffic from L2 and HBM traffic overlap imperfectly (a
 * q-norm), waves of tiles are quantised by an architecture-dependent weight, and part of the output
 * is written after everything else. It ignores clusters of tiles, cache residency of operands
 * between kernels, and data-dependent power. */
#include <math.h>

#include "base/num.h"
#include "cost/models.h"

const double ORR_GEMM_TILE[ORR_GEMM_TILES][2] = {{256, 128}, {128, 256}, {128, 128}, {256, 64},
                                                 {64, 256},  {128, 64},  {64, 128},  {64, 64},
                                                 {256, 256}, {128, 32},  {64, 32}};
static const double SPLIT[] = {1, 2, 3, 4, 6, 8, 16};
enum { SPLITS = sizeof SPLIT / sizeof *SPLIT };

static const double BLOCK_K = 64, LEAST_SPLIT_K = 256, MIDDLE_K = 4096;

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

double orr_stored_bytes(orr_dtype dtype) {
    switch (dtype) {
    case ORR_FP32: return 4;
    case ORR_FP8:
    case ORR_INT8: return 1;
    case ORR_MXFP8: return 1 + 1.0 / 32;
    case ORR_FP8_BLOCK: return 1 + 4.0 / 128;
    case ORR_NVFP4: return 0.5 + 1.0 / 16;
    case ORR_BF16:
    case ORR_FP16:
    case ORR_DTYPE_COUNT: break;
    }
    return 2;
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
    double split_k[SPLITS];  /* depth of each split, 0: too thin */
    double slowness[SPLITS]; /* of each, once asked for */
    double least_slowness;   /* of all splits */
} problem;

/* One way to cut the output. */
typedef struct tiling {
    double m, n;           /* tile */
    double tiles;          /* of them */
    double fill_m, fill_n; /* share of a tile's rows and columns that costs */
    double gain;
} tiling;

static tiling tiling_of(const problem *p, int tile) {
    double m = ORR_GEMM_TILE[tile][0], n = ORR_GEMM_TILE[tile][1];
    double exact_m = p->shape->m / m, exact_n = p->shape->n / n;
    double whole_m = ceil(exact_m), whole_n = ceil(exact_n);
    double fill = p->c->fill;
    return (tiling){.m = m,
                    .n = n,
                    .tiles = whole_m * whole_n * p->shape->batch,
                    .fill_m = (exact_m + fill * (whole_m - exact_m)) / whole_m,
                    .fill_n = (exact_n + fill * (whole_n - exact_n)) / whole_n,
                    .gain = p->c->tile_gain[tile]};
}

/* What one cut and split of K costs, resource by resource. */
typedef struct pieces {
    double tiles, waves;
    double compute, operands, hbm; /* overlap */
    double write, ramp, reduce;    /* follow */
} pieces;

static double slowness(const orr_gemm_constants *c, double k) {
    return c->depth > 0 ? pow(k / MIDDLE_K, c->depth) : 1;
}

static inline pieces pieces_of(problem *p, const tiling *cut, int split) {
    const orr_gemm_constants *c = p->c;
    double k = p->split_k[split];
    if (!(p->slowness[split] > 0)) {
        p->slowness[split] = slowness(c, k);
    }
    double tiles = cut->tiles * SPLIT[split];
    double waves = tiles / p->units;
    double busy = waves < 1 ? waves : 1;
    waves = waves <= 1 ? 1 : waves + c->quantisation * (ceil(waves) - waves);
    double hbm_Bps = p->hbm_Bps * orr_min_f64(1, c->occupancy * busy);
    double rows = cut->m * cut->fill_m, columns = cut->n * cut->fill_n;
    double write = p->output_bytes / hbm_Bps;
    return (pieces){
        .tiles = tiles,
        .waves = waves,
        .compute =
            waves * 2 * rows * columns * k * p->slowness[split] / (p->flops_per_unit * cut->gain),
        .operands = waves * (rows + columns) * k * p->shape->in_bytes / c->unit_Bps,
        .hbm = p->operand_bytes / hbm_Bps + (1 - c->serial_output) * write,
        .write = c->serial_output * write,
        .ramp = waves * c->tile_s,
        .reduce = split > 0 ? c->split_s + 4 * tiles * cut->m * cut->n / p->hbm_Bps : 0,
    };
}

/* Time of one cut and split, or `best` when it cannot be lower. */
static double candidate(problem *p, const tiling *cut, int split, double best) {
    double sums = split > 0
                      ? p->c->split_s + 4 * cut->tiles * SPLIT[split] * cut->m * cut->n / p->hbm_Bps
                      : 0;
    if (!(p->split_k[split] > 0) || sums >= best) {
        return best;
    }
    pieces x = pieces_of(p, cut, split);
    double serial = x.write + x.ramp + x.reduce;
    double least = orr_max_f64(x.compute, orr_max_f64(x.operands, x.hbm)) + serial;
    return least >= best
               ? best
               : orr_min_f64(best, norm3(x.compute, x.operands, x.hbm, p->c->norm) + serial);
}

static problem problem_of(const orr_gemm_constants *c, const orr_machine *machine,
                          const orr_gemm_shape *shape) {
    problem p = {
        .c = c,
        .shape = shape,
        .flops_per_unit = machine->peak_flops * c->efficiency / machine->units,
        .hbm_Bps = machine->hbm_Bps * c->hbm_frac,
        .operand_bytes =
            (shape->m * shape->k + shape->n * shape->k) * shape->in_bytes * shape->batch,
        .output_bytes = shape->m * shape->n * shape->out_bytes * shape->batch,
        .units = machine->units,
    };
    double least = 0; /* the last depth is the least */
    for (int i = 0; i < SPLITS; i++) {
        double k = ceil(shape->k / SPLIT[i] / BLOCK_K) * BLOCK_K;
        if (i == 0 || k >= LEAST_SPLIT_K) {
            p.split_k[i] = k;
            least = k;
        }
    }
    p.least_slowness = slowness(c, least);
    return p;
}

/* No split of a cut takes less: all its arithmetic over all units, all its bytes at full speed. */
static double bound(const problem *p, const tiling *cut) {
    static const double ROUNDING = 1 - 1e-9;
    double waves = cut->tiles / p->units;
    double flops = 2 * cut->m * cut->fill_m * cut->n * cut->fill_n * p->shape->k;
    double compute = waves * flops * p->least_slowness / (p->flops_per_unit * cut->gain);
    double serial =
        p->c->serial_output * p->output_bytes / p->hbm_Bps + orr_max_f64(1, waves) * p->c->tile_s;
    return ROUNDING * (compute + serial);
}

/* The best cut and split, begun with the cut of the lowest bound. */
static double search(problem *p, int *best_tile, int *best_split) {
    tiling cut[ORR_GEMM_TILES];
    double least[ORR_GEMM_TILES], best = INFINITY;
    int first = 0;
    for (int tile = 0; tile < ORR_GEMM_TILES; tile++) {
        cut[tile] = tiling_of(p, tile);
        least[tile] = bound(p, &cut[tile]);
        first = least[tile] < least[first] ? tile : first;
    }
    for (int i = 0; i <= ORR_GEMM_TILES; i++) {
        int tile = i == 0 ? first : i - 1;
        if (least[tile] >= best || (i > 0 && tile == first)) {
            continue;
        }
        for (int split = 0; split < SPLITS; split++) {
            double time = candidate(p, &cut[tile], split, best);
            if (time < best) {
                best = time;
                *best_tile = tile;
                *best_split = split;
            }
        }
    }
    return best;
}

static bool is_empty(const orr_gemm_shape *shape) {
    return !(shape->m > 0 && shape->n > 0 && shape->k > 0 && shape->batch > 0);
}

/* What the power limit adds, by the time itself. */
static double throttled(const orr_gemm_constants *c, double best, orr_power power) {
    double held = 1; /* share of the throttle that shows */
    if (power == ORR_POWER_BENCHMARK) {
        held = best / (best + c->throttle_half_s);
    }
    return c->throttle * held;
}

/* In training the quantising kernel is an op of its own. */
static double quantising(const orr_gemm_constants *c, const orr_machine *machine,
                         const orr_gemm_shape *shape, orr_power power) {
    static const double SOURCE_BYTES = 2; /* bf16 in */
    if (!(c->quantise_frac > 0) || power != ORR_POWER_BENCHMARK) {
        return 0;
    }
    return shape->m * shape->k * shape->batch * (SOURCE_BYTES + shape->in_bytes) /
           (machine->hbm_Bps * c->quantise_frac);
}

double orr_gemm_time_s(const orr_gemm_constants *c, const orr_machine *machine,
                       const orr_gemm_shape *shape, orr_power power) {
    if (is_empty(shape)) {
        return 0;
    }
    problem p = problem_of(c, machine, shape);
    int tile = 0, split = 0;
    double best = search(&p, &tile, &split);
    return c->start_s + best * (1 + throttled(c, best, power)) +
           quantising(c, machine, shape, power);
}

orr_gemm_parts orr_gemm_explain(const orr_gemm_constants *c, const orr_machine *machine,
                                const orr_gemm_shape *shape, orr_power power) {
    if (is_empty(shape)) {
        return (orr_gemm_parts){0};
    }
    problem p = problem_of(c, machine, shape);
    int tile = 0, split = 0;
    double best = search(&p, &tile, &split);
    tiling cut = tiling_of(&p, tile);
    pieces x = pieces_of(&p, &cut, split);
    return (orr_gemm_parts){.tile_m = cut.m,
                            .tile_n = cut.n,
                            .split = SPLIT[split],
                            .tiles = x.tiles,
                            .waves = x.tiles / p.units,
                            .compute_s = x.compute,
                            .operands_s = x.operands,
                            .hbm_s = x.hbm,
                            .output_s = x.write,
                            .ramp_s = x.ramp,
                            .reduce_s = x.reduce,
                            .start_s = c->start_s,
                            .throttle_s = best * throttled(c, best, power),
                            .quantise_s = quantising(c, machine, shape, power)};
}
