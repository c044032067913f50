/* What is best. Inside a world every objective rises with the step alone: days, energy and money of
 * a run are its steps, times what one second of a step costs there (failures and checkpoints
 * included; goodput.h). So a world has one factor for each, and the best of a world is its fastest
 * plan that fits. A front over several objectives therefore needs the best of every world, and,
 * where memory is among them, what is slower and needs less. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

/* Tokens of a run where nobody says: the ratio between two plans does not depend on it. */
static const double some_tokens = 1e12;

static const double hour_s = 3600, day_s = 86400, kwh_J = 3.6e6;

typedef struct run_of_a_second {
    double days, money, kwh;
} run_of_a_second;

/* Of a run whose step takes a second. */
static orr_status run_of(const tune_space *space, const tune_world *world, run_of_a_second *out,
                         orr_err *err) {
    const orr_tune_request *request = space->request;
    const char *device = world->base.cluster->accelerator->name;
    orr_prices prices;
    orr_goodput goodput;
    ORR_TRY(orr_prices_find(space->arena, request->prices, device, &prices, err));
    double tokens = request->tokens > 0 ? request->tokens : some_tokens;
    orr_goodput_run run = orr_project_run(&world->base, tokens, 1, 0, 0);
    orr_goodput_find(&prices, &run, &goodput);
    bool money = request->objective == ORR_OBJECTIVE_COST || request->max_cost > 0 ||
                 request->objective == ORR_OBJECTIVE_CHEAPEST_CLUSTER;
    if (money && !(goodput.cost > 0)) {
        orr_status status = orr_fail(err, ORR_E_USAGE, "no price of %s is known", device);
        orr_hint(err, "--prices '{gpu_hour: 2.5}', or a file (docs/goodput.md)");
        return status;
    }
    bool energy = request->objective == ORR_OBJECTIVE_ENERGY || request->max_kwh > 0;
    if (energy && !(goodput.energy_J > 0)) {
        orr_status status = orr_fail(err, ORR_E_USAGE, "the power of %s is not known", device);
        orr_hint(err, "--prices '{gpu_w: 700}', or a file (docs/goodput.md)");
        return status;
    }
    if (!goodput.finishes) {
        return orr_fail(err, ORR_E_INFEASIBLE,
                        "on %u %s failures come faster than progress: no plan would finish",
                        run.gpus, device);
    }
    *out = (run_of_a_second){goodput.train_s / day_s, goodput.cost, goodput.energy_J / kwh_J};
    return ORR_OK;
}

static bool needs_run(const orr_tune_request *request) {
    return request->prices != NULL || request->tokens > 0 || request->max_days > 0 ||
           request->max_cost > 0 || request->max_kwh > 0 ||
           request->objective == ORR_OBJECTIVE_COST || request->objective == ORR_OBJECTIVE_ENERGY ||
           request->objective == ORR_OBJECTIVE_CHEAPEST_CLUSTER;
}

static double gain_of(const tune_space *space, const orr_plan *plan, const run_of_a_second *run) {
    double tokens = (double)plan->gbs * plan->batch.seq;
    switch ((orr_objective)space->request->objective) {
    case ORR_OBJECTIVE_STEP: return 1;
    case ORR_OBJECTIVE_TIME: return run->days > 0 ? run->days : 1 / tokens;
    case ORR_OBJECTIVE_COST: return run->money;
    case ORR_OBJECTIVE_ENERGY: return run->kwh;
    case ORR_OBJECTIVE_THROUGHPUT:
    case ORR_OBJECTIVE_CHEAPEST_CLUSTER:
    case ORR_OBJECTIVE_GPUS: break;
    }
    return plan->gpus / tokens;
}

static void limit_step(const orr_tune_request *request, const run_of_a_second *run,
                       tune_world *world) {
    const struct {
        double most, of_a_second;
    } limits[] = {{request->max_days, run->days},
                  {request->max_cost, run->money},
                  {request->max_kwh, run->kwh}};
    world->most_step_s = HUGE_VAL;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].most > 0 && limits[i].of_a_second > 0) {
            double most_s = limits[i].most / limits[i].of_a_second;
            world->most_step_s = orr_min_f64(world->most_step_s, most_s);
        }
    }
}

