#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "cost/calibration.h"
#include "cost/models.h"
#include "program/routing.h"

/* An H100-like device and constants in the middle of the fitted ranges. */
static const orr_machine MACHINE = {132, 989.4e12, 3.352e12, 50e6};
static const orr_gemm_constants GEMM = {.start_s = 2e-6,
                                        .efficiency = 0.84,
                                        .hbm_frac = 0.81,
                                        .tile_s = 0.2e-6,
                                        .unit_Bps = 131e9,
                                        .occupancy = 3,
                                        .serial_output = 0.5,
                                        .norm = 6,
                                        .split_s = 2e-6,
                                        .quantisation = 0.05,
                                        .fill = 0.9,
                                        .depth = 0,
                                        .throttle = 0.17,
                                        .throttle_half_s = 1e-3,
                                        .tile_gain = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};

static double gemm(double m, double n, double k, orr_power power) {
    orr_gemm_shape shape = {m, n, k, 1, 2, 2};
    return orr_gemm_time_s(&GEMM, &MACHINE, &shape, power);
}

static void gemm_grows_with_each_dimension(void **state) {
    (void)state;
    for (double size = 64; size < 20000; size *= 2) {
        assert_true(gemm(2 * size, 4096, 4096, ORR_POWER_BENCHMARK) >=
                    gemm(size, 4096, 4096, ORR_POWER_BENCHMARK));
        assert_true(gemm(4096, 2 * size, 4096, ORR_POWER_BENCHMARK) >=
                    gemm(4096, size, 4096, ORR_POWER_BENCHMARK));
        assert_true(gemm(4096, 4096, 2 * size, ORR_POWER_BENCHMARK) >=
                    gemm(4096, 4096, size, ORR_POWER_BENCHMARK));
    }
}

static void gemm_respects_its_limits(void **state) {
    (void)state;
    /* never faster than the sheet, arithmetic or memory */
    for (double size = 16; size < 40000; size *= 1.7) {
        double side = floor(size);
        double time = gemm(side, side, side, ORR_POWER_BENCHMARK);
        assert_true(time > 2 * side * side * side / MACHINE.peak_flops);
        assert_true(time > 3 * side * side * 2 / MACHINE.hbm_Bps);
    }
    /* large products come near the main loop's efficiency */
    double reached = 2 * 8192. * 8192. * 8192. / gemm(8192, 8192, 8192, ORR_POWER_BENCHMARK);
    assert_true(reached > 0.6 * MACHINE.peak_flops && reached < 0.84 * MACHINE.peak_flops);
    /* a skinny product streams its weights */
    double stream = 8192. * 28672 * 2 / gemm(16, 28672, 8192, ORR_POWER_BENCHMARK);
    assert_true(stream > 0.6 * MACHINE.hbm_Bps && stream < 0.81 * MACHINE.hbm_Bps);
    orr_gemm_shape empty = {0, 10, 10, 1, 2, 2};
    assert_true(orr_gemm_time_s(&GEMM, &MACHINE, &empty, ORR_POWER_SUSTAINED) == 0);
}

static void sustained_power_is_the_whole_throttle(void **state) {
    (void)state;
    orr_gemm_constants cold = GEMM;
    cold.throttle = 0;
    double before = 0;
    for (double side = 512; side < 70000; side *= 2) {
        orr_gemm_shape shape = {side, side, side, 1, 2, 2};
        double burst = orr_gemm_time_s(&cold, &MACHINE, &shape, ORR_POWER_SUSTAINED);
        double alone = orr_gemm_time_s(&GEMM, &MACHINE, &shape, ORR_POWER_BENCHMARK);
        double held = orr_gemm_time_s(&GEMM, &MACHINE, &shape, ORR_POWER_SUSTAINED);
        /* a benchmark throttles the more, the longer its kernel runs */
        double share = (alone - burst) / (held - burst);
        assert_true(share > before && share < 1);
        before = share;
        assert_true(fabs((held - GEMM.start_s) / (burst - GEMM.start_s) - 1.17) < 1e-9);
    }
    assert_true(before > 0.95);
}

