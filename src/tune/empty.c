/* Why a space is empty: the fewest limits that already exclude each other, the rule that the plan
 * they describe breaks, and for each of them what would be there without it, nearest value first.
 */
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

enum { MAX_LIMITS = 128 };

/* Pins first, then ranges. */
typedef struct limits {
    orr_arena *arena;
    const orr_tune_request *request;
    uint32_t pins, count;
    const char *text[MAX_LIMITS];
    bool left_out[MAX_LIMITS];
} limits;

static void gather(limits *l, const orr_tree *list) {
    for (size_t i = 0; i < orr_tree_size(list) && l->count < MAX_LIMITS; i++) {
        l->text[l->count++] = orr_tree_text(orr_tree_at(list, i), "");
    }
}

/* The space of the limits that are not left out; the caller releases it. */
static bool make_part(const limits *l, tune_space *space) {
    orr_tune_request trial = *l->request;
    orr_tree *lists[2] = {orr_tree_new_list(l->arena), orr_tree_new_list(l->arena)};
    orr_err ignored = {0};
    for (uint32_t i = 0; i < l->count; i++) {
        if (!l->left_out[i]) {
            (void)orr_tree_push(l->arena, lists[i < l->pins ? 0 : 1],
                                orr_tree_new_text(l->arena, l->text[i]));
        }
    }
    trial.pins = lists[0];
    trial.ranges = lists[1];
    return tune_space_make(l->arena, &trial, space, &ignored) == ORR_OK;
}

static uint64_t count_part(const limits *l) {
    tune_space space;
    uint64_t count = make_part(l, &space) ? space.count : 0;
    tune_space_release(&space);
    return count;
}

/* Leaves out what the space is empty without. */
static void find_core(limits *l) {
    for (uint32_t i = 0; i < l->count; i++) {
        l->left_out[i] = true;
        l->left_out[i] = count_part(l) == 0;
    }
}

static uint32_t value_of(const orr_plan *plan, const char *key) {
    const struct {
        const char *key;
        uint32_t value;
    } known[] = {{"tp", plan->split.tp}, {"cp", plan->split.cp},   {"pp", plan->pipe.pp},
                 {"ep", plan->split.ep}, {"etp", plan->split.etp}, {"mbs", plan->batch.mbs},
                 {"gpus", plan->gpus}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].key, key) == 0) {
            return known[i].value;
        }
    }
    return 0;
}

/* Of the values that a key takes in the space, the one nearest to what was asked; 0: no number. */
static uint32_t nearest(const tune_space *space, const char *key, uint32_t wanted) {
    uint32_t best = 0;
    for (uint32_t f = 0; f < space->family_count; f++) {
        uint32_t value = value_of(&space->family[f].plan, key);
        double now = value > wanted ? (double)value / wanted : (double)wanted / (value + 1e-9);
        double was = best > wanted ? (double)best / wanted : (double)wanted / (best + 1e-9);
        best = value > 0 && (best == 0 || now < was) ? value : best;
    }
    return best;
}

static void add_relaxation(limits *l, uint32_t which, orr_text *hint) {
    tune_space space;
    const char *text = l->text[which], *equals = strchr(text, '=');
    l->left_out[which] = true;
    bool made = make_part(l, &space);
    l->left_out[which] = false;
    if (made && space.count > 0) {
        const char *key = orr_arena_copy(l->arena, text, (size_t)(equals - text));
        int64_t wanted = 0;
        bool number = orr_parse_int(equals + 1, &wanted) && wanted > 0 && wanted < UINT32_MAX;
        uint32_t near = number ? nearest(&space, key, (uint32_t)wanted) : 0;
        orr_text_format(hint, "%swithout %s there are %llu legal plans",
                        hint->length > 0 ? "; " : "", text, (unsigned long long)space.count);
        if (near > 0) {
            orr_text_format(hint, ", with %s=%u some of them", key, near);
        }
    }
    tune_space_release(&space);
}

