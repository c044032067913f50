/* How far measured shapes speak for others: the likeness of each kind of op.
 *
 * The rows of public tables play evidence: a few shapes of a device are given, another is asked
 * for, at every distance and number. The likeness is what makes the asked one most probable
 * (evidence/near.c), over all such trials of a kind together; the same trials say how far prices
 * with evidence are off and how often the truth lies within 90 %. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/text.h"
#include "calibrate/calibrate_int.h"
#include "cost/cost.h"

enum {
    MOST_GIVEN = ORR_EVIDENCE_NEIGHBOURS,
    TRIALS = 1600,      /* of each kind to fit to, and as many others to judge */
    LEAST_IN_GROUP = 8, /* shapes that can be compared */
    MOST_WEIGHT = 400,
    LEAST_ROWS = 200, /* of a kind; with fewer it takes what all say */
    MOST_GROUPS = 2048,
    UNKNOWNS = 6
};

/* Comparable shapes of one device. */
typedef struct group {
    uint32_t first, count, capacity; /* index[] of the evidence's records */
    uint32_t *index;
    const orr_evidence *evidence;
    const orr_modelled *model;
} group;

typedef struct trial {
    uint8_t kind;
    uint32_t count;
    double between[MOST_GIVEN * MOST_GIVEN], to[MOST_GIVEN], off[MOST_GIVEN], noise[MOST_GIVEN];
    double asked, relerr_frac; /* how far the asked shape is off, in stated errors */
} trial;

typedef struct trials {
    uint32_t count, capacity;
    trial *at;
} trials;

static double off_of(const group *g, uint32_t i) {
    const orr_modelled *m = &g->model[g->index[i]];
    return log(g->evidence->record[g->index[i]].time_s / m->time_s) / m->relerr_frac;
}

/* ---- groups --------------------------------------------------------------------------------- */

typedef struct groups {
    uint32_t count, rows[ORR_EVIDENCE_LAYER], devices;
    group of[MOST_GROUPS];
} groups;

static void add_to_group(orr_arena *arena, groups *all, uint32_t from, const orr_evidence *evidence,
                         const orr_modelled *model, uint32_t index) {
    const orr_evidence_key *key = &evidence->record[index].key;
    uint32_t g = from;
    while (g < all->count &&
           orr_evidence_octaves(key, &evidence->record[all->of[g].index[0]].key) < 0) {
        g++;
    }
    if (g == MOST_GROUPS) {
        return;
    }
    group *into = &all->of[g];
    if (g == all->count) {
        *into = (group){.evidence = evidence, .model = model};
        all->count++;
    }
    if (into->count == into->capacity) {
        uint32_t *larger = ORR_NEW_ARRAY(arena, uint32_t, 2 * into->capacity + 16);
        if (into->count > 0) {
            memcpy(larger, into->index, into->count * sizeof *larger);
        }
        into->index = larger;
        into->capacity = 2 * into->capacity + 16;
    }
    into->index[into->count++] = index;
}

static const char *next_path(orr_arena *arena, const char **paths) {
    size_t length = strcspn(*paths, ",");
    const char *path = orr_arena_copy(arena, *paths, length);
    *paths += length + ((*paths)[length] == ',');
    return path;
}

/* A table's records of one accelerator, with what the models say of them. */
static orr_status add_device(orr_arena *arena, const char *path, const char *device, groups *all,
                             orr_err *err) {
    orr_accelerator *accelerator = NULL;
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    const orr_cost_table *table = NULL;
    orr_evidence *evidence = NULL;
    static const uint32_t GPUS = 64;
    ORR_TRY(orr_accelerator_find(arena, device, &accelerator, err));
    orr_evidence_want want = {.device = accelerator, .classes = ORR_CLASS_BIT_ALL};
    orr_err ignored = {0};
    orr_status status = orr_evidence_read(arena, path, &want, &evidence, &ignored);
    if (status == ORR_E_CONFLICT) {
        return ORR_OK; /* none of it */
    }
    if (status != ORR_OK) {
        return orr_fail(err, status, "%s", ignored.message);
    }
    ORR_TRY(orr_cluster_usual(arena, accelerator, GPUS, 0, NULL, &cluster, err));
    ORR_TRY(orr_software_find(arena, "unknown", &software, err));
    ORR_TRY(orr_cost_table_new(arena, cluster, software, &table, err));
    orr_modelled *model = ORR_NEW_ARRAY(arena, orr_modelled, evidence->count + 1);
    uint32_t from = all->count;
    for (uint32_t i = 0; i < evidence->count; i++) {
        model[i] = orr_cost_model_of(table, evidence, &evidence->record[i]);
        if (evidence->record[i].key.kind < ORR_EVIDENCE_LAYER && model[i].time_s > 0 &&
            model[i].relerr_frac > 0) {
            all->rows[evidence->record[i].key.kind]++;
            add_to_group(arena, all, from, evidence, model, i);
        }
    }
    all->devices += all->count > from;
    return ORR_OK;
}

