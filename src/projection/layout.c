/* A layer split that balances the times of the stages.
 *
 * Times and bytes of a layer come from the objects of the plan as it is linked with another split:
 * they do not depend on where the layer sits. The cut itself is exact (orr_split_balance). */
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "projection/projection_int.h"

enum { LAYOUT_TEXT = 16384 };

typedef struct layer_cost {
    int64_t time_ps;
    uint64_t static_bytes, live_bytes;
} layer_cost;

typedef struct weigher {
    orr_engine *engine;
    const orr_cost_table *table;
    const orr_program *program;
    orr_timeline_mode mode;
    bool checkpointed;
    double bytes_per_param; /* parameters, gradients and states of the rank that holds most */
} weigher;

static layer_cost weigh(weigher *w, const orr_part *part, uint32_t count) {
    const orr_resolved *resolved = w->program->resolved;
    const orr_object *object = part->object;
    const orr_part_time *time =
        orr_engine_times(w->engine, w->table, resolved->software, object, &w->mode);
    orr_chunk alone = {.params = object->params};
    orr_chunk_time extra = {0};
    orr_add_accumulation(resolved, w->table, &alone, &extra);
    double seconds = extra.accumulate_s;
    for (int p = 0; p < ORR_PHASE_COUNT; p++) {
        seconds += time->phase[p].total_s;
    }
    uint64_t params = object->params.dense + object->params.expert;
    return (layer_cost){
        .time_ps = count * orr_ps(seconds),
        .static_bytes = (uint64_t)((double)count * (double)params * w->bytes_per_param),
        .live_bytes = count * (w->checkpointed ? object->saved_input
                                               : orr_object_saved(object, w->program->modules))};
}

/* What a layer of each kind costs, and what the ends of the model do. */
static void weigh_parts(weigher *w, layer_cost *kind, layer_cost *first, layer_cost *last) {
    for (uint32_t k = 0; k < w->program->chunk_kind_count; k++) {
        const orr_chunk *chunk = &w->program->chunk_kind[k];
        for (uint32_t i = 0; i < chunk->part_count; i++) {
            const orr_part *part = &chunk->part[i];
            if (part->role == ORR_PART_LAYER) {
                kind[part->layer_kind] = weigh(w, part, 1);
                continue;
            }
            layer_cost *end = i == 0 && chunk->has_embedding ? first : last;
            layer_cost more = weigh(w, part, part->count);
            end->time_ps += more.time_ps;
            end->static_bytes += more.static_bytes;
        }
    }
}

static double static_per_param(const orr_program *program, orr_arena *scratch) {
    static const orr_memory_part dynamic[] = {ORR_PART_ACTIVATIONS, ORR_PART_TRANSIENT,
                                              ORR_PART_LOGITS};
    const orr_pipe *pipe = &program->resolved->plan.pipe;
    orr_memory memory;
    orr_memory_evaluate(program, scratch, false, &memory);
    double bytes = memory.worst.allocated_bytes, params = 0;
    for (size_t i = 0; i < sizeof dynamic / sizeof *dynamic; i++) {
        bytes -= memory.worst.part_bytes[dynamic[i]];
    }
    for (uint32_t c = 0; c < pipe->vpp; c++) {
        const orr_chunk *chunk =
            &program->chunk_kind[program->chunk[memory.worst_rank * pipe->vpp + c]];
        params += (double)(chunk->params.dense + chunk->params.expert);
    }
    return params > 0 ? bytes / params : 0;
}

/* Most micro-batches of each stage held at once; stages go around the ranks. */
static uint32_t *held_by_stage(orr_arena *scratch, const orr_program *program, uint32_t stages) {
    const orr_plan *plan = &program->resolved->plan;
    orr_order_view view = orr_order_look(program->order);
    uint32_t pp = plan->pipe.pp, vpp = plan->pipe.vpp;
    uint32_t *held = ORR_NEW_ARRAY(scratch, uint32_t, stages);
    for (uint32_t r = 0; r < pp; r++) {
        for (uint32_t i = view.live_first[r]; i < view.live_first[r + 1]; i++) {
            for (uint32_t c = 0; c < vpp; c++) {
                uint32_t stage = orr_plan_stage(plan, r, c, NULL);
                uint32_t at = stage % pp * (stages / pp) + stage / pp;
                held[at] = orr_max_u32(held[at], view.live[i].count[c]);
            }
        }
    }
    return held;
}

