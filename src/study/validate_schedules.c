/* Recorded schedules against the library's own: op order, placement, exact times, spans, peaks. A
 * vector states op lists that a framework's code produced and what a simulator made of them; the
 * order is built anew and must be the same, then played. Format: tests/data/schedules. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/os_file.h"
#include "doc/doc.h"
#include "study/study_int.h"

enum { MAX_FILES = 8192, MAX_VECTOR_OPS = 1 << 22 };
static const double EXACT_FRAC = 1e-9;

typedef struct vector {
    const orr_tree *root, *expected, *options;
    orr_arena *arena;
    orr_schedule_spec spec;
    orr_durations d;
    double scale; /* integer time units of one unit of the vector */
} vector;

static double number_of(const orr_tree *map, const char *key) {
    return orr_tree_real(orr_tree_get(map, key), 0);
}

static uint32_t count_of(const orr_tree *map, const char *key) {
    double value = number_of(map, key);
    return value > 0 && value < 4e9 ? (uint32_t)value : 0;
}

static bool flag_of(const orr_tree *map, const char *key) {
    return orr_tree_bool(orr_tree_get(map, key), false);
}

/* An entry of a table [rank][chunk]. */
static const orr_tree *cell(const orr_tree *rows, uint32_t rank, uint32_t chunk) {
    return orr_tree_at(orr_tree_at(rows, rank), chunk);
}

/* ---- reading a vector ----------------------------------------------------------------------- */

static int64_t *times_of(const vector *v, const char *key) {
    const orr_tree *rows = orr_tree_path(v->root, key);
    uint32_t vpp = v->spec.vpp;
    int64_t *out = ORR_NEW_ARRAY(v->arena, int64_t, (size_t)v->spec.pp * vpp);
    for (uint32_t r = 0; r < v->spec.pp && rows != NULL; r++) {
        for (uint32_t c = 0; c < vpp; c++) {
            out[r * vpp + c] = llround(orr_tree_real(cell(rows, r, c), 0) * v->scale);
        }
    }
    return out;
}

/* Fine enough that decimals of the vectors stay exact and rounding stays below 1e-9 of the step. */
static double choose_scale(double makespan) {
    return makespan > 1000 ? 1e8 : 1e10;
}

static void read_durations(vector *v) {
    const orr_tree *factor = orr_tree_path(v->root, "durations.overlap_pair_factor");
    v->scale = choose_scale(number_of(v->expected, "makespan"));
    int64_t *f = times_of(v, "durations.f"), *b = times_of(v, "durations.b_input");
    int64_t *w = times_of(v, "durations.w");
    uint32_t chunks = v->spec.pp * v->spec.vpp;
    int64_t *hop = ORR_NEW_ARRAY(v->arena, int64_t, v->spec.pp);
    v->d = (orr_durations){.f = f, .b = b, .w = w, .hop = hop, .unit_ps = v->scale};
    if (factor != NULL && orr_tree_kind_of(factor) != ORR_TREE_NULL) {
        int64_t *pair = ORR_NEW_ARRAY(v->arena, int64_t, chunks);
        for (uint32_t i = 0; i < chunks; i++) {
            pair[i] = llround(orr_tree_real(factor, 1) * (double)(f[i] + b[i] + w[i]));
        }
        v->d.pair = pair;
    }
    double latency = orr_tree_real(orr_tree_path(v->root, "p2p.latency"), 0);
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        hop[r] = llround(latency * v->scale);
    }
}

static uint8_t mode_of(const vector *v) {
    const char *mode = orr_tree_text(orr_tree_path(v->root, "p2p.mode"), "async");
    if (strcmp(mode, "blocking_rendezvous") == 0) {
        return ORR_P2P_BLOCKING;
    }
    if (strcmp(mode, "overlap_rendezvous") == 0) {
        return flag_of(v->options, "overlap_p2p_comm_warmup_flush") ? ORR_P2P_OVERLAP_WARMUP_FLUSH
                                                                    : ORR_P2P_OVERLAP;
    }
    return ORR_P2P_ASYNC;
}

