/* Worlds: the inputs of a search under each combination of the keys that are no axis, and what the
 * axes may be in it. Words are read by resolving a plan that states them. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

/* Keys that the search decides, or that follow from those it decides. */
static bool is_searched(const char *key) {
    static const char *const others[] = {"placement",    "first_layers",  "last_layers", "dp",
                                         "gbs",          "micro_batches", "p2p",         "group",
                                         "memory_limit", "shard_group"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(key, others[i]) == 0) {
            return true;
        }
    }
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (strcmp(key, tune_axis_name((tune_axis)a)) == 0) {
            return true;
        }
    }
    return false;
}

static orr_tree *copy_inputs(orr_arena *arena, const orr_tree *keys, uint32_t gbs) {
    orr_tree *out = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(keys); i++) {
        const char *key = orr_tree_key(keys, i);
        if (!is_searched(key)) {
            orr_tree *copy = orr_tree_copy(arena, orr_tree_at(keys, i));
            orr_tree_set_span(copy, orr_tree_span(orr_tree_at(keys, i)));
            (void)orr_tree_put(arena, out, key, copy);
        }
    }
    orr_tree_put_int(arena, out, "gbs", gbs);
    return out;
}

/* A plan of the world that states one more key. */
static orr_status with_key(orr_arena *arena, const tune_world *world, const char *key,
                           const char *value, orr_resolved *out, orr_err *err) {
    orr_tree *over = orr_tree_new_map(arena);
    orr_tree_put_text(arena, over, key, value);
    return orr_plan_resolve(arena, orr_plan_merge(arena, world->keys, over), out, err);
}

static bool is_moe(const orr_model *model) {
    for (uint32_t k = 0; k < model->kind_count; k++) {
        if (model->kind[k].mlp.experts > 0) {
            return true;
        }
    }
    return false;
}