/* A plan that takes the first value of every limit, to ask the rules what they have against it. */
static void put_first(const tune_limits *all, orr_plan *plan) {
    const struct {
        tune_axis axis;
        uint32_t *value;
    } numbers[] = {{AXIS_TP, &plan->split.tp},   {AXIS_CP, &plan->split.cp},
                   {AXIS_PP, &plan->pipe.pp},    {AXIS_EP, &plan->split.ep},
                   {AXIS_ETP, &plan->split.etp}, {AXIS_MBS, &plan->batch.mbs},
                   {AXIS_VPP, &plan->pipe.vpp}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const tune_limit *limit = &all->axis[numbers[i].axis];
        *numbers[i].value = limit->count > 0 ? limit->interval[0].low : 1;
    }
    plan->pipe.schedule = plan->pipe.vpp > 1 ? ORR_SCHEDULE_INTERLEAVED : ORR_SCHEDULE_1F1B;
}

/* The rules that the plainest plan of the limits breaks, by their ids. */
static const char *why_not(const tune_space *space) {
    orr_arena *arena = space->arena;
    const tune_world *world = &space->world[0];
    orr_resolved r = world->base;
    orr_violation broken[ORR_MAX_VIOLATIONS];
    put_first(&space->limits, &r.plan);
    uint64_t ranks = (uint64_t)r.plan.split.tp * r.plan.split.cp * r.plan.pipe.pp;
    if (ranks > r.plan.gpus || r.plan.gpus % ranks != 0) {
        return orr_arena_format(arena, "tp %u x cp %u x pp %u does not divide %u GPUs",
                                r.plan.split.tp, r.plan.split.cp, r.plan.pipe.pp, r.plan.gpus);
    }
    if (!tune_settle(world, &r.plan)) {
        return orr_arena_format(arena, "mbs %u x dp %u does not divide gbs %u", r.plan.batch.mbs,
                                r.plan.shard.dp, r.plan.gbs);
    }
    uint32_t count = orr_plan_check(arena, &r, broken);
    orr_text text = orr_text_new(arena, 2000);
    for (uint32_t i = 0; i < count && i < ORR_MAX_VIOLATIONS; i++) {
        if (broken[i].effect != ORR_RULE_WARNING) {
            orr_text_format(&text, "%s[%s] %s", text.length > 0 ? "; " : "", broken[i].rule,
                            broken[i].message);
        }
    }
    return text.length > 0 ? orr_text_done(&text) : "the limits exclude each other";
}

orr_status tune_nothing_legal(const tune_space *space, orr_err *err) {
    limits *l = ORR_NEW(space->arena, limits);
    *l = (limits){.arena = space->arena, .request = space->request};
    gather(l, space->request->pins);
    l->pins = l->count;
    gather(l, space->request->ranges);
    find_core(l);
    orr_text core = orr_text_new(space->arena, 2000), hint = orr_text_new(space->arena, 2000);
    uint32_t members = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (!l->left_out[i]) {
            orr_text_format(&core, "%s%s", members++ > 0 ? ", " : "", l->text[i]);
            add_relaxation(l, i, &hint);
        }
    }
    tune_space part; /* of the limits that contradict each other alone */
    const char *why = make_part(l, &part) ? why_not(&part) : "";
    tune_space_release(&part);
    orr_status status =
        members > 1 ? orr_fail(err, ORR_E_INFEASIBLE,
                               "no plan of the space is legal: %s contradict each other: %s",
                               orr_text_done(&core), why)
        : members == 1
            ? orr_fail(err, ORR_E_INFEASIBLE, "no plan of the space is legal: %s allows none: %s",
                       orr_text_done(&core), why)
            : orr_fail(err, ORR_E_INFEASIBLE,
                       "no plan of this workload is legal, whatever the limits: %s", why);
    orr_hint(err, "%s",
             hint.length > 0 ? orr_text_done(&hint)
                             : "change gpus or gbs: degrees and micro-batches must divide them");
    return status;
}
