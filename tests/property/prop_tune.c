/* The search against its definition: what is counted is what is legal, what is quick is what is
 * projected, bounds lie below, and what the bounds leave is what brute force finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/rng.h"
#include "orrery/orrery.h"
#include "tune/tune_int.h"

typedef struct workload {
    const char *model, *hardware, *software, *precision;
    uint32_t gpus, gbs, seq;
} workload;

static const workload workloads[] = {
    {"mixtral-8x7b", "h100", "megatron-core", "bf16", 16, 64, 4096},
    {"llama-3.1-70b", "h100", "megatron-core", "bf16", 32, 64, 8192},
    {"mixtral-8x22b", "mi355x", "primus-rocm", "bf16", 32, 256, 4096},
    {"deepseek-v2-lite", "h200", "torchtitan", "bf16", 8, 64, 4096},
    {"deepseek-v3", "b200", "megatron-lm", "fp8", 128, 256, 4096},
    {"gpt3-13b", "a100-80g", "zero-bubble", "bf16", 16, 64, 2048},
    {"gpt-oss-20b", "h100", "unknown", "bf16", 16, 32, 8192},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

static orr_tree *keys_of(orr_arena *arena, const workload *w) {
    orr_tree *keys = orr_tree_new_map(arena);
    orr_tree_put_text(arena, keys, "model", w->model);
    orr_tree_put_text(arena, keys, "hardware", w->hardware);
    orr_tree_put_text(arena, keys, "software", w->software);
    orr_tree_put_text(arena, keys, "precision", w->precision);
    orr_tree_put_int(arena, keys, "gpus", w->gpus);
    orr_tree_put_int(arena, keys, "gbs", w->gbs);
    orr_tree_put_int(arena, keys, "seq", w->seq);
    return keys;
}

/* A recompute, overlap and sharding that go with a family and a pipe; false where the draw is not
 * legal. */
static bool draw_tail(tune_space *space, orr_rng *rng, const tune_family *family,
                      const tune_pipe *pipe, orr_plan *plan) {
    const tune_recomputes *recomputes = tune_recomputes_of(space, family, pipe);
    const tune_tails *tails = tune_tails_of(space, family, pipe);
    uint32_t r = orr_rng_below(rng, recomputes->count), o = orr_rng_below(rng, TUNE_OVERLAPS);
    uint16_t overlaps = tails->overlaps[tune_recompute_class(&recomputes->value[r])];
    if ((overlaps >> o & 1) == 0 || tails->shard_count == 0) {
        return false;
    }
    *plan = family->plan;
    tune_plan_pipe(pipe, plan);
    plan->recompute = recomputes->value[r];
    plan->shard.kind = tails->shard[orr_rng_below(rng, tails->shard_count)];
    tune_plan_overlap(&space->world[family->world], o, plan);
    return true;
}

/* A plan of the space, drawn evenly by family and pipe. */
static bool draw(tune_space *space, orr_rng *rng, const tune_family **family_out,
                 const tune_pipe **pipe_out, orr_plan *plan) {
    const tune_family *family = &space->family[orr_rng_below(rng, space->family_count)];
    const tune_pipes *pipes = &space->pipes[family->pipes];
    const tune_pipe *pipe = &pipes->pipe[orr_rng_below(rng, pipes->count)];
    *family_out = family;
    *pipe_out = pipe;
    return draw_tail(space, rng, family, pipe, plan);
}

static void make_space(orr_arena *arena, const workload *w, orr_tune_request *request,
                       tune_space *space) {
    orr_err err = {0};
    request->keys = keys_of(arena, w);
    if (tune_space_make(arena, request, space, &err) != ORR_OK) {
        fail_msg("%s: %s", w->model, err.message);
    }
}

/* Steps that are more than this many ops long are left to other tests. */
enum { MAX_OPS = 40000, DRAWS = 400, NEIGHBOURS = 6 };

static bool is_short(const orr_plan *plan) {
    return (uint64_t)plan->pipe.pp * plan->pipe.vpp * plan->batch.micro_batches <= MAX_OPS;
}

