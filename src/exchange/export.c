/* Plans into the words of frameworks: the formats, what an export cannot tell, and what to change
 * in a file. */
#include "exchange/export.h"

#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "exchange/dialect.h"
#include "exchange/foreign.h"

enum { MAX_DEGREE = 1 << 20 };

/* ---- formats -------------------------------------------------------------------------------- */

typedef struct export_format {
    const char *name;
    const char *imported; /* what importers call it, words */
    const char *file;     /* a name by which it is read back */
    const foreign_format *tree;
    const dialect *words;
} export_format;

static const export_format formats[] = {
    {"megatron-lm", "megatron-script megatron-yaml", "export.sh", NULL, NULL},
    {"primus", "primus", "export.yaml", NULL, &orr_dialect_primus},
    {"megatron-bridge", "megatron-bridge", "export.yaml", NULL, &orr_dialect_bridge},
    {"torchtitan", "torchtitan", "export.toml", &orr_foreign_torchtitan, NULL},
    {"deepspeed", "deepspeed-json", "export.json", &orr_foreign_deepspeed, NULL},
    {"nanotron", "nanotron-yaml", "export.yaml", &orr_foreign_nanotron, NULL},
};
enum { FORMATS = sizeof formats / sizeof *formats };

const char *const *orr_export_formats(void) {
    static const char *const names[] = {
        "megatron-lm", "primus", "megatron-bridge", "torchtitan", "deepspeed", "nanotron", NULL};
    return names;
}

static const export_format *find_format(const char *name) {
    for (size_t i = 0; i < FORMATS; i++) {
        if (orr_name_equal(formats[i].name, name)) {
            return &formats[i];
        }
    }
    return NULL;
}

static orr_status no_format(const char *name, orr_err *err) {
    (void)orr_fail(err, ORR_E_NAME, "plans are not written as '%.60s'", name);
    int near = orr_name_nearest(name, orr_export_formats(), FORMATS);
    orr_hint(err,
             "%s%s%sthe formats are megatron-lm, primus, megatron-bridge, torchtitan, deepspeed, "
             "nanotron",
             near < 0 ? "" : "did you mean '", near < 0 ? "" : orr_export_formats()[near],
             near < 0 ? "" : "'? ");
    return ORR_E_NAME;
}

const char *orr_export_format_of(const char *format) {
    for (size_t i = 0; i < FORMATS; i++) {
        for (const char *p = formats[i].imported; *p != '\0';) {
            size_t n = strcspn(p, " ");
            if (strlen(format) == n && memcmp(format, p, n) == 0) {
                return formats[i].name;
            }
            p += n + (p[n] != '\0');
        }
    }
    return NULL;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Numbers that came as text ("8", "8k") as numbers; what is no number is an error. */
static orr_status number_key(orr_arena *arena, orr_tree *keys, const char *name, orr_err *err) {
    const orr_tree *value = orr_tree_get(keys, name);
    if (orr_tree_kind_of(value) == ORR_TREE_NULL) {
        return ORR_OK;
    }
    int64_t number = orr_tree_int(value, -1);
    const char *text = orr_tree_text(value, NULL);
    size_t n = text != NULL ? strlen(text) : 0;
    bool thousands = n > 1 && n < 12 && (text[n - 1] == 'k' || text[n - 1] == 'K');
    if (thousands && orr_parse_int(orr_arena_copy(arena, text, n - 1), &number)) {
        number = number >= 0 && number <= MAX_DEGREE ? number * 1024 : -1;
    } else if (text != NULL && !orr_parse_int(text, &number)) {
        number = -1;
    }
    if (number < 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(value), "\"%s\" must be a whole number",
                           name);
    }
    orr_tree_put_int(arena, keys, name, number);
    return ORR_OK;
}

static int64_t of(const orr_tree *keys, const char *name, int64_t otherwise) {
    return orr_tree_int(orr_tree_get(keys, name), otherwise);
}

