/* One field of a table: from a node to a member of the struct, and back. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "doc/doc_int.h"

enum { SHOWN_TEXT = 40, MAX_FLAGS = 32 };

size_t orr_field_value_count(const orr_field *field) {
    size_t count = 0;
    while (field->values != NULL && field->values[count] != NULL) {
        count++;
    }
    return count;
}

/* A node as a message shows it: its kind and, when short, its value. */
static const char *describe(orr_arena *arena, const orr_tree *node) {
    char number[32];
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_NULL: return "null";
    case ORR_TREE_BOOL: return orr_tree_bool(node, false) ? "true" : "false";
    case ORR_TREE_INT: return orr_arena_format(arena, "%lld", (long long)orr_tree_int(node, 0));
    case ORR_TREE_REAL:
        orr_format_real(orr_tree_real(node, 0), number);
        return orr_arena_text(arena, number);
    case ORR_TREE_TEXT: {
        const char *text = orr_tree_text(node, "");
        size_t length = strlen(text);
        bool whole = length <= SHOWN_TEXT;
        return orr_arena_format(arena, "\"%.*s\"%s", whole ? (int)length : SHOWN_TEXT, text,
                                whole ? "" : "...");
    }
    case ORR_TREE_LIST: return "a list";
    case ORR_TREE_MAP: return "a map";
    }
    return "nothing";
}

static const char *wrong_type(const orr_field *field, orr_arena *arena, const orr_tree *node,
                              const char *expected, orr_err *err) {
    (void)orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node), "\"%s\" is %s; it takes %s",
                      field->name, describe(arena, node), expected);
    return "wrong_type";
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool has_maximum(const orr_field *field) {
    return field->max != 0 || field->min < 0;
}

/* Whether a number lies in the field's range (both limits 0: not negative; max 0: no maximum). */
static bool in_range(const orr_field *field, double value) {
    return value >= field->min && (!has_maximum(field) || value <= field->max);
}

static const char *out_of_range(const orr_field *field, orr_arena *arena, const orr_tree *node,
                                orr_err *err) {
    const char *unit = field->unit == NULL ? "" : field->unit;
    const char *space = field->unit == NULL ? "" : " ";
    char low[32], high[32];
    orr_format_real(field->min, low);
    orr_format_real(field->max, high);
    const char *range =
        has_maximum(field)
            ? orr_arena_format(arena, "between %s and %s%s%s", low, high, space, unit)
        : field->min > 0 ? orr_arena_format(arena, "at least %s%s%s", low, space, unit)
                         : "0 or more";
    (void)orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node), "\"%s\" is %s; it must be %s",
                      field->name, describe(arena, node), range);
    return "out_of_range";
}

static const char *example_of(const char *unit) {
    static const char *const examples[][2] = {
        {"bytes", "80GiB"}, {"bytes/s", "3.35TB/s"},  {"s", "12us"},      {"flop", "2EFLOP"},
        {"tokens", "15T"},  {"flop/s", "989TFLOP/s"}, {"tokens/s", "9k"}, {"W", "700W"},
        {"Hz", "1.98GHz"},  {"parameters", "8B"},
    };
    for (size_t i = 0; unit != NULL && i < sizeof examples / sizeof *examples; i++) {
        if (strcmp(examples[i][0], unit) == 0) {
            return examples[i][1];
        }
    }
    return "1.5k";
}

static bool read_number(const orr_field *field, const orr_tree *node, double *value) {
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_INT:
    case ORR_TREE_REAL: *value = orr_tree_real(node, 0); return true;
    case ORR_TREE_TEXT:
        if (strlen(orr_tree_text(node, "")) != orr_tree_text_length(node)) {
            return false;
        }
        return field->type == ORR_FIELD_REAL
                   ? orr_parse_real(orr_tree_text(node, ""), value)
                   : orr_quantity_parse(orr_tree_text(node, ""), field->unit, value);
    case ORR_TREE_NULL:
    case ORR_TREE_BOOL:
    case ORR_TREE_LIST:
    case ORR_TREE_MAP: break;
    }
    return false;
}

