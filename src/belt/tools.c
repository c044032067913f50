/* The tools: many plans at once, one plan explained, neighbours, two plans compared. */
#include <string.h>

#include "base/err.h"
#include "belt/belt_int.h"

/* ---- evaluate ------------------------------------------------------------------------------- */

orr_status orr_belt_evaluate(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                             const orr_tree *plans, orr_tree *out, orr_err *err) {
    size_t count = orr_tree_size(plans);
    if (orr_tree_kind_of(plans) != ORR_TREE_LIST || count == 0 || count > ORR_BELT_MAX_PLANS) {
        orr_status status =
            orr_fail(err, ORR_E_SCHEMA, "plans must be a list of 1 to %d maps", ORR_BELT_MAX_PLANS);
        orr_hint(err, "each map holds the keys that differ from the base, such as {\"tp\": 4}");
        return status;
    }
    orr_tree *rows = orr_tree_put(arena, out, "rows", orr_tree_new_list(arena));
    double best = 0;
    size_t best_at = count;
    bool legal = false;
    for (size_t i = 0; i < count; i++) {
        const orr_tree *overrides = orr_tree_at(plans, i);
        if (orr_tree_kind_of(overrides) != ORR_TREE_MAP) {
            return orr_fail(err, ORR_E_SCHEMA, "plan %zu of plans is no map of plan keys", i);
        }
        orr_belt_plan plan;
        ORR_TRY(belt_progress(oracle, "plans", (double)i, (double)count, err));
        ORR_TRY(orr_belt_project(oracle, arena, base, overrides, &plan, err));
        (void)orr_tree_push(arena, rows, orr_belt_row(arena, overrides, &plan));
        legal = legal || plan.legal;
        if (plan.fits && plan.tokens_per_s_per_gpu > best) {
            best = plan.tokens_per_s_per_gpu;
            best_at = i;
        }
    }
    (void)orr_tree_put(arena, out, "best",
                       best_at < count ? orr_tree_new_int(arena, (int64_t)best_at)
                                       : orr_tree_null(arena));
    /* of all of them: whether any plan is legal, and any fits */
    orr_tree *verdict = orr_tree_put(arena, out, "verdict", orr_tree_new_map(arena));
    orr_tree_put_bool(arena, verdict, "legal", legal);
    orr_tree_put_bool(arena, verdict, "fits", best_at < count);
    return ORR_OK;
}

/* ---- explain -------------------------------------------------------------------------------- */

/* What each part of a step is and which keys act on it. */
static const struct {
    const char *slice, *is, *keys;
} slices[] = {
    {"gemm", "matrix products", "precision, mbs, tp, ep"},
    {"attention", "the attention kernels", "attention, cp, seq"},
    {"elementwise", "norms, activations, residuals, permutations", "sp, recompute, mbs"},
    {"loss", "output projection's cross entropy", "loss, tp"},
    {"tp", "tensor-parallel communication that compute does not hide", "tp, overlap"},
    {"cp", "context-parallel communication that compute does not hide", "cp, cp_kind"},
    {"ep", "tokens to and from their experts, not hidden", "dispatch, ep, overlap"},
    {"pp", "hops between stages that are waited for", "p2p, pp, vpp, schedule"},
    {"bubble", "waiting for other pipeline stages", "vpp, schedule, mbs, pp, layout"},
    {"dp", "gradient reduction and parameter gather, not hidden", "overlap, sharding, grad_dtype"},
    {"recompute", "forward work done again in the backward pass", "recompute"},
    {"optimizer", "the update of the parameters", "sharding, optimizer"},
    {"host", "the host's launches and the loader", "mbs, tp"},
    {"jitter", "waiting for the slowest of many ranks", "gpus"},
};

static void explain_time(orr_arena *arena, const orr_belt_plan *plan, orr_tree *out) {
    const orr_tree *breakdown = orr_tree_path(plan->envelope, "result.breakdown");
    orr_tree *list = orr_tree_put(arena, out, "time", orr_tree_new_list(arena));
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        const char *key = orr_arena_format(arena, "%s_s", slices[i].slice);
        double value_s = orr_tree_real(orr_tree_get(breakdown, key), 0);
        if (value_s > 0) {
            orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "what", slices[i].slice);
            orr_tree_put_real(arena, one, "s", belt_round(value_s, 4));
            orr_tree_put_real(arena, one, "share", belt_round(value_s / plan->step_s, 3));
            orr_tree_put_text(arena, one, "is", slices[i].is);
            orr_tree_put_text(arena, one, "keys", slices[i].keys);
        }
    }
}

