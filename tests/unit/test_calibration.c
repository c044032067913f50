#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/arena.h"
#include "cost/kernel_price.h"
#include "doc/doc.h"

static orr_arena *arena;
static orr_calibration *builtin;
static orr_calibration *kernels; /* with the fits that only kernel tables use */

static int setup(void **state) {
    (void)state;
    arena = orr_arena_new();
    orr_err err = {0};
    orr_status status = orr_calibration_builtin(arena, &builtin, &err);
    if (status == ORR_OK) {
        status = orr_calibration_builtin(arena, &kernels, &err);
    }
    if (status == ORR_OK) {
        status = orr_calibration_kernels(arena, kernels, &err);
    }
    if (status != ORR_OK) {
        print_error("%s:%u: %s\n", err.file, err.line, err.message);
    }
    return status == ORR_OK ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static orr_accelerator device(const char *name, orr_vendor vendor, orr_arch arch, uint32_t units,
                              double hbm_Bps, double link_Bps, orr_topology topology) {
    return (orr_accelerator){.name = name,
                             .vendor = (uint8_t)vendor,
                             .arch = (uint8_t)arch,
                             .topology = (uint8_t)topology,
                             .units = units,
                             .hbm_Bps = hbm_Bps,
                             .link_Bps = link_Bps};
}

static void devices_find_their_own_fit(void **state) {
    (void)state;
    orr_kin kin = ORR_KIN_OTHER;
    orr_accelerator h100 =
        device("h100", ORR_NVIDIA, ORR_ARCH_HOPPER, 132, 3.352e12, 450e9, ORR_SWITCHED);
    const orr_gemm_fit *fit = orr_calibration_gemm(builtin, &h100, "bf16", &kin);
    assert_string_equal(fit->fit.device, "h100");
    assert_int_equal(kin, ORR_KIN_SAME);
    const orr_arch_fit *arch = orr_calibration_arch(builtin, &h100, &kin);
    assert_int_equal(arch->arch, ORR_ARCH_HOPPER);
}

static void unknown_devices_take_the_nearest_sibling(void **state) {
    (void)state;
    orr_kin kin = ORR_KIN_OTHER;
    /* a Hopper with an H200's memory */
    orr_accelerator sibling =
        device("x200", ORR_NVIDIA, ORR_ARCH_HOPPER, 132, 4.9e12, 450e9, ORR_SWITCHED);
    const orr_gemm_fit *fit = orr_calibration_gemm(builtin, &sibling, "bf16", &kin);
    assert_string_equal(fit->fit.device, "h200");
    assert_int_equal(kin, ORR_KIN_ARCH);
    /* an AMD part of a generation without a fit takes AMD's nearest by age and sheet, as an
     * assumption */
    orr_accelerator amd = device("mi210", ORR_AMD, ORR_ARCH_CDNA2, 104, 1.6e12, 150e9, ORR_MESH);
    fit = orr_calibration_gemm(builtin, &amd, "bf16", &kin);
    assert_int_equal(kin, ORR_KIN_OTHER);
    assert_int_equal(fit->fit.arch, ORR_ARCH_CDNA3);
}

static orr_accelerator *catalog(const char *name) {
    orr_accelerator *found = NULL;
    assert_int_equal(orr_accelerator_find(arena, name, &found, NULL), ORR_OK);
    return found;
}

static void devices_without_fits_ask_all_siblings(void **state) {
    (void)state;
    orr_relatives r;
    orr_relatives_gemm(builtin, catalog("b200"), "bf16", &r);
    assert_int_equal(r.count, 1); /* its own alone */
    assert_int_equal(r.kin, ORR_KIN_SAME);
    assert_true(r.apart_frac == 0 && r.of[0].weight == 1 && r.of[0].surface_frac == 1);
    orr_relatives_gemm(builtin, catalog("gb300"), "bf16", &r);
    assert_int_equal(r.count, 3);
    assert_int_equal(r.kin, ORR_KIN_ARCH);
    double sum = 0, last = 1;
    for (uint32_t i = 0; i < r.count; i++) {
        const char *device = builtin->gemm[r.of[i].index].fit.device;
        assert_true(strcmp(device, "b200") == 0 || strcmp(device, "b300") == 0 ||
                    strcmp(device, "gb200") == 0);
        assert_true(r.of[i].weight <= last && r.of[i].surface_frac < 1.0000001);
        last = r.of[i].weight;
        sum += r.of[i].weight;
    }
    assert_true(sum > 0.999999 && sum < 1.000001);
    /* consumer Blackwell is another architecture: nothing of it, or for it, speaks for HBM parts */
    orr_calibration *without = orr_calibration_without(arena, builtin, "rtx-pro-6000");
    orr_relatives_gemm(without, catalog("rtx-pro-6000"), "bf16", &r);
    assert_int_equal(r.kin, ORR_KIN_OTHER);
    assert_int_equal(r.count, 1);
    assert_true(r.apart_frac >= 0.2 && r.of[0].surface_frac == 0);
}

static void power_decides_between_boards_of_a_chip(void **state) {
    (void)state;
    orr_relatives r;
    orr_accelerator board = *catalog("h100");
    board.name = "h100-of-half-the-power";
    board.tdp_w /= 2;
    orr_relatives_gemm(builtin, &board, "bf16", &r);
    const orr_gemm_fit *fit = &builtin->gemm[r.of[0].index];
    orr_gemm_constants c = orr_gemm_borrow(&builtin->transfer, fit, &board);
    double expected = fit->constants.efficiency * pow(0.5, builtin->transfer.power);
    assert_true(builtin->transfer.power > 0.1 && builtin->transfer.power < 0.4);
    assert_true(fabs(c.efficiency / expected - 1) < 1e-9);
}

static void softmax_moves_with_exponentials(void **state) {
    (void)state;
    orr_flash_fit fit = {.fit = {.device = "b200",
                                 .arch = ORR_ARCH_BLACKWELL,
                                 .units = 148,
                                 .peak_flops = 2250e12,
                                 .tdp_w = 1000,
                                 .exp_per_clock = 16},
                         .constants = {.block_s = 1e-6}};
    orr_flash_constants c = orr_flash_borrow(&builtin->transfer, &fit, catalog("gb300"));
    assert_true(fabs(c.block_s / 0.5e-6 - 1) < 1e-9);
    c = orr_flash_borrow(&builtin->transfer, &fit, catalog("gb200"));
    assert_true(fabs(c.block_s / 1e-6 - 1) < 1e-9);
}

static void arithmetic_moves_with_clocks(void **state) {
    (void)state;
    orr_gemm_fit fit = {.fit = {.device = "b200",
                                .arch = ORR_ARCH_BLACKWELL,
                                .units = 148,
                                .peak_flops = 2250e12,
                                .clock_hz = 1965e6},
                        .dtype = ORR_BF16,
                        .scheme = "bf16",
                        .constants = {.efficiency = 0.9}};
    orr_gemm_constants c = orr_gemm_borrow(&builtin->transfer, &fit, catalog("gb200"));
    double units_and_clock = 152.0 / 148 * 2062 / 1965, stated = 2500.0 / 2250;
    double power = pow(1 / units_and_clock, builtin->transfer.power); /* the fit states none */
    assert_true(fabs(c.efficiency / (0.9 * units_and_clock / stated * power) - 1) < 1e-9);
    /* a board whose units do half as much in a clock goes by its stated peak */
    orr_accelerator half = *catalog("gb200");
    half.peak_flops[ORR_BF16] /= 2;
    c = orr_gemm_borrow(&builtin->transfer, &fit, &half);
    power = pow(2 / stated, builtin->transfer.power);
    assert_true(fabs(c.efficiency / (0.9 * power) - 1) < 1e-9);
}

static const char *device_of(const char *class, const orr_relatives *r, uint32_t i) {
    uint32_t at = r->of[i].index;
    return strcmp(class, "ep_alltoall") == 0 ? kernels->exchange[at].fit.device
           : strcmp(class, "memops") == 0    ? kernels->stream[at].fit.device
                                             : kernels->experts[at].fit.device;
}

static void siblings_speak_for_other_kernels(void **state) {
    (void)state;
    orr_relatives r;
    orr_relatives_kernel(kernels, catalog("gb300"), "moe_fused", "cutlass", "nvfp4", &r);
    assert_int_equal(r.count, 3);
    assert_string_equal(device_of("moe_fused", &r, 0), "b300");
    assert_true(r.of[0].surface_frac > 0.5 && r.of[2].surface_frac < r.of[0].surface_frac);
    double near = r.apart_frac;
    /* of another kernel they say less, and nothing of its surface */
    orr_relatives_kernel(kernels, catalog("gb300"), "moe_fused", "unheard_of", "nvfp4", &r);
    assert_true(r.apart_frac > near + 0.1 && r.of[0].surface_frac == 0);
    /* a device's own fits speak alone */
    orr_relatives_kernel(kernels, catalog("b200"), "moe_fused", "cutlass", "nvfp4", &r);
    assert_true(r.count == 1 && r.apart_frac == 0 && r.of[0].surface_frac == 1);
    /* what streams has no scheme */
    orr_relatives_kernel(kernels, catalog("gb300"), "memops", "fwd:rms_norm cudnn", NULL, &r);
    assert_string_equal(device_of("memops", &r, 0), "gb200");
    assert_true(r.apart_frac < 0.2);
}

static void tokens_take_the_same_wires(void **state) {
    (void)state;
    orr_relatives r;
    /* a rack's links join hosts: GB200 speaks, not the boards with eight */
    orr_relatives_kernel(kernels, catalog("gb300"), "ep_alltoall", "deepep_normal", "inside", &r);
    assert_string_equal(device_of("ep_alltoall", &r, 0), "gb200");
    assert_true(r.of[0].weight > 0.9);
    orr_relatives_kernel(kernels, catalog("gb300"), "ep_alltoall", "trtllm_NVLinkTwoSided_fp8",
                         "across", &r);
    assert_string_equal(device_of("ep_alltoall", &r, 0), "gb200");
    assert_true(r.of[0].surface_frac == 1);
    /* hosts of B200 meet through NICs, as those of H100 do */
    orr_relatives_kernel(kernels, catalog("b200"), "ep_alltoall", "deepep_normal", "across", &r);
    assert_true(kernels->exchange[r.of[0].index].fit.arch == ORR_ARCH_HOPPER);
}

static void attention_comes_from_fits_that_saw_its_width(void **state) {
    (void)state;
    orr_relatives r;
    orr_attention_shape shape = {.batch = 1,
                                 .heads = 8,
                                 .kv_heads = 8,
                                 .head_dim = 64,
                                 .v_dim = 64,
                                 .seq_q = 4096,
                                 .seq_kv = 4096};
    /* GB200's fit of this library saw encoders with heads of 64 to 80 alone */
    orr_relatives_flash(kernels, catalog("gb300"), "torch_flow", "bf16", &shape, &r);
    assert_string_equal(kernels->flash[r.of[0].index].kernel, "torch_flow");
    shape.head_dim = shape.v_dim = 128;
    shape.causal = true;
    orr_relatives_flash(kernels, catalog("gb300"), "torch_flow", "bf16", &shape, &r);
    assert_string_equal(kernels->flash[r.of[0].index].kernel, "vllm_flashinfer_trtllmprefill");
    assert_true(r.count > 1 && r.of[0].surface_frac == 0);
    assert_true(kernels->flash[r.of[0].index].constants.efficiency[2] > 0);
}

static orr_kernel_gap product(const char *device, const char *scheme, double *time) {
    orr_kernel_pricer *pricer = ORR_NEW(arena, orr_kernel_pricer);
    pricer->arena = arena;
    pricer->calibration = kernels;
    const orr_kernel_row row = {.device = device,
                                .dtype = scheme,
                                .kernel = "",
                                .whole = true,
                                .training = true,
                                .shape.gemm = {.m = 8192, .n = 8192, .k = 8192, .batch = 1}};
    double relerr = 0;
    return orr_kernel_price(pricer, ORR_KERNELS_GEMM, &row, time, &relerr);
}

/* A plain product in a format without fits: as bf16's, at the format's rate, where there is one. */
static void plain_products_go_by_the_rate_of_their_format(void **state) {
    (void)state;
    double wide = 0, narrow = 0;
    assert_int_equal(product("GeForce RTX 4090", "bf16", &wide), ORR_GAP_NONE);
    assert_int_equal(product("GeForce RTX 4090", "fp8_e4m3", &narrow), ORR_GAP_NONE);
    assert_true(wide / narrow > 1.7 && wide / narrow < 2.3);
    assert_int_equal(product("A100-SXM4-80GB", "fp8_e4m3", &narrow), ORR_GAP_FORMAT);
}

static double gather_s(const char *device, double *relerr) {
    orr_kernel_pricer *pricer = ORR_NEW(arena, orr_kernel_pricer);
    pricer->arena = arena;
    pricer->calibration = kernels;
    const orr_kernel_row row = {
        .device = device,
        .dtype = "all_gather",
        .kernel = "NCCL 2.29.2",
        .whole = true,
        .training = true,
        .shape.collective = {.bytes = 64e6, .ranks = 4, .nodes = 1, .op = ORR_ALL_GATHER}};
    double time = 0;
    orr_kernel_gap gap = orr_kernel_price(pricer, ORR_KERNELS_COLLECTIVES, &row, &time, relerr);
    assert_int_equal(gap, ORR_GAP_NONE);
    return time;
}

static void collectives_are_the_mean_of_those_linked_alike(void **state) {
    (void)state;
    double relerr = 0, own = 0;
    double mean =
        cbrt(gather_s("GB200", &own) * gather_s("B200-SXM", &own) * gather_s("B300-SXM", &own));
    assert_true(fabs(gather_s("GB300 NVL72 (somewhere)", &relerr) / mean - 1) < 1e-9);
    assert_true(relerr > 0.05 && relerr < 0.15);
    /* what passes through a host depends on the box */
    (void)gather_s("GeForce RTX 5090", &relerr);
    assert_true(relerr > 0.4);
}

static void systems_go_by_their_accelerator(void **state) {
    (void)state;
    static const struct {
        const char *name, *device;
        bool of_parts;
    } NAMES[] = {{"NVIDIA GB300", "gb300", false},
                 {"NVIDIA H200 NVL", "h200-nvl", false},
                 {"NVIDIA GeForce RTX 5090", "rtx-5090", false},
                 {"NVIDIA RTX PRO 5000 Blackwell", "rtx-pro-5000", false},
                 {"GeForce RTX 5090 D v2", NULL, false}, /* another part */
                 {"GB300 NVL72 2 racks (somewhere)", "gb300", true},
                 {"GB300 NVL72 2 racks (somewhere)", NULL, false},
                 {"no such thing", NULL, true},
                 {"NVIDIA", NULL, true},
                 {"", NULL, true}};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        orr_accelerator *found =
            orr_calibration_system(arena, kernels, NAMES[i].name, NAMES[i].of_parts);
        assert_true((found == NULL) == (NAMES[i].device == NULL));
        if (found != NULL) {
            assert_string_equal(found->name, NAMES[i].device);
        }
    }
}