/* The search over tiles keeps the least: no single tile may beat it. */
static void no_tile_beats_the_search(void **state) {
    (void)state;
    for (double m = 100; m < 20000; m *= 2.3) {
        orr_gemm_shape shape = {floor(m), 4096, 8192, 1, 2, 2};
        double best = orr_gemm_time_s(&GEMM, &MACHINE, &shape, ORR_POWER_BENCHMARK);
        for (int tile = 0; tile < ORR_GEMM_TILES; tile++) {
            orr_gemm_constants alone = GEMM;
            for (int i = 0; i < ORR_GEMM_TILES; i++) {
                alone.tile_gain[i] = i == tile ? 1 : 1e-3;
            }
            double one = orr_gemm_time_s(&alone, &MACHINE, &shape, ORR_POWER_BENCHMARK);
            assert_true(one >= best * (1 - 1e-12));
        }
    }
}

static void accumulating_output_costs_more(void **state) {
    (void)state;
    orr_gemm_shape plain = {4096, 4096, 512, 1, 2, 2}, accumulate = {4096, 4096, 512, 1, 2, 8};
    assert_true(orr_gemm_time_s(&GEMM, &MACHINE, &accumulate, ORR_POWER_SUSTAINED) >
                orr_gemm_time_s(&GEMM, &MACHINE, &plain, ORR_POWER_SUSTAINED));
}

static const orr_attention_constants ATTENTION = {.start_s = 2e-6,
                                                  .efficiency = 0.7,
                                                  .medium_frac = 0.85,
                                                  .narrow_frac = 0.75,
                                                  .tile_s = 3e-6,
                                                  .backward_flops = 2.5,
                                                  .backward_frac = 0.85};

static orr_attention_shape attention_shape(double seq) {
    return (orr_attention_shape){.batch = 1,
                                 .heads = 32,
                                 .kv_heads = 8,
                                 .head_dim = 128,
                                 .v_dim = 128,
                                 .seq_q = seq,
                                 .seq_kv = seq,
                                 .causal = true};
}

static void attention_keys_by_mask(void **state) {
    (void)state;
    orr_attention_shape shape = attention_shape(8192);
    assert_true(orr_attention_keys(&shape) == (8192 + 128) / 2.0);
    shape.causal = false;
    assert_true(orr_attention_keys(&shape) == 8192);
    shape.causal = true;
    shape.window = 1024;
    double windowed = orr_attention_keys(&shape);
    assert_true(windowed > 900 && windowed < 1100);
    shape.window = 1 << 20; /* wider than the sequence: no window */
    assert_true(orr_attention_keys(&shape) == (8192 + 128) / 2.0);
    /* a context-parallel rank: an eighth of the queries, half of all keys on average */
    shape.window = 0;
    shape.seq_q = 1024;
    assert_true(orr_attention_keys(&shape) == (8192 + 128) / 2.0);
}

static void attention_scales(void **state) {
    (void)state;
    orr_attention_shape shape = attention_shape(16384);
    double forward = orr_attention_time_s(&ATTENTION, &MACHINE, &shape);
    double flops = 2 * 16384. * 16384. * 128 * 32; /* the triangle, both products */
    assert_true(flops / forward < 0.7 * MACHINE.peak_flops);
    assert_true(flops / forward > 0.5 * MACHINE.peak_flops);
    shape.backward = true;
    double backward = orr_attention_time_s(&ATTENTION, &MACHINE, &shape);
    assert_true(backward / forward > 2.5 && backward / forward < 3.0);
    /* libraries whose backward is slower where query heads share keys */
    orr_attention_constants slow = ATTENTION;
    slow.grouped_backward_frac = 0.5;
    shape.kv_heads = shape.heads;
    assert_true(fabs(orr_attention_time_s(&slow, &MACHINE, &shape) - backward) < 1e-12);
    shape.kv_heads = shape.heads / 4;
    assert_true(orr_attention_time_s(&slow, &MACHINE, &shape) > 1.9 * backward);
    /* narrow heads reach less */
    shape.backward = false;
    shape.head_dim = shape.v_dim = 64;
    double narrow = orr_attention_time_s(&ATTENTION, &MACHINE, &shape);
    assert_true(narrow > 0.5 * forward);
    /* latent attention: q and k of 192, v of 128 */
    shape.head_dim = 192;
    shape.v_dim = 128;
    double latent = orr_attention_time_s(&ATTENTION, &MACHINE, &shape);
    assert_true(latent > forward && latent < 1.3 * forward);
}

