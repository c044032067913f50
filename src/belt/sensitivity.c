/* How the answer moves with the figures of the machine. */
#include <string.h>

#include "base/err.h"
#include "belt/belt_int.h"

/* A step of a figure, in which the answer is close to linear. */
static const double step_frac = 0.1;

/* A figure of the accelerator's sheet; a map's every entry moves together. */
static const struct {
    const char *key, *is;
} figures[] = {
    {"peak", "peak of the matrix units"},   {"hbm_Bps", "memory bandwidth"},
    {"link_Bps", "link inside a domain"},   {"peer_Bps", "link between two accelerators"},
    {"nic_Bps", "network per accelerator"},
};

static orr_tree *scaled(orr_arena *arena, const orr_tree *value, double factor) {
    if (orr_tree_kind_of(value) != ORR_TREE_MAP) {
        return orr_tree_new_real(arena, orr_tree_real(value, 0) * factor);
    }
    orr_tree *out = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(value); i++) {
        (void)orr_tree_put(
            arena, out, orr_tree_key(value, i),
            orr_tree_new_real(arena, orr_tree_real(orr_tree_at(value, i), 0) * factor));
    }
    return out;
}

/* The accelerator with one figure changed, as the `hardware` of a plan. */
static const orr_tree *with_figure(orr_arena *arena, const orr_tree *hardware, const char *name,
                                   const char *key, const orr_tree *value, const orr_tree *peer,
                                   double factor) {
    orr_tree *map = orr_tree_kind_of(hardware) == ORR_TREE_MAP ? orr_tree_copy(arena, hardware)
                                                               : orr_tree_new_map(arena);
    if (orr_tree_kind_of(hardware) != ORR_TREE_MAP) {
        orr_tree_put_text(arena, map, "like", name);
    }
    (void)orr_tree_put(arena, map, key, scaled(arena, value, factor));
    if (peer != NULL) {
        (void)orr_tree_put(arena, map, "peer_Bps", scaled(arena, peer, factor));
    }
    orr_tree *overrides = orr_tree_new_map(arena);
    (void)orr_tree_put(arena, overrides, "hardware", map);
    return overrides;
}

typedef struct study {
    const orr_oracle *oracle;
    orr_arena *arena;
    const orr_tree *base;
    const orr_tree *hardware; /* as the plan states it */
    const orr_tree *sheet;    /* its figures */
    const char *name;
    double nic_Bps;
    orr_belt_plan own;
} study;

static orr_status at_factor(const study *s, size_t figure, double factor, orr_belt_plan *out,
                            orr_err *err) {
    const char *key = figures[figure].key;
    const orr_tree *value = orr_tree_get(s->sheet, key);
    if (strcmp(key, "nic_Bps") == 0) { /* a key of the plan: the cluster's own would win */
        orr_tree *overrides = orr_tree_new_map(s->arena);
        orr_tree_put_real(s->arena, overrides, "nic", s->nic_Bps * factor);
        return orr_belt_project(s->oracle, s->arena, s->base, overrides, out, err);
    }
    /* through a switch one pair has all links: they move together */
    bool links = strcmp(key, "link_Bps") == 0;
    const orr_tree *peer = links ? orr_tree_get(s->sheet, "peer_Bps") : NULL;
    return orr_belt_project(s->oracle, s->arena, s->base,
                            with_figure(s->arena, s->hardware, s->name, key, value, peer, factor),
                            out, err);
}

/* A cluster fixes its links. Its figures become those of the plan, so that each can be moved. */
static orr_status open_cluster(study *s, const orr_tree *cluster, orr_err *err) {
    orr_tree *args = orr_tree_new_map(s->arena), *shown = NULL;
    orr_tree_put_text(s->arena, args, "name", orr_tree_text(cluster, ""));
    ORR_TRY(s->oracle->call(s->oracle->user, "cluster show", args, s->arena, &shown, err));
    const orr_tree *result = orr_tree_get(shown, "result"), *tiers = orr_tree_get(result, "tiers");
    size_t last = orr_tree_size(tiers);
    orr_tree *overrides = orr_tree_new_map(s->arena);
    orr_tree_put_text(s->arena, overrides, "cluster", NULL);
    (void)orr_tree_put(s->arena, overrides, "fabric",
                       orr_tree_copy(s->arena, orr_tree_get(result, "fabric")));
    (void)orr_tree_put(s->arena, overrides, "gpus_per_node",
                       orr_tree_copy(s->arena, orr_tree_get(result, "gpus_per_node")));
    if (orr_tree_get(s->base, "hardware") == NULL) {
        (void)orr_tree_put(s->arena, overrides, "hardware",
                           orr_tree_copy(s->arena, orr_tree_get(result, "accelerator")));
    }
    if (last > 1) {
        s->nic_Bps = orr_tree_real(orr_tree_get(orr_tree_at(tiers, last - 1), "Bps"), 0);
        orr_tree_put_real(s->arena, overrides, "nic", s->nic_Bps);
    }
    s->base = orr_belt_merge(s->arena, s->base, overrides);
    return ORR_OK;
}

