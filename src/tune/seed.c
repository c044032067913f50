/* The seed planner: what a careful engineer would try first, one axis after the other, then pairs,
 * within a budget of evaluations. It shows which levers matter and how far they lead alone; the
 * search does not depend on it. Deterministic. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

/* In the order of what they usually bring. */
static const struct {
    tune_axis axis;
    const char *why;
} sweeps[] = {
    {AXIS_RECOMPUTE, "what is recomputed is computed twice: up to a third of a step"},
    {AXIS_DISPATCH, "tokens on their way to experts are the largest traffic of sparse models"},
    {AXIS_OVERLAP, "communication that hides behind compute costs nothing"},
    {AXIS_SHARDING, "memory that states free can replace recompute"},
    {AXIS_MBS, "larger matrices run closer to the peak, smaller batches fill pipelines better"},
    {AXIS_SCHEDULE, "bubbles: chunks and split backward passes"},
    {AXIS_EP, "experts near each other"},
    {AXIS_PP, "fewer stages wait less, more stages hold less"},
    {AXIS_TP, "tensor parallelism costs communication in every layer"},
    {AXIS_CP, "long sequences"},
};
enum { SWEEPS = sizeof sweeps / sizeof *sweeps, MAX_MOVES = 48 };
static const tune_axis pairs[][2] = {
    {AXIS_MBS, AXIS_RECOMPUTE}, {AXIS_PP, AXIS_SCHEDULE},        {AXIS_TP, AXIS_PP},
    {AXIS_EP, AXIS_PP},         {AXIS_SCHEDULE, AXIS_RECOMPUTE},
};

typedef struct planner {
    const tune_space *space;
    const tune_world *world;
    orr_quick *quick;
    orr_arena *arena;
    orr_tree *path;
    double fits_bytes;
    uint32_t budget, spent;
    bool started;
    orr_plan best;
    double best_s, best_need; /* best_s is HUGE_VAL while nothing fits */
    tune_space *members;      /* whose plans `found` is looked for among, or NULL */
    tune_found found;
    orr_map seen;
} planner;

/* ---- moves ----------------------------------------------------------------------------------- */

typedef struct move {
    orr_plan plan;
    const char *what;
} move;

typedef struct moves {
    planner *p;
    uint32_t count;
    move move[MAX_MOVES];
} moves;

static void add_move(moves *list, const orr_plan *plan, const char *what) {
    if (list->count < MAX_MOVES) {
        list->move[list->count++] = (move){*plan, what};
    }
}

static bool allows(const planner *p, tune_axis axis, uint32_t value) {
    return tune_limit_takes(&p->world->limit[axis], value);
}

/* A pipeline needs a schedule with chunks or without. */
static void follow_stages(orr_plan *plan) {
    if (plan->pipe.pp == 1) {
        plan->pipe.vpp = 1;
        plan->pipe.schedule = ORR_SCHEDULE_1F1B;
        plan->overlap &= ~(uint32_t)ORR_OVERLAP_PP;
    }
    if (plan->pipe.pp > 1 && plan->pipe.vpp == 1) { /* one chunk hides no exchange of experts */
        plan->overlap &= ~(uint32_t)ORR_OVERLAP_EP;
    }
    plan->pipe.split_flags = 0;
    plan->pipe.first_layers = plan->pipe.last_layers = 0;
}

static void move_number(moves *list, const orr_plan *from, tune_axis axis, uint32_t most) {
    for (uint32_t n = 1; n <= most; n *= 2) {
        orr_plan plan = *from;
        uint32_t *value = axis == AXIS_MBS  ? &plan.batch.mbs
                          : axis == AXIS_EP ? &plan.split.ep
                          : axis == AXIS_PP ? &plan.pipe.pp
                          : axis == AXIS_TP ? &plan.split.tp
                                            : &plan.split.cp;
        if (*value == n || !allows(list->p, axis, n)) {
            continue;
        }
        *value = n;
        if (axis == AXIS_TP) {
            plan.split.sp = n > 1;
            plan.split.etp = plan.split.etp == from->split.tp ? n : plan.split.etp;
            plan.split.etp = orr_min_u32(plan.split.etp, n);
        }
        if (axis == AXIS_PP) {
            follow_stages(&plan);
        }
        if (plan.split.ep * plan.split.etp == 1) {
            plan.variant.dispatch = ORR_DISPATCH_ALLTOALL;
        }
        add_move(list, &plan, orr_arena_format(list->p->arena, "%s=%u", tune_axis_name(axis), n));
    }
}

