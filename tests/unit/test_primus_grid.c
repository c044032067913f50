/* A grid of runs of Primus' pipeline simulator (AMD-AGI/Primus fd1eeabb). Where it is right the
 * engine agrees in step time and peak; the cells where it is wrong are told apart by the reasons
 * below, and none is left unexplained. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "base/arena.h"
#include "schedule/schedule.h"

typedef enum reason {
    RIGHT,
    /* 1F1B with fewer micro-batches than ranks: it schedules forwards of micro-batches that do not
     * exist, stalls, and reports what it has. True: (m + p - 1)(F + B + W). */
    PHANTOM_FORWARDS,
    /* Interleaved with as many micro-batches as ranks: warm-up is not clamped to what there is, the
     * run deadlocks, the step is zero and a division by it fails. */
    UNCLAMPED_WARM_UP,
    /* Interleaved with fewer micro-batches than ranks, which Megatron-LM refuses. */
    TOO_FEW_FOR_INTERLEAVED,
    /* ZBV with fewer than 2 p - 1 micro-batches: it runs 2 p - 1 of them all the same. */
    PADDED_ZBV,
    REASONS
} reason;

typedef struct cell {
    char kind[8];
    orr_schedule_spec spec;
    int64_t f, b, w; /* of a whole stage */
    double step, peak;
} cell;

static orr_schedule_kind kind_named(const char *name) {
    static const struct {
        const char *name;
        orr_schedule_kind kind;
    } kinds[] = {{"1f1b", ORR_SCHEDULE_1F1B},        {"int", ORR_SCHEDULE_INTERLEAVED},
                 {"zb", ORR_SCHEDULE_ZB_H1_PRIMUS},  {"zbh", ORR_SCHEDULE_ZB_1P},
                 {"zbv", ORR_SCHEDULE_ZBV},          {"vhalf", ORR_SCHEDULE_V_HALF_PRIMUS},
                 {"vmin", ORR_SCHEDULE_V_MIN_PRIMUS}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].kind;
        }
    }
    fail_msg("unknown kind %s", name);
    return ORR_SCHEDULE_COUNT;
}

static uint32_t number(const json_t *one, const char *key) {
    return (uint32_t)json_number_value(json_object_get(one, key));
}

static cell read_cell(const json_t *one) {
    cell c = {.f = number(one, "F"), .b = number(one, "B"), .w = number(one, "W")};
    const char *name = json_string_value(json_object_get(one, "name"));
    size_t length = strcspn(name, "_");
    assert_true(length < sizeof c.kind);
    memcpy(c.kind, name, length);
    c.spec.kind = (uint8_t)kind_named(c.kind);
    c.spec.pp = number(one, "pp");
    c.spec.vpp = number(one, "vpp");
    c.spec.micro_batches = number(one, "m");
    c.step = json_number_value(json_object_get(one, "step"));
    c.peak = json_number_value(json_object_get(one, "max_mem"));
    return c;
}

static reason reason_of(const cell *c) {
    uint32_t m = c->spec.micro_batches, pp = c->spec.pp;
    switch (c->spec.kind) {
    case ORR_SCHEDULE_1F1B: return m < pp ? PHANTOM_FORWARDS : RIGHT;
    case ORR_SCHEDULE_INTERLEAVED:
        return m < pp ? TOO_FEW_FOR_INTERLEAVED : m == pp ? UNCLAMPED_WARM_UP : RIGHT;
    case ORR_SCHEDULE_ZBV: return m < 2 * pp - 1 ? PADDED_ZBV : RIGHT;
    default: return RIGHT;
    }
}

