/* The axes of a search: which keys may move, and to which values. */
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "belt/belt_int.h"

typedef enum axis_kind {
    AXIS_POWERS,    /* 1, 2, 4 ... up to the accelerators */
    AXIS_CHUNKS,    /* divisors of the layers of a pipeline rank */
    AXIS_CHOICE,    /* the values of the schema */
    AXIS_SWITCH,    /* false, true */
    AXIS_RECOMPUTE, /* none, selective, block:N in eighths of a chunk, full */
    AXIS_OVERLAP    /* none, one kind each, all */
} axis_kind;

typedef enum axis_use {
    USE_ALWAYS,
    USE_EXPERTS, /* only where the model has experts */
    USE_ASKED    /* changes what is computed, not only how: only when named */
} axis_use;

/* along: keys that lose their stated value when the axis moves, since they follow from it. */
static const struct {
    const char *key;
    axis_kind kind;
    axis_use use;
    const char *along[4];
} axes[] = {
    {"tp", AXIS_POWERS, USE_ALWAYS, {"sp", "etp"}},
    {"pp", AXIS_POWERS, USE_ALWAYS, {"layout", "first_layers", "last_layers"}},
    {"vpp", AXIS_CHUNKS, USE_ALWAYS, {"layout", "schedule", "p2p", "group"}},
    {"cp", AXIS_POWERS, USE_ALWAYS, {"cp_kind"}},
    {"ep", AXIS_POWERS, USE_EXPERTS, {"etp"}},
    {"etp", AXIS_POWERS, USE_EXPERTS, {NULL}},
    {"mbs", AXIS_POWERS, USE_ALWAYS, {NULL}},
    {"recompute", AXIS_RECOMPUTE, USE_ALWAYS, {NULL}},
    {"schedule", AXIS_CHOICE, USE_ALWAYS, {"p2p", "group", "memory_limit"}},
    {"sharding", AXIS_CHOICE, USE_ALWAYS, {"shard_group"}},
    {"dispatch", AXIS_CHOICE, USE_EXPERTS, {NULL}},
    {"overlap", AXIS_OVERLAP, USE_ALWAYS, {NULL}},
    {"sp", AXIS_SWITCH, USE_ALWAYS, {NULL}},
    {"cp_kind", AXIS_CHOICE, USE_ASKED, {NULL}},
    {"precision", AXIS_CHOICE, USE_ASKED, {"fp8_params"}},
    {"grad_dtype", AXIS_CHOICE, USE_ASKED, {NULL}},
    {"loss", AXIS_CHOICE, USE_ASKED, {NULL}},
};
enum { AXIS_COUNT = sizeof axes / sizeof *axes, MAX_VALUES = 32 };
_Static_assert((int)AXIS_COUNT <= (int)ORR_BELT_MAX_AXES, "room for every axis");

typedef struct scope {
    const orr_oracle *oracle;
    orr_arena *arena;
    const orr_tree *inputs;    /* of the resolved base */
    const orr_tree *schema;    /* properties of project's arguments */
    const orr_tree *schedules; /* that the software has; empty: all */
    int64_t gpus, layers;
    bool experts;
} scope;

/* ---- values --------------------------------------------------------------------------------- */

static void push_int(const scope *s, orr_tree *values, int64_t value) {
    (void)orr_tree_push(s->arena, values, orr_tree_new_int(s->arena, value));
}

static void push_text(const scope *s, orr_tree *values, const char *value) {
    (void)orr_tree_push(s->arena, values, orr_tree_new_text(s->arena, value));
}

static int64_t input_int(const scope *s, const char *key, int64_t otherwise) {
    return orr_tree_int(orr_tree_get(s->inputs, key), otherwise);
}

static void add_chunks(const scope *s, orr_tree *values) {
    int64_t pp = input_int(s, "pp", 1), own = (s->layers + pp - 1) / (pp > 0 ? pp : 1);
    push_int(s, values, 1);
    for (int64_t v = 2; v <= own && v <= 64 && pp > 1; v++) {
        if (own % v == 0 && orr_tree_size(values) < MAX_VALUES) {
            push_int(s, values, v);
        }
    }
}

