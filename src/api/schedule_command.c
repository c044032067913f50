/* One pipeline schedule: makespan, bubble, memory in flight, distance to the bound, and the others
 * beside it. The work comes from options (a shape and times), from a plan (times of the projection)
 * or from a file that gives every op. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "api/schedule_int.h"
#include "base/err.h"
#include "base/num.h"
#include "base/os_file.h"
#include "base/text.h"
#include "doc/doc.h"
#include "orrery/report.h"

enum { MOST_OPS = 1 << 22, SHOWN_OPS = 2048, DRAWN_OPS = 20000 };

typedef struct schedule_args {
    const orr_tree *f, *b, *w;
    const char *order, *svg;
    uint32_t microbatches;
    uint8_t p2p_mode;
} schedule_args;

static const char *const modes[] = {
    "default", "async", "blocking", "overlap", "overlap-warmup-flush", NULL};

#define TIME(member, text)                                                                         \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TREE,                                                                       \
     .offset = offsetof(schedule_args, member),                                                    \
     .fallback = "",                                                                               \
     .doc = text}
static const orr_field fields[] = {
    {.name = "microbatches",
     .type = ORR_FIELD_U32,
     .offset = offsetof(schedule_args, microbatches),
     .min = 1,
     .max = ORR_MAX_MICRO_BATCHES,
     .fallback = "",
     .doc = "micro-batches of a step; with f, b, w instead of a plan"},
    TIME(f, "time of a chunk's forward: a plain number or with s, ms, us, ns; or one for each "
            "position of the chain, separated by commas; default 1"),
    TIME(b, "time of its backward: the input gradient, or all of it when w is not given"),
    TIME(w, "time of its weight gradient"),
    {.name = "p2p_mode",
     .type = ORR_FIELD_ENUM,
     .offset = offsetof(schedule_args, p2p_mode),
     .values = modes,
     .fallback = "default",
     .doc = "what a transfer costs the ranks; default: 1f1b blocking, interleaved overlapped, "
            "others asynchronous. Without a plan p2p is the time of one transfer"},
    {.name = "order",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(schedule_args, order),
     .fallback = "",
     .doc = "file of every rank's ops (JSON: pp, vpp, microbatches, stage_position, order, "
            "durations): checked, then played"},
    {.name = "svg",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(schedule_args, svg),
     .fallback = "",
     .doc = "write the chart of all ranks (SVG) to this path"},
};
static const orr_schema schema = {
    .title = "schedule", .fields = fields, .count = sizeof fields / sizeof *fields, .open = true};

void orr_schedule_arguments(orr_arena *arena, orr_tree *list) {
    const orr_tree *all = orr_schema_fields(&schema, arena);
    for (size_t i = 0; i < orr_tree_size(all); i++) {
        orr_tree *field = orr_tree_push(arena, list, orr_tree_copy(arena, orr_tree_at(all, i)));
        if (fields[i].type == ORR_FIELD_TREE) {
            orr_tree_put_text(arena, field, "type", "text");
        }
    }
}

bool orr_is_schedule_argument(const char *key) {
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, key) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- times ---------------------------------------------------------------------------------- */

/* Times as given, before their unit is settled. */
typedef struct given {
    const char *name;
    double *value;
    uint32_t count;
} given;

typedef enum unit_use { UNIT_UNSEEN, UNIT_PLAIN, UNIT_SECONDS } unit_use;

static orr_status read_time(const char *name, const char *text, double *out, unit_use *use,
                            orr_err *err) {
    static const struct {
        const char *word;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6},        {"ns", 1e-9}, {"ps", 1e-12},
                 {"s", 1},     {"\xc2\xb5s", 1e-6}, {"", 0}};
    char number[64];
    while (*text == ' ') {
        text++;
    }
    size_t length = strspn(text, "0123456789.+-eE"), i = 0;
    const char *word = text + length + strspn(text + length, " ");
    while (units[i].seconds > 0 && strcmp(units[i].word, word) != 0) {
        i++;
    }
    bool good = length > 0 && length < sizeof number && strcmp(units[i].word, word) == 0;
    if (good) {
        memcpy(number, text, length);
        number[length] = '\0';
        good = orr_parse_real(number, out) && *out >= 0 && *out <= 1e12;
    }
    unit_use now = good && units[i].seconds > 0 ? UNIT_SECONDS : UNIT_PLAIN;
    if (!good) {
        orr_status status =
            orr_fail(err, ORR_E_SCHEMA, "%s '%.60s' is not a time from 0 to 1e12", name, text);
        orr_hint(err, "a plain number such as 1.5, or one with s, ms, us or ns");
        return status;
    }
    if (*out == 0 && now == UNIT_PLAIN) {
        return ORR_OK; /* nothing is nothing in any unit */
    }
    if (*use != UNIT_UNSEEN && *use != now) {
        return orr_fail(err, ORR_E_CONFLICT,
                        "%s '%.60s': some times have a unit and others have none", name, text);
    }
    *use = now;
    *out *= now == UNIT_SECONDS ? units[i].seconds : 1;
    return ORR_OK;
}