static const char *store_real(const orr_field *field, orr_arena *arena, const orr_tree *node,
                              char *member, orr_err *err) {
    double value;
    if (!read_number(field, node, &value)) {
        const char *expected =
            field->type == ORR_FIELD_REAL
                ? "a number"
                : orr_arena_format(arena, "a number%s%s, such as \"%s\"",
                                   field->unit == NULL ? "" : " of ",
                                   field->unit == NULL ? "" : field->unit, example_of(field->unit));
        return wrong_type(field, arena, node, expected, err);
    }
    if (!in_range(field, value)) {
        return out_of_range(field, arena, node, err);
    }
    memcpy(member, &value, sizeof value);
    return NULL;
}

/* Integers go the exact way where they can; text such as "1.1k" may miss by the last bit. */
static bool read_integer(const orr_field *field, const orr_tree *node, int64_t *value) {
    if (orr_tree_kind_of(node) == ORR_TREE_INT) {
        *value = orr_tree_int(node, 0);
        return true;
    }
    double real;
    if (orr_tree_kind_of(node) == ORR_TREE_TEXT && orr_parse_int(orr_tree_text(node, ""), value)) {
        return strlen(orr_tree_text(node, "")) == orr_tree_text_length(node);
    }
    if (!read_number(field, node, &real)) {
        return false;
    }
    double whole = round(real);
    if (!(fabs(whole) < 0x1p63) || fabs(real - whole) > 4 * DBL_EPSILON * fabs(real)) {
        return false;
    }
    *value = (int64_t)whole;
    return true;
}

static const char *store_integer(const orr_field *field, orr_arena *arena, const orr_tree *node,
                                 char *member, orr_err *err) {
    int64_t value;
    if (!read_integer(field, node, &value)) {
        const char *expected = field->unit == NULL
                                   ? "a whole number"
                                   : orr_arena_format(arena, "a whole number of %s", field->unit);
        return wrong_type(field, arena, node, expected, err);
    }
    if (value < 0 || !in_range(field, (double)value)) {
        return out_of_range(field, arena, node, err);
    }
    if (field->type == ORR_FIELD_U64) {
        uint64_t wide = (uint64_t)value;
        memcpy(member, &wide, sizeof wide);
        return NULL;
    }
    if (value > UINT32_MAX) {
        orr_field narrow = *field;
        narrow.max = UINT32_MAX;
        return out_of_range(&narrow, arena, node, err);
    }
    uint32_t narrow = (uint32_t)value;
    memcpy(member, &narrow, sizeof narrow);
    return NULL;
}

/* ---- words ---------------------------------------------------------------------------------- */

static const char *const yes_words[] = {"true", "on", "yes"};
static const char *const no_words[] = {"false", "off", "no"};
enum { WORD_COUNT = 3 };

static bool is_among(const char *text, const char *const *words) {
    for (size_t i = 0; i < WORD_COUNT; i++) {
        if (orr_name_equal(text, words[i])) {
            return true;
        }
    }
    return false;
}

static const char *store_bool(const orr_field *field, orr_arena *arena, const orr_tree *node,
                              char *member, orr_err *err) {
    const char *text = orr_tree_text(node, "");
    bool value = orr_tree_bool(node, is_among(text, yes_words));
    if (orr_tree_kind_of(node) != ORR_TREE_BOOL && !value && !is_among(text, no_words)) {
        return wrong_type(field, arena, node, "true or false", err);
    }
    memcpy(member, &value, sizeof value);
    return NULL;
}

static const char *store_text(const orr_field *field, orr_arena *arena, const orr_tree *node,
                              char *member, orr_err *err) {
    if (orr_tree_kind_of(node) != ORR_TREE_TEXT) {
        const char *code = wrong_type(field, arena, node, "text", err);
        if (orr_tree_kind_of(node) != ORR_TREE_LIST && orr_tree_kind_of(node) != ORR_TREE_MAP) {
            orr_hint(err, "put quotes around it");
        }
        return code;
    }
    const char *text = orr_tree_text(node, "");
    if (strlen(text) != orr_tree_text_length(node)) {
        return wrong_type(field, arena, node, "text without NUL characters", err);
    }
    const char *copy = orr_arena_text(arena, text);
    memcpy(member, &copy, sizeof copy);
    return NULL;
}

/* Names of the table's values, for messages: "bf16, fp16, fp8". */
static const char *list_values(const orr_field *field, orr_arena *arena) {
    orr_text text = orr_text_new(arena, 400);
    for (size_t i = 0; i < orr_field_value_count(field); i++) {
        orr_text_format(&text, "%s%s", i == 0 ? "" : ", ", field->values[i]);
    }
    return orr_text_done(&text);
}

