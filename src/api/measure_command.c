/* Measuring on the devices at hand: what of a plan fits them, and how long its ops take. */
#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/os_file.h"
#include "base/os_run.h"
#include "base/text.h"
#include "doc/doc.h"
#include "engine/engine.h"
#include "exchange/exchange.h"

static const double MOST_HARNESS_FRAC = 0.01; /* of what is measured */

typedef struct measure_args {
    const char *plan, *hardware, *cluster, *back_end, *options, *write, *device;
    uint32_t gpus, repeats, parts;
    double limit_s, sweep_bytes;
    bool dry_run;
} measure_args;

static const char *const parts[] = {"kernels", "collectives", "step", "check", NULL};
static const orr_field fields[] = {
    {.name = "plan",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(measure_args, plan),
     .fallback = "",
     .doc = "target plan: launch script or plan file"},
    {.name = "hardware",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(measure_args, hardware),
     .fallback = "",
     .doc = "accelerator of the target; default: the plan file's, which scripts do not state"},
    {.name = "cluster",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(measure_args, cluster),
     .fallback = "",
     .doc = "node type of the target; default: the plan file's, or the accelerator's usual one"},
    {.name = "gpus",
     .type = ORR_FIELD_U32,
     .offset = offsetof(measure_args, gpus),
     .min = 1,
     .max = ORR_MAX_GPUS,
     .fallback = "1",
     .doc = "devices at hand"},
    {.name = "dry_run",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(measure_args, dry_run),
     .fallback = "no",
     .doc = "say what would be measured and what restored, and run nothing"},
    {.name = "back_end",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(measure_args, back_end),
     .fallback = "cpu",
     .doc =
         "cpu, cuda, hip, replay (recorded evidence), null (the harness alone), or the path of a "
         "module"},
    {.name = "back_end_options",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(measure_args, options),
     .fallback = "",
     .doc = "for the back end; replay: a file of evidence"},
    {.name = "parts",
     .type = ORR_FIELD_FLAGS,
     .offset = offsetof(measure_args, parts),
     .values = parts,
     .fallback = "kernels,collectives",
     .doc = "kernels of one layer of each kind; a sweep of collectives; the plan's whole step, on "
            "as many ranks as it has; check: results equal between ranks"},
    {.name = "repeats",
     .type = ORR_FIELD_U32,
     .offset = offsetof(measure_args, repeats),
     .min = 3,
     .max = 1000,
     .fallback = "10",
     .doc = "of each op, after two to warm up"},
    {.name = "limit",
     .type = ORR_FIELD_QUANTITY,
     .offset = offsetof(measure_args, limit_s),
     .min = 0.1,
     .max = 3600,
     .fallback = "60s",
     .unit = "s",
     .doc = "without a sign of life, after which the measuring is ended"},
    {.name = "sweep",
     .type = ORR_FIELD_QUANTITY,
     .offset = offsetof(measure_args, sweep_bytes),
     .min = 1024,
     .max = 8589934592.0,
     .fallback = "64MiB",
     .unit = "bytes",
     .doc = "largest message of the sweep"},
    {.name = "device",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(measure_args, device),
     .fallback = "",
     .doc = "name of the device in the evidence; the plan's hardware when not given"},
    {.name = "write",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(measure_args, write),
     .fallback = "",
     .doc = "write the evidence to this path"},
};
static const orr_schema schema = {
    .title = "measure", .fields = fields, .count = sizeof fields / sizeof *fields, .open = false};

orr_tree *orr_measure_fields(orr_arena *arena) {
    return orr_schema_fields(&schema, arena);
}

static orr_status read_plan(orr_job *job, const measure_args *args, orr_resolved **out,
                            orr_err *err) {
    orr_import import = {0};
    orr_resolved *resolved = ORR_NEW(job->arena, orr_resolved);
    ORR_TRY(orr_import_file(job->arena, args->plan, &import, err));
    orr_tree *stated = orr_tree_new_map(job->arena);
    if (args->hardware != NULL) {
        orr_tree_put_text(job->arena, stated, "hardware", args->hardware);
    }
    if (args->cluster != NULL) {
        orr_tree_put_text(job->arena, stated, "cluster", args->cluster);
    }
    const orr_tree *keys = orr_plan_merge(job->arena, import.keys, stated);
    ORR_TRY(orr_plan_resolve(job->arena, keys, resolved, err));
    orr_violation violation[ORR_MAX_VIOLATIONS];
    uint32_t count = orr_plan_check(job->arena, resolved, violation);
    for (uint32_t i = 0; i < count; i++) {
        if (violation[i].effect == ORR_RULE_ILLEGAL) {
            return orr_fail(err, ORR_E_INFEASIBLE, "the target plan is illegal [%s]: %s",
                            violation[i].rule, violation[i].message);
        }
    }
    job->inputs = orr_plan_write(job->arena, resolved);
    *out = resolved;
    return ORR_OK;
}