static void collectives_come_by_rank_count(void **state) {
    (void)state;
    orr_accelerator h100 =
        device("h100", ORR_NVIDIA, ORR_ARCH_HOPPER, 132, 3.352e12, 450e9, ORR_SWITCHED);
    const orr_collective_fit *fits[ORR_MAX_RANK_POINTS];
    orr_kin kin = ORR_KIN_OTHER;
    uint32_t count = orr_calibration_collective(builtin, &h100, ORR_ALL_REDUCE, fits, &kin);
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(fits[i]->ranks, 2u << i);
        assert_string_equal(fits[i]->fit.device, "h100");
    }
    orr_accelerator mi355x =
        device("mi355x", ORR_AMD, ORR_ARCH_CDNA4, 256, 8e12, 535.5e9, ORR_MESH);
    assert_true(orr_calibration_collective(builtin, &mi355x, ORR_ALL_TO_ALL, fits, &kin) > 0);
    assert_int_equal(fits[0]->topology, ORR_MESH);
}

/* A table names a cluster; the file of names says what it is built of. */
static void systems_are_accelerators_built_otherwise(void **state) {
    (void)state;
    const orr_accelerator *usual = orr_calibration_device(arena, builtin, "a100-40g");
    const orr_accelerator *p4d =
        orr_calibration_device(arena, builtin, "A100 p4d/p4de 8xA100 400Gb/s EFA per node");
    assert_string_equal(p4d->name, "a100-40g");
    assert_true(p4d->nic_Bps == 6.25e9 && p4d->nic_Bps < usual->nic_Bps);
    assert_true(p4d->link_Bps == usual->link_Bps && p4d->topology == usual->topology);
    const orr_accelerator *pairs = orr_calibration_device(arena, builtin, "h100_pairwise_nvlink");
    assert_int_equal(pairs->topology, ORR_HOST);
    assert_null(orr_calibration_device(arena, builtin, "no such cluster"));
    assert_null(orr_calibration_device(arena, builtin, "/etc/passwd"));
}