static void explain_memory(orr_arena *arena, const orr_belt_plan *plan, orr_tree *out) {
    const orr_tree *memory = orr_tree_path(plan->envelope, "result.memory");
    int64_t worst = orr_tree_int(orr_tree_get(memory, "worst_rank"), 0);
    const orr_tree *rank =
        orr_tree_at(orr_tree_get(memory, "ranks"), (size_t)(worst < 0 ? 0 : worst));
    orr_tree *to = orr_tree_put(arena, out, "memory", orr_tree_new_map(arena));
    orr_tree_put_int(arena, to, "rank", worst);
    orr_tree_put_text(arena, to, "moment", orr_tree_text(orr_tree_get(rank, "moment"), ""));
    orr_tree_put_real(arena, to, "need_bytes",
                      orr_tree_real(orr_tree_get(memory, "need_bytes"), 0));
    orr_tree_put_real(arena, to, "usable_bytes",
                      orr_tree_real(orr_tree_get(memory, "capacity_bytes"), 0));
    (void)orr_tree_put(arena, to, "parts", orr_tree_copy(arena, orr_tree_get(rank, "parts")));
}

/* The plans one step away that gain most, or that fit where this one does not. */
static orr_status explain_levers(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                                 orr_tree *out, orr_err *err) {
    enum { LEVERS = 5 };
    orr_tree *around = orr_tree_new_map(arena);
    ORR_TRY(orr_belt_neighbors(oracle, arena, base, NULL, around, err));
    orr_tree *levers = orr_tree_put(arena, out, "levers", orr_tree_new_list(arena));
    const orr_tree *rows = orr_tree_get(around, "rows");
    for (size_t i = 0; i < orr_tree_size(rows) && orr_tree_size(levers) < LEVERS; i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        if (orr_tree_bool(orr_tree_get(row, "fits"), false)) {
            (void)orr_tree_push(arena, levers, orr_tree_copy(arena, row));
        }
    }
    return ORR_OK;
}

static orr_status readable(const orr_belt_plan *plan, orr_err *err) {
    if (!plan->readable && err != NULL) {
        *err = plan->why;
    }
    return plan->readable ? ORR_OK : plan->why.status;
}

orr_status orr_belt_explain(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            orr_tree *out, const orr_tree **warnings, orr_err *err) {
    orr_belt_plan plan;
    ORR_TRY(orr_belt_project(oracle, arena, base, NULL, &plan, err));
    ORR_TRY(readable(&plan, err));
    *warnings = orr_tree_get(plan.envelope, "warnings");
    (void)orr_tree_put(arena, out, "plan", orr_belt_row(arena, NULL, &plan));
    if (plan.legal) {
        explain_time(arena, &plan, out);
        explain_memory(arena, &plan, out);
        (void)orr_tree_put(arena, out, "waterfall",
                           orr_tree_copy(arena, orr_tree_path(plan.envelope, "result.waterfall")));
    }
    (void)orr_tree_put(arena, out, "verdict",
                       orr_tree_copy(arena, orr_tree_path(plan.envelope, "result.verdict")));
    return explain_levers(oracle, arena, base, out, err);
}

/* ---- neighbours ----------------------------------------------------------------------------- */

typedef struct neighbor {
    const orr_tree *overrides;
    orr_belt_plan plan;
} neighbor;

typedef struct neighborhood {
    neighbor one[ORR_BELT_MAX_NEIGHBORS];
    uint32_t count, refused;
} neighborhood;

/* Those that fit come first, then by throughput; ties keep their order. */
static bool is_before(const neighbor *a, const neighbor *b) {
    if (a->plan.fits != b->plan.fits) {
        return a->plan.fits;
    }
    return a->plan.tokens_per_s_per_gpu > b->plan.tokens_per_s_per_gpu;
}

static void insert(neighborhood *all, const neighbor *one) {
    if (all->count == ORR_BELT_MAX_NEIGHBORS) {
        return;
    }
    uint32_t at = all->count++;
    for (; at > 0 && is_before(one, &all->one[at - 1]); at--) {
        all->one[at] = all->one[at - 1];
    }
    all->one[at] = *one;
}

static bool names(const orr_tree *list, const char *key) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (strcmp(orr_tree_text(orr_tree_at(list, i), ""), key) == 0) {
            return true;
        }
    }
    return false;
}