static void add_recompute(moves *list, const orr_plan *from, orr_recompute recompute) {
    orr_plan plan = *from;
    orr_resolved r = list->p->world->base;
    plan.recompute = recompute;
    r.plan = plan;
    const orr_tree *text = orr_tree_get(orr_plan_write(list->p->arena, &r), "recompute");
    add_move(list, &plan,
             orr_arena_format(list->p->arena, "recompute=%s", orr_tree_text(text, "")));
}

static void move_recompute(moves *list, const orr_plan *from) {
    const tune_world *w = list->p->world;
    if (w->limit[AXIS_RECOMPUTE].count > 0) {
        for (uint32_t i = 0; i < w->recompute_count; i++) {
            add_recompute(list, from, w->recompute[i]);
        }
        return;
    }
    uint32_t depth = w->base.model->layers / (from->pipe.pp * from->pipe.vpp);
    add_recompute(list, from, (orr_recompute){.kind = ORR_RECOMPUTE_NONE});
    for (uint32_t m = ORR_MODULE_CORE_ATTN; m <= ORR_MODULE_MLA_UP_PROJ; m *= 2) {
        if ((tune_modules(w->base.model) & m) != 0) {
            add_recompute(list, from,
                          (orr_recompute){.kind = ORR_RECOMPUTE_SELECTIVE, .modules = m});
        }
    }
    for (uint32_t quarter = 1; quarter < 4; quarter++) {
        if (depth * quarter / 4 > 0) {
            add_recompute(
                list, from,
                (orr_recompute){.kind = ORR_RECOMPUTE_BLOCK, .layers = depth * quarter / 4});
        }
    }
    add_recompute(list, from, (orr_recompute){.kind = ORR_RECOMPUTE_FULL});
}

static void move_dispatch(moves *list, const orr_plan *from) {
    static const char *const names[] = {"alltoall",    "allgather",   "deepep",
                                        "sync-free-1", "sync-free-2", "sync-free-3"};
    const tune_world *w = list->p->world;
    for (uint32_t i = 0; i < w->dispatch_count && w->dispatch_count > 1; i++) {
        orr_plan plan = *from;
        plan.variant.dispatch = (uint8_t)w->dispatch[i];
        add_move(list, &plan,
                 orr_arena_format(list->p->arena, "dispatch=%s", names[w->dispatch[i] % 6]));
    }
}

static void move_overlap(moves *list, const orr_plan *from) {
    static const char *const names[] = {"tp", "dp", "pp", "ep"};
    uint32_t mask = tune_overlap_mask(list->p->world, from);
    for (uint32_t b = 0; b < 4; b++) {
        if ((mask >> b & 1) != 0 && list->p->world->overlap_count == 0) {
            orr_plan plan = *from;
            plan.overlap ^= 1u << b;
            add_move(list, &plan,
                     orr_arena_format(list->p->arena, "overlap %s%s", names[b],
                                      (plan.overlap >> b & 1) != 0 ? " on" : " off"));
        }
    }
}

static void move_sharding(moves *list, const orr_plan *from) {
    static const char *const names[] = {"none", "zero1", "zero2", "zero3", "fsdp2", "hsdp"};
    const tune_world *w = list->p->world;
    for (uint32_t i = 0; i < w->shard_count; i++) {
        orr_plan plan = *from;
        plan.shard.kind = w->shard[i].kind;
        plan.shard.group = 0;
        if (plan.shard.kind == ORR_SHARD_HSDP) {
            plan.shard.group = orr_max_u32(1, w->base.cluster->gpus_per_node / plan.split.tp);
        }
        add_move(list, &plan,
                 orr_arena_format(list->p->arena, "sharding=%s", names[plan.shard.kind % 6]));
    }
}

