/* A run's log held against the projection of what it ran: result.against. Where it falls short,
 * other settings are projected to see which of them would explain it. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/num.h"

typedef struct held {
    orr_job *job;
    const char *file;
    const orr_observation *seen;
    const orr_tree *keys; /* of the plan that ran */
    const orr_resolved *plan;
    const orr_projection *projection;
    orr_tree *map;      /* the result */
    orr_tree *rows;     /* {what, unit, measured, projected, ratio} */
    orr_tree *findings; /* {code, message} */
} held;

static void add_row(held *h, const char *what, const char *unit, double measured,
                    double projected) {
    orr_tree *row = orr_tree_push(h->job->arena, h->rows, orr_tree_new_map(h->job->arena));
    orr_tree_put_text(h->job->arena, row, "what", what);
    orr_tree_put_text(h->job->arena, row, "unit", unit);
    orr_tree_put_real(h->job->arena, row, "measured", measured);
    orr_tree_put_real(h->job->arena, row, "projected", projected);
    if (projected > 0) {
        orr_tree_put_real(h->job->arena, row, "ratio", measured / projected);
    }
}

static void find(held *h, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void find(held *h, const char *code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *message = orr_arena_vformat(h->job->arena, format, args);
    va_end(args);
    orr_tree *one = orr_tree_push(h->job->arena, h->findings, orr_tree_new_map(h->job->arena));
    orr_tree_put_text(h->job->arena, one, "code", code);
    orr_tree_put_text(h->job->arena, one, "message", message);
}

/* ---- what would explain it ------------------------------------------------------------------- */

/* Settings that are often not what one thinks they are. */
static const struct {
    const char *key, *value, *what;
} suspects[] = {
    {"recompute", "full", "full recomputation"},
    {"recompute", "selective", "selective recomputation"},
    {"recompute", "none", "no recomputation"},
    {"overlap", "none", "no overlap of communication"},
    {"attention", "unfused", "attention without a fused kernel"},
    {"attention", "flash", "a fused attention kernel"},
    {"sp", "off", "no sequence parallelism"},
    {"precision", "bf16", "products in bf16"},
    {"vpp", "1", "no virtual pipeline stages"},
    {"grad_dtype", "fp32", "gradients in fp32"},
    {"grad_dtype", "bf16", "gradients in bf16"},
    {"sharding", "none", "an optimizer that is not sharded"},
    {"sharding", "zero1", "a sharded optimizer"},
    {"loss", "native", "an unfused loss"},
    {"imbalance", "2", "experts of one rank that get twice the mean"},
};
enum { SUSPECTS = sizeof suspects / sizeof *suspects };
static const double near_enough = 0.05, far_enough = 0.07;

typedef double (*figure_fn)(const orr_projection *projection);

static double rate_of(const orr_projection *projection) {
    return projection->tokens_per_s_per_gpu;
}

static double allocated_of(const orr_projection *projection) {
    return projection->memory.worst.allocated_bytes;
}

/* The setting whose projection comes nearest to what was measured, by clearly more than the plan
 * as it is; NULL: none comes near. */
static const char *explain_by(held *h, figure_fn figure, double measured) {
    double best = fabs(figure(h->projection) / measured - 1);
    const char *found = NULL;
    if (best < far_enough) {
        return NULL;
    }
    best = near_enough;
    for (size_t i = 0; i < SUSPECTS; i++) {
        orr_arena *arena = h->job->arena;
        orr_tree *over = orr_tree_new_map(arena);
        orr_resolved *other = ORR_NEW(arena, orr_resolved);
        orr_projection projection;
        orr_tree_put_text(arena, over, suspects[i].key, suspects[i].value);
        const orr_tree *keys = orr_plan_merge(arena, h->keys, over);
        if (orr_plan_resolve(arena, keys, other, NULL) != ORR_OK || !orr_plan_legal(other) ||
            orr_project(h->job->ctx->engine, arena, other, NULL, &projection, NULL) != ORR_OK) {
            continue;
        }
        double off = fabs(figure(&projection) / measured - 1);
        if (off < best) {
            best = off;
            found = suspects[i].what;
        }
    }
    return found;
}

/* ---- time ------------------------------------------------------------------------------------ */

static double timer(const orr_tree *parts, const char *name) {
    for (size_t i = 0; i < orr_tree_size(parts); i++) {
        const orr_tree *one = orr_tree_at(parts, i);
        if (strcmp(orr_tree_text(orr_tree_get(one, "name"), ""), name) == 0) {
            return orr_tree_real(orr_tree_get(one, "max_s"), 0);
        }
    }
    return 0;
}

/* Timers of Megatron-LM beside the slices that they hold. */
static void compare_parts(held *h, double measured_step_s) {
    const orr_tree *parts = orr_tree_get(h->seen->tree, "parts");
    const double *slice = h->projection->slice_s;
    double tail_s = slice[ORR_SLICE_DP] + slice[ORR_SLICE_OPTIMIZER] + slice[ORR_SLICE_JITTER] +
                    h->plan->software->step_s;
    double inner_s = h->projection->step_s - tail_s;
    struct {
        const char *what;
        double measured_s, projected_s;
    } rows[] = {
        {"forward and backward", timer(parts, "forward-backward"), inner_s},
        {"gradient reduction, parameter gather",
         timer(parts, "all-grads-sync") + timer(parts, "params-all-gather"), slice[ORR_SLICE_DP]},
        {"optimizer", timer(parts, "optimizer"), slice[ORR_SLICE_OPTIMIZER]},
        {"batch", timer(parts, "batch-generator"), 0},
    };
    double known_s = 0, worst_s = 0;
    const char *worst = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double over_s = rows[i].measured_s - rows[i].projected_s;
        if (rows[i].measured_s > 0) {
            add_row(h, rows[i].what, "s", rows[i].measured_s, rows[i].projected_s);
            known_s += i < 3 ? rows[i].measured_s : 0;
        }
        if (rows[i].measured_s > 0 && over_s > worst_s) {
            worst_s = over_s;
            worst = rows[i].what;
        }
    }
    double rest_s = measured_step_s - known_s;
    if (known_s > 0 && rest_s > 0) {
        double projected_s = slice[ORR_SLICE_JITTER] + h->plan->software->step_s;
        add_row(h, "between steps", "s", rest_s, projected_s);
        if (rest_s - projected_s > worst_s) {
            worst_s = rest_s - projected_s;
            worst = "between steps";
        }
    }
    if (worst != NULL && worst_s > 0.03 * measured_step_s) {
        find(h, "log-part", "most is lost in: %s, %.3g s a step more than projected", worst,
             worst_s);
    }
}

