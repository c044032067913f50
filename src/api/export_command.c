/* A plan written in a framework's words, or as changes to a file in them. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/text.h"
#include "exchange/exchange.h"

void orr_export_arguments(orr_arena *arena, orr_tree *fields) {
    orr_tree *to = orr_tree_push(arena, fields, orr_tree_new_map(arena));
    orr_tree_put_text(arena, to, "name", "to");
    orr_tree_put_text(arena, to, "type", "text");
    orr_tree_put_text(arena, to, "doc",
                      "megatron-lm, primus, megatron-bridge, torchtitan, deepspeed or nanotron; "
                      "default: that of the file, else megatron-lm");
    orr_tree *against = orr_tree_push(arena, fields, orr_tree_new_map(arena));
    orr_tree_put_text(arena, against, "name", "against");
    orr_tree_put_text(arena, against, "type", "text");
    orr_tree_put_text(arena, against, "doc",
                      "a file that is launched today: say which of its lines to change, in its own "
                      "language");
}

bool orr_is_export_argument(const char *key) {
    return strcmp(key, "to") == 0 || strcmp(key, "against") == 0 || strcmp(key, "release") == 0;
}

/* The card of a model that is known by name; NULL: it is not, or is one itself. */
static const orr_tree *card_of(orr_job *job, const orr_tree *keys) {
    const orr_tree *model = orr_tree_get(keys, "model");
    orr_model *found = NULL;
    if (orr_tree_kind_of(model) != ORR_TREE_TEXT ||
        orr_model_find(job->arena, orr_tree_text(model, ""), &found, NULL) != ORR_OK) {
        return NULL;
    }
    return orr_model_write(job->arena, found);
}

orr_status orr_job_export(orr_job *job, const char *to, const orr_tree *keys, const orr_tree *card,
                          orr_tree *into, orr_err *err) {
    orr_export out = {0};
    ORR_TRY(orr_export_plan(job->arena, to, keys, card, &out, err));
    orr_tree_put_text(job->arena, into, "format", out.format);
    orr_tree_put_text(job->arena, into, "launcher", out.launcher);
    orr_tree_put_text(job->arena, into, "text", out.text);
    orr_tree_put_text(job->arena, into, "overrides", out.overrides);
    orr_tree_put_text(job->arena, into, "env", out.env);
    (void)orr_tree_put(job->arena, into, "lost", orr_tree_copy(job->arena, out.lost));
    return ORR_OK;
}

/* Keys that have no setting in one sentence, others each with its reason. */
static void warn_lost(orr_job *job, const orr_tree *lost, const char *format) {
    orr_text plain = orr_text_new(job->arena, 1 << 16);
    for (size_t i = 0; i < orr_tree_size(lost); i++) {
        const orr_tree *one = orr_tree_at(lost, i);
        const char *key = orr_tree_text(orr_tree_get(one, "key"), "");
        const char *value = orr_tree_text(orr_tree_get(one, "value"), "");
        const char *why = orr_tree_text(orr_tree_get(one, "why"), "");
        if (strcmp(why, "no setting says it") == 0) {
            orr_text_format(&plain, "%s%s = %s", plain.length > 0 ? ", " : "", key, value);
        } else {
            orr_job_warn(job, "not-expressed", key, "%s cannot be told %s = %s: %s", format, key,
                         value, why);
        }
    }
    if (plain.length > 0) {
        orr_job_warn(job, "not-expressed", NULL, "%s has no settings for %s", format,
                     orr_text_done(&plain));
    }
}

orr_status orr_job_changes(orr_job *job, const char *path, const orr_tree *keys, orr_tree *into,
                           orr_err *err) {
    orr_import input = {0};
    const orr_tree *changes = NULL;
    ORR_TRY(orr_import_file(job->arena, path, &input, err));
    ORR_TRY(orr_export_changes(job->arena, path, &input,
                               orr_plan_merge(job->arena, input.keys, keys), &changes, err));
    orr_tree_put_text(job->arena, into, "against", path);
    (void)orr_tree_put(job->arena, into, "changes", orr_tree_copy(job->arena, changes));
    return ORR_OK;
}

static orr_status write_changes(orr_job *job, const char *path, const orr_tree *keys,
                                const char **to, const orr_tree **merged, orr_err *err) {
    orr_import input = {0};
    ORR_TRY(orr_import_file(job->arena, path, &input, err));
    *merged = orr_plan_merge(job->arena, input.keys, keys);
    *to = *to != NULL ? *to : orr_export_format_of(input.format);
    const char *own = orr_export_format_of(input.format);
    if (own != NULL && *to != NULL && !orr_name_equal(own, *to)) {
        return orr_fail(err, ORR_E_USAGE, "%s is of %s: changes to it are not written as %s", path,
                        own, *to);
    }
    return orr_job_changes(job, path, keys, job->result, err);
}

orr_status orr_command_export(orr_job *job, orr_err *err) {
    const char *to = orr_tree_text(orr_tree_get(job->args, "to"), NULL);
    const char *against = orr_tree_text(orr_tree_get(job->args, "against"), NULL);
    const orr_tree *keys = NULL;
    ORR_TRY(orr_job_keys(job, &keys, err));
    if (against != NULL) {
        ORR_TRY(write_changes(job, against, keys, &to, &keys, err));
    }
    to = to != NULL ? to : job->file_format;
    to = to != NULL ? to : "megatron-lm";
    ORR_TRY(orr_job_export(job, to, keys, card_of(job, keys), job->result, err));
    warn_lost(job, orr_tree_get(job->result, "lost"), to);
    return ORR_OK;
}
