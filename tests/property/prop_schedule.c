/* Random schedules with random stage times against a plain reference that knows nothing of the
 * engine: repeated sweeps over the op lists until nothing changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/arena.h"
#include "base/num.h"
#include "base/rng.h"
#include "schedule/schedule_int.h"

typedef struct example {
    orr_arena *arena;
    orr_schedule_spec spec;
    orr_durations d;
    const orr_order *order;
    orr_order_view view;
} example;

static int64_t *random_times(example *e, orr_rng *rng, uint32_t count, int64_t low, int64_t range,
                             bool equal) {
    int64_t *t = orr_arena_array(e->arena, count, sizeof *t);
    for (uint32_t i = 0; i < count; i++) {
        t[i] = equal && i > 0 ? t[0] : low + orr_rng_below(rng, (uint32_t)range);
    }
    return t;
}

static void random_spec(example *e, orr_rng *rng) {
    orr_schedule_spec *s = &e->spec;
    do {
        memset(s, 0, sizeof *s);
        s->kind = (uint8_t)orr_rng_below(rng, ORR_SCHEDULE_USER);
        s->pp = 1 + orr_rng_below(rng, 6);
        s->vpp = orr_schedule_fixed_vpp((orr_schedule_kind)s->kind);
        if (s->vpp == 0) {
            s->vpp = 1 + orr_rng_below(rng, 4);
        }
        s->micro_batches = 1 + orr_rng_below(rng, orr_rng_below(rng, 3) == 0 ? 120 : 24);
        if (s->kind == ORR_SCHEDULE_V_ADAPTIVE) { /* a search: small sizes */
            s->pp = orr_min_u32(s->pp, 3);
            s->micro_batches = orr_min_u32(s->micro_batches, 8);
        }
        if (s->kind == ORR_SCHEDULE_INTERLEAVED) {
            s->group = orr_rng_below(rng, 2) ? s->pp + orr_rng_below(rng, 3) : 0;
            s->p2p = (uint8_t)orr_rng_below(rng, 4);
            s->ep_overlap = (uint8_t)orr_rng_below(rng, 2);
        } else if (s->kind == ORR_SCHEDULE_1F1B) {
            s->p2p = (uint8_t)orr_rng_below(rng, 2);
        }
    } while (orr_schedule_check(s, NULL, 0) != 0);
}

static void random_durations(example *e, orr_rng *rng) {
    uint32_t chunks = e->spec.pp * e->spec.vpp;
    bool equal = orr_rng_below(rng, 2), free_hops = orr_rng_below(rng, 3) == 0;
    e->d.f = random_times(e, rng, chunks, 10, 100, equal);
    e->d.b = random_times(e, rng, chunks, 10, 100, equal);
    e->d.w = random_times(e, rng, chunks, 0, 100, equal);
    e->d.hop = random_times(e, rng, e->spec.pp, 0,
                            free_hops               ? 1
                            : orr_rng_below(rng, 2) ? 12
                                                    : 90,
                            equal);
    e->d.pair = NULL;
    if (orr_rng_below(rng, 2)) {
        e->d.pair = random_times(e, rng, chunks, 60, 200, equal);
    }
}

static bool make_example(example *e, orr_rng *rng) {
    random_spec(e, rng);
    random_durations(e, rng);
    orr_err err = {0};
    orr_status status = orr_order_build(e->arena, &e->spec, &e->d, &e->order, &err);
    if (status != ORR_OK) {
        if (status != ORR_E_USAGE) {
            print_message("%s pp %u vpp %u m %u group %u p2p %u: %s\n",
                          orr_schedule_name((orr_schedule_kind)e->spec.kind), e->spec.pp,
                          e->spec.vpp, e->spec.micro_batches, e->spec.group, e->spec.p2p,
                          err.message);
            fail();
        }
        return false;
    }
    e->view = orr_order_look(e->order);
    return true;
}

/* ---- the reference ----------------------------------------------------------------------------
 */

typedef struct reference {
    int64_t *f, *b; /* end per (chain, position, micro-batch); -1: unknown */
    int64_t makespan, *rank_end;
} reference;

static size_t cell(const example *e, uint32_t index, uint32_t micro_batch, int shift) {
    uint32_t position = (uint32_t)((int64_t)e->view.position[index] + shift);
    size_t row = (size_t)e->view.chain[index] * e->view.chain_length + position;
    return row * e->spec.micro_batches + micro_batch;
}