static void attention_takes_no_less_than_its_bytes(void **state) {
    (void)state;
    orr_attention_shape shape = attention_shape(4096);
    shape.kv_heads = shape.heads;
    double tensor = 2. * 32 * 128 * 4096;
    assert_true(orr_attention_bytes(&shape) == 4 * tensor);
    shape.window = 128; /* narrower than what HBM allows */
    shape.backward = true;
    assert_true(orr_attention_bytes(&shape) == 8 * tensor);
    assert_true(orr_attention_time_s(&ATTENTION, &MACHINE, &shape) >= 8 * tensor / MACHINE.hbm_Bps);
    /* one query reads all keys, or those of its window */
    shape = attention_shape(1 << 17);
    shape.seq_q = 1;
    double cache = 2. * 2 * 8 * 128 * shape.seq_kv;
    assert_true(orr_attention_time_s(&ATTENTION, &MACHINE, &shape) > cache / MACHINE.hbm_Bps);
    shape.window = 128;
    assert_true(orr_attention_bytes(&shape) < 0.01 * cache);
}

static void pipes_start_flow_and_pay_for_pieces(void **state) {
    (void)state;
    orr_message message = {10e-6, 400e9, 5e-6};
    assert_true(orr_message_time_s(&message, 0) == 10e-6);
    double before = 0;
    for (double bytes = 1; bytes < 1e10; bytes *= 2) {
        double time = orr_message_time_s(&message, bytes), flow = bytes / message.Bps;
        assert_true(time > before);
        /* no cut into whole pieces does better */
        for (double pieces = 1; pieces < 1e4; pieces *= 2) {
            double cut = message.start_s + flow + flow / pieces + pieces * message.piece_s;
            assert_true(time <= cut * (1 + 1e-9));
        }
        before = time;
    }
}

static void rails_follow_the_nics(void **state) {
    (void)state;
    orr_rails rails = {.ranks = 64,
                       .inner = 8,
                       .domains = 8,
                       .inner_Bps = 450e9,
                       .nic_Bps = 48e9,
                       .site_Bps = 8 * 48e9,
                       .base_s = 20e-6,
                       .hop_s = 12e-6,
                       .peer_hop_s = 2e-6};
    /* 64 H100 behind idle 400 Gb/s NICs: about 380 GB/s of bus bandwidth measured at 2 GB */
    double bus = 2 * 63. / 64 * 2e9 / orr_rails_ring_s(&rails, 2e9, true);
    assert_true(bus > 330e9 && bus < 400e9);
    /* small messages take the tree on many domains */
    rails.ranks = 1024;
    rails.domains = 128;
    assert_true(orr_rails_tree_s(&rails, 1e5) < orr_rails_ring_s(&rails, 1e5, true));
    assert_true(orr_rails_tree_s(&rails, 4e10) > orr_rails_ring_s(&rails, 4e10, true));
    /* a tree of its own latency */
    double usual = orr_rails_tree_s(&rails, 1e5);
    rails.tree_hop_s = 1.5 * rails.hop_s;
    assert_true(fabs(orr_rails_tree_s(&rails, 1e5) - usual) < 1e-15);
    rails.tree_hop_s = rails.hop_s / 2;
    assert_true(fabs(usual - orr_rails_tree_s(&rails, 1e5) - 2 * 7 * rails.hop_s) < 1e-12);
    /* an all-to-all is bound by each rank's own NIC */
    double direct = orr_rails_all_to_all_s(&rails, 1e9, 127. / 128);
    assert_true(direct > 127. / 128 * 1e9 / 48e9);
}