/* Step time and peak, in units of a stage; the simulator splits stage times evenly over chunks. */
static orr_status project(const cell *c, double *step, double *peak) {
    enum { SCALE = 16, MOST = 64 };
    uint32_t chunks = c->spec.pp * c->spec.vpp, until_w[MOST], most = 0;
    int64_t f[MOST], b[MOST], w[MOST];
    assert_true(chunks <= MOST && SCALE % c->spec.vpp == 0);
    for (uint32_t i = 0; i < chunks; i++) {
        f[i] = c->f * SCALE / c->spec.vpp;
        b[i] = c->b * SCALE / c->spec.vpp;
        w[i] = c->w * SCALE / c->spec.vpp;
    }
    orr_arena *arena = orr_arena_new();
    orr_durations d = {.f = f, .b = b, .w = w};
    const orr_order *order;
    orr_play play = {0};
    orr_status status = orr_order_build(arena, &c->spec, &d, &order, NULL);
    if (status == ORR_OK) {
        assert_int_equal(orr_order_play(order, &d, false, arena, &play, NULL), ORR_OK);
        orr_order_peaks(order, &(orr_peaks){.until_w = until_w});
        for (uint32_t r = 0; r < c->spec.pp; r++) {
            most = until_w[r] > most ? until_w[r] : most;
        }
        *step = (double)play.makespan / SCALE;
        *peak = (double)most / c->spec.vpp;
    }
    orr_arena_free(arena);
    return status;
}

static void check_cell(const cell *c, reason why) {
    double step = 0, peak = 0, sum = (double)(c->f + c->b + c->w);
    orr_status status = project(c, &step, &peak);
    double m = c->spec.micro_batches, p = c->spec.pp, v = c->spec.vpp;
    switch (why) {
    case RIGHT:
        assert_int_equal(status, ORR_OK);
        assert_true(fabs(step - c->step) <= 1e-9 * step);
        assert_true(fabs(peak - c->peak) <= 1e-9);
        break;
    case PHANTOM_FORWARDS:
        assert_true(fabs(step - (m + p - 1) * sum) < 1e-6);
        assert_true(step > c->step);
        break;
    case UNCLAMPED_WARM_UP:
        assert_true(fabs(step - (m + (p - 1) / v) * sum) < 1e-6);
        assert_true(c->step == 0);
        break;
    case TOO_FEW_FOR_INTERLEAVED: assert_int_equal(status, ORR_E_INFEASIBLE); break;
    case PADDED_ZBV:
        assert_int_equal(status, ORR_OK);
        assert_true(step < c->step);
        break;
    case REASONS: break;
    }
}

static bool known_wrong(const json_t *one, const cell *c) {
    json_t *forwards = json_object_get(one, "nF");
    bool wrong =
        json_object_get(one, "error") != NULL || json_is_true(json_object_get(one, "warn"));
    for (size_t i = 0; i < json_array_size(forwards); i++) {
        wrong = wrong || json_integer_value(json_array_get(forwards, i)) !=
                             (json_int_t)c->spec.micro_batches * c->spec.vpp;
    }
    return wrong;
}

static void grid_agrees_where_it_is_right(void **state) {
    (void)state;
    json_t *grid = json_load_file(ORR_TEST_DIR "/data/primus_pp_sim_grid.json", 0, NULL);
    assert_true(json_array_size(grid) > 0);
    uint32_t count[REASONS] = {0};
    for (size_t i = 0; i < json_array_size(grid); i++) {
        const json_t *one = json_array_get(grid, i);
        cell c = read_cell(one);
        reason why = reason_of(&c);
        /* it warns, fails or counts other forwards exactly where a reason is known */
        assert_int_equal(why != RIGHT, known_wrong(one, &c));
        check_cell(&c, why);
        count[why]++;
    }
    print_message("%u cells right; wrong: %u phantom forwards, %u unclamped warm-up, %u too few "
                  "micro-batches, %u padded ZBV\n",
                  count[RIGHT], count[PHANTOM_FORWARDS], count[UNCLAMPED_WARM_UP],
                  count[TOO_FEW_FOR_INTERLEAVED], count[PADDED_ZBV]);
    assert_int_equal(json_array_size(grid), 208);
    json_decref(grid);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(grid_agrees_where_it_is_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
