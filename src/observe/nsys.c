/* Databases that Nsight Systems exports (nsys export --type sqlite): kernels and copies of the
 * first device, steps by their NVTX ranges. The file is opened for reading alone, without views,
 * triggers or trust in its schema, and under a budget of work. */
#include <sqlite3.h>
#include <string.h>

#include "base/err.h"
#include "observe/kernels.h"

enum { OPS_PER_LOOK = 1000000, MOST_LOOKS = 2000, MOST_VALUE_BYTES = 1 << 20 };

static int spend(void *user) {
    int *looks = (int *)user;
    return ++*looks > MOST_LOOKS;
}

static bool has_column(sqlite3 *db, const char *table, const char *column) {
    sqlite3_stmt *query = NULL;
    bool found = false;
    if (sqlite3_prepare_v2(db,
                           "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2 AND EXISTS (SELECT "
                           "1 FROM sqlite_master WHERE type = 'table' AND name = ?1)",
                           -1, &query, NULL) == SQLITE_OK) {
        (void)sqlite3_bind_text(query, 1, table, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(query, 2, column, -1, SQLITE_STATIC);
        found = sqlite3_step(query) == SQLITE_ROW;
    }
    (void)sqlite3_finalize(query);
    return found;
}

static const char *column_text(sqlite3_stmt *query, int column) {
    const unsigned char *text = sqlite3_column_text(query, column);
    return text != NULL ? (const char *)text : "";
}

static const double ns = 1e-9;

static bool read_kernels(sqlite3 *db, kernel_trace *trace) {
    static const char sql[] =
        "SELECT k.start, k.end, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL AS k LEFT JOIN StringIds "
        "AS s ON s.id = k.demangledName WHERE k.deviceId = (SELECT min(deviceId) FROM "
        "CUPTI_ACTIVITY_KIND_KERNEL)";
    sqlite3_stmt *query = NULL;
    bool good = sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK;
    int status = SQLITE_DONE;
    while (good && (status = sqlite3_step(query)) == SQLITE_ROW) {
        orr_kernels_add(trace, column_text(query, 2), false, sqlite3_column_double(query, 0) * ns,
                        sqlite3_column_double(query, 1) * ns);
    }
    (void)sqlite3_finalize(query);
    return good && status == SQLITE_DONE;
}

static void read_copies(sqlite3 *db, kernel_trace *trace) {
    static const char sql[] =
        "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE deviceId = (SELECT min(deviceId) "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL)";
    sqlite3_stmt *query = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK) {
        while (sqlite3_step(query) == SQLITE_ROW) {
            orr_kernels_add(trace, "memcpy", true, sqlite3_column_double(query, 0) * ns,
                            sqlite3_column_double(query, 1) * ns);
        }
    }
    (void)sqlite3_finalize(query);
}

/* "ProfilerStep#3", "iteration 3", "step 3", "global_step: 3", whatever its case. */
static bool is_step(const char *text) {
    static const char *const words[] = {"profilerstep#", "iteration", "step", "global_step",
                                        "train_step"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]), k = 0;
        while (k < n && text[k] != '\0' &&
               (text[k] >= 'A' && text[k] <= 'Z' ? text[k] - 'A' + 'a' : text[k]) == words[i][k]) {
            k++;
        }
        const char *rest = text + k + strspn(text + k, " _:=#");
        if (k == n && *rest >= '0' && *rest <= '9' && rest[strspn(rest, "0123456789")] == '\0') {
            return true;
        }
    }
    return false;
}

static void read_steps(sqlite3 *db, kernel_trace *trace) {
    bool ids = has_column(db, "NVTX_EVENTS", "textId");
    const char *sql = ids ? "SELECT n.start, coalesce(n.text, s.value) FROM NVTX_EVENTS AS n LEFT "
                            "JOIN StringIds AS s ON s.id = n.textId WHERE n.end IS NOT NULL"
                          : "SELECT start, text FROM NVTX_EVENTS WHERE end IS NOT NULL";
    sqlite3_stmt *query = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK) {
        while (sqlite3_step(query) == SQLITE_ROW) {
            if (is_step(column_text(query, 1))) {
                orr_kernels_step(trace, sqlite3_column_double(query, 0) * ns);
            }
        }
    }
    (void)sqlite3_finalize(query);
}

static void read_device(sqlite3 *db, kernel_trace *trace) {
    sqlite3_stmt *query = NULL;
    if (has_column(db, "TARGET_INFO_GPU", "name") &&
        sqlite3_prepare_v2(db, "SELECT name FROM TARGET_INFO_GPU LIMIT 1", -1, &query, NULL) ==
            SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW) {
        trace->device = orr_arena_text(trace->arena, column_text(query, 0));
    }
    (void)sqlite3_finalize(query);
}

static orr_status read_database(orr_arena *arena, sqlite3 *db, orr_observation *out, orr_err *err) {
    int looks = 0;
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES);
    sqlite3_progress_handler(db, OPS_PER_LOOK, spend, &looks);
    if (!has_column(db, "CUPTI_ACTIVITY_KIND_KERNEL", "demangledName") ||
        !has_column(db, "StringIds", "value")) {
        orr_status status =
            orr_fail(err, ORR_E_SCHEMA, "this database holds no kernels of Nsight Systems");
        orr_hint(err, "nsys export --type sqlite writes the table CUPTI_ACTIVITY_KIND_KERNEL");
        return status;
    }
    kernel_trace *trace = orr_kernels_new(arena);
    bool whole = read_kernels(db, trace);
    read_copies(db, trace);
    read_steps(db, trace);
    read_device(db, trace);
    orr_kernels_finish(trace, "nsight-systems", out);
    if (out->kind == ORR_OBSERVED_NONE) {
        return orr_fail(err, ORR_E_SCHEMA, "this database of Nsight Systems holds no kernels");
    }
    if (!whole || looks > MOST_LOOKS) {
        orr_observation_warn(arena, out, "the database could not be read to its end");
    }
    return ORR_OK;
}

orr_status orr_observe_nsys(orr_arena *arena, const char *path, const char *bytes, size_t length,
                            orr_observation *out, orr_err *err) {
    sqlite3 *db = NULL;
    orr_status status = ORR_OK;
    int opened = sqlite3_open_v2(path != NULL ? path : ":memory:", &db,
                                 path != NULL ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE, NULL);
    unsigned char *copy = NULL;
    if (opened == SQLITE_OK && path == NULL) {
        copy = (unsigned char *)orr_arena_alloc(arena, length + 1);
        memcpy(copy, bytes, length);
        opened = sqlite3_deserialize(db, "main", copy, (sqlite3_int64)length, (sqlite3_int64)length,
                                     SQLITE_DESERIALIZE_READONLY);
    }
    status = opened == SQLITE_OK ? read_database(arena, db, out, err)
                                 : orr_fail(err, ORR_E_IO, "the database cannot be opened");
    (void)sqlite3_close(db);
    return status;
}