/* PAT takes log2 steps and leaves a quarter of the bandwidth: it wins where rings wait. */
static void aggregated_trees_take_few_steps(void **state) {
    (void)state;
    orr_rails rails = {.ranks = 64,
                       .inner = 1,
                       .domains = 64,
                       .nic_Bps = 48e9,
                       .site_Bps = 48e9,
                       .base_s = 20e-6,
                       .hop_s = 14e-6};
    /* six steps, a 3.5th of a hop each, and 2.8 us a rank */
    double nothing = orr_rails_pat_s(&rails, 0);
    assert_true(fabs(nothing - (20e-6 + 6 * 14e-6 / 3.5 + 64 * 2.8e-6)) < 1e-12);
    assert_true(nothing < orr_rails_ring_s(&rails, 0, false) / 3);
    assert_true(orr_rails_pat_s(&rails, 4e6) < orr_rails_ring_s(&rails, 4e6, false));
    assert_true(orr_rails_pat_s(&rails, 4e9) > 1.3 * orr_rails_ring_s(&rails, 4e9, false));
}

/* A tree of switches: their bandwidth is not halved by what passes on pieces, and wide domains have
 * no chain to wait for. */
static void switches_stand_in_for_chains(void **state) {
    (void)state;
    orr_rails rails = {.ranks = 144,
                       .inner = 72,
                       .domains = 2,
                       .inner_Bps = 700e9,
                       .nic_Bps = 42e9,
                       .site_Bps = 72 * 42e9,
                       .base_s = 20e-6,
                       .hop_s = 12e-6,
                       .peer_hop_s = 2e-6,
                       .switch_Bps = 830e9,
                       .switch_s = 25e-6};
    double chained = orr_rails_tree_s(&rails, 1e3), added = orr_rails_nvls_tree_s(&rails, 1e3);
    assert_true(fabs(chained - added - (2 * 71 * 2e-6 - 25e-6)) < 1e-7);
    double bus = 2 * 143. / 144 * 8e9 / orr_rails_nvls_tree_s(&rails, 8e9);
    assert_true(bus > 0.97 * 830e9 && bus < 830e9); /* two racks of GB200: 831 GB/s measured */
    /* two hosts of eight H100 on 50 GB/s NICs: 487 GB/s measured */
    rails = (orr_rails){.ranks = 16,
                        .inner = 8,
                        .domains = 2,
                        .nic_Bps = 37.5e9,
                        .site_Bps = 8 * 37.5e9,
                        .base_s = 72e-6,
                        .switch_Bps = 500e9};
    bus = 2 * 15. / 16 * 16e9 / orr_rails_nvls_tree_s(&rails, 16e9);
    assert_true(bus > 0.95 * 487e9 && bus < 1.05 * 487e9);
    /* eight H100 reach 480 GB/s of bus bandwidth over 450 GB/s of links */
    assert_true(2 * 7. / 8 * 450e9 / orr_switch_wire_frac(8) > 480e9);
}

/* What NICs leave of a bus bandwidth, by algorithm. */
static void networks_bound_the_bus(void **state) {
    (void)state;
    const double nic = 50e9, link = 900e9;
    /* two hosts of eight: a tree sends everything out and in once */
    assert_true(orr_across_bus_Bps(ORR_ALL_REDUCE, 16, 2, nic, link) == 2 * 15. / 16 * 8 * nic);
    /* more: in and out twice, or around a ring */
    assert_true(orr_across_bus_Bps(ORR_ALL_REDUCE, 64, 8, nic, link) == 8 * nic);
    assert_true(orr_across_bus_Bps(ORR_ALL_GATHER, 64, 8, nic, link) == 8 * nic);
    assert_true(orr_across_bus_Bps(ORR_SEND_RECV, 2, 2, nic, link) == nic);
    /* of an all-to-all only what leaves the host meets the NIC */
    assert_true(orr_across_bus_Bps(ORR_ALL_TO_ALL, 16, 2, nic, link) == nic * 15 / 8);
    /* links bound all, and alone inside a domain */
    assert_true(orr_across_bus_Bps(ORR_ALL_REDUCE, 64, 8, nic, 100e9) == 100e9);
    assert_true(orr_across_bus_Bps(ORR_ALL_GATHER, 8, 1, nic, link) == link);
}