static int64_t hop_to(const example *e, uint32_t index, int shift) {
    uint32_t pp = e->spec.pp, vpp = e->view.spec.vpp, rank = index / vpp;
    for (uint32_t other = 0; other < pp * vpp; other++) {
        if (e->view.chain[other] == e->view.chain[index] &&
            (int64_t)e->view.position[other] == (int64_t)e->view.position[index] + shift) {
            uint32_t r = other / vpp, low = r < rank ? r : rank, high = r < rank ? rank : r;
            bool loop = e->view.chain_length == pp * vpp && vpp > 1 && e->view.position[1] == pp;
            if (r == rank) {
                return 0;
            }
            uint32_t from = shift < 0 ? r : rank;
            return loop && from == pp - 1 ? e->d.hop[high] : e->d.hop[low];
        }
    }
    return 0;
}

static int64_t later(int64_t a, int64_t b) {
    return a < 0 || b < 0 ? -1 : a > b ? a : b;
}

static int64_t wait_f(const example *e, const reference *ref, uint32_t index, uint32_t mb) {
    if (e->view.position[index] == 0) {
        return 0;
    }
    int64_t t = ref->f[cell(e, index, mb, -1)];
    return t < 0 ? -1 : t + hop_to(e, index, -1);
}

static int64_t wait_b(const example *e, const reference *ref, uint32_t index, uint32_t mb) {
    if (e->view.position[index] + 1 == e->view.chain_length) {
        return ref->f[cell(e, index, mb, 0)];
    }
    int64_t t = ref->b[cell(e, index, mb, 1)];
    return t < 0 ? -1 : later(t + hop_to(e, index, 1), ref->f[cell(e, index, mb, 0)]);
}

/* End of an op that starts no sooner than `clock`; -1 when it cannot start yet. */
static int64_t try_op(const example *e, reference *ref, uint32_t rank, const orr_sched_op *op,
                      int64_t clock) {
    uint32_t i = rank * e->view.spec.vpp + op->chunk, j = rank * e->view.spec.vpp + op->chunk2;
    const orr_durations *d = &e->d;
    int64_t at = clock;
    switch ((orr_sched_op_kind)op->kind) {
    case ORR_SOP_F:
        at = later(at, wait_f(e, ref, i, op->micro_batch));
        return at < 0 ? -1 : (ref->f[cell(e, i, op->micro_batch, 0)] = at + d->f[i]);
    case ORR_SOP_B:
        at = later(at, wait_b(e, ref, i, op->micro_batch));
        return at < 0 ? -1 : (ref->b[cell(e, i, op->micro_batch, 0)] = at + d->b[i]);
    case ORR_SOP_BW:
        at = later(at, wait_b(e, ref, i, op->micro_batch));
        return at < 0 ? -1 : (ref->b[cell(e, i, op->micro_batch, 0)] = at + d->b[i] + d->w[i]);
    case ORR_SOP_W: return at + d->w[i];
    case ORR_SOP_PAIR:
        at = later(at,
                   later(wait_f(e, ref, i, op->micro_batch), wait_b(e, ref, j, op->micro_batch2)));
        if (at < 0) {
            return -1;
        }
        at += d->pair != NULL ? d->pair[i] : d->f[i] + d->b[j] + d->w[j];
        ref->f[cell(e, i, op->micro_batch, 0)] = at;
        ref->b[cell(e, j, op->micro_batch2, 0)] = at;
        return at;
    }
    return -1;
}

static void sweep(const example *e, reference *ref) {
    uint32_t pp = e->spec.pp, left = 0;
    size_t cells = (size_t)pp * e->view.spec.vpp * e->spec.micro_batches * 2;
    ref->f = orr_arena_array(e->arena, cells, sizeof *ref->f);
    ref->b = orr_arena_array(e->arena, cells, sizeof *ref->b);
    ref->rank_end = orr_arena_array(e->arena, pp, sizeof *ref->rank_end);
    memset(ref->f, 0xff, cells * sizeof *ref->f);
    memset(ref->b, 0xff, cells * sizeof *ref->b);
    uint32_t *next = orr_arena_array(e->arena, pp, sizeof *next);
    memcpy(next, e->view.op_first, pp * sizeof *next);
    do {
        uint32_t before = left;
        left = 0;
        for (uint32_t r = 0; r < pp; r++) {
            int64_t end = 0;
            while (next[r] < e->view.op_first[r + 1] &&
                   (end = try_op(e, ref, r, &e->view.op[next[r]], ref->rank_end[r])) >= 0) {
                ref->rank_end[r] = end;
                next[r]++;
            }
            left += e->view.op_first[r + 1] - next[r];
        }
        assert_true(left == 0 || left != before);
    } while (left > 0);
    for (uint32_t r = 0; r < pp; r++) {
        ref->makespan = later(ref->makespan, ref->rank_end[r]);
    }
}

