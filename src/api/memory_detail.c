/* What the bytes of single ranks are: ledgers, timelines with their trace, replays. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/num.h"
#include "doc/doc.h"

enum { ALL_RANKS = -2, NO_RANK = -1, MAX_POINTS = 1 << 18 };

/* The rank that is asked for: a number, ALL_RANKS, or NO_RANK when none is. */
static orr_status asked_rank(const orr_job *job, uint32_t pp, uint32_t worst, int64_t *out,
                             orr_err *err) {
    const orr_tree *asked = orr_tree_get(job->args, "rank");
    const char *text = orr_tree_text(asked, NULL);
    *out = asked == NULL ? NO_RANK : orr_tree_int(asked, -3);
    if (text != NULL && strcmp(text, "worst") == 0) {
        *out = worst;
    } else if (text != NULL && strcmp(text, "all") == 0) {
        *out = ALL_RANKS;
    } else if (text != NULL && !orr_parse_int(text, out)) {
        *out = -3;
    }
    bool named = *out == ALL_RANKS || (*out == NO_RANK && asked == NULL);
    if (!named && (*out < 0 || *out >= pp)) {
        return orr_fail(err, ORR_E_SCHEMA,
                        "rank must be 'worst', 'all' or a pipeline rank from 0 to %u", pp - 1);
    }
    return ORR_OK;
}

/* How long bytes of a kind live. */
static const char *life_of(const orr_ledger_row *row) {
    switch ((orr_memory_part)row->part) {
    case ORR_PART_PARAMS:
    case ORR_PART_GRADS:
    case ORR_PART_BUFFERS:
    case ORR_PART_MASTER: return "always";
    case ORR_PART_MOMENTS: return "from the first optimizer step";
    case ORR_PART_PERSISTENT: return "from first use";
    case ORR_PART_ACTIVATIONS: return "from the forward of its micro-batch to its backward";
    case ORR_PART_TRANSIENT: return "within one layer";
    case ORR_PART_LOGITS: return "from the loss to the backward of the head";
    case ORR_PART_COUNT: break;
    }
    return "";
}

static orr_tree *ledger_tree(orr_arena *arena, const orr_ledger *ledger) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "rank", ledger->rank);
    orr_tree_put_text(arena, map, "moment", orr_moment_name((orr_moment)ledger->moment));
    orr_tree_put_real(arena, map, "total_bytes", ledger->total_bytes);
    orr_tree *rows = orr_tree_put(arena, map, "rows", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < ledger->row_count; i++) {
        const orr_ledger_row *row = &ledger->row[i];
        orr_tree *one = orr_tree_push(arena, rows, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "what", row->what);
        orr_tree_put_text(arena, one, "part", orr_memory_part_name((orr_memory_part)row->part));
        if (row->chunk != UINT32_MAX) {
            orr_tree_put_int(arena, one, "chunk", row->chunk);
        }
        orr_tree_put_real(arena, one, "bytes", (double)row->bytes);
        orr_tree_put_real(arena, one, "count", row->count);
        orr_tree_put_real(arena, one, "total_bytes", (double)row->bytes * row->count);
        orr_tree_put_text(arena, one, "lives", life_of(row));
    }
    return map;
}

static orr_status put_ledgers(orr_job *job, const orr_resolved *resolved, int64_t rank,
                              orr_err *err) {
    if (rank == NO_RANK) {
        return ORR_OK;
    }
    orr_ledger ledger;
    if (rank != ALL_RANKS) {
        ORR_TRY(orr_project_ledger(job->ctx->engine, job->arena, resolved, (uint32_t)rank, &ledger,
                                   err));
        (void)orr_tree_put(job->arena, job->result, "ledger", ledger_tree(job->arena, &ledger));
        return ORR_OK;
    }
    orr_tree *all = orr_tree_put(job->arena, job->result, "ledgers", orr_tree_new_list(job->arena));
    for (uint32_t r = 0; r < resolved->plan.pipe.pp; r++) {
        ORR_TRY(orr_project_ledger(job->ctx->engine, job->arena, resolved, r, &ledger, err));
        (void)orr_tree_push(job->arena, all, ledger_tree(job->arena, &ledger));
    }
    return ORR_OK;
}

