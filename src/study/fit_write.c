/* What a fit found goes back into the files it came from: the token of each number is replaced
 * where it stands, everything else stays as it is. */
#include <ctype.h>
#include <string.h>

#include "base/err.h"
#include "base/os_file.h"
#include "base/text.h"
#include "doc/doc.h"
#include "study/study.h"

/* The node of a field in a file: software/X.yaml, fabrics/X.yaml, or an architecture's record. */
static const orr_tree *field_of(const orr_tree *root, const char *in, const char *field) {
    static const char *const sections[] = {"time", "memory"};
    if (strncmp(in, "software/", 9) == 0) {
        for (size_t s = 0; s < sizeof sections / sizeof *sections; s++) {
            const orr_tree *node = orr_tree_get(orr_tree_get(root, sections[s]), field);
            if (node != NULL) {
                return orr_tree_kind_of(node) == ORR_TREE_MAP ? orr_tree_get(node, "value") : node;
            }
        }
        return NULL;
    }
    if (strncmp(in, "fabrics/", 8) == 0) {
        return orr_tree_get(root, field);
    }
    const orr_tree *fits = orr_tree_get(root, "fits");
    for (size_t i = 0; i < orr_tree_size(fits); i++) {
        const orr_tree *one = orr_tree_at(fits, i);
        if (strcmp(orr_tree_text(orr_tree_get(one, "arch"), ""), in) == 0) {
            return orr_tree_get(one, field);
        }
    }
    return NULL;
}

/* Where a line and column (from 1) lie in a text; NULL outside. */
static const char *place(const char *text, orr_span span) {
    const char *at = text;
    for (uint32_t line = 1; line < span.line; line++) {
        at = strchr(at, '\n');
        if (at == NULL) {
            return NULL;
        }
        at++;
    }
    return strlen(at) + 1 >= span.column ? at + span.column - 1 : NULL;
}

static size_t token_length(const char *at) {
    return strcspn(at, " ,}\n#");
}

/* Three digits; times with the unit that suits them. */
static const char *spell(orr_arena *arena, const char *field, const char *old, size_t length,
                         double value) {
    size_t name = strlen(field);
    bool time = name > 2 && strcmp(field + name - 2, "_s") == 0;
    for (size_t i = 0; i < length; i++) {
        time = time || (isalpha((unsigned char)old[i]) != 0 && old[i] != 'e' && old[i] != 'E');
    }
    if (!time) {
        return orr_arena_format(arena, "%.3g", value);
    }
    return value >= 1e-3 ? orr_arena_format(arena, "%.3gms", value * 1e3)
                         : orr_arena_format(arena, "%.3gus", value * 1e6);
}

static const char *path_of(orr_arena *arena, const char *folder, const char *in) {
    bool file = strchr(in, '/') != NULL;
    return file ? orr_arena_format(arena, "%s/%s", folder, in)
                : orr_arena_format(arena, "%s/calibration/architecture.yaml", folder);
}

static orr_status write_one(orr_arena *arena, const char *path, const orr_tree *parameter,
                            orr_err *err) {
    const char *in = orr_tree_text(orr_tree_get(parameter, "in"), "");
    const char *field = orr_tree_text(orr_tree_get(parameter, "field"), "");
    double value = orr_tree_real(orr_tree_get(parameter, "after"), 0);
    char *text = NULL;
    size_t length = 0;
    orr_tree *root = NULL;
    ORR_TRY(orr_file_read(arena, path, &text, &length, err));
    ORR_TRY(orr_yaml_read(arena, path, text, length, &root, err));
    const orr_tree *node = field_of(root, in, field);
    const char *at = node == NULL ? NULL : place(text, orr_tree_span(node));
    if (at == NULL) {
        return orr_fail(err, ORR_E_NAME, "%s does not state %s, which was fitted", path, field);
    }
    size_t old = token_length(at), before = (size_t)(at - text);
    const char *new = spell(arena, field, at, old, value);
    const char *whole =
        orr_arena_format(arena, "%.*s%s%s", (int)before, text, new, text + before + old);
    return orr_os_write_file(path, whole, strlen(whole), err);
}

orr_status orr_study_fit_write(orr_arena *arena, orr_tree *result, const char *folder,
                               orr_err *err) {
    const orr_tree *stages = orr_tree_get(result, "stages");
    orr_tree *written = orr_tree_put(arena, result, "written", orr_tree_new_list(arena));
    const char *last = "";
    for (size_t s = 0; s < orr_tree_size(stages); s++) {
        const orr_tree *list = orr_tree_get(orr_tree_at(stages, s), "parameters");
        for (size_t i = 0; i < orr_tree_size(list); i++) {
            const orr_tree *one = orr_tree_at(list, i);
            const char *path = path_of(arena, folder, orr_tree_text(orr_tree_get(one, "in"), ""));
            ORR_TRY(write_one(arena, path, one, err));
            if (strcmp(path, last) != 0) {
                (void)orr_tree_push(arena, written, orr_tree_new_text(arena, path));
                last = path;
            }
        }
    }
    return ORR_OK;
}
