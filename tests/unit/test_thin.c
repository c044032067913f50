/* Fits of few rows, and prices of devices without any. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../calibration_fixture.h"

#include "base/arena.h"
#include "calibrate/thin.h"
#include "cost/cost.h"
#include "cost/kernel_price.h"

/* ---- fits ----------------------------------------------------------------------------------- */

typedef struct line {
    double start, rate;
} line;
typedef struct line_sample {
    orr_sample head;
    double x;
} line_sample;

static double line_model(const void *constants, const void *sample, const void *user) {
    (void)user;
    const line *l = (const line *)constants;
    return l->start + ((const line_sample *)sample)->x / l->rate;
}

static const line TRUTH = {50, 20};

/* Times of `count` sizes from `first` on. */
static void fill(orr_bins *bins, orr_bin_fit *fit, const char *device, const char *kernel,
                 uint32_t count, double first) {
    static const orr_parameter parameters[] = {
        {"start", offsetof(line, start), 1, 1e-3, 1e3, 0.05, ORR_SCALE_LOG, 0},
        {"rate", offsetof(line, rate), 1, 1e-3, 1e3, 0.05, ORR_SCALE_LOG, 0},
    };
    orr_bin *bin = orr_bin_of(bins, device, kernel, "bf16", "x", 0);
    assert_non_null(bin);
    for (uint32_t i = 0; i < count; i++) {
        line_sample *s = (line_sample *)orr_bin_add(bins, bin);
        *s = (line_sample){.head = {.weight = 1, .block = i}, .x = first + 10.0 * i};
        s->head.time_s = line_model(&TRUTH, s, NULL);
    }
    orr_bin_fit *f = &fit[bins->count - 1];
    memcpy(f->parameter, parameters, sizeof parameters);
    f->constants = ORR_NEW(arena, line);
    f->task = (orr_fit_task){.parameter = f->parameter,
                             .parameter_count = 2,
                             .constants_bytes = sizeof(line),
                             .sample = bin->sample,
                             .sample_bytes = sizeof(line_sample),
                             .count = bin->count,
                             .model = line_model};
}

/* The start of a bin that has long kernels alone, which tell nothing of it, beside a bin of another
 * device that has many rows of `kernel`. */
static double start_beside(const char *kernel) {
    orr_bins *bins = ORR_NEW(arena, orr_bins);
    orr_bin_fit *fit = ORR_NEW_ARRAY(arena, orr_bin_fit, 2);
    *bins = (orr_bins){.arena = arena, .names = builtin, .sample_bytes = sizeof(line_sample)};
    fill(bins, fit, "MI308X", kernel, 300, 0);
    fill(bins, fit, "MI300X", "norm", 9, 1e6);
    orr_fit_with_relatives(bins, fit, 3000);
    assert_true(fabs(((const line *)fit[0].constants)->start / TRUTH.start - 1) < 0.05);
    assert_true(fabs(((const line *)fit[1].constants)->rate / TRUTH.rate - 1) < 0.05);
    return ((const line *)fit[1].constants)->start;
}

static void few_rows_begin_at_relatives(void **state) {
    (void)state;
    double beside_same = start_beside("norm"), beside_other = start_beside("cast");
    assert_true(beside_same > 10 && beside_same < 60);
    assert_true(beside_other < 3); /* the textbook start: another kernel says nothing */
}

/* ---- prices --------------------------------------------------------------------------------- */

static double price_us(orr_kernel_class class, const char *device, double *relerr) {
    orr_kernel_pricer pricer = {.arena = arena, .calibration = builtin, .leave_out = true};
    assert_non_null(orr_kernel_accelerator(&pricer, device));
    orr_kernel_row row = {.device = device,
                          .dtype = "bf16",
                          .kernel = "fwd",
                          .source = "mine",
                          .whole = true,
                          .training = true,
                          .stage = ORR_STAGE_FORWARD,
                          .time_s = 1};
    row.shape.gemm.m = 1232;
    row.shape.gemm.n = 5120;
    row.shape.gemm.k = 1536;
    row.shape.gemm.batch = 20;
    double time = 0;
    assert_int_equal(orr_kernel_price(&pricer, class, &row, &time, relerr), ORR_GAP_NONE);
    return 1e6 * time;
}

/* A device without a fit of grouped products takes after what it does with plain ones, as well as
 * after other architectures' grouped ones. Transformer Engine's on A100 PCIe take 1.84 ms. */
static void plain_products_say_something_of_grouped_ones(void **state) {
    (void)state;
    double grouped_error = 0, plain_error = 0, alone_error = 0;
    double plain = price_us(ORR_KERNELS_GEMM, "A100-PCIe-80GB", &plain_error);
    double grouped = price_us(ORR_KERNELS_GROUPED_GEMM, "A100-PCIe-80GB", &grouped_error);
    double kept = builtin->transfer.batch_frac;
    builtin->transfer.batch_frac = 0; /* by relatives alone */
    double alone = price_us(ORR_KERNELS_GROUPED_GEMM, "A100-PCIe-80GB", &alone_error);
    builtin->transfer.batch_frac = kept;
    assert_true(kept > 0.2 && kept < 0.5);
    assert_true(grouped > fmin(plain, alone) && grouped < fmax(plain, alone));
    assert_true(grouped_error < alone_error && grouped_error > plain_error);
    assert_true(fabs(grouped / 1839 - 1) < fabs(alone / 1839 - 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rows_begin_at_relatives),
        cmocka_unit_test(plain_products_say_something_of_grouped_ones),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
