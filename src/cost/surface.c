#include "cost/surface.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"

uint32_t orr_surface_corners(const orr_surface_level *level, uint32_t dims, const double *place,
                             uint32_t cell[1 << ORR_SURFACE_DIMS],
                             double weight[1 << ORR_SURFACE_DIMS]) {
    uint32_t count = 1;
    cell[0] = 0;
    weight[0] = 1;
    for (uint32_t d = 0; d < dims; d++) {
        uint32_t last = level->extent[d] - 1;
        double at = place[d] / level->step[d] - level->low[d];
        at = orr_min_f64(orr_max_f64(at, 0), last);
        uint32_t base = (uint32_t)at;
        double share = at - base;
        uint32_t before = count;
        for (uint32_t i = 0; i < before; i++) {
            uint32_t row = cell[i] * level->extent[d] + base;
            double whole = weight[i];
            cell[i] = row;
            weight[i] = whole * (1 - share);
            if (share > 0) { /* then base < last */
                cell[count] = row + 1;
                weight[count++] = whole * share;
            }
        }
    }
    return count;
}

double orr_surface_log(const orr_surface *surface, const double *place) {
    double sum = 0;
    if (surface == NULL) {
        return 0;
    }
    for (uint32_t l = 0; l < surface->levels; l++) {
        uint32_t cell[1 << ORR_SURFACE_DIMS];
        double weight[1 << ORR_SURFACE_DIMS];
        const orr_surface_level *level = &surface->level[l];
        uint32_t count = orr_surface_corners(level, surface->dims, place, cell, weight);
        for (uint32_t i = 0; i < count; i++) {
            sum += weight[i] * (double)level->cell[cell[i]];
        }
    }
    return sum;
}

double orr_surface_factor(const orr_surface *surface, const double *place) {
    return surface == NULL ? 1 : exp(orr_surface_log(surface, place));
}

/* ---- text ----------------------------------------------------------------------------------- */

static size_t cells_of(const orr_surface_level *level, uint32_t dims) {
    size_t cells = 1;
    for (uint32_t d = 0; d < dims; d++) {
        cells *= level->extent[d];
    }
    return cells;
}

static int whole_units(double value) {
    return (int)floor(value * ORR_SURFACE_UNIT + 0.5);
}

/* "3 3 4 4 4 0 1 1 5 4 4 12 -3 ~5 ...": dims, levels; of each level steps, lows, extents, cells;
 * ~n stands for n zeros. */
void orr_surface_write(orr_text *out, const orr_surface *surface) {
    orr_text_format(out, "%u %u", surface->dims, surface->levels);
    for (uint32_t l = 0; l < surface->levels; l++) {
        const orr_surface_level *level = &surface->level[l];
        for (uint32_t d = 0; d < surface->dims; d++) {
            orr_text_format(out, " %d", (int)level->step[d]);
        }
        for (uint32_t d = 0; d < surface->dims; d++) {
            orr_text_format(out, " %d", (int)level->low[d]);
        }
        for (uint32_t d = 0; d < surface->dims; d++) {
            orr_text_format(out, " %u", level->extent[d]);
        }
        size_t cells = cells_of(level, surface->dims);
        for (size_t i = 0; i < cells;) {
            size_t zeros = 0;
            while (i + zeros < cells && whole_units((double)level->cell[i + zeros]) == 0) {
                zeros++;
            }
            if (zeros > 0) {
                orr_text_format(out, " ~%zu", zeros);
                i += zeros;
            } else {
                orr_text_format(out, " %d", whole_units((double)level->cell[i++]));
            }
        }
    }
}

/* The next whole number; false at the end or at anything else. run: it stood after a ~. */
static bool next_number(const char **text, int32_t *out, bool *run) {
    const char *p = *text;
    while (*p == ' ') {
        p++;
    }
    *run = *p == '~';
    p += *run;
    bool negative = *p == '-';
    p += negative;
    int32_t value = 0;
    const char *first = p;
    for (; *p >= '0' && *p <= '9' && value < 100000000; p++) {
        value = 10 * value + (*p - '0');
    }
    *text = p;
    *out = negative ? -value : value;
    return p > first && (*p == ' ' || *p == '\0');
}