/* ---- timelines ------------------------------------------------------------------------------ */

static const char *op_name(uint8_t kind) {
    switch ((orr_sched_op_kind)kind) {
    case ORR_SOP_F: return "forward";
    case ORR_SOP_B: return "backward, inputs";
    case ORR_SOP_W: return "backward, weights";
    case ORR_SOP_BW: return "backward";
    case ORR_SOP_PAIR: return "forward and backward";
    }
    return "?";
}

static orr_tree *event(orr_job *job, const char *phase, const char *name, uint32_t rank,
                       double at_us) {
    orr_tree *map = orr_tree_push(job->arena, job->trace, orr_tree_new_map(job->arena));
    orr_tree_put_text(job->arena, map, "ph", phase);
    orr_tree_put_text(job->arena, map, "name", name);
    orr_tree_put_int(job->arena, map, "pid", rank);
    orr_tree_put_int(job->arena, map, "tid", 0);
    orr_tree_put_real(job->arena, map, "ts", at_us);
    return map;
}

static void count_bytes(orr_job *job, uint32_t rank, double at_us, double fixed_bytes,
                        double bytes) {
    orr_tree *args = orr_tree_put(job->arena, event(job, "C", "allocated", rank, at_us), "args",
                                  orr_tree_new_map(job->arena));
    orr_tree_put_real(job->arena, args, "static", fixed_bytes);
    orr_tree_put_real(job->arena, args, "dynamic", bytes - fixed_bytes);
}

/* One op a millisecond: the order is known here, times are the projection's. */
static const double OP_US = 1000;

static void trace_rank(orr_job *job, const orr_memory_timeline *line) {
    orr_tree *name = event(job, "M", "process_name", line->rank, 0);
    orr_tree *args = orr_tree_put(job->arena, name, "args", orr_tree_new_map(job->arena));
    orr_tree_put_text(job->arena, args, "name",
                      orr_arena_format(job->arena, "pipeline rank %u", line->rank));
    double at_us = 0;
    count_bytes(job, line->rank, at_us, line->static_bytes, line->static_bytes);
    for (uint32_t i = 0; i < line->count; i++, at_us += OP_US) {
        const orr_memory_point *point = &line->point[i];
        const char *what = orr_arena_format(job->arena, "%s, chunk %u, micro-batch %u",
                                            op_name(point->op), point->chunk, point->micro_batch);
        orr_tree_put_real(job->arena, event(job, "X", what, line->rank, at_us), "dur", OP_US);
        count_bytes(job, line->rank, at_us + OP_US / 2, line->static_bytes, point->peak_bytes);
        count_bytes(job, line->rank, at_us + OP_US, line->static_bytes, point->held_bytes);
    }
    orr_tree_put_real(job->arena, event(job, "X", "optimizer step", line->rank, at_us), "dur",
                      OP_US);
    count_bytes(job, line->rank, at_us + OP_US / 2, line->static_bytes, line->step_bytes);
}

static void put_timeline(orr_job *job, orr_tree *list, const orr_memory_timeline *line) {
    orr_arena *arena = job->arena;
    orr_tree *map = orr_tree_push(arena, list, orr_tree_new_map(arena));
    orr_tree_put_int(arena, map, "rank", line->rank);
    orr_tree_put_real(arena, map, "static_bytes", line->static_bytes);
    orr_tree_put_real(arena, map, "step_bytes", line->step_bytes);
    orr_tree *points = orr_tree_put(arena, map, "points", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < line->count; i++) {
        const orr_memory_point *point = &line->point[i];
        orr_tree *one = orr_tree_push(arena, points, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "op", op_name(point->op));
        orr_tree_put_int(arena, one, "chunk", point->chunk);
        orr_tree_put_int(arena, one, "micro_batch", point->micro_batch);
        orr_tree_put_real(arena, one, "peak_bytes", point->peak_bytes);
        orr_tree_put_real(arena, one, "held_bytes", point->held_bytes);
    }
}

