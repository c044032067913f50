/* One call: find the command, check its arguments, run it, wrap the answer in an envelope. */
#include <stdarg.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"

const char *orr_version(void) {
    return ORR_VERSION;
}

orr_status orr_ctx_new(const char *data_dir, orr_ctx **out, orr_err *err) {
    if (data_dir != NULL) {
        return orr_fail(err, ORR_E_USAGE,
                        "a data folder of one's own is not supported yet; give "
                        "single files by path instead");
    }
    orr_ctx *ctx = (orr_ctx *)orr_alloc(sizeof *ctx);
    ctx->engine = orr_engine_new();
    *out = ctx;
    return ORR_OK;
}

void orr_ctx_free(orr_ctx *ctx) {
    if (ctx != NULL) {
        orr_engine_free(ctx->engine);
        orr_release(ctx);
    }
}

void orr_ctx_on_progress(orr_ctx *ctx, orr_progress_fn fn, void *user) {
    ctx->progress = fn;
    ctx->progress_user = user;
}

const orr_command *orr_command_find(const char *name) {
    for (const orr_command *c = orr_command_table; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
    }
    return NULL;
}

static orr_status unknown_command(const char *name, orr_err *err) {
    const char *names[64];
    size_t count = 0;
    for (const orr_command *c = orr_command_table; c->name != NULL && count < 64; c++) {
        names[count++] = c->name;
    }
    orr_status status = orr_fail(err, ORR_E_NAME, "unknown command '%s'", name);
    int nearest = orr_name_nearest(name, names, count);
    if (nearest >= 0) {
        orr_hint(err, "did you mean '%s'?", names[nearest]);
    }
    return status;
}

enum { MOST_KEPT_BYTES = 64 << 20 }; /* of each sort, from call to call */

/* Every argument must be a field of the command. */
static orr_status check_arguments(const orr_job *job, orr_err *err) {
    orr_tree *fields = orr_command_fields(job->arena, job->command);
    size_t count = orr_tree_size(fields);
    const char **names = ORR_NEW_ARRAY(job->arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        names[i] = orr_tree_text(orr_tree_get(orr_tree_at(fields, i), "name"), "");
    }
    for (size_t k = 0; k < orr_tree_size(job->args); k++) {
        const char *key = orr_tree_key(job->args, k);
        size_t i = 0;
        while (i < count && strcmp(names[i], key) != 0) {
            i++;
        }
        if (i == count) {
            orr_status status =
                orr_fail(err, ORR_E_NAME, "'%s' takes no argument '%s'", job->command->name, key);
            int nearest = orr_name_nearest(key, names, count);
            if (nearest >= 0) {
                orr_hint(err, "did you mean '%s'?", names[nearest]);
            }
            return status;
        }
    }
    return ORR_OK;
}

void orr_job_warn(orr_job *job, const char *code, const char *path, const char *format, ...) {
    va_list args;
    va_start(args, format);
    orr_tree *warning = orr_tree_new_map(job->arena);
    orr_tree_put_text(job->arena, warning, "code", code);
    orr_tree_put_text(job->arena, warning, "message", orr_arena_vformat(job->arena, format, args));
    if (path != NULL) {
        orr_tree_put_text(job->arena, warning, "path", path);
    }
    (void)orr_tree_push(job->arena, job->warnings, warning);
    va_end(args);
}

static orr_tree *envelope(const orr_job *job) {
    orr_tree *map = orr_tree_new_map(job->arena);
    char *schema = orr_arena_format(job->arena, "orrery.%s/1", job->command->name);
    for (char *p = schema; *p != '\0'; p++) {
        if (*p == ' ') {
            *p = '.';
        }
    }
    orr_tree_put_text(job->arena, map, "schema", schema);
    orr_tree *tool = orr_tree_put(job->arena, map, "tool", orr_tree_new_map(job->arena));
    orr_tree_put_text(job->arena, tool, "name", "orrery");
    orr_tree_put_text(job->arena, tool, "version", orr_version());
    (void)orr_tree_put(job->arena, map, "inputs", job->inputs);
    (void)orr_tree_put(job->arena, map, "assumptions", job->assumptions);
    if ((job->command->args & ORR_ANSWER_FLAT) != 0) {
        for (size_t i = 0; i < orr_tree_size(job->result); i++) {
            (void)orr_tree_put(job->arena, map, orr_tree_key(job->result, i),
                               orr_tree_copy(job->arena, orr_tree_at(job->result, i)));
        }
    } else {
        (void)orr_tree_put(job->arena, map, "result", job->result);
    }
    if (job->trace != NULL) { /* where trace viewers look for it */
        (void)orr_tree_put(job->arena, map, "traceEvents", job->trace);
    }
    (void)orr_tree_put(job->arena, map, "warnings", job->warnings);
    return map;
}

orr_status orr_call(orr_ctx *ctx, const char *name, const orr_tree *args, orr_arena *arena,
                    orr_tree **result, orr_err *err) {
    const orr_command *command = orr_command_find(name);
    if (command == NULL) {
        return unknown_command(name, err);
    }
    orr_job job = {.command = command,
                   .ctx = ctx,
                   .arena = arena,
                   .args = args,
                   .inputs = orr_tree_new_map(arena),
                   .assumptions = orr_tree_new_list(arena),
                   .result = orr_tree_new_map(arena),
                   .warnings = orr_tree_new_list(arena)};
    ORR_TRY(check_arguments(&job, err));
    ctx->depth++;
    orr_status status = command->run(&job, err);
    ctx->depth--;
    if (status == ORR_OK) {
        *result = envelope(&job);
    }
    if (ctx->depth == 0) { /* what one plan leaves another may use, but a server runs on */
        orr_engine_forget(ctx->engine, MOST_KEPT_BYTES);
    }
    return status;
}
