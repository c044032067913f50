#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../arena_fixture.h"
#include "base/arena.h"
#include "base/text.h"
#include "cost/cost.h"
#include "doc/doc.h"

static const orr_cost_table *table_of(const char *name, uint32_t gpus, const char *software_name) {
    orr_err err = {0};
    orr_accelerator *accelerator = NULL;
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    const orr_cost_table *table = NULL;
    assert_int_equal(orr_accelerator_find(arena, name, &accelerator, &err), ORR_OK);
    assert_int_equal(orr_cluster_usual(arena, accelerator, gpus, 0, NULL, &cluster, &err), ORR_OK);
    assert_int_equal(orr_software_find(arena, software_name, &software, &err), ORR_OK);
    assert_int_equal(orr_cost_table_new(arena, cluster, software, &table, &err), ORR_OK);
    return table;
}

static orr_op gemm_op(uint64_t m, uint64_t n, uint64_t k, orr_dtype dtype) {
    orr_op op = {.kind = ORR_OP_GEMM, .dtype = (uint8_t)dtype, .out_bytes = 2, .dep = {-1, -1}};
    op.shape.gemm.m = m;
    op.shape.gemm.n = n;
    op.shape.gemm.k = k;
    op.shape.gemm.batch = 1;
    op.flops = 2.0 * (double)m * (double)n * (double)k;
    return op;
}

static orr_op comm_op(orr_collective kind, uint64_t bytes, uint32_t size, uint32_t stride) {
    orr_op op = {.kind = ORR_OP_COLLECTIVE, .sub = (uint8_t)kind, .stream = ORR_STREAM_DP};
    op.shape.comm.rank_bytes = bytes;
    op.shape.comm.size = size;
    op.shape.comm.stride = stride;
    op.shape.comm.count = 1;
    return op;
}

/* Every accelerator of the catalog gets a price for every kind of op, within the data sheet. */
static void every_accelerator_is_priced(void **state) {
    (void)state;
    orr_tree *names = orr_accelerator_catalog(arena);
    assert_true(orr_tree_size(names) > 4);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        const char *name = orr_tree_text(orr_tree_at(names, i), "");
        orr_err err = {0};
        orr_accelerator *accelerator = NULL;
        assert_int_equal(orr_accelerator_find(arena, name, &accelerator, &err), ORR_OK);
        const orr_cost_table *table = table_of(name, 16, "megatron-core");
        orr_op op = gemm_op(8192, 8192, 8192, ORR_BF16);
        orr_cost cost = orr_cost_op(table, &op);
        double peak = accelerator->peak_flops[ORR_BF16] > 0 ? accelerator->peak_flops[ORR_BF16]
                                                            : accelerator->peak_flops[ORR_FP16];
        double reached = op.flops / cost.time_s / peak;
        if (!(reached > 0.2 && reached < 1.0)) {
            print_error("%s reaches %g of its peak\n", name, reached);
        }
        assert_true(reached > 0.2 && reached < 1.0);
        assert_true(cost.relerr_frac > 0 && cost.relerr_frac < 0.6);
        cost = orr_cost_memory(table, ORR_MEMOP_ELEMENTWISE, 1e9, 1);
        assert_true(1e9 / cost.time_s < accelerator->hbm_Bps);
        for (int kind = 0; kind < ORR_COLLECTIVE_COUNT; kind++) {
            op = comm_op((orr_collective)kind, 1 << 28, 2, 1);
            cost = orr_cost_op(table, &op);
            assert_true(cost.time_s > 0 && isfinite(cost.time_s));
        }
    }
}

static void assumptions_are_marked(void **state) {
    (void)state;
    orr_op op = gemm_op(4096, 4096, 4096, ORR_BF16);
    const orr_cost_table *h100 = table_of("h100", 8, "megatron-core");
    assert_int_equal(orr_cost_op(h100, &op).provenance, ORR_FROM_MODEL);
    const orr_cost_table *mi300x = table_of("mi300x", 8, "megatron-core");
    orr_cost assumed = orr_cost_op(mi300x, &op);
    assert_int_equal(assumed.provenance, ORR_FROM_ASSUMPTION);
    assert_true(assumed.relerr_frac >= 0.2);
}