static void read_options(vector *v) {
    const orr_tree *options = v->options;
    uint32_t group = count_of(options, "microbatch_group_size_per_vp_stage");
    uint32_t chunks = count_of(options, "max_mem_chunks");
    group = group != 0 ? group : count_of(options, "microbatches_per_round");
    v->spec.group = group != 0 ? group : count_of(options, "group_size");
    v->spec.least_group = count_of(options, "min_group_size");
    v->spec.memory_limit = chunks != 0 ? chunks : count_of(options, "max_mem");
    v->spec.memory_f = count_of(options, "mem_f");
    v->spec.memory_b = (uint32_t)fmax(0, -number_of(options, "mem_b"));
    v->spec.memory_w = (uint32_t)fmax(0, -number_of(options, "mem_w"));
    v->spec.ep_overlap = flag_of(options, "overlap_moe_expert_parallel_comm");
    v->spec.p2p = mode_of(v);
}

static const char *read_vector(vector *v) {
    const char *name = orr_tree_text(orr_tree_get(v->root, "schedule"), "");
    orr_schedule_kind kind;
    v->expected = orr_tree_get(v->root, "expected");
    v->options = orr_tree_get(v->root, "options");
    if (!orr_schedule_find(name, &kind)) {
        return orr_arena_format(v->arena, "unknown schedule '%s'", name);
    }
    v->spec = (orr_schedule_spec){.kind = (uint8_t)kind,
                                  .pp = count_of(v->root, "pp"),
                                  .vpp = count_of(v->root, "vpp"),
                                  .micro_batches = count_of(v->root, "microbatches")};
    if (v->spec.pp == 0 || v->spec.pp > ORR_MAX_PP || v->spec.vpp == 0 ||
        v->spec.vpp > ORR_MAX_VPP || v->spec.micro_batches == 0 ||
        v->spec.micro_batches > ORR_MAX_MICRO_BATCHES ||
        3ull * v->spec.pp * v->spec.vpp * v->spec.micro_batches > MAX_VECTOR_OPS) {
        return "pp, vpp or microbatches out of range";
    }
    read_options(v);
    read_durations(v);
    return NULL;
}

/* ---- comparing: each says what differs, or NULL --------------------------------------------- */

static bool near(const vector *v, double got, const orr_tree *want) {
    double expected = orr_tree_real(want, NAN) * v->scale;
    return fabs(got - expected) <= EXACT_FRAC * fmax(fabs(expected), v->scale);
}

static const char *compare_order(const vector *v, const orr_order_view *view) {
    const orr_tree *ranks = orr_tree_get(v->root, "order");
    for (uint32_t r = 0; r < view->spec.pp; r++) {
        const orr_tree *ops = orr_tree_at(ranks, r);
        uint32_t first = view->op_first[r], count = view->op_first[r + 1] - first;
        if (orr_tree_size(ops) != count) {
            return orr_arena_format(v->arena, "rank %u has %u ops, expected %zu", r, count,
                                    orr_tree_size(ops));
        }
        for (uint32_t i = 0; i < count; i++) {
            const char *want = orr_tree_text(orr_tree_at(ops, i), "?");
            char name[ORR_SCHED_OP_TEXT];
            orr_sched_op_format(&view->op[first + i], name);
            if (strcmp(name, want) != 0) {
                return orr_arena_format(v->arena, "rank %u op %u is %s, expected %s", r, i, name,
                                        want);
            }
        }
    }
    return NULL;
}

static const char *compare_placement(const vector *v, const orr_order_view *view) {
    const orr_tree *positions = orr_tree_get(v->root, "stage_position");
    const orr_tree *chains = orr_tree_get(v->root, "stage_pipe");
    for (uint32_t r = 0, i = 0; r < view->spec.pp; r++) {
        for (uint32_t c = 0; c < view->spec.vpp; c++, i++) {
            if (orr_tree_int(cell(positions, r, c), -1) != view->position[i] ||
                orr_tree_int(cell(chains, r, c), 0) != view->chain[i]) {
                return orr_arena_format(v->arena, "place of chunk %u on rank %u", c, r);
            }
        }
    }
    return NULL;
}