/* ---- properties -------------------------------------------------------------------------------
 */

static orr_play play_of(const example *e, const orr_durations *d, bool full) {
    uint32_t pp = e->spec.pp, chunks = pp * e->view.spec.vpp;
    orr_play play = {.rank_end = orr_arena_array(e->arena, pp, 8),
                     .rank_busy = orr_arena_array(e->arena, pp, 8),
                     .grads_ready = orr_arena_array(e->arena, chunks, 8),
                     .first_use = orr_arena_array(e->arena, chunks, 8)};
    assert_int_equal(orr_order_play(e->order, d, full, e->arena, &play, NULL), ORR_OK);
    return play;
}

static void assert_same_play(const example *e, const orr_play *a, const orr_play *b) {
    uint32_t pp = e->spec.pp, chunks = pp * e->view.spec.vpp;
    assert_int_equal(a->makespan, b->makespan);
    assert_int_equal(a->max_span, b->max_span);
    assert_memory_equal(a->rank_end, b->rank_end, pp * 8);
    assert_memory_equal(a->rank_busy, b->rank_busy, pp * 8);
    assert_memory_equal(a->grads_ready, b->grads_ready, chunks * 8);
    assert_memory_equal(a->first_use, b->first_use, chunks * 8);
}

static void check_against_worklist(const example *e, const orr_play *play) {
    uint32_t ops = e->view.op_first[e->spec.pp], vpp = e->view.spec.vpp;
    int64_t *start = orr_arena_array(e->arena, ops, 8), *end = orr_arena_array(e->arena, ops, 8);
    int64_t *rank_end = orr_arena_array(e->arena, e->spec.pp, 8);
    assert_int_equal(orr_order_times(e->order, &e->d, e->arena, start, end, rank_end, NULL), 0);
    assert_memory_equal(rank_end, play->rank_end, e->spec.pp * 8);
    for (uint32_t r = 0; r < e->spec.pp; r++) {
        for (uint32_t c = 0; c < vpp; c++) {
            int64_t first = INT64_MAX, last = 0;
            for (uint32_t i = e->view.op_first[r]; i < e->view.op_first[r + 1]; i++) {
                const orr_sched_op *op = &e->view.op[i];
                bool pair = op->kind == ORR_SOP_PAIR;
                if ((op->kind == ORR_SOP_F || pair) && op->chunk == c && start[i] < first) {
                    first = start[i];
                }
                bool ends = op->kind == ORR_SOP_W || op->kind == ORR_SOP_BW || pair;
                if (ends && (pair ? op->chunk2 : op->chunk) == c && end[i] > last) {
                    last = end[i];
                }
            }
            assert_int_equal(play->first_use[r * vpp + c], first);
            assert_int_equal(play->grads_ready[r * vpp + c], last);
        }
    }
}

static void check_scaling(example *e, const orr_play *play) {
    uint32_t chunks = e->spec.pp * e->spec.vpp;
    const int64_t *from[] = {e->d.f, e->d.b, e->d.w, e->d.pair, e->d.hop};
    int64_t *scaled[5] = {0};
    for (int k = 0; k < 5; k++) {
        uint32_t count = k == 4 ? e->spec.pp : chunks;
        for (uint32_t i = 0; i < count && from[k] != NULL; i++) {
            scaled[k] = scaled[k] != NULL ? scaled[k] : orr_arena_array(e->arena, count, 8);
            scaled[k][i] = 1000003 * from[k][i];
        }
    }
    orr_durations d = {
        .f = scaled[0], .b = scaled[1], .w = scaled[2], .pair = scaled[3], .hop = scaled[4]};
    assert_int_equal(play_of(e, &d, false).makespan, 1000003 * play->makespan);
}

/* ---- in-flight vectors ------------------------------------------------------------------------
 */

typedef struct moment {
    uint8_t event;
    uint16_t chunk, pending;
    uint16_t count[8];
} moment;

static bool covered(const orr_live *by, const moment *m, uint32_t vpp) {
    bool covers = by->event == m->event && by->chunk == m->chunk && by->pending_w >= m->pending;
    for (uint32_t c = 0; c < vpp && covers; c++) {
        covers = by->count[c] >= m->count[c];
    }
    return covers;
}