static void compare_time(held *h) {
    const orr_run_log *log = &h->seen->log;
    double measured = orr_log_rate(log, h->plan);
    const orr_projection *p = h->projection;
    if (!(measured > 0)) {
        return;
    }
    double step_s = (double)h->plan->plan.gbs * h->plan->plan.batch.seq / h->plan->plan.gpus;
    add_row(h, "tokens/s/GPU", "tokens/s", measured, p->tokens_per_s_per_gpu);
    add_row(h, "step", "s", step_s / measured, p->step_s);
    bool inside = measured >= p->low && measured <= p->high;
    orr_tree_put_bool(h->job->arena, h->map, "inside_interval", inside);
    compare_parts(h, step_s / measured);
    double off = measured / p->tokens_per_s_per_gpu - 1;
    const char *cause = explain_by(h, rate_of, measured);
    if (!inside) {
        find(h, off < 0 ? "log-slow" : "log-fast",
             "the run is %.1f %% %s than projected, outside the 90 %% interval", fabs(100 * off),
             off < 0 ? "slower" : "faster");
    }
    if (cause != NULL) {
        find(h, "log-cause", "%s would explain its speed: is that what ran?", cause);
    }
    if (log->stall_frac > 0.01) {
        find(h, "log-stalls",
             "%u of %u steps after warm-up stalled, %.1f %% of the time: checkpoints, data, or a "
             "slow node",
             log->stalls, log->seen - log->warmup, 100 * log->stall_frac);
    }
    if (log->spread_frac > 0.03) {
        find(h, "log-spread",
             "steps differ by %.1f %% (one standard deviation): look for a slow "
             "node, data, or collection of garbage",
             100 * log->spread_frac);
    }
}

/* ---- traces ---------------------------------------------------------------------------------- */

static double traced(const held *h, const char *path) {
    return orr_tree_real(orr_tree_path(h->seen->tree, path), 0);
}

/* Classes of kernels beside the slices that they are. A trace does not tell work done again from
 * the first time, so recomputation goes with the products. */
