/* What one order comes to, and the same work under every other schedule. */
#include <math.h>
#include <string.h>

#include "api/schedule_int.h"
#include "base/err.h"
#include "base/num.h"
#include "base/text.h"

enum { COMPARED_OPS = 1 << 19 };

/* ---- one order ------------------------------------------------------------------------------ */

/* Micro-batches in flight count in whole stages: a stage is what a rank holds of the model. */
static double stage_of_chunk(const orr_order_view *view) {
    return (double)view->spec.pp / view->chain_length;
}

typedef struct figures {
    double makespan, bubble, peak_stages, bound;
    uint32_t *peak;
    orr_play play;
} figures;

static orr_status measure(const scene *s, const orr_order *order, const orr_schedule_spec *spec,
                          const orr_durations *d, figures *out, orr_err *err) {
    orr_arena *arena = s->job->arena;
    orr_order_view view = orr_order_look(order);
    uint32_t pp = view.spec.pp, most = 0;
    int64_t busiest = 0;
    double busy = 0;
    *out = (figures){.peak = ORR_NEW_ARRAY(arena, uint32_t, pp)};
    out->play.rank_end = ORR_NEW_ARRAY(arena, int64_t, pp);
    out->play.rank_busy = ORR_NEW_ARRAY(arena, int64_t, pp);
    ORR_TRY(orr_order_play(order, d, false, arena, &out->play, err));
    orr_peaks peaks = {.until_w = out->peak};
    orr_order_peaks(order, &peaks);
    for (uint32_t r = 0; r < pp; r++) {
        busy += (double)out->play.rank_busy[r];
        busiest = out->play.rank_busy[r] > busiest ? out->play.rank_busy[r] : busiest;
        most = orr_max_u32(most, out->peak[r]);
    }
    out->makespan = (double)out->play.makespan / s->scale;
    out->bubble = out->play.makespan > 0 ? 1 - busy / ((double)out->play.makespan * pp) : 0;
    out->peak_stages = most * stage_of_chunk(&view);
    /* of a given order no more is known than the work of its ranks */
    bool user = spec->kind == ORR_SCHEDULE_USER;
    out->bound = (double)(user ? busiest : orr_schedule_bound(spec, d)) / s->scale;
    return ORR_OK;
}

orr_status orr_scene_describe(const scene *s, const orr_order *order, orr_tree *into,
                              orr_err *err) {
    orr_arena *arena = s->job->arena;
    orr_order_view view = orr_order_look(order);
    uint32_t pp = view.spec.pp;
    figures got;
    ORR_TRY(measure(s, order, &view.spec, &s->d, &got, err));
    orr_tree_put_real(arena, into, "makespan", got.makespan);
    orr_tree_put_real(arena, into, "bubble", got.bubble);
    orr_tree_put_real(arena, into, "lower_bound", got.bound);
    orr_tree_put_real(arena, into, "above_bound_frac",
                      got.bound > 0 ? got.makespan / got.bound - 1 : 0);
    orr_tree_put_real(arena, into, "max_rank_span", (double)got.play.max_span / s->scale);
    orr_peaks peaks = {.until_b = ORR_NEW_ARRAY(arena, uint32_t, pp),
                       .pending_w = ORR_NEW_ARRAY(arena, uint32_t, pp)};
    orr_order_peaks(order, &peaks);
    const uint32_t *const counts[] = {got.peak, peaks.until_b, peaks.pending_w};
    static const char *const keys[] = {"peak_in_flight", "peak_until_b", "peak_pending_w"};
    for (size_t k = 0; k < 3; k++) {
        orr_tree *list = orr_tree_put(arena, into, keys[k], orr_tree_new_list(arena));
        for (uint32_t r = 0; r < pp; r++) {
            (void)orr_tree_push(arena, list, orr_tree_new_int(arena, counts[k][r]));
        }
    }
    orr_tree_put_real(arena, into, "peak_stages", got.peak_stages);
    orr_tree *ends = orr_tree_put(arena, into, "rank_end", orr_tree_new_list(arena));
    orr_tree *busy = orr_tree_put(arena, into, "rank_busy", orr_tree_new_list(arena));
    for (uint32_t r = 0; r < pp; r++) {
        double end = (double)got.play.rank_end[r] / s->scale;
        (void)orr_tree_push(arena, ends, orr_tree_new_real(arena, end));
        (void)orr_tree_push(arena, busy,
                            orr_tree_new_real(arena, (double)got.play.rank_busy[r] / s->scale));
    }
    return ORR_OK;
}

