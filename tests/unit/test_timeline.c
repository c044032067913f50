#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <math.h>

#include "timeline/timeline.h"

/* A layer of three ops: a GEMM, an attention and one collective of a class to be set. */
static orr_op ops[5];
static orr_cost costs[5];
static orr_object object;
static orr_priced priced = {&object, costs};

static void add(uint32_t i, orr_phase phase, orr_class class, double time_s, uint16_t modules) {
    ops[i] = (orr_op){.phase = (uint8_t)phase, .class = (uint8_t) class, .modules = modules};
    costs[i] = (orr_cost){time_s, 0.1, ORR_FROM_MODEL};
}

static void make_layer(orr_class comm) {
    memset(&object, 0, sizeof object);
    add(0, ORR_PHASE_FORWARD, ORR_CLASS_GEMM, 3, ORR_MODULE_LAYER | ORR_MODULE_MLP);
    add(1, ORR_PHASE_FORWARD, ORR_CLASS_ATTENTION, 1, ORR_MODULE_LAYER | ORR_MODULE_CORE_ATTN);
    add(2, ORR_PHASE_FORWARD, comm, 2, ORR_MODULE_LAYER);
    add(3, ORR_PHASE_INPUT_GRAD, ORR_CLASS_GEMM, 4, 0);
    add(4, ORR_PHASE_WEIGHT_GRAD, ORR_CLASS_GEMM, 5, 0);
    object.op_count = 5;
    object.op = ops;
}

static const orr_timeline_mode plain = {.compute_factor = 1};

static void near(double value, double expected) {
    if (fabs(value - expected) > 1e-12) {
        fail_msg("%.15g is not %.15g", value, expected);
    }
}

static orr_part_time times_of(const orr_software *software, const orr_timeline_mode *mode) {
    orr_part_time out;
    orr_timeline_object(&priced, software, mode, &out);
    for (int p = 0; p < ORR_PHASE_COUNT; p++) { /* the parts always sum to the total */
        double sum_s = out.phase[p].recompute_s + out.phase[p].host_s, origin_s = 0;
        for (int c = 0; c < ORR_CLASS_COUNT; c++) {
            sum_s += out.phase[p].class_s[c];
        }
        for (int o = 0; o < ORR_PROVENANCE_COUNT; o++) {
            origin_s += out.phase[p].provenance_s[o];
        }
        near(sum_s, out.phase[p].total_s);
        near(origin_s, out.phase[p].total_s);
    }
    return out;
}

static void nothing_hides_without_overlap(void **state) {
    (void)state;
    make_layer(ORR_CLASS_TP);
    orr_software software = {.tp_overlap_fwd_frac = 0.75};
    orr_part_time t = times_of(&software, &plain);
    near(t.phase[ORR_PHASE_FORWARD].total_s, 6);
    near(t.phase[ORR_PHASE_INPUT_GRAD].total_s, 4);
    near(t.phase[ORR_PHASE_WEIGHT_GRAD].total_s, 5);
}

static void a_share_of_tp_hides(void **state) {
    (void)state;
    make_layer(ORR_CLASS_TP);
    orr_software software = {.tp_overlap_fwd_frac = 0.75};
    orr_timeline_mode mode = plain;
    mode.overlap = ORR_OVERLAP_TP;
    near(times_of(&software, &mode).phase[ORR_PHASE_FORWARD].class_s[ORR_CLASS_TP], 0.5);
}

static void cp_hides_behind_attention_but_for_a_minimum(void **state) {
    (void)state;
    make_layer(ORR_CLASS_CP);
    orr_software software = {.cp_exposed_min_frac = 0.35};
    near(times_of(&software, &plain).phase[0].class_s[ORR_CLASS_CP], 1.0); /* 2 - attention */
    costs[1].time_s = 10;
    near(times_of(&software, &plain).phase[0].class_s[ORR_CLASS_CP], 0.7); /* .35 x 2 */
}

