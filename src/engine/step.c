/* A whole step of the plan on its own ranks: the schedule's order of each pipeline rank, the ops of
 * each chunk, transfers between stages, the end of the step. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/os_run.h"
#include "engine/engine_int.h"

enum { MAX_JOBS = 1024 };

typedef struct known_job {
    orr_backend_op op;
    void *job;
} known_job;

typedef struct stepper {
    orr_measurer *m;
    const orr_program *program;
    orr_order_view order;
    uint32_t stage, stride;
    uint64_t hop_bytes;
    uint32_t job_count;
    known_job job[MAX_JOBS];
} stepper;

/* Equal ops share their buffers, as they did when they were measured. */
static int run_op(stepper *s, const orr_backend_op *op) {
    orr_measurer *m = s->m;
    uint32_t i = 0;
    while (i < s->job_count && memcmp(&s->job[i].op, op, sizeof *op) != 0) {
        i++;
    }
    if (i == s->job_count) {
        if (i == MAX_JOBS) {
            (void)snprintf(m->message.text, sizeof m->message.text, "more than %d distinct ops",
                           MAX_JOBS);
            return ORR_BACKEND_FAILED;
        }
        int status = m->backend->prepare(m->self, op, &s->job[i].job, &m->message);
        if (status != ORR_BACKEND_OK) {
            return status;
        }
        s->job[i].op = *op;
        s->job_count++;
    }
    double device_s = 0;
    return m->backend->run(m->self, s->job[i].job, &device_s, &m->message);
}

static int run_program_op(stepper *s, const orr_op *op) {
    orr_backend_op one = orr_backend_op_of(s->program->resolved->cluster, op);
    uint32_t times = op->kind == ORR_OP_COLLECTIVE ? orr_max_u32(1, op->shape.comm.count) : 1;
    int status = ORR_BACKEND_OK;
    for (uint32_t i = 0; i < times && status == ORR_BACKEND_OK; i++) {
        status = run_op(s, &one);
    }
    return status;
}

static int run_phase(stepper *s, const orr_object *object, orr_phase phase, uint32_t modules) {
    int status = ORR_BACKEND_OK;
    for (uint32_t i = 0; i < object->op_count && status == ORR_BACKEND_OK; i++) {
        const orr_op *op = &object->op[i];
        if (op->phase == phase && (modules == 0 || (op->modules & modules))) {
            status = run_program_op(s, op);
        }
    }
    return status;
}

/* Forward front to back, gradients back to front, recomputation ahead of them. */
static int run_chunk(stepper *s, uint32_t chunk_index, orr_phase phase) {
    const orr_chunk *chunk = orr_program_chunk(s->program, s->stage, chunk_index);
    int status = ORR_BACKEND_OK;
    for (uint32_t k = 0; k < chunk->part_count; k++) {
        const orr_part *part =
            &chunk->part[phase == ORR_PHASE_FORWARD ? k : chunk->part_count - 1 - k];
        for (uint32_t i = 0; i < part->count && status == ORR_BACKEND_OK; i++) {
            if (phase == ORR_PHASE_INPUT_GRAD) {
                uint32_t again = i < part->checkpointed ? ORR_MODULE_LAYER : s->program->modules;
                if (again != 0) {
                    status = run_phase(s, part->object, ORR_PHASE_FORWARD, again);
                }
            }
            if (status == ORR_BACKEND_OK) {
                status = run_phase(s, part->object, phase, 0);
            }
        }
    }
    return status;
}

/* The rank of the chunk next to this one in the chain, or -1 at its ends. */
static int neighbour(const stepper *s, uint32_t chunk, int by) {
    const orr_pipe *pipe = &s->program->resolved->plan.pipe;
    uint32_t here = s->stage * pipe->vpp + chunk;
    int wanted = (int)s->order.position[here] + by;
    for (uint32_t c = 0; c < pipe->pp * pipe->vpp; c++) {
        if ((int)s->order.position[c] == wanted && s->order.chain[c] == s->order.chain[here]) {
            return (int)(c / pipe->vpp);
        }
    }
    return -1;
}

static int hop(stepper *s, uint32_t chunk, int by, bool sends) {
    int other = neighbour(s, chunk, by);
    if (other < 0 || (uint32_t)other == s->stage) {
        return ORR_BACKEND_OK;
    }
    orr_backend_op op = {.kind = sends ? ORR_BACKEND_SEND : ORR_BACKEND_RECEIVE};
    op.dim[0] = s->hop_bytes;
    op.dim[1] = (uint32_t)other * s->stride + s->m->identity.rank % s->stride;
    return run_op(s, &op);
}

