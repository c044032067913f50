/* What a cost table is made of, as a tree for reports. */
#include "base/num.h"
#include "cost/cost_int.h"

static const char *const KIN[] = {"this device", "same architecture", "another architecture"};
static const char *const PROVENANCE[] = {"measured", "restored", "model", "assumed"};

static orr_tree *write_gemm(orr_arena *arena, const orr_gemm_prices *prices, orr_dtype dtype) {
    const orr_gemm_fit *fit = prices->fit;
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "dtype", orr_dtype_name(dtype));
    orr_tree_put_text(arena, map, "fitted_on", fit->fit.device);
    orr_tree_put_text(arena, map, "kin", KIN[prices->kin]);
    orr_tree_put_text(arena, map, "provenance", PROVENANCE[prices->provenance]);
    orr_tree_put_int(arena, map, "rows", fit->fit.rows);
    orr_tree_put_real(arena, map, "relerr_small", prices->small_relerr_frac);
    orr_tree_put_real(arena, map, "relerr_training", prices->large_relerr_frac);
    orr_tree_put_text(arena, map, "source", fit->fit.source);
    return map;
}

static orr_tree *write_curve(orr_arena *arena, const orr_curve *curve, orr_collective op) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "op", orr_collective_name(op));
    orr_tree_put_text(arena, map, "fitted_on", curve->fit->fit.device);
    orr_tree_put_text(arena, map, "kin", KIN[curve->kin]);
    orr_tree_put_text(arena, map, "provenance", PROVENANCE[curve->provenance]);
    orr_tree_put_text(arena, map, "library", curve->fit->library);
    double largest = curve->point[curve->count - 1].ranks;
    orr_tree_put_real(arena, map, "relerr", orr_curve_error(curve, largest, ORR_MIB));
    orr_tree *ranks = orr_tree_put(arena, map, "ranks", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < curve->count; i++) {
        orr_tree_push(arena, ranks, orr_tree_new_int(arena, (int64_t)curve->point[i].ranks));
    }
    orr_tree_put_text(arena, map, "source", curve->fit->fit.source);
    return map;
}

orr_tree *orr_cost_table_write(orr_arena *arena, const orr_cost_table *table) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "accelerator", table->accelerator->name);
    orr_tree_put_text(arena, map, "power", "sustained");
    orr_tree *gemm = orr_tree_put(arena, map, "gemm", orr_tree_new_list(arena));
    for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
        if (table->accelerator->peak_flops[dtype] > 0) {
            orr_tree_push(arena, gemm, write_gemm(arena, &table->gemm[dtype], (orr_dtype)dtype));
        }
    }
    orr_tree *arch = orr_tree_put(arena, map, "architecture", orr_tree_new_map(arena));
    orr_tree_put_text(arena, arch, "name", orr_arch_name((orr_arch)table->arch->arch));
    orr_tree_put_text(arena, arch, "kin", KIN[table->arch_kin]);
    orr_tree_put_bool(arena, arch, "assumed", table->arch->assumed != 0);
    orr_tree_put_real(arena, arch, "gemm_factor", table->arch->gemm_factor);
    orr_tree_put_real(arena, arch, "attention_efficiency", table->attention.efficiency);
    orr_tree_put_real(arena, arch, "relerr_attention", table->arch->attention_error_frac);
    orr_tree_put_real(arena, arch, "relerr_memory", table->arch->memory_error_frac);
    orr_tree_put_text(arena, arch, "source", table->arch->source);
    orr_tree *curves = orr_tree_put(arena, map, "collectives", orr_tree_new_list(arena));
    for (int op = 0; op < ORR_COLLECTIVE_COUNT; op++) {
        orr_tree_push(arena, curves, write_curve(arena, &table->curve[op], (orr_collective)op));
    }
    orr_tree_put_text(arena, map, "fabric", table->cluster->fabric->name);
    return map;
}
