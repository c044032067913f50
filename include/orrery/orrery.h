/* Orrery: says whether a distributed LLM training plan fits, how fast it runs, and why.
 *
 * The whole product is one call: a tree of arguments in, a tree of results out. The command line
 * and every other front end see this header, tree.h, status.h and report.h, and nothing else.
 *
 * Contexts are independent: use one per thread. Same arguments, same result, whatever the machine.
 */
#ifndef ORRERY_ORRERY_H
#define ORRERY_ORRERY_H

#include "orrery/status.h"
#include "orrery/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Holds what is kept between calls: parsed catalogs, layer objects, prices, schedule orders. */
typedef struct orr_ctx orr_ctx;

/* data_dir overrides the catalogs built into the library (NULL: the built-in ones). */
ORR_API orr_status orr_ctx_new(const char *data_dir, orr_ctx **out, orr_err *err);
ORR_API void orr_ctx_free(orr_ctx *ctx); /* NULL is fine */

/* Progress: done of total units of `what`; return false to cancel (orr_call gives ORR_E_CANCELLED).
 */
typedef bool (*orr_progress_fn)(void *user, const char *what, double done, double total);
ORR_API void orr_ctx_on_progress(orr_ctx *ctx, orr_progress_fn fn, void *user);

/* Runs one command ("project", "memory", "check", "model.show" ...; orr_commands lists them).
 * args is a map with the fields of the command's schema. On success *result is an envelope
 * {schema, tool, inputs, assumptions, result, warnings} that lives in arena. A plan that is illegal
 * or does not fit is a result (result.verdict), not an error. */
ORR_API orr_status orr_call(orr_ctx *ctx, const char *command, const orr_tree *args,
                            orr_arena *arena, orr_tree **result, orr_err *err);

/* The one description of every command: a list of {name, group, summary, fields:[{name, type,
 * default, unit, values, doc}]}. Help, argument parsing, JSON Schema and completion come from it.
 */
ORR_API orr_tree *orr_commands(orr_ctx *ctx, orr_arena *arena);

/* "0.1.0"; from the file VERSION. */
ORR_API const char *orr_version(void);

/* Reading and writing text. `name` is used in messages. JSON output is stable: insertion order,
 * shortest digits that read back the same, two spaces of indent when pretty. */
ORR_API orr_status orr_read_file(orr_arena *arena, const char *path, orr_tree **out, orr_err *err);
ORR_API orr_status orr_read_text(orr_arena *arena, const char *name, const char *text,
                                 size_t length, orr_tree **out, orr_err *err);
ORR_API char *orr_write_json(orr_arena *arena, const orr_tree *node, bool pretty);

#ifdef __cplusplus
}
#endif
#endif