static void add_recompute(const scope *s, orr_tree *values) {
    int64_t parts = input_int(s, "pp", 1) * input_int(s, "vpp", 1);
    int64_t own = parts > 0 ? (s->layers + parts - 1) / parts : s->layers, last = 0;
    push_text(s, values, "none");
    push_text(s, values, "selective");
    for (int64_t eighth = 1; eighth < 8; eighth++) {
        int64_t layers = own * eighth / 8;
        if (layers > last && layers < own) {
            push_text(s, values, orr_arena_format(s->arena, "block:%lld", (long long)layers));
            last = layers;
        }
    }
    push_text(s, values, "full");
}

/* Schedules differ under a pipeline alone, and a framework has some of them. */
static bool is_choice(const scope *s, const char *key, const char *word) {
    if (strcmp(key, "schedule") != 0) {
        return strcmp(word, "auto") != 0;
    }
    bool known = orr_tree_size(s->schedules) == 0;
    for (size_t i = 0; i < orr_tree_size(s->schedules); i++) {
        known = known || strcmp(orr_tree_text(orr_tree_at(s->schedules, i), ""), word) == 0;
    }
    return known && input_int(s, "pp", 1) > 1 && strcmp(word, "auto") != 0;
}

static orr_tree *values_of(const scope *s, size_t index) {
    orr_tree *values = orr_tree_new_list(s->arena);
    switch (axes[index].kind) {
    case AXIS_POWERS:
        for (int64_t v = 1; v <= s->gpus && v <= 4096; v *= 2) {
            push_int(s, values, v);
        }
        break;
    case AXIS_CHUNKS: add_chunks(s, values); break;
    case AXIS_RECOMPUTE: add_recompute(s, values); break;
    case AXIS_SWITCH:
        (void)orr_tree_push(s->arena, values, orr_tree_new_bool(s->arena, false));
        (void)orr_tree_push(s->arena, values, orr_tree_new_bool(s->arena, true));
        break;
    case AXIS_OVERLAP: {
        static const char *const words[] = {"none", "dp", "tp,dp", "dp,ep", "tp,dp,ep", "all"};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            push_text(s, values, words[i]);
        }
        break;
    }
    case AXIS_CHOICE: {
        const orr_tree *choices = orr_tree_get(orr_tree_get(s->schema, axes[index].key), "enum");
        for (size_t i = 0; i < orr_tree_size(choices) && i < MAX_VALUES; i++) {
            const char *word = orr_tree_text(orr_tree_at(choices, i), "");
            if (is_choice(s, axes[index].key, word)) {
                push_text(s, values, word);
            }
        }
        break;
    }
    }
    return values;
}

/* "tp,dp" names the list [tp, dp], "none" the empty one. */
static bool is_list_of(const orr_tree *list, const char *words) {
    if (strcmp(words, "none") == 0) {
        return orr_tree_size(list) == 0;
    }
    size_t n = 0;
    for (const char *p = words; *p != '\0'; n++) {
        size_t length = strcspn(p, ",");
        bool found = false;
        for (size_t i = 0; i < orr_tree_size(list); i++) {
            const char *item = orr_tree_text(orr_tree_at(list, i), "");
            found = found || (strlen(item) == length && strncmp(item, p, length) == 0);
        }
        if (!found) {
            return false;
        }
        p += length + (p[length] == ',');
    }
    return n == orr_tree_size(list);
}

static bool is_value(const orr_tree *now, const orr_tree *value) {
    const char *text = orr_tree_text(value, NULL);
    if (orr_tree_kind_of(now) == ORR_TREE_LIST && text != NULL) {
        return is_list_of(now, strcmp(text, "all") == 0 ? "tp,dp,pp,ep" : text);
    }
    if (text != NULL) {
        return strcmp(orr_tree_text(now, ""), text) == 0;
    }
    if (orr_tree_kind_of(value) == ORR_TREE_BOOL) {
        return orr_tree_kind_of(now) == ORR_TREE_BOOL &&
               orr_tree_bool(now, false) == orr_tree_bool(value, false);
    }
    return orr_tree_int(now, -1) == orr_tree_int(value, -2);
}