static void compare_trace(held *h) {
    const orr_projection *p = h->projection;
    const double *slice = p->slice_s;
    double step_s = traced(h, "step_time_s");
    double talk_s = slice[ORR_SLICE_TP] + slice[ORR_SLICE_CP] + slice[ORR_SLICE_EP] +
                    slice[ORR_SLICE_DP] + slice[ORR_SLICE_PP];
    struct {
        const char *what;
        double measured_s, projected_s;
    } rows[] = {
        {"matrix products, recomputation", traced(h, "classes.gemm_s"),
         slice[ORR_SLICE_GEMM] + slice[ORR_SLICE_RECOMPUTE]},
        {"attention", traced(h, "classes.attention_s"), slice[ORR_SLICE_ATTENTION]},
        {"memory-bound ops, copies",
         traced(h, "classes.elementwise_s") + traced(h, "classes.copy_s") +
             traced(h, "classes.loss_s"),
         slice[ORR_SLICE_ELEMENTWISE] + slice[ORR_SLICE_LOSS]},
        {"optimizer", traced(h, "classes.optimizer_s"), slice[ORR_SLICE_OPTIMIZER]},
        {"exposed communication", traced(h, "exposed_communication_s"), talk_s},
        {"idle: bubble, host, stragglers", traced(h, "idle_s"),
         slice[ORR_SLICE_BUBBLE] + slice[ORR_SLICE_HOST] + slice[ORR_SLICE_JITTER]},
    };
    double worst_s = 0;
    const char *worst = NULL;
    add_row(h, "step", "s", step_s, p->step_s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double over_s = rows[i].measured_s - rows[i].projected_s;
        add_row(h, rows[i].what, "s", rows[i].measured_s, rows[i].projected_s);
        if (over_s > worst_s) {
            worst_s = over_s;
            worst = rows[i].what;
        }
    }
    if (worst != NULL && worst_s > 0.03 * step_s) {
        find(h, "trace-part", "most is lost in: %s, %.3g s a step more than projected", worst,
             worst_s);
    }
    if (step_s > 2 * p->step_s || step_s < 0.5 * p->step_s) {
        find(h, "trace-other",
             "a step of the trace takes %.2g times what is projected: is it of this plan?",
             step_s / p->step_s);
    }
    double idle = traced(h, "idle_s");
    if (idle > 0.3 * step_s) {
        find(
            h, "trace-idle",
            "the device is idle %.0f %% of the step: it waits for the host, for data, or for other "
            "ranks",
            100 * idle / step_s);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void compare_memory(held *h) {
    const orr_run_log *log = &h->seen->log;
    const orr_rank_memory *worst = &h->projection->memory.worst;
    double allocated = log->peak_allocated_bytes;
    double reserved = orr_max_f64(log->peak_reserved_bytes, log->reserved_bytes);
    if (allocated > 0) {
        add_row(h, "memory, allocated", "bytes", allocated, worst->allocated_bytes);
    }
    if (reserved > 0) {
        add_row(h, "memory, reserved", "bytes", reserved, worst->reserved_bytes);
    }
    if (log->device_bytes > 0) {
        add_row(h, "memory, device", "bytes", log->device_bytes, worst->device_bytes);
    }
    if (allocated > 0) {
        double off = allocated / worst->allocated_bytes - 1;
        const char *cause = explain_by(h, allocated_of, allocated);
        if (fabs(off) > far_enough) {
            find(h, "log-memory", "allocated memory is %+.1f %% off the projection%s%s%s",
                 100 * off, cause != NULL ? ": " : "", cause != NULL ? cause : "",
                 cause != NULL ? " would explain it" : "");
        }
        double usable = h->projection->memory.capacity_bytes;
        if (reserved > 0.97 * usable) {
            find(h, "log-pressure",
                 "%.0f %% of the memory is reserved: near the limit the allocator frees and asks "
                 "again, which slows steps",
                 100 * reserved / usable);
        }
    }
}

static void compare_oom(held *h) {
    const orr_run_log *log = &h->seen->log;
    const orr_rank_memory *worst = &h->projection->memory.worst;
    if (log->oom_count == 0) {
        return;
    }
    double wanted = log->oom_allocated_bytes + log->oom_tried_bytes;
    double cached = log->oom_reserved_bytes - log->oom_allocated_bytes;
    double outside = log->oom_process_bytes - log->oom_reserved_bytes;
    double others = log->oom_capacity_bytes - log->oom_free_bytes - log->oom_process_bytes;
    add_row(h, "out of memory: allocated and asked for", "bytes", wanted, worst->allocated_bytes);
    add_row(h, "out of memory: cached, not in use", "bytes", cached,
            worst->reserved_bytes - worst->allocated_bytes);
    if (log->oom_process_bytes > 0) {
        add_row(h, "out of memory: outside of PyTorch", "bytes", outside,
                worst->device_bytes - worst->reserved_bytes);
    }
    bool foreseen = h->projection->memory.fit > ORR_TIGHT;
    find(h, "oom", "the run ran out of memory; the projection %s (P(OOM) %.0f %%)",
         foreseen ? "foresees that" : "says that it fits", 100 * h->projection->memory.p_oom);
    if (cached > 0.08 * log->oom_capacity_bytes) {
        find(h, "oom-fragmented",
             "%.1f GiB are cached and could not be used: "
             "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
             cached / ORR_GIB);
    }
    if (log->oom_process_bytes > 0 && others > ORR_GIB) {
        find(h, "oom-others", "another process holds %.1f GiB of the device", others / ORR_GIB);
    }
    const char *cause = wanted > 0 ? explain_by(h, allocated_of, wanted) : NULL;
    if (cause != NULL) {
        find(h, "oom-cause", "%s would explain what was allocated: is that what ran?", cause);
    } else if (wanted > (1 + far_enough) * worst->allocated_bytes) {
        find(h, "oom-unexplained",
             "%.1f GiB more were wanted than projected, and no single setting explains it",
             (wanted - worst->allocated_bytes) / ORR_GIB);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Keys in which the log's run is not the plan of the call. */
static void compare_plans(held *h, const orr_resolved *asked) {
    static const char *const keys[] = {"gpus",      "tp",       "pp",        "vpp", "cp",
                                       "ep",        "mbs",      "gbs",       "seq", "precision",
                                       "recompute", "sharding", "attention", "sp"};
    const orr_tree *ours = orr_plan_write(h->job->arena, asked);
    const orr_tree *theirs = orr_plan_write(h->job->arena, h->plan);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *a = orr_write_json(h->job->arena, orr_tree_get(ours, keys[i]), false);
        const char *b = orr_write_json(h->job->arena, orr_tree_get(theirs, keys[i]), false);
        if (strcmp(a, b) != 0) {
            find(h, "log-differs", "the log ran %s=%s, the plan says %s", keys[i], b, a);
        }
    }
}

static orr_status hold(held *h, const orr_resolved *asked, orr_err *err) {
    orr_resolved *ran = ORR_NEW(h->job->arena, orr_resolved);
    orr_projection *projection = ORR_NEW(h->job->arena, orr_projection);
    const orr_tree *keys = NULL;
    ORR_TRY(orr_log_keys(h->job, h->file, h->seen, h->keys, &keys, err));
    ORR_TRY(orr_plan_resolve(h->job->arena, keys, ran, err));
    h->keys = keys;
    h->plan = ran;
    h->projection = projection;
    compare_plans(h, asked);
    if (!orr_plan_legal(ran)) {
        find(h, "log-illegal", "the plan that the log ran is not legal here");
        return ORR_OK;
    }
    ORR_TRY(orr_project(h->job->ctx->engine, h->job->arena, ran, NULL, projection, err));
    if (h->seen->kind == ORR_OBSERVED_TRACE) {
        compare_trace(h);
        return ORR_OK;
    }
    compare_time(h);
    compare_memory(h);
    compare_oom(h);
    return ORR_OK;
}

orr_status orr_job_put_against(orr_job *job, const orr_tree *keys, const orr_resolved *resolved,
                               orr_err *err) {
    const char *file = orr_tree_text(orr_tree_get(job->args, "log"), NULL);
    orr_observation seen;
    if (file == NULL) {
        return ORR_OK;
    }
    ORR_TRY(orr_observe_file(job->arena, file, &seen, err));
    if (seen.kind != ORR_OBSERVED_LOG && seen.kind != ORR_OBSERVED_TRACE &&
        seen.kind != ORR_OBSERVED_SNAPSHOT) {
        orr_status status = orr_fail(
            err, ORR_E_SCHEMA,
            "%s is no log of training, no trace of its kernels and no snapshot of memory", file);
        orr_hint(err, "'orrery import %s' shows what was understood of it", file);
        return status;
    }
    held h = {.job = job,
              .file = file,
              .seen = &seen,
              .keys = keys,
              .map =
                  orr_tree_put(job->arena, job->result, "against", orr_tree_new_map(job->arena))};
    orr_tree_put_text(job->arena, h.map, "file", file);
    orr_tree_put_text(job->arena, h.map, "format", seen.format);
    h.rows = orr_tree_put(job->arena, h.map, "rows", orr_tree_new_list(job->arena));
    h.findings = orr_tree_put(job->arena, h.map, "findings", orr_tree_new_list(job->arena));
    ORR_TRY(hold(&h, resolved, err));
    for (size_t i = 0; i < orr_tree_size(seen.warnings); i++) {
        orr_job_warn(job, "observation", file, "%s: %s", file,
                     orr_tree_text(orr_tree_at(seen.warnings, i), ""));
    }
    return ORR_OK;
}
