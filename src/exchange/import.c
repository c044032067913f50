/* Building imports. */
#include <string.h>

#include "doc/doc.h"
#include "exchange/exchange_int.h"

importer orr_import_start(orr_arena *arena, const char *file) {
    return (importer){.arena = arena,
                      .file = file != NULL ? orr_arena_text(arena, file) : NULL,
                      .keys = orr_tree_new_map(arena),
                      .assumed = orr_tree_new_list(arena),
                      .unknown = orr_tree_new_list(arena),
                      .warnings = orr_tree_new_list(arena),
                      .stated = orr_tree_new_list(arena)};
}

importer orr_import_begin(orr_arena *arena, const import_request *r) {
    importer im = orr_import_start(arena, r->name);
    im.release = r->release;
    return im;
}

bool orr_ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

void orr_import_finish(const importer *im, const char *format, orr_import *out) {
    *out = (orr_import){.format = format,
                        .keys = im->keys,
                        .assumed = im->assumed,
                        .unknown = im->unknown,
                        .warnings = im->warnings,
                        .stated = im->stated};
}

void orr_import_state(importer *im, const char *name, const char *canonical,
                      const orr_tree *value) {
    orr_tree *entry = orr_tree_push(im->arena, im->stated, orr_tree_new_map(im->arena));
    orr_tree_put_text(im->arena, entry, "name", name);
    orr_tree_put_text(im->arena, entry, "canonical", canonical);
    orr_tree_put(im->arena, entry, "value", orr_tree_copy(im->arena, value));
    orr_tree_put_int(im->arena, entry, "line", (int64_t)orr_tree_span(value).line);
}

void orr_import_put(importer *im, const char *key, orr_tree *value, uint32_t line) {
    orr_tree_set_span(value, (orr_span){.file = im->file, .line = line});
    orr_tree_put(im->arena, im->keys, key, value);
}

void orr_import_put_text(importer *im, const char *key, const char *value, uint32_t line) {
    orr_import_put(im, key, orr_tree_new_text(im->arena, value), line);
}

void orr_import_put_int(importer *im, const char *key, int64_t value, uint32_t line) {
    orr_import_put(im, key, orr_tree_new_int(im->arena, value), line);
}

void orr_import_put_real(importer *im, const char *key, double value, uint32_t line) {
    orr_import_put(im, key, orr_tree_new_real(im->arena, value), line);
}

void orr_import_assume(importer *im, const char *key, const char *value, const char *why) {
    orr_tree *entry = orr_tree_push(im->arena, im->assumed, orr_tree_new_map(im->arena));
    orr_tree_put_text(im->arena, entry, "key", key);
    orr_tree_put_text(im->arena, entry, "value", value);
    orr_tree_put_text(im->arena, entry, "why", why);
}

static orr_tree *add_unknown(importer *im, const char *name, uint32_t line, bool matters,
                             const char *why) {
    orr_tree *entry = orr_tree_push(im->arena, im->unknown, orr_tree_new_map(im->arena));
    orr_tree_put_text(im->arena, entry, "name", name);
    orr_tree_put_int(im->arena, entry, "line", (int64_t)line);
    orr_tree_put_bool(im->arena, entry, "matters", matters);
    if (why != NULL) {
        orr_tree_put_text(im->arena, entry, "why", why);
    }
    return entry;
}

void orr_import_unknown(importer *im, const char *name, uint32_t line, bool matters,
                        const char *why) {
    (void)add_unknown(im, name, line, matters, why);
}

void orr_import_depends(importer *im, const char *name, uint32_t line, const char *key,
                        const char *on) {
    const char *why = orr_arena_format(im->arena, "its value depends on %s", on);
    orr_tree *entry = add_unknown(im, name, line, true, why);
    if (key != NULL) {
        orr_tree_put_text(im->arena, entry, "key", key);
    }
}