orr_status orr_scene_timeline(const scene *s, const orr_order *order, uint32_t most, orr_tree **out,
                              orr_err *err) {
    orr_arena *arena = s->job->arena;
    orr_order_view view = orr_order_look(order);
    uint32_t pp = view.spec.pp, ops = view.op_first[pp];
    int64_t *start = ORR_NEW_ARRAY(arena, int64_t, ops), *end = ORR_NEW_ARRAY(arena, int64_t, ops);
    ORR_TRY(orr_order_times(order, &s->d, arena, start, end, NULL, err));
    /* too many: as much of the beginning of each rank as there is room for */
    int64_t until = INT64_MAX;
    for (uint32_t r = 0; r < pp && ops > most; r++) {
        uint32_t count = view.op_first[r + 1] - view.op_first[r], room = most / pp;
        if (count > room) {
            int64_t last = end[view.op_first[r] + (room > 0 ? room - 1 : 0)];
            until = last < until ? last : until;
        }
    }
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_bool(arena, map, "complete", until == INT64_MAX);
    orr_tree *ranks = orr_tree_put(arena, map, "ranks", orr_tree_new_list(arena));
    for (uint32_t r = 0; r < pp; r++) {
        orr_tree *list = orr_tree_push(arena, ranks, orr_tree_new_list(arena));
        for (uint32_t i = view.op_first[r]; i < view.op_first[r + 1] && end[i] <= until; i++) {
            char name[ORR_SCHED_OP_TEXT];
            orr_sched_op_format(&view.op[i], name);
            orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "op", name);
            orr_tree_put_real(arena, one, "start", (double)start[i] / s->scale);
            orr_tree_put_real(arena, one, "end", (double)end[i] / s->scale);
        }
    }
    *out = map;
    return ORR_OK;
}

/* ---- the same work otherwise ---------------------------------------------------------------- */

/* Time of the part of a chain from `from` to `to` (0..1), its positions having `times`. */
static double between(const double *times, uint32_t length, double from, double to) {
    double sum = 0;
    for (uint32_t i = 0; i < length; i++) {
        double low = orr_max_f64(from, (double)i / length);
        double high = orr_min_f64(to, (double)(i + 1) / length);
        sum += high > low ? times[i] * (high - low) * length : 0;
    }
    return sum;
}

/* Cuts the chain of one spec into the chunks of another. */
static int64_t *recut(const scene *s, const int64_t *times, const orr_schedule_spec *to) {
    const orr_schedule_spec *from = &s->spec;
    orr_schedule_kind old = (orr_schedule_kind)from->kind, new = (orr_schedule_kind)to->kind;
    uint32_t pp = from->pp, length = orr_schedule_two_way(old) ? pp : pp * from->vpp;
    uint32_t cuts = orr_schedule_two_way(new) ? pp : pp * to->vpp;
    double *chain = ORR_NEW_ARRAY(s->job->arena, double, length);
    int64_t *out = ORR_NEW_ARRAY(s->job->arena, int64_t, pp * to->vpp);
    for (uint32_t i = 0; i < pp * from->vpp; i++) {
        chain[orr_schedule_position(old, pp, i / from->vpp, i % from->vpp, NULL)] =
            (double)times[i];
    }
    for (uint32_t i = 0; i < pp * to->vpp; i++) {
        uint32_t at = orr_schedule_position(new, pp, i / to->vpp, i % to->vpp, NULL);
        out[i] = llround(between(chain, length, (double)at / cuts, (double)(at + 1) / cuts));
    }
    return out;
}

