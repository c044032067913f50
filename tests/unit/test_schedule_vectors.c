/* Replays recorded schedules: order, makespan, spans, peaks and op times must be equal. A few
 * vectors lie in tests/data/schedules; the whole set, when it is beside the checkout, is replayed
 * too. Vectors: op orders of Megatron-LM, zero-bubble, DualPipe, PyTorch and Primus code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "schedule/schedule.h"

/* Vector times to integers: fine enough that rounding stays below 1e-9 of any makespan. */
static const double SCALE = 1e12;

typedef struct vector {
    json_t *root;
    orr_schedule_spec spec;
    orr_durations d;
    orr_arena *arena;
    double scale;
} vector;

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}
static uint32_t count_of(const json_t *object, const char *key) {
    return (uint32_t)json_integer_value(json_object_get(object, key));
}

static int64_t *times_of(vector *v, const char *key) {
    json_t *rows = json_object_get(json_object_get(v->root, "durations"), key);
    uint32_t vpp = v->spec.vpp;
    int64_t *out = orr_arena_array(v->arena, (size_t)v->spec.pp * vpp, sizeof *out);
    for (uint32_t r = 0; r < v->spec.pp && rows != NULL; r++) {
        for (uint32_t c = 0; c < vpp; c++) {
            double t = json_number_value(json_array_get(json_array_get(rows, r), c));
            out[r * vpp + c] = llround(t * v->scale);
        }
    }
    return out;
}

static void read_durations(vector *v) {
    json_t *durations = json_object_get(v->root, "durations");
    json_t *factor = json_object_get(durations, "overlap_pair_factor");
    double makespan =
        json_number_value(json_object_get(json_object_get(v->root, "expected"), "makespan"));
    v->scale = makespan > 1000 ? SCALE / 1e4 : SCALE / 100;
    int64_t *f = times_of(v, "f"), *b = times_of(v, "b_input"), *w = times_of(v, "w");
    v->d = (orr_durations){.f = f, .b = b, .w = w};
    if (json_is_number(factor)) {
        uint32_t chunks = v->spec.pp * v->spec.vpp;
        int64_t *pair = orr_arena_array(v->arena, chunks, sizeof *pair);
        for (uint32_t i = 0; i < chunks; i++) {
            pair[i] = llround(json_number_value(factor) * (double)(f[i] + b[i] + w[i]));
        }
        v->d.pair = pair;
    }
    int64_t *hop = orr_arena_array(v->arena, v->spec.pp, sizeof *hop);
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        hop[r] =
            llround(json_number_value(json_object_get(json_object_get(v->root, "p2p"), "latency")) *
                    v->scale);
    }
    v->d.hop = hop;
}

static uint8_t mode_of(const vector *v) {
    const char *mode = text_of(json_object_get(v->root, "p2p"), "mode");
    json_t *options = json_object_get(v->root, "options");
    if (strcmp(mode, "async") == 0) {
        return ORR_P2P_ASYNC;
    }
    if (strcmp(mode, "blocking_rendezvous") == 0) {
        return ORR_P2P_BLOCKING;
    }
    return json_is_true(json_object_get(options, "overlap_p2p_comm_warmup_flush"))
               ? ORR_P2P_OVERLAP_WARMUP_FLUSH
               : ORR_P2P_OVERLAP;
}

static void read_options(vector *v) {
    json_t *options = json_object_get(v->root, "options");
    uint32_t group = count_of(options, "microbatch_group_size_per_vp_stage");
    v->spec.group = group != 0 ? group : count_of(options, "microbatches_per_round");
    v->spec.ep_overlap = json_is_true(json_object_get(options, "overlap_moe_expert_parallel_comm"));
}

static bool read_vector(vector *v, const char *path) {
    json_error_t error;
    v->root = json_load_file(path, 0, &error);
    if (!json_is_object(v->root)) {
        json_decref(v->root);
        return false;
    }
    orr_schedule_kind kind;
    if (!orr_schedule_find(text_of(v->root, "schedule"), &kind)) {
        fail_msg("%s: unknown schedule %s", path, text_of(v->root, "schedule"));
    }
    v->spec = (orr_schedule_spec){.kind = (uint8_t)kind,
                                  .pp = count_of(v->root, "pp"),
                                  .vpp = count_of(v->root, "vpp"),
                                  .micro_batches = count_of(v->root, "microbatches")};
    v->spec.p2p = mode_of(v);
    read_options(v);
    read_durations(v);
    return true;
}

static bool near(const vector *v, int64_t got, const json_t *want) {
    double expected = json_number_value(want) * v->scale;
    return fabs((double)got - expected) <= 1e-9 * fmax(fabs(expected), v->scale);
}

/* ---- comparing; each returns what differs, or NULL ---------------------------------------------
 */

