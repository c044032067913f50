/* Megatron-LM settings by argument: gathered from what was given, checked by kind, with defaults.
 */
#include "exchange/megatron_int.h"

#include <string.h>

/* ---- settings by argument ------------------------------------------------------------------- */

static size_t row_of(const char *name) {
    const megatron_arg *arg = orr_megatron_find(name);
    return arg != NULL ? (size_t)(arg - orr_megatron_args) : orr_megatron_arg_count;
}

const setting *orr_megatron_given(const megatron *m, const char *name) {
    size_t row = row_of(name);
    return row < orr_megatron_arg_count ? m->given[row] : NULL;
}

static const char *value_of(const megatron *m, const char *name) {
    const setting *s = orr_megatron_given(m, name);
    if (s == NULL) {
        const megatron_arg *arg = orr_megatron_find(name);
        return arg != NULL ? arg->fallback : NULL;
    }
    return s->unknown != NULL ? NULL : s->value;
}

bool orr_megatron_has(const megatron *m, const char *name) {
    return value_of(m, name) != NULL;
}

bool orr_megatron_flag(const megatron *m, const char *name) {
    const char *value = value_of(m, name);
    return value != NULL && strcmp(value, "true") == 0;
}

int64_t orr_megatron_int(const megatron *m, const char *name) {
    const char *value = value_of(m, name);
    int64_t number;
    return value != NULL && orr_parse_int(value, &number) ? number : 0;
}

double orr_megatron_real(const megatron *m, const char *name) {
    const char *value = value_of(m, name);
    double number;
    return value != NULL && orr_parse_real(value, &number) ? number : 0;
}

const char *orr_megatron_text(const megatron *m, const char *name) {
    const char *value = value_of(m, name);
    return value != NULL ? value : "";
}

uint32_t orr_megatron_line(const megatron *m, const char *name) {
    const setting *s = orr_megatron_given(m, name);
    return s != NULL ? s->line : 0;
}

bool orr_megatron_is(const megatron *m, const char *name, const char *word) {
    return strcmp(orr_megatron_text(m, name), word) == 0;
}

/* ---- gathering ------------------------------------------------------------------------------ */

static const char *shown(const megatron *m, const setting *s) {
    return orr_arena_format(m->im->arena, "%s%s", s->typed ? "" : "--", s->name);
}

/* "none" is a value of its own where an argument has a default (positions). */
static bool is_none(const megatron_arg *arg, const char *value) {
    return strcmp(value, "null") == 0 || strcmp(value, "None") == 0 ||
           (strcmp(value, "none") == 0 && arg->fallback == NULL);
}

/* The value as its kind wants it; NULL after reporting one that does not fit. */
static const char *checked_value(megatron *m, const megatron_arg *arg, const setting *s) {
    int64_t number;
    double real;
    const char *value = s->value;
    if (arg->kind == MEGATRON_FLAG) {
        if (value == NULL) {
            return "true";
        }
        bool on = strcmp(value, "true") == 0 || strcmp(value, "True") == 0;
        return on ? "true" : "false";
    }
    if (value == NULL) {
        orr_import_unknown(m->im, shown(m, s), s->line, true, "it has no value");
        return NULL;
    }
    bool fits = arg->kind == MEGATRON_INT    ? orr_parse_int(value, &number)
                : arg->kind == MEGATRON_REAL ? orr_parse_real(value, &real)
                                             : true;
    if (!fits) {
        orr_import_unknown(m->im, shown(m, s), s->line, true,
                           orr_arena_format(m->im->arena, "\"%.60s\" is not a number", value));
        return NULL;
    }
    return value;
}

static bool differs_from_default(const megatron_arg *arg, const char *value) {
    if (is_none(arg, value)) {
        return false;
    }
    return arg->fallback == NULL || strcmp(arg->fallback, value) != 0;
}

static void report_unmodelled(megatron *m, const megatron_arg *arg, const setting *s) {
    if (arg->note == NULL || arg->note[0] != '!' || s->value == NULL ||
        !differs_from_default(arg, s->value)) {
        return;
    }
    const char *why = arg->note[1] != '\0'
                          ? orr_arena_format(m->im->arena, "not modelled: %s", arg->note + 1)
                          : "not modelled";
    orr_import_unknown(m->im, shown(m, s), s->line, true, why);
}