/* One group is a plain product; several run at their architecture's share, and cost a launch each
 * unless a whole iteration is captured. */
static void one_group_is_a_plain_product(void **state) {
    (void)state;
    static const char *const devices[] = {"h100", "b200", "mi300x", "mi355x"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        const orr_cost_table *table = table_of(devices[i], 8, "megatron-core");
        orr_op plain = gemm_op(8192, 4096, 4096, ORR_BF16), grouped = plain;
        grouped.kind = ORR_OP_GROUPED_GEMM;
        double one = orr_cost_op(table, &plain).time_s;
        assert_true(orr_cost_op(table, &grouped).time_s == one);
        plain.shape.gemm.batch = grouped.shape.gemm.batch = 2;
        assert_true(orr_cost_op(table, &grouped).time_s > 1.1 * orr_cost_op(table, &plain).time_s);
    }
}

/* What is borrowed is said, with what it cost devices that could be checked. */
static void loans_are_told(void **state) {
    (void)state;
    assert_int_equal(orr_tree_size(orr_cost_reliance(arena, table_of("h100", 8, "megatron-core"))),
                     0);
    const orr_tree *list = orr_cost_reliance(arena, table_of("gb300", 8, "megatron-core"));
    const orr_tree *products = orr_tree_at(list, 0);
    assert_string_equal(orr_tree_text(orr_tree_get(products, "how"), ""), "borrowed");
    assert_true(orr_tree_int(orr_tree_path(products, "left_out.devices"), 0) >= 3);
    double least = orr_tree_real(orr_tree_path(products, "left_out.least"), 0);
    double most = orr_tree_real(orr_tree_path(products, "left_out.most"), 0);
    assert_true(least > 0.02 && most >= least && most < 0.15);
    list = orr_cost_reliance(arena, table_of("tpu-v5p", 8, "megatron-core"));
    assert_int_equal(orr_tree_size(list), 3);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        assert_string_equal(orr_tree_text(orr_tree_get(one, "how"), ""), "assumed");
        assert_non_null(strstr(orr_tree_text(orr_tree_get(one, "message"), ""), "for want of"));
    }
}

/* As much faster than in 16 bits as one library's kernels are, at the shape; H200's causal backward
 * is slower. */