static orr_status read_number(const char *name, const orr_tree *node, double *out, unit_use *use,
                              orr_err *err) {
    const char *text = orr_tree_text(node, NULL);
    char plain[32];
    if (text == NULL) {
        orr_format_real(orr_tree_real(node, -1), plain);
        text = plain;
    }
    return read_time(name, text, out, use, err);
}

/* One time, or a list of them: as a list, or a text with commas. */
static orr_status read_times(orr_arena *arena, const char *name, const orr_tree *node, given *out,
                             unit_use *use, orr_err *err) {
    *out = (given){.name = name};
    if (node == NULL) {
        return ORR_OK;
    }
    bool list = orr_tree_kind_of(node) == ORR_TREE_LIST;
    const char *text = orr_tree_text(node, NULL);
    size_t count = list ? orr_tree_size(node) : 1;
    for (const char *p = text; p != NULL && *p != '\0'; p++) {
        count += *p == ',';
    }
    if (count == 0 || count > (size_t)ORR_MAX_PP * ORR_MAX_VPP) {
        return orr_fail(err, ORR_E_SCHEMA, "%s has %zu times", name, count);
    }
    out->value = ORR_NEW_ARRAY(arena, double, count);
    out->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        if (list || text == NULL) {
            ORR_TRY(
                read_number(name, list ? orr_tree_at(node, i) : node, &out->value[i], use, err));
            continue;
        }
        size_t length = strcspn(text, ",");
        ORR_TRY(read_time(name, orr_arena_copy(arena, text, length), &out->value[i], use, err));
        text += length + (text[length] == ',');
    }
    return ORR_OK;
}

/* Integer steps fine enough for decimals, coarse enough for long sums. */
static double choose_scale(const given *times, size_t count, const orr_schedule_spec *s) {
    double most = 1e-9, slots = (double)s->pp * s->vpp * s->micro_batches + 1;
    for (size_t k = 0; k < count; k++) {
        for (uint32_t i = 0; i < times[k].count; i++) {
            most = orr_max_f64(most, times[k].value[i]);
        }
    }
    double scale = 1e10;
    while (scale > 1e-6 && most * scale > 0x1p57 / slots) {
        scale /= 10;
    }
    return scale;
}

static orr_status spread(const scene *s, const given *times, int64_t *out, orr_err *err) {
    const orr_schedule_spec *spec = &s->spec;
    uint32_t chunks = spec->pp * spec->vpp;
    orr_schedule_kind kind = (orr_schedule_kind)spec->kind;
    uint32_t length = orr_schedule_two_way(kind) ? spec->pp : chunks;
    if (times->count > 1 && times->count != length) {
        return orr_fail(err, ORR_E_CONFLICT, "%s has %u times; the chain has %u positions",
                        times->name, times->count, length);
    }
    for (uint32_t r = 0; r < spec->pp; r++) {
        for (uint32_t c = 0; c < spec->vpp; c++) {
            uint32_t at = orr_schedule_position(kind, spec->pp, r, c, NULL);
            double value = times->count == 0 ? 0 : times->value[times->count == 1 ? 0 : at];
            out[r * spec->vpp + c] = llround(value * s->scale);
        }
    }
    return ORR_OK;
}

/* ---- work from options ---------------------------------------------------------------------- */

static orr_status count_arg(const orr_job *job, const char *key, uint32_t low, uint32_t most,
                            uint32_t *out, orr_err *err) {
    const orr_tree *node = orr_tree_get(job->args, key);
    const char *text = orr_tree_text(node, NULL);
    int64_t value = orr_tree_int(node, -1);
    if (node == NULL) {
        return ORR_OK;
    }
    if ((text != NULL && !orr_parse_int(text, &value)) || value < low || value > most) {
        return orr_fail(err, ORR_E_SCHEMA, "%s must be a whole number from %u to %u", key, low,
                        most);
    }
    *out = (uint32_t)value;
    return ORR_OK;
}