static void add_warning(importer *im, uint32_t line, const char *key, bool refused,
                        const char *message) {
    orr_tree *entry = orr_tree_push(im->arena, im->warnings, orr_tree_new_map(im->arena));
    orr_tree_put_int(im->arena, entry, "line", (int64_t)line);
    orr_tree_put_text(im->arena, entry, "message", message);
    if (refused) {
        orr_tree_put_bool(im->arena, entry, "refused", true);
    }
    if (key != NULL) {
        orr_tree_put_text(im->arena, entry, "key", key);
    }
}

void orr_import_warn(importer *im, uint32_t line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_warning(im, line, NULL, false, orr_arena_vformat(im->arena, format, args));
    va_end(args);
}

void orr_import_refuse(importer *im, uint32_t line, bool refused, const char *message) {
    add_warning(im, line, NULL, refused, message);
}

void orr_import_ask(importer *im, uint32_t line, const char *key, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_warning(im, line, key, false, orr_arena_vformat(im->arena, format, args));
    va_end(args);
}

/* Whether `word` stands in `name` between separators. */
static bool has_word(const char *name, const char *word) {
    size_t n = strlen(word);
    for (const char *p = name; (p = strstr(p, word)) != NULL; p++) {
        bool starts = p == name || p[-1] == '-' || p[-1] == '_' || p[-1] == '.';
        if (starts && (p[n] == '\0' || p[n] == '-' || p[n] == '_' || p[n] == '.')) {
            return true;
        }
    }
    return false;
}

bool orr_import_name_matters(const char *name) {
    static const char *const harmless[] = {
        "path",        "dir",       "save",       "load",       "log",        "logging", "wandb",
        "tensorboard", "tokenizer", "data",       "dataset",    "seed",       "name",    "project",
        "lr",          "warmup",    "decay",      "ckpt",       "checkpoint", "eval",    "exit",
        "interval",    "iters",     "vocab-file", "merge-file", "port",       "addr",    "url",
        "timeout",     "epsilon",   "eps",        "init",       "loss-scale", "rank",    "job",
        "output",      "trace",     "profile",    "inference",  "dump",       "debug",
    };
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        if (has_word(name, harmless[i])) {
            return false;
        }
    }
    return true;
}

const char *orr_import_stem(orr_arena *arena, const char *name) {
    if (name == NULL) {
        return "imported";
    }
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    size_t length = dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base);
    return length > 0 ? orr_arena_copy(arena, base, length) : "imported";
}

void orr_settings_add(orr_arena *arena, settings *list, setting one) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        setting *at = ORR_NEW_ARRAY(arena, setting, capacity);
        if (list->count > 0) {
            memcpy(at, list->at, list->count * sizeof *at);
        }
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = one;
}

void orr_settings_add_node(orr_arena *arena, settings *list, const char *key,
                           const orr_tree *node) {
    setting one = {.name = key, .line = orr_tree_span(node).line, .typed = true};
    orr_text text = orr_text_new(arena, 1 << 16);
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_NULL: return;
    case ORR_TREE_BOOL: one.value = orr_tree_bool(node, false) ? "true" : "false"; break;
    case ORR_TREE_INT:
        one.value = orr_arena_format(arena, "%lld", (long long)orr_tree_int(node, 0));
        break;
    case ORR_TREE_REAL: {
        char number[32];
        orr_format_real(orr_tree_real(node, 0), number);
        one.value = orr_arena_text(arena, number);
        break;
    }
    case ORR_TREE_TEXT: one.value = orr_tree_text(node, ""); break;
    case ORR_TREE_LIST:
        for (size_t i = 0; i < orr_tree_size(node); i++) {
            const orr_tree *item = orr_tree_at(node, i);
            orr_text_add(&text, i > 0 ? " " : "");
            if (orr_tree_kind_of(item) == ORR_TREE_INT) {
                orr_text_format(&text, "%lld", (long long)orr_tree_int(item, 0));
            } else {
                orr_text_add(&text, orr_tree_text(item, "?"));
            }
        }
        one.value = orr_text_done(&text);
        break;
    case ORR_TREE_MAP: return;
    }
    orr_settings_add(arena, list, one);
}