/* One step either way along an ordered axis; every other value along a choice. */
static bool is_one_step(const orr_belt_axis *axis, uint32_t to) {
    if (to == axis->at) {
        return false;
    }
    bool ordered = orr_tree_kind_of(orr_tree_at(axis->values, 0)) == ORR_TREE_INT;
    return !ordered || axis->at == UINT32_MAX || to + 1 == axis->at || to == axis->at + 1;
}

/* Without the nulls for keys that the base does not state. */
static const orr_tree *stated_only(orr_arena *arena, const orr_tree *base, const orr_tree *step) {
    orr_tree *out = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(step); i++) {
        const char *key = orr_tree_key(step, i);
        if (orr_tree_kind_of(orr_tree_at(step, i)) != ORR_TREE_NULL ||
            orr_tree_get(base, key) != NULL) {
            (void)orr_tree_put(arena, out, key, orr_tree_copy(arena, orr_tree_at(step, i)));
        }
    }
    return out;
}

/* A change without effect: sp without tp, overlap of what is not there. */
static bool is_no_change(const orr_belt_plan *own, const orr_belt_plan *other) {
    return strcmp(own->id, other->id) == 0 ||
           (own->legal && !(own->step_s < other->step_s) && !(own->step_s > other->step_s) &&
            !(own->need_frac < other->need_frac) && !(own->need_frac > other->need_frac));
}

static orr_status try_axis(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                           const orr_belt_plan *own, const orr_belt_axis *axis, neighborhood *all,
                           orr_err *err) {
    for (uint32_t v = 0; v < orr_tree_size(axis->values); v++) {
        if (!is_one_step(axis, v)) {
            continue;
        }
        neighbor one = {.overrides = stated_only(arena, base, orr_belt_step(arena, axis, v))};
        ORR_TRY(orr_belt_project(oracle, arena, base, one.overrides, &one.plan, err));
        if (!one.plan.legal) {
            all->refused++;
        } else if (!is_no_change(own, &one.plan)) {
            insert(all, &one);
        }
    }
    return ORR_OK;
}

static void put_neighbors(orr_arena *arena, const orr_belt_plan *own, const neighborhood *all,
                          orr_tree *out) {
    orr_tree *rows = orr_tree_put(arena, out, "rows", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < all->count; i++) {
        const neighbor *one = &all->one[i];
        orr_tree *row = orr_tree_push(arena, rows, orr_tree_new_map(arena));
        orr_tree_put_text(arena, row, "id", one->plan.id);
        (void)orr_tree_put(arena, row, "plan", orr_tree_copy(arena, one->overrides));
        orr_tree_put_bool(arena, row, "fits", one->plan.fits);
        orr_tree_put_real(arena, row, "tokens_per_s_per_gpu",
                          belt_round(one->plan.tokens_per_s_per_gpu, 1));
        if (own->tokens_per_s_per_gpu > 0) {
            orr_tree_put_real(
                arena, row, "gain",
                belt_round(one->plan.tokens_per_s_per_gpu / own->tokens_per_s_per_gpu - 1, 4));
        }
        orr_tree_put_real(arena, row, "memory_frac", belt_round(one->plan.need_frac, 3));
    }
    orr_tree_put_int(arena, out, "refused_by_rules", all->refused);
}

orr_status orr_belt_neighbors(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                              const orr_tree *only_axes, orr_tree *out, orr_err *err) {
    orr_belt_axis axis[ORR_BELT_MAX_AXES];
    uint32_t count = 0;
    orr_belt_plan own;
    ORR_TRY(orr_belt_project(oracle, arena, base, NULL, &own, err));
    ORR_TRY(orr_belt_axes(oracle, arena, base, axis, &count, err));
    neighborhood *all = ORR_NEW(arena, neighborhood);
    orr_tree *moved = orr_tree_new_list(arena);
    for (uint32_t i = 0; i < count; i++) {
        bool asked = names(only_axes, axis[i].key);
        if (orr_tree_size(only_axes) > 0 ? asked : !axis[i].asked_only) {
            ORR_TRY(belt_progress(oracle, "axes", i, count, err));
            ORR_TRY(try_axis(oracle, arena, base, &own, &axis[i], all, err));
            (void)orr_tree_push(arena, moved, orr_tree_new_text(arena, axis[i].key));
        }
    }
    if (orr_tree_size(moved) == 0) {
        orr_status status = orr_fail(err, ORR_E_NAME, "none of the axes asked for can be moved");
        orr_text known = orr_text_new(arena, 400);
        for (uint32_t i = 0; i < count; i++) {
            orr_text_format(&known, "%s%s", i == 0 ? "" : ", ", axis[i].key);
        }
        orr_hint(err, "axes are %s", orr_text_done(&known));
        return status;
    }
    (void)orr_tree_put(arena, out, "base", orr_belt_row(arena, NULL, &own));
    (void)orr_tree_put(arena, out, "axes", moved);
    put_neighbors(arena, &own, all, out);
    return ORR_OK;
}

