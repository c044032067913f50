/* Shared by the importers: what is being built, and settings under foreign names. */
#ifndef ORR_EXCHANGE_INT_H
#define ORR_EXCHANGE_INT_H

#include "base/text.h"
#include "exchange/exchange.h"
#include "exchange/shell.h"

/* An import under construction. */
typedef struct importer {
    orr_arena *arena;
    const char *file;    /* for spans; may be NULL */
    const char *release; /* of the framework, NULL: the newest */
    orr_tree *keys, *assumed, *unknown, *warnings, *stated;
} importer;

importer orr_import_start(orr_arena *arena, const char *file);
void orr_import_finish(const importer *im, const char *format, orr_import *out);
/* Where a key was read; line 0 where nothing in the file says it. */
void orr_import_put_text(importer *im, const char *key, const char *value, uint32_t line);
void orr_import_put_int(importer *im, const char *key, int64_t value, uint32_t line);
void orr_import_put_real(importer *im, const char *key, double value, uint32_t line);
void orr_import_put(importer *im, const char *key, orr_tree *value, uint32_t line);
void orr_import_assume(importer *im, const char *key, const char *value, const char *why);
/* why may be NULL: the name is simply not known. */
void orr_import_unknown(importer *im, const char *name, uint32_t line, bool matters,
                        const char *why);
/* The same for a setting that decides a plan key (may be NULL) and whose value is not known. */
void orr_import_depends(importer *im, const char *name, uint32_t line, const char *key,
                        const char *on);
