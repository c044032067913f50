/* Pipes of a space: schedules, chunks and layouts of layers for a number of stages. */
#include <string.h>

#include "base/num.h"
#include "tune/tune_int.h"

enum { MAX_LAYOUTS = 96, MAX_PIPES = 4096 };

typedef struct pipe_list {
    tune_space *space;
    const tune_world *world;
    uint32_t micro_batches;
    tune_pipe *pipe;
    uint32_t count, capacity;
    uint32_t *seen; /* layer counts of the layouts so far, of one schedule and vpp */
    uint32_t seen_count, chunks;
    uint32_t *layers, *offset;
} pipe_list;

/* A plan in which only the pipe can offend: one replica, nothing split. */
static orr_plan bare_plan(const pipe_list *l, const orr_pipe *pipe, const orr_layout *layout) {
    orr_plan plan = l->world->base.plan;
    plan.pipe = *pipe;
    plan.layout = layout;
    plan.gpus = pipe->pp;
    plan.shard = (orr_shard){.dp = 1};
    plan.split.tp = plan.split.cp = plan.split.ep = plan.split.etp = 1;
    plan.split.sp = 0;
    plan.variant.dispatch = ORR_DISPATCH_ALLTOALL;
    plan.batch.mbs = 1;
    plan.batch.micro_batches = plan.gbs = l->micro_batches;
    tune_plan_neutral(l->world, &plan);
    return plan;
}

/* Layouts that put the same layers on the same chunks are one. */
static void try_layout(pipe_list *l, const orr_pipe *pipe, const orr_layout *layout) {
    orr_plan plan = bare_plan(l, pipe, layout);
    uint32_t chunks = pipe->pp * pipe->vpp;
    if (orr_plan_layers(l->world->base.model, &plan, l->layers, l->offset, NULL) != ORR_OK) {
        return;
    }
    for (uint32_t i = 0; i < l->seen_count; i++) {
        if (memcmp(&l->seen[i * chunks], l->layers, chunks * sizeof *l->layers) == 0) {
            return;
        }
    }
    if (l->seen_count == MAX_LAYOUTS || l->count == MAX_PIPES) {
        return;
    }
    memcpy(&l->seen[l->seen_count++ * chunks], l->layers, chunks * sizeof *l->layers);
    if (!tune_is_legal(l->world, &plan)) {
        return;
    }
    if (l->count == l->capacity) {
        uint32_t capacity = orr_max_u32(16, 2 * l->capacity);
        tune_pipe *bigger = ORR_NEW_ARRAY(l->space->arena, tune_pipe, capacity);
        if (l->count > 0) {
            memcpy(bigger, l->pipe, l->count * sizeof *bigger);
        }
        l->pipe = bigger;
        l->capacity = capacity;
    }
    tune_pipe *out = &l->pipe[l->count++];
    *out = (tune_pipe){.pipe = *pipe, .layout = layout};
    for (uint32_t c = 0; c < chunks; c++) {
        out->deepest = orr_max_u32(out->deepest, l->layers[c]);
    }
}

/* First and last rank with a few layers less or more than the others. */
static void try_counts(pipe_list *l, const orr_pipe *usual) {
    enum { FEWER = 3, MORE = 1 };
    uint32_t layers = l->world->base.model->layers, mean = layers / usual->pp;
    uint32_t low = mean > FEWER ? mean - FEWER : 1;
    for (uint32_t first = low; first <= mean + MORE && usual->pp > 2; first++) {
        for (uint32_t last = low; last <= mean + MORE; last++) {
            orr_pipe pipe = *usual;
            pipe.split_flags = ORR_SPLIT_COUNTS;
            pipe.first_layers = first;
            pipe.last_layers = last;
            try_layout(l, &pipe, NULL);
        }
    }
}