/* What follows from other keys: gpus, nodes, dp, and the batch either way. */
static void derive(orr_arena *arena, orr_tree *keys) {
    int64_t gpus = of(keys, "gpus", 0), nodes = of(keys, "nodes", 0);
    int64_t each = of(keys, "gpus_per_node", 0);
    if (gpus == 0 && nodes > 0 && each > 0) {
        gpus = orr_foreign_product((const int64_t[]){nodes, each}, 2);
        orr_tree_put_int(arena, keys, "gpus", gpus);
    }
    int64_t split = orr_foreign_product(
        (const int64_t[]){of(keys, "tp", 1), of(keys, "pp", 1), of(keys, "cp", 1)}, 3);
    int64_t dp = of(keys, "dp", 0), mbs = of(keys, "mbs", 1);
    if (dp == 0 && gpus > 0 && split > 0 && gpus % split == 0) {
        dp = gpus / split;
        orr_tree_put_int(arena, keys, "dp", dp);
    }
    int64_t gbs = of(keys, "gbs", 0), steps = of(keys, "micro_batches", 0);
    int64_t once = orr_foreign_product((const int64_t[]){dp, mbs}, 2);
    if (gbs == 0 && steps > 0 && once > 0) {
        gbs = orr_foreign_product((const int64_t[]){once, steps}, 2);
        if (gbs > 0) {
            orr_tree_put_int(arena, keys, "gbs", gbs);
        }
    } else if (steps == 0 && once > 0 && gbs > 0 && gbs % once == 0) {
        orr_tree_put_int(arena, keys, "micro_batches", gbs / once);
    }
}

static orr_status start(orr_arena *arena, const orr_tree *keys, const orr_tree *card, exporter *x,
                        orr_err *err) {
    static const char *const numbers[] = {"tp",
                                          "pp",
                                          "cp",
                                          "ep",
                                          "etp",
                                          "vpp",
                                          "mbs",
                                          "gbs",
                                          "gpus",
                                          "nodes",
                                          "first_layers",
                                          "last_layers",
                                          "group",
                                          "seq",
                                          "shard_group",
                                          "gpus_per_node",
                                          "micro_batches",
                                          "dp",
                                          "offload_layers"};
    if (orr_tree_kind_of(keys) != ORR_TREE_MAP) {
        return orr_fail(err, ORR_E_SCHEMA, "an export needs a map of plan keys");
    }
    orr_tree *own = orr_tree_copy(arena, keys);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ORR_TRY(number_key(arena, own, numbers[i], err));
    }
    derive(arena, own);
    const orr_tree *model = orr_tree_get(own, "model");
    bool is_card = orr_tree_kind_of(model) == ORR_TREE_MAP;
    *x = (exporter){.arena = arena,
                    .keys = own,
                    .model = is_card ? model : card,
                    .model_name = is_card ? orr_tree_text(orr_tree_get(model, "name"), "")
                                          : orr_tree_text(model, ""),
                    .out = orr_tree_new_map(arena),
                    .lost = orr_tree_new_list(arena)};
    return ORR_OK;
}

static const char *launcher(const exporter *x) {
    int64_t gpus = orr_export_number(x, "gpus", 0), nodes = orr_export_number(x, "nodes", 0);
    int64_t each = orr_export_number(x, "gpus_per_node", 0);
    if (gpus > 0 && nodes == 0) {
        nodes = each > 0 && gpus % each == 0 ? gpus / each : gpus % 8 == 0 ? gpus / 8 : 1;
    }
    if (gpus < 1 || nodes < 1 || gpus % nodes != 0) {
        return "";
    }
    return orr_arena_format(x->arena, "torchrun --nnodes %lld --nproc-per-node %lld",
                            (long long)nodes, (long long)(gpus / nodes));
}

/* ---- Primus --------------------------------------------------------------------------------- */

