/* The engine of foreign.h: asks the format's table about every setting of a file, and about every
 * key of a plan. */
#include "exchange/foreign.h"

#include <string.h>

enum { MAX_LARGE = 1000000 };

static const foreign_format *const formats[] = {
    &orr_foreign_torchtitan, &orr_foreign_nanotron,   &orr_foreign_accelerate,
    &orr_foreign_deepspeed,  &orr_foreign_axolotl,    &orr_foreign_llamafactory,
    &orr_foreign_trl,        &orr_foreign_llmfoundry, &orr_foreign_maxtext};

const foreign_format *orr_foreign_find(const orr_tree *tree) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i]->is(tree)) {
            return formats[i];
        }
    }
    return NULL;
}

int64_t orr_foreign_int(const orr_tree *tree, const char *path, int64_t otherwise) {
    const orr_tree *node = orr_tree_path(tree, path);
    int64_t value;
    if (orr_tree_kind_of(node) == ORR_TREE_TEXT) {
        return orr_parse_int(orr_tree_text(node, ""), &value) ? value : otherwise;
    }
    return orr_tree_int(node, otherwise);
}

const char *orr_foreign_text(const orr_tree *tree, const char *path) {
    return orr_tree_text(orr_tree_path(tree, path), "");
}

bool orr_foreign_flag(const orr_tree *tree, const char *path, bool otherwise) {
    const orr_tree *node = orr_tree_path(tree, path);
    const char *text = orr_tree_text(node, "");
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return text[0] == 't';
    }
    return orr_tree_bool(node, otherwise);
}

uint32_t orr_foreign_line(const orr_tree *tree, const char *path) {
    return orr_tree_span(orr_tree_path(tree, path)).line;
}

int64_t orr_foreign_product(const int64_t *factors, size_t count) {
    int64_t product = 1;
    for (size_t i = 0; i < count; i++) {
        if (factors[i] < 1 || factors[i] > MAX_LARGE || product > INT64_MAX / factors[i]) {
            return 0;
        }
        product *= factors[i];
    }
    return product <= 1 << 30 ? product : 0;
}

static bool is_wild(const char *row) {
    size_t n = strlen(row);
    return n >= 2 && strcmp(row + n - 2, ".*") == 0;
}

/* A leaf goes to the first row that names it or the part of the tree it is in. */
static const foreign_row *find_row(const foreign_format *format, const char *path) {
    for (size_t i = 0; i < format->count; i++) {
        const char *row = format->rows[i].path;
        if (is_wild(row) ? strncmp(path, row, strlen(row) - 1) == 0 : strcmp(row, path) == 0) {
            return &format->rows[i];
        }
    }
    return NULL;
}

/* A map is taken whole when one row alone speaks of all that is in it, and looked into otherwise.
 */
static const foreign_row *find_whole(const foreign_format *format, const char *path) {
    const foreign_row *found = NULL;
    size_t length = strlen(path);
    for (size_t i = 0; i < format->count; i++) {
        const char *row = format->rows[i].path;
        if (strncmp(row, path, length) == 0 && row[length] == '.') {
            if (found != NULL || !is_wild(row) || strlen(row) != length + 2) {
                return NULL;
            }
            found = &format->rows[i];
        }
    }
    return found;
}

const char *orr_tree_scalar(orr_arena *arena, const orr_tree *node) {
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_BOOL: return orr_tree_bool(node, false) ? "true" : "false";
    case ORR_TREE_INT: return orr_arena_format(arena, "%lld", (long long)orr_tree_int(node, 0));
    case ORR_TREE_REAL: {
        char number[32];
        orr_format_real(orr_tree_real(node, 0), number);
        return orr_arena_text(arena, number);
    }
    case ORR_TREE_TEXT: return orr_tree_text(node, "");
    case ORR_TREE_NULL:
    case ORR_TREE_LIST:
    case ORR_TREE_MAP: break;
    }
    return "";
}

