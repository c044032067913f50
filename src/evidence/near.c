/* Between measured shapes: a model says how time changes with shape, records near by say how far it
 * is off there.
 *
 * Distance is counted in octaves of the sizes that may differ; the others (dtype, head width,
 * ranks) must agree. The nearest few records vote on the ratio of measured to modelled time, by the
 * inverse square of their distance. The error has two parts: how much the votes differ, and how far
 * the nearest is. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "evidence/evidence_int.h"

enum { NEIGHBOURS = 8 };
static const double REACH_OCTAVES = 2.5;   /* beyond, a record says nothing */
static const double VARIANT_OCTAVES = 0.5; /* another phase, or another output */
static const double NEAR_OCTAVES = 0.1;    /* distances below count as this */
static const double BASE_RELERR = 0.05;    /* of shapes side by side, left out one at a time */
static const double OCTAVE_RELERR = 0.04;  /* what one more octave adds */

/* Sizes that may differ, by kind; the rest must agree. */
static const uint32_t soft_dims[ORR_EVIDENCE_KIND_COUNT] = {
    [ORR_OP_GEMM] = 0x7,         /* m n k */
    [ORR_OP_GROUPED_GEMM] = 0xf, /* and groups */
    [ORR_OP_ATTENTION] = 0xc7,   /* batch heads kv_heads seq_q seq_kv */
    [ORR_OP_MEMORY] = 0x1,       /* bytes */
    [ORR_OP_COLLECTIVE] = 0x1,   /* bytes */
};

/* Octaves between two keys; negative when they cannot be compared. */
static double distance(const orr_evidence_key *a, const orr_evidence_key *b) {
    if (a->kind != b->kind || a->dtype != b->dtype || a->sub != b->sub || a->causal != b->causal) {
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
    for (uint32_t d = 0; d < 8; d++) {
        if (a->dim[d] == b->dim[d]) {
            continue;
        }
        if (!(soft >> d & 1) || a->dim[d] == 0 || b->dim[d] == 0) {
            return -1;
        }
        double octaves = log2((double)a->dim[d] / (double)b->dim[d]);
        if (fabs(octaves) > REACH_OCTAVES) {
            return -1;
        }
        square += octaves * octaves;
    }
    return sqrt(square);
}

typedef struct vote {
    double octaves, log_ratio, spread_frac;
} vote;

static uint32_t collect(const orr_evidence *evidence, const double *model_s,
                        const orr_evidence_key *key, vote *votes) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < evidence->count; i++) {
        if (!(model_s[i] > 0)) {
            continue;
        }
        double octaves = distance(key, &evidence->record[i].key);
        if (octaves < 0 || octaves > REACH_OCTAVES ||
            (count == NEIGHBOURS && octaves >= votes[count - 1].octaves)) {
            continue;
        }
        uint32_t at = count < NEIGHBOURS ? count++ : count - 1;
        for (; at > 0 && votes[at - 1].octaves > octaves; at--) {
            votes[at] = votes[at - 1];
        }
        votes[at] = (vote){octaves, log(evidence->record[i].time_s / model_s[i]),
                           evidence->record[i].spread_frac};
    }
    return count;
}

orr_evidence_near orr_evidence_between(const orr_evidence *evidence, const double *model_s,
                                       const orr_evidence_key *key) {
    vote votes[NEIGHBOURS];
    orr_evidence_near out = {1, 0, 0, 0};
    if (key->kind >= ORR_EVIDENCE_LAYER) {
        return out;
    }
    uint32_t count = collect(evidence, model_s, key, votes);
    if (count == 0) {
        return out;
    }
    double weights = 0, mean = 0, variance = 0;
    for (uint32_t i = 0; i < count; i++) {
        double weight = pow(orr_max_f64(votes[i].octaves, NEAR_OCTAVES), -2);
        weights += weight;
        mean += weight * votes[i].log_ratio;
    }
    mean /= weights;
    for (uint32_t i = 0; i < count; i++) {
        double weight = pow(orr_max_f64(votes[i].octaves, NEAR_OCTAVES), -2) / weights;
        double off = votes[i].log_ratio - mean;
        variance += weight * off * off;
    }
    double far = OCTAVE_RELERR * votes[0].octaves;
    double own = orr_max_f64(BASE_RELERR, votes[0].spread_frac);
    /* one vote says nothing of how votes differ */
    double alone = count == 1 ? 2 * far : 0;
    out = (orr_evidence_near){.ratio = exp(mean),
                              .relerr_frac = sqrt(variance + far * far + own * own + alone * alone),
                              .octaves = votes[0].octaves,
                              .neighbours = count};
    return out;
}
