/* Calibration: fits the kernel models of cost to tables of measured kernels and writes calibration
 * files. The same tables give the same bytes. docs/internals/cost.md; the files:
 * cost/calibration.h. */
#ifndef ORR_CALIBRATE_H
#define ORR_CALIBRATE_H

#include "cost/calibration.h"
#include "cost/kernel_rows.h"

/* A fit while it runs, and what it made of the table's rows. */
typedef struct orr_watch {
    bool (*progress)(void *user, const char *what, double done, double total); /* false: end */
    void *user;
    size_t rows, timeless,
        unknown;                /* read; of them, without a time or a size, of no known device */
    const char *unknown_device; /* the first */
} orr_watch;

/* Fits one class to a table (CSV, gzip too). *file is a calibration file as a tree: class, made_by,
 * fits with their errors on rows that they have not seen. Errors: unreadable table, unknown class,
 * a class that has no fit; cancelled. watch may be NULL. */
orr_status orr_calibrate(orr_arena *arena, const char *path, const char *class,
                         const orr_calibration *names, orr_watch *watch, orr_tree **file,
                         orr_err *err);
/* Fits the likeness of each kind of op (evidence/evidence.h) to tables of measured kernels, as
 * evidence reads them, paths separated by commas. *file: a calibration file. Errors: unreadable
 * table, no device with enough shapes. */
orr_status orr_calibrate_likeness(orr_arena *arena, const char *paths, orr_watch *watch,
                                  orr_tree **file, orr_err *err);
/* The part of a file that pricing a step needs (bf16 products; the newest NCCL and RCCL), or the
 * rest, which only tables of kernels need (kernels true). */
orr_tree *orr_calibrate_part(orr_arena *arena, const orr_tree *file, bool kernels);
/* The file as YAML text, in the order of the tree. */
char *orr_calibrate_yaml(orr_arena *arena, const orr_tree *file);

#endif