/* The other side of a pair "left=right left=right" for `wanted`. */
static const char *translate(orr_arena *arena, const char *words, const char *wanted, bool back) {
    for (const char *p = words; *p != '\0';) {
        size_t length = strcspn(p, " ");
        size_t split = strcspn(p, "= ");
        const char *left = orr_arena_copy(arena, p, split);
        const char *right =
            split < length ? orr_arena_copy(arena, p + split + 1, length - split - 1) : left;
        if (orr_name_equal(back ? right : left, wanted)) {
            return back ? left : right;
        }
        p += length + (p[length] != '\0');
    }
    return NULL;
}

const char *orr_words_ours(orr_arena *arena, const char *words, const char *theirs) {
    return translate(arena, words, theirs, false);
}

const char *orr_words_theirs(orr_arena *arena, const char *words, const char *ours) {
    return translate(arena, words, ours, true);
}

/* Whether release a comes before b, number by number: 0.9 before 0.16. */
static bool before(const char *a, const char *b) {
    while (*a != '\0' || *b != '\0') {
        int64_t x = 0, y = 0;
        for (; *a >= '0' && *a <= '9' && x < 1 << 20; a++) {
            x = x * 10 + (*a - '0');
        }
        for (; *b >= '0' && *b <= '9' && y < 1 << 20; b++) {
            y = y * 10 + (*b - '0');
        }
        if (x != y) {
            return x < y;
        }
        a += *a != '\0';
        b += *b != '\0';
    }
    return false;
}

const char *orr_default_of(orr_arena *arena, const char *text, const char *release, bool *differs) {
    const char *mark = strchr(text, '<');
    *differs = false;
    while (mark != NULL) {
        size_t length = strcspn(mark + 1, " ");
        const char *next = mark + 1 + length;
        *differs = true;
        if (release != NULL && before(release + strcspn(release, "0123456789"),
                                      orr_arena_copy(arena, mark + 1, length))) {
            return orr_arena_copy(arena, text, (size_t)(mark - text));
        }
        text = *next == ' ' ? next + 1 : next;
        mark = strchr(text, '<');
    }
    return text;
}

/* ---- import --------------------------------------------------------------------------------- */

static void put_row(importer *im, const foreign_row *row, const char *path, orr_tree *value,
                    uint32_t line) {
    const orr_tree *old = orr_tree_get(im->keys, row->key);
    const char *now = orr_tree_scalar(im->arena, value);
    if (old != NULL && strcmp(orr_tree_scalar(im->arena, old), now) != 0) {
        orr_import_warn(im, line, "%s says %s = %.60s, line %u said %.60s: the later holds", path,
                        row->key, now, (unsigned)orr_tree_span(old).line,
                        orr_tree_scalar(im->arena, old));
    }
    orr_import_put(im, row->key, value, line);
}

static void apply(importer *im, const foreign_row *row, const char *path, const orr_tree *node) {
    uint32_t line = orr_tree_span(node).line;
    const char *value = orr_tree_scalar(im->arena, node);
    bool silent = row->kind == FOREIGN_KIND_SKIP || row->kind == FOREIGN_KIND_NOTE;
    if (!silent && orr_name_equal(value, "auto")) {
        orr_import_depends(im, path, line, row->key, "the trainer, which fills \"auto\" in");
        return;
    }
    const char *ours;
    int64_t number;
    switch ((foreign_kind)row->kind) {
    case FOREIGN_KIND_NUM:
        number = orr_tree_kind_of(node) == ORR_TREE_TEXT ? 0 : orr_tree_int(node, 0);
        if (number < 1) {
            orr_import_unknown(im, path, line, true, "it is not a positive whole number");
        } else {
            put_row(im, row, path, orr_tree_new_int(im->arena, number), line);
        }
        break;
    case FOREIGN_KIND_SAYS:
        ours = orr_words_ours(im->arena, row->words, value);
        if (ours == NULL) {
            orr_import_unknown(im, path, line, true,
                               orr_arena_format(im->arena, "\"%.60s\" is not known", value));
        } else {
            put_row(im, row, path, orr_tree_new_text(im->arena, ours), line);
        }
        break;
    case FOREIGN_KIND_NOTE:
        if (row->words == NULL || orr_words_ours(im->arena, row->words, value) == NULL) {
            orr_import_unknown(im, path, line, true,
                               orr_arena_format(im->arena, "not modelled: %s", row->note));
        }
        break;
    case FOREIGN_KIND_WITH:
    case FOREIGN_KIND_SKIP:
    case FOREIGN_KIND_SAME: break;
    }
}