static orr_status add(const char *text, orr_err *err) {
    orr_tree *tree = NULL;
    orr_status status = orr_doc_read(arena, "test.yaml", text, strlen(text), &tree, err);
    if (status != ORR_OK) {
        return status;
    }
    orr_calibration *into = ORR_NEW(arena, orr_calibration);
    return orr_calibration_add(arena, tree, into, err);
}

static void bad_files_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"class: gemm\n", "fits"},
        {"class: gemms\nfits: []\n", "gemms"},
        {"fits: []\n", "class"},
        {"class: gemm\nfits:\n  - device: h100\n    speed: 3\n", "speed"},
        {"class: collectives\nfits:\n  - {device: a, source: b, library: c, op: all_reduces}\n",
         "all_reduce"},
        {"class: gemm\nfits: 3\n", "list"},
        {"class: devices\nnames:\n  cluster: {device: h100, nics: 8}\n", "nics"},
        {"class: devices\nnames:\n  cluster: {device: h100, topology: loose}\n", "loose"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_err err = {0};
        assert_int_not_equal(add(bad[i].text, &err), ORR_OK);
        assert_non_null(strstr(err.message, bad[i].says) ? err.message
                                                         : strstr(err.hint, bad[i].says));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_find_their_own_fit),
        cmocka_unit_test(unknown_devices_take_the_nearest_sibling),
        cmocka_unit_test(devices_without_fits_ask_all_siblings),
        cmocka_unit_test(power_decides_between_boards_of_a_chip),
        cmocka_unit_test(softmax_moves_with_exponentials),
        cmocka_unit_test(arithmetic_moves_with_clocks),
        cmocka_unit_test(siblings_speak_for_other_kernels),
        cmocka_unit_test(tokens_take_the_same_wires),
        cmocka_unit_test(attention_comes_from_fits_that_saw_its_width),
        cmocka_unit_test(plain_products_go_by_the_rate_of_their_format),
        cmocka_unit_test(collectives_are_the_mean_of_those_linked_alike),
        cmocka_unit_test(systems_go_by_their_accelerator),
        cmocka_unit_test(collectives_come_by_rank_count),
        cmocka_unit_test(systems_are_accelerators_built_otherwise),
        cmocka_unit_test(bad_files_are_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