/* Variables that its shipped experiments read (${PRIMUS_TP:1} and alike). */
static const char *const variables[][2] = {
    {"PRIMUS_TP", "tensor-model-parallel-size"},
    {"PRIMUS_PP", "pipeline-model-parallel-size"},
    {"PRIMUS_VPP", "num-virtual-stages-per-pipeline-rank"},
    {"PRIMUS_CP", "context-parallel-size"},
    {"PRIMUS_EP", "expert-model-parallel-size"},
    {"PRIMUS_ETP", "expert-tensor-parallel-size"},
    {"PRIMUS_SEQ_LENGTH", "seq-length"},
    {"PRIMUS_PP_LAYOUT", "pipeline-model-parallel-layout"},
    {"PRIMUS_RECOMPUTE_LAYERS", "recompute-num-layers"},
    {"MBS", "micro-batch-size"},
    {"GBS", "global-batch-size"},
};

static const char *primus_env(exporter *x, const orr_tree *arguments) {
    orr_text text = orr_text_new(x->arena, 1 << 16);
    orr_text_add(&text, "");
    int64_t gpus = orr_export_number(x, "gpus", 0), nodes = orr_export_number(x, "nodes", 0);
    nodes = nodes == 0 && gpus > 0 && gpus % 8 == 0 ? gpus / 8 : nodes;
    if (nodes > 0 && gpus > 0 && gpus % nodes == 0) {
        orr_text_format(&text, "NNODES=%lld\nGPUS_PER_NODE=%lld\n", (long long)nodes,
                        (long long)(gpus / nodes));
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const orr_tree *value = orr_tree_get(arguments, variables[i][1]);
        if (value != NULL) {
            const char *shown = orr_tree_scalar(x->arena, value);
            bool quote = strpbrk(shown, "|()*") != NULL;
            orr_text_format(&text, quote ? "%s='%s'\n" : "%s=%s\n", variables[i][0], shown);
        }
    }
    return orr_text_done(&text);
}

static void primus_head(exporter *x) {
    orr_export_text(x, "modules.pre_trainer.framework", "megatron");
    orr_export_text(x, "modules.pre_trainer.config", "pre_trainer.yaml");
    const char *name = x->model_name[0] != '\0' ? x->model_name : "model";
    orr_export_text(x, "modules.pre_trainer.model",
                    strchr(name, '.') != NULL && strstr(name, ".yaml") != NULL
                        ? name
                        : orr_arena_format(x->arena, "%s.yaml", name));
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Says what Megatron-LM does by default where the framework does something else. */
static void add_defaults(exporter *x, const dialect *d) {
    for (size_t i = 0; i < d->default_count; i++) {
        const char *name = d->defaults[i][0];
        const megatron_arg *arg = orr_megatron_find(name);
        double number;
        bool written = orr_dialect_path(x->arena, d, name)[0] != '\0';
        if (arg == NULL || arg->fallback == NULL || orr_tree_get(x->out, name) != NULL ||
            !written) {
            continue;
        }
        if (arg->kind == MEGATRON_FLAG) {
            orr_export_flag(x, name, arg->fallback[0] == 't');
        } else if (arg->kind == MEGATRON_REAL && orr_parse_real(arg->fallback, &number)) {
            orr_export_set(x, name, orr_tree_new_real(x->arena, number));
        }
    }
}

/* Arguments, or settings by path; and what they would be called in the environment. */
static const orr_tree *fill(exporter *x, const export_format *format, const char **env) {
    *env = "";
    if (format->tree != NULL) {
        orr_foreign_export(x, format->tree);
        return x->out;
    }
    x->primus = format->words == &orr_dialect_primus;
    orr_export_fill_megatron(x);
    if (format->words == NULL) {
        return x->out;
    }
    add_defaults(x, format->words);
    const orr_tree *arguments = x->out;
    x->out = orr_tree_new_map(x->arena);
    if (x->primus) {
        primus_head(x);
        *env = primus_env(x, arguments);
    }
    orr_dialect_spell(x, format->words, arguments);
    return arguments;
}

static char *render(const exporter *x, const export_format *format) {
    size_t n = strlen(format->file);
    if (format->tree == NULL && format->words == NULL) {
        return orr_render_flags(x->arena, x->out);
    }
    if (strcmp(format->file + n - 4, "json") == 0) {
        orr_text text = orr_text_new(x->arena, 1 << 20);
        orr_json_write(&text, x->out, true);
        orr_text_add(&text, "\n");
        return orr_text_done(&text);
    }
    return strcmp(format->file + n - 4, "toml") == 0 ? orr_render_toml(x->arena, x->out)
                                                     : orr_render_yaml(x->arena, x->out);
}

/* ---- what is lost --------------------------------------------------------------------------- */

/* A value as one text, so that "on" is true, [dp, tp] is "tp,dp", and none is an empty list. */
static const char *normal(orr_arena *arena, const orr_tree *value) {
    static const char *const words[] = {"tp", "dp", "pp", "ep", "hidden", "attention"};
    if (orr_tree_kind_of(value) == ORR_TREE_LIST || orr_tree_kind_of(value) == ORR_TREE_MAP) {
        orr_text text = orr_text_new(arena, 4096);
        orr_text_add(&text, "");
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            for (size_t i = 0; i < orr_tree_size(value); i++) {
                bool same = strcmp(orr_tree_text(orr_tree_at(value, i), ""), words[w]) == 0;
                if (same) {
                    orr_text_format(&text, "%s%s", text.length > 0 ? "," : "", words[w]);
                }
            }
        }
        if (text.length == 0 && orr_tree_size(value) > 0) {
            orr_json_write(&text, value, false);
        }
        return text.length > 0 ? orr_text_done(&text) : "none";
    }
    const char *text = orr_tree_scalar(arena, value);
    if (strcmp(text, "on") == 0 || strcmp(text, "off") == 0) {
        return text[1] == 'n' ? "true" : "false";
    }
    return text;
}

