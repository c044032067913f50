/* `cost --batch`: a table of kernels with what each would take. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "cost/cost.h"
#include "cost/kernel_price.h"

enum { OUT_LIMIT_BYTES = 512 << 20, MOST_NAMED = 8 };

/* A cell that would break its row is quoted. */
static void write_cell(orr_text *out, const char *cell) {
    if (strpbrk(cell, ",\"\n\r") == NULL) {
        orr_text_add(out, cell);
        return;
    }
    orr_text_add(out, "\"");
    for (; *cell != '\0'; cell++) {
        orr_text_addn(out, cell, 1);
        if (*cell == '"') {
            orr_text_add(out, "\"");
        }
    }
    orr_text_add(out, "\"");
}

enum { ADDED = 3 };
static const char *const added[ADDED] = {"predicted_us", "low_us", "high_us"};

/* Columns that are written out again: all but an earlier prediction's. */
static bool is_kept(const orr_csv *csv, size_t column) {
    for (int i = 0; i < ADDED; i++) {
        if (strcmp(orr_csv_column(csv, column), added[i]) == 0) {
            return false;
        }
    }
    return true;
}

static void write_cells(orr_text *out, const orr_csv *csv, const char *const *cells) {
    for (size_t i = 0; i < orr_csv_columns(csv); i++) {
        if (is_kept(csv, i)) {
            write_cell(out, cells == NULL ? orr_csv_column(csv, i) : cells[i]);
            orr_text_add(out, ",");
        }
    }
}

static void write_header(orr_text *out, const orr_csv *csv) {
    write_cells(out, csv, NULL);
    for (int i = 0; i < ADDED; i++) {
        orr_text_format(out, "%s%s", added[i], i + 1 < ADDED ? "," : "\n");
    }
}

/* 90 % around the price, as validate --kernels judges it. */
static void write_row(orr_text *out, const orr_csv *csv, const orr_kernel_row *row, bool priced,
                      double time_s, double relerr_frac) {
    write_cells(out, csv, row->cell);
    if (!priced) {
        orr_text_add(out, ",,\n");
        return;
    }
    double us = time_s / ORR_US, half = ORR_HALF_90_SD * relerr_frac;
    orr_text_format(out, "%.6g,%.6g,%.6g\n", us, us * orr_max_f64(0, 1 - half), us * (1 + half));
}

/* Why a row has no price, with the cell at fault where one is. */
static const char *why(orr_arena *arena, const orr_kernel_rows *rows, const orr_kernel_row *row,
                       orr_kernel_gap gap) {
    if (gap == ORR_GAP_SHAPE && row->lacks != NULL) {
        return orr_arena_format(arena,
                                "column %s holds '%.40s', not a number above 0 and up to 2^53",
                                row->lacks, row->cell[orr_csv_find(rows->csv, row->lacks)]);
    }
    if (gap == ORR_GAP_DEVICE || gap == ORR_GAP_FORMAT) {
        return orr_arena_format(arena, "%s: '%.40s'", orr_kernel_gap_text(gap),
                                gap == ORR_GAP_DEVICE ? row->device : row->dtype);
    }
    return orr_kernel_gap_text(gap);
}

orr_status orr_cost_kernels_batch(orr_arena *arena, const char *path, const char *class, char **csv,
                                  orr_tree **summary, orr_err *err) {
    orr_kernel_rows rows;
    ORR_TRY(orr_kernel_rows_open(arena, path, class, false, &rows, err));
    orr_calibration *calibration = NULL;
    ORR_TRY(orr_calibration_builtin(arena, &calibration, err));
    ORR_TRY(orr_calibration_kernels(arena, calibration, err));
    orr_kernel_pricer *pricer = ORR_NEW(arena, orr_kernel_pricer);
    pricer->arena = arena;
    pricer->calibration = calibration;
    orr_text out = orr_text_new(arena, OUT_LIMIT_BYTES);
    write_header(&out, rows.csv);
    int64_t count = 0, priced = 0;
    int64_t times[ORR_GAP_COUNT] = {0};
    orr_tree *without = orr_tree_new_list(arena);
    orr_kernel_row row;
    for (bool more = true; more;) {
        ORR_TRY(orr_kernel_rows_next(&rows, &row, &more, err));
        if (!more) {
            break;
        }
        double time = 0, relerr = 0;
        orr_kernel_gap gap = orr_kernel_price(pricer, rows.class, &row, &time, &relerr);
        bool good = gap == ORR_GAP_NONE;
        write_row(&out, rows.csv, &row, good, time, relerr);
        times[gap]++;
        if (!good && orr_tree_size(without) < MOST_NAMED) {
            orr_tree *one = orr_tree_push(arena, without, orr_tree_new_map(arena));
            orr_tree_put_int(arena, one, "line", orr_csv_line(rows.csv));
            orr_tree_put_text(arena, one, "why", why(arena, &rows, &row, gap));
        }
        count++;
        priced += good;
    }
    *csv = orr_text_done(&out);
    *summary = orr_tree_new_map(arena);
    orr_tree_put_text(arena, *summary, "class", orr_kernel_class_name(rows.class));
    orr_tree_put_int(arena, *summary, "rows", count);
    orr_tree_put_int(arena, *summary, "priced", priced);
    (void)orr_tree_put(arena, *summary, "unpriced", without);
    orr_tree *reasons = orr_tree_put(arena, *summary, "reasons", orr_tree_new_list(arena));
    for (int i = ORR_GAP_NONE + 1; i < ORR_GAP_COUNT; i++) {
        if (times[i] > 0) {
            orr_tree *one = orr_tree_push(arena, reasons, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "why", orr_kernel_gap_text((orr_kernel_gap)i));
            orr_tree_put_int(arena, one, "rows", times[i]);
        }
    }
    return ORR_OK;
}
