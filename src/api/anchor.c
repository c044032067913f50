/* One measured run that corrects its neighbours: --anchor FIGURE[@GPUS], or a log. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/num.h"
#include "base/text.h"

typedef enum figure_kind { FIGURE_RATE, FIGURE_SECONDS, FIGURE_TFLOPS, FIGURE_NONE } figure_kind;

static bool ends_in_word(const char *text, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

/* Frameworks mean one GPU by "tok/s", papers often all of them. */
static bool says_whose(const char *figure) {
    const char *unit = figure + strspn(figure, "0123456789.,+- ");
    return strcmp(unit, "tok/s") != 0 && strcmp(unit, "tokens/s") != 0;
}

/* "412TFLOP/s/GPU", "5.1s", "2200tok/s/GPU", "10080". */
static figure_kind read_figure(const char *text, double *value) {
    static const char *const rates[] = {
        "",         "tok/s/GPU", "tokens/s/GPU", "tok/s/gpu",    "tok/s",
        "tokens/s", "tps",       "tgs",          "tokens/s/gpu", NULL};
    static const char *const seconds[] = {"s", "sec", NULL};
    static const char *const tflops[] = {"TFLOP/s/GPU", "TFLOP/s", "TFLOPS",     "TFLOPs",
                                         "TF",          "tflops",  "TFLOPS/GPU", NULL};
    size_t digits = strspn(text, "0123456789.,+-");
    char number[32];
    if (digits == 0 || digits >= sizeof number) {
        return FIGURE_NONE;
    }
    size_t n = 0;
    for (size_t i = 0; i < digits; i++) {
        if (text[i] != ',') {
            number[n++] = text[i];
        }
    }
    number[n] = '\0';
    const char *unit = text + digits + strspn(text + digits, " ");
    if (!orr_parse_real(number, value) || !(*value > 0)) {
        return FIGURE_NONE;
    }
    if (strcmp(unit, "ms") == 0) {
        *value *= ORR_MS;
        return FIGURE_SECONDS;
    }
    return ends_in_word(unit, rates)     ? FIGURE_RATE
           : ends_in_word(unit, seconds) ? FIGURE_SECONDS
           : ends_in_word(unit, tflops)  ? FIGURE_TFLOPS
                                         : FIGURE_NONE;
}

static double tokens_of_step(const orr_resolved *plan) {
    return (double)plan->plan.gbs * plan->plan.batch.seq;
}

static double rate_of_tflops(const orr_resolved *plan, double tflops) {
    return tflops * 1e12 / orr_model_flops_per_token(plan->model, plan->plan.batch.seq, true);
}

static orr_status anchor_of_figure(orr_job *job, const char *text, const orr_resolved *resolved,
                                   orr_anchor *anchor, orr_err *err) {
    const char *at = strrchr(text, '@');
    const char *figure = at == NULL ? text : orr_arena_copy(job->arena, text, (size_t)(at - text));
    int64_t gpus = resolved->plan.gpus;
    double value = 0;
    figure_kind kind = read_figure(figure, &value);
    bool sized = at == NULL || (orr_parse_int(at + 1, &gpus) && gpus > 0 && gpus <= ORR_MAX_GPUS);
    if (kind == FIGURE_NONE || !sized) {
        orr_status status = orr_fail(
            err, ORR_E_SCHEMA,
            "anchor '%.80s' is neither FIGURE, nor FIGURE@GPUS, nor the log of a run", text);
        orr_hint(err, "for example 10080@16 (tokens/s/GPU measured on 16 GPUs), 412TFLOP/s/GPU, "
                      "5.1s, 2200tok/s/GPU, train.log");
        return status;
    }
    anchor->gpus = (uint32_t)gpus;
    anchor->tokens_per_s_per_gpu = kind == FIGURE_RATE ? value
                                   : kind == FIGURE_SECONDS
                                       ? tokens_of_step(resolved) / resolved->plan.gpus / value
                                       : rate_of_tflops(resolved, value);
    if (kind == FIGURE_RATE && gpus > 1 && !says_whose(figure)) {
        orr_job_warn(job, "anchor-whose", "anchor",
                     "the anchor's %s are read as those of one GPU; a figure of all %lld is "
                     "%.4gtok/s/GPU",
                     figure, (long long)gpus, value / (double)gpus);
    }
    if (kind == FIGURE_TFLOPS) {
        orr_job_warn(job, "anchor-convention", "anchor",
                     "the anchor's TFLOP/s are read as model FLOPs with causal attention; a figure "
                     "that counts them otherwise anchors wrongly: a step time does not");
    }
    return ORR_OK;
}