static void attention_in_eight_bits_gains_as_measured(void **state) {
    (void)state;
    orr_op op = {.kind = ORR_OP_ATTENTION, .dtype = ORR_BF16, .causal = 1};
    op.shape.attention.batch = 1;
    op.shape.attention.heads = 64;
    op.shape.attention.kv_heads = 8;
    op.shape.attention.head_dim = op.shape.attention.v_dim = 128;
    op.shape.attention.seq_q = op.shape.attention.seq_kv = 8192;
    static const struct {
        const char *device;
        uint8_t dtype, phase;
        double least, most;
    } rows[] = {{"h200", ORR_FP8, 0, 1.4, 1.6},    {"h200", ORR_FP8, 1, 0.7, 0.85},
                {"h100", ORR_FP8, 0, 1.4, 1.6},    {"gb200", ORR_FP8, 0, 1.2, 1.4},
                {"gb200", ORR_MXFP8, 0, 1.1, 1.3}, {"gb200", ORR_MXFP8, 1, 1, 1.1},
                {"a100-80g", ORR_FP8, 0, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const orr_cost_table *table = table_of(rows[i].device, 8, "megatron-core");
        op.phase = rows[i].phase;
        op.dtype = ORR_BF16;
        orr_cost wide = orr_cost_op(table, &op);
        op.dtype = rows[i].dtype;
        orr_cost low = orr_cost_op(table, &op);
        double gain = wide.time_s / low.time_s;
        assert_true(gain >= rows[i].least && gain <= rows[i].most);
        assert_true(low.relerr_frac >= wide.relerr_frac);
    }
}

/* As in fp8, at the sheet's rate for integers, by assumption. */
static void integers_run_at_the_rate_of_the_sheet(void **state) {
    (void)state;
    orr_op op = {.kind = ORR_OP_GEMM, .dtype = ORR_FP8, .out_bytes = 2};
    op.shape.gemm.m = op.shape.gemm.n = op.shape.gemm.k = 8192;
    op.shape.gemm.batch = 1;
    const orr_cost_table *h200 = table_of("h200", 8, "megatron-core");
    const orr_cost_table *ada = table_of("rtx-4090", 8, "megatron-core");
    orr_cost fp8 = orr_cost_op(h200, &op), ada_fp8 = orr_cost_op(ada, &op);
    op.dtype = ORR_INT8;
    orr_cost int8 = orr_cost_op(h200, &op), ada_int8 = orr_cost_op(ada, &op);
    assert_true(fabs(int8.time_s / fp8.time_s - 1) < 1e-9); /* one rate for both */
    assert_true(ada_int8.time_s < 0.7 * ada_fp8.time_s);    /* twice that of fp8 */
    assert_true(int8.relerr_frac > fp8.relerr_frac);
    assert_int_equal(int8.provenance, ORR_FROM_ASSUMPTION);
}

static void collectives_know_where_a_group_lies(void **state) {
    (void)state;
    const orr_cost_table *table = table_of("h100", 64, "megatron-core");
    orr_op inside = comm_op(ORR_ALL_REDUCE, 1 << 28, 8, 1);
    orr_op across = comm_op(ORR_ALL_REDUCE, 1 << 28, 8, 8);
    orr_op alone = comm_op(ORR_ALL_REDUCE, 1 << 28, 1, 1);
    double near = orr_cost_op(table, &inside).time_s, far = orr_cost_op(table, &across).time_s;
    assert_true(far > 4 * near);
    assert_true(orr_cost_op(table, &alone).time_s == 0);
    /* 64 ranks through 8 NICs a node beat 8 ranks through one */
    orr_op whole = comm_op(ORR_ALL_REDUCE, 1 << 28, 64, 1);
    assert_true(orr_cost_op(table, &whole).time_s < far);
    /* group sizes between the measured ones lie between */
    double times[9];
    for (uint32_t n = 2; n <= 8; n++) {
        orr_op op = comm_op(ORR_ALL_GATHER, 1 << 20, n, 1);
        times[n] = orr_cost_op(table, &op).time_s;
    }
    for (uint32_t n = 3; n <= 8; n++) {
        assert_true(times[n] > 0.9 * times[n - 1]);
    }
    /* so many of them, one after the other */
    orr_op four = inside;
    four.shape.comm.count = 4;
    assert_true(fabs(orr_cost_op(table, &four).time_s / near - 4) < 1e-9);
    /* a token bound for several ranks of a node crosses once */
    orr_op plain = comm_op(ORR_ALL_TO_ALL, 1 << 28, 64, 1), once = plain;
    once.shape.comm.routing.topk = 8;
    once.shape.comm.routing.experts = 256;
    assert_true(orr_cost_op(table, &once).time_s < orr_cost_op(table, &plain).time_s);
}

static void mesh_links_add_up(void **state) {
    (void)state;
    const orr_cost_table *table = table_of("mi300x", 8, "megatron-core");
    orr_op two = comm_op(ORR_ALL_GATHER, 1 << 30, 2, 1),
           eight = comm_op(ORR_ALL_GATHER, 1 << 30, 8, 1);
    double bus2 = 0.5 * (1 << 30) / orr_cost_op(table, &two).time_s;
    double bus8 = 7 / 8.0 * (1 << 30) / orr_cost_op(table, &eight).time_s;
    assert_true(bus8 / bus2 > 6 && bus8 / bus2 < 8);
}

/* Far outside what was measured prices are less sure. */
static void shapes_unlike_all_measured_are_less_sure(void **state) {
    (void)state;
    const orr_cost_table *table = table_of("h100", 64, "megatron-core");
    static const uint64_t sizes[][3] = {
        {4096, 4096, 4096}, {1, 1, 1}, {1u << 22, 1u << 22, 64}, {8192, 8192, 1u << 24}};
    double sure = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        orr_op op = {.kind = ORR_OP_GEMM, .out_bytes = 2};
        op.shape.gemm.m = sizes[i][0];
        op.shape.gemm.n = sizes[i][1];
        op.shape.gemm.k = sizes[i][2];
        op.shape.gemm.batch = 1;
        double relerr = orr_cost_op(table, &op).relerr_frac;
        sure = i == 0 ? relerr : sure;
        assert_true(i == 0 || relerr > 2 * sure);
    }
}