orr_status tune_world_objective(const tune_space *space, tune_world *world, orr_err *err) {
    const orr_tune_request *request = space->request;
    run_of_a_second run = {0};
    bool limited = request->max_days > 0 || request->max_cost > 0 || request->max_kwh > 0;
    if (limited && !(request->tokens > 0)) {
        return orr_fail(err, ORR_E_USAGE, "a limit on a run needs --tokens, how long it is");
    }
    if (needs_run(request)) {
        ORR_TRY(run_of(space, world, &run, err));
    }
    world->days = request->tokens > 0 ? run.days : 0;
    world->money = request->tokens > 0 ? run.money : 0;
    world->kwh = request->tokens > 0 ? run.kwh : 0;
    world->money_per_hour =
        run.money > 0 && run.days > 0 ? run.money / run.days / day_s * hour_s : 0;
    world->gain = gain_of(space, &world->base.plan, &run);
    limit_step(request, &run, world);
    return ORR_OK;
}

/* Objectives by groups of worlds: all that a smaller group can do comes first. */
void tune_worlds_group(tune_space *space) {
    uint8_t objective = space->request->objective;
    for (uint32_t w = 0; w < space->world_count; w++) {
        tune_world *world = &space->world[w];
        world->group = objective == ORR_OBJECTIVE_GPUS ? world->base.plan.gpus : 0;
        for (uint32_t k = 0; k < space->world_count && objective == ORR_OBJECTIVE_CHEAPEST_CLUSTER;
             k++) {
            world->group += space->world[k].money_per_hour < world->money_per_hour;
        }
    }
}

double tune_cost(const tune_world *world, double step_s) {
    return world->gain * step_s;
}

/* ---- fronts over objectives ------------------------------------------------------------------ */

static const char *const front_names[TUNE_FRONT_KEYS] = {
    "throughput", "step-time", "time-to-train", "cost",
    "energy",     "gpus",      "memory",        "cluster-price"};

/* Smaller is better. */
static double value_of(const tune_space *space, const tune_found *found, uint32_t key) {
    const tune_world *world = &space->world[found->world];
    const orr_plan *plan = &found->plan;
    double tokens = (double)plan->gbs * plan->batch.seq;
    switch (key) {
    case 0: return found->step_s * plan->gpus / tokens;
    case 1: return found->step_s;
    case 2: return world->days > 0 ? world->days * found->step_s : found->step_s / tokens;
    case 3: return world->money * found->step_s;
    case 4: return world->kwh * found->step_s;
    case 5: return plan->gpus;
    case 6: return found->need_bytes / world->capacity_bytes;
    default: return world->money_per_hour;
    }
}

static orr_status read_keys(const tune_space *space, uint32_t *keys, uint32_t *count,
                            orr_err *err) {
    const char *text = space->request->front == NULL ? "memory" : space->request->front;
    *count = 0;
    for (const char *p = text; *p != '\0';) {
        size_t length = strcspn(p, ",");
        const char *word = orr_arena_copy(space->arena, p, length);
        uint32_t k = 0;
        while (k < TUNE_FRONT_KEYS && !orr_name_equal(word, front_names[k])) {
            k++;
        }
        if (k == TUNE_FRONT_KEYS || *count == TUNE_FRONT_KEYS) {
            orr_status status = orr_fail(err, ORR_E_NAME, "'%s' is no objective of a front", word);
            orr_hint(err, "objectives are throughput, step-time, time-to-train, cost, energy, "
                          "gpus, memory, cluster-price");
            return status;
        }
        bool of_run = k == 3 || k == 4;
        if (of_run && !(space->request->tokens > 0)) {
            return orr_fail(err, ORR_E_USAGE, "a front over %s needs --tokens", word);
        }
        keys[(*count)++] = k;
        p += length + (p[length] != '\0');
    }
    return *count > 0 ? ORR_OK : orr_fail(err, ORR_E_USAGE, "a front needs objectives");
}

orr_status tune_front_check(const tune_space *space, orr_err *err) {
    uint32_t keys[TUNE_FRONT_KEYS], count = 0;
    return read_keys(space, keys, &count, err);
}

static bool beats(const tune_space *space, const tune_found *a, const tune_found *b,
                  const uint32_t *keys, uint32_t count) {
    bool better = false;
    for (uint32_t i = 0; i < count; i++) {
        double x = value_of(space, a, keys[i]), y = value_of(space, b, keys[i]);
        if (x > y) {
            return false;
        }
        better = better || x < y;
    }
    return better;
}

typedef struct points {
    uint32_t count, capacity;
    tune_found *found;
} points;

static void add_points(points *list, orr_arena *arena, const tune_found *found, uint32_t count) {
    if (count == 0) {
        return;
    }
    if (list->count + count > list->capacity) {
        uint32_t capacity = 2 * list->capacity + count;
        tune_found *bigger = ORR_NEW_ARRAY(arena, tune_found, capacity);
        if (list->count > 0) {
            memcpy(bigger, list->found, list->count * sizeof *bigger);
        }
        list->found = bigger;
        list->capacity = capacity;
    }
    if (count > 0) {
        memcpy(&list->found[list->count], found, count * sizeof *found);
    }
    list->count += count;
}

