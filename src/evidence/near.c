/* Between measured shapes: how far records are off a model's prices, taken to another shape.
 *
 * The model states an error for each price. What it is off by, in units of that error, is taken as
 * one random field over log2 of the sizes that may differ; other sizes (dtype, head width, ranks)
 * must agree. Part of it is common to all shapes (a machine slower than its sheet), part changes
 * slowly with the shape, part within an octave, and the rest is each shape's own: an orr_likeness,
 * found by `orrery calibrate --evidence`. Kriging gives what the nearest records say of a shape and
 * how much that leaves open; with none near, it is the model's price and error. Records that lie
 * further off the model than it claims widen the interval, since then its claim is doubtful: the
 * field's scale is known as a Student t of a few degrees of freedom knows it. A record far from
 * what all others say (or, alone, from the model) is odd rather than telling: it counts for less,
 * by the square of how odd it is. */
#include <math.h>
#include <string.h>

#include "base/cholesky.h"
#include "base/num.h"
#include "evidence/evidence_int.h"

static const double VARIANT_OCTAVES = 0.5; /* another phase, or another output */
enum { SOFT_DIMS = 8 };

/* Sizes that may differ, by kind; the rest must agree. */
static const uint32_t soft_dims[ORR_EVIDENCE_KIND_COUNT] = {
    [ORR_OP_GEMM] = 0x7,         /* m n k */
    [ORR_OP_GROUPED_GEMM] = 0xf, /* and groups */
    [ORR_OP_ATTENTION] = 0xc7,   /* batch heads kv_heads seq_q seq_kv */
    [ORR_OP_MEMORY] = 0x1,       /* bytes */
    [ORR_OP_COLLECTIVE] = 0x1,   /* bytes */
};

/* A record as a point. */
typedef struct place {
    float octaves[SOFT_DIMS];    /* log2 of the sizes that may differ */
    float off, noise, log_ratio; /* ln(measured / modelled): over the stated error, its spread,
                                    itself; NAN where the model says nothing */
} place;

struct orr_evidence_field {
    const orr_evidence *evidence;
    const orr_likeness *likeness;                /* [ORR_EVIDENCE_LAYER] */
    uint32_t first[ORR_EVIDENCE_KIND_COUNT + 1]; /* records are sorted by kind */
    place *at;                                   /* [evidence->count] */
};

static void place_of(const orr_evidence_key *key, float octaves[SOFT_DIMS]) {
    for (uint32_t d = 0; d < SOFT_DIMS; d++) {
        bool soft = soft_dims[key->kind] >> d & 1;
        octaves[d] = soft && key->dim[d] > 0 ? (float)log2((double)key->dim[d]) : 0.0f;
    }
}

const orr_evidence_field *orr_evidence_field_new(orr_arena *arena, const orr_evidence *evidence,
                                                 const orr_modelled *model,
                                                 const orr_likeness *likeness) {
    orr_evidence_field *field = ORR_NEW(arena, orr_evidence_field);
    field->evidence = evidence;
    field->likeness = likeness;
    field->at = ORR_NEW_ARRAY(arena, place, evidence->count + 1);
    for (uint32_t i = 0; i < evidence->count; i++) {
        const orr_evidence_record *record = &evidence->record[i];
        place *p = &field->at[i];
        place_of(&record->key, p->octaves);
        double spread_frac = orr_max_f64(ORR_EVIDENCE_NOISE, record->spread_frac);
        bool known = record->time_s > 0 && model[i].time_s > 0 && model[i].relerr_frac > 0;
        double log_ratio = known ? log(record->time_s / model[i].time_s) : (double)NAN;
        p->log_ratio = (float)log_ratio;
        p->off = (float)(log_ratio / model[i].relerr_frac);
        p->noise = (float)(known ? spread_frac / model[i].relerr_frac : 0);
        field->first[record->key.kind + 1] = i + 1;
    }
    for (uint32_t kind = 1; kind <= ORR_EVIDENCE_KIND_COUNT; kind++) {
        field->first[kind] = orr_max_u32(field->first[kind], field->first[kind - 1]);
    }
    return field;
}

