/* The optimizer's step on one rank: traffic of its states, and the products of Muon.
 *
 * Muon works on whole matrices. Where optimizer states are sharded, they are dealt out whole: in
 * order of size, to and fro over the data-parallel ranks, dense and expert ones apart, each updated
 * by one rank (Megatron-Core's layer-wise optimizer, `dist_muon`). Without sharding every replica
 * runs them all (plain `muon`). Sharded parameters have to meet first: shards of the momentum go to
 * their matrix's rank and updates come back, in bf16 (Dion's and NeMo AutoModel's way on FSDP2). */
#include <string.h>

#include "base/num.h"
#include "projection/projection_int.h"

static uint8_t less_sure(uint8_t a, uint8_t b) {
    return a > b ? a : b;
}

/* Matrices of one shape on a rank. */
typedef struct pile {
    orr_matrix of;
    double time_s, error_s, flops;
    uint64_t count;
} pile;
/* As many shapes as a model's layer kinds can have; more count with the last. */
enum { MOST_PILES = 192 };

typedef struct piles {
    pile pile[MOST_PILES]; /* by size, the smallest first */
    uint32_t count;
    uint8_t provenance;
} piles;

static uint64_t size_of(const orr_matrix *m) {
    return (uint64_t)m->rows * m->cols;
}

static void add_matrix(piles *all, const orr_matrix *matrix, uint64_t count) {
    uint32_t at = all->count;
    for (uint32_t i = 0; i < all->count; i++) {
        const orr_matrix *of = &all->pile[i].of;
        if (of->rows == matrix->rows && of->cols == matrix->cols && of->expert == matrix->expert) {
            all->pile[i].count += count;
            return;
        }
    }
    if (at == MOST_PILES) {
        all->pile[at - 1].count += count;
        return;
    }
    while (at > 0 && size_of(&all->pile[at - 1].of) > size_of(matrix)) {
        all->pile[at] = all->pile[at - 1];
        at--;
    }
    all->pile[at] = (pile){.of = *matrix, .count = count};
    all->count++;
}

static void gather_piles(const orr_program *program, const orr_cost_table *table, uint32_t rank,
                         piles *all) {
    const uint32_t vpp = program->resolved->plan.pipe.vpp;
    for (uint32_t c = 0; c < vpp; c++) {
        const orr_chunk *chunk = orr_program_chunk(program, rank, c);
        for (uint32_t p = 0; p < chunk->part_count; p++) {
            const orr_object *object = chunk->part[p].object;
            for (uint32_t i = 0; i < object->matrix_count; i++) {
                const orr_matrix *matrix = &object->matrix[i];
                add_matrix(all, matrix, (uint64_t)matrix->count * chunk->part[p].count);
            }
        }
    }
    for (uint32_t i = 0; i < all->count; i++) {
        pile *one = &all->pile[i];
        orr_muon_cost cost = orr_cost_muon(table, one->of.rows, one->of.cols);
        one->time_s = cost.all.time_s;
        one->error_s = cost.all.time_s * cost.all.relerr_frac;
        one->flops = cost.flops;
        all->provenance = less_sure(all->provenance, cost.all.provenance);
    }
}

/* Of the first `dealt` matrices, those of a rank. */
static uint64_t share_of(uint64_t dealt, uint64_t ranks, uint64_t rank) {
    uint64_t round = 2 * ranks, rest = dealt % round;
    return 2 * (dealt / round) + (rest > rank) + (rest > round - 1 - rank);
}

static orr_muon_step deal_to(const piles *all, bool expert, uint64_t ranks, uint64_t rank) {
    orr_muon_step sum = {0};
    uint64_t dealt = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const pile *one = &all->pile[i];
        if ((one->of.expert != 0) != expert) {
            continue;
        }
        uint64_t before = share_of(dealt, ranks, rank);
        dealt += one->count;
        double mine = (double)(share_of(dealt, ranks, rank) - before);
        sum.time_s += mine * one->time_s;
        sum.error_s += mine * one->error_s;
        sum.flops += mine * one->flops;
        sum.matrices += mine;
    }
    return sum;
}

/* What the rank does that has most to do. Shares change with the rank only where a pile ends: one
 * rank of each stretch in between stands for all. */
static orr_muon_step busiest(const piles *all, bool expert, uint64_t ranks) {
    orr_muon_step most = deal_to(all, expert, ranks, 0);
    uint64_t dealt = 0, round = 2 * ranks;
    for (uint32_t i = 0; i < all->count && ranks > 1; i++) {
        if ((all->pile[i].of.expert != 0) != expert) {
            continue;
        }
        dealt += all->pile[i].count;
        uint64_t rest = dealt % round;
        for (int turn = 0; turn < 2; turn++) {
            uint64_t rank = turn == 0 ? rest : round - rest;
            orr_muon_step one = {0};
            if (rank < ranks) {
                one = deal_to(all, expert, ranks, rank);
            }
            most = one.time_s > most.time_s ? one : most;
        }
    }
    return most;
}