static void move_schedule(moves *list, const orr_plan *from) {
    const tune_world *w = list->p->world;
    for (uint32_t k = 0; k < ORR_SCHEDULE_USER && from->pipe.pp > 1; k++) {
        if ((w->schedules >> k & 1) == 0) {
            continue;
        }
        uint32_t fixed = orr_schedule_fixed_vpp((orr_schedule_kind)k);
        uint32_t most = w->base.model->layers / from->pipe.pp;
        for (uint32_t vpp = fixed > 0 ? fixed : 2; vpp <= (fixed > 0 ? fixed : most); vpp++) {
            if (most % vpp != 0 || !allows(list->p, AXIS_VPP, vpp)) {
                continue;
            }
            orr_plan plan = *from;
            plan.pipe.schedule = (uint8_t)k;
            plan.pipe.vpp = vpp;
            plan.overlap = k == ORR_SCHEDULE_INTERLEAVED ? plan.overlap | ORR_OVERLAP_PP
                                                         : plan.overlap & ~(uint32_t)ORR_OVERLAP_PP;
            add_move(list, &plan,
                     orr_arena_format(list->p->arena, "schedule=%s vpp=%u",
                                      orr_schedule_name((orr_schedule_kind)k), vpp));
        }
    }
}

static void gather_moves(moves *list, const orr_plan *from, tune_axis axis) {
    const tune_world *w = list->p->world;
    switch (axis) {
    case AXIS_RECOMPUTE: move_recompute(list, from); break;
    case AXIS_DISPATCH: move_dispatch(list, from); break;
    case AXIS_OVERLAP: move_overlap(list, from); break;
    case AXIS_SHARDING: move_sharding(list, from); break;
    case AXIS_SCHEDULE: move_schedule(list, from); break;
    case AXIS_MBS: move_number(list, from, axis, 16); break;
    case AXIS_EP:
        move_number(list, from, axis, w->dispatch_count > 1 || from->split.ep > 1 ? 256 : 1);
        break;
    case AXIS_PP: move_number(list, from, axis, 64); break;
    case AXIS_TP:
        move_number(list, from, axis, orr_max_u32(1, w->base.cluster->tier[0].gpus));
        break;
    case AXIS_CP: move_number(list, from, axis, 16); break;
    case AXIS_ETP:
    case AXIS_VPP:
    case AXIS_SP:
    case AXIS_LAYOUT:
    case AXIS_COUNT: break;
    }
}

/* ---- trials ---------------------------------------------------------------------------------- */

static void write_trial(planner *p, const char *what, const orr_plan *plan, const char *verdict,
                        double step_s, double need_bytes, bool better) {
    orr_tree *one = orr_tree_push(p->arena, p->path, orr_tree_new_map(p->arena));
    orr_tree_put_text(p->arena, one, "change", what);
    orr_tree_put_text(p->arena, one, "verdict", verdict);
    if (step_s < HUGE_VAL && step_s > 0) {
        orr_tree_put_real(p->arena, one, "tokens_per_s_per_gpu",
                          (double)plan->gbs * plan->batch.seq / step_s / plan->gpus);
    }
    if (need_bytes > 0) {
        orr_tree_put_real(p->arena, one, "need_bytes", need_bytes);
    }
    orr_tree_put_bool(p->arena, one, "kept", better);
}

static bool among(const uint32_t *list, uint32_t count, uint32_t value, uint32_t mask) {
    for (uint32_t i = 0; i < count; i++) {
        if ((list[i] & mask) == value) {
            return true;
        }
    }
    return count == 0;
}

