/* The search: plan keys state the workload, pins and ranges the space. */
#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "doc/doc.h"
#include "tune/tune.h"

typedef struct tune_args {
    const orr_tree *pin, *range;
    const char *file;
    double margin, p_oom, budget, within;
    uint32_t threads;
    uint8_t objective;
    bool brute;
} tune_args;

static const char *const objectives[] = {"throughput", "step-time", "time-to-train", "gpus", NULL};

#define REAL(member, kind, low, high, unit_, text)                                                 \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_##kind,                                                                     \
     .offset = offsetof(tune_args, member),                                                        \
     .min = low,                                                                                   \
     .max = high,                                                                                  \
     .fallback = "",                                                                               \
     .unit = unit_,                                                                                \
     .doc = text}
static const orr_field fields[] = {
    {.name = "pin",
     .type = ORR_FIELD_TREE,
     .offset = offsetof(tune_args, pin),
     .fallback = "",
     .doc = "KEY=VALUE: a plan key that stays as it is; may be repeated"},
    {.name = "range",
     .type = ORR_FIELD_TREE,
     .offset = offsetof(tune_args, range),
     .fallback = "",
     .doc = "KEY=A..B or KEY=A,B,C: what a plan key may be, also of keys that are otherwise left "
            "alone (precision, gpus, hardware, gbs ...); may be repeated"},
    {.name = "objective",
     .type = ORR_FIELD_ENUM,
     .offset = offsetof(tune_args, objective),
     .values = objectives,
     .fallback = "throughput",
     .doc = "what is best: tokens/s/GPU, the shortest step, tokens/s of all GPUs, or the fewest "
            "GPUs"},
    REAL(margin, REAL, 0, 0.99, NULL,
         "share of memory that stays free; default: what the verdict takes for fitting"),
    REAL(p_oom, REAL, 0, 1, NULL, "highest probability of running out of memory that is taken"),
    REAL(budget, QUANTITY, 0, 1e9, "s", "stop after so long, with the best so far and its gap"),
    REAL(within, REAL, 0, 0.5, NULL,
         "count all plans so near the best; default: what the model cannot tell apart"),
    {.name = "threads",
     .type = ORR_FIELD_U32,
     .offset = offsetof(tune_args, threads),
     .min = 1,
     .max = 256,
     .fallback = "1",
     .doc = "threads; the answer is the same for any number"},
    {.name = "brute",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(tune_args, brute),
     .fallback = "off",
     .doc = "evaluate every plan, without bounds: to check the search on a pinned space"},
};
static const orr_schema schema = {
    .title = "tune", .fields = fields, .count = sizeof fields / sizeof *fields, .open = true};

/* Own fields; the keys of plans are read elsewhere. */
orr_tree *orr_tune_fields(orr_arena *arena) {
    const orr_tree *all = orr_schema_fields(&schema, arena);
    orr_tree *list = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(all); i++) {
        orr_tree *field = orr_tree_push(arena, list, orr_tree_copy(arena, orr_tree_at(all, i)));
        if (fields[i].type == ORR_FIELD_TREE) {
            orr_tree_put_bool(arena, field, "repeat", true);
        }
    }
    return list;
}

static bool progress(void *user, const char *what, double done, double total) {
    const orr_ctx *ctx = (const orr_ctx *)user;
    return ctx->progress == NULL || ctx->progress(ctx->progress_user, what, done, total);
}

bool orr_is_tune_argument(const char *key) {
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, key) == 0) {
            return true;
        }
    }
    return false;
}

/* Texts of an argument that may be repeated. */
static void add_texts(orr_arena *arena, const orr_tree *from, orr_tree *list) {
    if (orr_tree_kind_of(from) == ORR_TREE_TEXT) {
        (void)orr_tree_push(arena, list, orr_tree_copy(arena, from));
    }
    for (size_t i = 0; i < orr_tree_size(from); i++) {
        (void)orr_tree_push(arena, list, orr_tree_copy(arena, orr_tree_at(from, i)));
    }
}

/* What the call itself states of the plan is pinned; what its file states is where to start. */
static void pin_stated(orr_job *job, orr_tree *pins) {
    static const char *const axes[] = {"tp",       "cp",     "pp",        "ep",       "etp",
                                       "mbs",      "vpp",    "sp",        "dispatch", "sharding",
                                       "schedule", "layout", "recompute", "overlap"};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        const orr_tree *value = orr_tree_get(job->args, axes[i]);
        if (value != NULL) {
            char *text = orr_tree_kind_of(value) == ORR_TREE_TEXT
                             ? orr_arena_text(job->arena, orr_tree_text(value, ""))
                             : orr_write_json(job->arena, value, false);
            (void)orr_tree_push(job->arena, pins,
                                orr_tree_new_text(job->arena, orr_arena_format(job->arena, "%s=%s",
                                                                               axes[i], text)));
        }
    }
}

orr_status orr_command_tune(orr_job *job, orr_err *err) {
    tune_args args = {.threads = 1};
    const orr_tree *keys = NULL;
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    ORR_TRY(orr_job_keys(job, &keys, err));
    orr_resolved start = {0};
    ORR_TRY(orr_plan_resolve(job->arena, keys, &start, err));
    ORR_TRY(orr_job_use_evidence(job, start.cluster->accelerator, start.software->name, err));
    orr_tree *pins = orr_tree_new_list(job->arena), *ranges = orr_tree_new_list(job->arena);
    add_texts(job->arena, args.pin, pins);
    add_texts(job->arena, args.range, ranges);
    pin_stated(job, pins);
    orr_tune_request request = {.keys = keys,
                                .pins = pins,
                                .ranges = ranges,
                                .objective = args.objective,
                                .margin_frac = args.margin,
                                .p_oom = args.p_oom,
                                .budget_s = args.budget,
                                .within_frac = args.within,
                                .threads = args.threads,
                                .brute = args.brute,
                                .progress = progress,
                                .progress_user = job->ctx};
    job->inputs = orr_tree_copy(job->arena, keys);
    (void)orr_tree_put(job->arena, job->inputs, "pin", pins);
    (void)orr_tree_put(job->arena, job->inputs, "range", ranges);
    return orr_tune(job->ctx->engine, job->arena, &request, &job->result, err);
}