void orr_import_warn(importer *im, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A contradiction; refused: the framework stops at launch because of it. */
void orr_import_refuse(importer *im, uint32_t line, bool refused, const char *message);
/* A warning that whoever states the plan key settles. */
void orr_import_ask(importer *im, uint32_t line, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The file's name without folders and suffix; "imported" when it has none. */
const char *orr_import_stem(orr_arena *arena, const char *name);
/* Remembers a setting as the file spells it, and its canonical name (for orr_export_changes). */
void orr_import_state(importer *im, const char *name, const char *canonical, const orr_tree *value);
/* orr_tree_put at a dotted path; makes the maps on the way. */
void orr_tree_set_path(orr_arena *arena, orr_tree *map, const char *path, orr_tree *value);
/* A name that nobody knows: may it change speed or memory? Judged by its words: paths, logs, seeds
 * and learning rates do not. */
bool orr_import_name_matters(const char *name);

bool orr_ends_with(const char *text, const char *end);

/* What an import is asked beside its text. */
typedef struct import_request {
    const char *name, *release;
    bool follow; /* files that this one names may be read */
} import_request;
importer orr_import_begin(orr_arena *arena, const import_request *r);
/* formats.c: a document as a tree; its format among the frameworks', NULL: none. */
bool orr_format_is_document(const char *name); /* by its suffix */
orr_status orr_format_read(orr_arena *arena, const char *name, const char *text, size_t length,
                           orr_tree **tree, orr_err *err);
orr_status orr_format_import(importer *im, const import_request *r, const orr_tree *tree,
                             const char **format, orr_err *err);
/* script.c */
orr_status orr_script_import(orr_arena *arena, const import_request *r, const char *text,
                             size_t length, orr_import *out, orr_err *err);

/* One foreign setting as found in its file. */
typedef struct setting {
    const char *name;    /* as written, without leading dashes */
    const char *arg;     /* the argument of Megatron-LM that it is, NULL: that of its name */
    const char *value;   /* NULL: a flag without value; list elements are separated by blanks */
    const char *unknown; /* the value depends on this, or NULL */
    const char *assumed; /* the value depends on this fallback, or NULL */
    uint32_t line;
    bool typed; /* from a YAML or JSON file: no dashes, flags are "true" or "false" */
} setting;
typedef struct settings {
    setting *at;
    size_t count, capacity;
} settings;
void orr_settings_add(orr_arena *arena, settings *list, setting one);
/* A scalar or list of a typed file; maps and nulls are left out. */
void orr_settings_add_node(orr_arena *arena, settings *list, const char *name,
                           const orr_tree *node);

/* How many processes a launcher starts; 0: not stated. */
typedef struct launch {
    const orr_shell_command *command; /* the one that starts training */
    size_t script;                    /* index of the first word after the program */
    const char *program;              /* its file, NULL when none is named */
    uint32_t nodes, nodes_line;
    uint32_t per_node, per_node_line;
    uint32_t total; /* mpirun -np, srun -n */
    uint32_t total_line;
    bool launcher; /* torchrun or alike: what it does not say is 1 */
} launch;

/* Slurm's #SBATCH header. */
typedef struct slurm_header {
    uint32_t nodes, gpus_per_node, tasks_per_node, tasks, gpus;
    uint32_t line; /* of the first directive; 0: no header */
} slurm_header;
slurm_header orr_slurm_read(orr_arena *arena, const char *text, size_t length);
/* The variables that Slurm sets from it; room for 8. */
size_t orr_slurm_variables(orr_arena *arena, const slurm_header *header, orr_shell_given *given);

/* The command that starts training among those of a script: the one with most options for which
 * `knows` is true (at least `least`); without one, the arguments that its variables hold, as a
 * command of their own. NULL command: none. */
typedef bool (*knows_fn)(const char *name);
launch orr_launch_find(importer *im, const orr_shell *shell, knows_fn knows, size_t least);
launch orr_launch_of(importer *im, const orr_shell_command *command);
bool orr_launch_prints(const orr_shell_command *command); /* echo and its like */
/* Sets gpus and nodes from the launch and the header. */
void orr_launch_keys(importer *im, const launch *found, const slurm_header *header);

/* Megatron-LM: a table of arguments (megatron_args.c) and what they mean together. */
typedef enum megatron_kind {
    MEGATRON_FLAG, /* no value on the command line, true or false in files */
    MEGATRON_INT,
    MEGATRON_REAL,
    MEGATRON_TEXT,
    MEGATRON_LIST
} megatron_kind;
typedef struct megatron_arg {
    const char *name;     /* without dashes, "-" between words */
    uint8_t kind;         /* megatron_kind */
    const char *of;       /* the argument that it sets, NULL: itself */
    const char *given;    /* value it gives that one (negations, old switches); NULL: its own */
    const char *fallback; /* Megatron's default; NULL: none */
    const char *target;   /* plan key or "model.KEY" that takes it as it is; NULL: see `note` */
    const char *note;     /* unit, or what it decides; "!" first: matters and is not modelled */
} megatron_arg;
extern const megatron_arg orr_megatron_args[];
extern const size_t orr_megatron_arg_count;
/* All further arguments: number of values (0, 1, n), "!" when it matters and is not modelled, else
 * ".", and the name. */
extern const char *const orr_megatron_quiet[];
extern const size_t orr_megatron_quiet_count;

const megatron_arg *orr_megatron_find(const char *name); /* "_" and "-" are one */
bool orr_megatron_other(const char *name, char *arity, bool *matters);
bool orr_megatron_knows(const char *name); /* either of them */
void orr_megatron_words(importer *im, const launch *found, settings *out);
/* What the settings stand on. */
typedef struct megatron_ground {
    const char *model_name; /* of the card, or of a catalog */
    bool by_name;           /* no sizes are given: the model is the catalog's */
    const char *software;   /* NULL: Megatron-LM's, by its arguments */
    const char *program;    /* the script that trains, NULL: not named */
    uint32_t program_line;
    uint32_t gpus; /* for the default of the global batch; 0: unknown */
} megatron_ground;
void orr_megatron_keys(importer *im, const settings *list, const megatron_ground *ground);

/* What Primus calls a schedule of ours, NULL: nothing. */
const char *orr_primus_algorithm(const char *schedule);
/* Primus: an experiment file with modules.pre_trainer. path (may be NULL) is where it was read;
 * files it extends are looked for around it. */
bool orr_primus_is(const orr_tree *tree);
orr_status orr_primus_import(importer *im, const orr_tree *tree, const char *path, orr_err *err);

/* Python list expressions of layer patterns, "[0]*3+[1]*58"; at most `limit` elements. */
bool orr_pattern_expand(const char *text, uint8_t *out, size_t limit, size_t *count);

#endif