/* Whether pins and ranges take the plan. */
static bool wanted(const planner *p, const orr_plan *plan) {
    const tune_world *w = p->world;
    const orr_pipe *pipe = &plan->pipe;
    bool numbers = allows(p, AXIS_TP, plan->split.tp) && allows(p, AXIS_CP, plan->split.cp) &&
                   allows(p, AXIS_PP, pipe->pp) && allows(p, AXIS_EP, plan->split.ep) &&
                   allows(p, AXIS_ETP, plan->split.etp) && allows(p, AXIS_MBS, plan->batch.mbs) &&
                   allows(p, AXIS_VPP, pipe->vpp);
    bool alone = plan->split.ep * plan->split.etp == 1;
    bool dispatch = alone || among(w->dispatch, w->dispatch_count, plan->variant.dispatch, 255);
    bool overlap = among(w->overlap, w->overlap_count, plan->overlap, tune_overlap_mask(w, plan));
    bool sp = plan->split.tp == 1 || (w->sp >> plan->split.sp & 1) != 0;
    bool shard = false, layout = w->layout_count == 0, recompute = w->recompute_count == 0;
    for (uint32_t i = 0; i < w->shard_count; i++) {
        shard = shard || w->shard[i].kind == plan->shard.kind;
    }
    for (uint32_t i = 0; i < w->layout_count; i++) {
        layout = layout || (w->layout[i].placement == pipe->placement &&
                            w->layout[i].split_flags == pipe->split_flags &&
                            w->layout[i].layout_hash == pipe->layout_hash);
    }
    for (uint32_t i = 0; i < w->recompute_count; i++) {
        recompute =
            recompute || memcmp(&w->recompute[i], &plan->recompute, sizeof plan->recompute) == 0;
    }
    return numbers && dispatch && overlap && sp && shard && layout && recompute &&
           (w->schedules >> pipe->schedule & 1) != 0;
}

enum { MAX_SEEDS = 4096 };

static void note_found(planner *p, const orr_plan *plan, double step_s, double need_bytes) {
    double cost = tune_cost(p->world, step_s);
    tune_found found = {.cost = cost, .step_s = step_s, .need_bytes = need_bytes, .plan = *plan};
    if (p->members != NULL && p->members->seed_count < orr_min_u32(p->budget, MAX_SEEDS)) {
        p->members->seed[p->members->seed_count++] = found;
    }
    if (p->members != NULL && cost < p->found.cost && step_s <= p->world->most_step_s &&
        tune_space_holds(p->members, 0, &found.plan, &found.family)) {
        p->found = found;
    }
}

/* Tries a plan; true when it is the new best. Known plans and illegal ones cost nothing. */
static bool try_plan(planner *p, orr_plan plan, const char *what) {
    orr_resolved r = p->world->base;
    orr_err err = {0};
    double need_bytes = 0, step_s = HUGE_VAL;
    if (p->spent >= p->budget || !tune_settle(p->world, &plan)) {
        return false;
    }
    r.plan = plan;
    bool start = !p->started; /* shown whatever it is */
    p->started = true;
    if ((!start && !wanted(p, &plan)) || !orr_plan_legal(&r) ||
        orr_map_get(&p->seen, &plan, sizeof plan) != NULL) {
        return false;
    }
    orr_map_put(&p->seen, p->arena, &plan, sizeof plan, p);
    if (orr_quick_need(p->quick, &plan, &need_bytes, &err) != ORR_OK ||
        orr_quick_step(p->quick, &plan, &step_s, &err) != ORR_OK) {
        return false;
    }
    p->spent++;
    bool fits = need_bytes <= p->fits_bytes;
    bool better = fits ? step_s < p->best_s : !(p->best_s < HUGE_VAL) && need_bytes < p->best_need;
    write_trial(p, what, &plan, fits ? "fits" : "does_not_fit", step_s, need_bytes, better);
    if (better) {
        p->best = plan;
        p->best_s = fits ? step_s : HUGE_VAL;
        p->best_need = need_bytes;
    }
    if (fits) {
        note_found(p, &plan, step_s, need_bytes);
    }
    return better;
}

static bool sweep(planner *p, tune_axis axis) {
    moves *list = ORR_NEW(p->arena, moves);
    bool better = false;
    list->p = p;
    gather_moves(list, &p->best, axis);
    for (uint32_t i = 0; i < list->count; i++) {
        better |= try_plan(p, list->move[i].plan, list->move[i].what);
    }
    return better;
}

static void sweep_pair(planner *p, tune_axis a, tune_axis b) {
    moves *outer = ORR_NEW(p->arena, moves);
    outer->p = p;
    gather_moves(outer, &p->best, a);
    for (uint32_t i = 0; i < outer->count; i++) {
        moves *inner = ORR_NEW(p->arena, moves);
        inner->p = p;
        gather_moves(inner, &outer->move[i].plan, b);
        for (uint32_t k = 0; k < inner->count; k++) {
            (void)try_plan(
                p, inner->move[k].plan,
                orr_arena_format(p->arena, "%s, %s", outer->move[i].what, inner->move[k].what));
        }
    }
}