/* Chunks a rank that a kind takes beside what was asked for; 0: it makes no sense here. */
static uint32_t chunks_for(const orr_schedule_spec *asked, orr_schedule_kind kind) {
    uint32_t fixed = orr_schedule_fixed_vpp(kind);
    switch (kind) {
    case ORR_SCHEDULE_INTERLEAVED:
    case ORR_SCHEDULE_INTERLEAVED_ZB:
    case ORR_SCHEDULE_LOOPED_BFS: return asked->vpp > 1 ? asked->vpp : 2;
    case ORR_SCHEDULE_HANAYO: return asked->vpp > 1 && asked->vpp % 2 == 0 ? asked->vpp : 2;
    case ORR_SCHEDULE_V_ADAPTIVE:
    case ORR_SCHEDULE_ZB_AUTO: /* need a budget */
        return asked->memory_limit == 0 ? 0 : fixed != 0 ? fixed : 1;
    case ORR_SCHEDULE_V_HALF_PRIMUS:
    case ORR_SCHEDULE_V_MIN_PRIMUS:
    case ORR_SCHEDULE_ZB_H1_PRIMUS: /* variants of others */
    case ORR_SCHEDULE_GROUPED:
    case ORR_SCHEDULE_USER:
    case ORR_SCHEDULE_COUNT: return 0;
    case ORR_SCHEDULE_1F1B:
    case ORR_SCHEDULE_GPIPE:
    case ORR_SCHEDULE_ZB_H1:
    case ORR_SCHEDULE_ZB_H2:
    case ORR_SCHEDULE_ZB_1P:
    case ORR_SCHEDULE_ZB_2P:
    case ORR_SCHEDULE_ZBV:
    case ORR_SCHEDULE_V_HALF:
    case ORR_SCHEDULE_V_MIN:
    case ORR_SCHEDULE_DUALPIPE:
    case ORR_SCHEDULE_DUALPIPEV:
    case ORR_SCHEDULE_ZBV_AUTO:
    case ORR_SCHEDULE_V_1F1B:
    case ORR_SCHEDULE_CHIMERA: break;
    }
    return fixed != 0 ? fixed : 1;
}

static orr_schedule_spec other_spec(const scene *s, orr_schedule_kind kind, uint32_t vpp) {
    orr_schedule_spec spec = {.kind = (uint8_t)kind,
                              .pp = s->spec.pp,
                              .vpp = vpp,
                              .micro_batches = s->spec.micro_batches,
                              .memory_limit = s->spec.memory_limit};
    spec.p2p = s->mode_given ? s->spec.p2p : (uint8_t)orr_schedule_default_p2p(kind);
    if (s->mode_given && orr_schedule_check(&spec, NULL, 0) != 0) {
        spec.p2p = ORR_P2P_ASYNC; /* other kinds have no calls to block in */
    }
    if (kind == (orr_schedule_kind)s->spec.kind) {
        spec = s->spec;
    } else if (kind == ORR_SCHEDULE_INTERLEAVED && s->spec.group >= spec.pp) {
        spec.group = s->spec.group;
    }
    return spec;
}

static orr_status try_kind(const scene *s, const orr_schedule_spec *spec, orr_tree *entry,
                           figures *got, orr_err *err) {
    orr_durations d = s->d;
    const orr_order *order = NULL;
    if (spec->kind != s->spec.kind) {
        d = (orr_durations){.f = recut(s, s->d.f, spec),
                            .b = recut(s, s->d.b, spec),
                            .w = recut(s, s->d.w, spec),
                            .hop = s->d.hop,
                            .unit_ps = s->d.unit_ps};
    }
    ORR_TRY(orr_order_build_brief(s->job->arena, spec, &d, &order, err));
    ORR_TRY(measure(s, order, spec, &d, got, err));
    orr_tree_put_real(s->job->arena, entry, "makespan", got->makespan);
    orr_tree_put_real(s->job->arena, entry, "bubble", got->bubble);
    orr_tree_put_real(s->job->arena, entry, "peak_stages", got->peak_stages);
    orr_tree_put_real(s->job->arena, entry, "lower_bound", got->bound);
    return ORR_OK;
}