/* ---- trials --------------------------------------------------------------------------------- */

typedef struct far {
    double octaves;
    uint32_t at;
} far;

static int by_distance(const void *a, const void *b) {
    const far *x = (const far *)a, *y = (const far *)b;
    if (x->octaves != y->octaves) {
        return x->octaves < y->octaves ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Some of a group's shapes, from anywhere or from the nearest few, and one that is asked for. */
static void make_trial(const group *g, orr_rng *rng, far *order, trial *out) {
    static const uint32_t GIVEN[] = {1, 2, 4, 8, MOST_GIVEN}, WITHIN[] = {UINT32_MAX, 300, 40};
    uint32_t asked = orr_rng_below(rng, g->count), given = GIVEN[orr_rng_below(rng, 5)];
    uint32_t within = WITHIN[orr_rng_below(rng, 3)], used = 0;
    const orr_evidence_record *record = g->evidence->record;
    const orr_evidence_key *key = &record[g->index[asked]].key;
    for (uint32_t i = 0; i < g->count; i++) {
        double octaves = orr_evidence_octaves(key, &record[g->index[i]].key);
        if (i != asked && octaves >= 0) {
            order[used++] = (far){octaves, i};
        }
    }
    if (within < used) {
        qsort(order, used, sizeof *order, by_distance);
        used = within;
    }
    given = orr_min_u32(given, used);
    *out = (trial){.kind = key->kind,
                   .count = given,
                   .asked = off_of(g, asked),
                   .relerr_frac = g->model[g->index[asked]].relerr_frac};
    for (uint32_t i = 0; i < given; i++) {
        uint32_t j = i + orr_rng_below(rng, used - i);
        far one = order[j];
        order[j] = order[i];
        order[i] = one;
        out->to[i] = one.octaves;
        out->off[i] = off_of(g, one.at);
        out->noise[i] = orr_max_f64(ORR_EVIDENCE_NOISE, record[g->index[one.at]].spread_frac) /
                        g->model[g->index[one.at]].relerr_frac;
        for (uint32_t k = 0; k < i; k++) {
            double octaves = orr_evidence_octaves(&record[g->index[one.at]].key,
                                                  &record[g->index[order[k].at]].key);
            out->between[i * given + k] = out->between[k * given + i] = orr_max_f64(0, octaves);
        }
    }
}

/* Trials of one kind, of groups by their shapes, large ones as of MOST_WEIGHT. */
static trials make_trials(orr_arena *arena, const groups *all, int kind, uint64_t seed) {
    trials out = {0, TRIALS, ORR_NEW_ARRAY(arena, trial, TRIALS)};
    const group *eligible[MOST_GROUPS];
    uint32_t until[MOST_GROUPS]; /* weights, summed up */
    uint32_t groups_used = 0, most = 1, weight = 0;
    for (uint32_t g = 0; g < all->count; g++) {
        const group *one = &all->of[g];
        if (one->evidence->record[one->index[0]].key.kind == kind && one->count >= LEAST_IN_GROUP) {
            weight += orr_min_u32(one->count, MOST_WEIGHT);
            until[groups_used] = weight;
            eligible[groups_used++] = one;
            most = orr_max_u32(most, one->count);
        }
    }
    far *order = ORR_NEW_ARRAY(arena, far, most);
    orr_rng rng = {seed};
    while (groups_used > 0 && out.count < TRIALS) {
        uint32_t place = orr_rng_below(&rng, weight), g = 0;
        while (until[g] <= place) {
            g++;
        }
        make_trial(eligible[g], &rng, order, &out.at[out.count++]);
    }
    return out;
}

/* ---- fitting -------------------------------------------------------------------------------- */

/* Shares through a softmax, the rest by their logarithms. */
static orr_likeness likeness_at(const double x[UNKNOWNS]) {
    static const double MOST_OCTAVES = 50, LEAST_OCTAVES = 0.1, LEAST_DOF = 1;
    double a = exp(x[0]), b = exp(x[1]), c = exp(x[2]), sum = a + b + c + 1;
    return (orr_likeness){
        .level = a / sum,
        .smooth = b / sum,
        .smooth_octaves = orr_min_f64(MOST_OCTAVES, orr_max_f64(LEAST_OCTAVES, exp(x[3]))),
        .rough = c / sum,
        .rough_octaves = orr_min_f64(MOST_OCTAVES, orr_max_f64(LEAST_OCTAVES, exp(x[4]))),
        .dof = orr_max_f64(LEAST_DOF, exp(x[5]))};
}

static orr_kriged krige(const orr_likeness *likeness, const trial *t) {
    return orr_evidence_krige(likeness, t->count, t->between, t->to, t->off, t->noise);
}

/* Mean of minus the logarithm of Student's density at what was asked, and a weak pull. */
static double surprise(const trials *all, const double x[UNKNOWNS], const double start[UNKNOWNS]) {
    static const double PULL = 1e-3;
    orr_likeness likeness = likeness_at(x);
    double sum = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const trial *t = &all->at[i];
        orr_kriged k = krige(&likeness, t);
        double noise = ORR_EVIDENCE_NOISE / t->relerr_frac;
        double width = k.open * k.scale + noise * noise, dof = likeness.dof + t->count;
        double miss = (t->asked - k.mean) * (t->asked - k.mean) / width;
        sum += 0.5 * log(width * dof) + 0.5 * (dof + 1) * log1p(miss / dof) -
               lgamma(0.5 * (dof + 1)) + lgamma(0.5 * dof);
    }
    sum /= all->count;
    for (int i = 0; i < UNKNOWNS; i++) {
        sum += PULL * (x[i] - start[i]) * (x[i] - start[i]);
    }
    return sum;
}

/* One unknown at a time, in steps that shrink. */
static orr_likeness fit(const trials *all) {
    static const double START[UNKNOWNS] = {0, 0, 0, 2.3, 0, 1.1}, LEAST_STEP = 0.05;
    double x[UNKNOWNS];
    memcpy(x, START, sizeof x);
    double best = surprise(all, x, START);
    for (double step = 0.8; step >= LEAST_STEP; step /= 2) {
        for (bool better = true; better;) {
            better = false;
            for (int i = 0; i < UNKNOWNS; i++) {
                for (int side = -1; side <= 1; side += 2) {
                    double was = x[i];
                    x[i] += side * step;
                    double now = surprise(all, x, START);
                    if (now < best - 1e-6) {
                        best = now;
                        better = true;
                    } else {
                        x[i] = was;
                    }
                }
            }
        }
    }
    return likeness_at(x);
}

/* ---- the file ------------------------------------------------------------------------------- */

static void put_share(orr_arena *arena, orr_tree *map, const char *key, double value) {
    orr_tree_put_real(arena, map, key, floor(value * 1000 + 0.5) / 1000);
}

/* Errors of trials that the likeness was not fitted to. */
static void put_judged(orr_arena *arena, orr_tree *map, const trials *all,
                       const orr_likeness *likeness) {
    double model = 0, with = 0, inside = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const trial *t = &all->at[i];
        orr_kriged k = krige(likeness, t);
        double miss = fabs(t->asked - k.mean);
        model += t->relerr_frac * fabs(t->asked) / all->count;
        with += t->relerr_frac * miss / all->count;
        double half = orr_t95(likeness->dof + t->count) * sqrt(k.open * k.scale);
        inside += miss <= hypot(half, ORR_HALF_90_SD * ORR_EVIDENCE_NOISE / t->relerr_frac);
    }
    put_share(arena, map, "error_model", model);
    put_share(arena, map, "error_restored", with);
    put_share(arena, map, "inside_90", all->count > 0 ? inside / all->count : 0);
}