static void experts_overlap_only_when_the_plan_says_so(void **state) {
    (void)state;
    make_layer(ORR_CLASS_EP);
    orr_software software = {.ep_overlap_frac = 0.77};
    near(times_of(&software, &plain).phase[0].class_s[ORR_CLASS_EP], 2);
    orr_timeline_mode mode = plain;
    mode.overlap = ORR_OVERLAP_EP;
    near(times_of(&software, &mode).phase[0].class_s[ORR_CLASS_EP], 0.46);
}

static void sharded_layers_hide_gathers_and_slow_down(void **state) {
    (void)state;
    make_layer(ORR_CLASS_DP);
    orr_software software = {.fsdp_slowdown_frac = 0.1};
    near(times_of(&software, &plain).phase[0].class_s[ORR_CLASS_DP], 0.2); /* slowed by .1 x 2 */
    costs[2].time_s = 9;
    near(times_of(&software, &plain).phase[0].class_s[ORR_CLASS_DP], 5); /* 9 - 4 of compute */
    software.fsdp_slowdown_frac = 1; /* in turn, whichever is longer */
    near(times_of(&software, &plain).phase[0].class_s[ORR_CLASS_DP], 9);
    costs[2].time_s = 2;
    near(times_of(&software, &plain).phase[0].class_s[ORR_CLASS_DP], 2);
}

static void recompute_repeats_what_it_names(void **state) {
    (void)state;
    make_layer(ORR_CLASS_TP);
    orr_software software = {.tp_overlap_fwd_frac = 0};
    orr_timeline_mode mode = plain;
    mode.modules = ORR_MODULE_CORE_ATTN;
    near(times_of(&software, &mode).phase[ORR_PHASE_INPUT_GRAD].recompute_s, 1);
    mode.checkpointed = 1;
    near(times_of(&software, &mode).phase[ORR_PHASE_INPUT_GRAD].recompute_s, 6);
}

static void the_host_is_a_floor_unless_graphs_are_captured(void **state) {
    (void)state;
    make_layer(ORR_CLASS_TP);
    orr_software software = {.host_fwd_s = 8, .host_bwd_s = 8, .graph_partial_frac = 0.5};
    orr_part_time t = times_of(&software, &plain);
    near(t.phase[ORR_PHASE_FORWARD].host_s, 2);
    near(t.phase[ORR_PHASE_INPUT_GRAD].host_s, 0); /* 4 + 5 is above 8 */
    software.graphs = 2;
    near(times_of(&software, &plain).phase[ORR_PHASE_FORWARD].host_s, 0);
}

static void an_anchor_scales_what_the_host_needs(void **state) {
    (void)state;
    make_layer(ORR_CLASS_TP);
    orr_software software = {.host_fwd_s = 20};
    orr_timeline_mode mode = plain;
    mode.compute_factor = 2;
    near(times_of(&software, &mode).phase[ORR_PHASE_FORWARD].total_s, 40);
}

static void an_anchor_leaves_communication_alone(void **state) {
    (void)state;
    make_layer(ORR_CLASS_TP);
    orr_software software = {0};
    orr_timeline_mode mode = plain;
    mode.compute_factor = 2;
    orr_part_time t = times_of(&software, &mode);
    near(t.phase[ORR_PHASE_FORWARD].class_s[ORR_CLASS_GEMM], 6);
    near(t.phase[ORR_PHASE_FORWARD].class_s[ORR_CLASS_TP], 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_hides_without_overlap),
        cmocka_unit_test(a_share_of_tp_hides),
        cmocka_unit_test(cp_hides_behind_attention_but_for_a_minimum),
        cmocka_unit_test(experts_overlap_only_when_the_plan_says_so),
        cmocka_unit_test(sharded_layers_hide_gathers_and_slow_down),
        cmocka_unit_test(recompute_repeats_what_it_names),
        cmocka_unit_test(the_host_is_a_floor_unless_graphs_are_captured),
        cmocka_unit_test(an_anchor_leaves_communication_alone),
        cmocka_unit_test(an_anchor_scales_what_the_host_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
