#include "store/store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"

enum { SCHEMA_VERSION = 2, APPLICATION_ID = 0x4f525259 /* "ORRY" */, BUSY_MS = 5000 };
enum { MAX_STATE_BYTES = 256 << 20, MAX_JSONL_BYTES = 256 << 20 };

struct orr_store {
    sqlite3 *db;
    char path[1024];
};

static orr_status refuse(const orr_store *store, int code, orr_err *err) {
    bool foreign = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
    return orr_fail(err, foreign ? ORR_E_SCHEMA : ORR_E_IO, "%s: %s", store->path,
                    foreign ? "is no store of orrery" : sqlite3_errmsg(store->db));
}

static orr_status run(orr_store *store, const char *sql, orr_err *err) {
    int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? ORR_OK : refuse(store, code, err);
}

static orr_status prepare(orr_store *store, const char *sql, uint64_t search, sqlite3_stmt **out,
                          orr_err *err) {
    char key[24];
    (void)snprintf(key, sizeof key, "%016llx", (unsigned long long)search);
    int code = sqlite3_prepare_v2(store->db, sql, -1, out, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_bind_text(*out, 1, key, -1, SQLITE_TRANSIENT);
    }
    return code == SQLITE_OK ? ORR_OK : refuse(store, code, err);
}

/* Runs a statement that gives no rows. */
static orr_status finish(orr_store *store, sqlite3_stmt *statement, orr_err *err) {
    int code = sqlite3_step(statement);
    orr_status status = code == SQLITE_DONE ? ORR_OK : refuse(store, code, err);
    (void)sqlite3_finalize(statement);
    return status;
}

static orr_status number(orr_store *store, const char *sql, int *out, orr_err *err) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
        *out = code == SQLITE_ROW ? sqlite3_column_int(statement, 0) : 0;
        code = code == SQLITE_ROW ? SQLITE_OK : code;
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_OK ? ORR_OK : refuse(store, code, err);
}

static orr_status create(orr_store *store, orr_err *err) {
    return run(store,
               "BEGIN IMMEDIATE;"
               "CREATE TABLE IF NOT EXISTS trial (id INTEGER PRIMARY KEY, search TEXT NOT NULL,"
               " kind TEXT NOT NULL, plan TEXT NOT NULL, tokens_per_s_per_gpu REAL, step_s REAL,"
               " need_bytes REAL, at_s REAL);"
               "CREATE INDEX IF NOT EXISTS trial_search ON trial (search, id);"
               "CREATE TABLE IF NOT EXISTS state (search TEXT PRIMARY KEY, bytes BLOB NOT NULL);"
               "PRAGMA application_id = 1330795097;" /* APPLICATION_ID */
               "PRAGMA user_version = 1;"
               "COMMIT;",
               err);
}

/* Version 2: what was said of a trial. */
static orr_status upgrade(orr_store *store, orr_err *err) {
    return run(store,
               "BEGIN IMMEDIATE;"
               "ALTER TABLE trial ADD COLUMN verdict TEXT;"
               "ALTER TABLE trial ADD COLUMN why TEXT;"
               "PRAGMA user_version = 2;"
               "COMMIT;",
               err);
}

