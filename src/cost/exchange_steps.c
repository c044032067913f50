/* Measured combines beside what a step would pay for them: an all-to-all of as many bytes, a token
 * once to each rank and once to each domain. What lies between is part of the error of such prices
 * (`exchange`, `exchange_few` of transfer.yaml). Only combines count that a step could see: large
 * ones, with as many units as DeepEP asks for; a dispatch is half the bytes in the same kernel. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cost/cost_int.h"
#include "cost/kernel_price.h"

enum { MOST_TABLES = 64 };
static const double LEAST_UNITS = 20, MOST_UNITS = 24, LEAST_TOKENS = 1024;

/* One device with one layout. */
typedef struct layout {
    const char *device;
    double ranks, nodes;
    bool few; /* choices a token: orr_policy_few_choices */
    const orr_cost_table *table;
    size_t rows;
    double log_sum, square_sum; /* of log(measured / price) */
} layout;

struct orr_exchange_steps { /* [count] */
    orr_arena *arena;
    uint32_t count;
    layout of[MOST_TABLES];
};

orr_exchange_steps *orr_exchange_steps_new(orr_arena *arena) {
    orr_exchange_steps *steps = ORR_NEW(arena, orr_exchange_steps);
    steps->arena = arena;
    return steps;
}

static const orr_cost_table *table_of(orr_arena *arena, const orr_calibration *calibration,
                                      const orr_accelerator *a, double ranks, double nodes) {
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    const orr_cost_table *table = NULL;
    uint32_t node = (uint32_t)(ranks / nodes);
    bool made =
        orr_cluster_usual(arena, a, (uint32_t)ranks, node, NULL, &cluster, NULL) == ORR_OK &&
        orr_software_find(arena, "unknown", &software, NULL) == ORR_OK &&
        orr_cost_table_of(arena, calibration, cluster, software, &table, NULL) == ORR_OK;
    return made ? table : NULL;
}

static layout *layout_of(orr_exchange_steps *steps, orr_kernel_pricer *pricer,
                         const orr_kernel_row *row) {
    double ranks = row->shape.exchange.ep, nodes = row->shape.exchange.nodes;
    bool few = orr_policy_few_choices((uint32_t)row->shape.exchange.topk);
    for (uint32_t i = 0; i < steps->count; i++) {
        layout *l = &steps->of[i];
        if (l->ranks == ranks && l->nodes == nodes && l->few == few &&
            strcmp(l->device, row->device) == 0) {
            return l;
        }
    }
    const orr_accelerator *a = orr_kernel_accelerator(pricer, row->device);
    if (steps->count == MOST_TABLES || a == NULL || ranks > ORR_MAX_GPUS || !(ranks > nodes)) {
        return NULL;
    }
    layout *l = &steps->of[steps->count++];
    *l = (layout){.device = orr_arena_text(steps->arena, row->device),
                  .ranks = ranks,
                  .nodes = nodes,
                  .few = few,
                  .table = table_of(steps->arena, pricer->calibration, a, ranks, nodes)};
    return l;
}

void orr_exchange_steps_add(orr_exchange_steps *steps, orr_kernel_pricer *pricer,
                            const orr_kernel_row *row) {
    static const double ELEMENT_BYTES = 2;
    double units = row->shape.exchange.sms, tokens = row->shape.exchange.tokens;
    if (strcmp(row->kernel, "deepep_normal") != 0 || units < LEAST_UNITS || units > MOST_UNITS ||
        tokens < LEAST_TOKENS || !(row->shape.exchange.combine_s > 0)) {
        return;
    }
    layout *l = layout_of(steps, pricer, row);
    if (l == NULL || l->table == NULL) {
        return;
    }
    orr_op op = {.kind = ORR_OP_COLLECTIVE, .sub = ORR_ALL_TO_ALL, .stream = ORR_STREAM_EP};
    op.shape.comm.routing = (orr_routing){.topk = (uint32_t)row->shape.exchange.topk,
                                          .experts = (uint32_t)row->shape.exchange.experts};
    double copies = orr_routing_places(&op.shape.comm.routing, l->ranks);
    op.shape.comm.rank_bytes =
        (uint64_t)(tokens * copies * row->shape.exchange.hidden * ELEMENT_BYTES);
    op.shape.comm.size = (uint32_t)l->ranks;
    op.shape.comm.stride = 1;
    op.shape.comm.count = 1;
    double price_s = orr_cost_op(l->table, &op).time_s;
    if (price_s > 0) {
        double off = log(row->shape.exchange.combine_s / price_s);
        l->rows++;
        l->log_sum += off;
        l->square_sum += off * off;
    }
}

orr_tree *orr_exchange_steps_write(const orr_exchange_steps *steps) {
    orr_arena *arena = steps->arena;
    orr_tree *list = orr_tree_new_list(arena);
    for (uint32_t i = 0; i < steps->count; i++) {
        const layout *l = &steps->of[i];
        if (l->rows == 0) {
            continue;
        }
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "device", l->device);
        orr_tree_put_int(arena, one, "ranks", (int64_t)l->ranks);
        orr_tree_put_int(arena, one, "nodes", (int64_t)l->nodes);
        orr_tree_put_bool(arena, one, "few_choices", l->few);
        orr_tree_put_int(arena, one, "rows", (int64_t)l->rows);
        orr_tree_put_real(arena, one, "log_mean", l->log_sum / (double)l->rows);
        orr_tree_put_real(arena, one, "log_rms", sqrt(l->square_sum / (double)l->rows));
    }
    return list;
}
