/* What the exporters share: reading a plan, and writing settings as trees and texts. */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "exchange/exchange_int.h"
#include "exchange/export.h"

/* ---- reading the plan ----------------------------------------------------------------------- */

const orr_tree *orr_export_node(const exporter *x, const char *key) {
    const orr_tree *found = orr_tree_get(x->keys, key);
    return orr_tree_kind_of(found) == ORR_TREE_NULL ? NULL : found;
}

int64_t orr_export_number(const exporter *x, const char *key, int64_t otherwise) {
    return orr_tree_int(orr_tree_get(x->keys, key), otherwise);
}

const char *orr_export_word(const exporter *x, const char *key) {
    return orr_tree_text(orr_tree_get(x->keys, key), "");
}

bool orr_export_is(const exporter *x, const char *key, const char *value) {
    return orr_name_equal(orr_export_word(x, key), value);
}

bool orr_export_on(const exporter *x, const char *key) {
    return orr_tree_bool(orr_tree_get(x->keys, key), false) || orr_export_is(x, key, "on") ||
           orr_export_is(x, key, "true");
}

bool orr_export_holds(const exporter *x, const char *key, const char *wanted) {
    const orr_tree *list = orr_export_node(x, key);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (orr_name_equal(orr_tree_text(orr_tree_at(list, i), ""), wanted)) {
            return true;
        }
    }
    const char *text = orr_tree_text(list, "");
    if (orr_name_equal(text, "all")) {
        return true;
    }
    size_t n = strlen(wanted);
    for (const char *p = text; *p != '\0';) {
        size_t length = strcspn(p, ", ");
        if (length == n && memcmp(p, wanted, n) == 0) {
            return true;
        }
        p += length + (p[length] != '\0');
    }
    return false;
}

bool orr_export_has_experts(const exporter *x) {
    const orr_tree *kinds = orr_tree_get(x->model, "kinds");
    bool found = orr_tree_int(orr_tree_get(x->model, "experts"), 0) > 0;
    for (size_t i = 0; i < orr_tree_size(kinds); i++) {
        found = found || orr_tree_int(orr_tree_get(orr_tree_at(kinds, i), "experts"), 0) > 0;
    }
    return x->model != NULL ? found : orr_export_number(x, "ep", 1) > 1;
}

/* ---- settings ------------------------------------------------------------------------------- */

void orr_tree_set_path(orr_arena *arena, orr_tree *map, const char *path, orr_tree *value) {
    const char *dot = strchr(path, '.');
    if (dot == NULL) {
        orr_tree_put(arena, map, path, value);
        return;
    }
    const char *part = orr_arena_copy(arena, path, (size_t)(dot - path));
    const orr_tree *old = orr_tree_get(map, part);
    bool is_map = orr_tree_kind_of(old) == ORR_TREE_MAP;
    orr_tree *child = orr_tree_put(arena, map, part,
                                   is_map ? orr_tree_copy(arena, old) : orr_tree_new_map(arena));
    orr_tree_set_path(arena, child, dot + 1, value);
}

void orr_export_set(exporter *x, const char *path, orr_tree *value) {
    orr_tree_set_path(x->arena, x->out, path, value);
}

void orr_export_text(exporter *x, const char *path, const char *value) {
    orr_export_set(x, path, orr_tree_new_text(x->arena, value));
}

void orr_export_int(exporter *x, const char *path, int64_t value) {
    orr_export_set(x, path, orr_tree_new_int(x->arena, value));
}

void orr_export_flag(exporter *x, const char *path, bool value) {
    orr_export_set(x, path, orr_tree_new_bool(x->arena, value));
}

void orr_export_lose(exporter *x, const char *key, const char *value, const char *why) {
    orr_tree *entry = orr_tree_push(x->arena, x->lost, orr_tree_new_map(x->arena));
    orr_tree_put_text(x->arena, entry, "key", key);
    orr_tree_put_text(x->arena, entry, "value", value);
    orr_tree_put_text(x->arena, entry, "why", why);
}

/* ---- texts ---------------------------------------------------------------------------------- */

enum { RENDER_LIMIT = 1 << 20 };

/* A word that YAML reads as that word and no number, switch or mark. */
static bool is_plain(const char *text) {
    static const char *const taken[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    bool letter = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
    for (const char *p = text; *p != '\0'; p++) {
        bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                    (*p >= '0' && *p <= '9') || *p == '_' || *p == '-' || *p == '.' || *p == '/';
        if (!word) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (orr_name_equal(text, taken[i])) {
            return false;
        }
    }
    return letter;
}

static void add_value(orr_text *text, const orr_tree *value, bool bare) {
    if (orr_tree_kind_of(value) == ORR_TREE_LIST) {
        orr_text_add(text, "[");
        for (size_t i = 0; i < orr_tree_size(value); i++) {
            orr_text_add(text, i > 0 ? ", " : "");
            add_value(text, orr_tree_at(value, i), bare);
        }
        orr_text_add(text, "]");
    } else if (bare && orr_tree_kind_of(value) == ORR_TREE_TEXT &&
               is_plain(orr_tree_text(value, ""))) {
        orr_text_add(text, orr_tree_text(value, ""));
    } else {
        orr_json_write(text, value, false);
    }
}

const char *orr_render_value(orr_arena *arena, const orr_tree *value) {
    orr_text text = orr_text_new(arena, RENDER_LIMIT);
    orr_text_add(&text, "");
    add_value(&text, value, true);
    return orr_text_done(&text);
}

static void add_yaml(orr_text *text, const orr_tree *map, int depth) {
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const orr_tree *value = orr_tree_at(map, i);
        for (int k = 0; k < depth; k++) {
            orr_text_add(text, "  ");
        }
        orr_text_format(text, "%s:", orr_tree_key(map, i));
        if (orr_tree_kind_of(value) == ORR_TREE_MAP) {
            orr_text_add(text, "\n");
            add_yaml(text, value, depth + 1);
        } else {
            orr_text_add(text, " ");
            add_value(text, value, true);
            orr_text_add(text, "\n");
        }
    }
}

