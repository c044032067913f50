/* The largest part of a target plan that runs on the devices at hand.
 *
 * Pipeline stages go first: they only chain. Then expert parallelism: experts of a rank stay, so
 * the reduced model has fewer. Then context parallelism, and tensor parallelism last, since both
 * change the shapes of kernels. Data-parallel replicas beyond what experts need are not kept. */
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "engine/engine.h"

static uint32_t largest_divisor(uint32_t value, uint32_t most) {
    uint32_t best = 1;
    for (uint32_t d = 1; d <= value && d <= most; d++) {
        best = value % d == 0 ? d : best;
    }
    return best;
}

/* Experts of a rank stay as many as they are, but every token still needs its top-k. */
static const orr_model *reduce_experts(orr_arena *arena, const orr_model *model, uint32_t ep,
                                       uint32_t reduced_ep) {
    orr_model *copy = ORR_NEW(arena, orr_model);
    orr_layer *kinds = ORR_NEW_ARRAY(arena, orr_layer, model->kind_count);
    memcpy(kinds, model->kind, model->kind_count * sizeof *kinds);
    for (uint32_t k = 0; k < model->kind_count; k++) {
        orr_mlp *mlp = &kinds[k].mlp;
        if (mlp->experts > 0) {
            uint32_t own = mlp->experts / ep * reduced_ep;
            uint32_t least = (uint32_t)orr_round_up_u64(mlp->topk, reduced_ep);
            mlp->experts = own < least ? least : own;
            mlp->groups = mlp->group_topk = 0;
        }
    }
    *copy = *model;
    copy->kind = kinds;
    return copy;
}

void orr_scope_of(orr_arena *arena, const orr_resolved *target, uint32_t gpus, orr_scope *out) {
    const orr_plan *plan = &target->plan;
    orr_resolved *reduced = ORR_NEW(arena, orr_resolved);
    *reduced = *target;
    orr_split *split = &reduced->plan.split;
    split->tp = largest_divisor(plan->split.tp, gpus);
    split->cp = largest_divisor(plan->split.cp, gpus / split->tp);
    split->sp = plan->split.sp && split->tp > 1;
    uint32_t dense = split->tp * split->cp, room = gpus / dense * dense;
    split->etp = largest_divisor(plan->split.etp, room);
    split->ep = largest_divisor(plan->split.ep, room / split->etp);
    while (split->ep > 1 && split->ep * split->etp > dense && split->ep * split->etp % dense != 0) {
        split->ep = largest_divisor(plan->split.ep, split->ep - 1);
    }
    uint32_t dp = orr_max_u32(1, (uint32_t)orr_div_up_u64((uint64_t)split->ep * split->etp, dense));
    reduced->plan.gpus = dense * dp;
    reduced->plan.shard.dp = dp;
    reduced->plan.shard.group = 0;
    reduced->plan.pipe =
        (orr_pipe){.pp = 1, .vpp = 1, .schedule = ORR_SCHEDULE_1F1B, .placement = ORR_PLACE_EVEN};
    reduced->plan.layout = NULL;
    reduced->plan.gbs = plan->batch.mbs * dp;
    reduced->plan.batch.micro_batches = 1;
    if (split->ep < plan->split.ep) {
        reduced->model = reduce_experts(arena, target->model, plan->split.ep, split->ep);
    }
    *out = (orr_scope){
        .target = target, .reduced = reduced, .gpus = reduced->plan.gpus, .at_hand = gpus};
}

/* ---- work ----------------------------------------------------------------------------------- */

static void add_work(orr_arena *arena, orr_work *work, const orr_op *op, bool outside) {
    for (uint32_t i = 0; i < work->count; i++) {
        const orr_op *known = &work->op[i];
        bool same = known->kind == op->kind && known->phase == op->phase &&
                    known->dtype == op->dtype && known->sub == op->sub &&
                    known->causal == op->causal && known->out_bytes == op->out_bytes &&
                    known->bytes == op->bytes &&
                    memcmp(&known->shape, &op->shape, sizeof op->shape) == 0;
        if (same) {
            work->outside[i] = work->outside[i] || outside;
            return;
        }
    }
    if (work->count == work->capacity) {
        work->capacity = work->capacity == 0 ? 64 : 2 * work->capacity;
        orr_op *bigger = ORR_NEW_ARRAY(arena, orr_op, work->capacity);
        bool *marks = ORR_NEW_ARRAY(arena, bool, work->capacity);
        if (work->count > 0) {
            memcpy(bigger, work->op, work->count * sizeof *bigger);
            memcpy(marks, work->outside, work->count * sizeof *marks);
        }
        work->op = bigger;
        work->outside = marks;
    }
    work->outside[work->count] = outside;
    work->op[work->count++] = *op;
}

static void add_program(orr_arena *arena, const orr_program *program, orr_work *work) {
    for (uint32_t k = 0; k < program->chunk_kind_count; k++) {
        const orr_chunk *chunk = &program->chunk_kind[k];
        for (uint32_t p = 0; p < chunk->part_count; p++) {
            const orr_object *object = chunk->part[p].object;
            for (uint32_t i = 0; i < object->op_count; i++) {
                add_work(arena, work, &object->op[i], object->key.what != ORR_OBJECT_LAYER);
            }
        }
    }
}

