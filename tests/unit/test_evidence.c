#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "base/num.h"
#include "cost/calibration.h"
#include "cost/cost.h"
#include "doc/doc.h"
#include "evidence/evidence.h"
#include "orrery/orrery.h"

#define DATA ORR_TEST_DIR "/data/evidence/"

static orr_evidence_want any = {.classes = ORR_CLASS_BIT_ALL};

static orr_status parse(orr_arena *arena, const char *text, const orr_evidence_want *want,
                        orr_evidence **out, orr_err *err) {
    memset(err, 0, sizeof *err);
    return orr_evidence_parse(arena, "test.json", text, strlen(text), want, out, err);
}

static orr_accelerator *accelerator(orr_arena *arena, const char *name) {
    orr_accelerator *a = NULL;
    assert_int_equal(orr_accelerator_find(arena, name, &a, NULL), ORR_OK);
    return a;
}

#define HEAD "{\"schema\": \"orrery.evidence/1\", \"device\": \"b200\", \"software\": \"%s\", "
static const char *file_of(orr_arena *arena, const char *software, const char *records) {
    char head[128];
    (void)snprintf(head, sizeof head, HEAD, software);
    orr_text text = orr_text_new(arena, 1 << 16);
    orr_text_format(&text, "%s\"records\": [%s]}", head, records);
    return orr_text_done(&text);
}

static void one_record_is_found_by_its_op(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
    const char *text = file_of(arena, "",
                               "{\"op\": \"gemm\", \"phase\": \"forward\", \"dtype\": \"bf16\", "
                               "\"m\": 64, \"n\": 32, \"k\": 16, \"out_bytes\": 2, "
                               "\"time_us\": 12.5, \"spread\": 0.03},"
                               "{\"op\": \"all_reduce\", \"bytes\": 1024, \"ranks\": 4, "
                               "\"time_us\": 20}");
    assert_int_equal(parse(arena, text, &any, &set, &err), ORR_OK);
    assert_int_equal(set->count, 2);
    orr_op op = {
        .kind = ORR_OP_GEMM, .phase = ORR_PHASE_FORWARD, .dtype = ORR_BF16, .out_bytes = 2};
    op.shape.gemm.m = 64;
    op.shape.gemm.n = 32;
    op.shape.gemm.k = 16;
    op.shape.gemm.batch = 1;
    orr_evidence_key key;
    assert_true(orr_evidence_key_of(&op, &key));
    const orr_evidence_record *record = orr_evidence_find(set, &key);
    assert_non_null(record);
    assert_true(fabs(record->time_s - 12.5e-6) < 1e-15);
    assert_true(fabs(record->spread_frac - 0.03) < 1e-15);
    key.phase = ORR_PHASE_WEIGHT_GRAD; /* another product of the same sizes */
    assert_null(orr_evidence_find(set, &key));
    key.phase = ORR_PHASE_FORWARD;
    key.dim[1] = 33;
    assert_null(orr_evidence_find(set, &key));
    /* and back: the key's op has the key */
    key.dim[1] = 32;
    orr_op again;
    orr_evidence_key same;
    orr_evidence_op_of(&key, &again);
    assert_true(orr_evidence_key_of(&again, &same));
    assert_memory_equal(&key, &same, sizeof key);
    orr_arena_free(arena);
}

static void a_record_without_phase_serves_all(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
    const char *text = file_of(arena, "",
                               "{\"op\": \"gemm\", \"m\": 8, \"n\": 8, \"k\": 8, "
                               "\"time_us\": 1}");
    assert_int_equal(parse(arena, text, &any, &set, &err), ORR_OK);
    orr_evidence_key key = {.kind = ORR_OP_GEMM, .phase = ORR_PHASE_WEIGHT_GRAD, .out_bytes = 8};
    key.dim[0] = key.dim[1] = key.dim[2] = 8;
    key.dim[3] = 1;
    assert_non_null(orr_evidence_find(set, &key));
    orr_arena_free(arena);
}