/* Where a launch is most of it, a price is less sure. */
static void short_kernels_are_less_sure(void **state) {
    (void)state;
    const orr_cost_table *table = table_of("h100", 64, "megatron-core");
    orr_op attention = {.kind = ORR_OP_ATTENTION, .causal = 1};
    attention.shape.attention.batch = 1;
    attention.shape.attention.heads = attention.shape.attention.kv_heads = 16;
    attention.shape.attention.head_dim = attention.shape.attention.v_dim = 128;
    attention.shape.attention.seq_q = attention.shape.attention.seq_kv = 8192;
    double sure = orr_cost_op(table, &attention).relerr_frac;
    attention.shape.attention.seq_q = attention.shape.attention.seq_kv = 16;
    assert_true(orr_cost_op(table, &attention).relerr_frac > 1.5 * sure);
    sure = orr_cost_memory(table, ORR_MEMOP_NORM_FWD, 1e9, 1).relerr_frac;
    assert_true(orr_cost_memory(table, ORR_MEMOP_NORM_FWD, 16384, 1).relerr_frac > 1.5 * sure);
}

static void software_shapes_memory_ops(void **state) {
    (void)state;
    const orr_cost_table *table = table_of("h100", 8, "megatron-core");
    orr_op op = {.kind = ORR_OP_MEMORY, .sub = ORR_MEMOP_EAGER, .bytes = 1e8};
    op.shape.memory.kernels = 6;
    double forward = orr_cost_op(table, &op).time_s;
    op.phase = ORR_PHASE_INPUT_GRAD;
    assert_true(orr_cost_op(table, &op).time_s > forward);
    op.sub = ORR_MEMOP_NORM_FWD; /* bytes, not elements: far less */
    assert_true(orr_cost_op(table, &op).time_s < forward / 4);
}

/* A sweep at twice the modelled times halves what the fabric is taken to carry, for operations and
 * group sizes that were not swept too; inside a domain nothing changes. */
static void sweeps_replace_the_fabric(void **state) {
    (void)state;
    const orr_cost_table *base = table_of("h100", 64, "megatron-core");
    static const uint64_t bytes[] = {1u << 20, 8u << 20, 64u << 20, 256u << 20, 1u << 30};
    orr_text csv = orr_text_new(arena, 1 << 16);
    orr_text_add(&csv, "device,op,bytes,ranks,domains,time_us\n");
    for (size_t i = 0; i < 5; i++) {
        orr_op op = comm_op(ORR_ALL_REDUCE, bytes[i], 16, 1);
        orr_text_format(&csv, "h100,all_reduce,%llu,16,2,%.6f\n", (unsigned long long)bytes[i],
                        2e6 * orr_cost_op(base, &op).time_s);
    }
    const char *text = orr_text_done(&csv);
    orr_accelerator *h100 = NULL;
    orr_evidence *evidence = NULL;
    orr_err err = {0};
    assert_int_equal(orr_accelerator_find(arena, "h100", &h100, &err), ORR_OK);
    const orr_evidence_want want = {.device = h100, .classes = ORR_CLASS_BIT_ALL};
    assert_int_equal(
        orr_evidence_parse(arena, "sweep.csv", text, strlen(text), &want, &evidence, &err), ORR_OK);
    const orr_cost_table *own = orr_cost_table_measured(arena, base, evidence);
    const orr_op slower[] = {comm_op(ORR_ALL_REDUCE, 1u << 29, 32, 1),
                             comm_op(ORR_ALL_GATHER, 1u << 29, 32, 1),
                             comm_op(ORR_REDUCE_SCATTER, 1u << 28, 16, 1)};
    for (size_t i = 0; i < 3; i++) {
        orr_cost before = orr_cost_op(base, &slower[i]), after = orr_cost_op(own, &slower[i]);
        double ratio = after.time_s / before.time_s;
        assert_true(ratio > 1.8 && ratio < 2.2);
        assert_int_equal(after.provenance, ORR_FROM_RESTORED);
    }
    orr_op inside = comm_op(ORR_ALL_GATHER, 1u << 28, 8, 1);
    assert_true(fabs(orr_cost_op(own, &inside).time_s / orr_cost_op(base, &inside).time_s - 1) <
                1e-12);
}

