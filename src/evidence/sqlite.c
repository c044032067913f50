/* Evidence in SQLite. The tool's own: a table `header` with what stands above a file's records and
 * a table `evidence` with one record a row, both as JSON, so that what is read is what was written,
 * hash included. Else the first table is read as if it were a CSV of its columns. */
#include <sqlite3.h>
#include <string.h>

#include "base/err.h"
#include "evidence/evidence_int.h"
#include "orrery/orrery.h"

enum { MOST_VALUE_BYTES = 1 << 20, MOST_TABLE_BYTES = 1 << 28, OPS_PER_LOOK = 1 << 20 };
enum { MOST_LOOKS = 1 << 8 };

static const char own_schema[] = "CREATE TABLE header(identity TEXT NOT NULL);"
                                 "CREATE TABLE evidence(record TEXT NOT NULL);";

bool orr_evidence_is_sqlite(const char *bytes, size_t length) {
    static const char magic[] = "SQLite format 3";
    return length >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

static int spend(void *user) {
    int *looks = (int *)user;
    return ++*looks > MOST_LOOKS;
}

static orr_status broken(sqlite3 *db, orr_err *err) {
    return orr_fail(err, ORR_E_SCHEMA, "the database cannot be read: %s", sqlite3_errmsg(db));
}

static const char *text_of(sqlite3_stmt *row, int column) {
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text != NULL ? text : "";
}

/* ---- the tool's own ------------------------------------------------------------------------- */

static orr_status read_own(orr_arena *arena, sqlite3 *db, sqlite3_stmt *header, orr_tree **out,
                           orr_err *err) {
    if (sqlite3_step(header) != SQLITE_ROW) {
        return orr_fail(err, ORR_E_SCHEMA, "the table \"header\" is empty");
    }
    orr_tree *tree = NULL, *value = NULL;
    int step;
    const char *identity = text_of(header, 0);
    ORR_TRY(orr_json_read(arena, "header", identity, strlen(identity), &tree, err));
    if (orr_tree_kind_of(tree) != ORR_TREE_MAP) {
        return orr_fail(err, ORR_E_SCHEMA, "the table \"header\" holds no map");
    }
    sqlite3_stmt *records = NULL;
    if (sqlite3_prepare_v2(db, "SELECT record FROM evidence ORDER BY rowid", -1, &records, NULL) !=
        SQLITE_OK) {
        return broken(db, err);
    }
    orr_tree *list = orr_tree_put(arena, tree, "records", orr_tree_new_list(arena));
    orr_status status = ORR_OK;
    while (status == ORR_OK && (step = sqlite3_step(records)) == SQLITE_ROW) {
        const char *text = text_of(records, 0);
        status = orr_tree_size(list) < ORR_EVIDENCE_MAX_RECORDS
                     ? orr_json_read(arena, "record", text, strlen(text), &value, err)
                     : orr_fail(err, ORR_E_LIMIT, "more than %d records of evidence",
                                ORR_EVIDENCE_MAX_RECORDS);
        if (status == ORR_OK) {
            (void)orr_tree_push(arena, list, value);
        }
    }
    status = status == ORR_OK && step != SQLITE_DONE ? broken(db, err) : status;
    (void)sqlite3_finalize(records);
    *out = tree;
    return status;
}

/* ---- any other table ------------------------------------------------------------------------ */

static void add_cell(orr_text *csv, const char *text, bool last) {
    orr_text_add(csv, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        orr_text_format(csv, "%s%c", *at == '"' ? "\"" : "", *at);
    }
    orr_text_add(csv, last ? "\"\n" : "\",");
}

static orr_status read_table(orr_arena *arena, sqlite3 *db, const char *name, char **csv_text,
                             orr_err *err) {
    sqlite3_stmt *rows = NULL;
    char *query = sqlite3_mprintf("SELECT * FROM \"%w\"", name);
    int step = query != NULL ? sqlite3_prepare_v2(db, query, -1, &rows, NULL) : SQLITE_NOMEM;
    sqlite3_free(query);
    if (step != SQLITE_OK) {
        return broken(db, err);
    }
    orr_text csv = orr_text_new(arena, MOST_TABLE_BYTES);
    int columns = sqlite3_column_count(rows);
    for (int i = 0; i < columns; i++) {
        add_cell(&csv, sqlite3_column_name(rows, i), i + 1 == columns);
    }
    while ((step = sqlite3_step(rows)) == SQLITE_ROW) {
        for (int i = 0; i < columns; i++) {
            add_cell(&csv, text_of(rows, i), i + 1 == columns);
        }
    }
    (void)sqlite3_finalize(rows);
    *csv_text = orr_text_done(&csv);
    return step == SQLITE_DONE ? ORR_OK : broken(db, err);
}

static orr_status read_database(orr_arena *arena, sqlite3 *db, orr_tree **own, char **csv,
                                orr_err *err) {
    sqlite3_stmt *header = NULL, *tables = NULL;
    if (sqlite3_prepare_v2(db, "SELECT identity FROM header", -1, &header, NULL) == SQLITE_OK) {
        orr_status status = read_own(arena, db, header, own, err);
        (void)sqlite3_finalize(header);
        return status;
    }
    static const char first[] = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT "
                                "LIKE 'sqlite_%' ORDER BY rowid LIMIT 1";
    if (sqlite3_prepare_v2(db, first, -1, &tables, NULL) != SQLITE_OK) {
        return broken(db, err);
    }
    orr_status status =
        sqlite3_step(tables) == SQLITE_ROW
            ? read_table(arena, db, orr_arena_text(arena, text_of(tables, 0)), csv, err)
            : orr_fail(err, ORR_E_SCHEMA, "the database holds no table");
    (void)sqlite3_finalize(tables);
    return status;
}

orr_status orr_evidence_read_sqlite(orr_arena *arena, const char *bytes, size_t length,
                                    orr_tree **own, char **csv, orr_err *err) {
    sqlite3 *db = NULL;
    int looks = 0;
    *own = NULL;
    *csv = NULL;
    int opened = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL);
    if (opened == SQLITE_OK) {
        unsigned char *copy = (unsigned char *)orr_arena_alloc(arena, length + 1);
        memcpy(copy, bytes, length);
        opened = sqlite3_deserialize(db, "main", copy, (sqlite3_int64)length, (sqlite3_int64)length,
                                     SQLITE_DESERIALIZE_READONLY);
        (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES);
        sqlite3_progress_handler(db, OPS_PER_LOOK, spend, &looks);
    }
    orr_status status = opened == SQLITE_OK
                            ? read_database(arena, db, own, csv, err)
                            : orr_fail(err, ORR_E_IO, "the database cannot be opened");
    (void)sqlite3_close(db);
    return status;
}

