/* Doubts from data/agent/doubts.yaml to shifts of candidates' times, and worlds over them. */
#include <math.h>
#include <string.h>

#include "agent/planner.h"
#include "base/embedded.h"
#include "base/err.h"
#include "base/num.h"
#include "base/rng.h"
#include "doc/doc.h"

static orr_status read_doubts(orr_arena *arena, const orr_tree **out, orr_err *err) {
    for (const orr_embedded *file = orr_embedded_files; file->path != NULL; file++) {
        if (strcmp(file->path, "agent/doubts.yaml") == 0) {
            orr_tree *tree = NULL;
            ORR_TRY(orr_yaml_read(arena, file->path, file->bytes, file->length, &tree, err));
            *out = tree;
            return ORR_OK;
        }
    }
    return orr_fail(err, ORR_E_INTERNAL, "agent/doubts.yaml is missing");
}

/* ---- what a doubt does to one plan ---------------------------------------------------------- */

static orr_tree *overlap_without(orr_arena *arena, const orr_tree *inputs, const char *word) {
    const orr_tree *now = orr_tree_get(inputs, "overlap");
    orr_text words = orr_text_new(arena, 64);
    bool had = false;
    for (size_t i = 0; i < orr_tree_size(now); i++) {
        const char *one = orr_tree_text(orr_tree_at(now, i), "");
        if (strcmp(one, word) == 0) {
            had = true;
        } else {
            orr_text_format(&words, "%s%s", words.length == 0 ? "" : ",", one);
        }
    }
    if (!had) {
        return NULL;
    }
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree_put_text(arena, out, "overlap", words.length == 0 ? "none" : orr_text_done(&words));
    return out;
}

static orr_tree *plainly_scheduled(orr_arena *arena, const orr_tree *inputs) {
    bool chunks = orr_tree_int(orr_tree_get(inputs, "vpp"), 1) > 1;
    const char *plain = chunks ? "interleaved" : "1f1b";
    if (strcmp(orr_tree_text(orr_tree_get(inputs, "schedule"), plain), plain) == 0 ||
        orr_tree_int(orr_tree_get(inputs, "pp"), 1) == 1) {
        return NULL;
    }
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree_put_text(arena, out, "schedule", plain);
    static const char *const along[] = {"p2p", "group", "memory_limit"};
    for (size_t i = 0; i < 3; i++) {
        orr_tree_put_text(arena, out, along[i], NULL);
    }
    return out;
}

static orr_status with_figure(const orr_planner *p, const orr_tree *inputs, const orr_tree *doubt,
                              orr_tree **out, orr_err *err) {
    const char *figure = orr_tree_text(orr_tree_get(doubt, "figure"), "");
    double factor = orr_tree_real(orr_tree_get(doubt, "factor"), 1);
    const orr_tree *hardware = orr_tree_get(inputs, "hardware");
    bool map = orr_tree_kind_of(hardware) == ORR_TREE_MAP;
    const char *name =
        map ? orr_tree_text(orr_tree_get(hardware, "like"), "") : orr_tree_text(hardware, "");
    orr_tree *args = orr_tree_new_map(p->arena), *sheet = NULL;
    orr_tree_put_text(p->arena, args, "name", name);
    ORR_TRY(p->oracle->call(p->oracle->user, "hardware show", args, p->arena, &sheet, err));
    double value =
        orr_tree_real(orr_tree_get(map ? hardware : NULL, figure),
                      orr_tree_real(orr_tree_get(orr_tree_get(sheet, "result"), figure), 0));
    *out = orr_tree_new_map(p->arena);
    if (strcmp(figure, "nic_Bps") == 0) {
        orr_tree_put_real(p->arena, *out, "nic",
                          orr_tree_real(orr_tree_get(inputs, "nic"), value) * factor);
        return ORR_OK;
    }
    orr_tree *changed = map ? orr_tree_copy(p->arena, hardware) : orr_tree_new_map(p->arena);
    if (!map) {
        orr_tree_put_text(p->arena, changed, "like", name);
    }
    orr_tree_put_real(p->arena, changed, figure, value * factor);
    (void)orr_tree_put(p->arena, *out, "hardware", changed);
    return ORR_OK;
}

static bool applies(const orr_tree *doubt, const orr_tree *inputs) {
    const orr_tree *where = orr_tree_get(doubt, "where");
    for (size_t i = 0; i < orr_tree_size(where); i++) {
        const orr_tree *now = orr_tree_get(inputs, orr_tree_key(where, i));
        if (orr_tree_int(now, -1) != orr_tree_int(orr_tree_at(where, i), -2)) {
            return false;
        }
    }
    return true;
}

