/* FSDP and ZeRO-3: parameters are gathered for the forward and again for the backward, gradients
 * scattered, on a stream of their own. docs/internals/program.md. */
#include "base/num.h"
#include "program/lower_int.h"

/* Frozen weights travel as they rest, and bring no gradients. */
static uint64_t frozen_bytes(const orr_builder *b, uint64_t all, uint64_t linear) {
    return 2 * (all - linear) + (uint64_t)(orr_base_bytes(b->key->lora.base) * (double)linear);
}

static void add_unit(orr_builder *b, uint16_t name, uint64_t numel, uint64_t frozen, uint32_t size,
                     uint32_t stride) {
    orr_comm comm = {.name = name,
                     .stream = ORR_STREAM_DP,
                     .class = ORR_CLASS_DP,
                     .kind = ORR_ALL_GATHER,
                     .bytes = 2 * numel + frozen, /* gathered as computed with */
                     .size = size,
                     .stride = stride};
    orr_add_comm(b, ORR_PHASE_FORWARD, comm);
    orr_add_comm(b, ORR_PHASE_INPUT_GRAD, comm);
    comm.kind = ORR_REDUCE_SCATTER;
    comm.bytes = numel * (b->key->numeric.grad_bytes ? b->key->numeric.grad_bytes : 4);
    orr_add_comm(b, ORR_PHASE_WEIGHT_GRAD, comm);
}

void orr_lower_shards(orr_builder *b) {
    const orr_split *split = &b->key->split;
    uint64_t shards = b->key->dp_shards;
    if (shards < 2) {
        return;
    }
    b->modules = 0; /* the backward's gather serves a recomputation too */
    const orr_params *p = &b->params;
    uint32_t apart = orr_max_u32(1, b->key->replica_stretch);
    add_unit(b, ORR_N_FSDP_DENSE, p->dense,
             frozen_bytes(b, p->frozen_dense, p->frozen_linear_dense), (uint32_t)shards,
             split->tp * apart);
    /* The same ranks, cut by expert parallelism instead of tensor parallelism. */
    uint64_t expert_grid = (uint64_t)split->etp * split->ep;
    add_unit(b, ORR_N_FSDP_EXPERT, p->expert,
             frozen_bytes(b, p->frozen_expert, p->frozen_linear_expert),
             (uint32_t)(shards * split->tp / expert_grid), (uint32_t)expert_grid * apart);
}