static void check_same(orr_quick *quick, orr_engine *engine, orr_arena *work,
                       const orr_resolved *resolved) {
    orr_projection whole;
    double step_s, need_bytes, floor_bytes;
    orr_err err = {0};
    orr_arena_reset(work);
    assert_int_equal(orr_project(engine, work, resolved, NULL, &whole, &err), ORR_OK);
    assert_int_equal(orr_quick_floor(quick, &resolved->plan, &floor_bytes, &err), ORR_OK);
    assert_int_equal(orr_quick_need(quick, &resolved->plan, &need_bytes, &err), ORR_OK);
    assert_int_equal(orr_quick_step(quick, &resolved->plan, &step_s, &err), ORR_OK);
    assert_true(floor_bytes <= need_bytes);
    assert_true(need_bytes == whole.memory.worst.need_bytes);
    assert_true(step_s == whole.step_s);
}

/* What was kept of one plan does not show in its neighbours, forgotten in between or not. */
static void neighbours_are_projections(void **state) {
    (void)state;
    orr_rng rng = {17};
    for (int i = 0; i < WORKLOADS; i++) {
        orr_arena *arena = orr_arena_new(), *work = orr_arena_new();
        orr_tune_request request = {0};
        tune_space space;
        orr_err err = {0};
        make_space(arena, &workloads[i], &request, &space);
        orr_engine *engine = orr_engine_new();
        orr_quick *quick = NULL;
        assert_int_equal(orr_quick_new(engine, &space.world[0].base, 1.0, &quick, &err), ORR_OK);
        for (int k = 0; k < DRAWS / NEIGHBOURS; k++) {
            const tune_family *family;
            const tune_pipe *pipe;
            orr_resolved r = space.world[0].base;
            (void)draw(&space, &rng, &family, &pipe, &r.plan);
            for (int n = 0; n < NEIGHBOURS; n++) {
                if (draw_tail(&space, &rng, family, pipe, &r.plan) && is_short(&r.plan)) {
                    check_same(quick, engine, work, &r);
                }
            }
            if (k % 4 == 0) {
                orr_engine_trim(engine, 0);
            }
        }
        orr_quick_free(quick);
        orr_engine_free(engine);
        tune_space_release(&space);
        orr_arena_free(work);
        orr_arena_free(arena);
    }
}

static void quick_is_the_projection(void **state) {
    (void)state;
    orr_rng rng = {11};
    for (int i = 0; i < WORKLOADS; i++) {
        orr_arena *arena = orr_arena_new(), *work = orr_arena_new();
        orr_tune_request request = {0};
        tune_space space;
        orr_err err = {0};
        make_space(arena, &workloads[i], &request, &space);
        orr_engine *engine = orr_engine_new();
        orr_quick *quick = NULL;
        assert_int_equal(orr_quick_new(engine, &space.world[0].base, 1.0, &quick, &err), ORR_OK);
        for (int k = 0; k < DRAWS; k++) {
            const tune_family *family;
            const tune_pipe *pipe;
            orr_resolved r = space.world[0].base;
            if (!draw(&space, &rng, &family, &pipe, &r.plan) || !is_short(&r.plan)) {
                continue;
            }
            if (!orr_plan_legal(&r)) {
                orr_violation broken[ORR_MAX_VIOLATIONS];
                (void)orr_plan_check(arena, &r, broken);
                fail_msg("%s: %s: %s\n%s", workloads[i].model, broken[0].rule, broken[0].message,
                         orr_write_json(arena, orr_plan_write(arena, &r), false));
            }
            orr_projection whole;
            double step_s, need_bytes, bound_s, least_s, floor;
            orr_arena_reset(work);
            assert_int_equal(orr_project(engine, work, &r, NULL, &whole, &err), ORR_OK);
            assert_int_equal(orr_quick_need(quick, &r.plan, &need_bytes, &err), ORR_OK);
            assert_int_equal(orr_quick_step(quick, &r.plan, &step_s, &err), ORR_OK);
            assert_true(need_bytes == whole.memory.worst.need_bytes);
            assert_true(step_s == whole.step_s);
            /* bounds of the plan itself, of its pipe and of its family */
            orr_plan relaxed = r.plan;
            assert_int_equal(orr_quick_bound(quick, &r.plan, &bound_s, &err), ORR_OK);
            assert_true(bound_s <= step_s);
            relaxed.recompute = (orr_recompute){0};
            tune_plan_overlap(&space.world[0], tune_overlap_mask(&space.world[0], &relaxed),
                              &relaxed);
            assert_int_equal(orr_quick_bound(quick, &relaxed, &bound_s, &err), ORR_OK);
            assert_true(bound_s <= step_s);
            tune_plan_pipe(&space.pipes[family->pipes].pipe[0], &relaxed);
            tune_plan_overlap(&space.world[0], tune_overlap_mask(&space.world[0], &relaxed),
                              &relaxed);
            relaxed.shard = r.plan.shard;
            uint8_t kind = r.plan.recompute.kind;
            bool some = kind == ORR_RECOMPUTE_BLOCK || kind == ORR_RECOMPUTE_NONE;
            if (some) {
                assert_int_equal(
                    orr_quick_checkpointed_share(quick, &relaxed, need_bytes, &least_s, &err),
                    ORR_OK);
                if (!(least_s <= step_s)) {
                    fail_msg("%g %g %g %s", least_s, step_s, need_bytes,
                             orr_write_json(arena, orr_plan_write(arena, &r), false));
                }
            }
            if (kind == ORR_RECOMPUTE_SELECTIVE || kind == ORR_RECOMPUTE_FULL) {
                relaxed.recompute = r.plan.recompute;
                assert_int_equal(orr_quick_share(quick, &relaxed, need_bytes, &least_s, &err),
                                 ORR_OK);
                assert_true(least_s <= step_s);
            }
            assert_int_equal(orr_quick_floor(quick, &r.plan, &floor, &err), ORR_OK);
            assert_true(floor <= need_bytes);
        }
        orr_quick_free(quick);
        orr_engine_free(engine);
        tune_space_release(&space);
        orr_arena_free(work);
        orr_arena_free(arena);
    }
}

