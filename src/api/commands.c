/* The table of commands and the fields that they take. */
#include "api/api.h"

/* What project takes: the belt asks it. */
#define BELT_ARGS (ORR_ARGS_PLAN | ORR_ARGS_ANCHOR | ORR_ARGS_EVIDENCE)

const orr_command orr_command_table[] = {
    {"project", "plan", "how fast a plan runs, whether it fits, and why",
     "--model llama-3.1-8b --hardware h100 --gpus 8 --cp 2 --mbs 1 --gbs 128 --seq 8192",
     ORR_ARGS_PLAN | ORR_ARGS_ANCHOR | ORR_ARGS_EVIDENCE | ORR_ARGS_TRAINING, orr_command_project,
     NULL},
    {"memory", "plan", "bytes on every rank, and what they are",
     "--model llama-3.1-70b --hardware h100 --gpus 64 --tp 8 --pp 4 --mbs 1 --gbs 64 --seq 8192",
     ORR_ARGS_PLAN | ORR_ARGS_LEDGER, orr_command_memory, NULL},
    {"check", "plan",
     "is a plan legal, does it start, does it fit, what slows it; for scripts and CI",
     "--model llama-3.1-8b --hardware h100 --gpus 8 --mbs 1 --gbs 128 --seq 8192",
     ORR_ARGS_PLAN | ORR_ARGS_CHECK, orr_command_check, NULL},
    {"tune", "plan", "the best plan there is, with a certificate that nothing better was left out",
     "--model mixtral-8x7b --hardware h100 --gpus 16 --gbs 256 --seq 4096 --pin recompute=none",
     ORR_ARGS_PLAN | ORR_ARGS_TUNE | ORR_ARGS_EVIDENCE | ORR_ARGS_LLM | ORR_ARGS_EXPORT,
     orr_command_tune, NULL},
    {"schedule", "plan",
     "one pipeline schedule: time, bubble, memory, chart, and all others beside it",
     "--schedule zbv --pp 4 --microbatches 8 --f 1 --b 1 --w 1", ORR_ARGS_PLAN | ORR_ARGS_SCHEDULE,
     orr_command_schedule, NULL},
    {"import", "plan", "what was understood of a launch script, a configuration, a log", "train.sh",
     ORR_ARGS_FILE, orr_command_import, NULL},
    {"export", "plan", "a plan in a framework's words, or as changes to a file in them",
     "--model llama-3.1-8b --gpus 8 --cp 2 --mbs 1 --gbs 128 --seq 8192 --to torchtitan",
     ORR_ARGS_PLAN | ORR_ARGS_EXPORT, orr_command_export, NULL},
    {"evaluate", "plan", "up to 16 variants of a plan side by side",
     "--model mixtral-8x22b --hardware mi355x --gpus 32 --pp 4 --ep 8 --gbs 512 --seq 4096 "
     "--plans '[{\"mbs\": 2}, {\"vpp\": 2}]'",
     BELT_ARGS | ORR_ARGS_PLANS, orr_command_evaluate, NULL},
    {"explain", "plan", "where time and memory go, and which changes help most",
     "--model llama-3.1-8b --hardware h100 --gpus 8 --cp 2 --mbs 1 --gbs 128 --seq 8192", BELT_ARGS,
     orr_command_explain, NULL},
    {"neighbors", "plan", "every legal plan one step away, the fastest first",
     "--model llama-3.1-8b --hardware h100 --gpus 8 --cp 2 --mbs 1 --gbs 128 --seq 8192",
     BELT_ARGS | ORR_ARGS_AXES, orr_command_neighbors, NULL},
    {"compare", "plan", "two plans: keys that differ, time and bytes by cause",
     "--model llama-3.1-8b --hardware h100 --gpus 8 --cp 2 --mbs 1 --gbs 128 --seq 8192 "
     "--with '{\"cp\": 1, \"recompute\": \"full\"}'",
     BELT_ARGS | ORR_ARGS_WITH, orr_command_compare, NULL},
    {"sensitivity", "plan", "how throughput moves with each figure of the machine",
     "--model llama-3.1-8b --hardware h100 --gpus 8 --cp 2 --mbs 1 --gbs 128 --seq 8192", BELT_ARGS,
     orr_command_sensitivity, NULL},
    {"model list", "catalog", "the models that are known by name", "", 0, orr_command_list,
     &orr_catalog_models},
    {"model show", "catalog", "a model's architecture and parameter counts", "llama-3.1-8b",
     ORR_ARGS_NAME, orr_command_show, &orr_catalog_models},
    {"hardware list", "catalog", "the accelerators that are known by name", "", 0, orr_command_list,
     &orr_catalog_hardware},
    {"hardware show", "catalog", "an accelerator's figures and their source", "h100", ORR_ARGS_NAME,
     orr_command_show, &orr_catalog_hardware},
    {"cluster list", "catalog", "the clusters that are known by name", "", 0, orr_command_list,
     &orr_catalog_clusters},
    {"cluster show", "catalog", "a cluster's tiers", "dgx-h100", ORR_ARGS_NAME, orr_command_show,
     &orr_catalog_clusters},
    {"software list", "catalog", "the software profiles that are known by name", "", 0,
     orr_command_list, &orr_catalog_software},
    {"software show", "catalog", "a software profile, value by value with its evidence",
     "megatron-core", ORR_ARGS_NAME, orr_command_show, &orr_catalog_software},
    {"fabric list", "catalog", "the fabrics that are known by name", "", 0, orr_command_list,
     &orr_catalog_fabrics},
    {"fabric show", "catalog", "what a fabric attains", "infiniband", ORR_ARGS_NAME,
     orr_command_show, &orr_catalog_fabrics},
    {"next", "evidence", "which of these plans to measure next, and what that is worth",
     "--model mixtral-8x22b --hardware mi355x --gpus 32 --gbs 96 --seq 4096 --pp 2 --ep 8 "
     "--plans '[{\"vpp\": 2, \"schedule\": \"zbv\"}, {\"vpp\": 4}, {\"pp\": 4, \"vpp\": 7}]'",
     BELT_ARGS | ORR_ARGS_PLANS | ORR_ARGS_MEASURED, orr_command_next, NULL},
    {"validate", "evidence",
     "how right the projections are: against published runs, counts and recorded schedules",
     "--runs data/validation/runs.csv --models data/validation/models.json "
     "--tiers data/validation/tiers.csv --anchored",
     ORR_ARGS_STUDY | ORR_ANSWER_FLAT, orr_command_validate, NULL},
    {"measure", "evidence", "what of a plan the devices at hand can run, and how long it takes",
     "--plan plan.yaml --gpus 1 --dry-run", ORR_ARGS_MEASURE, orr_command_measure, NULL},
    {"evidence show", "evidence", "what files of measurements hold, and for which device",
     "b200.json", ORR_ARGS_EVIDENCE | ORR_ARGS_FILE, orr_command_evidence_show, NULL},
    {"evidence merge", "evidence", "one file of measurements from several, by device",
     "a.json b.csv.gz --write machine.json", ORR_ARGS_EVIDENCE | ORR_ARGS_FILE,
     orr_command_evidence_merge, NULL},
    {"calibrate", "evidence", "fit what no document states to published runs, stage by stage",
     "--runs data/validation/runs.csv --models data/validation/models.json "
     "--tiers data/validation/tiers.csv --stage nanotron",
     ORR_ARGS_FITTING, orr_command_calibrate, NULL},
    {"cost", "evidence", "how long one kernel or collective takes, and why; or each row of a table",
     "gemm --m 8192 --n 8192 --k 8192 --hardware h100", ORR_ARGS_COST | ORR_ARGS_EVIDENCE,
     orr_command_cost, NULL},
    {"llm doctor", "about", "does a language model's endpoint answer, stream, count and call tools",
     "--llm http://localhost:8080/v1 --llm-model NAME", ORR_ARGS_DOCTOR, orr_command_llm_doctor,
     NULL},
    {"rules", "about", "every legality rule", "", 0, orr_command_rules, NULL},
    {"schema", "about", "JSON Schema of a command's arguments", "project", ORR_ARGS_NAME,
     orr_command_schema, NULL},
    {NULL, NULL, NULL, NULL, 0, NULL, NULL},
};