/* Squared octaves between two keys of a kind; negative when they cannot be compared. */
static double square_distance(const orr_evidence_key *a, const float *at, const orr_evidence_key *b,
                              const float *bt) {
    if (a->dtype != b->dtype || a->sub != b->sub || a->causal != b->causal) {
        return -1;
    }
    bool gemm = a->kind <= ORR_OP_GROUPED_GEMM;
    bool other_phase =
        a->phase != b->phase && a->phase != ORR_EVIDENCE_ANY && b->phase != ORR_EVIDENCE_ANY;
    if (other_phase && !gemm) {
        return -1;
    }
    double square = 0;
    if (other_phase || (gemm && a->out_bytes != b->out_bytes && a->out_bytes && b->out_bytes)) {
        square += VARIANT_OCTAVES * VARIANT_OCTAVES;
    }
    uint32_t soft = soft_dims[a->kind];
    for (uint32_t d = 0; d < SOFT_DIMS; d++) {
        if (a->dim[d] == b->dim[d]) {
            continue;
        }
        if (!(soft >> d & 1) || a->dim[d] == 0 || b->dim[d] == 0) {
            return -1;
        }
        double octaves = (double)at[d] - (double)bt[d];
        square += octaves * octaves;
    }
    return square;
}

double orr_evidence_octaves(const orr_evidence_key *a, const orr_evidence_key *b) {
    float at[SOFT_DIMS], bt[SOFT_DIMS];
    if (a->kind != b->kind) {
        return -1;
    }
    place_of(a, at);
    place_of(b, bt);
    double square = square_distance(a, at, b, bt);
    return square < 0 ? -1 : sqrt(square);
}

static double alike(const orr_likeness *l, double octaves) {
    return l->level + l->smooth * exp(-octaves / l->smooth_octaves) +
           l->rough * exp(-octaves / l->rough_octaves);
}

enum { MOST = ORR_EVIDENCE_NEIGHBOURS };

/* How far each record lies from what all others say of it, in standard errors of that: element i of
 * A^-1 off over the root of element ii of A^-1. */
static void judge(const double *l, uint32_t n, const double *off, double *apart) {
    double z[MOST];
    memcpy(z, off, n * sizeof *z);
    orr_cholesky_forward(l, n, z);
    for (uint32_t i = 0; i < n; i++) {
        double unit[MOST] = {0}, own = 0, weighted = 0;
        unit[i] = 1;
        orr_cholesky_forward(l, n, unit);
        for (uint32_t k = i; k < n; k++) {
            own += unit[k] * unit[k];
            weighted += unit[k] * z[k];
        }
        apart[i] = fabs(weighted) / sqrt(own);
    }
}

static void covariances(const orr_likeness *likeness, uint32_t n, const double *between,
                        const double *own, double *a) {
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++) {
            a[i * n + j] = alike(likeness, between[i * n + j]);
        }
        a[i * n + i] += own[i];
    }
}

