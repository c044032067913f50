/* One plan through the oracle, and its short form. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "belt/belt_int.h"

orr_tree *orr_belt_merge(orr_arena *arena, const orr_tree *base, const orr_tree *overrides) {
    orr_tree *out = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(base); i++) {
        const char *key = orr_tree_key(base, i);
        if (key != NULL && orr_tree_get(overrides, key) == NULL) {
            (void)orr_tree_put(arena, out, key, orr_tree_copy(arena, orr_tree_at(base, i)));
        }
    }
    for (size_t i = 0; i < orr_tree_size(overrides); i++) {
        const char *key = orr_tree_key(overrides, i);
        if (key != NULL && orr_tree_kind_of(orr_tree_at(overrides, i)) != ORR_TREE_NULL) {
            (void)orr_tree_put(arena, out, key, orr_tree_copy(arena, orr_tree_at(overrides, i)));
        }
    }
    return out;
}

orr_tree *orr_belt_merge_nulls(orr_arena *arena, const orr_tree *under, const orr_tree *over) {
    orr_tree *out = orr_tree_new_map(arena);
    for (int side = 0; side < 2; side++) {
        const orr_tree *from = side == 0 ? under : over;
        for (size_t i = 0; i < orr_tree_size(from); i++) {
            if (orr_tree_key(from, i) != NULL) {
                (void)orr_tree_put(arena, out, orr_tree_key(from, i),
                                   orr_tree_copy(arena, orr_tree_at(from, i)));
            }
        }
    }
    return out;
}

/* The identifier of resolved inputs, the `inputs` of an envelope. */
static void id_of(orr_arena *arena, const orr_tree *inputs, char out[ORR_BELT_ID_BYTES]) {
    const char *text = orr_write_json(arena, inputs, false);
    (void)snprintf(out, ORR_BELT_ID_BYTES, "%016llx",
                   (unsigned long long)orr_hash(text, strlen(text)));
}

static double real_at(const orr_tree *map, const char *path, double otherwise) {
    return orr_tree_real(orr_tree_path(map, path), otherwise);
}

static void read_envelope(orr_arena *arena, const orr_tree *envelope, orr_belt_plan *out) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    const orr_tree *interval = orr_tree_get(result, "interval_90");
    id_of(arena, orr_tree_get(envelope, "inputs"), out->id);
    out->readable = true;
    out->envelope = envelope;
    out->legal = orr_tree_bool(orr_tree_path(result, "verdict.legal"), false) &&
                 orr_tree_bool(orr_tree_path(result, "verdict.starts"), true);
    out->fits = out->legal && orr_tree_bool(orr_tree_path(result, "verdict.fits"), false);
    out->tokens_per_s_per_gpu = real_at(result, "tokens_per_s_per_gpu", 0);
    out->low = orr_tree_real(orr_tree_at(interval, 0), 0);
    out->high = orr_tree_real(orr_tree_at(interval, 1), 0);
    out->step_s = real_at(result, "step_time_s", 0);
    double capacity = real_at(result, "memory.capacity_bytes", 0);
    out->need_frac = capacity > 0 ? real_at(result, "memory.need_bytes", 0) / capacity : 0;
    out->p_oom = real_at(result, "verdict.p_oom", 0);
}

static bool ends_the_tool(orr_status status) {
    return status == ORR_E_CANCELLED || status == ORR_E_INTERNAL;
}

orr_status orr_belt_project(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            const orr_tree *overrides, orr_belt_plan *out, orr_err *err) {
    orr_tree *envelope = NULL;
    memset(out, 0, sizeof *out);
    const orr_tree *args = orr_belt_merge(arena, base, overrides);
    orr_status status = oracle->call(oracle->user, "project", args, arena, &envelope, &out->why);
    if (ends_the_tool(status)) {
        if (err != NULL) {
            *err = out->why;
        }
        return status;
    }
    if (status == ORR_OK) {
        read_envelope(arena, envelope, out);
    }
    return ORR_OK;
}

/* ---- short form ----------------------------------------------------------------------------- */

enum { BOTTLENECKS = 3 };

/* "gemm_s" -> "gemm". */
static const char *slice_name(orr_arena *arena, const char *key) {
    size_t length = strlen(key);
    return length > 2 && strcmp(key + length - 2, "_s") == 0
               ? orr_arena_copy(arena, key, length - 2)
               : key;
}

