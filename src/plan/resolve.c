/* Keys to plan: finds the inputs, checks what is stated against itself, derives the rest and writes
 * down every default. Problems are collected; what only breaks a rule is left to rules.c. */
#include <stdarg.h>
#include <string.h>

#include "plan/resolve_int.h"

bool orr_resolve_stated(const resolver *r, plan_key key) {
    return (r->seen >> key & 1) != 0;
}

static orr_span span_of(const resolver *r, plan_key key) {
    const orr_tree *node = orr_tree_get(r->map, orr_plan_key_name(key));
    return orr_tree_span(node != NULL ? node : r->map);
}

static void keep_problem(resolver *r, const char *code, const orr_err *err) {
    if (r->first_status == ORR_OK) {
        r->first_status = err->status;
        r->first = *err;
    }
    orr_problem_add(r->arena, r->problems, code, err);
}

void orr_resolve_problem(resolver *r, orr_status status, plan_key key, const char *hint,
                         const char *format, ...) {
    va_list args;
    va_start(args, format);
    orr_err err = {0};
    (void)orr_fail_at(&err, status, span_of(r, key), "%s",
                      orr_arena_vformat(r->arena, format, args));
    va_end(args);
    if (hint != NULL) {
        orr_hint(&err, "%s", hint);
    }
    keep_problem(r, orr_status_name(status), &err);
}

void orr_resolve_foreign(resolver *r, plan_key key, orr_err *err) {
    orr_span span = span_of(r, key);
    if (err->line == 0 && err->file[0] == '\0' && span.line != 0) {
        orr_err placed = {0};
        (void)orr_fail_at(&placed, err->status, span, "%s", err->message);
        orr_hint(&placed, "%s", err->hint);
        *err = placed;
    }
    keep_problem(r, orr_status_name(err->status), err);
}

void orr_resolve_assume(resolver *r, plan_key key, const char *value, const char *why) {
    orr_resolved *out = r->out;
    if (out->assumption_count < ORR_MAX_ASSUMPTIONS) {
        out->assumption[out->assumption_count++] =
            (orr_assumption){.key = orr_plan_key_name(key), .value = value, .why = why};
    }
}

void orr_resolve_assume_count(resolver *r, plan_key key, uint64_t value, const char *why) {
    orr_resolve_assume(r, key, orr_arena_format(r->arena, "%llu", (unsigned long long)value), why);
}

/* ---- splits --------------------------------------------------------------------------------- */

static uint32_t degree(resolver *r, plan_key key, uint32_t stated) {
    if (orr_resolve_stated(r, key)) {
        return stated;
    }
    orr_resolve_assume(r, key, "1", "not stated");
    return 1;
}

static bool has_windows(const orr_model *model) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].attention.window > 0) {
            return true;
        }
    }
    return false;
}

static bool experts_divide_by(const orr_model *model, uint32_t etp) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].mlp.experts > 0 && model->kind[i].mlp.expert_ffn % etp != 0) {
            return false;
        }
    }
    return true;
}

static void resolve_experts(resolver *r, orr_plan *plan) {
    orr_split *split = &plan->split;
    const plan_keys *k = &r->keys;
    bool moe = is_moe(r->out->model);
    split->ep = orr_resolve_stated(r, KEY_EP) ? k->ep : 1;
    split->etp = orr_resolve_stated(r, KEY_ETP) ? k->etp : 1;
    if (moe && !orr_resolve_stated(r, KEY_EP)) {
        orr_resolve_assume(r, KEY_EP, "1", "not stated");
    }
    if (moe && !orr_resolve_stated(r, KEY_ETP)) {
        uint64_t group = (uint64_t)split->ep * split->tp;
        bool fits = experts_divide_by(r->out->model, split->tp) &&
                    divides(group, plan->gpus / orr_max_u32(1, plan->pipe.pp));
        split->etp = fits ? split->tp : 1;
        orr_resolve_assume_count(r, KEY_ETP, split->etp,
                                 fits ? "experts are split as tp" : "a split as tp does not fit");
    }
}

