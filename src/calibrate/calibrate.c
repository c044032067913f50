#include "calibrate/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "base/text.h"
#include "calibrate/calibrate_int.h"

/* Six significant digits: beyond that a fit means nothing, and files stay the same bytes whatever
 * the mathematical library rounds. */
static double rounded(double value) {
    if (!(fabs(value) > 0)) {
        return 0;
    }
    char text[32];
    (void)snprintf(text, sizeof text, "%.6g", value);
    double back = value;
    (void)orr_parse_real(text, &back);
    return back;
}

void orr_put_number(orr_arena *arena, orr_tree *map, const char *key, double value) {
    orr_tree_put_real(arena, map, key, rounded(value));
}

static void put_unit(orr_arena *arena, orr_tree *map, const char *key, double value,
                     const char *unit) {
    char number[32];
    orr_format_real(rounded(value), number);
    orr_tree_put_text(arena, map, key, orr_arena_format(arena, "%s%s", number, unit));
}

static void put_seconds(orr_arena *arena, orr_tree *map, const char *key, double seconds) {
    put_unit(arena, map, key, seconds * 1e6, "us");
}

void orr_put_rate(orr_arena *arena, orr_tree *map, const char *key, double Bps) {
    put_unit(arena, map, key, Bps * 1e-9, "GB/s");
}

/* Three digits of a share. */
static void put_share(orr_arena *arena, orr_tree *map, const char *key, double value) {
    orr_tree_put_real(arena, map, key, floor(value * 1e4 + 0.5) / 1e4);
}

void orr_put_errors(orr_arena *arena, orr_tree *map, const orr_validated *validated) {
    const orr_errors *training = &validated->training;
    training = training->rows > 0 ? training : &validated->small;
    double small_frac = validated->spread.small_frac, large_frac = validated->spread.training_frac;
    put_share(arena, map, "error_small", small_frac > 0 ? small_frac : large_frac);
    put_share(arena, map, "error_training", large_frac > 0 ? large_frac : small_frac);
    put_share(arena, map, "mape_all", validated->all.mape);
    put_share(arena, map, "mape_training", training->mape);
    put_share(arena, map, "bias", validated->all.bias);
}

orr_tree *orr_put_head(orr_arena *arena, const orr_bin *bin, const orr_machine *machine,
                       const orr_validated *validated) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "device", bin->accelerator->name);
    orr_tree_put_text(arena, map, "arch", orr_arch_name((orr_arch)bin->accelerator->arch));
    orr_tree_put_text(arena, map, "source", bin->source);
    orr_tree_put_int(arena, map, "rows", (int64_t)bin->count);
    orr_put_number(arena, map, "units", machine->units);
    orr_put_number(arena, map, "peak", machine->peak_flops);
    orr_put_rate(arena, map, "hbm", machine->hbm_Bps);
    orr_put_number(arena, map, "tdp", bin->accelerator->tdp_w);
    orr_put_errors(arena, map, validated);
    return map;
}

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

void orr_put_parameters(orr_arena *arena, orr_tree *map, const orr_fit_task *task,
                        const void *constants) {
    for (uint32_t i = 0; i < task->parameter_count; i++) {
        const char *name = task->parameter[i].name;
        const void *place = (const char *)constants + task->parameter[i].offset;
        double value = *(const double *)place;
        if (ends_in(name, "_s")) {
            put_seconds(arena, map, orr_arena_copy(arena, name, strlen(name) - 2), value);
        } else if (ends_in(name, "_Bps")) {
            orr_put_rate(arena, map, orr_arena_copy(arena, name, strlen(name) - 4), value);
        } else {
            orr_put_number(arena, map, name, value);
        }
    }
}

void orr_put_surface(orr_arena *arena, orr_tree *map, const orr_fit_task *task,
                     const void *constants) {
    enum { TEXT_LIMIT_BYTES = 4 << 20 };
    orr_surface surface;
    if (orr_robust_surface(arena, task, constants, &surface)) {
        orr_text text = orr_text_new(arena, TEXT_LIMIT_BYTES);
        orr_surface_write(&text, &surface);
        orr_tree_put_text(arena, map, "surface", orr_text_done(&text));
    }
}

