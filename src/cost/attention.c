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

double orr_attention_bytes(const orr_attention_shape *shape) {
    static const double ELEMENT_BYTES = 2;
    /* q, k, v in, the output out; a backward reads those and the output's gradient, and writes
     * three */
    double passes = shape->backward ? 2 : 1;
    double keys = shape->seq_kv;
    if (shape->window > 0) {
        keys = orr_min_f64(keys, shape->seq_q + (shape->causal ? 1 : 2) * (double)shape->window);
    }
    return passes * ELEMENT_BYTES * (shape->head_dim + shape->v_dim) * shape->batch *
           (shape->seq_q * shape->heads + keys * shape->kv_heads);
}

double orr_attention_time_s(const orr_attention_constants *c, const orr_machine *machine,
                            const orr_attention_shape *shape) {
    double tiles = shape->batch * shape->heads * ceil(shape->seq_q / TILE_ROWS);
    if (!(tiles > 0 && shape->seq_kv > 0)) {
        return 0;
    }
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
    double tile = flops / (machine->peak_flops * efficiency / machine->units) + c->tile_s;
    double waves = tiles / machine->units;
    if (waves < FRACTIONAL_WAVES) {
        waves = ceil(waves);
    }
    return c->start_s + orr_max_f64(waves * tile, orr_attention_bytes(shape) / machine->hbm_Bps);
}
