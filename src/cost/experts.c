/* Grouped products of experts, whole MoE layers, and their token exchange, as benchmarks measure
 * them. docs/internals/cost.md, "Grouped products, layers of experts, exchanges".
 *
 * A group that no row was routed to costs nothing; the others cost their weights once, their rows
 * with the padding of a tile, and a fixed share each. Skewed routing loads the fullest rank. */
#include <math.h>

#include "base/num.h"
#include "cost/models.h"
#include "program/routing.h"

static double power_sum(double a, double b, double c, double q) {
    double top = orr_max_f64(a, orr_max_f64(b, c));
    if (!(top > 0)) {
        return 0;
    }
    return top * pow(pow(a / top, q) + pow(b / top, q) + pow(c / top, q), 1 / q);
}

double orr_experts_time_s(const orr_experts_constants *c, const orr_machine *machine,
                          const orr_experts_shape *shape) {
    static const double TILE_ROWS = 128, LEAST_WAVE = 0.25;
    double rows = shape->rows;
    if (shape->skewed) {
        rows = orr_min_f64(rows * pow(shape->ranks, c->skew), shape->most_rows);
    }
    double missed = shape->topk > 0
                        ? pow(1 - orr_min_f64(1, shape->topk / shape->groups), rows / shape->topk)
                        : exp(-rows / shape->groups);
    double active = shape->groups * (1 - missed);
    if (!(active > 0)) {
        return 0;
    }
    double each = rows / active;
    double tiles = active * ceil(each / TILE_ROWS) * shape->columns / TILE_ROWS;
    double tail = c->wave * machine->units / orr_max_f64(tiles, LEAST_WAVE * machine->units);
    double row_flops = shape->row_flops + 2 * c->depth * shape->columns;
    double compute = active * (each + c->pad_rows) * row_flops /
                     (machine->peak_flops * c->efficiency) * (1 + tail);
    double bytes = active * shape->group_bytes +
                   rows * (c->read_bytes * shape->depth + c->write_bytes * shape->columns) +
                   shape->tokens * shape->token_bytes;
    double memory = bytes / (machine->hbm_Bps * c->hbm_frac);
    return c->start_s + c->token_s * shape->tokens +
           power_sum(compute, memory, c->group_s * active, c->norm);
}

double orr_exchange_time_s(const orr_exchange_constants *c, const orr_exchange_shape *shape) {
    /* dispatch in one byte an element, combine in two; a token's own copy is read and written too
     */
    static const double ELEMENT_BYTES = 3;
    double copy_bytes = shape->hidden * ELEMENT_BYTES + c->token_bytes;
    double copies = orr_distinct_places(shape->ranks, shape->topk, shape->experts);
    double inside = shape->tokens * (copies + c->own_copies) * copy_bytes;
    double outside = 0;
    if (shape->nodes > 1) {
        outside = shape->tokens * copy_bytes * (shape->nodes - 1) / shape->nodes *
                  orr_distinct_places(shape->nodes, shape->topk, shape->experts);
    }
    return c->start_s + c->rank_s * shape->ranks + c->node_s * shape->nodes +
           power_sum(inside / c->link_Bps, inside / (shape->units * c->unit_Bps),
                     outside / c->nic_Bps, c->norm);
}
