/* From the words of a published row to plan keys. What a word means depends on who wrote it:
 * data/study/rules.yaml holds those facts, matched by profile, framework, source or notes; a rule
 * says which software and fabric ran and what the source leaves unsaid. No rule names a model or a
 * figure. docs/internals/study.md. */
#include <math.h>
#include <string.h>

#include "base/embedded.h"
#include "base/err.h"
#include "base/text.h"
#include "doc/doc.h"
#include "study/study_int.h"

static orr_status read_rules(orr_arena *arena, const orr_tree **out, orr_err *err) {
    for (const orr_embedded *file = orr_embedded_files; file->path != NULL; file++) {
        if (strcmp(file->path, "study/rules.yaml") == 0) {
            orr_tree *root = NULL;
            ORR_TRY(orr_yaml_read(arena, file->path, file->bytes, file->length, &root, err));
            *out = orr_tree_get(root, "rules");
            return ORR_OK;
        }
    }
    return orr_fail(err, ORR_E_INTERNAL, "study/rules.yaml is not built in");
}

orr_status orr_curator_new(orr_arena *arena, const char *models, orr_curator *out, orr_err *err) {
    orr_tree *root = NULL;
    ORR_TRY(orr_doc_read_file(arena, models, &root, err));
    return orr_curator_of(arena, root, out, err);
}

orr_status orr_curator_of(orr_arena *arena, const orr_tree *models, orr_curator *out,
                          orr_err *err) {
    *out = (orr_curator){.arena = arena};
    if (orr_tree_kind_of(models) != ORR_TREE_MAP) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(models),
                           "a map from model names to architectures is expected");
    }
    out->models = models;
    ORR_TRY(read_rules(arena, &out->rules, err));
    out->cache = orr_plan_cache_new();
    return ORR_OK;
}

void orr_curator_release(orr_curator *curator) {
    orr_plan_cache_free(curator->cache);
    orr_map_release(&curator->cards);
    *curator = (orr_curator){0};
}

/* ---- matching ------------------------------------------------------------------------------- */

static bool holds(const orr_tree *rule, const char *key, const char *text) {
    const orr_tree *wanted = orr_tree_get(rule, key);
    if (wanted == NULL) {
        return true;
    }
    size_t count = orr_tree_kind_of(wanted) == ORR_TREE_LIST ? orr_tree_size(wanted) : 1;
    for (size_t i = 0; i < count; i++) {
        const orr_tree *one =
            orr_tree_kind_of(wanted) == ORR_TREE_LIST ? orr_tree_at(wanted, i) : wanted;
        if (strstr(text, orr_tree_text(one, "\n")) != NULL) {
            return true;
        }
    }
    return false;
}

static bool matches(const orr_tree *rule, const orr_run *run) {
    const orr_tree *when = orr_tree_get(rule, "when");
    const char *profile = orr_tree_text(orr_tree_get(when, "profile"), NULL);
    bool experts = orr_tree_bool(orr_tree_get(when, "experts"), run->ep > 1);
    return (profile == NULL || strcmp(profile, run->profile) == 0) && experts == (run->ep > 1) &&
           holds(when, "framework", run->framework) && holds(when, "source", run->source) &&
           holds(when, "notes", run->notes) && holds(when, "gpu", run->gpu);
}

orr_tree *orr_curate_facts(const orr_curator *curator, orr_arena *arena, const orr_run *run,
                           const char *heading) {
    orr_tree *all = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(curator->rules); i++) {
        const orr_tree *rule = orr_tree_at(curator->rules, i);
        const orr_tree *part = orr_tree_get(rule, heading);
        if (part == NULL || !matches(rule, run)) {
            continue;
        }
        for (size_t k = 0; k < orr_tree_size(part); k++) {
            (void)orr_tree_put(arena, all, orr_tree_key(part, k),
                               orr_tree_copy(arena, orr_tree_at(part, k)));
        }
    }
    return all;
}

/* ---- words ---------------------------------------------------------------------------------- */

typedef struct word {
    const char *from, *to;
} word;