/* ---- what is known of the base -------------------------------------------------------------- */

static void read_model(scope *s, const orr_tree *base) {
    s->layers = 64;
    s->experts = true;
    orr_tree *args = orr_tree_new_map(s->arena), *card = NULL;
    const orr_tree *model = orr_tree_get(base, "model");
    const orr_tree *layers = orr_tree_get(model, "layers");
    if (layers != NULL) { /* the card itself, as an import gives it */
        s->layers = orr_tree_int(layers, s->layers);
        s->experts = orr_tree_get(model, "experts") != NULL || orr_tree_get(model, "kinds") != NULL;
        return;
    }
    orr_tree_put_text(s->arena, args, "name", orr_tree_text(model, ""));
    orr_err ignored = {0};
    if (s->oracle->call(s->oracle->user, "model show", args, s->arena, &card, &ignored) == ORR_OK) {
        s->layers = orr_tree_int(orr_tree_path(card, "result.layers"), s->layers);
        s->experts = orr_tree_int(orr_tree_path(card, "result.parameters_experts"), 1) > 0;
    }
}

static void read_software(scope *s) {
    orr_tree *args = orr_tree_new_map(s->arena), *shown = NULL;
    orr_err ignored = {0};
    orr_tree_put_text(s->arena, args, "name",
                      orr_tree_text(orr_tree_get(s->inputs, "software"), ""));
    if (s->oracle->call(s->oracle->user, "software show", args, s->arena, &shown, &ignored) ==
        ORR_OK) {
        s->schedules = orr_tree_path(shown, "result.switches.schedules.value");
    }
}

static orr_status open_scope(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                             scope *s, orr_err *err) {
    orr_belt_plan plan;
    orr_tree *args = orr_tree_new_map(arena), *schema = NULL;
    *s = (scope){.oracle = oracle, .arena = arena};
    ORR_TRY(orr_belt_project(oracle, arena, base, NULL, &plan, err));
    if (!plan.readable) {
        if (err != NULL) {
            *err = plan.why;
        }
        return plan.why.status;
    }
    orr_tree_put_text(arena, args, "name", "project");
    ORR_TRY(oracle->call(oracle->user, "schema", args, arena, &schema, err));
    s->schema = orr_tree_path(schema, "result.properties");
    s->inputs = orr_tree_get(plan.envelope, "inputs");
    s->gpus = input_int(s, "gpus", 1);
    read_model(s, base);
    read_software(s);
    return ORR_OK;
}

orr_status orr_belt_axes(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                         orr_belt_axis axis[ORR_BELT_MAX_AXES], uint32_t *count, orr_err *err) {
    scope s;
    *count = 0;
    ORR_TRY(open_scope(oracle, arena, base, &s, err));
    for (size_t i = 0; i < AXIS_COUNT; i++) {
        if (axes[i].use == USE_EXPERTS && !s.experts) {
            continue;
        }
        orr_belt_axis *one = &axis[(*count)++];
        *one = (orr_belt_axis){.key = axes[i].key, .values = values_of(&s, i), .at = UINT32_MAX};
        one->asked_only = axes[i].use == USE_ASKED;
        for (size_t v = 0; v < orr_tree_size(one->values); v++) {
            if (is_value(orr_tree_get(s.inputs, one->key), orr_tree_at(one->values, v))) {
                one->at = (uint32_t)v;
            }
        }
    }
    return ORR_OK;
}

orr_tree *orr_belt_step(orr_arena *arena, const orr_belt_axis *axis, uint32_t at) {
    orr_tree *out = orr_tree_new_map(arena);
    (void)orr_tree_put(arena, out, axis->key, orr_tree_copy(arena, orr_tree_at(axis->values, at)));
    for (size_t i = 0; i < AXIS_COUNT; i++) {
        for (size_t k = 0; strcmp(axes[i].key, axis->key) == 0 && k < 4; k++) {
            if (axes[i].along[k] != NULL) {
                (void)orr_tree_put(arena, out, axes[i].along[k], orr_tree_null(arena));
            }
        }
    }
    return out;
}
