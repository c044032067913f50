/* Calibration: fits the kernel models of cost to tables of measured kernels and writes calibration
 * files. The same tables give the same bytes. docs/internals/cost.md; the files:
 * cost/calibration.h. */
#ifndef ORR_CALIBRATE_H
#define ORR_CALIBRATE_H

#include "cost/calibration.h"
#include "cost/kernel_rows.h"

/* Fits one class to a table (CSV, gzip too). *file is a calibration file as a tree: class, made_by,
 * fits with their errors on rows that they have not seen. Errors: unreadable table, unknown class,
 * a class that has no fit. */
orr_status orr_calibrate(orr_arena *arena, const char *path, const char *class,
                         const orr_calibration *names, orr_tree **file, orr_err *err);
/* The part of a file that pricing a step needs (bf16 products; the newest NCCL and RCCL), or the
 * rest, which only tables of kernels need (kernels true). */
orr_tree *orr_calibrate_part(orr_arena *arena, const orr_tree *file, bool kernels);
/* The file as YAML text, in the order of the tree. */
char *orr_calibrate_yaml(orr_arena *arena, const orr_tree *file);

#endif
