/* What measured times say beyond a kernel model: a factor over the space of shapes.
 *
 * The logarithm of measured over modelled time as a sum of tables over log2 of a few sizes, coarse
 * to fine, linear between cells and constant beyond the outermost. Where nothing was measured the
 * finer tables are empty, so that a shape far from all measurements gets the coarse word, or none.
 * Calibration fits them (calibrate/surface.c) after the constants of a model, and judges both on
 * blocks of shapes left out. */
#ifndef ORR_COST_SURFACE_H
#define ORR_COST_SURFACE_H

#include "base/arena.h"
#include "base/text.h"
#include "cost/models.h"
#include "orrery/status.h"

enum {
    ORR_SURFACE_DIMS = 5,
    ORR_SURFACE_LEVELS = 4,
    ORR_SURFACE_MOST_CELLS = 1 << 18,
    ORR_SURFACE_UNIT = 500 /* cells are written as whole numbers of 1/500 */
};

typedef struct orr_surface_level {
    double step[ORR_SURFACE_DIMS]; /* octaves between cells */
    int32_t low[ORR_SURFACE_DIMS]; /* first cell, counted in steps */
    uint32_t extent[ORR_SURFACE_DIMS];
    float *cell; /* the last dimension runs fastest */
} orr_surface_level;
typedef struct orr_surface {
    uint32_t dims, levels;
    orr_surface_level level[ORR_SURFACE_LEVELS];
} orr_surface;

/* Cells around a place and their weights, 2^dims of them; returns how many. */
uint32_t orr_surface_corners(const orr_surface_level *level, uint32_t dims, const double *place,
                             uint32_t cell[1 << ORR_SURFACE_DIMS],
                             double weight[1 << ORR_SURFACE_DIMS]);
/* ln(measured / modelled) expected at a place, [dims] of log2; 0 for NULL. */
double orr_surface_log(const orr_surface *surface, const double *place);
/* The factor on a model's time. */
double orr_surface_factor(const orr_surface *surface, const double *place);

/* As one line of text, and back; `at` stands in messages. Errors: not such a line, too many cells.
 */
void orr_surface_write(orr_text *out, const orr_surface *surface);
orr_status orr_surface_read(orr_arena *arena, const char *text, orr_span at, orr_surface **out,
                            orr_err *err);

/* The least and the most of each size that a fit has seen, as places. */
typedef struct orr_cover {
    uint32_t dims; /* 0: not known */
    double low[ORR_SURFACE_DIMS], high[ORR_SURFACE_DIMS];
} orr_cover;
/* How far a place lies outside, in its own units (octaves, but of messages); 0 inside. */
double orr_cover_octaves(const orr_cover *cover, const double *place);
void orr_cover_write(orr_text *out, const orr_cover *cover);
orr_status orr_cover_read(const char *text, orr_span at, orr_cover *out, orr_err *err);

/* Places of shapes, the coordinates of each class. */
void orr_gemm_place(const orr_gemm_shape *shape, double place[ORR_SURFACE_DIMS]);
void orr_attention_place(const orr_attention_shape *shape, double place[ORR_SURFACE_DIMS]);
void orr_stream_place(double bytes, double rows, double place[ORR_SURFACE_DIMS]);
void orr_experts_place(const orr_experts_shape *shape, double place[ORR_SURFACE_DIMS]);
void orr_exchange_place(const orr_exchange_shape *shape, double place[ORR_SURFACE_DIMS]);
enum { ORR_MESSAGE_CELLS = 2 }; /* an octave: a message's place counts half octaves */
void orr_message_place(double bytes, double place[ORR_SURFACE_DIMS]);

#endif