static const char *write_layout(orr_arena *arena, const uint32_t *count, uint32_t pp,
                                uint32_t stages, uint32_t mtp) {
    orr_text text = orr_text_new(arena, LAYOUT_TEXT);
    for (uint32_t k = 0; k < stages; k++) {
        uint32_t layers = count[k % pp * (stages / pp) + k / pp];
        orr_text_add(&text, k == 0 ? "E" : "|");
        if (layers > 0) {
            orr_text_format(&text, layers > 1 ? "t*%u" : "t", layers);
        }
    }
    if (mtp > 0) {
        orr_text_format(&text, "m*%u", mtp);
    }
    orr_text_add(&text, "L");
    return orr_text_done(&text);
}

static void sum_up(const orr_balance *b, const uint32_t *count, const uint32_t *offset,
                   orr_balanced *out) {
    uint32_t stages = b->pp * b->vpp;
    for (uint32_t i = 0; i < stages; i++) {
        uint64_t fixed = i == 0 ? b->first_bytes : i + 1 == stages ? b->last_bytes : 0, saved = 0;
        for (uint32_t l = offset[i]; l < offset[i] + count[i]; l++) {
            fixed += b->static_bytes[l];
            saved += b->live_bytes[l];
        }
        out->most_bytes = orr_max_u64(out->most_bytes, b->vpp * (fixed + saved * b->in_flight[i]));
    }
}

orr_status orr_project_layout(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              uint64_t cap_bytes, orr_balanced *out, orr_err *err) {
    const orr_model *model = resolved->model;
    const orr_plan *plan = &resolved->plan;
    uint32_t stages = orr_plan_stages(plan), pp = plan->pipe.pp;
    orr_program program;
    weigher w = {.engine = engine, .program = &program};
    ORR_TRY(orr_engine_table(engine, resolved->cluster, resolved->software, &w.table, err));
    ORR_TRY(orr_link(engine->linker, arena, resolved, NULL, &program, err));
    w.checkpointed =
        plan->recompute.kind == ORR_RECOMPUTE_FULL || plan->recompute.kind == ORR_RECOMPUTE_UNIFORM;
    w.mode = orr_program_mode(&program, 1.0);
    w.mode.checkpointed = w.checkpointed;
    w.bytes_per_param = static_per_param(&program, arena);
    layer_cost kind[ORR_MAX_LAYER_KINDS] = {0}, first = {0}, last = {0};
    weigh_parts(&w, kind, &first, &last);

    int64_t *time = ORR_NEW_ARRAY(arena, int64_t, model->layers);
    uint64_t *fixed = ORR_NEW_ARRAY(arena, uint64_t, model->layers);
    uint64_t *live = ORR_NEW_ARRAY(arena, uint64_t, model->layers);
    for (uint32_t l = 0; l < model->layers; l++) {
        const layer_cost *cost = &kind[model->layer_kind[l]];
        time[l] = cost->time_ps;
        fixed[l] = cost->static_bytes;
        live[l] = cost->live_bytes;
    }
    orr_balance balance = {.layers = model->layers,
                           .pp = pp,
                           .vpp = stages / pp,
                           .least = model->layers >= stages,
                           .time_ps = time,
                           .first_ps = first.time_ps,
                           .last_ps = last.time_ps,
                           .static_bytes = fixed,
                           .live_bytes = live,
                           .first_bytes = first.static_bytes,
                           .last_bytes = last.static_bytes,
                           .in_flight = held_by_stage(arena, &program, stages),
                           .cap_bytes = cap_bytes};
    uint32_t *count = ORR_NEW_ARRAY(arena, uint32_t, stages);
    uint32_t *offset = ORR_NEW_ARRAY(arena, uint32_t, stages);
    int64_t longest_ps = 0;
    ORR_TRY(orr_split_balance(&balance, count, offset, &longest_ps, err));
    *out = (orr_balanced){.layout = write_layout(arena, count, pp, stages, model->mtp_layers),
                          .longest_s = (double)longest_ps * ORR_PS};
    sum_up(&balance, count, offset, out);
    return ORR_OK;
}