static void plan_seeds(planner *p) {
    bool better = true;
    while (better && p->spent < p->budget) {
        better = false;
        for (int i = 0; i < SWEEPS; i++) {
            better |= sweep(p, sweeps[i].axis);
        }
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        sweep_pair(p, pairs[i][0], pairs[i][1]);
    }
}

/* ---- local search ---------------------------------------------------------------------------- */

/* From the best plans of a search that its budget could not close: the same sweeps, downhill, and
 * no plan twice. */
orr_status tune_descend(const tune_space *space, orr_engine *engine, uint32_t budget,
                        tune_keep *keep, orr_tree **out, orr_err *err) {
    enum { STARTS = 6 };
    orr_arena *arena = space->arena;
    tune_found start[STARTS];
    uint32_t starts = orr_min_u32(STARTS, keep->top_count), tried = 0;
    double before = tune_keep_best(keep);
    memcpy(start, keep->top, starts * sizeof *start);
    for (uint32_t i = 0; i < starts; i++) {
        const tune_world *world = &space->world[start[i].world];
        planner p = {.space = space,
                     .world = world,
                     .arena = arena,
                     .path = orr_tree_new_list(arena),
                     .fits_bytes = tune_fits_bytes(space, world),
                     .budget = budget / starts,
                     .started = true,
                     .best = start[i].plan,
                     .best_s = start[i].step_s,
                     .best_need = start[i].need_bytes};
        ORR_TRY(orr_quick_new(engine, &world->base, space->compute_factor, &p.quick, err));
        plan_seeds(&p);
        orr_quick_free(p.quick);
        orr_map_release(&p.seen);
        tried += p.spent;
        if (p.best_s < start[i].step_s) {
            tune_found found = start[i];
            found.plan = p.best;
            found.step_s = p.best_s;
            found.need_bytes = p.best_need;
            found.cost = tune_cost(world, p.best_s);
            tune_keep_add(keep, &found);
        }
    }
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "starts", starts);
    orr_tree_put_int(arena, map, "evaluations", tried);
    orr_tree_put_real(arena, map, "gain_frac", starts > 0 ? before / tune_keep_best(keep) - 1 : 0);
    *out = map;
    return ORR_OK;
}

/* ---- one step aside -------------------------------------------------------------------------- */

static void write_step_aside(planner *p, tune_axis axis, const move *one, double best_s,
                             double within_frac, orr_tree *list, uint32_t *legal, uint32_t *near) {
    orr_resolved r = p->world->base;
    orr_plan plan = one->plan;
    orr_err err = {0};
    double need_bytes = 0, step_s = 0;
    if (!tune_settle(p->world, &plan)) {
        return; /* does not divide: no plan at all */
    }
    r.plan = plan;
    orr_tree *row = orr_tree_push(p->arena, list, orr_tree_new_map(p->arena));
    orr_tree_put_text(p->arena, row, "key", tune_axis_name(axis));
    orr_tree_put_text(p->arena, row, "change", one->what);
    if (!orr_plan_legal(&r)) {
        orr_violation broken[ORR_MAX_VIOLATIONS];
        bool known = orr_plan_check(p->arena, &r, broken) > 0;
        orr_tree_put_text(p->arena, row, "verdict", "illegal");
        orr_tree_put_text(p->arena, row, "why", known ? broken[0].message : "");
        return;
    }
    if (orr_quick_need(p->quick, &plan, &need_bytes, &err) != ORR_OK ||
        orr_quick_step(p->quick, &plan, &step_s, &err) != ORR_OK) {
        orr_tree_put_text(p->arena, row, "verdict", "unknown");
        orr_tree_put_text(p->arena, row, "why", err.message);
        return;
    }
    bool fits = need_bytes <= p->fits_bytes;
    *legal += 1;
    *near += fits && step_s <= best_s * (1 + within_frac);
    orr_tree_put_text(p->arena, row, "verdict", fits ? "fits" : "does_not_fit");
    orr_tree_put_real(p->arena, row, "change_frac", best_s / step_s - 1);
}

