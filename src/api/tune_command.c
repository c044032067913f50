/* The search: plan keys state the workload, pins and ranges the space. */
#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "api/tune_ranks.h"
#include "base/err.h"
#include "base/os_file.h"
#include "doc/doc.h"
#include "exchange/exchange.h"
#include "orrery/report.h"
#include "tune/tune.h"

typedef struct tune_args {
    const orr_tree *pin, *range;
    const char *baseline, *measured, *write, *store, *trials, *svg;
    double margin, p_oom, budget, within, tokens, max_days, max_cost, max_kwh;
    const orr_tree *prices;
    const char *front;
    uint32_t threads, seed_budget;
    uint8_t objective;
    bool brute, resume, what_if;
} tune_args;

static const char *const objectives[] = {"throughput", "step-time", "time-to-train",    "gpus",
                                         "cost",       "energy",    "cheapest-cluster", NULL};

#define REAL(member, kind, low, high, unit_, text)                                                 \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_##kind,                                                                     \
     .offset = offsetof(tune_args, member),                                                        \
     .min = low,                                                                                   \
     .max = high,                                                                                  \
     .fallback = "",                                                                               \
     .unit = unit_,                                                                                \
     .doc = text}
#define TEXT(member, text)                                                                         \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = offsetof(tune_args, member),                                                        \
     .fallback = "",                                                                               \
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
    TEXT(baseline, "plan to compare with: a launch script or plan file, or KEY=VALUE;KEY=VALUE; "
                   "default: what FILE states"),
    TEXT(measured, "finalists that were measured: a list of {plan, tokens_per_s_per_gpu}; corrects "
                   "compute by one factor"),
    TEXT(store,
         "file (SQLite) that trials and the state of the search go to; a killed search goes on "
         "with resume"),
    TEXT(trials, "write the trials of the search as JSON lines to this path; with store"),
    TEXT(svg, "write speed against memory, and the seeds' best so far, as SVG to this path"),
    TEXT(write,
         "folder for a plan file of each finalist, and one in the words of to; made if it is "
         "not there"),
    {.name = "objective",
     .type = ORR_FIELD_ENUM,
     .offset = offsetof(tune_args, objective),
     .values = objectives,
     .fallback = "throughput",
     .doc = "what is best: tokens/s/GPU, the shortest step, the time to train, the fewest GPUs, "
            "money or energy of the run, or the cluster that costs least an hour"},
    REAL(tokens, QUANTITY, 0, 1e18, "tokens",
         "tokens of the run, such as 15T: its days, money and energy are told, failures and "
         "checkpoints counted (docs/goodput.md)"),
    {.name = "prices",
     .type = ORR_FIELD_TREE,
     .offset = offsetof(tune_args, prices),
     .fallback = "",
     .doc = "prices, power and failure rates: a file, or a map such as '{gpu_hour: 2.5}'"},
    REAL(max_days, REAL, 0, 1e6, NULL, "longest run that is taken, days; with tokens"),
    REAL(max_cost, REAL, 0, 1e15, NULL, "dearest run that is taken; with tokens and prices"),
    REAL(max_kwh, REAL, 0, 1e15, NULL, "energy that a run may take, kilowatt-hours; with tokens"),
    TEXT(front, "also the plans that nothing beats in all of these, over all values of ranges of "
                "gpus, hardware ...: throughput, step-time, time-to-train, cost, energy, gpus, "
                "memory, cluster-price, joined by commas"),
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
    {.name = "seed_budget",
     .type = ORR_FIELD_U32,
     .offset = offsetof(tune_args, seed_budget),
     .min = 0,
     .max = 100000,
     .fallback = "60",
     .doc = "evaluations of the seed planner, which tries one axis after the other; 0: none"},
    {.name = "resume",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(tune_args, resume),
     .fallback = "off",
     .doc = "go on where the same search was stopped; with store"},
    {.name = "what_if",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(tune_args, what_if),
     .fallback = "off",
     .doc = "also say which figure of the machine matters most, per percent"},
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
        if (fields[i].type == ORR_FIELD_TREE && strcmp(fields[i].name, "prices") != 0) {
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
static const char *const axes[] = {"tp",       "cp",     "pp",        "ep",       "etp",
                                   "mbs",      "vpp",    "sp",        "dispatch", "sharding",
                                   "schedule", "layout", "recompute", "overlap"};

static bool is_axis(const char *key) {
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        if (strcmp(axes[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static void pin_stated(orr_job *job, orr_tree *pins) {
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        const orr_tree *value = orr_tree_get(job->args, axes[i]);
        if (value != NULL) {
            const char *text = orr_tree_kind_of(value) == ORR_TREE_TEXT
                                   ? orr_tree_text(value, "")
                                   : orr_write_json(job->arena, value, false);
            char *pin = orr_arena_format(job->arena, "%s=%s", axes[i], text);
            (void)orr_tree_push(job->arena, pins, orr_tree_new_text(job->arena, pin));
        }
    }
}

/* ---- another plan ---------------------------------------------------------------------------- */

/* "tp=8;pp=4;overlap=tp,dp" */
static orr_status inline_keys(orr_arena *arena, const char *text, orr_tree **out, orr_err *err) {
    orr_tree *keys = orr_tree_new_map(arena);
    for (const char *p = text; *p != '\0';) {
        size_t length = strcspn(p, ";");
        const char *item = orr_arena_copy(arena, p, length), *equals = strchr(item, '=');
        p += length + (p[length] != '\0');
        if (equals == NULL) {
            return orr_fail(err, ORR_E_SCHEMA, "'%s' is not KEY=VALUE", item);
        }
        orr_tree_put_text(arena, keys, orr_arena_copy(arena, item, (size_t)(equals - item)),
                          equals + 1);
    }
    *out = keys;
    return ORR_OK;
}

/* The baseline's own keys over the inputs of the call. */
static orr_status find_baseline(orr_job *job, const char *text, const orr_tree *keys,
                                const orr_tree **out, orr_err *err) {
    orr_tree *inputs = orr_tree_new_map(job->arena), *own = NULL;
    for (size_t i = 0; i < orr_tree_size(keys); i++) {
        const char *key = orr_tree_key(keys, i);
        if (!is_axis(key)) {
            (void)orr_tree_put(job->arena, inputs, key,
                               orr_tree_copy(job->arena, orr_tree_at(keys, i)));
        }
    }
    if (text == NULL) {
        bool file = orr_tree_get(job->args, "file") != NULL;
        *out = file ? keys : NULL;
        return ORR_OK;
    }
    if (strchr(text, '=') != NULL) {
        ORR_TRY(inline_keys(job->arena, text, &own, err));
        *out = orr_plan_merge(job->arena, inputs, own);
        return ORR_OK;
    }
    orr_import import = {0};
    ORR_TRY(orr_import_file(job->arena, text, &import, err));
    /* what the call says of the workload holds for both */
    *out = orr_plan_merge(job->arena, import.keys, inputs);
    return ORR_OK;
}

static orr_status find_measured(orr_job *job, const char *path, const orr_tree **out,
                                orr_err *err) {
    orr_tree *file = NULL;
    if (path == NULL) {
        return ORR_OK;
    }
    ORR_TRY(orr_doc_read_file(job->arena, path, &file, err));
    const orr_tree *list = orr_tree_get(file, "finalists");
    *out = list != NULL ? list : file;
    if (orr_tree_size(*out) == 0) {
        orr_status status = orr_fail(err, ORR_E_SCHEMA, "%s holds no measured plan", path);
        orr_hint(err, "it is a list of {plan, tokens_per_s_per_gpu}");
        return status;
    }
    return ORR_OK;
}

/* ---- launch-ready ---------------------------------------------------------------------------- */

/* A search keeps the model: a file's own words for it stay. */
static const orr_tree *without_model(orr_job *job, const orr_tree *keys) {
    orr_tree *out = orr_tree_new_map(job->arena);
    for (size_t i = 0; i < orr_tree_size(keys); i++) {
        if (strcmp(orr_tree_key(keys, i), "model") != 0) {
            (void)orr_tree_put(job->arena, out, orr_tree_key(keys, i),
                               orr_tree_copy(job->arena, orr_tree_at(keys, i)));
        }
    }
    return out;
}

/* The plan in the words of `to`, and, for a file that could be written back, what to change in it.
 * The catalog's name alone says nothing to a framework: the model's card goes with the keys. */
static orr_status export_finalist(orr_job *job, orr_tree *finalist, const orr_tree *card,
                                  orr_err *err) {
    const char *to = orr_tree_text(orr_tree_get(job->args, "to"), job->file_format);
    const char *file = orr_tree_text(orr_tree_get(job->args, "file"), NULL);
    const char *against =
        orr_tree_text(orr_tree_get(job->args, "against"), job->file_format != NULL ? file : NULL);
    const orr_tree *keys = orr_tree_get(finalist, "plan");
    orr_tree *map = orr_tree_put(job->arena, finalist, "export", orr_tree_new_map(job->arena));
    ORR_TRY(orr_job_export(job, to != NULL ? to : "megatron-lm", keys, card, map, err));
    return against != NULL ? orr_job_changes(job, against, without_model(job, keys), map, err)
                           : ORR_OK;
}

static const char *suffix_of(const char *format) {
    static const char *const suffixes[][2] = {
        {"megatron-lm", "args"}, {"torchtitan", "toml"}, {"deepspeed", "deepspeed.json"}};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strcmp(format, suffixes[i][0]) == 0) {
            return suffixes[i][1];
        }
    }
    return "yaml";
}

static orr_status write_finalist(orr_job *job, const char *folder, size_t index,
                                 const orr_tree *finalist, orr_err *err) {
    orr_arena *arena = job->arena;
    char *plan = orr_write_json(arena, orr_tree_get(finalist, "plan"), true);
    char *path = orr_arena_format(arena, "%s/finalist-%zu.json", folder, index + 1);
    ORR_TRY(orr_os_write_file(path, plan, strlen(plan), err));
    const orr_tree *export = orr_tree_get(finalist, "export");
    const char *format = orr_tree_text(orr_tree_get(export, "format"), "");
    bool comment = strcmp(format, "deepspeed") != 0; /* JSON has none */
    char *text =
        orr_arena_format(arena, "%s%s%s%s\n", comment ? "# " : "",
                         comment ? orr_tree_text(orr_tree_get(export, "launcher"), "") : "",
                         comment ? "\n" : "", orr_tree_text(orr_tree_get(export, "text"), ""));
    path = orr_arena_format(arena, "%s/finalist-%zu.%s", folder, index + 1, suffix_of(format));
    return orr_os_write_file(path, text, strlen(text), err);
}

static orr_status export_all(orr_job *job, const tune_args *args, const orr_resolved *start,
                             orr_err *err) {
    const orr_tree *list = orr_tree_get(job->result, "finalists");
    orr_tree *ready = orr_tree_new_list(job->arena);
    const orr_tree *card = orr_model_write(job->arena, start->model);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        orr_tree *one =
            orr_tree_push(job->arena, ready, orr_tree_copy(job->arena, orr_tree_at(list, i)));
        ORR_TRY(export_finalist(job, one, card, err));
        if (args->write != NULL) {
            ORR_TRY(write_finalist(job, args->write, i, one, err));
        }
    }
    (void)orr_tree_put(job->arena, job->result, "finalists", ready);
    return ORR_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* What nobody said and the search does not decide. */
static void put_assumptions(orr_job *job, const orr_resolved *start) {
    static const char *const decided[] = {"placement", "dp", "p2p", "cp_kind", "micro_batches"};
    for (uint32_t i = 0; i < start->assumption_count; i++) {
        const orr_assumption *a = &start->assumption[i];
        bool shown = !is_axis(a->key);
        for (size_t k = 0; k < sizeof decided / sizeof *decided; k++) {
            shown = shown && strcmp(a->key, decided[k]) != 0;
        }
        if (shown) {
            orr_tree *map =
                orr_tree_push(job->arena, job->assumptions, orr_tree_new_map(job->arena));
            orr_tree_put_text(job->arena, map, "key", a->key);
            orr_tree_put_text(job->arena, map, "value", a->value);
            orr_tree_put_text(job->arena, map, "why", a->why);
        }
    }
}

/* The first rank shows what all of them found. */
static void leave_to_the_first(orr_job *job, const orr_tune_ranks *ranks) {
    static const char *const kept[] = {"verdict", "interrupted"};
    orr_tree *map = orr_tree_new_map(job->arena);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const orr_tree *value = orr_tree_get(job->result, kept[i]);
        if (value != NULL) {
            (void)orr_tree_put(job->arena, map, kept[i], orr_tree_copy(job->arena, value));
        }
    }
    orr_tree_put_int(job->arena, map, "rank", ranks->rank);
    orr_tree_put_bool(job->arena, map, "elsewhere", true);
    job->result = map;
}

/* What this process alone does with the result. */
static orr_status finish(orr_job *job, const tune_args *args, const orr_tune_request *request,
                         const orr_resolved *start, orr_err *err) {
    job->store = request->store;
    job->search = request->key;
    if (orr_job_wants_llm(job)) {
        ORR_TRY(orr_job_investigate(job, request->keys, request->pins, request->ranges, err));
    }
    if (args->trials != NULL) {
        char *lines = NULL;
        ORR_TRY(orr_store_trials(request->store, job->arena, request->key, &lines, err));
        ORR_TRY(orr_os_write_file(args->trials, lines, strlen(lines), err));
    }
    ORR_TRY(export_all(job, args, start, err));
    if (args->svg != NULL) {
        const char *text = orr_report_front(job->arena, job->result);
        ORR_TRY(orr_os_write_file(args->svg, text, strlen(text), err));
    }
    return ORR_OK;
}

static orr_status search(orr_job *job, const tune_args *args, orr_tune_ranks *ranks,
                         orr_tune_request *request, orr_err *err) {
    ORR_TRY(orr_tune_ranks_open(job->arena, ranks, err));
    bool first = ranks->rank == 0;
    request->ranks = ranks->count > 1 ? ranks : NULL;
    if (!first) {
        request->progress = NULL;
    }
    if (args->store != NULL && first) {
        ORR_TRY(orr_store_open(args->store, &request->store, err));
    }
    return orr_tune(job->ctx->engine, job->arena, request, &job->result, err);
}

orr_status orr_command_tune(orr_job *job, orr_err *err) {
    tune_args args = {.threads = 1};
    const orr_tree *keys = NULL;
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    if (args.store == NULL && (args.resume || args.trials != NULL)) {
        return orr_fail(err, ORR_E_USAGE,
                        "--resume and --trials need --store, the file with the "
                        "search's state");
    }
    ORR_TRY(orr_job_keys(job, &keys, err));
    orr_resolved start = {0};
    ORR_TRY(orr_plan_resolve(job->arena, keys, &start, err));
    ORR_TRY(orr_job_use_evidence(job, start.cluster->accelerator, start.software->name, err));
    put_assumptions(job, &start);
    orr_tree *pins = orr_tree_new_list(job->arena), *ranges = orr_tree_new_list(job->arena);
    add_texts(job->arena, args.pin, pins);
    add_texts(job->arena, args.range, ranges);
    pin_stated(job, pins);
    const orr_tree *baseline = NULL, *measured = NULL;
    ORR_TRY(find_baseline(job, args.baseline, keys, &baseline, err));
    ORR_TRY(find_measured(job, args.measured, &measured, err));
    if (args.write != NULL) { /* before the search, whose results it would take along */
        ORR_TRY(orr_os_make_folder(args.write, err));
    }
    orr_tune_request request = {.keys = keys,
                                .baseline = baseline,
                                .measured = measured,
                                .pins = pins,
                                .ranges = ranges,
                                .objective = args.objective,
                                .margin_frac = args.margin,
                                .p_oom = args.p_oom,
                                .tokens = args.tokens,
                                .prices = args.prices,
                                .max_days = args.max_days,
                                .max_cost = args.max_cost,
                                .max_kwh = args.max_kwh,
                                .front = args.front,
                                .budget_s = args.budget,
                                .within_frac = args.within,
                                .resume = args.resume,
                                .threads = args.threads,
                                .what_if = args.what_if,
                                .seed_budget = args.seed_budget,
                                .brute = args.brute,
                                .progress = progress,
                                .progress_user = job->ctx};
    job->inputs = orr_tree_copy(job->arena, keys);
    (void)orr_tree_put(job->arena, job->inputs, "pin", pins);
    (void)orr_tree_put(job->arena, job->inputs, "range", ranges);
    orr_tune_ranks ranks = {0};
    orr_status status = search(job, &args, &ranks, &request, err);
    if (status == ORR_OK) {
        if (ranks.rank > 0) {
            leave_to_the_first(job, &ranks);
        } else {
            status = finish(job, &args, &request, &start, err);
        }
    }
    orr_store_close(request.store);
    if (status == ORR_OK) { /* else the launcher ends the others, who may wait for this one */
        orr_tune_ranks_close(&ranks);
    }
    return status;
}