static orr_status kind_arg(const orr_job *job, uint32_t vpp, uint8_t *out, orr_err *err) {
    const char *name = orr_tree_text(orr_tree_get(job->args, "schedule"), NULL);
    orr_schedule_kind kind = vpp > 1 ? ORR_SCHEDULE_INTERLEAVED : ORR_SCHEDULE_1F1B;
    if (name != NULL && strcmp(name, "auto") != 0 && !orr_schedule_find(name, &kind)) {
        const char *names[ORR_SCHEDULE_COUNT];
        for (int k = 0; k < ORR_SCHEDULE_COUNT; k++) {
            names[k] = orr_schedule_name((orr_schedule_kind)k);
        }
        orr_status status = orr_fail(err, ORR_E_NAME, "unknown schedule '%.60s'", name);
        int nearest = orr_name_nearest(name, names, ORR_SCHEDULE_USER);
        orr_hint(err, "%s%s%s", nearest < 0 ? "see the list in help schedule" : "did you mean '",
                 nearest < 0 ? "" : names[nearest], nearest < 0 ? "" : "'?");
        return status;
    }
    *out = (uint8_t)kind;
    return ORR_OK;
}

static bool find_mode(const char *text, uint8_t *out) {
    for (uint8_t i = 1; modes[i] != NULL; i++) {
        if (strcmp(modes[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static void choose_mode(scene *s, const schedule_args *args) {
    s->mode_given = args->p2p_mode != 0;
    s->spec.p2p = s->mode_given
                      ? args->p2p_mode - 1
                      : (uint8_t)orr_schedule_default_p2p((orr_schedule_kind)s->spec.kind);
}

static orr_status shape_from_options(scene *s, const schedule_args *args, orr_err *err) {
    orr_schedule_spec *spec = &s->spec;
    const orr_job *job = s->job;
    *spec = (orr_schedule_spec){.pp = 1, .vpp = 0, .micro_batches = args->microbatches};
    ORR_TRY(count_arg(job, "pp", 1, ORR_MAX_PP, &spec->pp, err));
    ORR_TRY(count_arg(job, "vpp", 1, ORR_MAX_VPP, &spec->vpp, err));
    ORR_TRY(count_arg(job, "micro_batches", 1, ORR_MAX_MICRO_BATCHES, &spec->micro_batches, err));
    ORR_TRY(count_arg(job, "group", 0, ORR_MAX_MICRO_BATCHES, &spec->group, err));
    ORR_TRY(count_arg(job, "memory_limit", 0, ORR_MAX_MICRO_BATCHES, &spec->memory_limit, err));
    ORR_TRY(kind_arg(job, spec->vpp, &spec->kind, err));
    uint32_t fixed = orr_schedule_fixed_vpp((orr_schedule_kind)spec->kind);
    spec->vpp = spec->vpp != 0 ? spec->vpp : fixed != 0 ? fixed : 1;
    if (spec->micro_batches == 0) {
        spec->micro_batches = 2 * spec->pp;
    }
    if ((uint64_t)spec->pp * spec->vpp * spec->micro_batches * 3 > MOST_OPS) {
        return orr_fail(err, ORR_E_LIMIT, "pp x vpp x microbatches may be at most %d",
                        MOST_OPS / 3);
    }
    return ORR_OK;
}

static orr_status times_from_options(scene *s, const schedule_args *args, const orr_tree *hop,
                                     orr_err *err) {
    orr_arena *arena = s->job->arena;
    given times[4];
    unit_use use = UNIT_UNSEEN;
    ORR_TRY(read_times(arena, "f", args->f, &times[0], &use, err));
    ORR_TRY(read_times(arena, "b", args->b, &times[1], &use, err));
    ORR_TRY(read_times(arena, "w", args->w, &times[2], &use, err));
    ORR_TRY(read_times(arena, "p2p", hop, &times[3], &use, err));
    if (times[3].count > 1) {
        return orr_fail(err, ORR_E_SCHEMA, "p2p is one time: that of a transfer");
    }
    double one = use == UNIT_SECONDS ? 1e-3 : 1;
    bool none = times[0].count + times[1].count + times[2].count == 0;
    for (int k = 0; k < 3; k++) { /* w alone may be absent: b is then the whole backward */
        if (times[k].count == 0 && (none || k < 2)) {
            times[k].value = ORR_NEW(arena, double);
            times[k].value[0] = one;
            times[k].count = 1;
        }
    }
    uint32_t chunks = s->spec.pp * s->spec.vpp;
    int64_t *f = ORR_NEW_ARRAY(arena, int64_t, chunks), *b = ORR_NEW_ARRAY(arena, int64_t, chunks);
    int64_t *w = ORR_NEW_ARRAY(arena, int64_t, chunks);
    int64_t *hops = ORR_NEW_ARRAY(arena, int64_t, s->spec.pp);
    s->seconds = use == UNIT_SECONDS;
    s->scale = s->seconds ? 1e12 : choose_scale(times, 4, &s->spec);
    ORR_TRY(spread(s, &times[0], f, err));
    ORR_TRY(spread(s, &times[1], b, err));
    ORR_TRY(spread(s, &times[2], w, err));
    for (uint32_t r = 0; r < s->spec.pp; r++) {
        hops[r] = times[3].count == 0 ? 0 : llround(times[3].value[0] * s->scale);
    }
    s->d =
        (orr_durations){.f = f, .b = b, .w = w, .hop = hops, .unit_ps = s->seconds ? 0 : s->scale};
    return ORR_OK;
}

/* p2p: without a plan the time of a transfer, or how transfers work. */
static const orr_tree *hop_arg(const orr_job *job, schedule_args *args) {
    const orr_tree *node = orr_tree_get(job->args, "p2p");
    const char *text = orr_tree_text(node, NULL);
    return text != NULL && find_mode(text, &args->p2p_mode) ? NULL : node;
}

/* ---- work from a plan ----------------------------------------------------------------------- */

static orr_status from_plan(scene *s, const schedule_args *args, orr_err *err) {
    orr_job *job = s->job;
    orr_resolved *resolved = ORR_NEW(job->arena, orr_resolved);
    ORR_TRY(orr_job_keys(job, &s->keys, err));
    ORR_TRY(orr_job_resolve(job, s->keys, resolved, err));
    if (args->p2p_mode != 0) {
        resolved->plan.pipe.p2p = args->p2p_mode - 1;
        s->mode_given = true;
    }
    orr_violation violation[ORR_MAX_VIOLATIONS];
    if (!orr_plan_legal(resolved) && orr_plan_check(job->arena, resolved, violation) > 0) {
        orr_status status = orr_fail(err, ORR_E_INFEASIBLE, "%s (rule %s)", violation[0].message,
                                     violation[0].rule);
        orr_hint(err, "%s", violation[0].hint == NULL ? "" : violation[0].hint);
        return status;
    }
    s->resolved = resolved;
    s->spec = orr_plan_schedule(&resolved->plan);
    s->spec.vpp = resolved->plan.pipe.vpp;
    s->scale = 1e12;
    s->seconds = true;
    return orr_project_stages(job->ctx->engine, job->arena, resolved, &s->d, err);
}

/* ---- work from a file of ops ---------------------------------------------------------------- */

static const orr_tree *cell(const orr_tree *rows, uint32_t rank, uint32_t chunk) {
    return orr_tree_at(orr_tree_at(rows, rank), chunk);
}

static orr_status file_count(const orr_tree *root, const char *key, uint32_t most, uint32_t *out,
                             orr_err *err) {
    const orr_tree *node = orr_tree_get(root, key);
    int64_t value = orr_tree_int(node, -1);
    if (value < 1 || value > most) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node == NULL ? root : node),
                           "%s must be a whole number from 1 to %u", key, most);
    }
    *out = (uint32_t)value;
    return ORR_OK;
}

static orr_status read_ops(const scene *s, const orr_tree *root, orr_user_ops *out, orr_err *err) {
    const orr_tree *ranks = orr_tree_get(root, "order");
    uint32_t pp = s->spec.pp, vpp = s->spec.vpp;
    size_t count = 0;
    for (uint32_t r = 0; r < pp; r++) {
        count += orr_tree_size(orr_tree_at(ranks, r));
    }
    if (orr_tree_size(ranks) != pp || count > MOST_OPS) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(ranks),
                           "order has %zu ranks and %zu ops; %u ranks and at most %d ops expected",
                           orr_tree_size(ranks), count, pp, (int)MOST_OPS);
    }
    orr_sched_op *op = ORR_NEW_ARRAY(s->job->arena, orr_sched_op, count + 1);
    uint32_t *first = ORR_NEW_ARRAY(s->job->arena, uint32_t, pp + 1);
    uint32_t *position = ORR_NEW_ARRAY(s->job->arena, uint32_t, pp * vpp);
    uint8_t *chain = ORR_NEW_ARRAY(s->job->arena, uint8_t, pp * vpp);
    const orr_tree *places = orr_tree_get(root, "stage_position");
    const orr_tree *pipes = orr_tree_get(root, "stage_pipe");
    uint32_t used = 0;
    for (uint32_t r = 0; r < pp; r++) {
        const orr_tree *ops = orr_tree_at(ranks, r);
        for (size_t i = 0; i < orr_tree_size(ops); i++) {
            const orr_tree *one = orr_tree_at(ops, i);
            orr_status status = orr_sched_op_parse(orr_tree_text(one, ""), &op[used++], err);
            if (status != ORR_OK) {
                return orr_fail_at(err, status, orr_tree_span(one),
                                   "rank %u op %zu: '%.40s' is not an op; expected F0.3, B0.3, "
                                   "I0.3, W0.3 or O(F0.3,B1.1)",
                                   r, i, orr_tree_text(one, ""));
            }
        }
        first[r + 1] = used;
        for (uint32_t c = 0; c < vpp; c++) {
            /* without places: chunk after chunk around the ranks */
            int64_t usual = places == NULL ? (int64_t)(c * pp + r) : -1;
            int64_t at = orr_tree_int(cell(places, r, c), usual);
            position[r * vpp + c] = at < 0 || at > UINT32_MAX ? UINT32_MAX : (uint32_t)at;
            chain[r * vpp + c] = orr_tree_int(cell(pipes, r, c), 0) != 0;
        }
    }
    *out = (orr_user_ops){.position = position, .op_first = first, .chain = chain, .op = op};
    return ORR_OK;
}