/* Whether an engine remembers objects, orders and price lists does not show in what it says. */
static void forgetful_engines_say_the_same(void **state) {
    (void)state;
    orr_rng rng = {19};
    for (int i = 0; i < WORKLOADS; i++) {
        orr_arena *arena = orr_arena_new(), *work = orr_arena_new();
        orr_tune_request request = {0};
        tune_space space;
        orr_err err = {0};
        make_space(arena, &workloads[i], &request, &space);
        orr_engine *engine = orr_engine_new();
        for (int k = 0; k < DRAWS / 10; k++) {
            const tune_family *family;
            const tune_pipe *pipe;
            orr_projection first, second;
            orr_resolved r = space.world[0].base;
            if (!draw(&space, &rng, &family, &pipe, &r.plan) || !is_short(&r.plan)) {
                continue;
            }
            orr_arena_reset(work);
            assert_int_equal(orr_project(engine, work, &r, NULL, &first, &err), ORR_OK);
            orr_engine_forget(engine, 0);
            assert_int_equal(orr_project(engine, work, &r, NULL, &second, &err), ORR_OK);
            assert_true(first.step_s == second.step_s && first.low == second.low);
            assert_memory_equal(&first.memory.worst, &second.memory.worst,
                                sizeof first.memory.worst);
            assert_memory_equal(first.slice_s, second.slice_s, sizeof first.slice_s);
        }
        orr_engine_free(engine);
        tune_space_release(&space);
        orr_arena_free(work);
        orr_arena_free(arena);
    }
}

/* The keys of a plan of the space resolve to that plan. */
static void plans_are_what_their_keys_say(void **state) {
    (void)state;
    orr_rng rng = {12};
    for (int i = 0; i < WORKLOADS; i++) {
        orr_arena *arena = orr_arena_new();
        orr_tune_request request = {0};
        tune_space space;
        make_space(arena, &workloads[i], &request, &space);
        for (int k = 0; k < 100; k++) {
            const tune_family *family;
            const tune_pipe *pipe;
            orr_resolved r = space.world[0].base, again;
            orr_err err = {0};
            if (!draw(&space, &rng, &family, &pipe, &r.plan)) {
                continue;
            }
            orr_tree *keys = orr_plan_write(arena, &r);
            assert_int_equal(orr_plan_resolve(arena, keys, &again, &err), ORR_OK);
            if (memcmp(&again.plan, &r.plan, sizeof r.plan) != 0) {
                fail_msg("%s: %s", workloads[i].model, orr_write_json(arena, keys, false));
            }
            /* it is found among the space's own, and one that is not is not */
            uint32_t at = 0;
            orr_plan other = r.plan;
            assert_true(tune_space_holds(&space, family->world, &other, &at));
            assert_ptr_equal(&space.family[at], family);
            assert_memory_equal(&other, &r.plan, sizeof other);
            other.batch.mbs = 32;
            assert_false(tune_space_holds(&space, family->world, &other, &at));
        }
        tune_space_release(&space);
        orr_arena_free(arena);
    }
}