typedef enum field_place { AS_FLAG, FIRST, REQUIRED_FIRST, REQUIRED_FLAG } field_place;

static orr_tree *add_field(orr_arena *arena, orr_tree *fields, const char *name, const char *type,
                           field_place place, const char *doc) {
    orr_tree *field = orr_tree_push(arena, fields, orr_tree_new_map(arena));
    orr_tree_put_text(arena, field, "name", name);
    orr_tree_put_text(arena, field, "type", type);
    if (place == FIRST || place == REQUIRED_FIRST) {
        orr_tree_put_bool(arena, field, "positional", true);
    }
    orr_tree_put_bool(arena, field, "required", place == REQUIRED_FIRST || place == REQUIRED_FLAG);
    orr_tree_put_text(arena, field, "doc", doc);
    return field;
}

/* Fields of commands that take no plan, and have all theirs from one place; NULL: another. */
static orr_tree *own_fields(orr_arena *arena, uint32_t args) {
    static const struct {
        uint32_t args;
        orr_tree *(*fields)(orr_arena *);
        bool evidence;
    } own[] = {{ORR_ARGS_MEASURE, orr_measure_fields, false},
               {ORR_ARGS_STUDY, orr_validate_fields, true},
               {ORR_ARGS_FITTING, orr_calibrate_fields, false},
               {ORR_ARGS_COST, orr_cost_fields, true}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if ((args & own[i].args) != 0) {
            orr_tree *fields = own[i].fields(arena);
            if (own[i].evidence) {
                orr_evidence_arguments(arena, fields);
            }
            return fields;
        }
    }
    return NULL;
}