static void equal_keys_become_their_median(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
#define ONE(t) "{\"op\": \"memory\", \"family\": \"norm_fwd\", \"bytes\": 100, \"time_us\": " t "}"
    const char *text = file_of(arena, "", ONE("10") "," ONE("30") "," ONE("11"));
    assert_int_equal(parse(arena, text, &any, &set, &err), ORR_OK);
    assert_int_equal(set->count, 1);
    assert_int_equal(set->record[0].samples, 3);
    assert_true(fabs(set->record[0].time_s - 11e-6) < 1e-15);
    /* sd of 10, 11, 30 by their mean 17 */
    assert_true(fabs(set->record[0].spread_frac - 11.269427669584644 / 17) < 1e-9);
    orr_arena_free(arena);
}

static void another_device_is_refused_unless_told(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
    orr_evidence_want want = any;
    want.device = accelerator(arena, "h100");
    const char *text = file_of(arena, "", ONE("10"));
    assert_int_equal(parse(arena, text, &want, &set, &err), ORR_E_CONFLICT);
    assert_non_null(strstr(err.message, "b200"));
    assert_non_null(strstr(err.hint, "--evidence-accept device"));
    want.accept = ORR_ACCEPT_DEVICE;
    assert_int_equal(parse(arena, text, &want, &set, &err), ORR_OK);
    assert_true(set->file[0].foreign);
    want.accept = 0;
    want.device = accelerator(arena, "b200");
    assert_int_equal(parse(arena, text, &want, &set, &err), ORR_OK);
    assert_false(set->file[0].foreign);
    orr_arena_free(arena);
}

static void another_software_is_refused_unless_told(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
    orr_evidence_want want = any;
    want.device = accelerator(arena, "b200");
    want.software = "megatron-core";
    const char *text = file_of(arena, "torchtitan", ONE("10"));
    assert_int_equal(parse(arena, text, &want, &set, &err), ORR_E_CONFLICT);
    assert_non_null(strstr(err.hint, "--evidence-accept software"));
    want.accept = ORR_ACCEPT_SOFTWARE;
    assert_int_equal(parse(arena, text, &want, &set, &err), ORR_OK);
    want.accept = 0;
    /* an alias is the same, and a kernel measured without a framework is nobody's */
    assert_int_equal(parse(arena, file_of(arena, "mcore", ONE("10")), &want, &set, &err), ORR_OK);
    assert_int_equal(parse(arena, file_of(arena, "", ONE("10")), &want, &set, &err), ORR_OK);
    orr_arena_free(arena);
}

static void classes_can_be_left_out(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
    orr_evidence_want want = any;
    const char *text = file_of(arena, "",
                               ONE("10") ",{\"op\": \"all_gather\", \"bytes\": 64, "
                                         "\"ranks\": 2, \"time_us\": 3}");
    want.classes = ORR_CLASS_BIT_COLLECTIVE;
    assert_int_equal(parse(arena, text, &want, &set, &err), ORR_OK);
    assert_int_equal(set->count, 1);
    assert_int_equal(set->record[0].key.kind, ORR_OP_COLLECTIVE);
    want.classes = ORR_CLASS_BIT_LAYER;
    assert_int_equal(parse(arena, text, &want, &set, &err), ORR_E_CONFLICT);
    orr_arena_free(arena);
}