static void add_closing(orr_arena *arena, const orr_program *program, uint32_t ranks,
                        orr_work *work) {
    for (uint32_t r = 0; r < program->resolved->plan.pipe.pp; r++) {
        orr_op ops[8];
        uint32_t count = orr_closing_ops(program, r, ops);
        for (uint32_t i = 0; i < count; i++) {
            if (ops[i].kind != ORR_OP_COLLECTIVE || ops[i].shape.comm.size <= ranks) {
                add_work(arena, work, &ops[i], true);
            }
        }
    }
}

/* Collectives of the target itself that the ranks at hand can run at their own size. */
static void add_collectives(orr_arena *arena, const orr_program *program, uint32_t ranks,
                            orr_work *work) {
    for (uint32_t k = 0; k < program->chunk_kind_count; k++) {
        const orr_chunk *chunk = &program->chunk_kind[k];
        for (uint32_t p = 0; p < chunk->part_count; p++) {
            const orr_object *object = chunk->part[p].object;
            for (uint32_t i = 0; i < object->op_count; i++) {
                const orr_op *op = &object->op[i];
                if (op->kind == ORR_OP_COLLECTIVE && op->shape.comm.size <= ranks) {
                    add_work(arena, work, op, object->key.what != ORR_OBJECT_LAYER);
                }
            }
        }
    }
}

orr_status orr_scope_work(orr_linker *linker, orr_arena *arena, const orr_scope *scope,
                          orr_work *out, orr_err *err) {
    orr_program reduced, target;
    *out = (orr_work){0};
    ORR_TRY(orr_link(linker, arena, scope->reduced, NULL, &reduced, err));
    ORR_TRY(orr_link(linker, arena, scope->target, NULL, &target, err));
    add_program(arena, &reduced, out);
    add_collectives(arena, &target, scope->at_hand, out);
    add_closing(arena, &target, scope->at_hand, out);
    return ORR_OK;
}

/* ---- the end of a step ---------------------------------------------------------------------- */

static uint32_t push_collective(orr_op *ops, uint32_t count, orr_collective kind, double bytes,
                                uint32_t size, uint32_t stride) {
    if (size <= 1 || !(bytes > 0)) {
        return count;
    }
    orr_op *op = &ops[count];
    memset(op, 0, sizeof *op);
    op->kind = ORR_OP_COLLECTIVE;
    op->stream = ORR_STREAM_DP;
    op->class = ORR_CLASS_DP;
    op->sub = (uint8_t)kind;
    op->dep[0] = op->dep[1] = -1;
    op->shape.comm.rank_bytes = (uint64_t)(bytes + 0.5);
    op->shape.comm.size = size;
    op->shape.comm.stride = stride;
    op->shape.comm.count = 1;
    return count + 1;
}

uint32_t orr_closing_ops(const orr_program *program, uint32_t rank, orr_op ops[8]) {
    const orr_resolved *resolved = program->resolved;
    const orr_plan *plan = &resolved->plan;
    const orr_software *software = resolved->software;
    double dense = 0, expert = 0;
    for (uint32_t c = 0; c < plan->pipe.vpp; c++) {
        dense += (double)orr_program_chunk(program, rank, c)->params.dense;
        expert += (double)orr_program_chunk(program, rank, c)->params.expert;
    }
    bool sharded = plan->shard.kind != ORR_SHARD_NONE;
    bool per_layer = plan->shard.kind >= ORR_SHARD_ZERO3; /* inside the layers */
    uint32_t replicas = plan->shard.dp * plan->split.cp;
    uint32_t shards = sharded ? orr_plan_dense_shards(plan) : replicas;
    uint32_t expert_shards = orr_plan_expert_shards(plan);
    uint32_t stride = plan->split.tp, expert_stride = plan->split.etp * plan->split.ep;
    double wire = software->grad_wire_bytes > 0 ? software->grad_wire_bytes
                                                : (double)plan->numeric.grad_bytes;
    double held = plan->numeric.param_bytes == 1 ? 1 : 2;
    orr_collective reduce = sharded ? ORR_REDUCE_SCATTER : ORR_ALL_REDUCE;
    uint32_t count = 0;
    if (!per_layer) {
        count = push_collective(ops, count, reduce, wire * dense, shards, stride);
        count = push_collective(ops, count, reduce, wire * expert, expert_shards, expert_stride);
    }
    double local = dense + expert, own = local;
    if (sharded) {
        own = dense / shards + expert / orr_max_u32(1, expert_shards);
    }
    orr_op *optimizer = &ops[count++];
    memset(optimizer, 0, sizeof *optimizer);
    optimizer->kind = ORR_OP_MEMORY;
    optimizer->sub = ORR_MEMOP_BULK;
    optimizer->dep[0] = optimizer->dep[1] = -1;
    optimizer->shape.memory.kernels = 2;
    optimizer->bytes = orr_plan_optimizer_bytes(plan, software, own, local);
    if (sharded && !per_layer) {
        count = push_collective(ops, count, ORR_ALL_GATHER, held * dense, shards, stride);
        count = push_collective(ops, count, ORR_ALL_GATHER, held * expert, expert_shards,
                                expert_stride);
    }
    return count;
}