static void put_bottlenecks(orr_arena *arena, orr_tree *row, const orr_belt_plan *plan) {
    const orr_tree *breakdown = orr_tree_path(plan->envelope, "result.breakdown");
    orr_tree *list = orr_tree_put(arena, row, "bottlenecks", orr_tree_new_list(arena));
    size_t count = orr_tree_size(breakdown);
    uint64_t taken = 0;
    for (int n = 0; n < BOTTLENECKS; n++) {
        size_t largest = count;
        for (size_t i = 0; i < count && i < 64; i++) {
            double value_s = orr_tree_real(orr_tree_at(breakdown, i), 0);
            if ((taken >> i & 1) == 0 && value_s > 0 &&
                (largest == count || value_s > orr_tree_real(orr_tree_at(breakdown, largest), 0))) {
                largest = i;
            }
        }
        if (largest == count) {
            return;
        }
        taken |= (uint64_t)1 << largest;
        double value_s = orr_tree_real(orr_tree_at(breakdown, largest), 0);
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "what", slice_name(arena, orr_tree_key(breakdown, largest)));
        orr_tree_put_real(arena, one, "share", belt_round(value_s / plan->step_s, 3));
    }
}

static void put_rules(orr_arena *arena, orr_tree *row, const orr_belt_plan *plan) {
    const orr_tree *rules = orr_tree_path(plan->envelope, "result.verdict.rules");
    if (orr_tree_size(rules) > 0) {
        (void)orr_tree_put(arena, row, "rules", orr_tree_copy(arena, rules));
    }
}

static void put_memory(orr_arena *arena, orr_tree *row, const orr_belt_plan *plan) {
    const orr_tree *from = orr_tree_path(plan->envelope, "result.memory");
    orr_tree *memory = orr_tree_put(arena, row, "memory", orr_tree_new_map(arena));
    orr_tree_put_real(arena, memory, "need_gib",
                      belt_round(real_at(from, "need_bytes", 0) / (1024.0 * 1024 * 1024), 2));
    orr_tree_put_real(arena, memory, "of_usable_frac", belt_round(plan->need_frac, 3));
    orr_tree_put_int(arena, memory, "worst_rank",
                     orr_tree_int(orr_tree_get(from, "worst_rank"), 0));
    orr_tree_put_text(arena, memory, "moment", orr_tree_text(orr_tree_get(from, "moment"), ""));
    orr_tree_put_real(arena, row, "p_oom", belt_round(plan->p_oom, 3));
}

orr_tree *orr_belt_row(orr_arena *arena, const orr_tree *overrides, const orr_belt_plan *plan) {
    orr_tree *row = orr_tree_new_map(arena);
    if (plan->readable) {
        orr_tree_put_text(arena, row, "id", plan->id);
    }
    (void)orr_tree_put(arena, row, "plan",
                       overrides == NULL ? orr_tree_new_map(arena)
                                         : orr_tree_copy(arena, overrides));
    orr_tree_put_bool(arena, row, "legal", plan->legal);
    if (!plan->readable) {
        orr_tree *error = orr_tree_put(arena, row, "error", orr_tree_new_map(arena));
        orr_tree_put_text(arena, error, "message", plan->why.message);
        orr_tree_put_text(arena, error, "hint", plan->why.hint);
        return row;
    }
    if (plan->legal) {
        orr_tree_put_bool(arena, row, "fits", plan->fits);
        orr_tree_put_real(arena, row, "tokens_per_s_per_gpu",
                          belt_round(plan->tokens_per_s_per_gpu, 1));
        orr_tree *interval = orr_tree_put(arena, row, "interval_90", orr_tree_new_list(arena));
        (void)orr_tree_push(arena, interval, orr_tree_new_real(arena, belt_round(plan->low, 1)));
        (void)orr_tree_push(arena, interval, orr_tree_new_real(arena, belt_round(plan->high, 1)));
        orr_tree_put_real(arena, row, "step_time_s", belt_round(plan->step_s, 4));
        put_memory(arena, row, plan);
        put_bottlenecks(arena, row, plan);
    }
    put_rules(arena, row, plan);
    return row;
}

double belt_round(double value, int digits) {
    double scale = 1;
    for (int i = 0; i < digits; i++) {
        scale *= 10;
    }
    double scaled = value * scale;
    if (!(scaled < 9e15 && scaled > -9e15)) {
        return value;
    }
    return (double)(int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5) / scale;
}

orr_status belt_progress(const orr_oracle *oracle, const char *what, double done, double total,
                         orr_err *err) {
    if (oracle->progress != NULL && !oracle->progress(oracle->user, what, done, total)) {
        return orr_fail(err, ORR_E_CANCELLED, "cancelled");
    }
    return ORR_OK;
}