/* The plan key that an argument decides, for those that have one. */
static const char *plan_key(const megatron_arg *arg) {
    static const char *const derived[][2] = {{"expert-model-parallel-size", "ep"},
                                             {"expert-tensor-parallel-size", "etp"},
                                             {"num-virtual-stages-per-pipeline-rank", "vpp"},
                                             {"num-layers-per-virtual-pipeline-stage", "vpp"},
                                             {"recompute-granularity", "recompute"},
                                             {"recompute-num-layers", "recompute"},
                                             {"pipeline-model-parallel-layout", "layout"},
                                             {"optimizer", "optimizer"},
                                             {"fp8-format", "precision"}};
    if (arg->target != NULL) {
        return strncmp(arg->target, "model.", 6) == 0 ? "model" : arg->target;
    }
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++) {
        if (strcmp(arg->name, derived[i][0]) == 0) {
            return derived[i][1];
        }
    }
    return NULL;
}

/* A command line that says two things of one setting; files extend one another on purpose. */
static void warn_twice(megatron *m, const setting *old, const setting *now) {
    if (old == NULL || old->typed || now->typed || old->value == NULL || now->value == NULL ||
        old->unknown != NULL || now->unknown != NULL || strcmp(old->value, now->value) == 0) {
        return;
    }
    orr_import_warn(m->im, now->line, "%s %.60s contradicts %s %.60s of line %u: the later holds",
                    shown(m, now), now->value, shown(m, old), old->value, (unsigned)old->line);
}

void orr_megatron_gather(megatron *m, const setting *s) {
    const char *name = s->arg != NULL ? s->arg : s->name;
    const megatron_arg *arg = orr_megatron_find(name);
    if (arg != NULL && s->line > 0) {
        orr_tree *value = orr_tree_new_text(m->im->arena, s->value != NULL ? s->value : "true");
        orr_tree_set_span(value, (orr_span){.line = s->line});
        orr_import_state(m->im, s->name, arg->of != NULL ? arg->of : arg->name, value);
    }
    if (arg == NULL) {
        char arity;
        bool matters;
        if (orr_megatron_other(name, &arity, &matters)) {
            if (matters && !(s->typed && strcmp(s->value, "false") == 0)) {
                orr_import_unknown(m->im, shown(m, s), s->line, true, "not modelled");
            }
            return;
        }
        orr_import_unknown(m->im, shown(m, s), s->line, orr_import_name_matters(s->name), NULL);
        return;
    }
    if (s->value != NULL && arg->kind != MEGATRON_FLAG && is_none(arg, s->value) &&
        s->unknown == NULL) {
        return;
    }
    setting *kept = ORR_NEW(m->im->arena, setting);
    *kept = *s;
    if (s->unknown != NULL) {
        orr_import_depends(m->im, shown(m, s), s->line, plan_key(arg), s->unknown);
    } else {
        kept->value = checked_value(m, arg, s);
        if (kept->value == NULL) {
            return;
        }
        if (s->assumed != NULL) {
            orr_import_assume(
                m->im, arg->target != NULL ? arg->target : arg->name, kept->value,
                orr_arena_format(m->im->arena, "%s comes from %s", shown(m, s), s->assumed));
        }
    }
    if (arg->of != NULL) {
        if (arg->given != NULL) {
            if (kept->value != NULL && strcmp(kept->value, "true") != 0) {
                return; /* "no_x: false" in a file says nothing */
            }
            kept->value = arg->given;
        }
        arg = orr_megatron_find(arg->of);
    }
    report_unmodelled(m, arg, kept);
    warn_twice(m, m->given[arg - orr_megatron_args], kept);
    m->given[arg - orr_megatron_args] = kept;
}

void orr_megatron_put_int(megatron *m, const char *key, const char *name) {
    orr_import_put_int(m->im, key, orr_megatron_int(m, name), orr_megatron_line(m, name));
}