static void put_likeness(orr_arena *arena, orr_tree *fits, const groups *all, int kind,
                         const trials *judged, const orr_likeness *likeness, const char *source) {
    orr_tree *map = orr_tree_push(arena, fits, orr_tree_new_map(arena));
    orr_tree_put_text(arena, map, "kind", orr_evidence_kind_name((uint8_t)kind));
    orr_tree_put_text(arena, map, "source", source);
    orr_tree_put_int(arena, map, "rows", all->rows[kind]);
    put_share(arena, map, "level", likeness->level);
    put_share(arena, map, "smooth", likeness->smooth);
    put_share(arena, map, "smooth_octaves", likeness->smooth_octaves);
    put_share(arena, map, "rough", likeness->rough);
    put_share(arena, map, "rough_octaves", likeness->rough_octaves);
    put_share(arena, map, "dof", likeness->dof);
    put_judged(arena, map, judged, likeness);
}

static trials together(orr_arena *arena, const trials part[ORR_EVIDENCE_LAYER]) {
    trials out = {0, 0, NULL};
    for (int kind = 0; kind < ORR_EVIDENCE_LAYER; kind++) {
        out.capacity += part[kind].count;
    }
    out.at = ORR_NEW_ARRAY(arena, trial, out.capacity + 1);
    for (int kind = 0; kind < ORR_EVIDENCE_LAYER; kind++) {
        if (part[kind].count > 0) {
            memcpy(out.at + out.count, part[kind].at, part[kind].count * sizeof *out.at);
        }
        out.count += part[kind].count;
    }
    return out;
}