static void resolve_split(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    orr_split *split = &plan->split;
    plan->gpus = r->gpus;
    split->tp = degree(r, KEY_TP, k->tp);
    plan->pipe.pp = degree(r, KEY_PP, k->pp);
    split->cp = degree(r, KEY_CP, k->cp);
    uint64_t ranks = (uint64_t)split->tp * plan->pipe.pp * split->cp;
    plan->shard.dp = (uint32_t)orr_max_u64(1, ranks > plan->gpus ? 1 : plan->gpus / ranks);
    if (orr_resolve_stated(r, KEY_DP) && ranks * k->dp != plan->gpus) {
        orr_resolve_problem(r, ORR_E_CONFLICT, KEY_DP, "leave dp out: it follows from the others",
                            "dp is %u, but tp %u x pp %u x cp %u x dp %u is %llu, not gpus %u",
                            k->dp, split->tp, plan->pipe.pp, split->cp, k->dp,
                            (unsigned long long)(ranks * k->dp), plan->gpus);
    }
    resolve_experts(r, plan);
    split->sp = orr_resolve_stated(r, KEY_SP)
                    ? k->sp
                    : r->out->software->sequence_parallel && split->tp > 1;
    if (!orr_resolve_stated(r, KEY_SP) && split->tp > 1) {
        orr_resolve_assume(r, KEY_SP, split->sp ? "on" : "off",
                           "the software's default where tp > 1");
    }
    bool windows = has_windows(r->out->model);
    split->cp_kind = orr_resolve_stated(r, KEY_CP_KIND) ? k->cp_kind
                     : windows                          ? ORR_CP_ALLGATHER
                                                        : ORR_CP_RING;
    if (!orr_resolve_stated(r, KEY_CP_KIND) && split->cp > 1) {
        orr_resolve_assume(r, KEY_CP_KIND, orr_plan_value_name(KEY_CP_KIND, split->cp_kind),
                           windows ? "a ring passes whole sequences through windowed attention"
                                   : "the usual kind");
    }
}

/* ---- batch ---------------------------------------------------------------------------------- */

enum { USUAL_STEP_TOKENS = 4 << 20, USUAL_SEQ = 8192, MAX_GBS = 1 << 30 };

static void resolve_seq(resolver *r, orr_plan *plan) {
    uint32_t most = r->out->model->max_seq;
    if (!orr_resolve_stated(r, KEY_SEQ)) {
        plan->batch.seq = most == 0 ? USUAL_SEQ : orr_min_u32(USUAL_SEQ, most);
        orr_resolve_assume_count(r, KEY_SEQ, plan->batch.seq, "a usual length, within the model's");
    } else if (!orr_seq_read(r->keys.seq, &plan->batch.seq)) {
        orr_resolve_problem(r, ORR_E_SCHEMA, KEY_SEQ, "it may be written as 8192 or \"8k\"",
                            "\"seq\" must be a whole number of tokens between 1 and %d",
                            ORR_MAX_SEQ);
        plan->batch.seq = 1;
    }
}

/* Micro-batches that make a step of about the usual size, in whole pipelines. */
static uint32_t usual_micro_batches(const orr_plan *plan) {
    uint64_t tokens = (uint64_t)plan->batch.seq * plan->batch.mbs * plan->shard.dp;
    uint64_t pp = plan->pipe.pp, count = USUAL_STEP_TOKENS / orr_max_u64(1, tokens);
    uint64_t whole = orr_max_u64(1, (count + pp / 2) / pp) * pp;
    return (uint32_t)orr_min_u64(whole, ORR_MAX_MICRO_BATCHES);
}