static const char *translate(const word *words, size_t count, const char *text) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].from, text) == 0) {
            return words[i].to;
        }
    }
    return NULL;
}
#define TRANSLATE(words, text) translate(words, sizeof(words) / sizeof *(words), text)

static const word precisions[] = {
    {"bf16", "bf16"},
    {"fp16", "fp16"},
    {"fp16_or_bf16", "bf16"},
    {"fp8", "fp8"},
    {"fp8_cs", "fp8_cs"},
    {"fp8-rowwise", "fp8_cs"},
    {"fp8-tensorwise", "fp8_cs"},
    {"fp8_mx", "fp8_mx"},
    {"mxfp8", "fp8_mx"},
    {"fp8_blockwise", "fp8_blockwise"},
    {"nvfp4", "nvfp4"},
    {"", "bf16"},
};
static const word shardings[] = {
    {"none", "none"},   {"zero1", "zero1"},      {"zero1?", "zero1"},
    {"zero2", "zero2"}, {"zero3_fsdp", "zero3"}, {"fsdp", "zero3"},
    {"hsdp", "hsdp"},   {"zero3", "zero3"},      {"fsdp2", "fsdp2"},
};
static const word schedules[] = {
    {"1F1B", "1f1b"},
    {"interleaved-1F1B", "interleaved"},
    {"ZB-1p", "zb-1p"},
    {"ZB-2p", "zb-2p"},
    {"ZB-V", "zbv"},
    {"1F1B (DeepSpeed pipeline)", "1f1b"},
    {"GPipe", "gpipe"},
    {"V-Half", "v-half"},
    {"V-Min", "v-min"},
    {"ZB-H1", "zb-h1"},
    {"ZB-H2", "zb-h2"},
    {"DualPipe", "dualpipe"},
    {"DualPipeV", "dualpipev"},
    {"circular GPipe (scan)", "looped-bfs"},
};

/* "full(block,5 layers/stage)" and the like: n, or 0. */
static int block_layers(const char *text) {
    const char *block = strstr(text, "block");
    int n = 0;
    for (const char *p = block == NULL ? "" : block; *p != '\0'; p++) {
        if (*p >= '0' && *p <= '9' && n < 100000) {
            n = n * 10 + (*p - '0');
        } else if (n > 0) {
            break;
        }
    }
    return n;
}