orr_kriged orr_evidence_krige(const orr_likeness *likeness, uint32_t count, const double *between,
                              const double *to, const double *off, const double *noise) {
    static const double ODD = 3; /* standard errors from which a record is odd, not telling */
    double a[MOST * MOST], k[MOST], z[MOST], own[MOST] = {0}, apart[MOST];
    double rest = 1 - likeness->level - likeness->smooth - likeness->rough;
    for (uint32_t i = 0; i < count; i++) {
        own[i] = rest + noise[i] * noise[i];
    }
    covariances(likeness, count, between, own, a);
    orr_cholesky(a, count);
    judge(a, count, off, apart);
    bool odd = false;
    for (uint32_t i = 0; i < count; i++) {
        double times = orr_max_f64(1, apart[i] / ODD);
        odd = odd || times > 1;
        own[i] *= times * times;
    }
    if (odd) {
        covariances(likeness, count, between, own, a);
        orr_cholesky(a, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        k[i] = alike(likeness, to[i]);
        z[i] = off[i];
    }
    orr_cholesky_forward(a, count, k);
    orr_cholesky_forward(a, count, z);
    orr_kriged out = {0, 1, 1};
    double surprise = 0;
    for (uint32_t i = 0; i < count; i++) {
        out.mean += k[i] * z[i];
        out.open -= k[i] * k[i];
        surprise += z[i] * z[i];
    }
    out.open = orr_max_f64(out.open, 1e-6);
    out.scale = (likeness->dof + surprise) / (likeness->dof + count);
    return out;
}

/* The nearest records of a key's kind, in the order of their distance. */
static uint32_t nearest(const orr_evidence_field *field, const orr_evidence_key *key,
                        const float *at, uint32_t *index, double *square) {
    uint32_t count = 0;
    for (uint32_t i = field->first[key->kind]; i < field->first[key->kind + 1]; i++) {
        if (isnan(field->at[i].off)) {
            continue;
        }
        double s = square_distance(key, at, &field->evidence->record[i].key, field->at[i].octaves);
        bool full = count == ORR_EVIDENCE_NEIGHBOURS;
        if (s < 0 || (full && s >= square[count - 1])) {
            continue;
        }
        uint32_t slot = full ? count - 1 : count++;
        for (; slot > 0 && square[slot - 1] > s; slot--) {
            square[slot] = square[slot - 1];
            index[slot] = index[slot - 1];
        }
        square[slot] = s;
        index[slot] = i;
    }
    return count;
}

/* Whether every size lies between the least and the most of those records. */
static bool is_inside(const orr_evidence_field *field, const float *at, const uint32_t *index,
                      uint32_t count) {
    for (uint32_t d = 0; d < SOFT_DIMS; d++) {
        float low = INFINITY, high = -INFINITY;
        for (uint32_t i = 0; i < count; i++) {
            float x = field->at[index[i]].octaves[d];
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
        if (at[d] < low || at[d] > high) {
            return false;
        }
    }
    return count > 1;
}

orr_evidence_near orr_evidence_between(const orr_evidence_field *field, const orr_evidence_key *key,
                                       double relerr_frac) {
    orr_evidence_near out = {.ratio = 1, .relerr_frac = relerr_frac};
    if (key->kind >= ORR_EVIDENCE_LAYER || !(field->likeness[key->kind].dof > 0)) {
        return out;
    }
    uint32_t index[ORR_EVIDENCE_NEIGHBOURS];
    double square[ORR_EVIDENCE_NEIGHBOURS], to[ORR_EVIDENCE_NEIGHBOURS];
    double off[ORR_EVIDENCE_NEIGHBOURS], noise[ORR_EVIDENCE_NEIGHBOURS];
    double between[ORR_EVIDENCE_NEIGHBOURS * ORR_EVIDENCE_NEIGHBOURS];
    float at[SOFT_DIMS];
    place_of(key, at);
    uint32_t count = nearest(field, key, at, index, square);
    if (count == 0) {
        return out;
    }
    const orr_evidence_record *record = field->evidence->record;
    for (uint32_t i = 0; i < count; i++) {
        const place *p = &field->at[index[i]];
        to[i] = sqrt(square[i]);
        off[i] = (double)p->off;
        noise[i] = (double)p->noise;
        out.neighbours += to[i] <= ORR_EVIDENCE_NEAR_OCTAVES;
        for (uint32_t j = 0; j < count; j++) {
            double s = square_distance(&record[index[i]].key, p->octaves, &record[index[j]].key,
                                       field->at[index[j]].octaves);
            between[i * count + j] = sqrt(orr_max_f64(0, s));
        }
    }
    const orr_likeness *likeness = &field->likeness[key->kind];
    orr_kriged kriged = orr_evidence_krige(likeness, count, between, to, off, noise);
    double t95 = orr_t95(likeness->dof + count);
    /* a shape unlike all others is less sure, and not further off in the same direction */
    const place *first = &field->at[index[0]];
    double record_relerr = fabs((double)(first->log_ratio / first->off));
    bool larger = isfinite(record_relerr) && record_relerr < relerr_frac;
    out.ratio = exp(kriged.mean * (larger ? record_relerr : relerr_frac));
    out.relerr_frac = hypot(relerr_frac * sqrt(kriged.open * kriged.scale) * t95 / ORR_HALF_90_SD,
                            ORR_EVIDENCE_NOISE);
    out.octaves = to[0];
    out.record_ratio = exp((double)field->at[index[0]].log_ratio);
    out.records = count;
    out.inside = is_inside(field, at, index, out.neighbours);
    return out;
}
