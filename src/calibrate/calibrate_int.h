#ifndef ORR_CALIBRATE_INT_H
#define ORR_CALIBRATE_INT_H

#include "calibrate/calibrate.h"
#include "calibrate/robust.h"

/* Rows that one fit is made of: one device, kernel, numeric scheme and source. */
typedef struct orr_bin {
    const orr_accelerator *accelerator; /* NULL: unknown, its rows are dropped */
    const char *device, *kernel, *scheme, *source;
    uint32_t flag; /* whatever else tells bins of a class apart */
    size_t count, capacity;
    void *sample;
} orr_bin;

enum { ORR_MAX_BINS = 1024 };
typedef struct orr_bins {
    orr_arena *arena;
    const orr_calibration *names;
    size_t sample_bytes;
    orr_watch *watch;
    const char *last_device; /* asked for, and whether it is known */
    bool last_known;
    size_t rows, rows_done; /* of bins that are fitted */
    uint32_t count;
    orr_bin bin[ORR_MAX_BINS];
} orr_bins;

/* NULL when the device is unknown or there are too many bins. Texts are copied. */
orr_bin *orr_bin_of(orr_bins *bins, const char *device, const char *kernel, const char *scheme,
                    const char *source, uint32_t flag);
void *orr_bin_add(orr_bins *bins, orr_bin *bin); /* a zeroed sample */
/* The source up to its version: rows of one tuner or one benchmark belong together. */
const char *orr_source_stem(orr_arena *arena, const char *source);
uint32_t orr_block_of(double a, double b, double c);

/* How a class is fitted: rows with a time go into bins, bins become records. */
typedef struct orr_fit_class {
    size_t sample_bytes, least_rows; /* of a bin */
    void (*add)(orr_bins *bins, orr_kernel_class class, const orr_kernel_row *row);
    void (*fit)(orr_bins *bins, const orr_bin *bin, orr_tree *fits); /* of a known device */
    void (*fit_all)(orr_bins *bins, orr_tree *fits); /* instead, where bins need each other */
} orr_fit_class;
extern const orr_fit_class orr_fit_gemm, orr_fit_attention, orr_fit_memops, orr_fit_grouped,
    orr_fit_layers, orr_fit_exchange, orr_fit_collectives;

/* Tells the watcher how many rows are fitted: a task's go_on, with the bins as its watcher. */
bool orr_bins_go_on(const void *bins);
/* Numbers as people write them, with six digits and a unit. */
void orr_put_rate(orr_arena *arena, orr_tree *map, const char *key, double Bps);
void orr_put_number(orr_arena *arena, orr_tree *map, const char *key, double value);
/* error_small, error_training, mape_all, mape_training, bias. */
void orr_put_errors(orr_arena *arena, orr_tree *map, const orr_validated *validated);
/* Head of a record: device, sheet, source, rows, errors. */
orr_tree *orr_put_head(orr_arena *arena, const orr_bin *bin, const orr_machine *machine,
                       const orr_validated *validated);
/* The parameters of a fit; names that end in _s hold seconds and are written without it, names that
 * end in _Bps bytes a second. */
void orr_put_parameters(orr_arena *arena, orr_tree *map, const orr_fit_task *task,
                        const void *constants);
/* How its errors depend on the shape, and which shapes it has seen. */
void orr_put_spread(orr_arena *arena, orr_tree *map, const orr_validated *validated);
/* The surface that the task's model leaves, where it has one. */
void orr_put_surface(orr_arena *arena, orr_tree *map, const orr_fit_task *task,
                     const void *constants);

/* False: stop. */
static inline bool orr_watch_tell(const orr_watch *watch, const char *what, double done,
                                  double total) {
    return watch == NULL || watch->progress == NULL ||
           watch->progress(watch->user, what, done, total);
}

#endif