/* Choices within 2 of 4 groups of 8 experts, all equally likely: places by counting them all. */
static void routing_within_groups(void **state) {
    (void)state;
    enum { EXPERTS = 8, GROUPS = 4, CHOSEN = 2, TOPK = 3, EACH = EXPERTS / GROUPS };
    const orr_routing routing = {TOPK, EXPERTS, GROUPS, CHOSEN};
    for (uint32_t places = 2; places <= EXPERTS; places *= 2) {
        double sum = 0, count = 0;
        for (uint32_t groups = 0; groups < 1u << GROUPS; groups++) {
            for (uint32_t choice = 0; choice < 1u << EXPERTS; choice++) {
                uint32_t hit = 0, within = 0, bits = 0;
                for (uint32_t e = 0; e < EXPERTS; e++) {
                    if (choice >> e & 1) {
                        bits++;
                        within += groups >> (e / EACH) & 1;
                        hit |= 1u << (e * places / EXPERTS);
                    }
                }
                if (__builtin_popcount(groups) == CHOSEN && bits == TOPK && within == TOPK) {
                    sum += __builtin_popcount(hit);
                    count++;
                }
            }
        }
        /* several groups on one place: groups that are reached are taken as independent of each
         * other's number */
        double off = fabs(orr_routing_places(&routing, places) / (sum / count) - 1);
        assert_true(places >= GROUPS ? off < 1e-12 : off < 0.02);
    }
    /* without a limit it is what it was */
    const orr_routing free_choice = {8, 256, 8, 8};
    assert_true(orr_routing_places(&free_choice, 64) == orr_distinct_places(64, 8, 256));
    /* DeepSeek-V3 on eight hosts: at most four of them */
    const orr_routing deepseek = {8, 256, 8, 4};
    assert_true(orr_routing_places(&deepseek, 8) < 4);
    assert_true(orr_distinct_places(8, 8, 256) > 5);
}

static void distinct_places_without_replacement(void **state) {
    (void)state;
    /* Mixtral: 8 experts on 8 ranks, top 2 */
    assert_true(fabs(orr_distinct_places(8, 2, 8) - 2) < 1e-12);
    /* DeepSeek-V3 on 8 ranks: 5.25 for 256 experts, top 8 */
    double places = orr_distinct_places(8, 8, 256);
    assert_true(places > 5.2 && places < 5.4);
    assert_true(fabs(orr_distinct_places(1, 8, 256) - 1) < 1e-12);
}

static const orr_experts_constants EXPERTS = {.start_s = 1e-5,
                                              .efficiency = 0.5,
                                              .hbm_frac = 0.7,
                                              .pad_rows = 20,
                                              .group_s = 1e-8,
                                              .norm = 4,
                                              .skew = 0.3,
                                              .read_bytes = 2,
                                              .write_bytes = 2,
                                              .depth = 200,
                                              .wave = 0.3};

static orr_experts_shape grouped_product(double groups, double rows, double n, double k) {
    return (orr_experts_shape){.rows = rows * groups,
                               .most_rows = rows * groups,
                               .groups = groups,
                               .row_flops = 2 * n * k,
                               .group_bytes = 2 * n * k,
                               .depth = k,
                               .columns = n,
                               .ranks = 1};
}

/* As many operations over a depth of 256 take longer than over 4,096: units fill again for every
 * tile, and sixteen times as much is written. */