void orr_put_spread(orr_arena *arena, orr_tree *map, const orr_validated *validated) {
    enum { TEXT_LIMIT_BYTES = 1 << 20 };
    const orr_spread *spread = &validated->spread;
    if (spread->has_surface) {
        orr_text text = orr_text_new(arena, TEXT_LIMIT_BYTES);
        orr_surface_write(&text, &spread->surface);
        orr_tree_put_text(arena, map, "spread", orr_text_done(&text));
    }
    if (spread->cover.dims > 0) {
        orr_text text = orr_text_new(arena, TEXT_LIMIT_BYTES);
        orr_cover_write(&text, &spread->cover);
        orr_tree_put_text(arena, map, "covers", orr_text_done(&text));
    }
}

/* ---- bins ----------------------------------------------------------------------------------- */

static orr_bins *bins_new(orr_arena *arena, const orr_calibration *names, size_t sample_bytes) {
    orr_bins *bins = ORR_NEW(arena, orr_bins);
    bins->arena = arena;
    bins->names = names;
    bins->sample_bytes = sample_bytes;
    return bins;
}

orr_bin *orr_bin_of(orr_bins *bins, const char *device, const char *kernel, const char *scheme,
                    const char *source, uint32_t flag) {
    for (uint32_t i = 0; i < bins->count; i++) {
        orr_bin *b = &bins->bin[i];
        if (b->flag == flag && strcmp(b->device, device) == 0 && strcmp(b->kernel, kernel) == 0 &&
            strcmp(b->scheme, scheme) == 0 && strcmp(b->source, source) == 0) {
            return b->accelerator != NULL ? b : NULL;
        }
    }
    if (bins->count == ORR_MAX_BINS) {
        return NULL;
    }
    orr_bin *b = &bins->bin[bins->count++];
    b->device = orr_arena_text(bins->arena, device);
    b->kernel = orr_arena_text(bins->arena, kernel);
    b->scheme = orr_arena_text(bins->arena, scheme);
    b->source = orr_arena_text(bins->arena, source);
    b->flag = flag;
    b->accelerator = orr_calibration_device(bins->arena, bins->names, device);
    return b->accelerator != NULL ? b : NULL;
}

/* Whether an accelerator goes by that name; the last answer is kept, since rows come in runs. */
static bool knows(orr_bins *bins, const char *device) {
    if (bins->last_device == NULL || strcmp(bins->last_device, device) != 0) {
        for (uint32_t i = 0; i < bins->count; i++) {
            if (strcmp(bins->bin[i].device, device) == 0) {
                bins->last_device = bins->bin[i].device;
                bins->last_known = bins->bin[i].accelerator != NULL;
                return bins->last_known;
            }
        }
        bins->last_device = orr_arena_text(bins->arena, device);
        bins->last_known = orr_calibration_device(bins->arena, bins->names, device) != NULL;
    }
    return bins->last_known;
}

void *orr_bin_add(orr_bins *bins, orr_bin *bin) {
    if (bin->count == bin->capacity) {
        size_t capacity = bin->capacity == 0 ? 64 : 2 * bin->capacity;
        void *larger = orr_arena_array(bins->arena, capacity, bins->sample_bytes);
        if (bin->count > 0) {
            memcpy(larger, bin->sample, bin->count * bins->sample_bytes);
        }
        bin->sample = larger;
        bin->capacity = capacity;
    }
    return (char *)bin->sample + bins->sample_bytes * bin->count++;
}

const char *orr_source_stem(orr_arena *arena, const char *source) {
    const char *colon = strchr(source, ':');
    /* "aic:trtllm-rc20" names the stack after the colon; tuners name a file there */
    if (colon != NULL && strstr(colon, ".csv") == NULL) {
        colon = NULL;
    }
    size_t length = colon != NULL ? (size_t)(colon - source) : strlen(source);
    return orr_arena_copy(arena, source, length);
}

uint32_t orr_block_of(double a, double b, double c) {
    const double key[3] = {a, b, c};
    return (uint32_t)orr_hash(key, sizeof key);
}

/* ---- classes -------------------------------------------------------------------------------- */

