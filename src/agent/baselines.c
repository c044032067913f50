/* What needs no model: random plans, and climbing from where one stands. */
#include <string.h>

#include "agent/agent.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/rng.h"

/* Illegal plans cost nothing, as with the model, but not for ever. */
enum { TRIES_PER_EVALUATION = 200 };

/* Is the key named in a list of KEY=...? */
static bool names(const orr_tree *list, const char *key) {
    size_t length = strlen(key);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const char *text = orr_tree_text(orr_tree_at(list, i), "");
        if (strncmp(text, key, length) == 0 && text[length] == '=') {
            return true;
        }
    }
    return false;
}

void orr_agent_close_axes(orr_belt_axis *axis, uint32_t *count, const orr_tree *search_args) {
    const orr_tree *pins = orr_tree_get(search_args, "pin");
    const orr_tree *ranges = orr_tree_get(search_args, "range");
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        bool open = !axis[i].asked_only || names(ranges, axis[i].key);
        if (open && !names(pins, axis[i].key)) {
            axis[kept++] = axis[i];
        }
    }
    *count = kept;
}

typedef struct climber {
    const orr_oracle *oracle;
    orr_arena *arena, *scratch;
    const orr_tree *base, *search_args;
    orr_belt_axis axis[ORR_BELT_MAX_AXES];
    uint32_t axis_count, limit;
    orr_rng rng;
    orr_agent_trace *out;
} climber;

static orr_status open_climber(climber *c, orr_err *err) {
    c->out->best = 0;
    c->out->count = 0;
    c->out->so_far = ORR_NEW_ARRAY(c->arena, double, c->limit + 1u);
    ORR_TRY(orr_belt_axes(c->oracle, c->arena, c->base, c->axis, &c->axis_count, err));
    orr_agent_close_axes(c->axis, &c->axis_count, c->search_args);
    return ORR_OK;
}

/* at[i]: index into the values of axis i; UINT32_MAX: as the base. */
static const orr_tree *plan_of(climber *c, const uint32_t *at) {
    orr_tree *out = orr_tree_new_map(c->scratch);
    for (uint32_t i = 0; i < c->axis_count; i++) {
        if (at[i] != UINT32_MAX && at[i] != c->axis[i].at) {
            orr_tree *step = orr_belt_step(c->scratch, &c->axis[i], at[i]);
            /* What follows from one axis does not undo another's value. */
            for (size_t k = 1; k < orr_tree_size(step); k++) {
                if (orr_tree_get(out, orr_tree_key(step, k)) == NULL) {
                    orr_tree_put_text(c->scratch, out, orr_tree_key(step, k), NULL);
                }
            }
            (void)orr_tree_put(c->scratch, out, c->axis[i].key,
                               orr_tree_copy(c->scratch, orr_tree_at(step, 0)));
        }
    }
    return out;
}

/* Projects; a legal plan is an evaluation. *value: 0 unless it fits. */
static orr_status judge(climber *c, const uint32_t *at, double *value, bool *legal, orr_err *err) {
    orr_belt_plan plan;
    ORR_TRY(orr_belt_project(c->oracle, c->scratch, c->base, plan_of(c, at), &plan, err));
    *legal = plan.legal;
    *value = plan.fits ? plan.tokens_per_s_per_gpu : 0;
    if (plan.legal && c->out->count < c->limit) {
        c->out->best = *value > c->out->best ? *value : c->out->best;
        c->out->so_far[c->out->count++] = c->out->best;
    }
    orr_arena_reset(c->scratch);
    return ORR_OK;
}

static void draw(climber *c, uint32_t *at) {
    for (uint32_t i = 0; i < c->axis_count; i++) {
        size_t values = orr_tree_size(c->axis[i].values);
        at[i] = values == 0 ? UINT32_MAX : orr_rng_below(&c->rng, (uint32_t)values);
    }
}

static orr_status draw_all(climber *c, orr_err *err) {
    uint32_t at[ORR_BELT_MAX_AXES];
    for (uint32_t n = 0; n < c->limit * TRIES_PER_EVALUATION && c->out->count < c->limit; n++) {
        double value;
        bool legal;
        draw(c, at);
        ORR_TRY(judge(c, at, &value, &legal, err));
    }
    return ORR_OK;
}

/* The first single change that gains, axis after axis; true when there was one. */
static orr_status climb_once(climber *c, uint32_t *at, double *value, bool *gained, orr_err *err) {
    *gained = false;
    for (uint32_t i = 0; i < c->axis_count; i++) {
        uint32_t keep = at[i];
        for (uint32_t v = 0; v < orr_tree_size(c->axis[i].values) && c->out->count < c->limit;
             v++) {
            double now;
            bool legal;
            if (v == keep) {
                continue;
            }
            at[i] = v;
            ORR_TRY(judge(c, at, &now, &legal, err));
            if (now > *value) {
                *value = now;
                keep = v;
                *gained = true;
            }
        }
        at[i] = keep;
    }
    return ORR_OK;
}

static orr_status climb_all(climber *c, orr_err *err) {
    uint32_t at[ORR_BELT_MAX_AXES];
    double value;
    bool legal, gained = true;
    for (uint32_t i = 0; i < c->axis_count; i++) {
        at[i] = c->axis[i].at;
    }
    ORR_TRY(judge(c, at, &value, &legal, err));
    for (uint32_t n = 0; n < c->limit * TRIES_PER_EVALUATION && c->out->count < c->limit; n++) {
        ORR_TRY(climb_once(c, at, &value, &gained, err));
        if (!gained) { /* from somewhere else */
            draw(c, at);
            ORR_TRY(judge(c, at, &value, &legal, err));
        }
    }
    return ORR_OK;
}

static orr_status run(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                      const orr_tree *search_args, uint32_t evaluations, uint64_t seed,
                      orr_agent_trace *out, orr_status (*all)(climber *, orr_err *), orr_err *err) {
    climber c = {.oracle = oracle,
                 .arena = arena,
                 .scratch = orr_arena_new(),
                 .base = base,
                 .search_args = search_args,
                 .limit = evaluations,
                 .rng = {seed},
                 .out = out};
    orr_status status = open_climber(&c, err);
    status = status == ORR_OK ? all(&c, err) : status;
    orr_arena_free(c.scratch);
    return status;
}

orr_status orr_agent_random(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            const orr_tree *search_args, uint32_t evaluations, uint64_t seed,
                            orr_agent_trace *out, orr_err *err) {
    return run(oracle, arena, base, search_args, evaluations, seed, out, draw_all, err);
}

orr_status orr_agent_hill_climb(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                                const orr_tree *search_args, uint32_t evaluations, uint64_t seed,
                                orr_agent_trace *out, orr_err *err) {
    return run(oracle, arena, base, search_args, evaluations, seed, out, climb_all, err);
}