char *orr_render_yaml(orr_arena *arena, const orr_tree *out) {
    orr_text text = orr_text_new(arena, RENDER_LIMIT);
    orr_text_add(&text, "");
    add_yaml(&text, out, 0);
    return orr_text_done(&text);
}

char *orr_render_toml(orr_arena *arena, const orr_tree *out) {
    orr_text text = orr_text_new(arena, RENDER_LIMIT);
    orr_text_add(&text, "");
    for (size_t i = 0; i < orr_tree_size(out); i++) {
        const orr_tree *section = orr_tree_at(out, i);
        orr_text_format(&text, "%s[%s]\n", i > 0 ? "\n" : "", orr_tree_key(out, i));
        for (size_t k = 0; k < orr_tree_size(section); k++) {
            orr_text_format(&text, "%s = ", orr_tree_key(section, k));
            add_value(&text, orr_tree_at(section, k), false);
            orr_text_add(&text, "\n");
        }
    }
    return orr_text_done(&text);
}

static void add_overrides(orr_text *text, const orr_tree *map, const char *path, const char *prefix,
                          int depth) {
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const orr_tree *value = orr_tree_at(map, i);
        const char *name = orr_arena_format(text->arena, "%s%s%s", path, depth > 0 ? "." : "",
                                            orr_tree_key(map, i));
        if (orr_tree_kind_of(value) == ORR_TREE_MAP) {
            add_overrides(text, value, name, prefix, depth + 1);
            continue;
        }
        const char *shown = orr_tree_text(value, orr_render_value(text->arena, value));
        bool quote = strpbrk(shown, " |()[]*\"$&;<>") != NULL;
        orr_text_format(text, quote ? "'%s%s=%s'\n" : "%s%s=%s\n", prefix, name, shown);
    }
}

char *orr_render_overrides(orr_arena *arena, const orr_tree *out, const char *prefix) {
    orr_text text = orr_text_new(arena, RENDER_LIMIT);
    orr_text_add(&text, "");
    add_overrides(&text, out, "", prefix, 0);
    return orr_text_done(&text);
}

/* The argument of the command line that gives `name` this value, where it is another one. */
static const char *spelled_flag(const char *name, const char *value) {
    for (size_t i = 0; i < orr_megatron_arg_count; i++) {
        const megatron_arg *arg = &orr_megatron_args[i];
        if (arg->of != NULL && arg->given != NULL && strcmp(arg->of, name) == 0 &&
            strcmp(arg->given, value) == 0 && arg->given[0] == 'f') {
            return arg->name;
        }
    }
    return NULL;
}

static void add_flag(orr_text *text, const char *name, const orr_tree *value) {
    if (orr_tree_kind_of(value) == ORR_TREE_BOOL) {
        const char *word = orr_tree_bool(value, false) ? "true" : "false";
        const char *spelled = spelled_flag(name, word);
        if (spelled != NULL || word[0] == 't') {
            orr_text_format(text, "--%s\n", spelled != NULL ? spelled : name);
        }
        return;
    }
    if (orr_tree_kind_of(value) == ORR_TREE_LIST) {
        orr_text_format(text, "--%s", name);
        for (size_t i = 0; i < orr_tree_size(value); i++) {
            orr_text_format(text, " %s", orr_tree_text(orr_tree_at(value, i), "?"));
        }
        orr_text_add(text, "\n");
        return;
    }
    const char *shown = orr_tree_text(value, NULL);
    if (shown == NULL) {
        orr_text_format(text, "--%s ", name);
        orr_json_write(text, value, false);
        orr_text_add(text, "\n");
        return;
    }
    bool quote = strpbrk(shown, " |()[]*'\"$&;<>") != NULL || shown[0] == '\0';
    const char *mark = !quote ? "" : strchr(shown, '\'') != NULL ? "\"" : "'";
    orr_text_format(text, "--%s %s%s%s\n", name, mark, shown, mark);
}

char *orr_render_flags(orr_arena *arena, const orr_tree *out) {
    orr_text text = orr_text_new(arena, RENDER_LIMIT);
    orr_text_add(&text, "");
    for (size_t i = 0; i < orr_tree_size(out); i++) {
        add_flag(&text, orr_tree_key(out, i), orr_tree_at(out, i));
    }
    return orr_text_done(&text);
}