static const char *compare_shares(const vector *v, const orr_play *play) {
    const orr_tree *idle = orr_tree_get(v->expected, "idle_fraction");
    double busy = 0, all = (double)play->makespan * v->spec.pp;
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        busy += (double)play->rank_busy[r];
    }
    if (idle != NULL && !(fabs(1 - busy / all - orr_tree_real(idle, NAN)) <= EXACT_FRAC)) {
        return orr_arena_format(v->arena, "idle fraction %.9g, expected %.9g", 1 - busy / all,
                                orr_tree_real(idle, 0));
    }
    return NULL;
}

/* A closed form gives the makespan or the longest span of a rank. It is compared where the vector
 * says that it holds for its own simulator's figure; some bound a span that a vector prints. */
static const char *compare_closed_form(const vector *v, const orr_play *play) {
    const orr_tree *form = orr_tree_get(v->root, "closed_form");
    if (!flag_of(form, "holds")) {
        return NULL;
    }
    bool span = strcmp(orr_tree_text(orr_tree_get(form, "of"), ""), "span") == 0;
    double got = (double)(span ? play->max_span : play->makespan);
    return near(v, got, orr_tree_get(form, "value"))
               ? NULL
               : orr_arena_format(v->arena, "closed form %s",
                                  orr_tree_text(orr_tree_get(form, "formula"), ""));
}

static const char *compare_play(const vector *v, const orr_play *play) {
    const orr_tree *ends = orr_tree_get(v->expected, "rank_end");
    const orr_tree *busy = orr_tree_get(v->expected, "rank_busy");
    const struct {
        const char *key;
        int64_t got;
    } whole[] = {{"makespan", play->makespan}, {"max_rank_span", play->max_span}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        const orr_tree *want = orr_tree_get(v->expected, whole[i].key);
        if (!near(v, (double)whole[i].got, want)) {
            return orr_arena_format(v->arena, "%s %.9g, expected %.9g", whole[i].key,
                                    (double)whole[i].got / v->scale, orr_tree_real(want, NAN));
        }
    }
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        if (!near(v, (double)play->rank_end[r], orr_tree_at(ends, r)) ||
            !near(v, (double)play->rank_busy[r], orr_tree_at(busy, r))) {
            return orr_arena_format(v->arena, "end or busy time of rank %u", r);
        }
    }
    const char *wrong = compare_shares(v, play);
    return wrong != NULL ? wrong : compare_closed_form(v, play);
}

static const char *compare_times(const vector *v, const orr_order *order, const orr_play *play) {
    orr_order_view view = orr_order_look(order);
    uint32_t ops = view.op_first[view.spec.pp];
    int64_t *start = ORR_NEW_ARRAY(v->arena, int64_t, ops);
    int64_t *end = ORR_NEW_ARRAY(v->arena, int64_t, ops);
    int64_t *rank_end = ORR_NEW_ARRAY(v->arena, int64_t, view.spec.pp);
    if (orr_order_times(order, &v->d, v->arena, start, end, rank_end, NULL) != ORR_OK) {
        return "the worklist fails";
    }
    for (uint32_t r = 0; r < view.spec.pp; r++) {
        if (rank_end[r] != play->rank_end[r]) {
            return "worklist and compiled play differ";
        }
        const orr_tree *times = orr_tree_at(orr_tree_get(v->root, "op_times"), r);
        for (uint32_t i = 0; i < orr_tree_size(times); i++) {
            uint32_t k = view.op_first[r] + i;
            if (k >= view.op_first[r + 1] || !near(v, (double)start[k], cell(times, i, 0)) ||
                !near(v, (double)end[k], cell(times, i, 1))) {
                return orr_arena_format(v->arena, "time of op %u on rank %u", i, r);
            }
        }
    }
    return NULL;
}