static int find_value(const orr_field *field, const char *name) {
    size_t count = orr_field_value_count(field);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, field->values[i]) == 0) {
            return (int)i;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (orr_name_equal(name, field->values[i])) {
            return (int)i;
        }
    }
    return -1;
}

static const char *unknown_value(const orr_field *field, orr_arena *arena, const orr_tree *node,
                                 const char *name, orr_err *err) {
    (void)orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node), "\"%s\" has no value \"%.*s\"",
                      field->name, SHOWN_TEXT, name);
    int nearest = orr_name_nearest(name, field->values, orr_field_value_count(field));
    const char *all = list_values(field, arena);
    if (nearest >= 0) {
        orr_hint(err, "did you mean \"%s\"? it takes %s", field->values[nearest], all);
    } else {
        orr_hint(err, "it takes %s", all);
    }
    return "unknown_value";
}

/* A plain word of YAML or JSON may have become a number or a bool: on, 8, true. */
static const char *scalar_name(const orr_field *field, orr_arena *arena, const orr_tree *node) {
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_TEXT: return orr_tree_text(node, "");
    case ORR_TREE_INT:
    case ORR_TREE_REAL: return describe(arena, node);
    case ORR_TREE_BOOL: {
        const char *const *words = orr_tree_bool(node, false) ? yes_words : no_words;
        for (size_t i = 0; i < WORD_COUNT; i++) {
            if (find_value(field, words[i]) >= 0) {
                return words[i];
            }
        }
        return words[0];
    }
    case ORR_TREE_NULL:
    case ORR_TREE_LIST:
    case ORR_TREE_MAP: break;
    }
    return NULL;
}

static const char *store_enum(const orr_field *field, orr_arena *arena, const orr_tree *node,
                              char *member, orr_err *err) {
    const char *name = scalar_name(field, arena, node);
    if (name == NULL) {
        const char *expected = orr_arena_format(arena, "one of %s", list_values(field, arena));
        return wrong_type(field, arena, node, expected, err);
    }
    int index = find_value(field, name);
    if (index < 0) {
        return unknown_value(field, arena, node, name, err);
    }
    uint8_t value = (uint8_t)index;
    memcpy(member, &value, sizeof value);
    return NULL;
}

/* One name of a set: "none" adds nothing and "all" everything, unless they are values themselves.
 */
static bool add_flag(const orr_field *field, const char *name, uint32_t *bits) {
    int index = find_value(field, name);
    size_t count = orr_field_value_count(field);
    if (index >= 0 && index < MAX_FLAGS) {
        *bits |= (uint32_t)1 << index;
    } else if (orr_name_equal(name, "all")) {
        *bits |= count >= MAX_FLAGS ? UINT32_MAX : ((uint32_t)1 << count) - 1;
    } else if (!orr_name_equal(name, "none")) {
        return false;
    }
    return true;
}

static const char *store_flag_text(const orr_field *field, orr_arena *arena, const orr_tree *node,
                                   uint32_t *bits, orr_err *err) {
    const char *text = orr_tree_text(node, "");
    if (text[strspn(text, " ,")] == '\0') {
        return unknown_value(field, arena, node, text, err);
    }
    for (const char *p = text;;) {
        size_t length = strcspn(p, ",");
        size_t start = strspn(p, " ");
        size_t end = length;
        while (end > start && p[end - 1] == ' ') {
            end--;
        }
        if (start < end) {
            const char *name = orr_arena_copy(arena, p + start, end - start);
            if (!add_flag(field, name, bits)) {
                return unknown_value(field, arena, node, name, err);
            }
        }
        if (p[length] == '\0') {
            return NULL;
        }
        p += length + 1;
    }
}

static const char *store_flags(const orr_field *field, orr_arena *arena, const orr_tree *node,
                               char *member, orr_err *err) {
    uint32_t bits = 0;
    orr_tree_kind kind = orr_tree_kind_of(node);
    if (kind != ORR_TREE_LIST && kind != ORR_TREE_TEXT) {
        const char *expected = orr_arena_format(arena, "a list of %s", list_values(field, arena));
        return wrong_type(field, arena, node, expected, err);
    }
    if (kind == ORR_TREE_TEXT) {
        const char *code = store_flag_text(field, arena, node, &bits, err);
        if (code != NULL) {
            return code;
        }
    }
    for (size_t i = 0; kind == ORR_TREE_LIST && i < orr_tree_size(node); i++) {
        const orr_tree *item = orr_tree_at(node, i);
        const char *name = scalar_name(field, arena, item);
        if (name == NULL) {
            return wrong_type(field, arena, item, "names in its list", err);
        }
        if (!add_flag(field, name, &bits)) {
            return unknown_value(field, arena, item, name, err);
        }
    }
    memcpy(member, &bits, sizeof bits);
    return NULL;
}