/* Keys of the plan that a measured step needs to be projected again. */
static void complete_step(orr_job *job, const orr_resolved *resolved, orr_evidence *set) {
    if (set->step_count == 0) {
        return;
    }
    orr_evidence_step *step = ORR_NEW(job->arena, orr_evidence_step);
    *step = set->step[0];
    step->gpus = resolved->plan.gpus;
    step->plan = orr_plan_write(job->arena, resolved);
    set->step = step;
}

static void put_results(orr_job *job, const measure_args *args, const orr_measure_result *r) {
    orr_tree *map = job->result;
    orr_tree_put_text(job->arena, map, "device", r->identity.device);
    orr_tree_put_text(job->arena, map, "software", r->identity.software);
    orr_tree_put_int(job->arena, map, "rank", r->identity.rank);
    orr_tree_put_int(job->arena, map, "ranks", r->identity.ranks);
    if (r->identity.clock_hz > 0) {
        orr_tree_put_real(job->arena, map, "clock_hz", r->identity.clock_hz);
        orr_tree_put_bool(job->arena, map, "slowed", r->identity.slowed != 0);
    }
    orr_tree_put_int(job->arena, map, "records", r->evidence->count);
    if (r->evidence->count == 0 && r->evidence->step_count == 0 && orr_tree_size(r->gaps) > 0) {
        orr_tree_put_text(job->arena, map, "failed", "device"); /* the exit code says so */
    }
    orr_tree_put_real(job->arena, map, "harness_frac", r->harness_frac);
    if (r->harness_frac > MOST_HARNESS_FRAC && strcmp(args->back_end, "null") != 0) {
        orr_job_warn(job, "measure-harness", NULL,
                     "measuring itself took %.1f %% of what it measured: these ops are too short "
                     "to be timed one by one",
                     100 * r->harness_frac);
    }
    orr_tree_put_int(job->arena, map, "runs", r->runs);
    orr_tree_put_int(job->arena, map, "clock_readings", r->readings);
    if (r->own_frac > 0) {
        orr_tree_put_real(job->arena, map, "own_frac", r->own_frac);
    }
    if (r->own_frac > 0 && r->own_frac < ORR_QUIET_FRAC && r->identity.device[0] != '\0' &&
        strcmp(r->identity.software, "null") != 0) {
        orr_job_warn(job, "measure-noisy", NULL,
                     "the measuring had the processor for %.0f %% of the time: others ran beside "
                     "it, and the figures are theirs too",
                     100 * r->own_frac);
    }
    if (r->step_s > 0) {
        orr_tree_put_real(job->arena, map, "step_time_s", r->step_s);
        orr_tree *samples =
            orr_tree_put(job->arena, map, "step_samples_s", orr_tree_new_list(job->arena));
        for (uint32_t i = 0; i < r->step_samples; i++) {
            (void)orr_tree_push(job->arena, samples,
                                orr_tree_new_real(job->arena, r->step_sample_s[i]));
        }
    }
    if (r->check_count > 0) {
        orr_tree *checks = orr_tree_put(job->arena, map, "checks", orr_tree_new_map(job->arena));
        for (uint32_t i = 0; i < r->check_count; i++) {
            orr_tree_put_real(job->arena, checks, r->check[i].name, r->check[i].difference);
        }
    }
    if (orr_tree_size(r->gaps) > 0) {
        (void)orr_tree_put(job->arena, map, "missing", r->gaps);
        const orr_tree *first = orr_tree_at(r->gaps, 0);
        orr_job_warn(job, "measure-partial", NULL, "%zu could not be measured, first %s: %s",
                     orr_tree_size(r->gaps), orr_tree_text(orr_tree_get(first, "what"), "?"),
                     orr_tree_text(orr_tree_get(first, "why"), "?"));
    }
    if (r->interrupted) {
        orr_tree_put_bool(job->arena, map, "interrupted", true);
    }
    if (args->write != NULL && r->identity.rank == 0) {
        orr_tree_put_text(job->arena, map, "written", args->write);
    }
}

