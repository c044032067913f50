/* Commands: one table says what each takes and does. Help, argument parsing, completion and JSON
 * Schema are read from it, so they cannot disagree. */
#ifndef ORR_API_H
#define ORR_API_H

#include "exchange/exchange.h"
#include "observe/observe.h"
#include "orrery/orrery.h"
#include "projection/projection.h"

struct orr_ctx {
    orr_engine *engine;
    uint32_t depth; /* calls that run: some ask for others */
    orr_progress_fn progress;
    void *progress_user;
};

/* What a command works on; the trees are parts of the envelope. */
typedef struct orr_job {
    const struct orr_command *command;
    orr_ctx *ctx;
    orr_arena *arena;
    const orr_tree *args;
    const orr_tree *keys;         /* plan keys as the call states them; NULL before they are read */
    orr_tree *inputs;             /* map: what the answer is about, as resolved */
    orr_tree *assumptions;        /* list of {key, value, why} */
    orr_tree *result;             /* map */
    orr_tree *warnings;           /* list of {code, message, path} */
    orr_tree *trace;              /* list of Chrome trace events, beside the result; NULL: none */
    const orr_evidence *evidence; /* that the call named, in use; NULL: none */
    struct orr_store *store;      /* of the search that is being questioned, or NULL: trials of kind
                                     "proposal" and "device" go to it (orr_store_add_trial) */
    uint64_t search;              /* its key in the store */
    const char *file_format;      /* in which FILE could be written back; NULL: none, or no file */
} orr_job;

typedef orr_status (*orr_command_fn)(orr_job *job, orr_err *err);

/* Groups of arguments that commands share. */
typedef enum orr_args_bit {
    ORR_ARGS_PLAN = 1 << 0,      /* FILE and the plan keys */
    ORR_ARGS_ANCHOR = 1 << 1,    /* anchor */
    ORR_ARGS_NAME = 1 << 2,      /* NAME, required */
    ORR_ARGS_LEDGER = 1 << 3,    /* rank */
    ORR_ARGS_FILE = 1 << 4,      /* FILE, required */
    ORR_ARGS_STUDY = 1 << 5,     /* what validate takes */
    ORR_ARGS_TUNE = 1 << 6,      /* space, objective and effort of a search */
    ORR_ARGS_PLANS = 1 << 8,     /* plans: up to 16 overrides of the base */
    ORR_ARGS_AXES = 1 << 9,      /* axes to move */
    ORR_ARGS_WITH = 1 << 10,     /* with: one other plan's overrides, required */
    ORR_ARGS_MEASURED = 1 << 11, /* measured: what was seen of some plans */
    ORR_ARGS_SCHEDULE = 1 << 7,  /* what schedule takes besides a plan */
    ORR_ARGS_MEASURE = 1 << 12,  /* what measure takes */
    ORR_ARGS_EXPORT = 1 << 20,   /* to and against */
    ORR_ARGS_CHECK = 1 << 21,    /* strict */
    ORR_ARGS_LLM = 1 << 16,      /* a language model that questions the search */
    ORR_ARGS_DOCTOR = 1 << 17,   /* an endpoint of one */
    ORR_ARGS_EVIDENCE = 1 << 14, /* measured files and how they are taken */
    ORR_ARGS_TRAINING = 1 << 18, /* tokens to train on, and prices */
    ORR_ARGS_FITTING = 1 << 13,  /* what calibrate takes */
    ORR_ARGS_COST = 1 << 22,     /* one op, or a table of them */
    ORR_ANSWER_FLAT = 1 << 15    /* the keys of the result stand in the envelope itself */
} orr_args_bit;

typedef struct orr_command {
    const char *name;    /* "project", "model show" */
    const char *group;   /* heading of the help screen */
    const char *summary; /* one line */
    const char *example; /* arguments of a call that works as it stands */
    uint32_t args;       /* orr_args_bit bits */
    orr_command_fn run;
    const void *detail; /* of the command's own */
} orr_command;

extern const orr_command orr_command_table[];          /* ends with a NULL name */
const orr_command *orr_command_find(const char *name); /* NULL when unknown */
/* Fields a command takes: list of {name, type, default, unit, values, doc, positional}. */
orr_tree *orr_command_fields(orr_arena *arena, const orr_command *command);