static bool read_cells(const char **p, size_t cells, float *out) {
    int32_t value = 0;
    bool run = false;
    for (size_t i = 0; i < cells;) {
        if (!next_number(p, &value, &run)) {
            return false;
        }
        if (run) {
            if (value <= 0 || (size_t)value > cells - i) {
                return false;
            }
            i += (size_t)value; /* the arena's memory is zero */
        } else {
            out[i++] = (float)value / ORR_SURFACE_UNIT;
        }
    }
    return true;
}

static bool read_level(orr_arena *arena, const char **p, uint32_t dims, orr_surface_level *level) {
    int32_t number[3 * ORR_SURFACE_DIMS];
    bool run = false;
    for (uint32_t i = 0; i < 3 * dims; i++) {
        if (!next_number(p, &number[i], &run) || run) {
            return false;
        }
    }
    size_t cells = 1;
    for (uint32_t d = 0; d < dims; d++) {
        int32_t step = number[d], extent = number[2 * dims + d];
        if (step < 1 || step > 64 || extent < 1 || extent > 4096) {
            return false;
        }
        level->step[d] = step;
        level->low[d] = number[dims + d];
        level->extent[d] = (uint32_t)extent;
        cells *= (size_t)extent;
        if (cells > ORR_SURFACE_MOST_CELLS) {
            return false;
        }
    }
    level->cell = ORR_NEW_ARRAY(arena, float, cells);
    return read_cells(p, cells, level->cell);
}

orr_status orr_surface_read(orr_arena *arena, const char *text, orr_span at, orr_surface **out,
                            orr_err *err) {
    orr_surface *surface = ORR_NEW(arena, orr_surface);
    int32_t dims = 0, levels = 0;
    bool run = false;
    bool good = next_number(&text, &dims, &run) && next_number(&text, &levels, &run) && dims >= 1 &&
                dims <= ORR_SURFACE_DIMS && levels >= 1 && levels <= ORR_SURFACE_LEVELS;
    if (good) {
        surface->dims = (uint32_t)dims;
        surface->levels = (uint32_t)levels;
        for (uint32_t l = 0; l < surface->levels && good; l++) {
            good = read_level(arena, &text, surface->dims, &surface->level[l]);
        }
    }
    if (!good || *text != '\0') {
        return orr_fail_at(err, ORR_E_SCHEMA, at,
                           "not a surface: dims, levels, then of each level steps, lows, extents "
                           "and cells, as calibrate writes them");
    }
    *out = surface;
    return ORR_OK;
}

/* ---- places --------------------------------------------------------------------------------- */

static double octaves(double size) {
    return log2(orr_max_f64(size, 1));
}

void orr_gemm_place(const orr_gemm_shape *shape, double place[ORR_SURFACE_DIMS]) {
    place[0] = octaves(shape->m * shape->batch);
    place[1] = octaves(shape->n);
    place[2] = octaves(shape->k);
}

void orr_attention_place(const orr_attention_shape *shape, double place[ORR_SURFACE_DIMS]) {
    double sequences = shape->packed != NULL ? shape->packed->count : shape->batch;
    double each =
        shape->packed != NULL ? orr_attention_work_of(shape).queries / sequences : shape->seq_q;
    place[0] = octaves(each);
    place[1] = octaves(sequences * shape->heads);
    place[2] = octaves(shape->head_dim + shape->v_dim);
    place[3] = octaves(shape->heads / shape->kv_heads);
}

void orr_stream_place(double bytes, double rows, double place[ORR_SURFACE_DIMS]) {
    place[0] = octaves(bytes);
    place[1] = octaves(rows);
}

void orr_experts_place(const orr_experts_shape *shape, double place[ORR_SURFACE_DIMS]) {
    static const double BALANCED = 0, SKEWED = 3, KIND = 4; /* well apart */
    place[0] = octaves(shape->rows / shape->groups);
    place[1] = octaves(shape->width_in);
    place[2] = octaves(shape->width_out);
    place[3] = octaves(shape->groups);
    place[4] = shape->skewed ? SKEWED + octaves(shape->ranks) : BALANCED + KIND * shape->scales;
}

void orr_exchange_place(const orr_exchange_shape *shape, double place[ORR_SURFACE_DIMS]) {
    place[0] = octaves(shape->tokens);
    place[1] = octaves(shape->ranks);
    place[2] = octaves(shape->hidden);
    place[3] = octaves(shape->topk);
    place[4] = octaves(shape->units);
}

void orr_message_place(double bytes, double place[ORR_SURFACE_DIMS]) {
    place[0] = ORR_MESSAGE_CELLS * octaves(bytes);
}