static int64_t *file_times(const scene *s, const orr_tree *root, const char *path, double missing) {
    const orr_tree *rows = orr_tree_path(root, path);
    int64_t *out = ORR_NEW_ARRAY(s->job->arena, int64_t, s->spec.pp * s->spec.vpp);
    for (uint32_t i = 0; i < s->spec.pp * s->spec.vpp; i++) {
        double value = orr_tree_real(cell(rows, i / s->spec.vpp, i % s->spec.vpp), missing);
        out[i] = value >= 0 && value < 1e7 ? llround(value * s->scale) : -1;
    }
    return out;
}

static void times_from_file(scene *s, const orr_tree *root) {
    const orr_tree *factor = orr_tree_path(root, "durations.overlap_pair_factor");
    bool timed = orr_tree_get(root, "durations") != NULL;
    uint32_t chunks = s->spec.pp * s->spec.vpp;
    s->scale = 1e8;
    int64_t *f = file_times(s, root, "durations.f", 1);
    int64_t *b = file_times(s, root, "durations.b_input", 1);
    int64_t *w = file_times(s, root, "durations.w", timed ? 0 : 1);
    int64_t *hop = ORR_NEW_ARRAY(s->job->arena, int64_t, s->spec.pp);
    double latency = orr_tree_real(orr_tree_path(root, "p2p.latency"), 0);
    for (uint32_t r = 0; r < s->spec.pp; r++) {
        hop[r] = latency >= 0 && latency < 1e7 ? llround(latency * s->scale) : -1;
    }
    s->d = (orr_durations){.f = f, .b = b, .w = w, .hop = hop, .unit_ps = s->scale};
    if (orr_tree_kind_of(factor) != ORR_TREE_NULL) {
        int64_t *pair = ORR_NEW_ARRAY(s->job->arena, int64_t, chunks);
        for (uint32_t i = 0; i < chunks; i++) {
            pair[i] = llround(orr_tree_real(factor, 1) * (double)(f[i] + b[i] + w[i]));
        }
        s->d.pair = pair;
    }
}