double orr_log_rate(const orr_run_log *log, const orr_resolved *plan) {
    double gpus = plan->plan.gpus;
    if (log->step_s > 0) {
        double gbs = log->gbs > 0 ? log->gbs : plan->plan.gbs;
        return gbs * plan->plan.batch.seq / log->step_s / gpus;
    }
    if (log->tokens_per_s_per_gpu > 0) {
        return log->tokens_per_s_per_gpu;
    }
    if (log->samples_per_s > 0) {
        return log->samples_per_s * plan->plan.batch.seq / gpus;
    }
    return log->tflops_per_gpu > 0 ? rate_of_tflops(plan, log->tflops_per_gpu) : 0;
}

/* The model that the call names stays: the log's is a card of its own making. What follows from
 * other keys is left to follow. */
orr_status orr_log_keys(orr_job *job, const char *file, const orr_observation *log,
                        const orr_tree *keys, const orr_tree **out, orr_err *err) {
    orr_tree *over = orr_tree_new_map(job->arena);
    if (log->kind == ORR_OBSERVED_LOG && log->content != NULL) {
        orr_import import;
        ORR_TRY(orr_import_arguments(job->arena, file, log->content, &import, err));
        for (size_t i = 0; i < orr_tree_size(import.keys); i++) {
            const char *key = orr_tree_key(import.keys, i);
            bool kept = orr_tree_get(keys, key) != NULL &&
                        (strcmp(key, "model") == 0 || strcmp(key, "software") == 0);
            if (!kept) {
                (void)orr_tree_put(job->arena, over, key,
                                   orr_tree_copy(job->arena, orr_tree_at(import.keys, i)));
            }
        }
        static const char *const follow[] = {"dp", "micro_batches", "nodes", "layout"};
        for (size_t i = 0; i < sizeof follow / sizeof *follow; i++) {
            orr_tree_put_text(job->arena, over, follow[i], NULL);
        }
    } else {
        if (log->log.gpus > 0) { /* the same plan at another scale: the batch per GPU is kept */
            orr_tree_put_int(job->arena, over, "gpus", log->log.gpus);
            orr_tree_put_text(job->arena, over, "dp", NULL);
            orr_tree_put_text(job->arena, over, "nodes", NULL);
        }
        if (log->log.gbs > 0) {
            orr_tree_put_int(job->arena, over, "gbs", (int64_t)log->log.gbs);
            orr_tree_put_text(job->arena, over, "micro_batches", NULL);
        }
    }
    *out = orr_plan_merge(job->arena, keys, over);
    return ORR_OK;
}

static orr_status anchor_of_log(orr_job *job, const char *file, const orr_tree *keys,
                                const orr_resolved *plan, orr_anchor *anchor, orr_err *err) {
    orr_observation seen;
    ORR_TRY(orr_observe_file(job->arena, file, &seen, err));
    if (seen.kind != ORR_OBSERVED_LOG || seen.log.used == 0) {
        orr_status status = orr_fail(err, ORR_E_SCHEMA, "%s logs no steps of training", file);
        orr_hint(err, "a log of Megatron-LM, Primus, NeMo, TorchTitan, nanotron or DeepSpeed is "
                      "expected, or a figure such as 5.1s");
        return status;
    }
    const orr_tree *ran = NULL;
    ORR_TRY(orr_log_keys(job, file, &seen, keys, &ran, err));
    orr_resolved *at = ORR_NEW(job->arena, orr_resolved);
    ORR_TRY(orr_plan_resolve(job->arena, ran, at, err));
    if (!orr_plan_legal(at)) {
        return orr_fail(err, ORR_E_CONFLICT, "the plan that %s ran is not legal here", file);
    }
    static const double wide = 0.2;
    if (seen.log.spread_frac > wide) {
        orr_job_warn(job, "anchor-spread", file,
                     "step times of %s spread by %.0f %%: the anchor is no surer than that", file,
                     100 * seen.log.spread_frac);
    }
    if (at->plan.gbs != plan->plan.gbs || at->plan.batch.seq != plan->plan.batch.seq) {
        orr_job_warn(job, "anchor-batch", file,
                     "%s ran batches of %u sequences of %u tokens, the plan has %u of %u", file,
                     at->plan.gbs, at->plan.batch.seq, plan->plan.gbs, plan->plan.batch.seq);
    }
    *anchor = (orr_anchor){
        .tokens_per_s_per_gpu = orr_log_rate(&seen.log, at), .gpus = at->plan.gpus, .plan = at};
    for (size_t i = 0; i < orr_tree_size(seen.warnings); i++) {
        orr_job_warn(job, "anchor-log", file, "%s: %s", file,
                     orr_tree_text(orr_tree_at(seen.warnings, i), ""));
    }
    return ORR_OK;
}

/* A figure begins with a digit and names no folder. */
static bool is_figure(const char *text) {
    double value;
    const char *at = strchr(text, '@');
    size_t length = at == NULL ? strlen(text) : (size_t)(at - text);
    char head[64];
    if (length >= sizeof head) {
        return false;
    }
    memcpy(head, text, length);
    head[length] = '\0';
    return at != NULL || read_figure(head, &value) != FIGURE_NONE || strpbrk(text, "./") == NULL;
}