static const orr_fit_class *const FITS[ORR_KERNELS_COUNT] = {
    [ORR_KERNELS_GEMM] = &orr_fit_gemm,
    [ORR_KERNELS_ATTENTION] = &orr_fit_attention,
    [ORR_KERNELS_MEMOPS] = &orr_fit_memops,
    [ORR_KERNELS_GROUPED_GEMM] = &orr_fit_grouped,
    [ORR_KERNELS_MOE_FUSED] = &orr_fit_layers,
    [ORR_KERNELS_EP_ALLTOALL] = &orr_fit_exchange,
    [ORR_KERNELS_COLLECTIVES] = &orr_fit_collectives,
};

bool orr_bins_go_on(const void *watcher) {
    const orr_bins *bins = (const orr_bins *)watcher;
    return orr_watch_tell(bins->watch, "rows", (double)bins->rows_done, (double)bins->rows);
}

static orr_status stopped_or(const orr_bins *bins, orr_err *err) {
    return orr_bins_go_on(bins) ? ORR_OK
                                : orr_fail(err, ORR_E_CANCELLED, "stopped; nothing was written");
}

/* Rows and bins in an order of their own, so that the order of a table's rows changes nothing. */
static int by_content(const void *a, const void *b) {
    const orr_sample *x = (const orr_sample *)a, *y = (const orr_sample *)b;
    for (uint32_t d = 0; d < ORR_SURFACE_DIMS; d++) {
        if (x->place[d] != y->place[d]) {
            return x->place[d] < y->place[d] ? -1 : 1;
        }
    }
    if (x->time_s != y->time_s) {
        return x->time_s < y->time_s ? -1 : 1;
    }
    return x->block < y->block ? -1 : x->block > y->block;
}

static int by_name(const void *a, const void *b) {
    const orr_bin *x = (const orr_bin *)a, *y = (const orr_bin *)b;
    const char *const names[][2] = {{x->device, y->device},
                                    {x->kernel, y->kernel},
                                    {x->scheme, y->scheme},
                                    {x->source, y->source}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int order = strcmp(names[i][0], names[i][1]);
        if (order != 0) {
            return order;
        }
    }
    return x->flag < y->flag ? -1 : x->flag > y->flag;
}

static void put_in_order(orr_bins *bins) {
    for (uint32_t i = 0; i < bins->count; i++) {
        orr_bin *bin = &bins->bin[i];
        if (bin->count > 0) {
            qsort(bin->sample, bin->count, bins->sample_bytes, by_content);
        }
        bins->rows += bin->count;
    }
    qsort(bins->bin, bins->count, sizeof *bins->bin, by_name);
}

/* What is said of rows that no fit can use. */
static void note_row(orr_bins *bins, const orr_kernel_row *row) {
    orr_watch *watch = bins->watch;
    if (watch == NULL) {
        return;
    }
    watch->rows++;
    watch->timeless += !(row->time_s > 0);
    if (!knows(bins, row->device)) {
        watch->unknown++;
        if (watch->unknown_device == NULL) {
            watch->unknown_device = orr_arena_text(bins->arena, row->device);
        }
    }
}

static orr_status fit_class(const orr_fit_class *class, orr_kernel_rows *rows, orr_bins *bins,
                            orr_tree *fits, orr_err *err) {
    orr_kernel_row row;
    for (bool more = true; more;) {
        ORR_TRY(orr_kernel_rows_next(rows, &row, &more, err));
        if (more) {
            note_row(bins, &row);
        }
        if (more && row.time_s > 0) {
            class->add(bins, rows->class, &row);
        }
    }
    put_in_order(bins);
    if (class->fit_all != NULL) {
        class->fit_all(bins, fits);
        return stopped_or(bins, err);
    }
    for (uint32_t i = 0; i < bins->count; i++) {
        if (bins->bin[i].accelerator != NULL && bins->bin[i].count >= class->least_rows) {
            class->fit(bins, &bins->bin[i], fits);
        }
        bins->rows_done += bins->bin[i].count;
        ORR_TRY(stopped_or(bins, err));
    }
    return ORR_OK;
}