static const char *recompute_of(orr_arena *arena, const char *text, const orr_tree *words) {
    const char *stated = orr_tree_text(orr_tree_get(words, text), NULL);
    if (stated != NULL) {
        return stated;
    }
    if (strncmp(text, "none", 4) == 0) {
        return "none";
    }
    if (block_layers(text) > 0) {
        return orr_arena_format(arena, "block:%d", block_layers(text));
    }
    if (strncmp(text, "full", 4) == 0) {
        return "full";
    }
    if (strcmp(text, "selective") == 0 || strncmp(text, "selective:", 10) == 0) {
        return orr_arena_text(arena, text);
    }
    return "unknown";
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* The card of a model by its name in models.json; NULL with a reason when it cannot be expressed.
 */
static orr_tree *card(orr_curator *curator, const char *name, const char **skipped) {
    size_t length = strlen(name);
    orr_tree *known = (orr_tree *)orr_map_get(&curator->cards, name, length + 1);
    if (known != NULL) {
        return known;
    }
    const orr_tree *entry = orr_tree_get(curator->models, name);
    if (entry == NULL) {
        *skipped = "the model's architecture is not given";
        return NULL;
    }
    orr_model *model = NULL;
    orr_err problem = {0};
    if (orr_model_read_measured(curator->arena, name, entry, &model, &problem) != ORR_OK) {
        *skipped = orr_arena_format(curator->arena, "model: %s", problem.message);
        return NULL;
    }
    known = orr_model_write(curator->arena, model);
    orr_map_put(&curator->cards, curator->arena, name, length + 1, known);
    return known;
}

static void put_number(orr_arena *arena, orr_tree *keys, const char *key, double value) {
    enum { MOST = 1 << 30 }; /* what no key takes stays a real, and the key's own range speaks */
    if (value > 0 && value <= MOST && value == floor(value)) {
        orr_tree_put_int(arena, keys, key, (int64_t)value);
    } else if (value > 0) {
        orr_tree_put_real(arena, keys, key, value);
    }
}

static const char *put_words(orr_arena *arena, const orr_run *run, const orr_tree *words,
                             orr_tree *keys) {
    const char *precision = TRANSLATE(precisions, run->precision);
    if (precision == NULL) {
        return orr_arena_format(arena, "precision '%s'", run->precision);
    }
    orr_tree_put_text(arena, keys, "precision", precision);
    if (run->sharding[0] != '\0') {
        const char *sharding = TRANSLATE(shardings, run->sharding);
        const char *stated = orr_tree_text(orr_tree_get(words, run->sharding), sharding);
        if (stated == NULL) {
            return orr_arena_format(arena, "sharding '%s'", run->sharding);
        }
        orr_tree_put_text(arena, keys, "sharding", stated);
    }
    if (run->recompute[0] != '\0') {
        orr_tree_put_text(arena, keys, "recompute", recompute_of(arena, run->recompute, words));
    }
    if (strcmp(run->seq_parallel, "true") == 0 || strcmp(run->seq_parallel, "false") == 0) {
        orr_tree_put_bool(arena, keys, "sp", strcmp(run->seq_parallel, "true") == 0);
    }
    if (run->schedule[0] != '\0' && strcmp(run->schedule, "none") != 0 && run->pp > 1) {
        const char *schedule = TRANSLATE(schedules, run->schedule);
        if (schedule == NULL) {
            return orr_arena_format(arena, "schedule '%s'", run->schedule);
        }
        orr_tree_put_text(arena, keys, "schedule", schedule);
    }
    return NULL;
}

static void put_all(orr_arena *arena, orr_tree *keys, const orr_tree *more, bool only_blank) {
    for (size_t i = 0; i < orr_tree_size(more); i++) {
        const char *key = orr_tree_key(more, i);
        if (!only_blank || orr_tree_get(keys, key) == NULL) {
            (void)orr_tree_put(arena, keys, key, orr_tree_copy(arena, orr_tree_at(more, i)));
        }
    }
}

orr_status orr_curate(orr_curator *curator, orr_arena *arena, const orr_run *run,
                      const orr_tree **out, const char **skipped, orr_err *err) {
    (void)err;
    *skipped = run->problem;
    *out = NULL;
    if (run->problem != NULL) {
        return ORR_OK;
    }
    orr_tree *model = card(curator, run->model, skipped);
    if (model == NULL) {
        return ORR_OK;
    }
    if (run->num_gpus <= 0 || run->seq_len <= 0) {
        *skipped = run->num_gpus <= 0 ? "num_gpus is not stated" : "seq_len is not stated";
        return ORR_OK;
    }
    orr_tree *keys = orr_tree_new_map(arena);
    (void)orr_tree_put(arena, keys, "model", model);
    orr_tree_put_text(arena, keys, "hardware", run->gpu);
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"gpus", run->num_gpus}, {"gpus_per_node", run->gpus_per_node},
                   {"seq", run->seq_len},   {"mbs", run->mbs},
                   {"gbs", run->gbs},       {"tp", run->tp},
                   {"pp", run->pp},         {"vpp", run->vpp},
                   {"ep", run->ep},         {"etp", run->etp},
                   {"cp", run->cp}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        put_number(arena, keys, numbers[i].key, numbers[i].value);
    }
    const char *problem =
        put_words(arena, run, orr_curate_facts(curator, arena, run, "words"), keys);
    if (problem != NULL) {
        *skipped = orr_arena_format(arena, "cannot be expressed: %s", problem);
        return ORR_OK;
    }
    put_all(arena, keys, orr_curate_facts(curator, arena, run, "set"), false);
    put_all(arena, keys, orr_curate_facts(curator, arena, run, "blank"), true);
    if (orr_tree_get(keys, "mbs") == NULL) {
        orr_tree_put_int(arena, keys, "mbs", 1);
    }
    *out = keys;
    return ORR_OK;
}