static void add_u32(uint32_t *list, uint32_t *count, uint32_t value) {
    for (uint32_t i = 0; i < *count; i++) {
        if (list[i] == value) {
            return;
        }
    }
    list[(*count)++] = value;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void default_dispatches(tune_world *world) {
    static const uint8_t usual[] = {ORR_DISPATCH_ALLTOALL, ORR_DISPATCH_ALLGATHER,
                                    ORR_DISPATCH_DEEPEP};
    for (size_t i = 0; i < sizeof usual && is_moe(world->base.model); i++) {
        add_u32(world->dispatch, &world->dispatch_count, usual[i]);
    }
    add_u32(world->dispatch, &world->dispatch_count,
            is_moe(world->base.model) ? world->base.software->variant.dispatch
                                      : (uint32_t)ORR_DISPATCH_ALLTOALL);
}

static void default_shards(tune_world *world) {
    for (uint8_t kind = 0; kind < ORR_SHARD_COUNT; kind++) {
        world->shard[world->shard_count++] = (orr_shard){.kind = kind};
    }
}

/* Those that the software has; all: also the others. */
static uint64_t default_schedules(const tune_world *world, bool all) {
    uint64_t bits = 0;
    for (int k = ORR_SCHEDULE_1F1B; k <= ORR_SCHEDULE_DUALPIPEV; k++) {
        const char *name = orr_schedule_name((orr_schedule_kind)k);
        if (all || orr_software_has_schedule(world->base.software, name)) {
            bits |= UINT64_C(1) << k;
        }
    }
    return bits;
}

/* "block:2..6" stands for several. */
static orr_status add_recomputes(orr_arena *arena, tune_world *world, const char *word,
                                 orr_err *err) {
    const char *colon = strchr(word, ':'), *dots = strstr(word, "..");
    if (colon != NULL && dots > colon) {
        char *first = orr_arena_copy(arena, colon + 1, (size_t)(dots - colon - 1));
        int64_t low = 0, high = 0;
        if (!orr_parse_int(first, &low) || !orr_parse_int(dots + 2, &high) || low < 1 ||
            high < low || high > ORR_MAX_LAYERS) {
            return orr_fail(err, ORR_E_SCHEMA, "'%s' is no range of recomputed layers", word);
        }
        for (int64_t n = low; n <= high; n++) {
            ORR_TRY(add_recomputes(
                arena, world,
                orr_arena_format(arena, "%.*s:%lld", (int)(colon - word), word, (long long)n),
                err));
        }
        return ORR_OK;
    }
    if (world->recompute_count == TUNE_MAX_RECOMPUTE) {
        return orr_fail(err, ORR_E_LIMIT, "more than %d values of recompute", TUNE_MAX_RECOMPUTE);
    }
    orr_resolved r;
    ORR_TRY(with_key(arena, world, "recompute", word, &r, err));
    if (r.plan.recompute.kind != ORR_RECOMPUTE_UNKNOWN) {
        world->recompute[world->recompute_count++] = r.plan.recompute;
    }
    return ORR_OK;
}

static orr_status add_word(orr_arena *arena, tune_world *world, tune_axis axis, const char *word,
                           orr_err *err) {
    orr_resolved r;
    if (axis == AXIS_RECOMPUTE) {
        return add_recomputes(arena, world, word, err);
    }
    if (axis == AXIS_SCHEDULE && orr_name_equal(word, "auto")) {
        world->schedules |= default_schedules(world, true);
        return ORR_OK;
    }
    ORR_TRY(with_key(arena, world, tune_axis_name(axis), word, &r, err));
    switch (axis) {
    case AXIS_SP: world->sp |= (uint8_t)(1u << r.plan.split.sp); break;
    case AXIS_DISPATCH:
        add_u32(world->dispatch, &world->dispatch_count, r.plan.variant.dispatch);
        break;
    case AXIS_SHARDING:
        world->shard[world->shard_count++] = (orr_shard){.kind = r.plan.shard.kind};
        break;
    case AXIS_SCHEDULE: world->schedules |= UINT64_C(1) << r.plan.pipe.schedule; break;
    case AXIS_LAYOUT:
        world->layout_text[world->layout_count] = r.plan.layout;
        world->layout[world->layout_count++] = r.plan.pipe;
        break;
    case AXIS_OVERLAP: {
        bool all = orr_name_equal(word, "all");
        add_u32(world->overlap, &world->overlap_count, all ? TUNE_OVERLAPS - 1 : r.plan.overlap);
        break;
    }
    case AXIS_TP:
    case AXIS_CP:
    case AXIS_PP:
    case AXIS_EP:
    case AXIS_ETP:
    case AXIS_MBS:
    case AXIS_VPP:
    case AXIS_RECOMPUTE:
    case AXIS_COUNT: break;
    }
    return ORR_OK;
}

/* In a range "+" joins what a list separates by commas: overlap=tp+dp,none. */
static const char *plain_word(orr_arena *arena, tune_axis axis, const char *word) {
    char *copy = orr_arena_text(arena, word);
    for (char *p = copy; *p != '\0' && axis == AXIS_OVERLAP; p++) {
        *p = *p == '+' ? ',' : *p;
    }
    return copy;
}

static orr_status find_words(orr_arena *arena, const tune_limits *limits, tune_world *world,
                             orr_err *err) {
    world->dispatch = ORR_NEW_ARRAY(arena, uint32_t, TUNE_MAX_ITEMS + 4);
    world->overlap = ORR_NEW_ARRAY(arena, uint32_t, TUNE_MAX_ITEMS);
    world->shard = ORR_NEW_ARRAY(arena, orr_shard, TUNE_MAX_ITEMS);
    world->layout = ORR_NEW_ARRAY(arena, orr_pipe, TUNE_MAX_ITEMS);
    world->layout_text = ORR_NEW_ARRAY(arena, const orr_layout *, TUNE_MAX_ITEMS);
    world->recompute = ORR_NEW_ARRAY(arena, orr_recompute, TUNE_MAX_RECOMPUTE);
    for (int a = AXIS_NUMBERS; a < AXIS_COUNT; a++) {
        const tune_limit *limit = &limits->axis[a];
        for (uint32_t i = 0; i < limit->count; i++) {
            const char *word = plain_word(arena, (tune_axis)a, limit->word[i]);
            ORR_TRY(add_word(arena, world, (tune_axis)a, word, err));
        }
    }
    if (world->dispatch_count == 0) {
        default_dispatches(world);
    }
    if (world->shard_count == 0) {
        default_shards(world);
    }
    world->schedules = world->schedules == 0 ? default_schedules(world, false) : world->schedules;
    world->sp = world->sp == 0 ? 3 : world->sp;
    return ORR_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static orr_status make_world(tune_space *space, const orr_tree *inputs, const uint32_t *choice,
                             tune_world *world, orr_err *err) {
    orr_arena *arena = space->arena;
    const tune_limits *limits = &space->limits;
    orr_tree *over = orr_tree_new_map(arena);
    for (uint32_t i = 0; i < limits->other_count; i++) {
        orr_tree_put_text(arena, over, limits->other[i].key, limits->other[i].value[choice[i]]);
        world->p2p_stated = world->p2p_stated || strcmp(limits->other[i].key, "p2p") == 0;
    }
    world->keys = orr_plan_merge(arena, inputs, over);
    ORR_TRY(orr_plan_resolve(arena, world->keys, &world->base, err));
    /* The search states every key: its plans are as sure as one that does. */
    orr_resolved stated = {0};
    ORR_TRY(orr_plan_resolve(arena, orr_plan_write(arena, &world->base), &stated, err));
    world->base.sureness = stated.sureness;
    memcpy(world->limit, limits->axis, sizeof world->limit);
    ORR_TRY(tune_world_objective(space, world, err));
    const orr_accelerator *a = world->base.cluster->accelerator;
    world->capacity_bytes = a->usable_bytes > 0 ? a->usable_bytes : a->hbm_bytes;
    return find_words(arena, limits, world, err);
}

/* Fewest GPUs: all halves of what is there, unless a range says which. */
static void halve_gpus(orr_arena *arena, tune_limits *limits, uint32_t gpus) {
    for (uint32_t i = 0; i < limits->other_count; i++) {
        if (strcmp(limits->other[i].key, "gpus") == 0 ||
            strcmp(limits->other[i].key, "nodes") == 0) {
            return;
        }
    }
    if (limits->other_count == TUNE_MAX_ITEMS) {
        return;
    }
    uint32_t at = limits->other_count++;
    limits->other[at].key = "gpus";
    for (uint32_t n = gpus; n >= 1; n = n % 2 == 0 ? n / 2 : 0) {
        limits->other[at].value[limits->other[at].count++] = orr_arena_format(arena, "%u", n);
    }
}

orr_status tune_worlds_make(tune_space *space, orr_err *err) {
    orr_resolved start = {0};
    uint32_t choice[TUNE_MAX_ITEMS] = {0};
    /* What the plan to start from says of the batch holds for all. */
    ORR_TRY(orr_plan_resolve(space->arena, space->request->keys, &start, err));
    const orr_tree *inputs = copy_inputs(space->arena, space->request->keys, start.plan.gbs);
    uint8_t objective = space->request->objective;
    if (objective == ORR_OBJECTIVE_GPUS || objective == ORR_OBJECTIVE_CHEAPEST_CLUSTER) {
        halve_gpus(space->arena, &space->limits, start.plan.gpus);
    }
    const tune_limits *limits = &space->limits;
    uint64_t count = 1;
    for (uint32_t i = 0; i < limits->other_count; i++) {
        count *= limits->other[i].count;
        if (count > TUNE_MAX_WORLDS) {
            return orr_fail(err, ORR_E_LIMIT, "ranges of other keys make more than %d combinations",
                            TUNE_MAX_WORLDS);
        }
    }
    space->world = ORR_NEW_ARRAY(space->arena, tune_world, count);
    for (; space->world_count < count; space->world_count++) {
        ORR_TRY(make_world(space, inputs, choice, &space->world[space->world_count], err));
        for (uint32_t i = 0; i < limits->other_count; i++) {
            if (++choice[i] < limits->other[i].count) {
                break;
            }
            choice[i] = 0;
        }
    }
    tune_worlds_group(space);
    return ORR_OK;
}

double tune_fits_bytes(const tune_space *space, const tune_world *world) {
    static const double tight_frac = 0.96; /* the verdict's own: orr_memory_band */
    const orr_tune_request *request = space->request;
    double share = request->margin_frac > 0 ? 1 - request->margin_frac : tight_frac;
    double most = share * world->capacity_bytes;
    if (request->p_oom > 0) {
        const orr_software *software = world->base.software;
        double slope = orr_memory_oom_slope(software, (orr_sureness)world->base.sureness);
        double distance = log(1 / request->p_oom - 1) / slope;
        most = orr_min_f64(most, world->capacity_bytes * software->oom_half_frac * exp(-distance));
    }
    return most;
}
