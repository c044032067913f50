/* Measurements in calls: which files, how they are taken, what they changed. */
#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/map.h"
#include "base/os_file.h"
#include "doc/doc.h"
#include "evidence/evidence.h"

typedef struct evidence_args {
    const char *file, *evidence, *write;
    uint32_t accept, use;
} evidence_args;

static const char *const accepts[] = {"device", "software", NULL};
static const char *const uses[] = {"kernel", "layer", "collective", "step", NULL};
static const orr_field fields[] = {
    {.name = "evidence",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(evidence_args, evidence),
     .fallback = "",
     .doc = "files of measured kernels, layers, collectives or steps, separated by commas; "
            "preferred to models (docs/evidence.md)"},
    {.name = "evidence_use",
     .type = ORR_FIELD_FLAGS,
     .offset = offsetof(evidence_args, use),
     .values = uses,
     .fallback = "kernel,layer,collective,step",
     .doc = "classes of evidence to use"},
    {.name = "evidence_accept",
     .type = ORR_FIELD_FLAGS,
     .offset = offsetof(evidence_args, accept),
     .values = accepts,
     .fallback = "",
     .doc = "take evidence of another device, or of other software, as if it were the plan's"},
    {.name = "write",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(evidence_args, write),
     .fallback = "",
     .doc = "write the merged evidence to this path; .sqlite and .db make a database"},
};
enum { FIELDS = sizeof fields / sizeof *fields };
/* Read loosely: the other arguments of a command are not its business. */
static const orr_schema schema = {
    .title = "evidence", .fields = fields, .count = FIELDS, .open = true};

void orr_evidence_arguments(orr_arena *arena, orr_tree *into) {
    orr_tree *list = orr_schema_fields(&schema, arena);
    for (size_t i = 0; i + 1 < orr_tree_size(list); i++) { /* all but `write` */
        (void)orr_tree_push(arena, into, orr_tree_copy(arena, orr_tree_at(list, i)));
    }
}

static orr_status read_set(orr_job *job, const char *paths, const evidence_args *args,
                           const orr_accelerator *device, const char *software,
                           const orr_evidence **out, orr_err *err) {
    orr_evidence_want want = {
        .device = device, .software = software, .accept = args->accept, .classes = args->use};
    return orr_engine_read_evidence(job->ctx->engine, paths, &want, out, err);
}

static void warn_of_files(orr_job *job, const orr_evidence *set) {
    for (uint32_t i = 0; i < set->file_count; i++) {
        const orr_evidence_file *file = &set->file[i];
        if (file->foreign) {
            orr_job_warn(job, "evidence-foreign", file->path,
                         "%s was measured on '%s' under '%s': taken because told", file->path,
                         file->device, file->software);
        }
        if (file->records == 0 && file->other_device + file->other_software > 0) {
            orr_job_warn(job, "evidence-unused", file->path,
                         "nothing of %s is used: %u records are of another device, %u of other "
                         "software (--evidence-accept takes them all the same)",
                         file->path, file->other_device, file->other_software);
        }
        if (file->missing > 0) {
            const orr_tree *gap = orr_tree_at(file->gaps, 0);
            orr_job_warn(job, "evidence-partial", file->path,
                         "%s is partial: %u could not be measured, first %s (%s)", file->path,
                         file->missing, orr_tree_text(orr_tree_get(gap, "what"), "?"),
                         orr_tree_text(orr_tree_get(gap, "why"), "?"));
        }
    }
}

orr_status orr_job_use_evidence(orr_job *job, const orr_accelerator *device, const char *software,
                                orr_err *err) {
    evidence_args args = {0};
    orr_engine_use_evidence(job->ctx->engine, NULL);
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    if (args.evidence == NULL) {
        return ORR_OK;
    }
    const orr_evidence *set = NULL;
    ORR_TRY(read_set(job, args.evidence, &args, device, software, &set, err));
    warn_of_files(job, set);
    orr_engine_use_evidence(job->ctx->engine, set);
    job->evidence = set;
    return ORR_OK;
}