/* ---- any ------------------------------------------------------------------------------------ */

const char *orr_field_store(const orr_field *field, orr_arena *arena, const orr_tree *node,
                            void *target, orr_err *err) {
    char *member = (char *)target + field->offset;
    switch (field->type) {
    case ORR_FIELD_BOOL: return store_bool(field, arena, node, member, err);
    case ORR_FIELD_U32:
    case ORR_FIELD_U64: return store_integer(field, arena, node, member, err);
    case ORR_FIELD_REAL:
    case ORR_FIELD_QUANTITY: return store_real(field, arena, node, member, err);
    case ORR_FIELD_TEXT: return store_text(field, arena, node, member, err);
    case ORR_FIELD_ENUM: return store_enum(field, arena, node, member, err);
    case ORR_FIELD_FLAGS: return store_flags(field, arena, node, member, err);
    case ORR_FIELD_TREE: memcpy(member, &node, sizeof node); return NULL;
    }
    return NULL;
}

bool orr_field_store_default(const orr_field *field, orr_arena *arena, void *target) {
    if (field->fallback == NULL || *field->fallback == '\0') {
        return true;
    }
    orr_tree *node = NULL;
    if (field->type != ORR_FIELD_TREE) {
        node = orr_tree_new_text(arena, field->fallback);
    } else if (orr_yaml_read(arena, NULL, field->fallback, strlen(field->fallback), &node, NULL) !=
               ORR_OK) {
        return false;
    }
    return orr_field_store(field, arena, node, target, NULL) == NULL;
}

static orr_tree *load_flags(const orr_field *field, orr_arena *arena, uint32_t bits) {
    orr_tree *list = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_field_value_count(field) && i < MAX_FLAGS; i++) {
        if (bits >> i & 1) {
            orr_tree_push(arena, list, orr_tree_new_text(arena, field->values[i]));
        }
    }
    return list;
}

orr_tree *orr_field_load(const orr_field *field, orr_arena *arena, const void *source) {
    const char *member = (const char *)source + field->offset;
    union {
        bool boolean;
        uint8_t index;
        uint32_t narrow;
        uint64_t wide;
        double real;
        const char *text;
        orr_tree *tree;
    } value = {0};
    switch (field->type) {
    case ORR_FIELD_BOOL:
        memcpy(&value.boolean, member, sizeof value.boolean);
        return orr_tree_new_bool(arena, value.boolean);
    case ORR_FIELD_U32:
        memcpy(&value.narrow, member, sizeof value.narrow);
        return orr_tree_new_int(arena, value.narrow);
    case ORR_FIELD_U64:
        memcpy(&value.wide, member, sizeof value.wide);
        return value.wide <= INT64_MAX ? orr_tree_new_int(arena, (int64_t)value.wide)
                                       : orr_tree_new_real(arena, (double)value.wide);
    case ORR_FIELD_REAL:
    case ORR_FIELD_QUANTITY:
        memcpy(&value.real, member, sizeof value.real);
        return orr_tree_new_real(arena, value.real);
    case ORR_FIELD_TEXT:
        memcpy(&value.text, member, sizeof value.text);
        return value.text == NULL ? orr_tree_null(arena) : orr_tree_new_text(arena, value.text);
    case ORR_FIELD_ENUM:
        memcpy(&value.index, member, sizeof value.index);
        return value.index < orr_field_value_count(field)
                   ? orr_tree_new_text(arena, field->values[value.index])
                   : orr_tree_null(arena);
    case ORR_FIELD_FLAGS:
        memcpy(&value.narrow, member, sizeof value.narrow);
        return load_flags(field, arena, value.narrow);
    case ORR_FIELD_TREE:
        memcpy(&value.tree, member, sizeof value.tree);
        return value.tree == NULL ? orr_tree_null(arena) : value.tree;
    }
    return orr_tree_null(arena);
}