/* ---- what it means -------------------------------------------------------------------------- */

static void add_restored(orr_arena *arena, orr_tree *list, bool wanted, const char *what,
                         const char *how) {
    if (wanted) {
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "what", what);
        orr_tree_put_text(arena, one, "how", how);
    }
}

static orr_tree *write_split(orr_arena *arena, const orr_plan *plan) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "tp", plan->split.tp);
    orr_tree_put_int(arena, map, "cp", plan->split.cp);
    orr_tree_put_int(arena, map, "ep", plan->split.ep);
    orr_tree_put_int(arena, map, "etp", plan->split.etp);
    orr_tree_put_int(arena, map, "pp", plan->pipe.pp);
    orr_tree_put_int(arena, map, "dp", plan->shard.dp);
    orr_tree_put_bool(arena, map, "sp", plan->split.sp && plan->split.tp > 1);
    orr_tree_put_int(arena, map, "mbs", plan->batch.mbs);
    orr_tree_put_int(arena, map, "seq", plan->batch.seq);
    return map;
}

static uint32_t layers_of_kind(const orr_model *model, uint32_t kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->layers; i++) {
        count += model->layer_kind[i] == kind;
    }
    return count;
}

static void write_layers(orr_arena *arena, const orr_scope *scope, orr_tree *map) {
    const orr_model *model = scope->reduced->model;
    orr_tree *layers = orr_tree_put(arena, map, "layers", orr_tree_new_list(arena));
    for (uint32_t k = 0; k < model->kind_count; k++) {
        const orr_layer *layer = &model->kind[k];
        orr_tree *one = orr_tree_push(arena, layers, orr_tree_new_map(arena));
        const struct {
            const char *name;
            uint64_t value;
        } sizes[] = {{"stands_for", layers_of_kind(model, k)},
                     {"hidden", layer->hidden},
                     {"heads", layer->attention.heads},
                     {"kv_heads", layer->attention.kv_heads},
                     {"head_dim", layer->attention.head_dim},
                     {"v_dim", layer->attention.v_dim},
                     {"window", layer->attention.window},
                     {"ffn", layer->mlp.experts > 0 ? 0 : layer->mlp.ffn},
                     {"gated", layer->mlp.gated},
                     {"experts", layer->mlp.experts},
                     {"topk", layer->mlp.experts > 0 ? layer->mlp.topk : 0},
                     {"expert_ffn", layer->mlp.experts > 0 ? layer->mlp.expert_ffn : 0},
                     {"shared_ffn", layer->mlp.experts > 0 ? layer->mlp.shared_ffn : 0}};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            if (sizes[i].value > 0) {
                orr_tree_put_int(arena, one, sizes[i].name, (int64_t)sizes[i].value);
            }
        }
    }
}

orr_tree *orr_scope_write(orr_arena *arena, const orr_scope *scope) {
    const orr_plan *target = &scope->target->plan, *reduced = &scope->reduced->plan;
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "gpus", scope->gpus);
    orr_tree_put_int(arena, map, "at_hand", scope->at_hand);
    (void)orr_tree_put(arena, map, "target", write_split(arena, target));
    (void)orr_tree_put(arena, map, "reduced", write_split(arena, reduced));
    write_layers(arena, scope, map);
    orr_tree_put_int(arena, map, "hidden", scope->reduced->model->hidden);
    orr_tree_put_int(arena, map, "vocab", scope->reduced->model->vocab);
    orr_tree *list = orr_tree_put(arena, map, "restored", orr_tree_new_list(arena));
    add_restored(arena, list, scope->reduced->model->layers > scope->reduced->model->kind_count,
                 "layers", "one of each kind is measured, the others are counted");
    add_restored(arena, list, target->pipe.pp > 1, "pipeline",
                 "the schedule is played with measured stage times; hops are modelled");
    add_restored(arena, list, target->split.ep > reduced->split.ep, "expert parallelism",
                 "experts of a rank are kept; the exchange is modelled at the target's size");
    add_restored(arena, list, target->split.cp > reduced->split.cp, "context parallelism",
                 "attention is scaled by its model; the exchange is modelled at the target's size");
    add_restored(arena, list, target->split.tp > reduced->split.tp, "tensor parallelism",
                 "narrower products are interpolated or modelled; collectives are modelled at the "
                 "target's size");
    add_restored(arena, list, target->shard.dp > reduced->shard.dp, "data parallelism",
                 (uint64_t)target->shard.dp * target->split.cp * target->split.tp <= scope->at_hand
                     ? "reduction and gathers are measured alone, and overlapped as the software "
                       "does"
                     : "reduction and gathers are modelled at the target's size, and overlapped "
                       "as the software does");
    add_restored(arena, list, target->recompute.kind != ORR_RECOMPUTE_NONE, "recomputation",
                 "measured forward ops are counted again");
    return map;
}