static int run_entry(stepper *s, const orr_sched_op *op) {
    int status = ORR_BACKEND_OK;
    switch ((orr_sched_op_kind)op->kind) {
    case ORR_SOP_F:
        status = hop(s, op->chunk, -1, false);
        status = status == ORR_BACKEND_OK ? run_chunk(s, op->chunk, ORR_PHASE_FORWARD) : status;
        return status == ORR_BACKEND_OK ? hop(s, op->chunk, 1, true) : status;
    case ORR_SOP_B:
    case ORR_SOP_BW:
        status = hop(s, op->chunk, 1, false);
        status = status == ORR_BACKEND_OK ? run_chunk(s, op->chunk, ORR_PHASE_INPUT_GRAD) : status;
        if (status == ORR_BACKEND_OK && op->kind == ORR_SOP_BW) {
            status = run_chunk(s, op->chunk, ORR_PHASE_WEIGHT_GRAD);
        }
        return status == ORR_BACKEND_OK ? hop(s, op->chunk, -1, true) : status;
    case ORR_SOP_W: return run_chunk(s, op->chunk, ORR_PHASE_WEIGHT_GRAD);
    case ORR_SOP_PAIR: break;
    }
    (void)snprintf(s->m->message.text, sizeof s->m->message.text,
                   "this schedule overlaps forward and backward, which the executor does not");
    return ORR_BACKEND_UNSUPPORTED;
}

static int run_step(stepper *s) {
    int status = ORR_BACKEND_OK;
    uint32_t last = s->order.op_first[s->stage + 1];
    for (uint32_t i = s->order.op_first[s->stage]; i < last && status == ORR_BACKEND_OK; i++) {
        status = run_entry(s, &s->order.op[i]);
    }
    orr_op closing[8];
    uint32_t count = orr_closing_ops(s->program, s->stage, closing);
    for (uint32_t i = 0; i < count && status == ORR_BACKEND_OK; i++) {
        status = run_program_op(s, &closing[i]);
    }
    return status == ORR_BACKEND_OK ? s->m->backend->meet(s->m->self, &s->m->message) : status;
}

static int time_steps(stepper *s) {
    enum { WARM_UP = 2 };
    orr_measurer *m = s->m;
    int status = m->backend->meet(m->self, &m->message);
    for (int i = -WARM_UP; i < (int)m->request->repeats && status == ORR_BACKEND_OK; i++) {
        orr_note_begin(m, "a whole step");
        orr_note note = {.kind = ORR_NOTE_STEP};
        double start_s = orr_os_clock_s();
        status = run_step(s);
        note.value = orr_os_clock_s() - start_s;
        if (status == ORR_BACKEND_OK && i >= 0) {
            (void)orr_os_send(m->channel, &note, sizeof note);
        }
    }
    return status;
}

int orr_measure_step(orr_measurer *m) {
    const orr_resolved *resolved = m->request->scope.target;
    const orr_plan *plan = &resolved->plan;
    orr_program program;
    orr_err err = {0};
    if (plan->gpus != m->identity.ranks) {
        orr_note_gap(m, "a whole step",
                     orr_arena_format(m->arena, "the plan has %u ranks, there are %u", plan->gpus,
                                      m->identity.ranks));
        return ORR_BACKEND_OK;
    }
    stepper *s = ORR_NEW(m->arena, stepper);
    if (orr_link(m->linker, m->arena, resolved, NULL, &program, &err) != ORR_OK ||
        orr_order_ops(program.order, m->arena, &s->order, &err) != ORR_OK) {
        orr_note_gap(m, "a whole step", err.message);
        return ORR_BACKEND_OK;
    }
    s->m = m;
    s->program = &program;
    s->stride = orr_plan_stage_stride(plan);
    s->stage = m->identity.rank / s->stride % plan->pipe.pp;
    s->hop_bytes =
        2 * orr_plan_tokens(plan) * resolved->model->hidden / (plan->split.sp ? plan->split.tp : 1);
    int status = time_steps(s);
    for (uint32_t i = 0; i < s->job_count; i++) {
        m->backend->drop(m->self, s->job[i].job);
    }
    if (status != ORR_BACKEND_OK && !orr_backend_fatal(status)) {
        orr_note_gap(m, "a whole step", orr_backend_reason(status, &m->message));
        return ORR_BACKEND_OK;
    }
    return status;
}