static const orr_cost_table *with_log(const orr_cost_table *base, const char *device,
                                      const char *log) {
    orr_accelerator *accelerator = NULL;
    orr_evidence *evidence = NULL;
    orr_err err = {0};
    assert_int_equal(orr_accelerator_find(arena, device, &accelerator, &err), ORR_OK);
    const orr_evidence_want want = {.device = accelerator, .classes = ORR_CLASS_BIT_ALL};
    const char *path = orr_arena_format(arena, ORR_TEST_DIR "/data/logs/%s", log);
    assert_int_equal(orr_evidence_read(arena, path, &want, &evidence, &err), ORR_OK);
    assert_true(evidence->count >= 6);
    return orr_cost_table_measured(arena, base, evidence);
}

/* What nccl-tests and rccl-tests print is a sweep: its own sizes are taken as they are, larger and
 * smaller groups and other sizes follow it. */
static void logs_of_benchmarks_replace_constants(void **state) {
    (void)state;
    const orr_cost_table *base = table_of("h100", 64, "megatron-core");
    const orr_cost_table *own = with_log(base, "h100", "all_gather-2x8.out");
    orr_op exact = comm_op(ORR_ALL_GATHER, 1u << 30, 16, 1);
    assert_true(fabs(orr_cost_op(own, &exact).time_s / 8513.7e-6 - 1) < 1e-9);
    assert_int_equal(orr_cost_op(own, &exact).provenance, ORR_FROM_MEASURED);
    /* between two of its sizes: between their times, and no bend */
    static const double measured_us[] = {85.9, 149.0, 319.4, 893.6, 2698.9, 8513.7};
    double before = 0;
    for (int i = 0; i + 1 < 6; i++) {
        for (int part = 0; part <= 4; part++) {
            double bytes = (double)(1u << 20) * pow(4, i + part / 4.0);
            orr_op op = comm_op(ORR_ALL_GATHER, (uint64_t)(bytes + 0.5), 16, 1);
            double us = 1e6 * orr_cost_op(own, &op).time_s;
            double straight = measured_us[i] * pow(measured_us[i + 1] / measured_us[i], part / 4.0);
            assert_true(us >= before && us > 0.85 * straight && us < 1.15 * straight);
            before = us;
        }
        assert_true(fabs(before / measured_us[i + 1] - 1) < 1e-9);
    }
    /* this cluster gathers at a quarter of what its NICs would give: so it does on 64, and scatters
     */
    for (int i = 0; i < 2; i++) {
        orr_op other = comm_op(i == 0 ? ORR_ALL_GATHER : ORR_REDUCE_SCATTER, 1u << 30, 64, 1);
        double slower = orr_cost_op(own, &other).time_s / orr_cost_op(base, &other).time_s;
        assert_true(slower > 2 && slower < 4);
        assert_int_equal(orr_cost_op(own, &other).provenance, ORR_FROM_RESTORED);
    }
    const orr_cost_table *rocm = table_of("mi300x", 8, "megatron-core");
    const orr_cost_table *mine = with_log(rocm, "mi300x", "rccl-mi300x.out");
    orr_op scatter = comm_op(ORR_REDUCE_SCATTER, 128u << 20, 8, 1);
    double assumed = orr_cost_op(rocm, &scatter).relerr_frac;
    orr_cost cost = orr_cost_op(mine, &scatter);
    assert_true(cost.time_s > 329.2e-6 && cost.time_s < 994.3e-6); /* 64 and 256 MB */
    assert_true(cost.relerr_frac < assumed && cost.provenance == ORR_FROM_RESTORED);
}

