/* The judge: one command, one form a call. */
#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/os_file.h"
#include "cost/cost.h"
#include "doc/doc.h"
#include "orrery/report.h"
#include "study/study.h"

typedef struct validate_args {
    const char *runs, *models, *tiers, *oom, *saved_bytes, *layouts, *schedules, *kernels,
        *calibration, *csv, *heatmap, *expect;
    uint8_t class;
    bool anchored, memory, ablate, leave_out_device;
} validate_args;

static const char *const classes[] = {"any",         "gemm",        "grouped_gemm",
                                      "moe_fused",   "attention",   "memops",
                                      "collectives", "ep_alltoall", NULL};

#define PATH(member, text)                                                                         \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = offsetof(validate_args, member),                                                    \
     .fallback = "",                                                                               \
     .doc = text}
#define SWITCH(member, text)                                                                       \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_BOOL,                                                                       \
     .offset = offsetof(validate_args, member),                                                    \
     .fallback = "off",                                                                            \
     .doc = text}
static const orr_field fields[] = {
    PATH(runs, "table of published runs (runs.csv); with models"),
    PATH(models, "architectures behind the model names of the runs (models.json)"),
    PATH(tiers, "quality of each row (tiers.csv): tiers A and B count, and one of them that cannot "
                "be projected counts as an error of 1"),
    SWITCH(anchored, "also project each configuration from its run with the fewest GPUs"),
    SWITCH(memory, "judge peak memory and verdicts instead of throughput"),
    PATH(oom, "table of configurations that failed (oom.csv); with memory"),
    PATH(saved_bytes, "cases of bytes kept for backward, as counted in PyTorch (cases.json)"),
    PATH(layouts, "buffers of the distributed optimizer, as Megatron lays them out "
                  "(distopt_layout.json)"),
    PATH(schedules, "folder of recorded schedules (JSON vectors)"),
    PATH(kernels, "table of measured kernels or collectives (.csv or .csv.gz)"),
    {.name = "class",
     .type = ORR_FIELD_ENUM,
     .offset = offsetof(validate_args, class),
     .values = classes,
     .fallback = "any",
     .doc = "kind of that table; 'any' takes it from the columns"},
    PATH(calibration,
         "with kernels: a folder laid out as data/calibration, instead of the built-in "
         "one"),
    SWITCH(leave_out_device, "with kernels: price each device without its own fits"),
    SWITCH(ablate, "repeat the table with each effect of the model switched off"),
    PATH(csv, "write the rows as CSV to this path"),
    PATH(heatmap, "write the error heat map (SVG) to this path"),
    PATH(expect, "headline that the result must reach, such as tests/data/headline.json; falling "
                 "short of it is exit code 4"),
};
static const orr_schema schema = {
    .title = "validate", .fields = fields, .count = sizeof fields / sizeof *fields, .open = true};

orr_tree *orr_validate_fields(orr_arena *arena) {
    return orr_schema_fields(&schema, arena);
}

static bool progress(void *user, double done, double total) {
    const orr_ctx *ctx = (const orr_ctx *)user;
    return ctx->progress == NULL || ctx->progress(ctx->progress_user, "rows", done, total);
}

/* Options that only one form has. */
static orr_status check_options(const validate_args *args, orr_err *err) {
    const bool runs = args->runs != NULL, kernels = args->kernels != NULL;
    const struct {
        const char *name, *form;
        bool stated, taken;
    } options[] = {
        {"models", "runs", args->models != NULL, runs},
        {"tiers", "runs", args->tiers != NULL, runs},
        {"oom", "runs", args->oom != NULL, runs},
        {"anchored", "runs", args->anchored, runs},
        {"memory", "runs", args->memory, runs},
        {"ablate", "runs", args->ablate, runs},
        {"csv", "runs", args->csv != NULL, runs},
        {"heatmap", "runs", args->heatmap != NULL, runs},
        {"class", "kernels", args->class > 0, kernels},
        {"calibration", "kernels", args->calibration != NULL, kernels},
        {"leave-out-device", "kernels", args->leave_out_device, kernels},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].stated && !options[i].taken) {
            return orr_fail(err, ORR_E_USAGE, "--%s goes with --%s alone", options[i].name,
                            options[i].form);
        }
    }
    return ORR_OK;
}