/* Those that a framework is told in fewest words come first. */
static void try_layouts(pipe_list *l, uint32_t schedule, uint32_t pp, uint32_t vpp) {
    const tune_world *w = l->world;
    orr_pipe pipe = w->base.plan.pipe;
    pipe.pp = pp;
    pipe.vpp = vpp;
    pipe.schedule = (uint8_t)schedule;
    pipe.split_flags = 0;
    pipe.first_layers = pipe.last_layers = 0;
    pipe.layout_hash = 0;
    l->seen_count = 0;
    if (w->limit[AXIS_LAYOUT].count > 0) {
        for (uint32_t i = 0; i < w->layout_count; i++) {
            pipe.placement = w->layout[i].placement;
            pipe.split_flags = w->layout[i].split_flags;
            pipe.layout_hash = w->layout[i].layout_hash;
            try_layout(l, &pipe, w->layout_text[i]);
        }
        return;
    }
    if (pp == 1) {
        try_layout(l, &pipe, NULL);
        return;
    }
    static const uint8_t placements[] = {ORR_PLACE_BALANCED, ORR_PLACE_SPREAD, ORR_PLACE_COST_WALK,
                                         ORR_PLACE_SLOTS};
    pipe.placement = ORR_PLACE_EVEN;
    try_layout(l, &pipe, NULL);
    for (uint8_t flags = ORR_SPLIT_EMBEDDING; flags <= (ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS);
         flags++) {
        orr_pipe slots = pipe;
        slots.split_flags = flags;
        try_layout(l, &slots, NULL);
    }
    try_counts(l, &pipe);
    for (size_t i = 0; i < sizeof placements; i++) {
        pipe.placement = placements[i];
        try_layout(l, &pipe, NULL);
    }
}

static void try_schedule(pipe_list *l, uint32_t schedule, uint32_t pp) {
    const tune_world *w = l->world;
    uint32_t fixed = orr_schedule_fixed_vpp((orr_schedule_kind)schedule);
    uint32_t most = orr_min_u32(ORR_MAX_VPP, (w->base.model->layers + 2) / pp);
    uint32_t low = fixed > 0 ? fixed : 2, high = fixed > 0 ? fixed : most;
    for (uint32_t vpp = low; vpp <= high; vpp++) {
        if (tune_limit_takes(&w->limit[AXIS_VPP], vpp)) {
            try_layouts(l, schedule, pp, vpp);
        }
    }
}

typedef struct pipe_key {
    uint32_t world, pp, micro_batches;
} pipe_key;

uint32_t tune_pipes_of(tune_space *space, uint32_t world, uint32_t pp, uint32_t micro_batches) {
    pipe_key key = {world, pp, micro_batches};
    const uint32_t *known = (const uint32_t *)orr_map_get(&space->pipe_map, &key, sizeof key);
    if (known != NULL) {
        return *known;
    }
    orr_arena *work = orr_arena_new();
    const tune_world *w = &space->world[world];
    uint32_t chunks = orr_max_u32(2 * pp, w->base.model->layers + 2 + pp);
    pipe_list l = {.space = space,
                   .world = w,
                   .micro_batches = micro_batches,
                   .seen = ORR_NEW_ARRAY(work, uint32_t, (size_t)MAX_LAYOUTS * chunks),
                   .layers = ORR_NEW_ARRAY(work, uint32_t, chunks),
                   .offset = ORR_NEW_ARRAY(work, uint32_t, chunks)};
    if (pp == 1) {
        bool usual = (w->schedules >> ORR_SCHEDULE_1F1B & 1) != 0;
        if (usual && tune_limit_takes(&w->limit[AXIS_VPP], 1)) {
            try_layouts(&l, ORR_SCHEDULE_1F1B, 1, 1);
        }
    }
    for (uint32_t k = 0; k < ORR_SCHEDULE_USER && pp > 1 && !tune_space_interrupted(space); k++) {
        if (w->schedules >> k & 1) {
            try_schedule(&l, k, pp);
        }
    }
    orr_arena_free(work);
    if (space->pipes_count == space->pipes_capacity) {
        uint32_t capacity = orr_max_u32(64, 2 * space->pipes_capacity);
        tune_pipes *bigger = ORR_NEW_ARRAY(space->arena, tune_pipes, capacity);
        if (space->pipes_count > 0) {
            memcpy(bigger, space->pipes, space->pipes_count * sizeof *bigger);
        }
        space->pipes = bigger;
        space->pipes_capacity = capacity;
    }
    uint32_t *index = ORR_NEW(space->arena, uint32_t);
    *index = space->pipes_count++;
    space->pipes[*index] = (tune_pipes){l.count, l.pipe};
    orr_map_put(&space->pipe_map, space->arena, &key, sizeof key, index);
    return *index;
}