/* A cluster file says what joins hosts; returns prices on 128 accelerators of it. */
static const orr_cost_table *table_of_file(const char *yaml) {
    orr_err err = {0};
    orr_tree *tree = NULL;
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    const orr_cost_table *table = NULL;
    assert_int_equal(orr_yaml_read(arena, "cluster.yaml", yaml, strlen(yaml), &tree, &err), ORR_OK);
    assert_int_equal(orr_cluster_read(arena, tree, "mine", &cluster, &err), ORR_OK);
    orr_cluster_resize(cluster, 128);
    assert_int_equal(orr_software_find(arena, "megatron-core", &software, &err), ORR_OK);
    assert_int_equal(orr_cost_table_new(arena, cluster, software, &table, &err), ORR_OK);
    return table;
}

static void rails_shares_and_spines_come_from_a_file(void **state) {
    (void)state;
    /* accelerators at the same place of their hosts meet in a rail, others over the spine */
    const orr_cost_table *railed =
        table_of_file("accelerator: h100\ngpus_per_node: 8\nsource: test\ntiers:\n"
                      "  - {name: domain, gpus: 8, Bps: 450GB/s}\n"
                      "  - {name: rail, gpus: 128, Bps: 50GB/s}\n"
                      "  - {name: spine, gpus: 4096, Bps: 50GB/s, oversubscription: 4}\n");
    orr_op aligned = comm_op(ORR_ALL_GATHER, 1u << 30, 16, 8);
    orr_op whole = comm_op(ORR_ALL_GATHER, 1u << 30, 64, 1);
    orr_op crooked = comm_op(ORR_ALL_GATHER, 1u << 30, 16, 12); /* places 0 and 4 in turn */
    double straight = orr_cost_op(railed, &aligned).time_s;
    double across = orr_cost_op(railed, &crooked).time_s;
    assert_true(across > 3 * straight && across < 5 * straight);
    assert_true(orr_cost_op(railed, &whole).time_s < straight);
    /* eight on four NICs: all send at once, each has half of one */
    const orr_cost_table *shared =
        table_of_file("accelerator: h100\ngpus_per_node: 8\nsource: test\nnic_Bps: 25GB/s\n");
    const orr_cost_table *own =
        table_of_file("accelerator: h100\ngpus_per_node: 8\nsource: test\nnic_Bps: 50GB/s\n");
    double ratio = orr_cost_op(shared, &aligned).time_s / orr_cost_op(own, &aligned).time_s;
    assert_true(ratio > 1.9 && ratio < 2.1);
}