static void shallow_products_are_slower(void **state) {
    (void)state;
    orr_experts_constants unfilled = EXPERTS, summed = EXPERTS;
    unfilled.depth = 0;
    summed.write_bytes = 12; /* read, added and written in four bytes each */
    orr_experts_shape deep = grouped_product(8, 8192, 1024, 4096);
    orr_experts_shape shallow = grouped_product(8, 8192, 16384, 256);
    double time = orr_experts_time_s(&EXPERTS, &MACHINE, &shallow);
    assert_true(time > 1.5 * orr_experts_time_s(&EXPERTS, &MACHINE, &deep));
    assert_true(time > 1.2 * orr_experts_time_s(&unfilled, &MACHINE, &shallow));
    assert_true(time < orr_experts_time_s(&summed, &MACHINE, &shallow) / 1.2);
}

/* A host that launches group after group bounds many small ones, and hides behind large ones. */
static void launches_of_groups_overlap_their_work(void **state) {
    (void)state;
    orr_experts_constants launched = EXPERTS;
    launched.group_s = 1e-5;
    orr_experts_shape small = grouped_product(256, 128, 512, 2048);
    orr_experts_shape large = grouped_product(8, 8192, 4096, 4096);
    double most = 256 * launched.group_s;
    double bound = orr_experts_time_s(&launched, &MACHINE, &small);
    assert_true(bound >= most && bound < 1.1 * most);
    assert_true(orr_experts_time_s(&launched, &MACHINE, &large) <
                1.001 * orr_experts_time_s(&EXPERTS, &MACHINE, &large));
}

static const orr_flash_constants FLASH = {.start_s = 1e-5,
                                          .sequence_s = 1e-8,
                                          .efficiency = {0.6, 0.6, 0.6, 0.6, 0.6, 0.6},
                                          .causal_frac = 1,
                                          .grouped_frac = 1,
                                          .deterministic_frac = 0.9,
                                          .tile_s = 1e-6,
                                          .block_s = 1e-7,
                                          .tail = 4,
                                          .hbm_frac = 0.7,
                                          .norm = 3};

static double flash_of_width(const orr_flash_constants *c, double width) {
    orr_attention_shape shape = attention_shape(16384);
    shape.head_dim = shape.v_dim = width;
    return orr_flash_time_s(c, &MACHINE, &shape);
}

/* Classes end at 64, 96, 128, 192 and 256; the last is of widths that are no multiple of 16. */
static void widths_without_rows_are_padded(void **state) {
    (void)state;
    orr_flash_constants c = FLASH;
    const double slow = 0.2, fast = 0.8;
    memcpy(c.efficiency, (double[]){slow, 0, fast, 0, 0, 0}, sizeof c.efficiency);
    const double wide = flash_of_width(&c, 128);
    assert_true(flash_of_width(&c, 80) < wide && flash_of_width(&c, 80) > 0.98 * wide);
    assert_true(flash_of_width(&c, 100) < wide && flash_of_width(&c, 100) > 0.85 * wide);
    assert_true(flash_of_width(&c, 256) > 1.9 * wide); /* nothing wider: as the next narrower */
    memcpy(c.efficiency, (double[]){0, 0, 0, 0, 0, fast}, sizeof c.efficiency);
    assert_true(flash_of_width(&c, 128) > 0.99 * wide && flash_of_width(&c, 128) < 1.01 * wide);
}

/* A kernel that only masks what lies outside a window takes the time of no window. */
static void windows_help_kernels_that_skip(void **state) {
    (void)state;
    orr_attention_shape whole = attention_shape(16384), windowed = whole;
    windowed.window = 128;
    orr_flash_constants masks = FLASH;
    masks.masked_frac = 1;
    double all = orr_flash_time_s(&FLASH, &MACHINE, &whole);
    double skipped = orr_flash_time_s(&FLASH, &MACHINE, &windowed);
    double masked = orr_flash_time_s(&masks, &MACHINE, &windowed);
    assert_true(skipped < all / 10);
    assert_true(fabs(masked / all - 1) < 1e-9);
    masks.masked_frac = 0.5;
    double half = orr_flash_time_s(&masks, &MACHINE, &windowed);
    assert_true(half > skipped && half < all);
}