static const char *compare_peaks(const vector *v, const orr_order *order) {
    uint32_t pp = v->spec.pp;
    orr_peaks peaks = {ORR_NEW_ARRAY(v->arena, uint32_t, pp), ORR_NEW_ARRAY(v->arena, uint32_t, pp),
                       ORR_NEW_ARRAY(v->arena, uint32_t, pp)};
    const struct {
        const char *key;
        const uint32_t *got;
    } kinds[] = {
        {"until_W", peaks.until_w}, {"until_B", peaks.until_b}, {"pending_W", peaks.pending_w}};
    const orr_tree *expected = orr_tree_get(v->root, "peak_in_flight");
    orr_order_peaks(order, &peaks);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && expected != NULL; k++) {
        for (uint32_t r = 0; r < pp; r++) {
            const orr_tree *want = orr_tree_at(orr_tree_get(expected, kinds[k].key), r);
            if (orr_tree_int(want, -1) != kinds[k].got[r]) {
                return orr_arena_format(v->arena, "%s of rank %u is %u", kinds[k].key, r,
                                        kinds[k].got[r]);
            }
        }
    }
    return NULL;
}

/* The whole play, the play cut at its period, and the bound. */
static const char *play_all(const vector *v, const orr_order *order, orr_play *play) {
    orr_err err = {0};
    orr_play cut = {0};
    play->rank_end = ORR_NEW_ARRAY(v->arena, int64_t, v->spec.pp);
    play->rank_busy = ORR_NEW_ARRAY(v->arena, int64_t, v->spec.pp);
    if (orr_order_play(order, &v->d, true, v->arena, play, &err) != ORR_OK) {
        return orr_arena_text(v->arena, err.message);
    }
    if (orr_order_play(order, &v->d, false, v->arena, &cut, NULL) != ORR_OK ||
        cut.makespan != play->makespan || cut.max_span != play->max_span) {
        return "cut and full play differ";
    }
    return NULL;
}

static const char *compare_built(const vector *v, const orr_order *order) {
    orr_order_view view = orr_order_look(order);
    orr_play play = {0};
    const char *wrong = compare_placement(v, &view);
    wrong = wrong != NULL ? wrong : compare_order(v, &view);
    wrong = wrong != NULL ? wrong : play_all(v, order, &play);
    wrong = wrong != NULL ? wrong : compare_play(v, &play);
    wrong = wrong != NULL ? wrong : compare_times(v, order, &play);
    wrong = wrong != NULL ? wrong : compare_peaks(v, order);
    if (wrong == NULL && v->spec.kind != ORR_SCHEDULE_USER &&
        orr_schedule_bound(&v->spec, &v->d) > play.makespan) {
        wrong = "the lower bound is above the makespan";
    }
    return wrong;
}

/* The vector's own op lists, as a user's order. Their transfers are asynchronous: with the calls of
 * a framework in between only the peaks can be compared. */