/* The row of today's spelling. */
static const foreign_row *today(const foreign_format *format, const foreign_row *row) {
    return row != NULL && row->kind == FOREIGN_KIND_SAME ? find_row(format, row->words) : row;
}

static void walk(importer *im, const foreign_format *format, const char *prefix,
                 const orr_tree *map) {
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const orr_tree *node = orr_tree_at(map, i);
        const char *key = orr_tree_key(map, i);
        const char *path = prefix[0] == '\0' ? orr_arena_text(im->arena, key)
                                             : orr_arena_format(im->arena, "%s.%s", prefix, key);
        bool map_node = orr_tree_kind_of(node) == ORR_TREE_MAP;
        const foreign_row *row = map_node ? find_whole(format, path) : find_row(format, path);
        if (orr_tree_kind_of(node) == ORR_TREE_NULL || strlen(path) > 400) {
            continue;
        }
        if (row != NULL) {
            bool same = row->kind == FOREIGN_KIND_SAME;
            orr_import_state(im, path, same ? row->words : path, node);
            row = today(format, row);
            if (row != NULL) {
                apply(im, row, path, node);
            }
        }
        if (map_node && row == NULL) {
            walk(im, format, path, node);
        } else if (row == NULL) {
            orr_import_unknown(im, path, orr_tree_span(node).line, orr_import_name_matters(path),
                               NULL);
        }
    }
}

/* A copy in which every setting stands under today's path. */
static const orr_tree *respell(importer *im, const foreign_format *format, const orr_tree *tree) {
    orr_tree *copy = NULL;
    for (size_t i = 0; i < format->count; i++) {
        const foreign_row *row = &format->rows[i];
        const orr_tree *node =
            row->kind == FOREIGN_KIND_SAME ? orr_tree_path(tree, row->path) : NULL;
        if (orr_tree_kind_of(node) == ORR_TREE_NULL) {
            continue;
        }
        copy = copy != NULL ? copy : orr_tree_copy(im->arena, tree);
        const orr_tree *own = orr_tree_path(copy, row->words);
        if (own == NULL) {
            orr_tree_set_path(im->arena, copy, row->words, orr_tree_copy(im->arena, node));
        } else if (today(format, row)->kind == FOREIGN_KIND_WITH &&
                   strcmp(orr_tree_scalar(im->arena, own), orr_tree_scalar(im->arena, node)) != 0) {
            /* those that decide a key by themselves were compared when they were read */
            orr_import_warn(im, orr_tree_span(node).line,
                            "%s and %s are one setting and contradict: %.60s and %.60s; the latter "
                            "holds",
                            row->path, row->words, orr_tree_scalar(im->arena, node),
                            orr_tree_scalar(im->arena, own));
        }
    }
    return copy != NULL ? copy : tree;
}

/* What the framework takes where the file is silent. */
static void put_defaults(importer *im, const foreign_format *format) {
    for (size_t i = 0; i < format->count; i++) {
        const foreign_row *row = &format->rows[i];
        if (row->fallback == NULL || row->key == NULL || orr_tree_get(im->keys, row->key) != NULL) {
            continue;
        }
        bool differs;
        int64_t number;
        const char *value = orr_default_of(im->arena, row->fallback, im->release, &differs);
        if (row->kind == FOREIGN_KIND_NUM && orr_parse_int(value, &number)) {
            orr_import_put_int(im, row->key, number, 0);
        } else {
            orr_import_put_text(im, row->key, value, 0);
        }
        if (differs) {
            orr_import_assume(im, row->key, value,
                              orr_arena_format(im->arena,
                                               "%s is not stated; its default by release: %s",
                                               row->path, row->fallback));
        }
    }
}