orr_status orr_command_project(orr_job *job, orr_err *err);
orr_status orr_command_memory(orr_job *job, orr_err *err);
/* memory_detail.c: ledgers, timelines and replays of the ranks that a call asks for. */
orr_status orr_job_put_memory_detail(orr_job *job, const orr_resolved *resolved, uint32_t worst,
                                     orr_err *err);
orr_status orr_command_check(orr_job *job, orr_err *err);
orr_status orr_command_import(orr_job *job, orr_err *err);
/* export_command.c */
orr_status orr_command_export(orr_job *job, orr_err *err);
void orr_export_arguments(orr_arena *arena, orr_tree *fields);
bool orr_is_export_argument(const char *key);
/* A plan in the words of `to`, as {format, launcher, text, overrides, env, lost}; card: see
 * orr_export_plan. */
orr_status orr_job_export(orr_job *job, const char *to, const orr_tree *keys, const orr_tree *card,
                          orr_tree *into, orr_err *err);
/* What to change in the file for it to say `keys` over its own, as {against, changes}. */
orr_status orr_job_changes(orr_job *job, const char *path, const orr_tree *keys, orr_tree *into,
                           orr_err *err);
/* lint.c: what slows a legal plan down or is easily got wrong, as a list of {id, level, message,
 * hint}. */
orr_tree *orr_job_lint(orr_job *job, const orr_resolved *resolved);
orr_status orr_command_list(orr_job *job, orr_err *err);
orr_status orr_command_show(orr_job *job, orr_err *err);
orr_status orr_command_rules(orr_job *job, orr_err *err);
orr_status orr_command_validate(orr_job *job, orr_err *err);
orr_status orr_command_tune(orr_job *job, orr_err *err);
orr_status orr_command_calibrate(orr_job *job, orr_err *err);
orr_status orr_command_schema(orr_job *job, orr_err *err);
orr_status orr_command_evaluate(orr_job *job, orr_err *err);
orr_status orr_command_explain(orr_job *job, orr_err *err);
orr_status orr_command_neighbors(orr_job *job, orr_err *err);
orr_status orr_command_compare(orr_job *job, orr_err *err);
orr_status orr_command_llm_doctor(orr_job *job, orr_err *err);
orr_status orr_command_next(orr_job *job, orr_err *err);
orr_status orr_command_sensitivity(orr_job *job, orr_err *err);

/* What the tool belt is asked about: plan keys without those that follow from others, with anchor
 * and evidence. */
const orr_tree *orr_job_base(orr_job *job, const orr_tree *keys);
/* Fields of an investigation, or of the doctor's endpoint. */
orr_tree *orr_llm_fields(orr_arena *arena, bool doctor);
bool orr_is_llm_argument(const char *key);
bool orr_job_wants_llm(const orr_job *job);
/* After a search, whose result is the job's: adds `investigation` and `chosen`. */
orr_status orr_job_investigate(orr_job *job, const orr_tree *keys, const orr_tree *pins,
                               const orr_tree *ranges, orr_err *err);
/* JSON Schema of a command's arguments: strict, from its fields. */
orr_tree *orr_command_json_schema(orr_arena *arena, const orr_command *command);

/* The fields of validate, in the shape of orr_command_fields. */
orr_tree *orr_validate_fields(orr_arena *arena);
/* Those of calibrate, and of cost. */
orr_tree *orr_calibrate_fields(orr_arena *arena);
orr_tree *orr_cost_fields(orr_arena *arena);
orr_status orr_command_cost(orr_job *job, orr_err *err);

/* Likewise those of tune besides the plan's. */
orr_tree *orr_tune_fields(orr_arena *arena);
bool orr_is_tune_argument(const char *key);

/* Plan keys of a call: those of its file, overridden by its own. */
orr_status orr_job_keys(orr_job *job, const orr_tree **out, orr_err *err);

/* A kind of catalog, the detail of list and show. */
typedef struct orr_catalog {
    const char *noun; /* "model" */
    orr_tree *(*names)(orr_arena *arena);
    orr_status (*show)(orr_arena *arena, const char *name, orr_tree **out, orr_err *err);
} orr_catalog;
extern const orr_catalog orr_catalog_models, orr_catalog_hardware, orr_catalog_clusters,
    orr_catalog_software, orr_catalog_fabrics;

/* Adds `advice` to the result of a legal plan that does not fit with ease: {changes: [{key, value,
 * fits, frees_bytes, throughput_change_frac ...}], fits_from_gpus | never}. */
