/* Muon's work on one matrix: its products by the GEMM model, one launch each. */
#include "program/muon.h"
#include "cost/cost_int.h"

static void add(orr_cost *sum, double *error_s, const orr_cost *one, double times) {
    sum->time_s += times * one->time_s;
    *error_s += times * one->time_s * one->relerr_frac; /* of one sign: one kind of kernel */
    sum->provenance = one->provenance > sum->provenance ? one->provenance : sum->provenance;
}

orr_muon_cost orr_cost_muon(const orr_cost_table *table, uint64_t rows, uint64_t cols) {
    orr_op op[ORR_MUON_PRODUCTS], rest = orr_muon_elementwise(rows, cols);
    orr_muon_cost out = {0};
    double error_s = 0;
    orr_muon_products(rows, cols, op);
    for (int i = 0; i < ORR_MUON_PRODUCTS; i++) {
        orr_cost one = orr_cost_op(table, &op[i]);
        out.product_s[i] = ORR_MUON_STEPS * one.time_s;
        add(&out.all, &error_s, &one, ORR_MUON_STEPS);
    }
    orr_cost one = orr_cost_op(table, &rest);
    out.elementwise_s = one.time_s;
    add(&out.all, &error_s, &one, 1);
    out.flops = orr_muon_flops(rows, cols);
    out.all.relerr_frac = out.all.time_s > 0 ? error_s / out.all.time_s : 0;
    return out;
}

/* Operands read and results written, of all iterations. */
static double product_bytes(const orr_op *op) {
    double m = (double)op->shape.gemm.m, n = (double)op->shape.gemm.n, k = (double)op->shape.gemm.k;
    return ORR_MUON_STEPS * ((m + n) * k * 2 + m * n * op->out_bytes);
}

static void put_product(orr_arena *arena, orr_tree *list, const char *what, const orr_op *op,
                        double time_s) {
    orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
    orr_tree_put_text(arena, one, "what", what);
    orr_tree_put_int(arena, one, "m", (int64_t)op->shape.gemm.m);
    orr_tree_put_int(arena, one, "n", (int64_t)op->shape.gemm.n);
    orr_tree_put_int(arena, one, "k", (int64_t)op->shape.gemm.k);
    orr_tree_put_int(arena, one, "times", ORR_MUON_STEPS);
    orr_tree_put_real(arena, one, "time_s", time_s);
}

orr_tree *orr_cost_muon_write(orr_arena *arena, const orr_cost_table *table, uint64_t rows,
                              uint64_t cols, double matrices) {
    static const char *const WHAT[ORR_MUON_PRODUCTS] = {"X X^T", "A A", "B X"};
    static const char *const PARTS[ORR_MUON_PRODUCTS] = {"gram_s", "square_s", "update_s"};
    orr_op op[ORR_MUON_PRODUCTS], rest = orr_muon_elementwise(rows, cols);
    orr_muon_cost cost = orr_cost_muon(table, rows, cols);
    orr_muon_products(rows, cols, op);
    double bytes = rest.bytes;
    cost.all.time_s *= matrices;
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "op",
                      orr_arena_format(arena,
                                       "muon: %d Newton-Schulz iterations on %.0f of %llux%llu",
                                       (int)ORR_MUON_STEPS, matrices, (unsigned long long)rows,
                                       (unsigned long long)cols));
    orr_tree_put_text(arena, map, "hardware", table->accelerator->name);
    orr_explain_price(arena, &cost.all, map);
    for (int i = 0; i < ORR_MUON_PRODUCTS; i++) {
        bytes += product_bytes(&op[i]);
    }
    orr_explain_products(arena, table, ORR_BF16, cost.all.time_s, matrices * cost.flops,
                         matrices * bytes, map);
    orr_cost_put_several(arena, table, &op[0], map);
    orr_tree *list = orr_tree_put(arena, map, "products", orr_tree_new_list(arena));
    orr_tree *parts = orr_tree_put(arena, map, "one_after_another", orr_tree_new_map(arena));
    for (int i = 0; i < ORR_MUON_PRODUCTS; i++) {
        put_product(arena, list, WHAT[i], &op[i], matrices * cost.product_s[i]);
        orr_tree_put_real(arena, parts, PARTS[i], matrices * cost.product_s[i]);
    }
    orr_tree_put_real(arena, parts, "elementwise_s", matrices * cost.elementwise_s);
    return map;
}