static orr_status put_timelines(orr_job *job, const orr_resolved *resolved, int64_t rank,
                                orr_err *err) {
    uint32_t pp = resolved->plan.pipe.pp;
    uint32_t first = rank >= 0 ? (uint32_t)rank : 0, last = rank >= 0 ? (uint32_t)rank : pp - 1;
    double points =
        3.0 * (last - first + 1) * resolved->plan.batch.micro_batches * resolved->plan.pipe.vpp;
    if (points > MAX_POINTS) {
        return orr_fail(err, ORR_E_SCHEMA, "a timeline of %.0f ops is too long; choose one rank",
                        points);
    }
    orr_tree *list =
        orr_tree_put(job->arena, job->result, "timeline", orr_tree_new_list(job->arena));
    job->trace = orr_tree_new_list(job->arena);
    for (uint32_t r = first; r <= last; r++) {
        orr_memory_timeline line;
        ORR_TRY(orr_project_memory_trace(job->ctx->engine, job->arena, resolved, r, &line, err));
        put_timeline(job, list, &line);
        trace_rank(job, &line);
    }
    return ORR_OK;
}

/* ---- replays -------------------------------------------------------------------------------- */

static orr_status put_replay(orr_job *job, const orr_resolved *resolved, uint32_t rank,
                             orr_err *err) {
    orr_arena *arena = job->arena;
    orr_replay plain, expandable;
    ORR_TRY(orr_project_replay(job->ctx->engine, arena, resolved, rank, false, &plain, err));
    ORR_TRY(orr_project_replay(job->ctx->engine, arena, resolved, rank, true, &expandable, err));
    orr_tree *map = orr_tree_put(arena, job->result, "replay", orr_tree_new_map(arena));
    orr_tree_put_int(arena, map, "rank", rank);
    orr_tree_put_real(arena, map, "allocated_bytes", plain.allocated_bytes);
    orr_tree_put_real(arena, map, "reserved_bytes", plain.reserved_bytes);
    orr_tree_put_real(arena, map, "expandable_reserved_bytes", expandable.reserved_bytes);
    orr_tree_put_real(arena, map, "first_step_bytes", plain.first_step_bytes);
    orr_tree_put_real(arena, map, "checkpoint_save_bytes", plain.save_bytes);
    orr_tree_put_int(arena, map, "segments", plain.segments);
    orr_tree_put_int(arena, map, "flushes", plain.flushes);
    orr_tree_put_bool(arena, map, "fits", plain.fits);
    orr_tree_put_bool(arena, map, "complete", plain.complete);
    return ORR_OK;
}

/* A switch of the call; a command line gives it as text. */
static bool is_on(const orr_job *job, const char *key) {
    const orr_tree *value = orr_tree_get(job->args, key);
    const char *text = orr_tree_text(value, "");
    return orr_tree_bool(value, false) || strcmp(text, "true") == 0 || strcmp(text, "on") == 0 ||
           strcmp(text, "yes") == 0;
}

orr_status orr_job_put_memory_detail(orr_job *job, const orr_resolved *resolved, uint32_t worst,
                                     orr_err *err) {
    int64_t rank = NO_RANK;
    ORR_TRY(asked_rank(job, resolved->plan.pipe.pp, worst, &rank, err));
    ORR_TRY(put_ledgers(job, resolved, rank, err));
    if (is_on(job, "timeline")) {
        ORR_TRY(put_timelines(job, resolved, rank, err));
    }
    if (is_on(job, "min_gpus")) {
        orr_job_put_gpus(
            job, resolved,
            orr_tree_put(job->arena, job->result, "min_gpus", orr_tree_new_map(job->arena)));
    }
    if (is_on(job, "replay")) {
        ORR_TRY(put_replay(job, resolved, rank >= 0 ? (uint32_t)rank : worst, err));
    }
    return ORR_OK;
}