static orr_status open_study(study *s, orr_err *err) {
    ORR_TRY(orr_belt_project(s->oracle, s->arena, s->base, NULL, &s->own, err));
    const orr_tree *inputs = orr_tree_get(s->own.envelope, "inputs");
    if (s->own.legal && orr_tree_kind_of(orr_tree_get(inputs, "cluster")) == ORR_TREE_TEXT) {
        ORR_TRY(open_cluster(s, orr_tree_get(inputs, "cluster"), err));
        ORR_TRY(orr_belt_project(s->oracle, s->arena, s->base, NULL, &s->own, err));
        inputs = orr_tree_get(s->own.envelope, "inputs");
    }
    if (!s->own.readable) {
        if (err != NULL) {
            *err = s->own.why;
        }
        return s->own.why.status;
    }
    if (!s->own.legal) {
        return orr_fail(err, ORR_E_INFEASIBLE, "the plan is illegal; check says why");
    }
    s->hardware = orr_tree_get(inputs, "hardware");
    s->name = orr_tree_kind_of(s->hardware) == ORR_TREE_MAP
                  ? orr_tree_text(orr_tree_get(s->hardware, "like"), "")
                  : orr_tree_text(s->hardware, "");
    orr_tree *args = orr_tree_new_map(s->arena), *sheet = NULL;
    orr_tree_put_text(s->arena, args, "name", s->name);
    ORR_TRY(s->oracle->call(s->oracle->user, "hardware show", args, s->arena, &sheet, err));
    s->sheet = orr_tree_get(sheet, "result");
    s->nic_Bps = orr_tree_real(orr_tree_get(inputs, "nic"), s->nic_Bps);
    if (s->nic_Bps <= 0) {
        s->nic_Bps = orr_tree_real(orr_tree_get(s->sheet, "nic_Bps"), 0);
    }
    return ORR_OK;
}

static orr_status study_figure(const study *s, size_t figure, orr_tree *rows, orr_err *err) {
    orr_belt_plan same, low, high;
    if (orr_tree_get(s->sheet, figures[figure].key) == NULL) {
        return ORR_OK;
    }
    double peer_Bps = orr_tree_real(orr_tree_get(s->sheet, "peer_Bps"), 0);
    double link_Bps = orr_tree_real(orr_tree_get(s->sheet, "link_Bps"), 0);
    if (strcmp(figures[figure].key, "peer_Bps") == 0 && peer_Bps * (1 + step_frac) > link_Bps) {
        return ORR_OK; /* no pair can have more than all links: link_Bps has told it */
    }
    /* A machine with a figure of its own is not held to what was measured on the one by name: steps
     * are from that machine with the figure unmoved. */
    ORR_TRY(at_factor(s, figure, 1, &same, err));
    ORR_TRY(at_factor(s, figure, 1 - step_frac, &low, err));
    ORR_TRY(at_factor(s, figure, 1 + step_frac, &high, err));
    orr_tree *row = orr_tree_push(s->arena, rows, orr_tree_new_map(s->arena));
    orr_tree_put_text(s->arena, row, "figure", figures[figure].key);
    orr_tree_put_text(s->arena, row, "is", figures[figure].is);
    if (!same.legal || !low.legal || !high.legal) {
        orr_tree_put_text(s->arena, row, "error", low.legal ? high.why.message : low.why.message);
        return ORR_OK;
    }
    double own = same.tokens_per_s_per_gpu;
    orr_tree_put_real(
        s->arena, row, "elasticity",
        belt_round((high.tokens_per_s_per_gpu - low.tokens_per_s_per_gpu) / (2 * step_frac * own),
                   4));
    orr_tree_put_real(s->arena, row, "less_10_percent",
                      belt_round(low.tokens_per_s_per_gpu / own - 1, 4));
    orr_tree_put_real(s->arena, row, "more_10_percent",
                      belt_round(high.tokens_per_s_per_gpu / own - 1, 4));
    orr_tree_put_real(s->arena, row, "from_tokens_per_s_per_gpu", belt_round(own, 1));
    orr_tree_put_bool(s->arena, row, "fits_with_less", low.fits);
    orr_tree_put_bool(s->arena, row, "fits_with_more", high.fits);
    return ORR_OK;
}

orr_status orr_belt_sensitivity(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                                orr_tree *out, orr_err *err) {
    study s = {.oracle = oracle, .arena = arena, .base = base};
    ORR_TRY(open_study(&s, err));
    (void)orr_tree_put(arena, out, "plan", orr_belt_row(arena, NULL, &s.own));
    orr_tree *rows = orr_tree_put(arena, out, "rows", orr_tree_new_list(arena));
    const size_t count = sizeof figures / sizeof *figures;
    for (size_t i = 0; i < count; i++) {
        ORR_TRY(belt_progress(oracle, "figures", (double)i, (double)count, err));
        ORR_TRY(study_figure(&s, i, rows, err));
    }
    return ORR_OK;
}