orr_status orr_calibrate(orr_arena *arena, const char *path, const char *class,
                         const orr_calibration *names, orr_watch *watch, orr_tree **file,
                         orr_err *err) {
    orr_kernel_rows rows;
    ORR_TRY(orr_kernel_rows_open(arena, path, class, true, &rows, err));
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree_put_text(arena, out, "class", orr_kernel_class_name(rows.class));
    const char *slash = strrchr(path, '/');
    orr_tree_put_text(arena, out, "made_by", "orrery calibrate (scripts/recalibrate)");
    orr_tree_put_text(arena, out, "table", slash != NULL ? slash + 1 : path);
    orr_tree *fits = orr_tree_put(arena, out, "fits", orr_tree_new_list(arena));
    *file = out;
    const orr_fit_class *class_fit = FITS[rows.class];
    orr_bins *bins = bins_new(arena, names, class_fit->sample_bytes);
    bins->watch = watch;
    return fit_class(class_fit, &rows, bins, fits, err);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static const char *text_at(const orr_tree *record, const char *key) {
    return orr_tree_text(orr_tree_get(record, key), "");
}

static bool is_library(const orr_tree *record) {
    const char *library = text_at(record, "library");
    return strncmp(library, "NCCL ", 5) == 0 || strncmp(library, "RCCL ", 5) == 0;
}

/* A newer version of the same library on the same device, operation and ranks. */
static bool is_superseded(const orr_tree *fits, const orr_tree *record) {
    for (size_t i = 0; i < orr_tree_size(fits); i++) {
        const orr_tree *other = orr_tree_at(fits, i);
        bool same = strcmp(text_at(other, "device"), text_at(record, "device")) == 0 &&
                    strcmp(text_at(other, "op"), text_at(record, "op")) == 0 &&
                    orr_tree_int(orr_tree_get(other, "ranks"), 0) ==
                        orr_tree_int(orr_tree_get(record, "ranks"), 0) &&
                    orr_tree_int(orr_tree_get(other, "nodes"), 1) == 1;
        if (same && is_library(other) &&
            strcmp(text_at(other, "library"), text_at(record, "library")) > 0) {
            return true;
        }
    }
    return false;
}

/* A library's kernels of a device that are measured in 8 bits, and those in 16 beside them: what
 * the former are worth. */
static bool has_low_precision(const orr_tree *fits, const orr_tree *record) {
    for (size_t i = 0; i < orr_tree_size(fits); i++) {
        const orr_tree *other = orr_tree_at(fits, i);
        const char *scheme = text_at(other, "scheme");
        bool low = strcmp(scheme, "fp8") == 0 || strcmp(scheme, "mxfp8") == 0;
        if (low && strcmp(text_at(other, "device"), text_at(record, "device")) == 0 &&
            strcmp(text_at(other, "kernel"), text_at(record, "kernel")) == 0) {
            return true;
        }
    }
    return false;
}

static bool needed_by_steps(const orr_tree *fits, const char *class, const orr_tree *record) {
    if (strcmp(class, "gemm") == 0) {
        return strcmp(text_at(record, "scheme"), "bf16") == 0;
    }
    if (strcmp(class, "attention") == 0) {
        return has_low_precision(fits, record);
    }
    return strcmp(class, "collectives") == 0 && is_library(record) &&
           orr_tree_int(orr_tree_get(record, "nodes"), 1) == 1 && !is_superseded(fits, record);
}

static orr_tree *copy_record(orr_arena *arena, const orr_tree *record) {
    orr_tree *copy = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(record); i++) {
        const orr_tree *value = orr_tree_at(record, i);
        const char *key = orr_tree_key(record, i), *text = orr_tree_text(value, NULL);
        if (text != NULL) {
            orr_tree_put_text(arena, copy, key, text);
        } else if (orr_tree_kind_of(value) == ORR_TREE_BOOL) {
            orr_tree_put_bool(arena, copy, key, orr_tree_bool(value, false));
        } else if (orr_tree_kind_of(value) == ORR_TREE_INT) {
            orr_tree_put_int(arena, copy, key, orr_tree_int(value, 0));
        } else {
            orr_tree_put_real(arena, copy, key, orr_tree_real(value, 0));
        }
    }
    return copy;
}