orr_status orr_job_put_evidence(orr_job *job, const orr_resolved *resolved, orr_err *err) {
    if (job->evidence == NULL) {
        return ORR_OK;
    }
    orr_tree *used = NULL;
    ORR_TRY(orr_project_evidence(job->ctx->engine, job->arena, resolved, &used, err));
    if (used == NULL) {
        return ORR_OK;
    }
    (void)orr_tree_put(job->arena, job->result, "evidence", used);
    const orr_tree *findings = orr_tree_get(used, "findings");
    for (size_t i = 0; i < orr_tree_size(findings); i++) {
        const orr_tree *one = orr_tree_at(findings, i);
        orr_job_warn(job, "evidence-disagrees", orr_tree_text(orr_tree_get(one, "kind"), ""),
                     "%s %s times are %.2f times the model's (%lld shapes); most: %s, %.2f",
                     orr_tree_text(orr_tree_get(one, "how"), "measured"),
                     orr_tree_text(orr_tree_get(one, "kind"), "?"),
                     orr_tree_real(orr_tree_get(one, "ratio"), 1),
                     (long long)orr_tree_int(orr_tree_get(one, "shapes"), 0),
                     orr_tree_text(orr_tree_get(one, "worst"), "?"),
                     orr_tree_real(orr_tree_get(one, "worst_ratio"), 1));
    }
    return ORR_OK;
}

/* A measured step anchors compute, as --anchor does. */
orr_status orr_job_step_anchor(orr_job *job, orr_anchor *anchor, orr_err *err) {
    if (job->evidence == NULL || job->evidence->step_count == 0 || anchor->gpus > 0) {
        return ORR_OK;
    }
    const orr_evidence_step *step = &job->evidence->step[0];
    if (step->plan == NULL) {
        return orr_fail(err, ORR_E_SCHEMA, "the measured step in %s does not state its plan",
                        job->evidence->file[step->file].path);
    }
    orr_resolved *at = ORR_NEW(job->arena, orr_resolved);
    ORR_TRY(orr_plan_resolve(job->arena, step->plan, at, err));
    double tokens = (double)at->plan.gbs * at->plan.batch.seq;
    *anchor = (orr_anchor){.tokens_per_s_per_gpu = tokens / step->time_s / at->plan.gpus,
                           .gpus = at->plan.gpus,
                           .plan = at};
    return ORR_OK;
}

/* ---- commands about files ------------------------------------------------------------------- */

static orr_status read_files(orr_job *job, evidence_args *args, const orr_evidence **set,
                             orr_err *err) {
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, args, NULL, err));
    const orr_tree *file = orr_tree_get(job->args, "file");
    const char *paths = orr_tree_text(file, args->evidence);
    for (size_t i = 0; i < orr_tree_size(file); i++) {
        const char *path = orr_tree_text(orr_tree_at(file, i), "");
        paths = i == 0 ? path : orr_arena_format(job->arena, "%s,%s", paths, path);
    }
    if (paths == NULL) {
        orr_status status = orr_fail(err, ORR_E_USAGE, "%s needs FILE ...", job->command->name);
        orr_hint(err, "orrery %s %s", job->command->name, job->command->example);
        return status;
    }
    orr_tree_put_text(job->arena, job->inputs, "file", paths);
    return read_set(job, paths, args, NULL, NULL, set, err);
}

orr_status orr_command_evidence_show(orr_job *job, orr_err *err) {
    evidence_args args = {0};
    const orr_evidence *set = NULL;
    ORR_TRY(read_files(job, &args, &set, err));
    job->result = orr_evidence_describe(job->arena, set);
    return ORR_OK;
}

/* Shapes that the set knows, by their text. */
static orr_map known_shapes(orr_arena *arena, const orr_evidence *set) {
    static bool known = true;
    orr_map map = {0};
    for (uint32_t i = 0; i < set->count; i++) {
        const char *text = orr_evidence_shape_text(arena, &set->record[i].key);
        if (orr_map_get(&map, text, strlen(text)) == NULL) {
            orr_map_put(&map, arena, text, strlen(text), &known);
        }
    }
    return map;
}

/* Gaps of all files, each once, without what another file has. */
static orr_tree *join_gaps(orr_arena *arena, const orr_evidence *set) {
    orr_tree *gaps = orr_tree_new_list(arena);
    orr_map known = known_shapes(arena, set);
    for (uint32_t i = 0; i < set->file_count; i++) {
        for (size_t g = 0; g < orr_tree_size(set->file[i].gaps); g++) {
            const orr_tree *gap = orr_tree_at(set->file[i].gaps, g);
            const char *what = orr_tree_text(orr_tree_get(gap, "what"), "");
            const char *why = orr_tree_text(orr_tree_get(gap, "why"), "");
            const char *both = orr_arena_format(arena, "%s\n%s", what, why);
            if (orr_map_get(&known, what, strlen(what)) == NULL &&
                orr_map_get(&known, both, strlen(both)) == NULL) {
                orr_map_put(&known, arena, both, strlen(both), gaps);
                (void)orr_tree_push(arena, gaps, orr_tree_copy(arena, gap));
            }
        }
    }
    orr_map_release(&known);
    return gaps;
}