static const char *base_names(orr_arena *arena, const char *paths) {
    orr_text text = orr_text_new(arena, 4096);
    while (*paths != '\0') {
        const char *path = next_path(arena, &paths), *slash = strrchr(path, '/');
        orr_text_format(&text, "%s%s", slash != NULL ? slash + 1 : path,
                        *paths != '\0' ? ", " : "");
    }
    return orr_text_done(&text);
}

orr_status orr_calibrate_likeness(orr_arena *arena, const char *paths, orr_watch *watch,
                                  orr_tree **file, orr_err *err) {
    const orr_tree *devices = orr_accelerator_catalog(arena);
    groups *all = ORR_NEW(arena, groups);
    for (const char *rest = paths; *rest != '\0';) {
        const char *path = next_path(arena, &rest);
        for (size_t i = 0; i < orr_tree_size(devices); i++) {
            ORR_TRY(add_device(arena, path, orr_tree_text(orr_tree_at(devices, i), ""), all, err));
            double share = ((double)i + 1) / (double)orr_tree_size(devices);
            if (!orr_watch_tell(watch, "devices", share * (double)(rest - paths),
                                (double)strlen(paths))) {
                return orr_fail(err, ORR_E_CANCELLED, "stopped; nothing was written");
            }
        }
    }
    trials given[ORR_EVIDENCE_LAYER], judged[ORR_EVIDENCE_LAYER];
    for (int kind = 0; kind < ORR_EVIDENCE_LAYER; kind++) {
        given[kind] = make_trials(arena, all, kind, 1);
        judged[kind] = make_trials(arena, all, kind, 2);
    }
    trials every = together(arena, given);
    if (every.count == 0) {
        return orr_fail(err, ORR_E_CONFLICT, "%s: no device has %d shapes that can be compared",
                        paths, (int)LEAST_IN_GROUP);
    }
    orr_likeness common = fit(&every);
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree_put_text(arena, out, "class", "likeness");
    orr_tree_put_text(arena, out, "made_by", "orrery calibrate --evidence (scripts/recalibrate)");
    orr_tree_put_text(arena, out, "table", base_names(arena, paths));
    orr_tree *fits = orr_tree_put(arena, out, "fits", orr_tree_new_list(arena));
    for (int kind = 0; kind < ORR_EVIDENCE_LAYER; kind++) {
        bool own = all->rows[kind] >= LEAST_ROWS && given[kind].count > 0;
        orr_likeness likeness = own ? fit(&given[kind]) : common;
        put_likeness(arena, fits, all, kind, &judged[kind], &likeness,
                     own ? "shapes of one device given and others asked for"
                         : "too few rows: as all kinds together");
    }
    *file = out;
    return ORR_OK;
}