static const char *replay_given(const vector *v) {
    uint32_t pp = v->spec.pp, vpp = v->spec.vpp, used = 0;
    const orr_tree *ranks = orr_tree_get(v->root, "order");
    size_t most = (size_t)3 * pp * vpp * v->spec.micro_batches, chunks = (size_t)pp * vpp;
    orr_sched_op *op = ORR_NEW_ARRAY(v->arena, orr_sched_op, most);
    uint32_t *first = ORR_NEW_ARRAY(v->arena, uint32_t, pp + 1);
    uint32_t *position = ORR_NEW_ARRAY(v->arena, uint32_t, chunks);
    uint8_t *chain = ORR_NEW_ARRAY(v->arena, uint8_t, chunks);
    for (uint32_t r = 0; r < pp; r++) {
        const orr_tree *ops = orr_tree_at(ranks, r);
        for (size_t i = 0; i < orr_tree_size(ops); i++) {
            const char *name = orr_tree_text(orr_tree_at(ops, i), "");
            if (used == most || orr_sched_op_parse(name, &op[used], NULL) != ORR_OK) {
                return orr_arena_format(v->arena, "rank %u op %zu: '%s'", r, i, name);
            }
            used++;
        }
        first[r + 1] = used;
        for (uint32_t c = 0; c < vpp; c++) {
            int64_t at = orr_tree_int(cell(orr_tree_get(v->root, "stage_position"), r, c), 0);
            position[r * vpp + c] = at < 0 || at > UINT32_MAX ? UINT32_MAX : (uint32_t)at;
            chain[r * vpp + c] =
                orr_tree_int(cell(orr_tree_get(v->root, "stage_pipe"), r, c), 0) != 0;
        }
    }
    vector user = *v;
    user.spec.kind = ORR_SCHEDULE_USER;
    user.spec.p2p = ORR_P2P_ASYNC;
    orr_user_ops given = {.position = position, .op_first = first, .chain = chain, .op = op};
    const orr_order *order = NULL;
    orr_err err = {0};
    if (orr_order_from_ops(v->arena, &user.spec, &given, &order, &err) != ORR_OK) {
        return orr_arena_format(v->arena, "its own ops: %s", err.message);
    }
    const char *wrong =
        v->spec.p2p == ORR_P2P_ASYNC ? compare_built(&user, order) : compare_peaks(&user, order);
    return wrong == NULL ? NULL : orr_arena_format(v->arena, "its own ops: %s", wrong);
}

/* *built: the library made the order itself. */
static const char *compare_vector(vector *v, bool *built) {
    const orr_order *order = NULL;
    orr_err err = {0};
    const char *wrong = read_vector(v);
    *built = false;
    if (wrong != NULL) {
        return wrong;
    }
    orr_status status = orr_order_build(v->arena, &v->spec, &v->d, &order, &err);
    *built = status == ORR_OK;
    if (status == ORR_E_USAGE) {
        return replay_given(v); /* nobody makes this order here */
    }
    wrong = status != ORR_OK ? orr_arena_text(v->arena, err.message) : compare_built(v, order);
    return wrong != NULL ? wrong : replay_given(v);
}

/* ---- lists: further tests that are no vectors ----------------------------------------------- */

static bool equal_table(const orr_tree *rows, const uint32_t *got, uint32_t pp, uint32_t vpp) {
    for (uint32_t r = 0; r < pp; r++) {
        for (uint32_t c = 0; c < vpp; c++) {
            if (orr_tree_int(cell(rows, r, c), -1) != got[r * vpp + c]) {
                return false;
            }
        }
    }
    return true;
}

static bool equal_split(orr_arena *arena, const orr_tree *one) {
    const orr_tree *config = orr_tree_get(one, "config");
    uint32_t vpp = count_of(config, "virtual_pipeline_model_parallel_size");
    orr_split_spec spec = {.layers = count_of(config, "num_layers"),
                           .pp = count_of(config, "pipeline_model_parallel_size"),
                           .vpp = vpp == 0 ? 1 : vpp,
                           .first = count_of(config, "num_layers_in_first_pipeline_stage"),
                           .last = count_of(config, "num_layers_in_last_pipeline_stage")};
    if (spec.pp == 0 || spec.pp > ORR_MAX_PP || spec.vpp > ORR_MAX_VPP) {
        return false;
    }
    spec.flags =
        (flag_of(config, "account_for_embedding_in_pipeline_split") ? ORR_SPLIT_EMBEDDING : 0u) |
        (flag_of(config, "account_for_loss_in_pipeline_split") ? ORR_SPLIT_LOSS : 0u) |
        (spec.first + spec.last > 0 ? ORR_SPLIT_COUNTS : 0u);
    uint32_t *count = ORR_NEW_ARRAY(arena, uint32_t, (size_t)spec.pp * spec.vpp);
    uint32_t *offset = ORR_NEW_ARRAY(arena, uint32_t, (size_t)spec.pp * spec.vpp);
    return orr_split_layers(&spec, count, offset, NULL) == ORR_OK &&
           equal_table(orr_tree_get(one, "layers"), count, spec.pp, spec.vpp) &&
           equal_table(orr_tree_get(one, "offset"), offset, spec.pp, spec.vpp);
}

