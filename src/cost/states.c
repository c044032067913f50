/* A step and a benchmark run one op in two states; what each price is of, in words.
 * docs/internals/cost.md, "Two states". */
#include "base/num.h"
#include "cost/cost_int.h"

static bool inside_a_domain(const orr_cost_table *table, const orr_op *op) {
    return orr_cluster_group(table->cluster, op->shape.comm.size, op->shape.comm.stride).domains <=
           1;
}

/* Which generation of the library a profile runs. */
static const char *generation(orr_arena *arena, const orr_cost_table *table) {
    const orr_tree *stated = orr_tree_get(table->software->evidence, "attention_efficiency_frac");
    const char *note = orr_tree_text(orr_tree_get(stated, "note"), "");
    return orr_arena_format(arena, "at %.0f %% of peak, as profile %s runs it here%s%s",
                            100 * table->attention.efficiency, table->software->name,
                            note[0] != '\0' ? ": " : "", note);
}

static const char *training(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                            uint8_t how) {
    if (how != ORR_BY_MODEL) {
        return how == ORR_BY_EXACT ? "as the evidence measured it"
                                   : "the model, moved by evidence of shapes nearby";
    }
    bool inside = op->kind == ORR_OP_COLLECTIVE && inside_a_domain(table, op);
    switch ((orr_op_kind)op->kind) {
    case ORR_OP_GEMM:
    case ORR_OP_GROUPED_GEMM:
        if (table->arch->assumed) {
            return "at the power limit throughout; what else training takes no published run of "
                   "this architecture says";
        }
        return orr_arena_format(
            arena,
            "at the power limit throughout, times %.2f: what published runs of %s take "
            "beyond kernels run alone",
            table->arch->gemm_factor * table->arch->gemm_sustained,
            orr_arch_name((orr_arch)table->arch->arch));
    case ORR_OP_ATTENTION:
        if (table->software->attention_efficiency_frac > 0) {
            return generation(arena, table);
        }
        return orr_arena_format(arena,
                                "at the efficiency that published runs of %s need; the host's "
                                "part of a call hides behind other kernels",
                                orr_arch_name((orr_arch)table->arch->arch));
    case ORR_OP_MEMORY: return "kernels of this family at their usual share of HBM bandwidth";
    case ORR_OP_COLLECTIVE:
        if ((inside ? table->inside : table->across)[op->sub].records > 0) {
            return "as the sweep of the machine itself says";
        }
        return inside ? "as benchmarks of one idle domain run it"
                      : "over the fabric as published runs load it";
    }
    return "";
}

/* Where no benchmark is priced: why, and what does it. */
static const char *absent(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                          const char *library) {
    if (library != NULL) {
        return orr_arena_format(
            arena, "no table measures %s of this on this accelerator or a sibling", library);
    }
    bool exchange = op->shape.comm.routing.topk > 0;
    switch ((orr_op_kind)op->kind) {
    case ORR_OP_GEMM: return "no table measures this format on this accelerator or a sibling";
    case ORR_OP_GROUPED_GEMM:
        return "depends on the library's kernel: see --batch --class grouped_gemm";
    case ORR_OP_ATTENTION: return "no table measures attention on this accelerator or a sibling";
    case ORR_OP_MEMORY:
        return op->sub == ORR_MEMOP_SOFTMAX || op->sub == ORR_MEMOP_NORM_FWD ||
                       op->sub == ORR_MEMOP_NORM_BWD || op->sub == ORR_MEMOP_EAGER
                   ? "depends on the library's kernel: see --library"
                   : "depends on the library's kernel: see --batch --class memops";
    case ORR_OP_COLLECTIVE:
        if (exchange) {
            return "depends on the library's kernel: see --batch --class ep_alltoall";
        }
        return inside_a_domain(table, op)
                   ? "the same price: steps take what benchmarks measured"
                   : "known of clusters that were measured: see --batch --class collectives";
    }
    return "";
}

/* Tables of NVIDIA's low precision time what quantises the input too (put_benchmark's schemes). */
static bool quantises(const orr_cost_table *table, const orr_op *op) {
    return table->accelerator->vendor == ORR_NVIDIA &&
           (op->dtype == ORR_FP8 || op->dtype == ORR_FP8_BLOCK || op->dtype == ORR_NVFP4);
}

/* "cudnn by its tables of h200 (14 rows, off by 2 % at training sizes)" */
static const char *kernel_text(orr_arena *arena, const orr_tree *benchmark) {
    return orr_arena_format(arena, "%s by its tables of %s (%lld rows, off by %.1f %%%s)",
                            orr_tree_text(orr_tree_get(benchmark, "kernel"), ""),
                            orr_tree_text(orr_tree_get(benchmark, "device"), ""),
                            (long long)orr_tree_int(orr_tree_get(benchmark, "rows"), 0),
                            100 * orr_tree_real(orr_tree_get(benchmark, "mape_training"), 0),
                            orr_tree_bool(orr_tree_get(benchmark, "other_direction"), false)
                                ? ", none of this direction"
                                : "");
}

static const char *alone_text(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                              const char *library, const orr_tree *benchmark) {
    if (benchmark == NULL) {
        return absent(arena, table, op, library);
    }
    if (op->kind == ORR_OP_MEMORY) {
        return kernel_text(arena, benchmark);
    }
    if (op->kind == ORR_OP_ATTENTION) {
        double start_s = orr_tree_real(orr_tree_get(benchmark, "start_s"), 0);
        return orr_arena_format(arena,
                                "%s, %.1f us of host in each call; beyond those, the two fits "
                                "differ",
                                kernel_text(arena, benchmark), start_s / ORR_US);
    }
    return !quantises(table, op) ? "milliseconds of it alone, over and over: power is limited only "
                                   "in long kernels"
                                 : "the product and what quantises its input, which a step counts "
                                   "apart, alone and over and over";
}

void orr_cost_put_states(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                         uint8_t how, const char *library, const orr_tree *benchmark,
                         orr_tree *out) {
    orr_tree *states = orr_tree_put(arena, out, "states", orr_tree_new_map(arena));
    orr_tree_put_text(arena, states, "training", training(arena, table, op, how));
    orr_tree_put_text(arena, states, "benchmark", alone_text(arena, table, op, library, benchmark));
}

void orr_cost_put_several(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                          orr_tree *out) {
    orr_cost_put_states(arena, table, op, ORR_BY_MODEL, NULL, NULL, out);
    orr_tree *states =
        orr_tree_put(arena, out, "states", orr_tree_copy(arena, orr_tree_get(out, "states")));
    orr_tree_put_text(arena, states, "benchmark", "of several kernels: price each by itself");
}