/* "a; b", each once. */
static const char *join_texts(orr_arena *arena, const char *all, const char *one) {
    return one[0] == '\0' || strstr(all, one) != NULL ? all
           : all[0] == '\0'                           ? one
                                                      : orr_arena_format(arena, "%s; %s", all, one);
}

/* Software of the whole: what every file states; else none, and each record says its own. */
static orr_status join_software(const orr_evidence *set, bool accept, const char **out,
                                orr_err *err) {
    const orr_evidence_file *stated = NULL;
    *out = set->file[0].software;
    for (uint32_t i = 0; i < set->file_count; i++) {
        const orr_evidence_file *file = &set->file[i];
        *out = strcmp(file->software, *out) == 0 ? *out : "";
        if (file->software[0] == '\0') {
            continue;
        }
        if (stated != NULL && !accept && !orr_name_equal(file->software, stated->software)) {
            orr_status status =
                orr_fail(err, ORR_E_CONFLICT, "%s was measured under '%s', %s under '%s'",
                         stated->path, stated->software, file->path, file->software);
            orr_hint(err, "--evidence-accept software merges them all the same: each record says "
                          "its own, and of equal shapes the first file's count");
            return status;
        }
        stated = file;
    }
    return ORR_OK;
}

static orr_status join_identity(orr_job *job, const orr_evidence *set, bool accept,
                                orr_evidence_identity *out, orr_err *err) {
    *out = (orr_evidence_identity){
        .device = set->device, .device_detail = "", .source = "", .date = ""};
    for (uint32_t i = 0; i < set->file_count; i++) {
        const orr_evidence_file *file = &set->file[i];
        if (file->records == 0) {
            orr_status status = orr_fail(err, ORR_E_CONFLICT, "%s is not of %s, the device of %s",
                                         file->path, set->device, set->file[0].path);
            orr_hint(err, "--evidence-accept device merges them all the same: each record says "
                          "its own, and plans take those of theirs");
            return status;
        }
        out->device_detail = join_texts(job->arena, out->device_detail, file->detail);
        out->source = join_texts(job->arena, out->source, file->source);
        out->date = strcmp(file->date, out->date) > 0 ? file->date : out->date;
        if (file->superseded > 0) {
            orr_job_warn(job, "evidence-superseded", file->path,
                         "%u records of %s give way to ones of the same shape under another device "
                         "or software",
                         file->superseded, file->path);
        }
    }
    out->gaps = join_gaps(job->arena, set);
    return join_software(set, accept, &out->software, err);
}

/* JSON, or SQLite by the name's ending. */
static orr_status write_merged(orr_job *job, const orr_tree *merged, const char *path,
                               orr_err *err) {
    static const char *const endings[] = {".sqlite", ".sqlite3", ".db"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]), length = strlen(path);
        if (length > n && strcmp(path + length - n, endings[i]) == 0) {
            void *bytes = NULL;
            ORR_TRY(orr_evidence_write_sqlite(job->arena, merged, &bytes, &length, err));
            return orr_os_write_file(path, bytes, length, err);
        }
    }
    const char *text = orr_write_json(job->arena, merged, true);
    return orr_os_write_file(path, text, strlen(text), err);
}

orr_status orr_command_evidence_merge(orr_job *job, orr_err *err) {
    evidence_args args = {0};
    const orr_evidence *set = NULL;
    orr_evidence_identity identity;
    ORR_TRY(read_files(job, &args, &set, err));
    ORR_TRY(join_identity(job, set, (args.accept & ORR_ACCEPT_SOFTWARE) != 0, &identity, err));
    orr_tree *merged = orr_evidence_write(job->arena, set, &identity);
    job->result = orr_evidence_describe(job->arena, set);
    if (args.write != NULL) {
        ORR_TRY(write_merged(job, merged, args.write, err));
        orr_tree_put_text(job->arena, job->result, "written", args.write);
    } else {
        (void)orr_tree_put(job->arena, job->result, "merged", merged);
    }
    return ORR_OK;
}
