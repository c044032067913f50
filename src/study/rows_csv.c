/* The rows of a result as a table for spreadsheets. */
#include <string.h>

#include "base/text.h"
#include "study/study.h"

enum { CSV_LIMIT_BYTES = 64 << 20, MAX_COLUMNS = 64 };

static void add_cell(orr_text *text, const char *value) {
    if (strpbrk(value, ",\"\r\n") == NULL) {
        orr_text_add(text, value);
        return;
    }
    orr_text_add(text, "\"");
    for (const char *p = value; *p != '\0'; p++) {
        orr_text_addn(text, p, 1);
        if (*p == '"') {
            orr_text_add(text, "\"");
        }
    }
    orr_text_add(text, "\"");
}

static void add_value(orr_text *text, const orr_tree *node) {
    char number[32];
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_BOOL: orr_text_add(text, orr_tree_bool(node, false) ? "true" : "false"); break;
    case ORR_TREE_INT:
    case ORR_TREE_REAL:
        orr_format_real(orr_tree_real(node, 0), number);
        orr_text_add(text, number);
        break;
    case ORR_TREE_TEXT: add_cell(text, orr_tree_text(node, "")); break;
    case ORR_TREE_NULL:
    case ORR_TREE_LIST:
    case ORR_TREE_MAP: break;
    }
}

/* Keys of all rows, in order of first appearance. */
static size_t collect_columns(const orr_tree *rows, const char *columns[MAX_COLUMNS]) {
    size_t count = 0;
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        for (size_t k = 0; k < orr_tree_size(row) && count < MAX_COLUMNS; k++) {
            size_t c = 0;
            while (c < count && strcmp(columns[c], orr_tree_key(row, k)) != 0) {
                c++;
            }
            if (c == count) {
                columns[count++] = orr_tree_key(row, k);
            }
        }
    }
    return count;
}

const char *orr_study_rows_csv(orr_arena *arena, const orr_tree *result) {
    static const char *const lists[] = {"rows", "cases", "failures"};
    const orr_tree *rows = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists && rows == NULL; i++) {
        rows = orr_tree_get(result, lists[i]);
    }
    const char *columns[MAX_COLUMNS];
    size_t count = collect_columns(rows, columns);
    orr_text text = orr_text_new(arena, CSV_LIMIT_BYTES);
    for (size_t c = 0; c < count; c++) {
        orr_text_add(&text, c == 0 ? "" : ",");
        add_cell(&text, columns[c]);
    }
    orr_text_add(&text, "\n");
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        for (size_t c = 0; c < count; c++) {
            orr_text_add(&text, c == 0 ? "" : ",");
            add_value(&text, orr_tree_get(orr_tree_at(rows, i), columns[c]));
        }
        orr_text_add(&text, "\n");
    }
    return orr_text_done(&text);
}
