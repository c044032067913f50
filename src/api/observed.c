/* What runs leave behind, in calls: imported, as anchors, held against projections. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/os_file.h"

orr_status orr_job_observe(orr_job *job, const char *file, orr_observation *out, orr_err *err) {
    if (orr_os_is_pipe(file)) {
        *out = (orr_observation){.kind = ORR_OBSERVED_NONE};
        return ORR_OK;
    }
    return orr_observe_file(job->arena, file, out, err);
}

static void warn_of(orr_job *job, const char *file, const orr_observation *seen) {
    for (size_t i = 0; i < orr_tree_size(seen->warnings); i++) {
        orr_job_warn(job, "observation", file, "%s: %s", file,
                     orr_tree_text(orr_tree_at(seen->warnings, i), ""));
    }
}

static const char *kind_name(orr_observed kind) {
    static const char *const names[] = {
        [ORR_OBSERVED_NONE] = "none",
        [ORR_OBSERVED_LOG] = "log",
        [ORR_OBSERVED_COLLECTIVES] = "collectives",
        [ORR_OBSERVED_TRACE] = "trace",
        [ORR_OBSERVED_SNAPSHOT] = "snapshot",
        [ORR_OBSERVED_TOPOLOGY] = "topology",
    };
    return names[kind];
}

/* A cluster file or an evidence file, where the call says where to. */
static orr_status write_content(orr_job *job, const orr_observation *seen, orr_err *err) {
    const char *path = orr_tree_text(orr_tree_get(job->args, "write"), NULL);
    if (path == NULL) {
        return ORR_OK;
    }
    if (seen->content == NULL || seen->kind == ORR_OBSERVED_LOG) {
        return orr_fail(err, ORR_E_USAGE,
                        "--write writes what a topology or a table of collectives holds; %s is "
                        "neither",
                        seen->format);
    }
    const char *text = orr_write_json(job->arena, seen->content, true);
    ORR_TRY(orr_os_write_file(path, text, strlen(text), err));
    orr_tree_put_text(job->arena, job->result, "written", path);
    return ORR_OK;
}

orr_status orr_job_put_observation(orr_job *job, const char *file, const orr_observation *seen,
                                   orr_err *err) {
    warn_of(job, file, seen);
    orr_tree *result = job->result;
    orr_tree_put_text(job->arena, result, "format", seen->format);
    orr_tree_put_text(job->arena, result, "kind", kind_name(seen->kind));
    (void)orr_tree_put(job->arena, result, "observed", orr_tree_copy(job->arena, seen->tree));
    orr_import import = {.keys = orr_tree_new_map(job->arena),
                         .assumed = orr_tree_new_list(job->arena),
                         .unknown = orr_tree_new_list(job->arena)};
    if (seen->kind == ORR_OBSERVED_LOG && seen->content != NULL) {
        ORR_TRY(orr_import_arguments(job->arena, file, seen->content, &import, err));
        orr_job_report_import(job, &import);
    } else if (seen->content != NULL) {
        (void)orr_tree_put(job->arena, result, kind_name(seen->kind),
                           orr_tree_copy(job->arena, seen->content));
    }
    (void)orr_tree_put(job->arena, result, "plan", orr_tree_copy(job->arena, import.keys));
    (void)orr_tree_put(job->arena, result, "assumed", orr_tree_copy(job->arena, import.assumed));
    (void)orr_tree_put(job->arena, result, "unknown", orr_tree_copy(job->arena, import.unknown));
    return write_content(job, seen, err);
}
