/* Attention of several kernels, priced as a step prices them: program/unfused.h. */
#include "program/unfused.h"

#include <math.h>

#include "cost/cost_int.h"

static orr_op op_of(const orr_unfused *core, const orr_unfused_part *part, orr_dtype dtype,
                    bool backward) {
    orr_op op = {.kind = ORR_OP_GEMM,
                 .phase = backward ? ORR_PHASE_INPUT_GRAD : ORR_PHASE_FORWARD,
                 .class = ORR_CLASS_ATTENTION,
                 .dtype = (uint8_t)dtype,
                 .out_bytes = 2};
    if (part->of == ORR_UNFUSED_SOFTMAX) {
        op.kind = ORR_OP_MEMORY;
        op.sub = ORR_MEMOP_SOFTMAX;
        op.bytes = part->bytes;
        op.shape.memory.kernels = part->kernels;
        return op;
    }
    op.shape.gemm.m = part->m;
    op.shape.gemm.n = part->n;
    op.shape.gemm.k = part->k;
    op.shape.gemm.batch = core->batch;
    return op;
}

static double flops_of(const orr_unfused *core, const orr_unfused_part *part) {
    return 2.0 * (double)core->batch * (double)part->m * (double)part->n * (double)part->k;
}

/* Operands read and results written, or what the softmax moves. */
static double bytes_of(const orr_unfused *core, const orr_unfused_part *part) {
    double m = (double)part->m, n = (double)part->n, k = (double)part->k;
    return part->of == ORR_UNFUSED_SOFTMAX ? part->bytes
                                           : 2.0 * (double)core->batch * ((m + n) * k + m * n);
}

static void put_part(orr_arena *arena, orr_tree *list, const orr_unfused *core,
                     const orr_unfused_part *part, double time_s) {
    orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
    orr_tree_put_text(arena, one, "what", part->what);
    if (part->of == ORR_UNFUSED_SOFTMAX) {
        orr_tree_put_real(arena, one, "bytes", part->bytes);
        orr_tree_put_int(arena, one, "kernels", part->kernels);
    } else {
        orr_tree_put_int(arena, one, "m", (int64_t)part->m);
        orr_tree_put_int(arena, one, "n", (int64_t)part->n);
        orr_tree_put_int(arena, one, "k", (int64_t)part->k);
        orr_tree_put_int(arena, one, "batch", (int64_t)core->batch);
    }
    orr_tree_put_real(arena, one, "time_s", time_s);
}

orr_tree *orr_cost_unfused_write(orr_arena *arena, const orr_cost_table *table,
                                 const orr_unfused *core, orr_dtype dtype, bool backward) {
    orr_unfused_part part[ORR_UNFUSED_PARTS];
    uint32_t count = orr_unfused_parts(core, backward, part);
    orr_cost all = {0}, one[ORR_UNFUSED_PARTS];
    double products_s = 0, softmax_s = 0, flops = 0, bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        orr_op op = op_of(core, &part[i], dtype, backward);
        one[i] = orr_cost_op(table, &op);
        bool softmax = part[i].of == ORR_UNFUSED_SOFTMAX;
        *(softmax ? &softmax_s : &products_s) += one[i].time_s * one[i].relerr_frac;
        all.time_s += one[i].time_s;
        all.provenance = one[i].provenance > all.provenance ? one[i].provenance : all.provenance;
        flops += flops_of(core, &part[i]);
        bytes += bytes_of(core, &part[i]);
    }
    /* products err together, apart from what the softmax does */
    all.relerr_frac = all.time_s > 0 ? hypot(products_s, softmax_s) / all.time_s : 0;
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(
        arena, map, "op",
        orr_arena_format(arena,
                         "attention %s %s, unfused%s, batch*heads=%llu seq_q=%llu "
                         "seq_kv=%llu head_dim=%llu v_dim=%llu",
                         orr_dtype_name(dtype), backward ? "backward" : "forward",
                         core->fused_softmax ? "" : ", eager", (unsigned long long)core->batch,
                         (unsigned long long)core->seq_q, (unsigned long long)core->seq_kv,
                         (unsigned long long)core->head_dim, (unsigned long long)core->v_dim));
    orr_tree_put_text(arena, map, "hardware", table->accelerator->name);
    orr_explain_price(arena, &all, map);
    orr_explain_products(arena, table, dtype, all.time_s, flops, bytes, map);
    orr_op first = op_of(core, &part[0], dtype, backward);
    orr_cost_put_several(arena, table, &first, map);
    orr_tree *list = orr_tree_put(arena, map, "kernels", orr_tree_new_list(arena));
    orr_tree *parts = orr_tree_put(arena, map, "one_after_another", orr_tree_new_map(arena));
    for (uint32_t i = 0; i < count; i++) { /* a backward is listed in the forward's order */
        uint32_t at = backward ? count - 1 - i : i;
        put_part(arena, list, core, &part[at], one[at].time_s);
        orr_tree_put_real(arena, parts, orr_arena_format(arena, "%s_s", part[at].what),
                          one[at].time_s);
    }
    return map;
}
