/* CSV (RFC 4180) row by row, so that a table of a million rows needs memory for one.
 *
 * A row without quotes, which is nearly every row, is copied whole and cut at its commas in place;
 * the slow path takes the row apart character by character. */
#include <string.h>

#include "doc/doc_int.h"

enum { MAX_COLUMNS = 4096 };

struct orr_csv {
    orr_arena *arena;
    const char *name;
    const char *p, *end;
    uint32_t line;     /* of the next row */
    uint32_t row_line; /* of the current row */
    char *row;         /* the current row, its cells terminated in place */
    size_t row_capacity;
    const char **cells;
    size_t cell_count, cell_capacity;
    const char **columns;
    size_t column_count;
};

static orr_span place(const orr_csv *csv, uint32_t line, size_t column) {
    return (orr_span){csv->name, line, (uint32_t)column};
}

static orr_status too_many(const orr_csv *csv, orr_err *err) {
    if (csv->columns == NULL) {
        return orr_fail_at(err, ORR_E_LIMIT, place(csv, csv->row_line, 0),
                           "the table has more than %d columns", MAX_COLUMNS);
    }
    return orr_fail_at(err, ORR_E_SYNTAX, place(csv, csv->row_line, 0),
                       "the row has more cells than the header's %zu", csv->column_count);
}

static bool add_cell(orr_csv *csv, const char *cell) {
    if (csv->cell_count == csv->cell_capacity) {
        return false;
    }
    csv->cells[csv->cell_count++] = cell;
    return true;
}

static void reserve_row(orr_csv *csv, size_t bytes) {
    if (bytes > csv->row_capacity) {
        csv->row_capacity = 2 * bytes;
        csv->row = (char *)orr_arena_alloc(csv->arena, csv->row_capacity);
    }
}

/* A row that holds no quote, from p to stop (its line end). */
static orr_status cut_plain(orr_csv *csv, const char *stop, orr_err *err) {
    size_t length = (size_t)(stop - csv->p);
    reserve_row(csv, length + 1);
    memcpy(csv->row, csv->p, length);
    if (length > 0 && stop < csv->end && csv->row[length - 1] == '\r') {
        length--;
    }
    csv->row[length] = '\0';
    char *cell = csv->row, *comma;
    while ((comma = memchr(cell, ',', (size_t)(csv->row + length - cell))) != NULL) {
        *comma = '\0';
        if (!add_cell(csv, cell)) {
            return too_many(csv, err);
        }
        cell = comma + 1;
    }
    csv->p = stop < csv->end ? stop + 1 : stop;
    csv->line++;
    return add_cell(csv, cell) ? ORR_OK : too_many(csv, err);
}

/* The end of the row that begins at p: its first line end outside quotes. */
static orr_status find_row_end(const orr_csv *csv, const char **stop, orr_err *err) {
    bool quoted = false;
    uint32_t line = csv->line, opened = csv->line;
    const char *p = csv->p;
    for (; p < csv->end && (quoted || *p != '\n'); p++) {
        if (*p == '"') {
            quoted = !quoted;
            opened = line;
        }
        line += *p == '\n';
    }
    if (quoted) {
        return orr_fail_at(err, ORR_E_SYNTAX, place(csv, opened, 0),
                           "a quote is opened here and never closed");
    }
    *stop = p;
    return ORR_OK;
}

/* A row with quotes: a cell is either all quoted, with "" for a quote, or has none. */
static orr_status cut_quoted(orr_csv *csv, orr_err *err) {
    const char *stop = csv->end;
    ORR_TRY(find_row_end(csv, &stop, err));
    const char *p = csv->p, *after = stop < csv->end ? stop + 1 : stop;
    if (stop > p && stop < csv->end && stop[-1] == '\r') {
        stop--;
    }
    reserve_row(csv, (size_t)(stop - p) + 2);
    char *to = csv->row;
    for (bool more = true; more;) {
        if (!add_cell(csv, to)) {
            return too_many(csv, err);
        }
        if (p < stop && *p == '"') {
            for (p++; *p != '"' || (p + 1 < stop && p[1] == '"'); p++) {
                p += *p == '"';
                csv->line += *p == '\n';
                *to++ = *p;
            }
            p++;
        } else {
            while (p < stop && *p != ',' && *p != '"') {
                *to++ = *p++;
            }
        }
        *to++ = '\0';
        if (p < stop && *p != ',') {
            (void)orr_fail_at(err, ORR_E_SYNTAX, place(csv, csv->line, 0),
                              "a quote stands inside the cell %zu of the row", csv->cell_count);
            orr_hint(err, "quote the whole cell and double the quotes in it");
            return ORR_E_SYNTAX;
        }
        more = p < stop;
        p++;
    }
    csv->p = after;
    csv->line++;
    return ORR_OK;
}