static orr_status check_forms(const validate_args *args, orr_err *err) {
    int forms = (args->runs != NULL) + (args->saved_bytes != NULL) + (args->layouts != NULL) +
                (args->schedules != NULL) + (args->kernels != NULL);
    if (forms != 1) {
        orr_status status =
            orr_fail(err, ORR_E_USAGE,
                     "validate needs exactly one of --runs, --saved-bytes, --layouts, --schedules, "
                     "--kernels");
        orr_hint(err, "the set that comes with orrery: --runs data/validation/runs.csv --models "
                      "data/validation/models.json --tiers data/validation/tiers.csv");
        return status;
    }
    if (args->runs != NULL && args->models == NULL) {
        return orr_fail(err, ORR_E_USAGE, "--runs needs --models, the architectures behind them");
    }
    return check_options(args, err);
}

static orr_status judge(orr_job *job, const validate_args *args, orr_err *err) {
    orr_study_request request = {.runs = args->runs,
                                 .models = args->models,
                                 .tiers = args->tiers,
                                 .oom = args->oom,
                                 .anchored = args->anchored,
                                 .ablate = args->ablate,
                                 .progress = progress,
                                 .progress_user = job->ctx};
    if (args->kernels != NULL) {
        orr_kernels_request kernels = {.path = args->kernels,
                                       .class = args->class > 0 ? classes[args->class] : NULL,
                                       .calibration = args->calibration,
                                       .leave_out = args->leave_out_device};
        orr_status status = orr_cost_kernels_validate(job->arena, &kernels, &job->result, err);
        if (status == ORR_E_IO && args->calibration != NULL) {
            orr_hint(err, "--calibration takes a folder laid out as data/calibration");
        }
        ORR_TRY(status);
        if (orr_tree_int(orr_tree_path(job->result, "summary.rows"), 0) == 0) {
            orr_job_warn(job, "no_rows", "kernels", "%s has a header and no rows", args->kernels);
        }
        return ORR_OK;
    }
    if (args->saved_bytes != NULL) {
        return orr_study_saved_bytes(job->arena, args->saved_bytes, &job->result, err);
    }
    if (args->layouts != NULL) {
        return orr_study_layouts(job->arena, args->layouts, &job->result, err);
    }
    if (args->schedules != NULL) {
        return orr_study_schedules(job->arena, args->schedules, &job->result, err);
    }
    if (args->memory) {
        return orr_study_memory(job->ctx->engine, job->arena, &request, &job->result, err);
    }
    return orr_study_runs(job->ctx->engine, job->arena, &request, &job->result, err);
}

static orr_status write_extras(orr_job *job, const validate_args *args, orr_err *err) {
    if (args->csv != NULL) {
        const char *text = orr_study_rows_csv(job->arena, job->result);
        ORR_TRY(orr_os_write_file(args->csv, text, strlen(text), err));
    }
    if (args->heatmap != NULL) {
        const char *text = orr_report_heatmap(job->arena, job->result);
        ORR_TRY(orr_os_write_file(args->heatmap, text, strlen(text), err));
    }
    return ORR_OK;
}

orr_status orr_command_validate(orr_job *job, orr_err *err) {
    validate_args args = {0};
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    ORR_TRY(check_forms(&args, err));
    ORR_TRY(orr_job_use_evidence(job, NULL, NULL, err));
    job->inputs = orr_tree_copy(job->arena, job->args);
    ORR_TRY(judge(job, &args, err));
    ORR_TRY(write_extras(job, &args, err));
    if (args.expect != NULL) {
        orr_tree *check = NULL;
        ORR_TRY(orr_study_expect(job->arena, job->result, args.expect, &check, err));
        (void)orr_tree_put(job->arena, job->result, "check", check);
    }
    return ORR_OK;
}
