#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "doc/doc.h"
#include "study/study_int.h"

typedef struct column {
    const char *name;
    size_t offset;
    bool number;
} column;

#define TEXT(member) {#member, offsetof(orr_run, member), false}
#define NUMBER(member) {#member, offsetof(orr_run, member), true}
static const column columns[] = {
    TEXT(source),
    TEXT(model),
    TEXT(gpu),
    TEXT(precision),
    TEXT(sharding),
    TEXT(recompute),
    TEXT(seq_parallel),
    TEXT(schedule),
    TEXT(framework),
    TEXT(notes),
    NUMBER(num_gpus),
    NUMBER(seq_len),
    NUMBER(mbs),
    NUMBER(gbs),
    NUMBER(tp),
    NUMBER(pp),
    NUMBER(vpp),
    NUMBER(ep),
    NUMBER(etp),
    NUMBER(cp),
    NUMBER(dp),
    NUMBER(mem_gb),
    NUMBER(step_time_s),
    NUMBER(gpus_per_node),
    NUMBER(tokens_per_s_per_gpu),
};
enum { COLUMN_COUNT = sizeof columns / sizeof *columns, MAX_ROWS = 1 << 20 };

/* A cell that should be a number and is not leaves its row unread, not the table. */
static void fill(orr_arena *arena, const orr_csv *csv, const char *const *cells, const int *at,
                 orr_run *run) {
    for (size_t c = 0; c < COLUMN_COUNT; c++) {
        const char *cell = at[c] < 0 ? "" : cells[at[c]];
        char *member = (char *)run + columns[c].offset;
        if (!columns[c].number) {
            const char *copy = orr_arena_text(arena, cell);
            memcpy(member, &copy, sizeof copy);
            continue;
        }
        double value = 0;
        if (cell[0] != '\0' && !orr_parse_real(cell, &value)) {
            value = 0;
            run->unread = columns[c].name;
            run->problem = orr_arena_format(arena, "line %u: column %s holds '%.40s', not a number",
                                            orr_csv_line(csv), columns[c].name, cell);
        }
        memcpy(member, &value, sizeof value);
    }
    run->tier = run->profile = "";
}

static orr_status open_csv(orr_arena *arena, const char *path, orr_csv **csv, orr_err *err) {
    char *text = NULL;
    size_t length = 0;
    ORR_TRY(orr_file_read(arena, path, &text, &length, err));
    return orr_csv_open(arena, path, text, length, csv, err);
}

orr_status orr_runs_parse(orr_arena *arena, const char *name, const char *text, size_t length,
                          orr_run_table *out, orr_err *err) {
    orr_csv *csv = NULL;
    *out = (orr_run_table){0};
    ORR_TRY(orr_csv_open(arena, name, text, length, &csv, err));
    int at[COLUMN_COUNT];
    for (size_t c = 0; c < COLUMN_COUNT; c++) {
        at[c] = orr_csv_find(csv, columns[c].name);
    }
    static const char *const needed[] = {"source", "model", "gpu", "num_gpus"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (orr_csv_find(csv, needed[i]) < 0) {
            return orr_fail_at(err, ORR_E_SCHEMA, (orr_span){name, 1, 0},
                               "column '%s' is missing: this is no table of measured runs",
                               needed[i]);
        }
    }
    uint32_t capacity = 0;
    const char *const *cells = NULL;
    for (bool more = true;;) {
        ORR_TRY(orr_csv_next(csv, &cells, &more, err));
        if (!more) {
            return ORR_OK;
        }
        if (out->count == capacity) {
            capacity = capacity == 0 ? 1024 : capacity * 2;
            orr_run *bigger = ORR_NEW_ARRAY(arena, orr_run, capacity);
            if (out->count > 0) {
                memcpy(bigger, out->run, out->count * sizeof *bigger);
            }
            out->run = bigger;
        }
        if (out->count >= MAX_ROWS) {
            return orr_fail(err, ORR_E_LIMIT, "%s has more than %d rows", name, MAX_ROWS);
        }
        orr_run *run = &out->run[out->count];
        run->index = out->count++;
        fill(arena, csv, cells, at, run);
    }
}

static orr_status read_tiers(orr_arena *arena, const char *path, orr_run_table *table,
                             orr_err *err) {
    orr_csv *csv = NULL;
    ORR_TRY(open_csv(arena, path, &csv, err));
    int row_at = orr_csv_find(csv, "row"), tier_at = orr_csv_find(csv, "tier");
    int profile_at = orr_csv_find(csv, "prof");
    if (row_at < 0 || tier_at < 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, (orr_span){path, 1, 0},
                           "columns 'row' and 'tier' are needed");
    }
    const char *const *cells = NULL;
    for (bool more = true;;) {
        ORR_TRY(orr_csv_next(csv, &cells, &more, err));
        if (!more) {
            return ORR_OK;
        }
        int64_t row = 0;
        if (!orr_parse_int(cells[row_at], &row) || row < 0 || row >= table->count) {
            return orr_fail_at(err, ORR_E_SCHEMA, (orr_span){path, orr_csv_line(csv), 0},
                               "'%s' is no row of the runs (0 to %u)", cells[row_at],
                               table->count == 0 ? 0 : table->count - 1);
        }
        table->run[row].tier = orr_arena_text(arena, cells[tier_at]);
        table->run[row].profile = profile_at < 0 ? "" : orr_arena_text(arena, cells[profile_at]);
    }
}

orr_status orr_runs_read(orr_arena *arena, const char *runs, const char *tiers, orr_run_table *out,
                         orr_err *err) {
    char *text = NULL;
    size_t length = 0;
    ORR_TRY(orr_file_read(arena, runs, &text, &length, err));
    ORR_TRY(orr_runs_parse(arena, runs, text, length, out, err));
    return tiers == NULL ? ORR_OK : read_tiers(arena, tiers, out, err);
}

double orr_run_throughput(const orr_run *run) {
    if (run->tokens_per_s_per_gpu > 0) {
        return run->tokens_per_s_per_gpu;
    }
    if (run->step_time_s > 0 && run->gbs > 0 && run->seq_len > 0 && run->num_gpus > 0) {
        return run->gbs * run->seq_len / run->step_time_s / run->num_gpus;
    }
    return 0;
}