static bool at_empty_line(const orr_csv *csv) {
    return csv->p < csv->end &&
           (*csv->p == '\n' || (*csv->p == '\r' && csv->p + 1 < csv->end && csv->p[1] == '\n'));
}

static orr_status read_row(orr_csv *csv, bool *more, orr_err *err) {
    while (at_empty_line(csv)) {
        csv->p += *csv->p == '\n' ? 1 : 2;
        csv->line++;
    }
    *more = csv->p < csv->end;
    if (!*more) {
        return ORR_OK;
    }
    csv->cell_count = 0;
    csv->row_line = csv->line;
    const char *newline = memchr(csv->p, '\n', (size_t)(csv->end - csv->p));
    const char *stop = newline == NULL ? csv->end : newline;
    return memchr(csv->p, '"', (size_t)(stop - csv->p)) == NULL ? cut_plain(csv, stop, err)
                                                                : cut_quoted(csv, err);
}

static orr_status check_columns(orr_csv *csv, orr_err *err) {
    /* A map finds a column given twice without comparing each with each. */
    orr_tree *seen = orr_tree_new_map(csv->arena);
    for (size_t i = 0; i < csv->column_count; i++) {
        const char *column = csv->columns[i];
        if (*column != '\0' && orr_tree_get(seen, column) != NULL) {
            return orr_fail_at(err, ORR_E_SYNTAX, place(csv, csv->row_line, 0),
                               "the column \"%s\" is in the header twice", column);
        }
        orr_tree_put_int(csv->arena, seen, column, (int64_t)i);
    }
    return ORR_OK;
}

static orr_status read_header(orr_csv *csv, orr_err *err) {
    bool more;
    csv->cell_capacity = MAX_COLUMNS;
    csv->cells = ORR_NEW_ARRAY(csv->arena, const char *, MAX_COLUMNS);
    ORR_TRY(read_row(csv, &more, err));
    if (!more) {
        return orr_fail_at(err, ORR_E_SYNTAX, place(csv, 1, 1),
                           "the table is empty; a header was expected");
    }
    csv->column_count = csv->cell_count;
    csv->columns = ORR_NEW_ARRAY(csv->arena, const char *, csv->column_count);
    for (size_t i = 0; i < csv->column_count; i++) {
        csv->columns[i] = orr_arena_text(csv->arena, csv->cells[i]);
    }
    csv->cell_capacity = csv->column_count;
    return check_columns(csv, err);
}

orr_status orr_csv_open(orr_arena *arena, const char *name, const char *text, size_t length,
                        orr_csv **out, orr_err *err) {
    ORR_TRY(orr_doc_check_text(name, &text, &length, err));
    orr_csv *csv = ORR_NEW(arena, orr_csv);
    csv->arena = arena;
    csv->name = name == NULL ? NULL : orr_arena_text(arena, name);
    csv->p = text;
    csv->end = text + length;
    csv->line = 1;
    ORR_TRY(read_header(csv, err));
    *out = csv;
    return ORR_OK;
}

size_t orr_csv_columns(const orr_csv *csv) {
    return csv->column_count;
}

const char *orr_csv_column(const orr_csv *csv, size_t index) {
    return index < csv->column_count ? csv->columns[index] : NULL;
}

int orr_csv_find(const orr_csv *csv, const char *column) {
    for (size_t i = 0; i < csv->column_count; i++) {
        if (strcmp(csv->columns[i], column) == 0) {
            return (int)i;
        }
    }
    return -1;
}

orr_status orr_csv_next(orr_csv *csv, const char *const **cells, bool *more, orr_err *err) {
    ORR_TRY(read_row(csv, more, err));
    if (*more && csv->cell_count != csv->column_count) {
        return orr_fail_at(err, ORR_E_SYNTAX, place(csv, csv->row_line, 0),
                           "the row has %zu cells, the header %zu", csv->cell_count,
                           csv->column_count);
    }
    *cells = csv->cells;
    return ORR_OK;
}

uint32_t orr_csv_line(const orr_csv *csv) {
    return csv->row_line;
}