void orr_foreign_ask(importer *im) {
    static const char *const needed[] = {"model", "gpus", "seq", "gbs"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        bool batch =
            strcmp(needed[i], "gbs") == 0 && orr_tree_get(im->keys, "micro_batches") != NULL;
        if (orr_tree_get(im->keys, needed[i]) == NULL && !batch) {
            orr_import_ask(im, 0, needed[i], "this file does not say \"%s\"; give --%s", needed[i],
                           needed[i]);
        }
    }
}

void orr_foreign_import(importer *im, const foreign_format *format, const orr_tree *tree) {
    walk(im, format, "", tree);
    const orr_tree *spelled = respell(im, format, tree);
    put_defaults(im, format);
    format->joint(im, spelled);
}

/* Without words that say how it was tuned or stored: the architecture is the same. */
static const char *plain_name(orr_arena *arena, const char *name) {
    static const char *const words[] = {"instruct", "chat", "it",   "hf",  "fp16", "bf16",
                                        "bnb",      "4bit", "8bit", "awq", "gptq", "unsloth"};
    orr_text out = orr_text_new(arena, 512);
    orr_text_add(&out, "");
    for (const char *p = name; *p != '\0';) {
        size_t length = strcspn(p, "-");
        const char *part = orr_arena_copy(arena, p, length);
        bool told = false;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            told = told || orr_name_equal(part, words[i]);
        }
        if (!told || p == name) {
            orr_text_format(&out, "%s%s", out.length > 0 ? "-" : "", part);
        }
        p += length + (p[length] != '\0');
    }
    return orr_text_done(&out);
}

void orr_foreign_model_id(importer *im, const char *id, uint32_t line) {
    const char *slash = strrchr(id, '/');
    const char *full = slash != NULL && slash[1] != '\0' ? slash + 1 : id;
    const char *name = plain_name(im->arena, full);
    bool local = id[0] == '/' || id[0] == '.' || strchr(id, '\\') != NULL;
    if (local || strcmp(name, full) != 0) {
        orr_import_assume(
            im, "model", name,
            orr_arena_format(im->arena, "of %.80s: its name tells the architecture", id));
    }
    orr_import_put_text(im, "model", name, line);
}

/* ---- export --------------------------------------------------------------------------------- */

/* A word as files hold it: switches and numbers bare. */
static orr_tree *typed(orr_arena *arena, const char *word) {
    int64_t number;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        return orr_tree_new_bool(arena, word[0] == 't');
    }
    return orr_parse_int(word, &number) ? orr_tree_new_int(arena, number)
                                        : orr_tree_new_text(arena, word);
}

static bool written_before(const foreign_format *format, size_t index) {
    for (size_t i = 0; i < index; i++) {
        const foreign_row *row = &format->rows[i];
        if (row->key != NULL && strcmp(row->key, format->rows[index].key) == 0 &&
            (row->kind == FOREIGN_KIND_NUM || row->kind == FOREIGN_KIND_SAYS)) {
            return true;
        }
    }
    return false;
}

void orr_foreign_export(exporter *x, const foreign_format *format) {
    for (size_t i = 0; i < format->count; i++) {
        const foreign_row *row = &format->rows[i];
        const orr_tree *value = row->key != NULL ? orr_export_node(x, row->key) : NULL;
        if (value == NULL || written_before(format, i)) {
            continue;
        }
        if (row->kind == FOREIGN_KIND_NUM) {
            orr_export_int(x, row->path, orr_tree_int(value, 0));
        } else if (row->kind == FOREIGN_KIND_SAYS) {
            const char *ours = orr_tree_scalar(x->arena, value);
            const char *theirs = orr_words_theirs(x->arena, row->words, ours);
            if (theirs == NULL && orr_tree_kind_of(value) == ORR_TREE_BOOL) {
                theirs = orr_words_theirs(x->arena, row->words,
                                          orr_tree_bool(value, false) ? "on" : "off");
            }
            if (theirs != NULL) {
                orr_export_set(x, row->path, typed(x->arena, theirs));
            }
        }
    }
    format->write(x);
}