orr_status tune_search_world(tune_space *space, orr_engine *engine, uint32_t world,
                             tune_outcome *out, orr_err *err) {
    tune_space part = *space;
    *out = (tune_outcome){.complete = true};
    part.family = ORR_NEW_ARRAY(space->arena, tune_family, space->family_count);
    part.family_count = 0;
    part.count = 0;
    for (uint32_t f = 0; f < space->family_count; f++) {
        if (space->family[f].world == world) {
            part.family[part.family_count++] = space->family[f];
            part.count += space->family[f].count;
        }
    }
    return part.count > 0 ? tune_search(&part, engine, NULL, out, err) : ORR_OK;
}

static orr_status search_world(tune_space *space, orr_engine *engine, uint32_t world,
                               bool with_memory, points *list, bool *complete, orr_err *err) {
    tune_outcome outcome;
    orr_status status = tune_search_world(space, engine, world, &outcome, err);
    if (status == ORR_OK) {
        *complete = *complete && outcome.complete;
        const tune_keep *keep = &outcome.keep;
        add_points(list, space->arena, keep->top, orr_min_u32(1, keep->top_count));
        add_points(list, space->arena, keep->front, with_memory ? keep->front_count : 0);
    }
    tune_keep_release(&outcome.keep);
    return status;
}

orr_status tune_front(tune_space *space, orr_engine *engine, orr_tree **out, orr_err *err) {
    orr_arena *arena = space->arena;
    uint32_t keys[TUNE_FRONT_KEYS], count = 0;
    points list = {0};
    bool complete = true, with_memory = false;
    const orr_tune_request *before = space->request;
    orr_tune_request quiet = *before;
    ORR_TRY(read_keys(space, keys, &count, err));
    for (uint32_t i = 0; i < count; i++) {
        with_memory = with_memory || keys[i] == 6;
    }
    quiet.store = NULL;
    quiet.resume = false;
    quiet.objective = ORR_OBJECTIVE_STEP; /* of one world: all the same */
    space->request = &quiet;
    orr_status status = ORR_OK;
    for (uint32_t w = 0; w < space->world_count && status == ORR_OK; w++) {
        double gain = space->world[w].gain;
        space->world[w].gain = 1;
        status = search_world(space, engine, w, with_memory, &list, &complete, err);
        space->world[w].gain = gain;
    }
    space->request = before;
    ORR_TRY(status);
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree *names = orr_tree_put(arena, map, "objectives", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < count; i++) {
        (void)orr_tree_push(arena, names, orr_tree_new_text(arena, front_names[keys[i]]));
    }
    orr_tree_put_bool(arena, map, "complete", complete);
    orr_tree *rows = orr_tree_put(arena, map, "points", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < list.count; i++) {
        bool beaten = false;
        for (uint32_t k = 0; k < list.count && !beaten; k++) {
            beaten = beats(space, &list.found[k], &list.found[i], keys, count) ||
                     (k < i && memcmp(&list.found[k], &list.found[i], sizeof *list.found) == 0);
        }
        if (beaten) {
            continue;
        }
        const tune_found *found = &list.found[i];
        orr_resolved r = space->world[found->world].base;
        r.plan = found->plan;
        orr_tree *row = orr_tree_push(arena, rows, orr_tree_new_map(arena));
        (void)orr_tree_put(arena, row, "plan", orr_plan_write(arena, &r));
        orr_tree_put_real(arena, row, "tokens_per_s_per_gpu",
                          (double)r.plan.gbs * r.plan.batch.seq / found->step_s / r.plan.gpus);
        tune_write_run(arena, &space->world[found->world], found->step_s, row);
        orr_tree_put_real(arena, row, "headroom_frac",
                          1 - found->need_bytes / space->world[found->world].capacity_bytes);
    }
    *out = map;
    return ORR_OK;
}

void tune_write_run(orr_arena *arena, const tune_world *world, double step_s, orr_tree *out) {
    const struct {
        const char *key;
        double value;
    } parts[] = {{"train_days", world->days * step_s},
                 {"cost", world->money * step_s},
                 {"energy_kwh", world->kwh * step_s},
                 {"cluster_cost_per_hour", world->money_per_hour}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].value > 0) {
            orr_tree_put_real(arena, out, parts[i].key, parts[i].value);
        }
    }
}