/* Packed sequences: alike ones are a batch, others take no less than the longest alone and no more
 * than one after the other. */
static void packed_sequences_share_a_call(void **state) {
    (void)state;
    static const double alike[] = {4096, 4096, 4096}, mixed[] = {16384, 700, 1024, 3};
    const orr_packed same = {alike, 3}, some = {mixed, 4};
    for (int backward = 0; backward < 2; backward++) {
        orr_attention_shape batch = attention_shape(4096), packed = batch;
        batch.backward = packed.backward = backward != 0;
        batch.batch = 3;
        packed.packed = &same;
        double together = orr_attention_time_s(&ATTENTION, &MACHINE, &packed);
        assert_true(fabs(together / orr_attention_time_s(&ATTENTION, &MACHINE, &batch) - 1) < 1e-9);
        together = orr_flash_time_s(&FLASH, &MACHINE, &packed);
        assert_true(fabs(together / orr_flash_time_s(&FLASH, &MACHINE, &batch) - 1) < 1e-9);
        packed.packed = &some;
        double model_sum = 0, flash_sum = 0, pairs = 0, tiles = 0;
        double model_s = orr_attention_time_s(&ATTENTION, &MACHINE, &packed);
        double flash_s = orr_flash_time_s(&FLASH, &MACHINE, &packed);
        for (uint32_t i = 0; i < some.count; i++) {
            orr_attention_shape one = orr_attention_piece(&packed, i);
            double model_one = orr_attention_time_s(&ATTENTION, &MACHINE, &one);
            double flash_one = orr_flash_time_s(&FLASH, &MACHINE, &one);
            assert_true(model_s >= model_one && flash_s >= flash_one);
            model_sum += model_one;
            flash_sum += flash_one;
            pairs += one.seq_q * orr_attention_keys(&one);
            tiles += one.heads * ceil(one.seq_q / 128);
        }
        assert_true(model_s < model_sum && flash_s < flash_sum);
        assert_true(orr_attention_work_of(&packed).pairs == pairs);
        assert_true(orr_attention_work_of(&packed).tiles == tiles);
    }
}

static void one_order_of_sums_costs(void **state) {
    (void)state;
    orr_attention_shape shape = attention_shape(16384);
    double free_s = orr_flash_time_s(&FLASH, &MACHINE, &shape);
    shape.deterministic = true;
    assert_true(orr_flash_time_s(&FLASH, &MACHINE, &shape) > 1.05 * free_s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_without_rows_are_padded),
        cmocka_unit_test(windows_help_kernels_that_skip),
        cmocka_unit_test(one_order_of_sums_costs),
        cmocka_unit_test(packed_sequences_share_a_call),
        cmocka_unit_test(gemm_grows_with_each_dimension),
        cmocka_unit_test(gemm_respects_its_limits),
        cmocka_unit_test(sustained_power_is_the_whole_throttle),
        cmocka_unit_test(no_tile_beats_the_search),
        cmocka_unit_test(accumulating_output_costs_more),
        cmocka_unit_test(attention_keys_by_mask),
        cmocka_unit_test(attention_scales),
        cmocka_unit_test(attention_takes_no_less_than_its_bytes),
        cmocka_unit_test(shallow_products_are_slower),
        cmocka_unit_test(launches_of_groups_overlap_their_work),
        cmocka_unit_test(pipes_start_flow_and_pay_for_pieces),
        cmocka_unit_test(rails_follow_the_nics),
        cmocka_unit_test(networks_bound_the_bus),
        cmocka_unit_test(aggregated_trees_take_few_steps),
        cmocka_unit_test(switches_stand_in_for_chains),
        cmocka_unit_test(distinct_places_without_replacement),
        cmocka_unit_test(routing_within_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