orr_status tune_aside(const tune_space *space, orr_engine *engine, const tune_found *best,
                      double within_frac, orr_tree *out, orr_err *err) {
    static const double broad = 0.5, sharp = 0.15;
    const tune_world *world = &space->world[best->world];
    orr_arena *arena = space->arena;
    planner p = {.space = space,
                 .world = world,
                 .arena = arena,
                 .fits_bytes = tune_fits_bytes(space, world)};
    uint32_t legal = 0, near = 0;
    ORR_TRY(orr_quick_new(engine, &world->base, space->compute_factor, &p.quick, err));
    orr_tree *list = orr_tree_put(arena, out, "axes", orr_tree_new_list(arena));
    for (int i = 0; i < SWEEPS; i++) {
        moves *around = ORR_NEW(arena, moves);
        around->p = &p;
        gather_moves(around, &best->plan, sweeps[i].axis);
        for (uint32_t k = 0; k < around->count; k++) {
            if (memcmp(&around->move[k].plan, &best->plan, sizeof best->plan) != 0) {
                write_step_aside(&p, sweeps[i].axis, &around->move[k], best->step_s, within_frac,
                                 list, &legal, &near);
            }
        }
    }
    orr_quick_free(p.quick);
    double share = legal > 0 ? (double)near / legal : 0;
    orr_tree_put_real(arena, out, "near_frac", share);
    orr_tree_put_text(arena, out, "shape",
                      share >= broad   ? "broad basin"
                      : share <= sharp ? "sharp peak"
                                       : "neither sharp nor broad");
    return ORR_OK;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

/* The plan to start from, or the plainest of the world. */
static orr_plan first_plan(const tune_space *space, const tune_world *world) {
    orr_resolved start = {0};
    const orr_tree *baseline = space->request->baseline;
    if (baseline != NULL && orr_plan_resolve(space->arena, baseline, &start, NULL) == ORR_OK &&
        start.plan.gpus == world->base.plan.gpus && start.plan.gbs == world->base.plan.gbs &&
        start.plan.batch.seq == world->base.plan.batch.seq) {
        return start.plan;
    }
    return world->base.plan;
}

orr_status tune_seed(tune_space *space, orr_engine *engine, uint32_t budget, tune_found *found,
                     orr_tree **out, orr_err *err) {
    const tune_world *world = &space->world[0];
    orr_arena *arena = space->arena;
    planner p = {.space = space,
                 .world = world,
                 .arena = arena,
                 .path = orr_tree_new_list(arena),
                 .fits_bytes = tune_fits_bytes(space, world),
                 .budget = budget,
                 .best_s = HUGE_VAL,
                 .best_need = HUGE_VAL,
                 .members = space,
                 .found = {.cost = HUGE_VAL}};
    space->seed = ORR_NEW_ARRAY(arena, tune_found, orr_min_u32(budget, MAX_SEEDS));
    ORR_TRY(orr_quick_new(engine, &world->base, space->compute_factor, &p.quick, err));
    p.best = first_plan(space, world);
    (void)try_plan(&p, p.best, "start");
    plan_seeds(&p);
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree *order = orr_tree_put(arena, map, "order", orr_tree_new_list(arena));
    for (int i = 0; i < SWEEPS; i++) {
        orr_tree *one = orr_tree_push(arena, order, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "key", tune_axis_name(sweeps[i].axis));
        orr_tree_put_text(arena, one, "why", sweeps[i].why);
    }
    orr_tree_put_int(arena, map, "evaluations", p.spent);
    if (p.best_s < HUGE_VAL) {
        orr_resolved r = world->base;
        r.plan = p.best;
        orr_tree_put_real(arena, map, "tokens_per_s_per_gpu",
                          (double)p.best.gbs * p.best.batch.seq / p.best_s / p.best.gpus);
        (void)orr_tree_put(arena, map, "plan", orr_plan_write(arena, &r));
    }
    (void)orr_tree_put(arena, map, "path", p.path);
    orr_quick_free(p.quick);
    orr_map_release(&p.seen);
    *found = p.found;
    *out = map;
    return ORR_OK;
}