static void resolve_batch(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    orr_batch *batch = &plan->batch;
    batch->mbs = degree(r, KEY_MBS, k->mbs);
    resolve_seq(r, plan);
    uint64_t replicas = (uint64_t)batch->mbs * plan->shard.dp;
    bool gbs = orr_resolve_stated(r, KEY_GBS), count = orr_resolve_stated(r, KEY_MICRO_BATCHES);
    if (gbs) {
        plan->gbs = k->gbs;
        uint64_t micro_batches = orr_max_u64(1, k->gbs / replicas);
        if (micro_batches > ORR_MAX_MICRO_BATCHES) {
            orr_resolve_problem(r, ORR_E_LIMIT, KEY_GBS, NULL,
                                "gbs %u needs %llu micro-batches, more than %d", k->gbs,
                                (unsigned long long)micro_batches, ORR_MAX_MICRO_BATCHES);
        }
        batch->micro_batches = (uint32_t)micro_batches;
        if (count && k->micro_batches * replicas != k->gbs) {
            orr_resolve_problem(r, ORR_E_CONFLICT, KEY_GBS, "leave one of them out",
                                "gbs is %u, but %u micro-batches x mbs %u x dp %u are %llu", k->gbs,
                                k->micro_batches, batch->mbs, plan->shard.dp,
                                (unsigned long long)(k->micro_batches * replicas));
        }
        return;
    }
    batch->micro_batches = count ? k->micro_batches : usual_micro_batches(plan);
    uint64_t total = batch->micro_batches * replicas;
    if (total > MAX_GBS) {
        orr_resolve_problem(
            r, ORR_E_LIMIT, count ? KEY_MICRO_BATCHES : KEY_MBS, NULL,
            "%u micro-batches x mbs %u x dp %u are %llu sequences a step, more than %d",
            batch->micro_batches, batch->mbs, plan->shard.dp, (unsigned long long)total, MAX_GBS);
        return;
    }
    plan->gbs = (uint32_t)total;
    if (!count) {
        orr_resolve_assume_count(r, KEY_GBS, total, "a step of about four million tokens");
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void resolve_plan(resolver *r) {
    orr_plan *plan = &r->out->plan;
    resolve_split(r, plan);
    resolve_batch(r, plan);
    orr_resolve_pipe(r, plan);
    orr_resolve_numbers(r, plan);
    orr_resolve_overlap(r, plan);
    r->out->sureness = (uint32_t)orr_resolve_sureness(r, plan);
}

static void run(resolver *r) {
    orr_schema schema = orr_plan_schema(r->arena);
    orr_err err = {0};
    orr_status status =
        orr_schema_read_all(&schema, r->arena, r->map, &r->keys, &r->seen, r->problems, &err);
    if (status != ORR_OK) {
        r->first_status = status;
        r->first = err;
        return; /* what was not read would only raise echoes */
    }
    orr_resolve_inputs(r);
    if (r->first_status == ORR_OK) {
        resolve_plan(r);
    }
}

/* The first problem is the error; the others follow in its hint. */
static orr_status report(const resolver *r, orr_err *err) {
    size_t more = orr_tree_size(r->problems);
    if (r->first_status == ORR_OK || err == NULL) {
        return r->first_status;
    }
    *err = r->first;
    orr_text hint = orr_text_new(r->arena, ORR_ERR_TEXT - 1);
    orr_text_add(&hint, r->first.hint);
    for (size_t i = 1; i < more; i++) {
        const orr_tree *other = orr_tree_at(r->problems, i);
        orr_text_format(&hint, "%salso: %s", hint.length > 0 ? "; " : "",
                        orr_tree_text(orr_tree_get(other, "message"), ""));
    }
    orr_hint(err, "%s", orr_text_done(&hint));
    return r->first_status;
}

orr_status orr_plan_resolve(orr_arena *arena, const orr_tree *keys, orr_resolved *out,
                            orr_err *err) {
    return orr_plan_resolve_cached(NULL, arena, keys, out, err);
}

orr_status orr_plan_resolve_cached(orr_plan_cache *cache, orr_arena *arena, const orr_tree *keys,
                                   orr_resolved *out, orr_err *err) {
    *out = (orr_resolved){0};
    resolver r = {.arena = arena,
                  .cache = cache,
                  .map = keys,
                  .out = out,
                  .problems = orr_tree_new_list(arena)};
    run(&r);
    return report(&r, err);
}

orr_plan_cache *orr_plan_cache_new(void) {
    orr_arena *arena = orr_arena_new();
    orr_plan_cache *cache = ORR_NEW(arena, orr_plan_cache);
    cache->arena = arena;
    return cache;
}

void orr_plan_cache_free(orr_plan_cache *cache) {
    if (cache == NULL) {
        return;
    }
    for (int k = 0; k < KEY_COUNT; k++) {
        orr_map_release(&cache->named[k]);
    }
    orr_map_release(&cache->given);
    orr_arena_free(cache->arena);
}

orr_tree *orr_plan_problems(orr_arena *arena, const orr_tree *keys) {
    orr_resolved out = {0};
    resolver r = {.arena = arena, .map = keys, .out = &out, .problems = orr_tree_new_list(arena)};
    run(&r);
    return r.problems;
}