static void switches_add_up_where_the_fabric_says_so(void **state) {
    (void)state;
    static const char cluster[] = "accelerator: h100\ngpus_per_node: 8\nsource: test\nfabric: ";
    char path[] = "/tmp/orr_sharp_fabric.yaml";
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    (void)fputs("like: infiniband\nsource: test\nsharp: yes\n", out);
    (void)fclose(out);
    const orr_cost_table *plain = table_of_file(orr_arena_format(arena, "%sinfiniband\n", cluster));
    const orr_cost_table *sharp = table_of_file(orr_arena_format(arena, "%s%s\n", cluster, path));
    (void)remove(path);
    /* one a host: data crosses each NIC once each way, not twice, and latency does not grow */
    orr_op large = comm_op(ORR_ALL_REDUCE, 1u << 30, 16, 8);
    double gain = orr_cost_op(plain, &large).time_s / orr_cost_op(sharp, &large).time_s;
    assert_true(gain > 1.7 && gain < 2.3);
    orr_op small = comm_op(ORR_ALL_REDUCE, 4096, 16, 8);
    assert_true(orr_cost_op(sharp, &small).time_s < orr_cost_op(plain, &small).time_s);
    /* gathers are none of the switches' business */
    orr_op gather = comm_op(ORR_ALL_GATHER, 1u << 30, 16, 8);
    assert_true(fabs(orr_cost_op(plain, &gather).time_s - orr_cost_op(sharp, &gather).time_s) <
                1e-12);
}

static double algorithm_s(const orr_cost_table *table, const orr_op *op, const char *name) {
    orr_tree *tree = NULL;
    orr_err err = {0};
    assert_int_equal(orr_cost_op_write(arena, table, op, NULL, &tree, &err), ORR_OK);
    const orr_tree *times = orr_tree_get(tree, "algorithms");
    const char *chosen = orr_tree_text(orr_tree_get(tree, "algorithm"), "");
    double found = 0;
    for (size_t i = 0; i < orr_tree_size(times); i++) { /* the fastest is the price */
        const orr_tree *one = orr_tree_at(times, i);
        const char *is = orr_tree_text(orr_tree_get(one, "name"), "");
        double time = orr_tree_real(orr_tree_get(one, "time_s"), 0);
        found = strcmp(is, name) == 0 ? time : found;
        assert_true(time >= orr_cost_op(table, op).time_s * (1 - 1e-12));
        if (strcmp(is, chosen) == 0) {
            assert_true(fabs(time / orr_cost_op(table, op).time_s - 1) < 1e-12);
        }
    }
    return found;
}

/* Which algorithms a library has follows from its version, the vendor and the group. */
static void policies_know_the_library(void **state) {
    (void)state;
    const orr_cost_table *now = table_of("h100", 512, "megatron-core-2026");
    const orr_cost_table *then = table_of("h100", 512, "megatron-2021");
    const orr_cost_table *rocm = table_of("mi300x", 512, "unknown");
    orr_op small = comm_op(ORR_ALL_GATHER, 4u << 20, 64, 8);
    orr_op large = comm_op(ORR_REDUCE_SCATTER, 1u << 30, 64, 8);
    orr_op wide = comm_op(ORR_ALL_GATHER, 4u << 20, 64, 1); /* eight a host */
    orr_op sum = comm_op(ORR_ALL_REDUCE, 1u << 28, 64, 8);
    assert_true(algorithm_s(now, &small, "PAT") < algorithm_s(now, &small, "ring"));
    assert_true(algorithm_s(now, &large, "PAT") > algorithm_s(now, &large, "ring"));
    assert_true(algorithm_s(now, &wide, "PAT") == 0 && algorithm_s(now, &sum, "PAT") == 0);
    assert_true(algorithm_s(then, &small, "PAT") == 0 && algorithm_s(rocm, &small, "PAT") == 0);
    assert_true(orr_cost_op(then, &small).time_s > 2 * orr_cost_op(now, &small).time_s);
    /* switches add up on Hopper, not on Ampere, and one a host has none */
    const orr_cost_table *ampere = table_of("a100-80g", 512, "unknown");
    orr_op hosts = comm_op(ORR_ALL_REDUCE, 1u << 30, 16, 1);
    assert_true(algorithm_s(now, &hosts, "NVLS tree") > 0);
    assert_true(algorithm_s(ampere, &hosts, "NVLS tree") == 0);
    assert_true(algorithm_s(now, &sum, "NVLS tree") == 0);
}