static void bad_files_are_explained(void **state) {
    (void)state;
    static const struct {
        const char *records, *message;
    } cases[] = {
        {"{\"op\": \"gemm\", \"m\": 8, \"k\": 8, \"time_us\": 1}", "needs 'n'"},
        {"{\"op\": \"gem\", \"time_us\": 1}", "gem"},
        {"{\"op\": \"memory\", \"bytes\": 1}", "time_us"},
        {"{\"op\": \"memory\", \"bytes\": 1, \"time_us\": 0}", "time_us"},
        {"{\"op\": \"memory\", \"bytes\": -1, \"time_us\": 1}", "bytes"},
        {"{\"op\": \"memory\", \"bites\": 1, \"time_us\": 1}", "bites"},
        {"{\"op\": \"gemm\", \"m\": 8, \"n\": 8, \"k\": 8, \"out_bytes\": 9, \"time_us\": 1}",
         "out_bytes"},
        {"{\"op\": \"layer\", \"hidden\": 8, \"seq\": 8, \"time_us\": 1}", "phase"},
        {"{\"op\": \"unit\", \"phase\": \"forward\", \"time_us\": 1}", "bytes"},
        {"{\"op\": \"unit\", \"bytes\": 8, \"time_us\": 1}", "a unit's phase"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        orr_evidence *set = NULL;
        orr_err err = {0};
        assert_int_not_equal(parse(arena, file_of(arena, "", cases[i].records), &any, &set, &err),
                             ORR_OK);
        if (strstr(err.message, cases[i].message) == NULL) {
            fail_msg("case %zu: '%s' does not mention '%s'", i, err.message, cases[i].message);
        }
        orr_arena_free(arena);
    }
}

static void a_changed_file_is_noticed(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL, *again = NULL;
    orr_err err = {0};
    assert_int_equal(parse(arena, file_of(arena, "", ONE("10.25")), &any, &set, &err), ORR_OK);
    orr_evidence_identity identity = {.device = "b200", .software = "", .source = "test"};
    char *text = orr_write_json(arena, orr_evidence_write(arena, set, &identity), true);
    assert_int_equal(parse(arena, text, &any, &again, &err), ORR_OK);
    assert_true(set->hash == again->hash);
    char *digit = strstr(text, "10.25");
    assert_non_null(digit);
    digit[0] = '2';
    assert_int_equal(parse(arena, text, &any, &again, &err), ORR_E_CONFLICT);
    assert_non_null(strstr(err.message, "content hash"));
    orr_arena_free(arena);
}

static void databases_hold_what_files_hold(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL, *again = NULL;
    orr_err err = {0};
    assert_int_equal(parse(arena, file_of(arena, "", ONE("10.25")), &any, &set, &err), ORR_OK);
    orr_evidence_identity identity = {.device = "b200", .software = "", .source = "a test"};
    orr_tree *tree = orr_evidence_write(arena, set, &identity);
    void *bytes = NULL;
    size_t length = 0;
    assert_int_equal(orr_evidence_write_sqlite(arena, tree, &bytes, &length, &err), ORR_OK);
    assert_int_equal(orr_evidence_parse(arena, "e.db", bytes, length, &any, &again, &err), ORR_OK);
    assert_string_equal(orr_write_json(arena, orr_evidence_write(arena, again, &identity), true),
                        orr_write_json(arena, tree, true));
    size_t at = 0;
    while (at + 5 < length && memcmp((const char *)bytes + at, "10.25", 5) != 0) {
        at++;
    }
    assert_true(at + 5 < length);
    memcpy((char *)bytes + at, "2", 1);
    assert_int_equal(orr_evidence_parse(arena, "e.db", bytes, length, &any, &again, &err),
                     ORR_E_CONFLICT);
    for (size_t cut = 16; cut < length; cut += 512) { /* torn files end in a message */
        assert_int_not_equal(orr_evidence_parse(arena, "e.db", bytes, cut, &any, &again, &err),
                             ORR_OK);
    }
    orr_arena_free(arena);
}

static void databases_of_others_are_tables(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
    assert_int_equal(orr_evidence_read(arena, ORR_TEST_DIR "/fuzz/corpus/evidence/table.sqlite",
                                       &any, &set, &err),
                     ORR_OK);
    assert_int_equal(set->count, 1);
    assert_true(fabs(set->record[0].time_s - 210.5e-6) < 1e-12);
    orr_arena_free(arena);
}

/* ---- public tables -------------------------------------------------------------------------- */

static const orr_cost_table *table_of(orr_arena *arena, const char *device) {
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    const orr_cost_table *table = NULL;
    assert_int_equal(
        orr_cluster_usual(arena, accelerator(arena, device), 8, 0, NULL, &cluster, NULL), ORR_OK);
    assert_int_equal(orr_software_find(arena, "megatron-core", &software, NULL), ORR_OK);
    assert_int_equal(orr_cost_table_new(arena, cluster, software, &table, NULL), ORR_OK);
    return table;
}

static orr_evidence *read_tables(orr_arena *arena, const char *paths) {
    orr_evidence *set = NULL;
    orr_err err = {0};
    orr_evidence_want want = any;
    want.device = accelerator(arena, "b200");
    if (orr_evidence_read(arena, paths, &want, &set, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return set;
}

static void public_tables_are_read_by_their_columns(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_evidence *set = read_tables(
        arena, DATA "b200-gemm.csv," DATA "b200-attention.csv," DATA "b200-grouped.csv");
    for (uint32_t i = 0; i < set->file_count; i++) {
        assert_true(set->file[i].records > 10);
        assert_int_equal(set->file[i].not_understood, 0);
    }
    /* a row of each table, by hand: 4096,10240,8192 TN 473.401 us */
    orr_evidence_key key = {.kind = ORR_OP_GEMM, .phase = ORR_PHASE_FORWARD, .out_bytes = 2};
    const uint64_t product[] = {4096, 10240, 8192, 1};
    memcpy(key.dim, product, sizeof product);
    const orr_evidence_record *record = orr_evidence_find(set, &key);
    assert_non_null(record);
    assert_true(fabs(record->time_s - 473.401e-6) < 1e-12);
    /* its weight gradient adds into an fp32 sum: 10240,8192,4096 NT 510.782 us */
    const uint64_t gradient[] = {10240, 8192, 4096, 1};
    memcpy(key.dim, gradient, sizeof gradient);
    key.phase = ORR_PHASE_WEIGHT_GRAD;
    key.out_bytes = 8;
    record = orr_evidence_find(set, &key);
    assert_non_null(record);
    assert_true(fabs(record->time_s - 510.782e-6) < 1e-12);
    orr_arena_free(arena);
}

/* Each record priced from the others alone: the errors must be of the size that is stated, and
 * smaller than the model's. */
static void neighbours_beat_the_model_and_know_their_error(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_evidence *set = read_tables(arena, DATA "b200-gemm.csv");
    const orr_cost_table *table = table_of(arena, "b200");
    orr_modelled *model = ORR_NEW_ARRAY(arena, orr_modelled, set->count);
    for (uint32_t i = 0; i < set->count; i++) {
        model[i] = orr_cost_model_of(table, set, &set->record[i]);
    }
    orr_calibration *calibration = NULL;
    assert_int_equal(orr_calibration_builtin(arena, &calibration, NULL), ORR_OK);
    double between = 0, alone = 0;
    uint32_t count = 0, inside = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        double own_s = model[i].time_s;
        model[i].time_s = 0; /* says nothing of itself */
        const orr_evidence_field *field =
            orr_evidence_field_new(arena, set, model, calibration->likeness);
        orr_evidence_near near =
            orr_evidence_between(field, &set->record[i].key, model[i].relerr_frac);
        model[i].time_s = own_s;
        if (near.neighbours == 0) {
            continue;
        }
        double error = log(own_s * near.ratio / set->record[i].time_s);
        between += fabs(error);
        alone += fabs(log(own_s / set->record[i].time_s));
        inside += fabs(error) <= ORR_HALF_90_SD * near.relerr_frac;
        count++;
    }
    print_message("%u records: between %.1f %%, model %.1f %%, inside the 90 %% interval %.0f %%\n",
                  count, 100 * between / count, 100 * alone / count, 100.0 * inside / count);
    assert_true(count >= 30);
    assert_true(between < alone);
    assert_true(inside >= 0.75 * count);
    orr_arena_free(arena);
}

static orr_evidence_near asked(orr_arena *arena, const orr_evidence *set, const double *model_s,
                               const orr_evidence_key *key) {
    /* a quarter common to all shapes, a quarter each for slow and fast changes */
    static const orr_likeness likeness = {0.25, 0.25, 10, 0.25, 1, 2};
    static const double RELERR = 0.1;
    orr_likeness all[ORR_EVIDENCE_LAYER];
    orr_modelled *model = ORR_NEW_ARRAY(arena, orr_modelled, set->count);
    for (int kind = 0; kind < ORR_EVIDENCE_LAYER; kind++) {
        all[kind] = likeness;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        model[i] = (orr_modelled){model_s[i], RELERR};
    }
    const orr_evidence_field *field = orr_evidence_field_new(arena, set, model, all);
    return orr_evidence_between(field, key, RELERR);
}

static void one_record_speaks_less_the_further_away(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
    assert_int_equal(parse(arena, file_of(arena, "", ONE("10")), &any, &set, &err), ORR_OK);
    orr_evidence_key key = set->record[0].key;
    const double model_s[] = {9.5e-6}; /* off by half the error that the model states */
    double last = INFINITY, open = 0;
    for (uint64_t size = 100; size < 1000000; size *= 4) {
        key.dim[0] = size;
        orr_evidence_near near = asked(arena, set, model_s, &key);
        assert_int_equal(near.records, 1);
        assert_int_equal(near.neighbours, size < 500);
        assert_false(near.inside); /* one shape has nothing between */
        assert_true(near.ratio > 1 && near.ratio < last && near.ratio < 10 / 9.5);
        assert_true(near.relerr_frac > open);
        last = near.ratio;
        open = near.relerr_frac;
    }
    /* far away what is common to all shapes remains, a quarter, and little else */
    assert_true(last > 1 + 0.2 * 0.05 && last < 1 + 0.35 * 0.05);
    key.dim[0] = 100;
    key.sub = ORR_MEMOP_SOFTMAX; /* another family */
    assert_int_equal(asked(arena, set, model_s, &key).records, 0);
    orr_arena_free(arena);
}

/* A record that lies far off the model says first of all that the model's error is too small. */
static void a_contradiction_widens_the_interval(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_err err = {0};
    assert_int_equal(parse(arena, file_of(arena, "", ONE("10")), &any, &set, &err), ORR_OK);
    orr_evidence_key key = set->record[0].key;
    key.dim[0] *= 2;
    const double agrees_s[] = {10e-6}, contradicts_s[] = {5e-6};
    orr_evidence_near agrees = asked(arena, set, agrees_s, &key);
    orr_evidence_near contradicts = asked(arena, set, contradicts_s, &key);
    assert_true(contradicts.ratio > 1.1 && contradicts.ratio < 2);
    assert_true(contradicts.relerr_frac > 2 * agrees.relerr_frac);
    assert_true(contradicts.relerr_frac > 0.1); /* more than the model alone states */
    orr_arena_free(arena);
}

static void prices_say_what_they_are(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const char *record = "{\"op\": \"gemm\", \"phase\": \"forward\", \"m\": 4096, \"n\": 8192, "
                         "\"k\": 8192, \"out_bytes\": 2, \"time_us\": 500}";
    const orr_cost_table *base = table_of(arena, "b200");
    /* kernels of the plan's own software, and kernels run alone */
    for (int alone = 0; alone < 2; alone++) {
        orr_evidence *set = NULL;
        orr_err err = {0};
        const char *text = file_of(arena, alone ? "" : "megatron-core", record);
        assert_int_equal(parse(arena, text, &any, &set, &err), ORR_OK);
        const orr_cost_table *table = orr_cost_table_measured(arena, base, set);
        orr_op op;
        orr_evidence_op_of(&set->record[0].key, &op);
        orr_measured exact = orr_cost_explain(table, &op);
        assert_int_equal(exact.how, ORR_BY_EXACT);
        assert_int_equal(exact.cost.provenance, alone ? ORR_FROM_RESTORED : ORR_FROM_MEASURED);
        if (alone) { /* training is slower than a kernel alone */
            assert_true(exact.cost.time_s > 500e-6 && exact.cost.time_s < 600e-6);
        } else {
            assert_true(exact.cost.time_s == set->record[0].time_s);
        }
        assert_true(exact.model_s == orr_cost_op(base, &op).time_s);
        op.shape.gemm.m += 64;
        orr_measured between = orr_cost_explain(table, &op);
        assert_int_equal(between.how, ORR_BY_NEAR); /* one record: nothing lies between */
        assert_int_equal(between.near, 1);
        assert_int_equal(between.cost.provenance, ORR_FROM_RESTORED);
        assert_true(between.cost.relerr_frac > 0.02);
        /* a little more work, a little more time */
        assert_true(between.cost.time_s > exact.cost.time_s &&
                    between.cost.time_s < 1.1 * exact.cost.time_s);
        op.shape.gemm.m *= 1000; /* no record anywhere near: a word on the machine as a whole */
        orr_measured far = orr_cost_explain(table, &op);
        double moved = log(far.cost.time_s / orr_cost_op(base, &op).time_s);
        double near = log(between.cost.time_s / between.model_s);
        assert_int_equal(far.how, ORR_BY_FAR);
        assert_true(fabs(moved) < fabs(near));
        assert_int_equal(far.cost.provenance, orr_cost_op(base, &op).provenance);
        op.dtype = ORR_FP8; /* none of this format */
        assert_int_equal(orr_cost_explain(table, &op).how, ORR_BY_MODEL);
    }
    orr_arena_free(arena);
}

static void a_layer_corrects_its_ops(void **state);
static void a_sweep_moves_a_plan(void **state);
static void a_sharded_unit_costs_the_host(void **state);

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_record_is_found_by_its_op),
        cmocka_unit_test(a_record_without_phase_serves_all),
        cmocka_unit_test(equal_keys_become_their_median),
        cmocka_unit_test(another_device_is_refused_unless_told),
        cmocka_unit_test(another_software_is_refused_unless_told),
        cmocka_unit_test(classes_can_be_left_out),
        cmocka_unit_test(bad_files_are_explained),
        cmocka_unit_test(a_changed_file_is_noticed),
        cmocka_unit_test(public_tables_are_read_by_their_columns),
        cmocka_unit_test(neighbours_beat_the_model_and_know_their_error),
        cmocka_unit_test(one_record_speaks_less_the_further_away),
        cmocka_unit_test(a_contradiction_widens_the_interval),
        cmocka_unit_test(prices_say_what_they_are),
        cmocka_unit_test(a_layer_corrects_its_ops),
        cmocka_unit_test(a_sweep_moves_a_plan),
        cmocka_unit_test(a_sharded_unit_costs_the_host),
        cmocka_unit_test(databases_hold_what_files_hold),
        cmocka_unit_test(databases_of_others_are_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- layers --------------------------------------------------------------------------------- */

static orr_tree *project(orr_ctx *ctx, orr_arena *arena, const char *keys) {
    orr_tree *args = NULL, *out = NULL;
    orr_err err = {0};
    assert_int_equal(orr_read_text(arena, "args", keys, strlen(keys), &args, &err), ORR_OK);
    if (orr_call(ctx, "project", args, arena, &out, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return out;
}

/* The sweep of two nodes' gathers, four times slower than their NICs say, moves what crosses nodes
 * and nothing else; one of sums inside a node moves tensor parallelism. */
static void a_sweep_moves_a_plan(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_ctx *ctx = NULL;
    assert_int_equal(orr_ctx_new(NULL, &ctx, NULL), ORR_OK);
#define SWEPT                                                                                      \
    "{\"model\": \"llama-3.1-8b\", \"hardware\": \"h100\", \"software\": \"megatron-core\", "      \
    "\"gpus\": %d, \"tp\": 8, \"sp\": false, \"mbs\": 1, \"gbs\": 64, \"seq\": 8192, "             \
    "\"sharding\": \"zero1\", \"overlap\": \"none\"%s}"
#define LOGS ", \"evidence\": \"" ORR_TEST_DIR "/data/logs/"
    static const struct {
        int gpus;
        const char *log, *moves, *stays;
    } cases[] = {{16, LOGS "all_gather-2x8.out\"", "dp_s", "tp_s"},
                 {64, LOGS "all_gather-2x8.out\"", "dp_s", "tp_s"}, /* nodes nobody swept */
                 {16, LOGS "nccl-8xh100.out\"", "tp_s", "dp_s"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[640];
        (void)snprintf(text, sizeof text, SWEPT, cases[i].gpus, "");
        const orr_tree *before = project(ctx, arena, text);
        (void)snprintf(text, sizeof text, SWEPT, cases[i].gpus, cases[i].log);
        const orr_tree *after = project(ctx, arena, text);
        const char *path = orr_arena_format(arena, "result.breakdown.%s", cases[i].moves);
        double moved = orr_tree_real(orr_tree_path(after, path), 0) /
                       orr_tree_real(orr_tree_path(before, path), 0);
        assert_true(i < 2 ? moved > 1.5 && moved < 4 : fabs(moved - 1) > 0.02);
        path = orr_arena_format(arena, "result.breakdown.%s", cases[i].stays);
        assert_true(fabs(orr_tree_real(orr_tree_path(after, path), 0) /
                             orr_tree_real(orr_tree_path(before, path), 1) -
                         1) < 1e-9);
    }
    orr_ctx_free(ctx);
    orr_arena_free(arena);
}

/* One dense layer measured forward and backward at tp 1: a plan of that split takes these times,
 * and one at tp 2 takes the same factor on its compute. */
static void a_layer_corrects_its_ops(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_ctx *ctx = NULL;
    assert_int_equal(orr_ctx_new(NULL, &ctx, NULL), ORR_OK);
#define PLAN                                                                                       \
    "{\"model\": \"llama-3.1-8b\", \"hardware\": \"b200\", \"software\": \"megatron-core\", "      \
    "\"gpus\": 8, \"mbs\": 1, \"gbs\": 8, \"seq\": 8192, \"recompute\": \"none\", \"tp\": %d%s}"
    char text[640];
    (void)snprintf(text, sizeof text, PLAN, 1, "");
    const orr_tree *before = project(ctx, arena, text);
    (void)snprintf(text, sizeof text, PLAN, 1, ", \"evidence\": \"" DATA "layer.json\"");
    const orr_tree *after = project(ctx, arena, text);
    double measured = orr_tree_real(orr_tree_path(after, "result.provenance.measured_s"), -1);
    /* 32 layers of 20 + 40 ms */
    assert_true(fabs(measured - 32 * 0.060) < 1e-9);
    assert_true(orr_tree_real(orr_tree_path(before, "result.provenance.measured_s"), -1) == 0);
    (void)snprintf(text, sizeof text, PLAN, 2, ", \"evidence\": \"" DATA "layer.json\"");
    const orr_tree *split = project(ctx, arena, text);
    assert_true(orr_tree_real(orr_tree_path(split, "result.provenance.measured_s"), -1) == 0);
    assert_true(orr_tree_real(orr_tree_path(split, "result.provenance.restored_s"), -1) > 0.5);
    orr_ctx_free(ctx);
    orr_arena_free(arena);
}

/* What the framework does around a sharded unit lengthens the exchanges of every layer, embedding
 * and head, by the record of the unit nearest in size; where nothing hides, the step grows by just
 * that. A plan without sharded parameters has no units. */
static void a_sharded_unit_costs_the_host(void **state) {
    (void)state;
    static const char plan[] =
        "{\"model\": \"llama-3.1-8b\", \"hardware\": \"h100\", \"software\": \"executor\", "
        "\"gpus\": 8, \"mbs\": 1, \"gbs\": 16, \"seq\": 8192, \"recompute\": \"none\", "
        "\"sharding\": \"%s\"%s}";
    static const char with[] = ", \"evidence\": \"" DATA "unit.json\"";
    orr_arena *arena = orr_arena_new();
    orr_ctx *ctx = NULL;
    assert_int_equal(orr_ctx_new(NULL, &ctx, NULL), ORR_OK);
    double step_s[2][2];
    for (int sharded = 0; sharded < 2; sharded++) {
        for (int measured = 0; measured < 2; measured++) {
            char text[640];
            (void)snprintf(text, sizeof text, plan, sharded ? "fsdp2" : "zero1",
                           measured ? with : "");
            step_s[sharded][measured] =
                orr_tree_real(orr_tree_path(project(ctx, arena, text), "result.step_time_s"), -1);
        }
    }
    assert_true(step_s[0][1] == step_s[0][0]);
    /* 2 micro-batches: 32 layers of 3 + 5 ms, embedding and head of 1 + 2 ms, by size of gather */
    assert_true(fabs(step_s[1][1] - step_s[1][0] - 2 * (32 * 0.008 + 2 * 0.003)) < 1e-9);
    orr_ctx_free(ctx);
    orr_arena_free(arena);
}