static orr_status set_up(orr_store *store, orr_err *err) {
    int application = 0, version = 0, tables = 0;
    ORR_TRY(number(store, "PRAGMA application_id", &application, err));
    ORR_TRY(number(store, "PRAGMA user_version", &version, err));
    ORR_TRY(number(store, "SELECT count(*) FROM sqlite_master", &tables, err));
    if ((tables > 0 && application != APPLICATION_ID) || version > SCHEMA_VERSION) {
        return orr_fail(err, ORR_E_SCHEMA, "%s: is %s", store->path,
                        application == APPLICATION_ID ? "a store of a newer orrery"
                                                      : "no store of orrery");
    }
    ORR_TRY(run(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", err));
    if (version < 1) {
        ORR_TRY(create(store, err));
    }
    return version < 2 ? upgrade(store, err) : ORR_OK;
}

orr_status orr_store_open(const char *path, orr_store **out, orr_err *err) {
    orr_store *store = (orr_store *)orr_alloc(sizeof *store);
    (void)snprintf(store->path, sizeof store->path, "%s", path);
    int code = sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    orr_status status = code == SQLITE_OK ? ORR_OK : refuse(store, code, err);
    if (status == ORR_OK) {
        (void)sqlite3_busy_timeout(store->db, BUSY_MS);
        status = set_up(store, err);
    }
    if (status != ORR_OK) {
        orr_store_close(store);
        return status;
    }
    *out = store;
    return ORR_OK;
}

void orr_store_close(orr_store *store) {
    if (store != NULL) {
        (void)sqlite3_close(store->db);
        orr_release(store);
    }
}

/* ---- trials ---------------------------------------------------------------------------------- */

orr_status orr_store_add_trial(orr_store *store, uint64_t search, const orr_trial *trial,
                               orr_err *err) {
    sqlite3_stmt *s = NULL;
    ORR_TRY(prepare(store,
                    "INSERT INTO trial (search, kind, plan, tokens_per_s_per_gpu, step_s,"
                    " need_bytes, at_s, verdict, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    search, &s, err));
    (void)sqlite3_bind_text(s, 2, trial->kind, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(s, 3, trial->plan, -1, SQLITE_STATIC);
    (void)sqlite3_bind_double(s, 4, trial->tokens_per_s_per_gpu);
    (void)sqlite3_bind_double(s, 5, trial->step_s);
    (void)sqlite3_bind_double(s, 6, trial->need_bytes);
    (void)sqlite3_bind_double(s, 7, trial->at_s);
    (void)sqlite3_bind_text(s, 8, trial->verdict, -1, SQLITE_STATIC); /* NULL stays NULL */
    (void)sqlite3_bind_text(s, 9, trial->why, -1, SQLITE_STATIC);
    return finish(store, s, err);
}

static void add_number(orr_text *text, const char *key, double value) {
    char digits[32];
    orr_format_real(value, digits);
    orr_text_format(text, ",\"%s\":%s", key, digits);
}

/* The store knows no JSON writer; what it keeps is UTF-8, and only these need care. */
static void add_quoted(orr_text *text, const char *key, const char *value) {
    if (value == NULL) {
        return;
    }
    orr_text_format(text, ",\"%s\":\"", key);
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            orr_text_addn(text, "\\", 1);
            orr_text_addn(text, p, 1);
        } else if ((unsigned char)*p < ' ') {
            orr_text_format(text, "\\u%04x", (unsigned)(unsigned char)*p);
        } else {
            orr_text_addn(text, p, 1);
        }
    }
    orr_text_add(text, "\"");
}

orr_status orr_store_trials(orr_store *store, orr_arena *arena, uint64_t search, char **jsonl,
                            orr_err *err) {
    static const char *const keys[] = {"tokens_per_s_per_gpu", "step_time_s", "need_bytes", "at_s"};
    sqlite3_stmt *s = NULL;
    orr_text text = orr_text_new(arena, MAX_JSONL_BYTES);
    ORR_TRY(
        prepare(store,
                "SELECT kind, plan, tokens_per_s_per_gpu, step_s, need_bytes, at_s, verdict, why"
                " FROM trial WHERE search = ?1 ORDER BY id",
                search, &s, err));
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        orr_text_format(&text,
                        "{\"kind\":\"%s\",\"plan\":", (const char *)sqlite3_column_text(s, 0));
        orr_text_add(&text, (const char *)sqlite3_column_text(s, 1));
        for (int i = 0; i < 4; i++) {
            add_number(&text, keys[i], sqlite3_column_double(s, 2 + i));
        }
        add_quoted(&text, "verdict", (const char *)sqlite3_column_text(s, 6));
        add_quoted(&text, "why", (const char *)sqlite3_column_text(s, 7));
        orr_text_add(&text, "}\n");
    }
    (void)sqlite3_finalize(s);
    *jsonl = orr_text_done(&text);
    return code == SQLITE_DONE ? ORR_OK : refuse(store, code, err);
}

/* ---- state ----------------------------------------------------------------------------------- */

orr_status orr_store_put_state(orr_store *store, uint64_t search, const void *bytes, size_t length,
                               orr_err *err) {
    sqlite3_stmt *s = NULL;
    if (length > MAX_STATE_BYTES) {
        return orr_fail(err, ORR_E_LIMIT, "a state of %zu bytes is too large to keep", length);
    }
    ORR_TRY(prepare(store, "INSERT OR REPLACE INTO state (search, bytes) VALUES (?1, ?2)", search,
                    &s, err));
    (void)sqlite3_bind_blob64(s, 2, bytes, length, SQLITE_STATIC);
    return finish(store, s, err);
}

orr_status orr_store_get_state(orr_store *store, orr_arena *arena, uint64_t search, void **bytes,
                               size_t *length, orr_err *err) {
    sqlite3_stmt *s = NULL;
    *bytes = NULL;
    *length = 0;
    ORR_TRY(prepare(store, "SELECT bytes FROM state WHERE search = ?1", search, &s, err));
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        const void *stored = sqlite3_column_blob(s, 0);
        *length = (size_t)sqlite3_column_bytes(s, 0);
        *bytes = orr_arena_alloc(arena, *length + 1);
        if (*length > 0) {
            memcpy(*bytes, stored, *length);
        }
    }
    (void)sqlite3_finalize(s);
    return code == SQLITE_ROW || code == SQLITE_DONE ? ORR_OK : refuse(store, code, err);
}

orr_status orr_store_forget(orr_store *store, uint64_t search, orr_err *err) {
    static const char *const statements[] = {"DELETE FROM state WHERE search = ?1",
                                             "DELETE FROM trial WHERE search = ?1"};
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *s = NULL;
        ORR_TRY(prepare(store, statements[i], search, &s, err));
        ORR_TRY(finish(store, s, err));
    }
    return ORR_OK;
}