static orr_status measure(orr_job *job, const measure_args *args, const orr_scope *scope,
                          orr_err *err) {
    const orr_resolved *target = scope->target;
    orr_measure_request request = {.scope = *scope,
                                   .options = args->options,
                                   .parts = args->parts,
                                   .repeats = args->repeats,
                                   .limit_s = args->limit_s,
                                   .sweep_bytes = args->sweep_bytes};
    orr_measure_result result;
    ORR_TRY(orr_backend_find(job->arena, args->back_end, &request.backend, err));
    ORR_TRY(orr_measure(job->arena, &request, &result, err));
    complete_step(job, target, result.evidence);
    put_results(job, args, &result);
    /* ranks other than the first measured the same */
    if (args->write == NULL || result.identity.rank != 0) {
        return ORR_OK;
    }
    const char *device = args->device != NULL ? args->device : target->cluster->accelerator->name;
    bool replayed = strcmp(request.backend->name, "replay") == 0;
    bool elsewhere =
        strcmp(request.backend->name, "cpu") == 0 || strcmp(request.backend->name, "null") == 0;
    if (elsewhere && args->device == NULL &&
        target->cluster->accelerator->vendor != ORR_VENDOR_OTHER) {
        orr_job_warn(job, "measure-device", "device",
                     "times of the %s back end were written as those of %s: a projection would "
                     "take them for it; --device NAME says what ran",
                     request.backend->name, device);
    }
    orr_evidence_identity identity = {.device = replayed ? result.identity.device : device,
                                      .device_detail = result.identity.device,
                                      .software = target->software->name,
                                      .source = orr_arena_format(job->arena, "%s; %s",
                                                                 result.identity.software,
                                                                 orr_os_processor(job->arena)),
                                      .date = orr_os_date(job->arena),
                                      .gaps = result.gaps};
    const char *text = orr_write_json(
        job->arena, orr_evidence_write(job->arena, result.evidence, &identity), true);
    return orr_os_write_file(args->write, text, strlen(text), err);
}

/* Records without their times, for whoever measures them (probes/). */
static void put_work(orr_job *job, const orr_scope *scope, const orr_work *work) {
    orr_arena *arena = job->arena;
    uint32_t collectives = 0;
    for (uint32_t i = 0; i < work->count; i++) {
        collectives += work->op[i].kind == ORR_OP_COLLECTIVE;
    }
    orr_tree_put_int(arena, job->result, "kernels", work->count - collectives);
    orr_tree_put_int(arena, job->result, "collectives", collectives);
    orr_tree *list = orr_tree_put(arena, job->result, "work", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < work->count; i++) {
        const orr_op *op = &work->op[i];
        orr_evidence_record record = {.key = orr_measure_key(scope->target->cluster, op)};
        orr_tree *one = orr_evidence_write_record(
            arena, &record, op->name != 0 ? orr_op_name(op->name) : "optimizer");
        if (op->kind == ORR_OP_MEMORY) { /* not part of a record, but of what it stands for */
            orr_tree_put_text(arena, one, "of_phase",
                              op->phase == ORR_PHASE_FORWARD ? "forward" : "backward");
        }
        if (op->kind == ORR_OP_MEMORY && op->sub == ORR_MEMOP_BULK) {
            const orr_software *software = scope->target->software;
            orr_tree_put_real(arena, one, "bytes_per_param",
                              software->optimizer_shard_bytes + software->optimizer_local_bytes);
        }
        if (work->outside[i]) {
            orr_tree_put_bool(arena, one, "outside_layers", true);
        }
        (void)orr_tree_push(arena, list, one);
    }
}

orr_status orr_command_measure(orr_job *job, orr_err *err) {
    measure_args args = {0};
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    if (args.plan == NULL) {
        return orr_fail(err, ORR_E_USAGE, "measure needs --plan FILE, the target");
    }
    orr_resolved *target = NULL;
    ORR_TRY(read_plan(job, &args, &target, err));
    orr_scope scope;
    orr_scope_of(job->arena, target, args.gpus, &scope);
    (void)orr_tree_put(job->arena, job->result, "scope", orr_scope_write(job->arena, &scope));
    if (args.dry_run) {
        orr_linker *linker = orr_linker_new();
        orr_work work;
        orr_status status = orr_scope_work(linker, job->arena, &scope, &work, err);
        orr_linker_free(linker);
        ORR_TRY(status);
        put_work(job, &scope, &work);
        return ORR_OK;
    }
    return measure(job, &args, &scope, err);
}