static uint32_t letters(const char *text, char letter) {
    uint32_t n = 0;
    for (; *text != '\0'; text++) {
        n += *text == letter;
    }
    return n;
}

/* Layout strings: the layers of every stage, and where the extra depths are. */
static bool equal_layout(orr_arena *arena, const orr_tree *one) {
    const orr_tree *stages = orr_tree_get(one, "stages");
    orr_layout *layout = NULL;
    if (orr_layout_read(arena, orr_tree_text(orr_tree_get(one, "layout"), ""), &layout, NULL) !=
            ORR_OK ||
        layout->stages != orr_tree_size(stages)) {
        return false;
    }
    for (uint32_t i = 0; i < layout->stages; i++) {
        const char *stage = orr_tree_text(orr_tree_at(stages, i), "");
        uint32_t depths = letters(stage, 'm');
        if (letters(stage, 't') != layout->layers[i] ||
            (depths > 0 && (depths != layout->mtp_layers || i != layout->mtp_stage))) {
            return false;
        }
    }
    return true;
}

/* Whether the other program refused a run, warned, or ran other micro-batches than it was asked:
 * nF counts its forwards. */
static bool not_as_asked(const orr_tree *one) {
    const orr_tree *forwards = orr_tree_get(one, "nF");
    double want = number_of(one, "m") * number_of(one, "vpp");
    bool other = orr_tree_get(one, "error") != NULL || flag_of(one, "warn");
    for (size_t i = 0; i < orr_tree_size(forwards); i++) {
        other = other || orr_tree_real(orr_tree_at(forwards, i), want) != want;
    }
    return other;
}

/* One run of another simulator: {name, pp, vpp, m, F, B, W, step, max_mem}. */
static bool equal_grid(orr_arena *arena, const orr_tree *one) {
    static const struct {
        const char *prefix;
        orr_schedule_kind kind;
    } kinds[] = {{"1f1b", ORR_SCHEDULE_1F1B},        {"int", ORR_SCHEDULE_INTERLEAVED},
                 {"zb", ORR_SCHEDULE_ZB_H1_PRIMUS},  {"zbh", ORR_SCHEDULE_ZB_1P},
                 {"zbv", ORR_SCHEDULE_ZBV},          {"vhalf", ORR_SCHEDULE_V_HALF_PRIMUS},
                 {"vmin", ORR_SCHEDULE_V_MIN_PRIMUS}};
    const char *name = orr_tree_text(orr_tree_get(one, "name"), "");
    size_t length = strcspn(name, "_"), k = 0;
    while (k < sizeof kinds / sizeof *kinds &&
           (strlen(kinds[k].prefix) != length || strncmp(kinds[k].prefix, name, length) != 0)) {
        k++;
    }
    vector v = {.root = one, .arena = arena, .scale = 1e6};
    v.spec = (orr_schedule_spec){.pp = count_of(one, "pp"),
                                 .vpp = count_of(one, "vpp"),
                                 .micro_batches = count_of(one, "m")};
    size_t chunks = (size_t)v.spec.pp * v.spec.vpp;
    if (k == sizeof kinds / sizeof *kinds || chunks == 0 || v.spec.pp > ORR_MAX_PP ||
        v.spec.vpp > ORR_MAX_VPP) {
        return false;
    }
    v.spec.kind = (uint8_t)kinds[k].kind;
    int64_t *time[3], *hop = ORR_NEW_ARRAY(arena, int64_t, v.spec.pp);
    static const char *const keys[] = {"F", "B", "W"};
    for (size_t i = 0; i < 3; i++) {
        time[i] = ORR_NEW_ARRAY(arena, int64_t, chunks);
        for (size_t c = 0; c < chunks; c++) {
            time[i][c] = llround(number_of(one, keys[i]) / v.spec.vpp * v.scale);
        }
    }
    v.d = (orr_durations){.f = time[0], .b = time[1], .w = time[2], .hop = hop};
    const orr_order *order = NULL;
    orr_play play = {0};
    orr_peaks peaks = {.until_w = ORR_NEW_ARRAY(arena, uint32_t, v.spec.pp)};
    if (orr_order_build(arena, &v.spec, &v.d, &order, NULL) != ORR_OK ||
        orr_order_play(order, &v.d, false, arena, &play, NULL) != ORR_OK) {
        return false;
    }
    orr_order_peaks(order, &peaks);
    uint32_t most = 0;
    for (uint32_t r = 0; r < v.spec.pp; r++) {
        most = peaks.until_w[r] > most ? peaks.until_w[r] : most;
    }
    return near(&v, (double)play.makespan, orr_tree_get(one, "step")) &&
           fabs((double)most / v.spec.vpp - number_of(one, "max_mem")) <= EXACT_FRAC;
}