static const char *compare_order(const vector *v, const orr_order_view *view) {
    json_t *ranks = json_object_get(v->root, "order");
    for (uint32_t r = 0; r < view->spec.pp; r++) {
        json_t *ops = json_array_get(ranks, r);
        uint32_t first = view->op_first[r], count = view->op_first[r + 1] - first;
        if (json_array_size(ops) != count) {
            return "number of ops";
        }
        for (uint32_t i = 0; i < count; i++) {
            char name[ORR_SCHED_OP_TEXT];
            orr_sched_op_format(&view->op[first + i], name);
            if (strcmp(name, json_string_value(json_array_get(ops, i))) != 0) {
                return orr_arena_format(v->arena, "rank %u op %u is %s, expected %s", r, i, name,
                                        json_string_value(json_array_get(ops, i)));
            }
        }
    }
    return NULL;
}

static const char *compare_placement(const vector *v, const orr_order_view *view) {
    json_t *positions = json_object_get(v->root, "stage_position");
    json_t *pipes = json_object_get(v->root, "stage_pipe");
    for (uint32_t r = 0, i = 0; r < view->spec.pp; r++) {
        for (uint32_t c = 0; c < view->spec.vpp; c++, i++) {
            json_t *p = json_array_get(json_array_get(positions, r), c);
            json_t *pipe = json_array_get(json_array_get(pipes, r), c);
            if (json_integer_value(p) != view->position[i] ||
                json_integer_value(pipe) != view->chain[i]) {
                return "placement";
            }
        }
    }
    return NULL;
}

static const char *compare_play(const vector *v, const orr_play *play, uint32_t pp) {
    json_t *expected = json_object_get(v->root, "expected");
    if (!near(v, play->makespan, json_object_get(expected, "makespan"))) {
        return orr_arena_format(v->arena, "makespan %.9g, expected %.9g",
                                (double)play->makespan / v->scale,
                                json_number_value(json_object_get(expected, "makespan")));
    }
    if (!near(v, play->max_span, json_object_get(expected, "max_rank_span"))) {
        return "longest span";
    }
    for (uint32_t r = 0; r < pp; r++) {
        if (!near(v, play->rank_end[r], json_array_get(json_object_get(expected, "rank_end"), r))) {
            return "rank ends";
        }
        if (!near(v, play->rank_busy[r],
                  json_array_get(json_object_get(expected, "rank_busy"), r))) {
            return "busy time";
        }
    }
    return NULL;
}

static const char *compare_times(const vector *v, const orr_order *order, orr_play *play) {
    orr_order_view view = orr_order_look(order);
    uint32_t ops = view.op_first[view.spec.pp];
    int64_t *start = orr_arena_array(v->arena, ops, sizeof *start);
    int64_t *end = orr_arena_array(v->arena, ops, sizeof *end);
    int64_t *rank_end = orr_arena_array(v->arena, view.spec.pp, sizeof *rank_end);
    if (orr_order_times(order, &v->d, v->arena, start, end, rank_end, NULL) != ORR_OK) {
        return "the worklist fails";
    }
    for (uint32_t r = 0; r < view.spec.pp; r++) {
        if (rank_end[r] != play->rank_end[r]) {
            return "worklist and compiled play differ";
        }
        json_t *times = json_array_get(json_object_get(v->root, "op_times"), r);
        for (uint32_t i = 0; i < json_array_size(times); i++) {
            json_t *both = json_array_get(times, i);
            uint32_t k = view.op_first[r] + i;
            if (!near(v, start[k], json_array_get(both, 0)) ||
                !near(v, end[k], json_array_get(both, 1))) {
                return orr_arena_format(v->arena, "time of op %u on rank %u", i, r);
            }
        }
    }
    return NULL;
}

static const char *compare_peaks(const vector *v, const orr_order *order) {
    uint32_t pp = v->spec.pp;
    json_t *expected = json_object_get(v->root, "peak_in_flight");
    orr_peaks peaks = {orr_arena_array(v->arena, pp, 4), orr_arena_array(v->arena, pp, 4),
                       orr_arena_array(v->arena, pp, 4)};
    orr_order_peaks(order, &peaks);
    for (uint32_t r = 0; r < pp; r++) {
        if (json_integer_value(json_array_get(json_object_get(expected, "until_W"), r)) !=
                peaks.until_w[r] ||
            json_integer_value(json_array_get(json_object_get(expected, "until_B"), r)) !=
                peaks.until_b[r] ||
            json_integer_value(json_array_get(json_object_get(expected, "pending_W"), r)) !=
                peaks.pending_w[r]) {
            return orr_arena_format(v->arena, "peaks of rank %u", r);
        }
    }
    return NULL;
}

static const char *play_both(vector *v, const orr_order *order, orr_play *play) {
    uint32_t pp = v->spec.pp;
    play->rank_end = orr_arena_array(v->arena, pp, 8);
    play->rank_busy = orr_arena_array(v->arena, pp, 8);
    orr_err err = {0};
    if (orr_order_play(order, &v->d, true, v->arena, play, &err) != ORR_OK) {
        return orr_arena_format(v->arena, "%s", err.message);
    }
    orr_play cut = {0};
    if (orr_order_play(order, &v->d, false, v->arena, &cut, NULL) != ORR_OK ||
        cut.makespan != play->makespan || cut.max_span != play->max_span) {
        return "cut and full play differ";
    }
    return NULL;
}