static void check_moment(const example *e, uint32_t rank, const moment *m, bool *attained) {
    bool found = false;
    uint32_t vpp = e->view.spec.vpp;
    for (uint32_t k = e->view.live_first[rank]; k < e->view.live_first[rank + 1]; k++) {
        const orr_live *live = &e->view.live[k];
        if (covered(live, m, vpp)) {
            found = true;
            attained[k] = attained[k] || (live->pending_w == m->pending &&
                                          memcmp(live->count, m->count, vpp * 2) == 0);
        }
    }
    assert_true(found);
}

/* Every moment of a rank is covered by a vector, and every vector is attained and covered by no
 * other. */
static void check_live(const example *e) {
    uint32_t vpp = e->view.spec.vpp, all = e->view.live_first[e->spec.pp];
    bool *attained = orr_arena_array(e->arena, all, sizeof *attained);
    for (uint32_t r = 0; r < e->spec.pp; r++) {
        moment m = {0};
        for (uint32_t i = e->view.op_first[r]; i < e->view.op_first[r + 1]; i++) {
            const orr_sched_op *op = &e->view.op[i];
            bool pair = op->kind == ORR_SOP_PAIR, f = op->kind == ORR_SOP_F || pair;
            uint16_t back = pair ? op->chunk2 : op->chunk;
            m.count[op->chunk] = (uint16_t)(m.count[op->chunk] + f);
            if (f) {
                m.event = ORR_SOP_F;
                m.chunk = op->chunk;
                check_moment(e, r, &m, attained);
            }
            if (op->kind != ORR_SOP_F) {
                m.event = pair ? ORR_SOP_BW : op->kind;
                m.chunk = back;
                check_moment(e, r, &m, attained);
                m.count[back] = (uint16_t)(m.count[back] - (op->kind != ORR_SOP_W));
                m.pending =
                    (uint16_t)(m.pending + (op->kind == ORR_SOP_B) - (op->kind == ORR_SOP_W));
            }
        }
        for (uint32_t k = e->view.live_first[r]; k < e->view.live_first[r + 1]; k++) {
            const orr_live *live = &e->view.live[k];
            assert_true(attained[k]);
            for (uint32_t j = e->view.live_first[r]; j < e->view.live_first[r + 1]; j++) {
                moment other = {live->event, live->chunk, live->pending_w, {0}};
                memcpy(other.count, live->count, vpp * 2);
                assert_true(j == k || !covered(&e->view.live[j], &other, vpp));
            }
        }
    }
}

static void engine_equals_reference(void **state) {
    (void)state;
    orr_rng rng = {20240607};
    uint32_t made = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        example e = {.arena = orr_arena_new()};
        if (make_example(&e, &rng)) {
            made++;
            orr_play full = play_of(&e, &e.d, true), cut = play_of(&e, &e.d, false);
            assert_same_play(&e, &full, &cut);
            check_against_worklist(&e, &full);
            if (e.spec.p2p == ORR_P2P_ASYNC) {
                reference ref = {0};
                sweep(&e, &ref);
                assert_int_equal(full.makespan, ref.makespan);
                assert_memory_equal(full.rank_end, ref.rank_end, e.spec.pp * 8);
            }
            assert_true(orr_schedule_bound(&e.spec, &e.d) <= full.makespan);
            check_scaling(&e, &full);
            check_live(&e);
        }
        orr_arena_free(e.arena);
    }
    assert_true(made > 1500);
}

/* Long runs, where cutting pays: the cut result is the full one to the picosecond. */
static void cut_equals_full(void **state) {
    (void)state;
    orr_rng rng = {77};
    for (uint32_t i = 0; i < 300; i++) {
        example e = {.arena = orr_arena_new()};
        random_spec(&e, &rng);
        if (e.spec.kind != ORR_SCHEDULE_V_ADAPTIVE) {
            e.spec.micro_batches = 2 * e.spec.pp * (4 + orr_rng_below(&rng, 30));
        }
        e.spec.group = 0;
        random_durations(&e, &rng);
        if (orr_order_build(e.arena, &e.spec, &e.d, &e.order, NULL) == ORR_OK) {
            e.view = orr_order_look(e.order);
            orr_play full = play_of(&e, &e.d, true), cut = play_of(&e, &e.d, false);
            assert_same_play(&e, &full, &cut);
            check_live(&e);
        }
        orr_arena_free(e.arena);
    }
}