/* ---- compare -------------------------------------------------------------------------------- */

static void compare_keys(orr_arena *arena, const orr_tree *a, const orr_tree *b, orr_tree *out) {
    orr_tree *keys = orr_tree_put(arena, out, "keys", orr_tree_new_list(arena));
    for (int side = 0; side < 2; side++) {
        const orr_tree *from = side == 0 ? a : b;
        for (size_t i = 0; i < orr_tree_size(from); i++) {
            const char *key = orr_tree_key(from, i);
            const orr_tree *in_a = orr_tree_get(a, key), *in_b = orr_tree_get(b, key);
            if ((side == 1 && in_a != NULL) ||
                (in_b != NULL && strcmp(orr_write_json(arena, in_a, false),
                                        orr_write_json(arena, in_b, false)) == 0)) {
                continue;
            }
            orr_tree *one = orr_tree_push(arena, keys, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "key", key);
            (void)orr_tree_put(arena, one, "a", orr_tree_copy(arena, in_a));
            (void)orr_tree_put(arena, one, "b", orr_tree_copy(arena, in_b));
        }
    }
}

static void compare_numbers(orr_arena *arena, const orr_tree *a, const orr_tree *b, orr_tree *to,
                            double least) {
    for (size_t i = 0; i < orr_tree_size(a); i++) {
        const char *key = orr_tree_key(a, i);
        double in_a = orr_tree_real(orr_tree_at(a, i), 0);
        double in_b = orr_tree_real(orr_tree_get(b, key), 0);
        if (in_a - in_b > least || in_b - in_a > least) {
            orr_tree *one = orr_tree_push(arena, to, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "what", key);
            orr_tree_put_real(arena, one, "a", in_a);
            orr_tree_put_real(arena, one, "b", in_b);
            orr_tree_put_real(arena, one, "more", in_b - in_a);
        }
    }
}

static const orr_tree *worst_parts(const orr_belt_plan *plan) {
    const orr_tree *memory = orr_tree_path(plan->envelope, "result.memory");
    int64_t worst = orr_tree_int(orr_tree_get(memory, "worst_rank"), 0);
    return orr_tree_get(orr_tree_at(orr_tree_get(memory, "ranks"), (size_t)(worst < 0 ? 0 : worst)),
                        "parts");
}

orr_status orr_belt_compare(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            const orr_tree *overrides, orr_tree *out, orr_err *err) {
    orr_belt_plan a, b;
    if (orr_tree_kind_of(overrides) != ORR_TREE_MAP) {
        return orr_fail(err, ORR_E_SCHEMA, "the other plan must be a map of the keys that differ");
    }
    ORR_TRY(orr_belt_project(oracle, arena, base, NULL, &a, err));
    ORR_TRY(readable(&a, err));
    ORR_TRY(orr_belt_project(oracle, arena, base, overrides, &b, err));
    ORR_TRY(readable(&b, err));
    (void)orr_tree_put(arena, out, "a", orr_belt_row(arena, NULL, &a));
    (void)orr_tree_put(arena, out, "b", orr_belt_row(arena, overrides, &b));
    if (a.legal && b.legal) {
        orr_tree_put_real(arena, out, "gain",
                          belt_round(b.tokens_per_s_per_gpu / a.tokens_per_s_per_gpu - 1, 4));
        /* Intervals share most of their error; disjoint ones are surely different. */
        orr_tree_put_bool(arena, out, "intervals_overlap", a.low <= b.high && b.low <= a.high);
    }
    compare_keys(arena, orr_tree_get(a.envelope, "inputs"), orr_tree_get(b.envelope, "inputs"),
                 out);
    orr_tree *time = orr_tree_put(arena, out, "time_s", orr_tree_new_list(arena));
    compare_numbers(arena, orr_tree_path(a.envelope, "result.breakdown"),
                    orr_tree_path(b.envelope, "result.breakdown"), time, 1e-6);
    orr_tree *bytes = orr_tree_put(arena, out, "bytes", orr_tree_new_list(arena));
    compare_numbers(arena, worst_parts(&a), worst_parts(&b), bytes, 0.5);
    return ORR_OK;
}