/* Elements of matrices that a rank holds, by the group that shards them. */
static double elements_of(const piles *all, bool expert) {
    double sum = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        if ((all->pile[i].of.expert != 0) == expert) {
            sum += (double)all->pile[i].count * (double)size_of(&all->pile[i].of);
        }
    }
    return sum;
}

/* Momentum there and updates back, of a rank's shards. */
static orr_exchange meet(const orr_cost_table *table, const piles *all, const orr_dp_groups *g) {
    static const double BYTES = 2, WAYS = 2;
    orr_exchange sum = {0, 0, 0};
    for (int expert = 0; expert < 2; expert++) {
        orr_group group = expert ? g->expert : g->dense;
        double bytes = BYTES * elements_of(all, expert != 0) / orr_max_u32(1, group.size);
        if (group.size > 1 && bytes > 0) {
            orr_cost one = orr_cost_collective(table, ORR_ALL_TO_ALL, bytes, group);
            sum.time_s += WAYS * one.time_s;
            sum.error_s += WAYS * one.time_s * one.relerr_frac;
            sum.provenance = less_sure(sum.provenance, one.provenance);
        }
    }
    return sum;
}

static orr_muon_step muon_of(const orr_program *program, const orr_cost_table *table,
                             uint32_t rank) {
    const orr_plan *plan = &program->resolved->plan;
    bool sharded = plan->shard.kind != ORR_SHARD_NONE;
    piles all = {.count = 0};
    gather_piles(program, table, rank, &all);
    uint64_t dense = sharded ? orr_max_u32(1, orr_plan_dense_shards(plan)) : 1;
    uint64_t expert = sharded ? orr_max_u32(1, orr_plan_expert_shards(plan)) : 1;
    orr_muon_step sum = busiest(&all, false, dense), other = busiest(&all, true, expert);
    sum.time_s += other.time_s;
    sum.error_s += other.error_s;
    sum.flops += other.flops;
    sum.matrices += other.matrices;
    sum.provenance = all.provenance;
    if (plan->shard.kind >= ORR_SHARD_ZERO3) {
        orr_dp_groups g = orr_step_groups(program->resolved);
        orr_exchange exchange = meet(table, &all, &g);
        sum.exchange_s = exchange.time_s;
        sum.time_s += exchange.time_s;
        sum.error_s += exchange.error_s;
        sum.provenance = less_sure(sum.provenance, exchange.provenance);
    }
    return sum;
}

static orr_cost traffic_cost(const orr_program *program, const orr_cost_table *table,
                             uint32_t rank) {
    const orr_resolved *resolved = program->resolved;
    const uint32_t vpp = resolved->plan.pipe.vpp;
    double dense = 0, expert = 0;
    for (uint32_t c = 0; c < vpp; c++) {
        const orr_params *params = &orr_program_chunk(program, rank, c)->params;
        dense += (double)params->dense;
        expert += (double)params->expert;
    }
    double local = dense + expert, shard = local;
    if (resolved->plan.shard.kind != ORR_SHARD_NONE) {
        shard = dense / orr_plan_dense_shards(&resolved->plan) +
                expert / orr_max_u32(1, orr_plan_expert_shards(&resolved->plan));
    }
    double bytes = orr_plan_optimizer_bytes(&resolved->plan, resolved->software, shard, local);
    return orr_cost_memory(table, ORR_MEMOP_BULK, bytes, 2);
}

orr_exchange orr_step_optimizer(const orr_program *program, const orr_cost_table *table,
                                orr_muon_step *muon) {
    const orr_plan *plan = &program->resolved->plan;
    const uint32_t vpp = plan->pipe.vpp;
    orr_exchange longest = {0, 0, ORR_FROM_MODEL};
    *muon = (orr_muon_step){0};
    for (uint32_t r = 0; r < plan->pipe.pp; r++) {
        const uint8_t *chunks = &program->chunk[r * vpp];
        if (r > 0 && memcmp(chunks, chunks - vpp, vpp) == 0) {
            continue; /* that of the rank before */
        }
        orr_cost cost = traffic_cost(program, table, r);
        orr_exchange all = {cost.time_s, cost.time_s * cost.relerr_frac, cost.provenance};
        orr_muon_step products = {0};
        if (plan->numeric.optimizer == ORR_MUON) {
            products = muon_of(program, table, r);
            all.time_s += products.time_s;
            all.error_s += products.error_s;
            all.provenance = less_sure(all.provenance, products.provenance);
        }
        if (all.time_s > longest.time_s) {
            longest = all;
            *muon = products;
        }
    }
    return longest;
}