static void assert_same_live(const orr_order_view *a, const orr_order_view *b) {
    uint32_t pp = a->spec.pp, vpp = a->spec.vpp;
    assert_memory_equal(a->live_first, b->live_first, (pp + 1) * sizeof *a->live_first);
    for (uint32_t i = 0; i < a->live_first[pp]; i++) {
        assert_int_equal(a->live[i].event, b->live[i].event);
        assert_int_equal(a->live[i].chunk, b->live[i].chunk);
        assert_int_equal(a->live[i].pending_w, b->live[i].pending_w);
        assert_memory_equal(a->live[i].count, b->live[i].count, vpp * sizeof *a->live[i].count);
    }
}

static uint32_t period_of(const orr_schedule_spec *spec) {
    bool loop = spec->kind == ORR_SCHEDULE_INTERLEAVED || spec->kind == ORR_SCHEDULE_INTERLEAVED_ZB;
    return loop ? orr_order_resolve(spec).group : 1;
}

static void random_long_spec(example *e, orr_rng *rng) {
    static const uint8_t kinds[] = {
        ORR_SCHEDULE_1F1B, ORR_SCHEDULE_INTERLEAVED,    ORR_SCHEDULE_ZB_H1, ORR_SCHEDULE_ZB_H2,
        ORR_SCHEDULE_ZBV,  ORR_SCHEDULE_INTERLEAVED_ZB, ORR_SCHEDULE_GPIPE};
    do {
        random_spec(e, rng);
        e->spec.kind = kinds[orr_rng_below(rng, sizeof kinds)];
        e->spec.pp = 1 + orr_rng_below(rng, 12);
        uint32_t vpp = orr_schedule_fixed_vpp((orr_schedule_kind)e->spec.kind);
        e->spec.vpp = vpp != 0 ? vpp : e->spec.vpp;
        e->spec.micro_batches = 1 + orr_rng_below(rng, 20 * e->spec.pp);
        if (e->spec.kind == ORR_SCHEDULE_INTERLEAVED && orr_rng_below(rng, 2)) {
            e->spec.group = e->spec.pp + orr_rng_below(rng, 4);
        }
    } while (orr_schedule_check(&e->spec, NULL, 0) != 0);
}

static void check_same(const example *whole, const example *brief) {
    const orr_durations *d = &whole->d;
    orr_play want = play_of(whole, d, true);
    orr_play full = play_of(brief, d, true), cut = play_of(brief, d, false);
    assert_memory_equal(&brief->view.spec, &whole->view.spec, sizeof whole->view.spec);
    assert_same_play(whole, &want, &full);
    assert_same_play(whole, &want, &cut);
    assert_same_live(&whole->view, &brief->view);
}

/* An order made from a short run is the whole one, for times and for memory, however short the run
 * that was accepted. */
static void brief_equals_whole(void **state) {
    (void)state;
    orr_rng rng = {4711};
    uint32_t brief = 0, shorter = 0;
    for (uint32_t i = 0; i < 1500; i++) {
        example e = {.arena = orr_arena_new()};
        random_long_spec(&e, &rng);
        random_durations(&e, &rng);
        example whole = e;
        assert_int_equal(orr_order_build(e.arena, &e.spec, &e.d, &whole.order, NULL), ORR_OK);
        assert_int_equal(orr_order_build_brief(e.arena, &e.spec, &e.d, &e.order, NULL), ORR_OK);
        whole.view = orr_order_look(whole.order);
        e.view = orr_order_look(e.order);
        brief += e.view.op == NULL;
        check_same(&whole, &e);
        orr_order_view ops;
        assert_int_equal(orr_order_ops(e.order, e.arena, &ops, NULL), ORR_OK);
        assert_memory_equal(ops.op_first, whole.view.op_first, (e.spec.pp + 1) * 4);
        uint32_t period = period_of(&e.spec), most = (e.spec.micro_batches - 1) / period;
        uint32_t less = most == 0 ? 0 : period * (1 + orr_rng_below(&rng, most));
        if (less != 0 && e.spec.kind != ORR_SCHEDULE_GPIPE &&
            orr_order_build_run(e.arena, &e.spec, less, &e.d, &e.order, NULL) == ORR_OK) {
            shorter++;
            e.view = orr_order_look(e.order);
            check_same(&whole, &e);
        }
        orr_arena_free(e.arena);
    }
    assert_true(brief > 500 && shorter > 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_equals_reference),
        cmocka_unit_test(cut_equals_full),
        cmocka_unit_test(brief_equals_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