static void add_files(orr_arena *arena, orr_tree *fields, uint32_t args) {
    bool plan = (args & ORR_ARGS_PLAN) != 0;
    if ((args & ORR_ARGS_FILE) != 0 && (args & ORR_ARGS_EVIDENCE) != 0 && !plan) {
        orr_tree *files =
            add_field(arena, fields, "file", "text", REQUIRED_FIRST,
                      "files of evidence, one after the other or separated by commas");
        orr_tree_put_bool(arena, files, "repeat", true);
        (void)add_field(arena, fields, "write", "text", AS_FLAG,
                        "write the merged evidence to this path; .sqlite and .db make a database");
    } else if (plan || (args & ORR_ARGS_FILE) != 0) {
        (void)add_field(
            arena, fields, "file", "text", plan ? FIRST : REQUIRED_FIRST,
            "launch script, framework's configuration, or plan file (docs/importing.md); "
            "options override it");
        (void)add_field(
            arena, fields, "release", "text", AS_FLAG,
            "of the framework that FILE is for, where its defaults changed; default: the "
            "newest");
        if (!plan) {
            (void)add_field(arena, fields, "write", "text", AS_FLAG,
                            "write the cluster file of a topology, or the evidence of a table of "
                            "collectives, to this path");
        }
    }
}

static void copy_fields(orr_arena *arena, const orr_tree *from, orr_tree *fields) {
    for (size_t i = 0; i < orr_tree_size(from); i++) {
        (void)orr_tree_push(arena, fields, orr_tree_copy(arena, orr_tree_at(from, i)));
    }
}

static void add_tune(orr_arena *arena, orr_tree *fields) {
    copy_fields(arena, orr_tune_fields(arena), fields);
}

static void add_llm(orr_arena *arena, orr_tree *fields) {
    copy_fields(arena, orr_llm_fields(arena, false), fields);
}

static void add_doctor(orr_arena *arena, orr_tree *fields) {
    copy_fields(arena, orr_llm_fields(arena, true), fields);
}