/* gpus.c: fits_from_gpus, or never with the bytes that stay. */
void orr_job_put_gpus(orr_job *job, const orr_resolved *resolved, orr_tree *map);
orr_status orr_job_advise(orr_job *job, const orr_resolved *resolved, orr_err *err);

/* Reads the evidence that a call names and has the engine prefer it; nothing when it names none.
 * device and software: of the plan; NULL: those of the evidence itself. */
orr_status orr_job_use_evidence(orr_job *job, const orr_accelerator *device, const char *software,
                                orr_err *err);
/* Its use by a plan, as result.evidence; disagreements become warnings. */
orr_status orr_job_put_evidence(orr_job *job, const orr_resolved *resolved, orr_err *err);
/* A measured step of the evidence as an anchor, unless the call gave one. */
orr_status orr_job_step_anchor(orr_job *job, orr_anchor *anchor, orr_err *err);
/* Plan keys as a plan; its assumptions and keys go into the envelope. */
orr_status orr_job_resolve(orr_job *job, const orr_tree *keys, orr_resolved *out, orr_err *err);

/* layout auto: keys with the layout string that stands for it; its gain becomes an assumption. */
bool orr_layout_is_auto(const orr_tree *keys);
orr_status orr_layout_auto(orr_job *job, const orr_tree *keys, const orr_tree **out, orr_err *err);

/* What an import assumed and did not understand, into assumptions and warnings. */
void orr_job_report_import(orr_job *job, const orr_import *import);
/* observed.c: what FILE holds of a run. A pipe can be read once, and is taken for a configuration.
 */
orr_status orr_job_observe(orr_job *job, const char *file, orr_observation *out, orr_err *err);
/* An observation as the result of import. */
orr_status orr_job_put_observation(orr_job *job, const char *file, const orr_observation *seen,
                                   orr_err *err);

/* anchor.c: the run that the call anchors on (all zero: none), a figure or a log; what it changed,
 * as result.anchor. keys: of the plan. */
orr_status orr_job_anchor(orr_job *job, const orr_tree *keys, const orr_resolved *resolved,
                          orr_anchor *anchor, orr_err *err);
orr_status orr_job_put_anchor(orr_job *job, const orr_resolved *resolved, const orr_anchor *anchor,
                              const orr_projection *after, orr_err *err);
/* against.c: the log that the call names held against the projection of what it ran, as
 * result.against: {rows: [{what, unit, measured, projected, ratio}], findings: [{code, message}]}.
 */
orr_status orr_job_put_against(orr_job *job, const orr_tree *keys, const orr_resolved *resolved,
                               orr_err *err);
/* result.waterfall, and the SVG that the call asks for. */
orr_status orr_job_put_waterfall(orr_job *job, const orr_projection *projection, orr_err *err);
/* Tokens/s/GPU that a log's figures mean for a plan: printed, or by step time, or by rate of
 * samples; 0: it prints none of them. */
double orr_log_rate(const orr_run_log *log, const orr_resolved *plan);
/* Keys of a plan as a log's run states them over those of the call; log: of kind LOG. */
orr_status orr_log_keys(orr_job *job, const char *file, const orr_observation *log,
                        const orr_tree *keys, const orr_tree **out, orr_err *err);

/* training.c: result.training, when the call says how many tokens. */
orr_status orr_job_put_training(orr_job *job, const orr_projection *projection, orr_err *err);
void orr_training_arguments(orr_arena *arena, orr_tree *fields);
bool orr_is_training_argument(const char *key);

orr_status orr_command_schedule(orr_job *job, orr_err *err);
/* Its fields besides the plan's, appended. */
void orr_schedule_arguments(orr_arena *arena, orr_tree *fields);
bool orr_is_schedule_argument(const char *key);

orr_status orr_command_measure(orr_job *job, orr_err *err);
orr_tree *orr_measure_fields(orr_arena *arena);
orr_status orr_command_evidence_show(orr_job *job, orr_err *err);
orr_status orr_command_evidence_merge(orr_job *job, orr_err *err);
/* Fields of ORR_ARGS_EVIDENCE, appended. */
void orr_evidence_arguments(orr_arena *arena, orr_tree *fields);

/* Adds {code, message, path} to the warnings; path may be NULL. */
void orr_job_warn(orr_job *job, const char *code, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