static const char *compare_order_of(vector *v, const orr_order *order) {
    orr_order_view view = orr_order_look(order);
    orr_play play = {0};
    const char *wrong = compare_placement(v, &view);
    wrong = wrong != NULL ? wrong : compare_order(v, &view);
    wrong = wrong != NULL ? wrong : play_both(v, order, &play);
    wrong = wrong != NULL ? wrong : compare_play(v, &play, v->spec.pp);
    wrong = wrong != NULL ? wrong : compare_times(v, order, &play);
    return wrong != NULL ? wrong : compare_peaks(v, order);
}

/* The same vector with its own op lists instead of generated ones. */
static const char *replay_given(vector *v) {
    uint32_t pp = v->spec.pp, vpp = v->spec.vpp, used = 0;
    json_t *ranks = json_object_get(v->root, "order");
    orr_sched_op *op =
        orr_arena_array(v->arena, 3ul * pp * vpp * v->spec.micro_batches, sizeof *op);
    uint32_t *first = orr_arena_array(v->arena, pp + 1, sizeof *first);
    uint32_t *position = orr_arena_array(v->arena, (size_t)pp * vpp, sizeof *position);
    uint8_t *chain = orr_arena_array(v->arena, (size_t)pp * vpp, 1);
    for (uint32_t r = 0; r < pp; r++) {
        for (uint32_t i = 0; i < json_array_size(json_array_get(ranks, r)); i++) {
            json_t *name = json_array_get(json_array_get(ranks, r), i);
            assert_int_equal(orr_sched_op_parse(json_string_value(name), &op[used++], NULL), 0);
        }
        first[r + 1] = used;
        for (uint32_t c = 0; c < vpp; c++) {
            json_t *rows = json_object_get(v->root, "stage_position");
            position[r * vpp + c] =
                (uint32_t)json_integer_value(json_array_get(json_array_get(rows, r), c));
            rows = json_object_get(v->root, "stage_pipe");
            chain[r * vpp + c] =
                (uint8_t)json_integer_value(json_array_get(json_array_get(rows, r), c));
        }
    }
    const orr_order *order;
    orr_err err = {0};
    orr_user_ops given = {.position = position, .op_first = first, .chain = chain, .op = op};
    if (orr_order_from_ops(v->arena, &v->spec, &given, &order, &err) != ORR_OK) {
        return orr_arena_format(v->arena, "given ops: %s", err.message);
    }
    const char *wrong =
        v->spec.p2p == ORR_P2P_ASYNC ? compare_order_of(v, order) : compare_peaks(v, order);
    return wrong == NULL ? NULL : orr_arena_format(v->arena, "given ops: %s", wrong);
}

static const char not_made[] = "no generator yet";

static const char *compare_vector(vector *v) {
    const orr_order *order;
    orr_err err = {0};
    if (orr_order_build(v->arena, &v->spec, &v->d, &order, &err) != ORR_OK) {
        return err.status == ORR_E_USAGE ? not_made : orr_arena_format(v->arena, "%s", err.message);
    }
    return compare_order_of(v, order);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void replay_folder(const char *folder) {
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        skip();
    }
    orr_arena *names = orr_arena_new();
    char *name[512];
    size_t count = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL && count < 512;) {
        if (strstr(e->d_name, ".json") != NULL) {
            name[count++] = orr_arena_text(names, e->d_name);
        }
    }
    closedir(dir);
    qsort(name, count, sizeof *name, compare_names);
    uint32_t replayed = 0, failed = 0;
    for (size_t i = 0; i < count; i++) {
        vector v = {.arena = orr_arena_new()};
        if (read_vector(&v, orr_arena_format(names, "%s/%s", folder, name[i]))) {
            const char *wrong = compare_vector(&v);
            wrong = wrong != NULL && wrong != not_made ? wrong : replay_given(&v);
            replayed++;
            if (wrong != NULL) {
                failed++;
                print_message("%s: %s\n", name[i], wrong);
            }
            json_decref(v.root);
        }
        orr_arena_free(v.arena);
    }
    orr_arena_free(names);
    print_message("%s: %u of %u vectors exact\n", folder, replayed - failed, replayed);
    assert_int_not_equal(replayed, 0);
    assert_int_equal(failed, 0);
}

static void vectors_kept_here(void **state) {
    (void)state;
    replay_folder(ORR_TEST_DIR "/data/schedules");
}

static void vectors_beside_the_checkout(void **state) {
    (void)state;
    replay_folder(ORR_SHARED_DIR "/truth/schedules");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_kept_here),
        cmocka_unit_test(vectors_beside_the_checkout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