/* Every combination of recompute, overlap and sharding of some families and pipes, asked of the
 * rules one by one. */
static void the_count_is_that_of_legal_plans(void **state) {
    (void)state;
    orr_rng rng = {13};
    for (int i = 0; i < WORKLOADS; i++) {
        orr_arena *arena = orr_arena_new();
        orr_tune_request request = {0};
        tune_space space;
        make_space(arena, &workloads[i], &request, &space);
        for (int k = 0; k < 40; k++) {
            const tune_family *family = &space.family[orr_rng_below(&rng, space.family_count)];
            const tune_pipes *pipes = &space.pipes[family->pipes];
            const tune_pipe *pipe = &pipes->pipe[orr_rng_below(&rng, pipes->count)];
            const tune_recomputes *recomputes = tune_recomputes_of(&space, family, pipe);
            uint64_t counted = tune_count(recomputes, tune_tails_of(&space, family, pipe));
            orr_resolved r = space.world[family->world].base;
            r.plan = family->plan;
            tune_plan_pipe(pipe, &r.plan);
            uint32_t mask = tune_overlap_mask(&space.world[family->world], &r.plan);
            bool own = r.plan.shard.kind >= ORR_SHARD_ZERO3;
            bool sparse = false;
            for (uint32_t m = 0; m < r.model->kind_count; m++) {
                sparse = sparse || r.model->kind[m].mlp.experts > 0;
            }
            bool shares =
                r.plan.shard.dp * r.plan.split.cp > 1 ||
                (sparse && r.plan.split.etp * r.plan.split.ep * r.plan.pipe.pp < r.plan.gpus);
            uint64_t legal = 0;
            for (uint32_t c = 0; c < recomputes->count; c++) {
                for (uint32_t o = 0; o < TUNE_OVERLAPS; o++) {
                    for (uint8_t s = 0; s <= (own || !shares ? 0 : 2); s++) {
                        r.plan.recompute = recomputes->value[c];
                        r.plan.shard.kind = own ? r.plan.shard.kind : s;
                        tune_plan_overlap(&space.world[family->world], o, &r.plan);
                        legal += (o & ~mask) == 0 && orr_plan_legal(&r);
                    }
                }
            }
            assert_int_equal(counted, legal);
        }
        tune_space_release(&space);
        orr_arena_free(arena);
    }
}

/* Splits and batches, one by one, with the plainest of everything else. */
static void no_legal_split_is_missed(void **state) {
    (void)state;
    for (int i = 0; i < WORKLOADS; i++) {
        orr_arena *arena = orr_arena_new();
        orr_tune_request request = {0};
        tune_space space;
        make_space(arena, &workloads[i], &request, &space);
        const tune_world *world = &space.world[0];
        orr_map known = {0};
        uint32_t gpus = workloads[i].gpus, found = 0;
        for (uint32_t f = 0; f < space.family_count; f++) {
            const orr_plan *p = &space.family[f].plan;
            uint32_t key[] = {p->split.tp,  p->split.cp, p->pipe.pp,  p->split.ep,
                              p->split.etp, p->split.sp, p->batch.mbs};
            if (orr_map_get(&known, key, sizeof key) == NULL) {
                orr_map_put(&known, arena, key, sizeof key, arena);
            }
        }
        for (uint32_t n = 0; n < 20000; n++) {
            static orr_rng rng = {14};
            orr_resolved r = world->base;
            orr_plan *p = &r.plan;
            p->split.tp = 1u << orr_rng_below(&rng, 4);
            p->split.cp = 1u << orr_rng_below(&rng, 2);
            p->pipe.pp = 1u << orr_rng_below(&rng, 4);
            p->split.ep = 1u << orr_rng_below(&rng, 4);
            p->split.etp = 1u << orr_rng_below(&rng, 3);
            p->split.sp = (uint8_t)(p->split.tp > 1 && orr_rng_below(&rng, 2));
            p->batch.mbs = 1u << orr_rng_below(&rng, 3);
            uint32_t ranks = p->split.tp * p->split.cp * p->pipe.pp;
            if (gpus % ranks != 0 || p->split.tp % p->split.etp != 0 ||
                world->base.model->layers % p->pipe.pp != 0) {
                continue;
            }
            p->shard = (orr_shard){.dp = gpus / ranks};
            p->batch.micro_batches = p->gbs / (p->shard.dp * p->batch.mbs);
            p->variant.dispatch = ORR_DISPATCH_ALLTOALL;
            p->pipe.placement = ORR_PLACE_EVEN;
            p->pipe.vpp = 1;
            p->pipe.schedule = ORR_SCHEDULE_1F1B;
            tune_plan_overlap(world, 0, p);
            uint32_t key[] = {p->split.tp,  p->split.cp, p->pipe.pp,  p->split.ep,
                              p->split.etp, p->split.sp, p->batch.mbs};
            if (orr_plan_legal(&r)) {
                found++;
                assert_non_null(orr_map_get(&known, key, sizeof key));
            }
        }
        assert_true(found > 0);
        orr_map_release(&known);
        tune_space_release(&space);
        orr_arena_free(arena);
    }
}

