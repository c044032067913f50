/* Fused attention: query tiles of 128 rows, each looping over the keys it sees.
 *
 * A tile costs its arithmetic at a share of one unit's peak plus a fixed ramp; tiles run in waves,
 * whole ones while they are few. Never less than its bytes take: narrow windows and few queries are
 * bound by HBM. Packing of grouped queries is ignored. docs/internals/cost.md. */
#include <math.h>

#include "base/num.h"
#include "cost/models.h"

static const double TILE_ROWS = 128;
static const double FRACTIONAL_WAVES = 4; /* above: a scheduler fills the tail */

double orr_attention_keys(const orr_attention_shape *shape) {
    double keys = shape->seq_kv;
    double window = shape->window;
    if (!shape->causal) {
        return window > 0 ? orr_min_f64(keys, 2 * window + TILE_ROWS) : keys;
    }
    if (window > 0 && window < keys) {
        /* a ramp up to the window, then the window */
        keys = window * (1 - window / (2 * keys)) + TILE_ROWS / 2;
        return orr_min_f64(keys, (shape->seq_kv + TILE_ROWS) / 2);
    }
    /* Under context parallelism a rank's queries see half of all keys too, balanced or averaged
     * over ranks. */
    return (keys + orr_min_f64(TILE_ROWS, keys)) / 2;
}

uint32_t orr_attention_pieces(const orr_attention_shape *shape) {
    return shape->packed == NULL ? 1 : shape->packed->count;
}

orr_attention_shape orr_attention_piece(const orr_attention_shape *shape, uint32_t index) {
    orr_attention_shape out = *shape;
    if (shape->packed != NULL) {
        out.packed = NULL;
        out.batch = 1;
        out.seq_q = out.seq_kv = shape->packed->length[index];
    }
    return out;
}

/* The same without a copy where nothing is packed. */
static const orr_attention_shape *piece_at(const orr_attention_shape *shape, uint32_t index,
                                           orr_attention_shape *room) {
    if (shape->packed == NULL) {
        return shape;
    }
    *room = orr_attention_piece(shape, index);
    return room;
}

double orr_attention_bytes(const orr_attention_shape *shape) {
    static const double ELEMENT_BYTES = 2;
    /* q, k, v in, the output out; a backward reads those and the output's gradient, and writes
     * three */
    double passes = shape->backward ? 2 : 1, sum = 0;
    orr_attention_shape room;
    for (uint32_t i = 0; i < orr_attention_pieces(shape); i++) {
        const orr_attention_shape *one = piece_at(shape, i, &room);
        double keys = one->seq_kv;
        if (one->window > 0) {
            keys = orr_min_f64(keys, one->seq_q + (one->causal ? 1 : 2) * one->window);
        }
        sum += passes * ELEMENT_BYTES * (one->head_dim + one->v_dim) * one->batch *
               (one->seq_q * one->heads + keys * one->kv_heads);
    }
    return sum;
}

orr_attention_work orr_attention_work_of(const orr_attention_shape *shape) {
    orr_attention_work sum = {0};
    for (uint32_t i = 0; i < orr_attention_pieces(shape); i++) {
        orr_attention_shape one = orr_attention_piece(shape, i);
        sum.tiles += one.batch * one.heads * ceil(one.seq_q / TILE_ROWS);
        sum.pairs += one.batch * one.seq_q * orr_attention_keys(&one);
        sum.queries += one.batch * one.seq_q;
    }
    return sum;
}

/* Time of a unit on one tile. */
static double tile_s(const orr_attention_constants *c, const orr_machine *machine,
                     const orr_attention_shape *shape) {
    double width = (shape->head_dim + shape->v_dim) / 2;
    double efficiency = c->efficiency;
    if (width < 80) {
        efficiency *= c->narrow_frac;
    } else if (width < 120) {
        efficiency *= c->medium_frac;
    }
    double rows = orr_min_f64(TILE_ROWS, shape->seq_q);
    double flops = 2 * rows * orr_attention_keys(shape) * (shape->head_dim + shape->v_dim);
    if (shape->backward) {
        flops *= c->backward_flops / c->backward_frac;
        if (c->grouped_backward_frac > 0 && shape->kv_heads < shape->heads) {
            flops /= c->grouped_backward_frac;
        }
    }
    return flops / (machine->peak_flops * efficiency / machine->units) + c->tile_s;
}

/* Waves of so many tiles, whole ones while they are few. */
static double waves_of(double tiles, double units) {
    double waves = tiles / units;
    return waves < FRACTIONAL_WAVES ? ceil(waves) : waves;
}

double orr_attention_time_s(const orr_attention_constants *c, const orr_machine *machine,
                            const orr_attention_shape *shape) {
    double tiles = 0, work_s = 0, longest_s = 0;
    orr_attention_shape room;
    for (uint32_t i = 0; i < orr_attention_pieces(shape); i++) {
        const orr_attention_shape *one = piece_at(shape, i, &room);
        double own = one->batch * one->heads * ceil(one->seq_q / TILE_ROWS);
        if (!(own > 0 && one->seq_kv > 0)) {
            return 0;
        }
        double each_s = tile_s(c, machine, one);
        tiles += own;
        work_s += own * each_s;
        longest_s = orr_max_f64(longest_s, waves_of(own, machine->units) * each_s);
    }
    /* packed sequences fill waves together, and end with the longest of them at the earliest */
    double memory_s = orr_attention_bytes(shape) / machine->hbm_Bps;
    if (shape->packed != NULL) {
        longest_s = orr_max_f64(waves_of(tiles, machine->units) * (work_s / tiles), longest_s);
    }
    return c->start_s + orr_max_f64(longest_s, memory_s);
}
