/* Fused attention and memory-bound kernels as benchmarks measure them: richer forms than pricing a
 * training step needs, so that libraries can be told apart. docs/internals/cost.md, "Attention". */
#include <math.h>

#include "base/num.h"
#include "cost/models.h"

static const double WIDTH[ORR_FLASH_UNALIGNED] = {64, 96, 128, 192, 256}, ALIGNMENT = 16;

static const double TILE_ROWS = 128, BLOCK_KEYS = 128;
static const double BACKWARD_FLOPS = 2.5; /* five products by two */

/* (a^q + b^q)^(1/q) */
static double norm2(double a, double b, double q) {
    double top = orr_max_f64(a, b), low = orr_min_f64(a, b);
    return top > 0 ? top * pow(1 + pow(low / top, q), 1 / q) : 0;
}

int orr_flash_width(double width) {
    if (fmod(width, ALIGNMENT) > 0) {
        return ORR_FLASH_UNALIGNED;
    }
    int class = 0;
    while (class < ORR_FLASH_UNALIGNED - 1 && width > WIDTH[class]) {
        class ++;
    }
    return class;
}

/* Where a fit had no rows of a width, heads are padded to the next width that it had, so that none
 * takes longer than a wider one; where there is none, the next narrower. */
static double efficiency_at(const orr_flash_constants *c, double width) {
    double own = c->efficiency[orr_flash_width(width)];
    if (own > 0) {
        return own;
    }
    double padded = ALIGNMENT * ceil(width / ALIGNMENT);
    int first = orr_flash_width(padded);
    for (int i = first; i < ORR_FLASH_UNALIGNED; i++) {
        if (c->efficiency[i] > 0) {
            return c->efficiency[i] * width / (i == first ? padded : WIDTH[i]);
        }
    }
    for (int i = first - 1; i >= 0; i--) {
        if (c->efficiency[i] > 0) {
            return c->efficiency[i];
        }
    }
    return c->efficiency[ORR_FLASH_UNALIGNED];
}

/* Keys of an average and of the longest tile. Some kernels mask what lies outside a window without
 * leaving it out (cuDNN's backward in 8 bits). */
static void keys_of(const orr_flash_constants *c, const orr_attention_shape *shape, double *average,
                    double *longest) {
    *average = orr_attention_keys(shape);
    *longest = shape->seq_kv;
    if (shape->window > 0) {
        orr_attention_shape whole = *shape;
        whole.window = 0;
        double all = orr_attention_keys(&whole);
        double seen = orr_min_f64(shape->seq_kv, shape->window + TILE_ROWS);
        *average += c->masked_frac * (all - *average);
        *longest = seen + c->masked_frac * (shape->seq_kv - seen);
    }
}

/* Time of a unit on an average tile and on the longest. */
static void tiles_of(const orr_flash_constants *c, const orr_machine *machine,
                     const orr_attention_shape *shape, double *average_s, double *longest_s) {
    double both = shape->head_dim + shape->v_dim;
    double passes = shape->backward ? BACKWARD_FLOPS : 1;
    double efficiency = efficiency_at(c, both / 2) * (shape->causal ? c->causal_frac : 1) *
                        (shape->kv_heads < shape->heads ? c->grouped_frac : 1) *
                        (shape->deterministic ? c->deterministic_frac : 1);
    double unit_flops = machine->peak_flops * efficiency / machine->units;
    double key_s = passes * (2 * TILE_ROWS * both / unit_flops + c->block_s / BLOCK_KEYS);
    double average, longest;
    keys_of(c, shape, &average, &longest);
    *average_s = key_s * average + c->tile_s;
    *longest_s = key_s * longest + c->tile_s;
}

double orr_flash_time_s(const orr_flash_constants *c, const orr_machine *machine,
                        const orr_attention_shape *shape) {
    double tiles = 0, work_s = 0, average = 0, longest_s = 0, sequences = 0, bytes = 0;
    double both = shape->head_dim + shape->v_dim;
    for (uint32_t i = 0; i < orr_attention_pieces(shape); i++) {
        orr_attention_shape one = orr_attention_piece(shape, i);
        double own = one.batch * one.heads * ceil(one.seq_q / TILE_ROWS), longest;
        if (!(own > 0 && one.seq_kv > 0)) {
            return 0;
        }
        tiles_of(c, machine, &one, &average, &longest);
        tiles += own;
        work_s += own * average;
        longest_s = orr_max_f64(longest_s, longest);
        sequences += one.batch;
        bytes += 2 * both * one.batch * (one.seq_q * one.heads + one.seq_kv * one.kv_heads);
    }
    average = shape->packed == NULL ? average : work_s / tiles;
    double waves = tiles / machine->units;
    double whole = waves <= 1 ? 1 : waves + c->quantisation * (ceil(waves) - waves);
    /* unequal causal tiles fill waves among themselves */
    double compute = norm2((shape->causal ? waves : whole) * average, longest_s, c->tail);
    double memory =
        (shape->backward ? BACKWARD_FLOPS : 1) * bytes / (machine->hbm_Bps * c->hbm_frac);
    double time = norm2(compute, memory, c->norm);
    return c->start_s + c->sequence_s * sequences +
           time * (1 + c->throttle * time / (time + c->throttle_half_s));
}

double orr_stream_time_s(const orr_stream_constants *c, const orr_machine *machine, double bytes,
                         double rows) {
    double held = orr_min_f64(bytes, c->cached * machine->l2_bytes);
    double Bps = machine->hbm_Bps * c->hbm_frac;
    return c->start_s + rows * c->row_s / machine->units + (bytes - held) / Bps +
           held / (Bps * c->speedup);
}