orr_status orr_job_anchor(orr_job *job, const orr_tree *keys, const orr_resolved *resolved,
                          orr_anchor *anchor, orr_err *err) {
    const char *text = orr_tree_text(orr_tree_get(job->args, "anchor"), NULL);
    *anchor = (orr_anchor){0};
    if (text == NULL) {
        double figure = orr_tree_real(orr_tree_get(job->args, "anchor"), 0);
        anchor->tokens_per_s_per_gpu = figure;
        anchor->gpus = figure > 0 ? resolved->plan.gpus : 0;
        return ORR_OK;
    }
    return is_figure(text) ? anchor_of_figure(job, text, resolved, anchor, err)
                           : anchor_of_log(job, text, keys, resolved, anchor, err);
}

static void put_interval(orr_arena *arena, orr_tree *map, const char *key, double low,
                         double high) {
    orr_tree *list = orr_tree_put(arena, map, key, orr_tree_new_list(arena));
    (void)orr_tree_push(arena, list, orr_tree_new_real(arena, low));
    (void)orr_tree_push(arena, list, orr_tree_new_real(arena, high));
}

/* What the anchor's run was is known of the plan itself at the same size, and of a log: one that
 * the projection takes for out of memory is a contradiction. */
static orr_status warn_of_contradiction(orr_job *job, const orr_resolved *resolved,
                                        const orr_anchor *anchor, const orr_memory *own,
                                        orr_err *err) {
    bool same = anchor->plan == NULL && anchor->gpus == resolved->plan.gpus;
    if (same && own->fit > ORR_TIGHT) {
        orr_job_warn(job, "anchor-contradicts", "anchor",
                     "the anchor says that this plan ran on %u GPUs, the verdict that it does not "
                     "fit: its run had other settings (recompute, sharding, micro-batch), or the "
                     "memory is projected too high",
                     anchor->gpus);
    }
    if (anchor->plan == NULL) {
        return ORR_OK;
    }
    orr_memory ran;
    ORR_TRY(orr_project_memory(job->ctx->engine, job->arena, anchor->plan, true, &ran, err));
    if (ran.fit > ORR_TIGHT) {
        orr_job_warn(job, "anchor-contradicts", "anchor",
                     "the anchor's run on %u GPUs is projected not to fit, and it ran: its log "
                     "leaves settings open (recompute, sharding, micro-batch), or the memory is "
                     "projected too high",
                     anchor->gpus);
    }
    return ORR_OK;
}

orr_status orr_job_put_anchor(orr_job *job, const orr_resolved *resolved, const orr_anchor *anchor,
                              const orr_projection *after, orr_err *err) {
    if (anchor->gpus == 0) {
        return ORR_OK;
    }
    if (after->mfu_frac > 1) {
        return orr_fail(err, ORR_E_CONFLICT,
                        "the anchor would mean %.0f %% of what the accelerators can compute: its "
                        "figure belongs to another model, batch or machine",
                        100 * after->mfu_frac);
    }
    orr_projection before;
    ORR_TRY(orr_project(job->ctx->engine, job->arena, resolved, NULL, &before, err));
    orr_tree *map = orr_tree_put(job->arena, job->result, "anchor", orr_tree_new_map(job->arena));
    orr_tree_put_real(job->arena, map, "tokens_per_s_per_gpu", anchor->tokens_per_s_per_gpu);
    orr_tree_put_int(job->arena, map, "gpus", anchor->gpus);
    orr_tree_put_real(job->arena, map, "compute_factor", after->anchor_factor);
    orr_tree_put_real(job->arena, map, "before_tokens_per_s_per_gpu", before.tokens_per_s_per_gpu);
    put_interval(job->arena, map, "before_interval_90", before.low, before.high);
    orr_tree_put_real(job->arena, map, "change_frac",
                      after->tokens_per_s_per_gpu / before.tokens_per_s_per_gpu - 1);
    orr_tree_put_real(job->arena, map, "before_width_frac",
                      (before.high - before.low) / before.tokens_per_s_per_gpu);
    orr_tree_put_real(job->arena, map, "width_frac",
                      (after->high - after->low) / after->tokens_per_s_per_gpu);
    ORR_TRY(warn_of_contradiction(job, resolved, anchor, &after->memory, err));
    if (after->anchor_factor > ORR_FAR_ANCHOR || after->anchor_factor < 1 / ORR_FAR_ANCHOR) {
        orr_job_warn(job, "anchor-far", "anchor",
                     "the anchor needs compute %.2f times as long as projected: that is no "
                     "correction but another cause, and the interval stays; --log FILE looks for "
                     "it",
                     after->anchor_factor);
    }
    return ORR_OK;
}
