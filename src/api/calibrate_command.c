/* Fitting what no document states to published runs. */
#include <stddef.h>

#include "api/api.h"
#include "base/err.h"
#include "doc/doc.h"
#include "study/study.h"

typedef struct calibrate_args {
    const char *runs, *models, *tiers, *stage, *write;
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

orr_status orr_command_calibrate(orr_job *job, orr_err *err) {
    calibrate_args args = {0};
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    if (args.runs == NULL || args.models == NULL) {
        return orr_fail(err, ORR_E_USAGE, "calibrate needs --runs and --models");
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