/* ---- out ------------------------------------------------------------------------------------ */

static bool insert(sqlite3_stmt *into, const char *text) {
    bool done = sqlite3_bind_text(into, 1, text, -1, SQLITE_STATIC) == SQLITE_OK &&
                sqlite3_step(into) == SQLITE_DONE;
    return sqlite3_reset(into) == SQLITE_OK && done;
}

static bool fill(orr_arena *arena, sqlite3 *db, const orr_tree *evidence) {
    sqlite3_stmt *header = NULL, *record = NULL;
    orr_tree *identity = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(evidence); i++) {
        if (strcmp(orr_tree_key(evidence, i), "records") != 0) {
            (void)orr_tree_put(arena, identity, orr_tree_key(evidence, i),
                               orr_tree_copy(arena, orr_tree_at(evidence, i)));
        }
    }
    const orr_tree *records = orr_tree_get(evidence, "records");
    bool done =
        sqlite3_exec(db, own_schema, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "INSERT INTO header VALUES (?)", -1, &header, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "INSERT INTO evidence VALUES (?)", -1, &record, NULL) == SQLITE_OK &&
        insert(header, orr_write_json(arena, identity, false));
    for (size_t i = 0; done && i < orr_tree_size(records); i++) {
        done = insert(record, orr_write_json(arena, orr_tree_at(records, i), false));
    }
    (void)sqlite3_finalize(header);
    (void)sqlite3_finalize(record);
    return done && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
}

orr_status orr_evidence_write_sqlite(orr_arena *arena, const orr_tree *evidence, void **bytes,
                                     size_t *length, orr_err *err) {
    sqlite3 *db = NULL;
    sqlite3_int64 size = 0;
    unsigned char *image = NULL;
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        fill(arena, db, evidence)) {
        image = sqlite3_serialize(db, "main", &size, 0);
    }
    orr_status status = ORR_OK;
    if (image == NULL) {
        status = orr_fail(err, ORR_E_IO, "the database cannot be made: %s", sqlite3_errmsg(db));
    } else {
        *bytes = orr_arena_copy(arena, (const char *)image, (size_t)size);
        *length = (size_t)size;
    }
    sqlite3_free(image);
    (void)sqlite3_close(db);
    return status;
}