static orr_tree *judge_list(orr_arena *arena, const char *file, const orr_tree *list) {
    uint32_t cases = 0, equal = 0, left_out = 0;
    orr_tree *different = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_arena *scratch = orr_arena_new();
        bool same = false;
        if (not_as_asked(one)) {
            left_out++;
            orr_arena_free(scratch);
            continue;
        }
        if (orr_tree_get(one, "config") != NULL) {
            same = equal_split(scratch, one);
        } else if (orr_tree_get(one, "layout") != NULL) {
            same = equal_layout(scratch, one);
        } else {
            same = equal_grid(scratch, one);
        }
        cases++;
        equal += same;
        if (!same) {
            const char *name = orr_tree_text(orr_tree_get(one, "name"), NULL);
            (void)orr_tree_push(arena, different,
                                name != NULL ? orr_tree_new_text(arena, name)
                                             : orr_tree_new_int(arena, (int64_t)i));
        }
        orr_arena_free(scratch);
    }
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "file", file);
    orr_tree_put_int(arena, map, "cases", cases);
    orr_tree_put_int(arena, map, "equal", equal);
    orr_tree_put_int(arena, map, "left_out", left_out);
    (void)orr_tree_put(arena, map, "different", different);
    return map;
}

/* ---- the folder ----------------------------------------------------------------------------- */

orr_status orr_study_schedules(orr_arena *arena, const char *folder, orr_tree **result,
                               orr_err *err) {
    const char **names = NULL;
    size_t count = 0;
    uint32_t vectors = 0, exact = 0, made = 0;
    ORR_TRY(orr_os_list(arena, folder, ".json", MAX_FILES, &names, &count, err));
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree *summary = orr_tree_put(arena, map, "summary", orr_tree_new_map(arena));
    orr_tree *failures = orr_tree_put(arena, map, "failures", orr_tree_new_list(arena));
    orr_tree *lists = orr_tree_put(arena, map, "lists", orr_tree_new_list(arena));
    for (size_t i = 0; i < count; i++) {
        vector v = {.arena = orr_arena_new()};
        orr_tree *root = NULL;
        bool built = false;
        orr_status status = orr_doc_read_file(
            v.arena, orr_arena_format(v.arena, "%s/%s", folder, names[i]), &root, err);
        if (status != ORR_OK) {
            orr_arena_free(v.arena);
            return status;
        }
        v.root = root;
        if (orr_tree_kind_of(root) == ORR_TREE_LIST) {
            (void)orr_tree_push(arena, lists, judge_list(arena, names[i], root));
        } else {
            const char *wrong = compare_vector(&v, &built);
            vectors++;
            made += built;
            exact += wrong == NULL;
            if (wrong != NULL) {
                orr_tree *one = orr_tree_push(arena, failures, orr_tree_new_map(arena));
                orr_tree_put_text(arena, one, "file", names[i]);
                orr_tree_put_text(arena, one, "what", wrong);
            }
        }
        orr_arena_free(v.arena);
    }
    orr_tree_put_int(arena, summary, "vectors", vectors);
    orr_tree_put_int(arena, summary, "exact", exact);
    orr_tree_put_int(arena, summary, "orders_made", made);
    *result = map;
    return ORR_OK;
}