/* Keys that say where a plan runs, or that others imply: no framework holds them. */
static bool is_outside(const exporter *x, const char *key) {
    static const char *const names[] = {
        "hardware",      "cluster", "fabric", "nic",       "software",      "gpus", "nodes",
        "gpus_per_node", "dp",      "model",  "placement", "micro_batches", "gbs",  "param_dtype"};
    static const char *const experts[] = {"ep", "etp", "dispatch", "imbalance", "capacity"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(key, names[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof experts / sizeof *experts && !orr_export_has_experts(x); i++) {
        if (strcmp(key, experts[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a value says what absence says. */
static bool is_nothing(const exporter *x, const char *key, const char *value) {
    if (strcmp(key, "p2p") == 0) { /* the schedule's own */
        bool chunks = orr_export_number(x, "vpp", 1) > 1;
        return strcmp(value, chunks ? "overlap" : "blocking") == 0;
    }
    if (strcmp(key, "attention") == 0 || strcmp(key, "loss") == 0) { /* the framework's own */
        return strcmp(value, "flash") == 0 || strcmp(value, "native") == 0 ||
               strcmp(value, "eager") == 0;
    }
    static const char *const ones[] = {"tp", "pp", "cp", "ep", "etp", "vpp"};
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
        if (strcmp(key, ones[i]) == 0) {
            return strcmp(value, "1") == 0;
        }
    }
    bool zero = strcmp(value, "0") == 0 || strcmp(value, "none") == 0 || value[0] == '\0';
    bool usual = strcmp(value, "fp32") == 0 || strcmp(value, "even") == 0 ||
                 strcmp(value, "balanced") == 0 || strcmp(value, "false") == 0 ||
                 strcmp(value, "auto") == 0;
    return zero || (usual && strcmp(key, "grad_dtype") != 0 && strcmp(key, "param_dtype") != 0);
}

static bool is_lost(const exporter *x, const char *key) {
    for (size_t i = 0; i < orr_tree_size(x->lost); i++) {
        if (strcmp(orr_tree_text(orr_tree_get(orr_tree_at(x->lost, i), "key"), ""), key) == 0) {
            return true;
        }
    }
    return false;
}

/* Reads the text back: a key that does not return is lost, whatever the tables hold. */
static void check_back(exporter *x, const export_format *format, const char *text) {
    bool script = format->tree == NULL && format->words == NULL;
    orr_import back = {0};
    orr_err ignored = {0};
    const char *head = launcher(x);
    orr_text whole = orr_text_new(x->arena, 2 << 20);
    if (script) {
        char *one = orr_arena_text(x->arena, text);
        for (char *p = one; *p != '\0'; p++) {
            *p = *p == '\n' ? ' ' : *p;
        }
        orr_text_format(&whole, "%s pretrain_gpt.py %s", head[0] != '\0' ? head : "torchrun", one);
        orr_text_add(&whole, "\n");
    } else {
        orr_text_add(&whole, text);
    }
    const char *file = orr_text_done(&whole);
    if (orr_import_text(x->arena, format->file, file, strlen(file), &back, &ignored) != ORR_OK) {
        back.keys = NULL; /* too little for anyone to know it by: nothing comes back */
    }
    for (size_t i = 0; i < orr_tree_size(x->keys); i++) {
        const char *key = orr_tree_key(x->keys, i);
        if (is_outside(x, key) || is_lost(x, key) ||
            orr_tree_kind_of(orr_tree_at(x->keys, i)) == ORR_TREE_NULL) {
            continue;
        }
        const char *asked = normal(x->arena, orr_tree_at(x->keys, i));
        const orr_tree *node = orr_tree_get(back.keys, key);
        const char *got = normal(x->arena, node);
        if (node == NULL ? !is_nothing(x, key, asked) : strcmp(asked, got) != 0) {
            orr_export_lose(
                x, key, asked,
                node == NULL
                    ? "no setting says it"
                    : orr_arena_format(x->arena, "no setting says it: it is %.60s there", got));
        }
    }
}

orr_status orr_export_plan(orr_arena *arena, const char *name, const orr_tree *keys,
                           const orr_tree *card, orr_export *out, orr_err *err) {
    exporter x;
    const export_format *format = find_format(name);
    if (format == NULL) {
        return no_format(name, err);
    }
    ORR_TRY(start(arena, keys, card, &x, err));
    const char *env;
    (void)fill(&x, format, &env);
    const char *text = render(&x, format);
    check_back(&x, format, text);
    const char *overrides =
        format->words == &orr_dialect_bridge      ? orr_render_overrides(arena, x.out, "")
        : format->tree == &orr_foreign_torchtitan ? orr_render_overrides(arena, x.out, "--")
                                                  : "";
    *out = (orr_export){.format = format->name,
                        .launcher = launcher(&x),
                        .text = text,
                        .overrides = overrides,
                        .env = env,
                        .lost = x.lost};
    return ORR_OK;
}

/* ---- changes -------------------------------------------------------------------------------- */

static void flatten(orr_arena *arena, const orr_tree *map, const char *prefix, orr_tree *flat) {
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const orr_tree *value = orr_tree_at(map, i);
        const char *key = orr_tree_key(map, i);
        const char *path = prefix[0] == '\0' ? key : orr_arena_format(arena, "%s.%s", prefix, key);
        if (orr_tree_kind_of(value) == ORR_TREE_MAP) {
            flatten(arena, value, path, flat);
        } else {
            orr_tree_put(arena, flat, path, orr_tree_copy(arena, value));
        }
    }
}

/* Settings by path that keys ask for, and the Megatron-LM arguments that a dialect spells. */
static orr_status settings_of(orr_arena *arena, const export_format *format, const orr_tree *keys,
                              orr_tree **flat, const orr_tree **arguments, const orr_tree **whole,
                              orr_err *err) {
    exporter x;
    const char *env;
    ORR_TRY(start(arena, keys, NULL, &x, err));
    *arguments = fill(&x, format, &env);
    *whole = x.keys;
    *flat = orr_tree_new_map(arena);
    flatten(arena, x.out, "", *flat);
    return ORR_OK;
}

static const char *line_text(orr_arena *arena, const char *text, int64_t line) {
    while (line > 1 && *text != '\0') {
        line -= *text++ == '\n';
    }
    text += strspn(text, " \t");
    return line == 1 ? orr_arena_copy(arena, text, strcspn(text, "\r\n")) : "";
}

/* The last of the settings that the file states under a canonical name, or by that name. */
static const orr_tree *find_stated(const orr_import *input, const char *canonical) {
    const orr_tree *found = NULL;
    for (size_t i = 0; i < orr_tree_size(input->stated); i++) {
        const orr_tree *one = orr_tree_at(input->stated, i);
        if (strcmp(orr_tree_text(orr_tree_get(one, "canonical"), ""), canonical) == 0 ||
            strcmp(orr_tree_text(orr_tree_get(one, "name"), ""), canonical) == 0) {
            found = one;
        }
    }
    return found;
}

static const char *base_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL ? dot + 1 : path;
}

/* The setting in the file's syntax. */
static const char *spell(orr_arena *arena, const export_format *format, const orr_import *input,
                         const char *canonical, const char *name, const orr_tree *value) {
    bool script = strcmp(input->format, "megatron-script") == 0;
    if (script) {
        orr_tree *one = orr_tree_new_map(arena);
        orr_tree_put(arena, one, canonical, orr_tree_copy(arena, value));
        char *flag = orr_render_flags(arena, one);
        size_t n = strlen(flag);
        return orr_arena_copy(arena, flag, n > 0 ? n - 1 : 0);
    }
    const char *path = name != NULL            ? name
                       : format->words != NULL ? orr_dialect_path(arena, format->words, canonical)
                                               : canonical;
    const char *shown = orr_render_value(arena, value);
    if (format->tree == &orr_foreign_deepspeed) {
        orr_text text = orr_text_new(arena, 1 << 16);
        orr_text_format(&text, "\"%s\": ", base_name(path));
        orr_json_write(&text, value, false);
        return orr_text_done(&text);
    }
    if (format->tree == &orr_foreign_torchtitan) {
        orr_text text = orr_text_new(arena, 1 << 16);
        orr_text_format(&text, "%s = ", base_name(path));
        orr_json_write(&text, value, false);
        return orr_text_done(&text);
    }
    return orr_arena_format(arena, "%s: %s", base_name(path), shown);
}

typedef struct diff {
    orr_arena *arena;
    const export_format *format;
    const orr_import *input;
    const orr_tree *keys;         /* as they shall be */
    const orr_tree *arguments[2]; /* of a dialect, before and after */
    const char *text;             /* of the file */
    orr_tree *changes;
} diff;

static const char *show(orr_arena *arena, const orr_tree *value) {
    return value == NULL ? "" : orr_render_value(arena, value);
}

/* The argument that a dialect's path stands for; the path itself where it stands for none. */
static const char *argument_of(const diff *d, const char *path) {
    for (size_t side = 0; side < 2 && d->format->words != NULL; side++) {
        for (size_t i = 0; i < orr_tree_size(d->arguments[side]); i++) {
            const char *name = orr_tree_key(d->arguments[side], i);
            if (strcmp(orr_dialect_path(d->arena, d->format->words, name), path) == 0) {
                return name;
            }
        }
    }
    return path;
}

/* Two ways to say virtual stages: a file keeps its own. */
static const orr_tree *as_stated(const diff *d, const char **canonical, const orr_tree *to) {
    static const char other[] = "num-layers-per-virtual-pipeline-stage";
    bool stages = strcmp(*canonical, "num-virtual-stages-per-pipeline-rank") == 0;
    if (!stages || find_stated(d->input, other) == NULL) {
        return to;
    }
    *canonical = other;
    int64_t pp = of(d->keys, "pp", 1), vpp = of(d->keys, "vpp", 1);
    int64_t layers = of(orr_tree_get(d->keys, "model"), "layers", 0);
    int64_t chunks = orr_foreign_product((const int64_t[]){pp, vpp}, 2);
    bool whole = to != NULL && chunks > 0 && layers > 0 && layers % chunks == 0;
    return whole ? orr_tree_new_int(d->arena, layers / chunks) : NULL;
}

static void change(const diff *d, const char *key, const orr_tree *from, const orr_tree *to) {
    const char *canonical = argument_of(d, key), *asked = canonical;
    to = as_stated(d, &canonical, to);
    if (asked != canonical) {
        from = NULL; /* as it stands */
    }
    const orr_tree *stated = find_stated(d->input, canonical);
    if (stated == NULL && to == NULL) {
        return; /* it was there by default only */
    }
    from = from != NULL ? from : orr_tree_get(stated, "value");
    int64_t line = orr_tree_int(orr_tree_get(stated, "line"), 0);
    const char *name = orr_tree_text(orr_tree_get(stated, "name"), NULL);
    bool script = strcmp(d->input->format, "megatron-script") == 0;
    const char *path = name != NULL && !script ? name : NULL;
    orr_tree *entry = orr_tree_push(d->arena, d->changes, orr_tree_new_map(d->arena));
    const char *shown = path != NULL ? path
                        : script     ? orr_arena_format(d->arena, "--%s", canonical)
                        : d->format->words != NULL && orr_megatron_find(canonical) != NULL
                            ? orr_dialect_path(d->arena, d->format->words, canonical)
                            : canonical;
    orr_tree_put_int(d->arena, entry, "line", line);
    orr_tree_put_text(d->arena, entry, "name", shown);
    orr_tree_put_text(d->arena, entry, "from", show(d->arena, from));
    orr_tree_put_text(d->arena, entry, "to", show(d->arena, to));
    orr_tree_put_text(d->arena, entry, "was", line > 0 ? line_text(d->arena, d->text, line) : "");
    orr_tree_put_text(d->arena, entry, "before",
                      from == NULL || line == 0
                          ? ""
                          : spell(d->arena, d->format, d->input, canonical, path, from));
    orr_tree_put_text(d->arena, entry, "now",
                      to == NULL ? "" : spell(d->arena, d->format, d->input, canonical, path, to));
}

orr_status orr_export_changes(orr_arena *arena, const char *path, const orr_import *input,
                              const orr_tree *keys, const orr_tree **changes, orr_err *err) {
    const char *name = orr_export_format_of(input->format);
    diff d = {.arena = arena, .input = input, .changes = orr_tree_new_list(arena)};
    orr_tree *before, *after;
    char *text = NULL;
    size_t length;
    if (name == NULL) {
        (void)orr_fail(err, ORR_E_NAME, "changes to a file of format %s cannot be written",
                       input->format);
        orr_hint(err, "they can for megatron-lm, primus, megatron-bridge, torchtitan, deepspeed, "
                      "nanotron");
        return ORR_E_NAME;
    }
    d.format = find_format(name);
    ORR_TRY(orr_file_read(arena, path, &text, &length, err));
    d.text = text;
    ORR_TRY(settings_of(arena, d.format, input->keys, &before, &d.arguments[0], &d.keys, err));
    ORR_TRY(settings_of(arena, d.format, keys, &after, &d.arguments[1], &d.keys, err));
    for (size_t i = 0; i < orr_tree_size(before); i++) {
        const char *key = orr_tree_key(before, i);
        const orr_tree *from = orr_tree_at(before, i), *to = orr_tree_get(after, key);
        if (to == NULL || strcmp(show(arena, from), show(arena, to)) != 0) {
            change(&d, key, from, to);
        }
    }
    for (size_t i = 0; i < orr_tree_size(after); i++) {
        const char *key = orr_tree_key(after, i);
        /* a batch that the file leaves to the framework would follow what changes: it is stated */
        const char *argument = argument_of(&d, key);
        bool implied = strcmp(argument, "global-batch-size") == 0 &&
                       find_stated(input, argument) == NULL && orr_tree_size(d.changes) > 0;
        if (orr_tree_get(before, key) == NULL || implied) {
            change(&d, key, NULL, orr_tree_at(after, i));
        }
    }
    *changes = d.changes;
    return ORR_OK;
}