/* What goes with arguments of a command: a group of fields, or one. */
static const struct {
    uint32_t args; /* any of them */
    void (*group)(orr_arena *, orr_tree *);
    const char *name, *type;
    field_place place;
    const char *doc;
} additions[] = {
    {.args = ORR_ARGS_EXPORT, .group = orr_export_arguments},
    {ORR_ARGS_CHECK, NULL, "strict", "bool", AS_FLAG,
     "exit with 4 when there is any finding, not only when the plan cannot run"},
    {.args = ORR_ARGS_TUNE, .group = add_tune},
    {.args = ORR_ARGS_SCHEDULE, .group = orr_schedule_arguments},
    {.args = ORR_ARGS_LLM, .group = add_llm},
    {.args = ORR_ARGS_DOCTOR, .group = add_doctor},
    {ORR_ARGS_ANCHOR, NULL, "anchor", "text", AS_FLAG,
     "a measured run, which corrects compute by one factor: a figure (10080, "
     "412TFLOP/s/GPU, 5.1s, 2200tok/s/GPU), with @GPUS where it ran the same plan at "
     "another scale (gbs/dp kept); or the log of a run"},
    {ORR_ARGS_TRAINING | ORR_ARGS_CHECK, NULL, "log", "text", AS_FLAG,
     "log, trace or memory snapshot of a run of this plan: where it falls short of the "
     "projection, and what would explain it"},
    {.args = ORR_ARGS_TRAINING, .group = orr_training_arguments},
    {ORR_ARGS_TRAINING, NULL, "svg", "text", AS_FLAG,
     "write where the peak goes, cause by cause, as SVG to this path"},
    {ORR_ARGS_LEDGER, NULL, "rank", "text", AS_FLAG,
     "pipeline rank whose bytes are listed one by one, 'worst' or 'all'"},
    {ORR_ARGS_LEDGER, NULL, "timeline", "bool", AS_FLAG,
     "bytes along the order of the step (of rank, else of all); with --json the output "
     "is a trace that Perfetto opens"},
    {ORR_ARGS_LEDGER, NULL, "min_gpus", "bool", AS_FLAG,
     "the fewest GPUs on which this split fits, or why there are none"},
    {ORR_ARGS_LEDGER, NULL, "replay", "bool", AS_FLAG,
     "play the rank's allocations (of rank, else the worst) through a model of the "
     "caching allocator: fragmentation, the first step, saving a checkpoint"},
    {ORR_ARGS_PLANS, NULL, "plans", "maps", REQUIRED_FLAG,
     "list of 1 to 16 maps of the plan keys that differ from the base; as text: JSON "
     "or YAML, or the path of a file that holds it"},
    {ORR_ARGS_MEASURED, NULL, "measured", "maps", AS_FLAG,
     "list of {plan, tokens_per_s_per_gpu} that were measured, plan as in plans; 0 "
     "tokens: it ran out of memory; as text or file like plans"},
    {ORR_ARGS_AXES, NULL, "axes", "texts", AS_FLAG,
     "plan keys to move, such as tp,vpp; default: all that leave numerics alone"},
    {ORR_ARGS_WITH, NULL, "with", "map", REQUIRED_FLAG,
     "map of the plan keys in which the other plan differs; as text: JSON or YAML, or "
     "the path of a file that holds it"},
};

orr_tree *orr_command_fields(orr_arena *arena, const orr_command *command) {
    uint32_t args = command->args;
    orr_tree *fields = own_fields(arena, args);
    if (fields != NULL) {
        return fields;
    }
    fields = (args & ORR_ARGS_PLAN) != 0 ? orr_plan_fields(arena) : orr_tree_new_list(arena);
    if ((args & ORR_ARGS_NAME) != 0) {
        (void)add_field(arena, fields, "name", "text", REQUIRED_FIRST,
                        "name in the catalog, or a file by its path");
    }
    if ((args & ORR_ARGS_EVIDENCE) != 0) {
        orr_evidence_arguments(arena, fields);
    }
    add_files(arena, fields, args);
    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++) {
        if ((args & additions[i].args) != 0 && additions[i].group != NULL) {
            additions[i].group(arena, fields);
        } else if ((args & additions[i].args) != 0) {
            (void)add_field(arena, fields, additions[i].name, additions[i].type, additions[i].place,
                            additions[i].doc);
        }
    }
    return fields;
}

orr_tree *orr_commands(orr_ctx *ctx, orr_arena *arena) {
    (void)ctx;
    orr_tree *list = orr_tree_new_list(arena);
    for (const orr_command *c = orr_command_table; c->name != NULL; c++) {
        orr_tree *map = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, map, "name", c->name);
        orr_tree_put_text(arena, map, "group", c->group);
        orr_tree_put_text(arena, map, "summary", c->summary);
        orr_tree_put_text(arena, map, "example", c->example);
        (void)orr_tree_put(arena, map, "fields", orr_command_fields(arena, c));
    }
    return list;
}
