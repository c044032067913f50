/* Which layers each chunk gets: Megatron-LM's rules (core/transformer/transformer_block.py). Layers
 * go to chunks in the order of the loop placement: chunk 0 of all ranks, then chunk 1 of all ranks.
 */
#include "schedule/schedule_int.h"

static orr_status divides(uint32_t whole, uint32_t parts, const char *what, const char *by,
                          orr_err *err) {
    if (parts == 0 || whole % parts != 0) {
        return orr_fail(err, ORR_E_INFEASIBLE, "%u %s do not divide by %u %s", whole, what, parts,
                        by);
    }
    return ORR_OK;
}

static orr_status check_limits(const orr_split_spec *s, orr_err *err) {
    if (s->pp == 0 || s->pp > ORR_MAX_PP || s->vpp > ORR_MAX_VPP || s->layers > 1u << 20) {
        return orr_fail(err, ORR_E_LIMIT, "cannot split %u layers over %u ranks of %u chunks",
                        s->layers, s->pp, s->vpp);
    }
    if ((s->flags & ORR_SPLIT_COUNTS) != 0 &&
        (s->flags & (ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS)) != 0) {
        return orr_fail(err, ORR_E_INFEASIBLE,
                        "layer counts of the first and last rank do not combine with counting the "
                        "embedding or the loss as a layer");
    }
    return ORR_OK;
}

/* Every rank gets the same, but that embedding and loss stand for a layer. */
static orr_status even(const orr_split_spec *s, uint32_t vpp, uint32_t *count, orr_err *err) {
    uint32_t embedding = (s->flags & ORR_SPLIT_EMBEDDING) != 0;
    uint32_t loss = (s->flags & ORR_SPLIT_LOSS) != 0;
    uint32_t all = s->layers + embedding + loss;
    ORR_TRY(divides(all, s->pp,
                    embedding + loss != 0 ? "layers (embedding and loss included)" : "layers",
                    "pipeline ranks", err));
    ORR_TRY(divides(all / s->pp, vpp, "layers of a rank", "chunks", err));
    uint32_t each = all / s->pp / vpp;
    for (uint32_t i = 0; i < s->pp * vpp; i++) {
        count[i] = each;
    }
    if (each == 0 && embedding + loss != 0) {
        return orr_fail(err, ORR_E_INFEASIBLE, "no layer is left for the chunks");
    }
    if (each < 2 && s->pp * vpp == 1 && embedding + loss == 2) {
        return orr_fail(err, ORR_E_INFEASIBLE, "no layer is left beside embedding and loss");
    }
    count[0] -= embedding;
    count[s->pp * vpp - 1] -= loss;
    return ORR_OK;
}

static orr_status given_ends(const orr_split_spec *s, uint32_t vpp, uint32_t *count, orr_err *err) {
    uint64_t ends = (uint64_t)s->first + s->last;
    uint32_t others = s->pp - (s->first != 0) - (s->last != 0);
    if (s->pp == 1 && s->first != 0 && s->last != 0) {
        return orr_fail(err, ORR_E_INFEASIBLE, "one rank cannot have a first and a last count");
    }
    if (ends > s->layers || (others == 0 && ends != s->layers)) {
        return orr_fail(err, ORR_E_INFEASIBLE,
                        "first and last rank take %llu layers of %u, %u ranks are between",
                        (unsigned long long)ends, s->layers, others);
    }
    uint32_t rest = s->layers - (uint32_t)ends, each = 0;
    if (others != 0) {
        ORR_TRY(divides(rest, others, "remaining layers", "remaining ranks", err));
        each = rest / others;
    }
    for (uint32_t r = 0; r < s->pp; r++) {
        uint32_t mine = r == 0 && s->first != 0          ? s->first
                        : r + 1 == s->pp && s->last != 0 ? s->last
                                                         : each;
        ORR_TRY(divides(mine, vpp, "layers of a rank", "chunks", err));
        for (uint32_t c = 0; c < vpp; c++) {
            count[r * vpp + c] = mine / vpp;
        }
    }
    return ORR_OK;
}

static void add_up(uint32_t pp, uint32_t vpp, const uint32_t *count, uint32_t *offset) {
    uint32_t next = 0;
    for (uint32_t c = 0; c < vpp; c++) {
        for (uint32_t r = 0; r < pp; r++) {
            offset[r * vpp + c] = next;
            next += count[r * vpp + c];
        }
    }
}

orr_status orr_split_layers(const orr_split_spec *spec, uint32_t *count, uint32_t *offset,
                            orr_err *err) {
    uint32_t vpp = orr_max_u32(1, spec->vpp);
    ORR_TRY(check_limits(spec, err));
    if ((spec->flags & ORR_SPLIT_COUNTS) != 0) {
        ORR_TRY(given_ends(spec, vpp, count, err));
    } else {
        ORR_TRY(even(spec, vpp, count, err));
    }
    add_up(spec->pp, vpp, count, offset);
    return ORR_OK;
}
