/* What a step's prices borrow, and how far that was off where it could be checked: devices of the
 * kernel tables priced without their own fits (data/calibration/left-out.yaml). */
#include <string.h>

#include "base/num.h"
#include "cost/cost_int.h"

typedef struct spread {
    uint32_t devices;
    double least, most;
} spread;

/* Errors of devices left out. Of siblings: those of the architecture where it has any. */
static spread left_out(const orr_calibration *calibration, const char *class, uint8_t arch,
                       bool sibling) {
    spread own = {0, 0, 0}, all = own;
    for (uint32_t i = 0; i < calibration->left_out_count; i++) {
        const orr_left_out *one = &calibration->left_out[i];
        if (strcmp(one->class, class) != 0 || (one->sibling != 0) != sibling) {
            continue;
        }
        spread *into[] = {&all, sibling && one->arch == arch ? &own : NULL};
        for (int k = 0; k < 2 && into[k] != NULL; k++) {
            into[k]->least = into[k]->devices == 0 ? one->mape_frac
                                                   : orr_min_f64(into[k]->least, one->mape_frac);
            into[k]->most = orr_max_f64(into[k]->most, one->mape_frac);
            into[k]->devices++;
        }
    }
    return own.devices > 0 ? own : all;
}

static const char *percents(orr_arena *arena, const spread *s) {
    return s->devices == 1
               ? orr_arena_format(arena, "%.1f %%", 100 * s->most)
               : orr_arena_format(arena, "%.1f to %.1f %%", 100 * s->least, 100 * s->most);
}

/* What one class of prices is taken from. */
typedef struct loan {
    const char *what;  /* in words */
    const char *class; /* of kernel table */
    const char *alike; /* what makes a device a relative */
    const char *from;
    orr_kin kin;
} loan;

static void add_loan(orr_arena *arena, orr_tree *list, const orr_cost_table *table, const loan *l) {
    const orr_accelerator *a = table->accelerator;
    bool sibling = l->kin == ORR_KIN_ARCH;
    spread s = left_out(table->calibration, l->class, a->arch, sibling);
    orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
    orr_tree_put_text(arena, one, "what", l->what);
    orr_tree_put_text(arena, one, "how", sibling ? "borrowed" : "assumed");
    orr_tree_put_text(arena, one, "from", l->from);
    const char *off = "no table says how far that is off";
    if (s.devices > 0) {
        orr_tree *map = orr_tree_put(arena, one, "left_out", orr_tree_new_map(arena));
        orr_tree_put_int(arena, map, "devices", s.devices);
        orr_tree_put_real(arena, map, "least", s.least);
        orr_tree_put_real(arena, map, "most", s.most);
        off = orr_arena_format(arena, "%u %s left out and priced so %s %s off", s.devices,
                               s.devices == 1 ? "device" : "devices",
                               s.devices == 1 ? "was" : "were", percents(arena, &s));
    }
    const char *message =
        orr_arena_format(arena, "%s of %s are %s from %s, %s %s; %s", l->what, a->name,
                         sibling ? "borrowed" : "assumed", l->from,
                         sibling ? "which has" : "for want of a device with", l->alike, off);
    orr_tree_put_text(arena, one, "message", message);
}

/* Its own, but from documents or of few rows. */
static void add_thin(orr_arena *arena, orr_tree *list, const orr_cost_table *table,
                     const char *what) {
    orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
    orr_tree_put_text(arena, one, "what", what);
    orr_tree_put_text(arena, one, "how", "assumed");
    orr_tree_put_text(arena, one, "from", "documents");
    const char *message = orr_arena_format(
        arena,
        "%s of %s are assumed from documents and few measurements, give or take 20 %% or more",
        what, table->accelerator->name);
    orr_tree_put_text(arena, one, "message", message);
}

orr_tree *orr_cost_reliance(orr_arena *arena, const orr_cost_table *table) {
    static const char PRODUCTS[] = "matrix products", LINKS[] = "collectives inside a domain",
                      SMALL[] = "attention and memory-bound kernels",
                      ARCHITECTURE[] = "its architecture", LAID[] = "links laid alike";
    orr_tree *list = orr_tree_new_list(arena);
    const orr_gemm_prices *gemm = &table->gemm[ORR_BF16];
    if (gemm->kin != ORR_KIN_SAME) {
        add_loan(
            arena, list, table,
            &(loan){PRODUCTS, "gemm", ARCHITECTURE, gemm->fit->fit.device, (orr_kin)gemm->kin});
    } else if (gemm->fit->fit.assumed) {
        add_thin(arena, list, table, PRODUCTS);
    }
    if (table->arch_kin == ORR_KIN_OTHER) {
        add_loan(arena, list, table,
                 &(loan){SMALL, "attention", ARCHITECTURE,
                         orr_arch_name((orr_arch)table->arch->arch), ORR_KIN_OTHER});
    } else if (table->arch->assumed) {
        add_thin(arena, list, table, SMALL);
    }
    const orr_curve *curve = &table->curve[ORR_ALL_REDUCE];
    if (curve->kin != ORR_KIN_SAME) {
        add_loan(arena, list, table,
                 &(loan){LINKS, "collectives", LAID, curve->fit->fit.device, (orr_kin)curve->kin});
    } else if (curve->provenance == ORR_FROM_ASSUMPTION) {
        add_thin(arena, list, table, LINKS);
    }
    return list;
}
