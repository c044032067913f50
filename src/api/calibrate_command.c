/* Fitting what no document states: to published runs, or kernel models to measured kernels. */
#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/os_file.h"
#include "calibrate/calibrate.h"
#include "doc/doc.h"
#include "study/study.h"

typedef struct calibrate_args {
    const char *runs, *models, *tiers, *stage, *kernels, *evidence, *write;
    bool check;
} calibrate_args;

#define TEXT(member, text)                                                                         \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = offsetof(calibrate_args, member),                                                   \
     .fallback = "",                                                                               \
     .doc = text}
static const orr_field fields[] = {
    TEXT(runs, "table of published runs (runs.csv)"),
    TEXT(models, "architectures behind the model names of the runs (models.json)"),
    TEXT(tiers, "quality of each row (tiers.csv): tiers A and B are fitted to"),
    TEXT(stage, "fit one stage of data/study/fit.yaml alone"),
    TEXT(kernels, "table of measured kernels (.csv or .csv.gz): fit the kernel models to it "
                  "instead"),
    TEXT(evidence, "tables of measured kernels, separated by commas: fit how far measured shapes "
                   "speak for others"),
    TEXT(write, "data folder whose files get the numbers found, such as data"),
    {.name = "check",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(calibrate_args, check),
     .fallback = "off",
     .doc = "instead of fitting: errors on series that the fit has not seen, and of profiles with "
            "the numbers of unknown software (minutes)"},
};
static const orr_schema schema = {
    .title = "calibrate", .fields = fields, .count = sizeof fields / sizeof *fields, .open = false};

orr_tree *orr_calibrate_fields(orr_arena *arena) {
    return orr_schema_fields(&schema, arena);
}

/* A part of the file under the data folder; a part without fits leaves the file there alone. */
static orr_status write_part(orr_arena *arena, const orr_tree *file, bool kernels,
                             const char *folder, orr_err *err) {
    orr_tree *part = orr_calibrate_part(arena, file, kernels);
    if (orr_tree_size(orr_tree_get(part, "fits")) == 0) {
        return ORR_OK;
    }
    const char *text = orr_calibrate_yaml(arena, part);
    const char *path =
        orr_arena_format(arena, "%s/calibration/%s%s.yaml", folder, kernels ? "kernels/" : "",
                         orr_tree_text(orr_tree_get(part, "class"), ""));
    return orr_os_write_file(path, text, strlen(text), err);
}

static bool progress(void *user, const char *what, double done, double total) {
    const orr_ctx *ctx = (const orr_ctx *)user;
    return ctx->progress == NULL || ctx->progress(ctx->progress_user, what, done, total);
}

static orr_status fit_likeness(orr_job *job, const calibrate_args *args, orr_err *err) {
    orr_watch watch = {.progress = progress, .user = job->ctx};
    ORR_TRY(orr_calibrate_likeness(job->arena, args->evidence, &watch, &job->result, err));
    if (args->write == NULL) {
        return ORR_OK;
    }
    const char *text = orr_calibrate_yaml(job->arena, job->result);
    const char *path = orr_arena_format(job->arena, "%s/calibration/likeness.yaml", args->write);
    return orr_os_write_file(path, text, strlen(text), err);
}

static void warn_of_rows(orr_job *job, const char *path, const orr_watch *watch) {
    if (watch->timeless > 0) {
        orr_job_warn(job, "rows_without_time", "kernels",
                     "%s: %zu of %zu rows state no positive time or size and were left out", path,
                     watch->timeless, watch->rows);
    }
    if (watch->unknown > 0) {
        orr_job_warn(job, "unknown_devices", "kernels",
                     "%s: %zu of %zu rows are of devices that are not known, such as '%s'", path,
                     watch->unknown, watch->rows, watch->unknown_device);
    }
}

static orr_status fit_kernels(orr_job *job, const calibrate_args *args, orr_err *err) {
    orr_calibration *names = NULL;
    orr_tree *file = NULL;
    ORR_TRY(orr_calibration_builtin(job->arena, &names, err));
    orr_watch watch = {.progress = progress, .user = job->ctx};
    ORR_TRY(orr_calibrate(job->arena, args->kernels, NULL, names, &watch, &file, err));
    job->result = file;
    warn_of_rows(job, args->kernels, &watch);
    if (orr_tree_size(orr_tree_get(file, "fits")) == 0) {
        orr_job_warn(job, "nothing_fitted", "kernels",
                     "%s: nothing was fitted: no device and source in it has enough priced rows",
                     args->kernels);
    }
    if (args->write == NULL) {
        return ORR_OK;
    }
    ORR_TRY(write_part(job->arena, file, false, args->write, err));
    return write_part(job->arena, file, true, args->write, err);
}

orr_status orr_command_calibrate(orr_job *job, orr_err *err) {
    calibrate_args args = {0};
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    if (args.kernels != NULL && (args.runs != NULL || args.models != NULL || args.tiers != NULL ||
                                 args.stage != NULL || args.check)) {
        return orr_fail(err, ORR_E_USAGE,
                        "calibrate --kernels takes none of --runs, --models, --tiers, --stage, "
                        "--check");
    }
    if (args.evidence != NULL && (args.kernels != NULL || args.runs != NULL)) {
        return orr_fail(err, ORR_E_USAGE,
                        "calibrate --evidence takes neither --kernels nor --runs");
    }
    if (args.evidence != NULL) {
        job->inputs = orr_tree_copy(job->arena, job->args);
        return fit_likeness(job, &args, err);
    }
    if (args.kernels != NULL) {
        job->inputs = orr_tree_copy(job->arena, job->args);
        return fit_kernels(job, &args, err);
    }
    if (args.runs == NULL || args.models == NULL) {
        orr_status status = orr_fail(
            err, ORR_E_USAGE, "calibrate needs --runs and --models, --kernels or --evidence");
        orr_hint(err, "orrery calibrate %s\n      orrery calibrate --kernels gemm.csv.gz",
                 job->command->example);
        return status;
    }
    job->inputs = orr_tree_copy(job->arena, job->args);
    orr_study_request request = {.runs = args.runs,
                                 .models = args.models,
                                 .tiers = args.tiers,
                                 .stage = args.stage,
                                 .check = args.check};
    ORR_TRY(orr_study_fit(job->arena, &request, &job->result, err));
    return args.write == NULL ? ORR_OK
                              : orr_study_fit_write(job->arena, job->result, args.write, err);
}
