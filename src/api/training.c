/* Days, energy and money of a run with a plan: result.training of project. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "doc/doc.h"

typedef struct training_args {
    double tokens;
    const orr_tree *prices;
} training_args;

static const orr_field fields[] = {
    {.name = "tokens",
     .type = ORR_FIELD_QUANTITY,
     .offset = offsetof(training_args, tokens),
     .max = 1e18,
     .unit = "tokens",
     .fallback = "0",
     .doc = "tokens to train on, such as 15T: days with an interval, failures and checkpoints "
            "counted, energy and money (docs/goodput.md)"},
    {.name = "prices",
     .type = ORR_FIELD_TREE,
     .offset = offsetof(training_args, prices),
     .fallback = "",
     .doc = "prices, power and failure rates: a file, or a map such as '{gpu_hour: 2.5}'; "
            "default: what is assumed, with sources"},
};
static const orr_schema schema = {
    .title = "run", .fields = fields, .count = sizeof fields / sizeof *fields, .open = true};

void orr_training_arguments(orr_arena *arena, orr_tree *into) {
    orr_tree *list = orr_schema_fields(&schema, arena);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        (void)orr_tree_push(arena, into, orr_tree_copy(arena, orr_tree_at(list, i)));
    }
}

bool orr_is_training_argument(const char *key) {
    return strcmp(key, "tokens") == 0 || strcmp(key, "prices") == 0;
}

static void warn_of_prices(orr_job *job, const orr_prices *prices, const char *device) {
    for (size_t i = 0; i < orr_tree_size(prices->elsewhere); i++) {
        const char *key = orr_tree_text(orr_tree_at(prices->elsewhere, i), "");
        if (strcmp(key, "gpu_hour") == 0) {
            orr_job_warn(job, "no-price", "prices",
                         "no price of %s is known: the prices name other accelerators only",
                         device);
        } else {
            orr_job_warn(job, "no-figure", "prices",
                         "%s is stated of other accelerators than %s: what is assumed counts", key,
                         device);
        }
    }
}

orr_status orr_job_put_training(orr_job *job, const orr_projection *projection, orr_err *err) {
    training_args args = {0};
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    if (!(args.tokens > 0)) {
        if (orr_tree_kind_of(orr_tree_get(job->args, "tokens")) != ORR_TREE_NULL) {
            return orr_fail(err, ORR_E_USAGE, "--tokens must be above 0");
        }
        return args.prices == NULL ? ORR_OK : orr_fail(err, ORR_E_USAGE, "--prices needs --tokens");
    }
    const orr_resolved *resolved = projection->resolved;
    orr_prices prices;
    ORR_TRY(orr_prices_find(job->arena, args.prices, resolved->cluster->accelerator->name, &prices,
                            err));
    warn_of_prices(job, &prices, resolved->cluster->accelerator->name);
    orr_goodput_run run = orr_project_run(resolved, args.tokens, projection->step_s,
                                          projection->low, projection->high);
    orr_goodput goodput;
    orr_goodput_find(&prices, &run, &goodput);
    (void)orr_tree_put(job->arena, job->result, "training",
                       orr_goodput_write(job->arena, &prices, &run, &goodput));
    if (!goodput.finishes) {
        orr_job_warn(job, "never-finishes", "tokens",
                     "failures come faster than progress: this run would not finish");
    }
    return ORR_OK;
}