/* Log of the time under the doubt by the time without; 0 where it says nothing of the plan. */
static orr_status shift_of(const orr_planner *p, const orr_tree *doubt, uint32_t c, double *out,
                           orr_err *err) {
    const orr_belt_plan *plan = &p->plan[c];
    const orr_tree *inputs = orr_tree_get(plan->envelope, "inputs");
    const char *slice = orr_tree_text(orr_tree_get(doubt, "slice"), NULL);
    *out = 0;
    if (!applies(doubt, inputs)) {
        return ORR_OK;
    }
    if (slice != NULL) {
        const char *key = orr_arena_format(p->arena, "result.breakdown.%s_s", slice);
        double share = orr_tree_real(orr_tree_path(plan->envelope, key), 0) / plan->step_s;
        *out = log(1 + share * (orr_tree_real(orr_tree_get(doubt, "factor"), 1) - 1));
        return ORR_OK;
    }
    orr_tree *change = NULL;
    const char *overlap = orr_tree_text(orr_tree_get(doubt, "without_overlap"), NULL);
    if (overlap != NULL) {
        change = overlap_without(p->arena, inputs, overlap);
    } else if (orr_tree_bool(orr_tree_get(doubt, "plain_schedule"), false)) {
        change = plainly_scheduled(p->arena, inputs);
    } else if (orr_tree_get(doubt, "instead") != NULL) {
        change = orr_tree_copy(p->arena, orr_tree_get(doubt, "instead"));
    } else {
        ORR_TRY(with_figure(p, inputs, doubt, &change, err));
    }
    if (change == NULL) {
        return ORR_OK;
    }
    orr_belt_plan then;
    const orr_tree *whole = orr_belt_merge(p->arena, p->overrides[c], change);
    /* A null takes a key of the candidate away; what the base states it must take away, too. */
    const orr_tree *base = orr_belt_merge(p->arena, p->base, change);
    ORR_TRY(orr_belt_project(p->oracle, p->arena, base, whole, &then, err));
    *out = then.legal ? log(then.step_s / plan->step_s) : 0;
    return ORR_OK;
}

/* ---- worlds --------------------------------------------------------------------------------- */

/* Sum of twelve: Gaussian enough, and the same everywhere without a libm. */
static double normal(orr_rng *rng) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += orr_rng_unit(rng);
    }
    return sum;
}

static void draw_worlds(orr_planner *p, uint64_t seed) {
    orr_rng rng = {seed};
    for (uint32_t w = 0; w < ORR_PLANNER_WORLDS; w++) {
        for (uint32_t d = 0; d < p->doubt_count; d++) {
            double happens = orr_rng_unit(&rng), spread = normal(&rng);
            /* World 0 is the projection itself. */
            p->strength[w][d] = w == 0             ? 0
                                : p->chance[d] > 0 ? (happens < p->chance[d] ? 1 : 0)
                                                   : spread;
        }
        for (uint32_t c = 0; c < p->count; c++) {
            p->mean[w][c] = log(p->plan[c].step_s);
            for (uint32_t d = 0; d < p->doubt_count; d++) {
                p->mean[w][c] += p->strength[w][d] * p->shift[d][c];
            }
        }
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

static orr_status take_candidates(orr_planner *p, const orr_tree *candidates, orr_err *err) {
    for (size_t i = 0; i < orr_tree_size(candidates) && p->count < ORR_PLANNER_MAX; i++) {
        orr_belt_plan plan;
        const orr_tree *overrides = orr_tree_at(candidates, i);
        ORR_TRY(orr_belt_project(p->oracle, p->arena, p->base, overrides, &plan, err));
        bool again = false;
        for (uint32_t c = 0; c < p->count; c++) {
            again = again || strcmp(p->plan[c].id, plan.id) == 0;
        }
        if (plan.fits && !again) {
            p->overrides[p->count] = overrides;
            p->plan[p->count++] = plan;
        }
    }
    return ORR_OK;
}

/* The interval's width that no doubt and no residual explains is shared by all candidates. */
static void share_error(orr_planner *p) {
    double sum = 0;
    for (uint32_t c = 0; c < p->count; c++) {
        double ratio = p->plan[c].low > 0 ? p->plan[c].high / p->plan[c].low : 1;
        sum += 0.5 * log(orr_max_f64(ratio, 1)) / ORR_HALF_90_SD;
    }
    double total = p->count > 0 ? sum / p->count : 0;
    double rest = total * total - p->residual_frac * p->residual_frac;
    p->shared_frac = rest > 0 ? sqrt(rest) : 0;
}

orr_status orr_planner_open(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            const orr_tree *candidates, uint64_t seed, orr_planner *out,
                            orr_err *err) {
    const orr_tree *file = NULL;
    memset(out, 0, sizeof *out);
    out->oracle = oracle;
    out->arena = arena;
    out->base = base;
    ORR_TRY(read_doubts(arena, &file, err));
    out->noise_frac = orr_tree_real(orr_tree_get(file, "noise_frac"), 0);
    out->residual_frac = orr_tree_real(orr_tree_get(file, "residual_frac"), 0);
    out->setup_s = orr_tree_real(orr_tree_get(file, "setup_s"), 0);
    out->steps = orr_tree_real(orr_tree_get(file, "steps"), 1);
    ORR_TRY(take_candidates(out, candidates, err));
    for (uint32_t c = 0; c < out->count; c++) {
        out->cost_s[c] = out->setup_s + out->steps * out->plan[c].step_s;
    }
    const orr_tree *list = orr_tree_get(file, "doubts");
    for (size_t d = 0; d < orr_tree_size(list) && d < ORR_PLANNER_DOUBTS; d++) {
        const orr_tree *doubt = orr_tree_at(list, d);
        uint32_t n = out->doubt_count++;
        out->doubt_name[n] = orr_tree_text(orr_tree_get(doubt, "name"), "");
        out->doubt_says[n] = orr_tree_text(orr_tree_get(doubt, "says"), "");
        out->chance[n] = orr_tree_real(orr_tree_get(doubt, "chance"), 0);
        for (uint32_t c = 0; c < out->count; c++) {
            ORR_TRY(shift_of(out, doubt, c, &out->shift[n][c], err));
        }
    }
    share_error(out);
    draw_worlds(out, seed);
    return ORR_OK;
}