/* Records stand by device and kind, whatever the order of the table's rows. */
static int record_order(const orr_tree *a, const orr_tree *b) {
    static const char *const keys[] = {"device", "scheme", "kernel", "library", "op", "system"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int order = strcmp(text_at(a, keys[i]), text_at(b, keys[i]));
        if (order != 0) {
            return order;
        }
    }
    static const char *const counts[] = {"ranks", "nodes"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t x = orr_tree_int(orr_tree_get(a, counts[i]), 0);
        int64_t y = orr_tree_int(orr_tree_get(b, counts[i]), 0);
        if (x != y) {
            return x > y ? 1 : -1;
        }
    }
    return 0;
}

/* The records of a list, sorted; equal ones keep their order. */
static const orr_tree **sorted(orr_arena *arena, const orr_tree *fits) {
    size_t count = orr_tree_size(fits);
    const orr_tree **record = ORR_NEW_ARRAY(arena, const orr_tree *, count + 1);
    for (size_t i = 0; i < count; i++) {
        const orr_tree *next = orr_tree_at(fits, i);
        size_t at = i;
        while (at > 0 && record_order(next, record[at - 1]) < 0) {
            record[at] = record[at - 1];
            at--;
        }
        record[at] = next;
    }
    return record;
}

orr_tree *orr_calibrate_part(orr_arena *arena, const orr_tree *file, bool kernels) {
    const orr_tree *fits = orr_tree_get(file, "fits");
    const char *class = text_at(file, "class");
    orr_tree *out = orr_tree_new_map(arena), *part = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(file); i++) {
        const char *key = orr_tree_key(file, i);
        if (strcmp(key, "fits") != 0) {
            orr_tree_put_text(arena, out, key, orr_tree_text(orr_tree_at(file, i), ""));
        }
    }
    const orr_tree **record = sorted(arena, fits);
    for (size_t i = 0; i < orr_tree_size(fits); i++) {
        if (needed_by_steps(fits, class, record[i]) != kernels) {
            orr_tree_push(arena, part, copy_record(arena, record[i]));
        }
    }
    orr_tree_put(arena, out, "fits", part);
    return out;
}

/* ---- YAML ----------------------------------------------------------------------------------- */

/* A text is quoted unless it is a plain word, number or quantity. */
static void write_scalar(orr_text *out, const orr_tree *node) {
    const char *text = orr_tree_text(node, NULL);
    if (text == NULL) {
        orr_json_write(out, node, false);
        return;
    }
    static const char PLAIN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    if (text[0] != '\0' && text[0] != '-' && text[strspn(text, PLAIN)] == '\0') {
        orr_text_add(out, text);
        return;
    }
    orr_text_add(out, "'");
    for (const char *c = text; *c != '\0'; c++) {
        orr_text_addn(out, c, 1);
        if (*c == '\'') {
            orr_text_add(out, "'");
        }
    }
    orr_text_add(out, "'");
}

static void write_record(orr_text *out, const orr_tree *record) {
    for (size_t i = 0; i < orr_tree_size(record); i++) {
        orr_text_format(out, "%s%s: ", i == 0 ? "  - " : "    ", orr_tree_key(record, i));
        write_scalar(out, orr_tree_at(record, i));
        orr_text_add(out, "\n");
    }
}

char *orr_calibrate_yaml(orr_arena *arena, const orr_tree *file) {
    orr_text out = orr_text_new(arena, 16u << 20);
    for (size_t i = 0; i < orr_tree_size(file); i++) {
        const orr_tree *child = orr_tree_at(file, i);
        orr_text_format(&out, "%s:", orr_tree_key(file, i));
        if (orr_tree_kind_of(child) == ORR_TREE_LIST) {
            orr_text_add(&out, orr_tree_size(child) == 0 ? " []\n" : "\n");
            for (size_t r = 0; r < orr_tree_size(child); r++) {
                write_record(&out, orr_tree_at(child, r));
            }
        } else {
            orr_text_add(&out, " ");
            write_scalar(&out, child);
            orr_text_add(&out, "\n");
        }
    }
    return orr_text_done(&out);
}