/* No price beats what links and NICs allow its algorithm. */
static void roofs_hold(void **state) {
    (void)state;
    static const char *const names[] = {"h100", "b200", "gb200", "a100-80g", "mi300x", "tpu-v5p"};
    static const uint32_t groups[][2] = {{2, 1}, {4, 1}, {8, 1}, {16, 1}, {64, 1}, {16, 8}};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const orr_cost_table *table = table_of(names[n], 128, "unknown");
        for (int kind = 0; kind < ORR_COLLECTIVE_COUNT; kind++) {
            for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
                orr_op op = comm_op((orr_collective)kind, 1ull << 33, groups[g][0], groups[g][1]);
                orr_tree *tree = NULL;
                orr_err err = {0};
                assert_int_equal(orr_cost_op_write(arena, table, &op, NULL, &tree, &err), ORR_OK);
                double frac = orr_tree_real(orr_tree_path(tree, "roof.frac"), 0);
                assert_true(frac > 0.05 && frac <= 1);
            }
        }
    }
    /* eight H100 add up faster than a ring could */
    orr_op sum = comm_op(ORR_ALL_REDUCE, 1ull << 33, 8, 1);
    double bus = 2 * 7. / 8 * (double)(1ull << 33) /
                 orr_cost_op(table_of("h100", 8, "unknown"), &sum).time_s;
    assert_true(bus > 450e9);
}

/* Tokens within few groups cross to few hosts. */
static void limited_routing_crosses_less(void **state) {
    (void)state;
    const orr_cost_table *table = table_of("h100", 64, "megatron-core");
    orr_op all = comm_op(ORR_ALL_TO_ALL, 1u << 28, 64, 1);
    all.shape.comm.routing = (orr_routing){.topk = 8, .experts = 256};
    orr_op few = all;
    few.shape.comm.routing = (orr_routing){8, 256, 8, 4};
    double ratio = orr_cost_op(table, &few).time_s / orr_cost_op(table, &all).time_s;
    assert_true(ratio > 0.65 && ratio < 0.8); /* 3.6 of 8 hosts, not 5.4, of 7.1 ranks, not 7.6 */
}

/* On a torus neighbours are near and an all-to-all is not. */
static void tori_take_hops(void **state) {
    (void)state;
    const orr_cost_table *torus = table_of("tpu-v5p", 64, "unknown");
    orr_op few = comm_op(ORR_ALL_TO_ALL, 1u << 30, 8, 1),
           many = comm_op(ORR_ALL_TO_ALL, 1u << 30, 64, 1);
    double growth = orr_cost_op(torus, &many).time_s / orr_cost_op(torus, &few).time_s;
    assert_true(growth > 1.7 && growth < 2.6); /* (64/8)^(1/3), and (n-1)/n */
    orr_op gather = comm_op(ORR_ALL_GATHER, 1u << 30, 64, 1);
    assert_true(orr_cost_op(torus, &gather).time_s < orr_cost_op(torus, &many).time_s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweeps_replace_the_fabric),
        cmocka_unit_test(logs_of_benchmarks_replace_constants),
        cmocka_unit_test(rails_shares_and_spines_come_from_a_file),
        cmocka_unit_test(switches_add_up_where_the_fabric_says_so),
        cmocka_unit_test(tori_take_hops),
        cmocka_unit_test(policies_know_the_library),
        cmocka_unit_test(roofs_hold),
        cmocka_unit_test(limited_routing_crosses_less),
        cmocka_unit_test(every_accelerator_is_priced),
        cmocka_unit_test(assumptions_are_marked),
        cmocka_unit_test(loans_are_told),
        cmocka_unit_test(one_group_is_a_plain_product),
        cmocka_unit_test(attention_in_eight_bits_gains_as_measured),
        cmocka_unit_test(integers_run_at_the_rate_of_the_sheet),
        cmocka_unit_test(collectives_know_where_a_group_lies),
        cmocka_unit_test(mesh_links_add_up),
        cmocka_unit_test(shapes_unlike_all_measured_are_less_sure),
        cmocka_unit_test(short_kernels_are_less_sure),
        cmocka_unit_test(software_shapes_memory_ops),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