/* A plan with another schedule, projected as a whole. */
static orr_status try_plan(const scene *s, const orr_schedule_spec *spec, orr_tree *entry,
                           figures *got, orr_err *err) {
    orr_job *job = s->job;
    orr_tree *change = orr_tree_new_map(job->arena);
    const char *name = orr_schedule_name((orr_schedule_kind)spec->kind);
    orr_resolved resolved = *s->resolved;
    if (spec->kind != s->spec.kind) {
        orr_tree_put_text(job->arena, change, "schedule", name);
        orr_tree_put_int(job->arena, change, "vpp", spec->vpp);
        const orr_tree *keys = orr_plan_merge(job->arena, s->keys, change);
        ORR_TRY(orr_plan_resolve(job->arena, keys, &resolved, err));
    }
    orr_violation broken[ORR_MAX_VIOLATIONS];
    if (!orr_plan_legal(&resolved) && orr_plan_check(job->arena, &resolved, broken) > 0) {
        return orr_fail(err, ORR_E_INFEASIBLE, "%s (rule %s)", broken[0].message, broken[0].rule);
    }
    orr_projection projection;
    scene other = *s;
    const orr_order *order = NULL;
    ORR_TRY(orr_project_stages(job->ctx->engine, job->arena, &resolved, &other.d, err));
    other.spec = orr_plan_schedule(&resolved.plan);
    ORR_TRY(orr_order_build_brief(job->arena, &other.spec, &other.d, &order, err));
    ORR_TRY(measure(&other, order, &other.spec, &other.d, got, err));
    ORR_TRY(orr_project(job->ctx->engine, job->arena, &resolved, NULL, &projection, err));
    orr_tree_put_real(job->arena, entry, "makespan", got->makespan);
    orr_tree_put_real(job->arena, entry, "bubble", got->bubble);
    orr_tree_put_real(job->arena, entry, "peak_stages", got->peak_stages);
    orr_tree_put_real(job->arena, entry, "lower_bound", got->bound);
    orr_tree_put_real(job->arena, entry, "tokens_per_s_per_gpu", projection.tokens_per_s_per_gpu);
    orr_tree_put_real(job->arena, entry, "step_time_s", projection.step_s);
    orr_tree_put_real(job->arena, entry, "memory_bytes", projection.memory.worst.need_bytes);
    orr_tree_put_bool(job->arena, entry, "fits", projection.memory.fit <= ORR_TIGHT);
    got->makespan = projection.step_s;
    got->peak_stages = projection.memory.worst.need_bytes;
    return ORR_OK;
}

/* Sorts by time, then memory; marks what nothing beats in both. */
static void rank_entries(orr_arena *arena, orr_tree **entry, figures *got, uint32_t count,
                         orr_tree *list) {
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t k = i; k > 0; k--) {
            const figures *a = &got[k - 1], *b = &got[k];
            bool ahead = b->makespan < a->makespan ||
                         (b->makespan == a->makespan && b->peak_stages < a->peak_stages);
            if (!ahead) {
                break;
            }
            figures swap = got[k];
            got[k] = got[k - 1];
            got[k - 1] = swap;
            orr_tree *moved = entry[k];
            entry[k] = entry[k - 1];
            entry[k - 1] = moved;
        }
    }
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        orr_tree_put_bool(arena, entry[i], "pareto", got[i].peak_stages < least);
        least = orr_min_f64(least, got[i].peak_stages);
        (void)orr_tree_push(arena, list, entry[i]);
    }
}

void orr_scene_compare(const scene *s, orr_tree *result) {
    orr_arena *arena = s->job->arena;
    orr_tree *list = orr_tree_put(arena, result, "compare", orr_tree_new_list(arena));
    orr_tree *excluded = orr_tree_put(arena, result, "excluded", orr_tree_new_list(arena));
    orr_tree *entry[ORR_SCHEDULE_COUNT];
    figures got[ORR_SCHEDULE_COUNT];
    uint32_t count = 0;
    for (int k = 0; k < ORR_SCHEDULE_USER; k++) {
        orr_schedule_kind kind = (orr_schedule_kind)k;
        bool own = k == s->spec.kind;
        uint32_t vpp = own ? s->spec.vpp : chunks_for(&s->spec, kind);
        if (vpp == 0) {
            continue;
        }
        orr_schedule_spec spec = other_spec(s, kind, vpp);
        orr_tree *one = orr_tree_new_map(arena);
        orr_tree_put_text(arena, one, "schedule", orr_schedule_name(kind));
        orr_tree_put_int(arena, one, "vpp", vpp);
        orr_err why = {0};
        bool large = 3ull * spec.pp * vpp * spec.micro_batches > COMPARED_OPS && !own;
        orr_status status = large ? orr_fail(&why, ORR_E_LIMIT, "too many ops to compare")
                            : s->resolved != NULL ? try_plan(s, &spec, one, &got[count], &why)
                                                  : try_kind(s, &spec, one, &got[count], &why);
        if (status == ORR_OK) {
            orr_tree_put_bool(arena, one, "chosen", own);
            entry[count++] = one;
        } else {
            orr_tree_put_text(arena, one, "why", why.message);
            (void)orr_tree_push(arena, excluded, one);
        }
    }
    rank_entries(arena, entry, got, count, list);
}