static void run_search(orr_arena *arena, const workload *w, orr_tune_request *request,
                       tune_outcome *out) {
    tune_space space;
    orr_err err = {0};
    make_space(arena, w, request, &space);
    orr_engine *engine = orr_engine_new();
    assert_int_equal(tune_search(&space, engine, NULL, out, &err), ORR_OK);
    assert_int_equal(out->keep.evaluated + out->keep.pruned_time + out->keep.pruned_memory +
                         out->keep.unanswered,
                     space.count);
    orr_engine_free(engine);
    tune_space_release(&space);
}

/* Small random corners of the spaces, so that brute force can follow. */
static void bounds_lose_nothing(void **state) {
    (void)state;
    static const char *const corners[][4] = {
        {"pp=2", "mbs=1", "cp=1", "sp=on"},
        {"tp=4", "pp=4", "recompute=none", "mbs=1"},
        {"tp=2", "cp=1", "schedule=zbv", "sp=on"},
        {"pp=1", "mbs=2", "sharding=zero1", "cp=1"},
        {"tp=1", "pp=2", "layout=even", "overlap=dp"},
        {"pp=4", "schedule=interleaved", "vpp=2", "mbs=1"},
    };
    orr_rng rng = {15};
    uint64_t plans = 0;
    for (int i = 0; i < 9; i++) {
        orr_arena *arena = orr_arena_new();
        const workload *w = &workloads[i < 4 ? i : (int)orr_rng_below(&rng, 3)];
        const char *const *corner = corners[orr_rng_below(&rng, 6)];
        orr_tree *pins = orr_tree_new_list(arena);
        for (int p = 0; p < 4; p++) {
            orr_tree_push(arena, pins, orr_tree_new_text(arena, corner[p]));
        }
        orr_tree *ranges = orr_tree_new_list(arena);
        orr_tree_push(arena, ranges, orr_tree_new_text(arena, "dispatch=alltoall"));
        orr_tune_request request = {.pins = pins, .ranges = ranges, .threads = 1};
        tune_outcome one, two, all;
        run_search(arena, w, &request, &one);
        request.threads = 3;
        run_search(arena, w, &request, &two);
        request.brute = true;
        run_search(arena, w, &request, &all);
        plans += all.keep.evaluated;
        assert_int_equal(one.keep.evaluated, two.keep.evaluated);
        assert_int_equal(one.keep.pruned_time, two.keep.pruned_time);
        assert_int_equal(one.keep.pruned_memory, two.keep.pruned_memory);
        assert_int_equal(one.keep.top_count > 0, all.keep.top_count > 0);
        if (one.keep.top_count > 0) {
            assert_true(one.keep.top[0].cost == all.keep.top[0].cost);
            assert_memory_equal(&one.keep.top[0].plan, &two.keep.top[0].plan, sizeof(orr_plan));
        }
        assert_int_equal(tune_keep_near(&one.keep), tune_keep_near(&all.keep));
        assert_int_equal(tune_keep_near(&one.keep), tune_keep_near(&two.keep));
        tune_keep_release(&one.keep);
        tune_keep_release(&two.keep);
        tune_keep_release(&all.keep);
        orr_arena_free(arena);
    }
    assert_true(plans > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_is_the_projection),
        cmocka_unit_test(neighbours_are_projections),
        cmocka_unit_test(forgetful_engines_say_the_same),
        cmocka_unit_test(plans_are_what_their_keys_say),
        cmocka_unit_test(the_count_is_that_of_legal_plans),
        cmocka_unit_test(no_legal_split_is_missed),
        cmocka_unit_test(bounds_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