static orr_status from_order(scene *s, const schedule_args *args, const orr_order **order,
                             orr_err *err) {
    orr_tree *root = NULL;
    ORR_TRY(orr_doc_read_file(s->job->arena, args->order, &root, err));
    s->spec = (orr_schedule_spec){.kind = ORR_SCHEDULE_USER};
    ORR_TRY(file_count(root, "pp", ORR_MAX_PP, &s->spec.pp, err));
    s->spec.vpp = 1;
    if (orr_tree_get(root, "vpp") != NULL) {
        ORR_TRY(file_count(root, "vpp", ORR_MAX_VPP, &s->spec.vpp, err));
    }
    ORR_TRY(file_count(root, "microbatches", ORR_MAX_MICRO_BATCHES, &s->spec.micro_batches, err));
    if (3ull * s->spec.pp * s->spec.vpp * s->spec.micro_batches > MOST_OPS) {
        return orr_fail(err, ORR_E_LIMIT, "pp x vpp x microbatches may be at most %d",
                        MOST_OPS / 3);
    }
    orr_user_ops ops;
    ORR_TRY(read_ops(s, root, &ops, err));
    if (args->f != NULL || args->b != NULL || args->w != NULL) {
        ORR_TRY(times_from_options(s, args, orr_tree_get(s->job->args, "p2p"), err));
    } else {
        times_from_file(s, root);
    }
    return orr_order_from_ops(s->job->arena, &s->spec, &ops, order, err);
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool names_plan(const orr_job *job) {
    static const char *const keys[] = {"file", "model", "hardware", "cluster", "gpus"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (orr_tree_get(job->args, keys[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void note_inputs(const scene *s) {
    static const char *const names[] = {"async", "blocking", "overlap", "overlap-warmup-flush"};
    orr_tree *in = s->job->inputs;
    orr_arena *arena = s->job->arena;
    if (s->resolved != NULL) {
        return;
    }
    orr_tree_put_text(arena, in, "schedule", orr_schedule_name((orr_schedule_kind)s->spec.kind));
    orr_tree_put_int(arena, in, "pp", s->spec.pp);
    orr_tree_put_int(arena, in, "vpp", s->spec.vpp);
    orr_tree_put_int(arena, in, "microbatches", s->spec.micro_batches);
    orr_tree_put_text(arena, in, "p2p_mode", names[s->spec.p2p]);
}

static orr_status draw(const scene *s, const schedule_args *args, const orr_order *order,
                       orr_err *err) {
    orr_tree *all = orr_tree_new_map(s->job->arena), *timeline = NULL;
    ORR_TRY(orr_scene_timeline(s, order, DRAWN_OPS, &timeline, err));
    (void)orr_tree_put(s->job->arena, all, "timeline", timeline);
    orr_tree_put_text(s->job->arena, all, "schedule",
                      orr_schedule_name((orr_schedule_kind)s->spec.kind));
    orr_tree_put_text(s->job->arena, all, "unit", s->seconds ? "s" : "");
    const char *text = orr_report_gantt(s->job->arena, all);
    return orr_os_write_file(args->svg, text, strlen(text), err);
}

orr_status orr_command_schedule(orr_job *job, orr_err *err) {
    schedule_args args = {0};
    scene s = {.job = job};
    const orr_order *order = NULL;
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    if (args.order != NULL) {
        ORR_TRY(from_order(&s, &args, &order, err));
    } else {
        if (names_plan(job)) {
            ORR_TRY(from_plan(&s, &args, err));
        } else {
            const orr_tree *hop = hop_arg(job, &args);
            ORR_TRY(shape_from_options(&s, &args, err));
            choose_mode(&s, &args);
            ORR_TRY(times_from_options(&s, &args, hop, err));
        }
        ORR_TRY(orr_order_build(job->arena, &s.spec, &s.d, &order, err));
    }
    note_inputs(&s);
    orr_tree *timeline = NULL;
    orr_tree_put_text(job->arena, job->result, "schedule",
                      orr_schedule_name((orr_schedule_kind)s.spec.kind));
    orr_tree_put_text(job->arena, job->result, "unit", s.seconds ? "s" : "");
    ORR_TRY(orr_scene_describe(&s, order, job->result, err));
    if (args.order == NULL) {
        orr_scene_compare(&s, job->result);
    }
    ORR_TRY(orr_scene_timeline(&s, order, SHOWN_OPS, &timeline, err));
    (void)orr_tree_put(job->arena, job->result, "timeline", timeline);
    return args.svg == NULL ? ORR_OK : draw(&s, &args, order, err);
}
