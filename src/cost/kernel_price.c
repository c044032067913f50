#include "cost/kernel_price.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "cost/calibration_int.h"
#include "cost/cost_int.h"

static double root_sum(double a, double b) {
    return sqrt(a * a + b * b);
}

static double own_error(const orr_kernel_pricer *pricer, const orr_fit *fit,
                        const orr_kernel_row *row, const double *place) {
    return orr_fit_error(fit, &pricer->now->transfer, place, row->training);
}

orr_accelerator *orr_kernel_accelerator(orr_kernel_pricer *pricer, const char *name) {
    for (uint32_t i = 0; i < pricer->count; i++) {
        if (strcmp(pricer->device[i].name, name) == 0) {
            pricer->now = pricer->device[i].calibration;
            return pricer->device[i].accelerator;
        }
    }
    orr_accelerator *found =
        orr_calibration_system(pricer->arena, pricer->calibration, name, pricer->systems);
    pricer->now = pricer->calibration;
    if (pricer->leave_out && found != NULL) {
        pricer->now = orr_calibration_without(pricer->arena, pricer->calibration, found->name);
    }
    if (pricer->count < sizeof pricer->device / sizeof *pricer->device) {
        pricer->device[pricer->count].name = orr_arena_text(pricer->arena, name);
        pricer->device[pricer->count].calibration = pricer->now;
        pricer->device[pricer->count++].accelerator = found;
    }
    return found;
}

/* A weighted geometric mean of what relatives say. */
typedef struct mean {
    const orr_kernel_pricer *pricer;
    double log_time, error;
} mean;

static void add(mean *sum, const orr_relatives *relatives, uint32_t i, const orr_fit *fit,
                const double *place, double modelled, const orr_kernel_row *row) {
    double weight = relatives->of[i].weight;
    double beyond = relatives->of[i].surface_frac * orr_surface_log(fit->surface, place);
    sum->log_time += weight * (log(modelled) + beyond);
    sum->error += weight * own_error(sum->pricer, fit, row, place);
}

static bool settle(const mean *sum, const orr_relatives *relatives, double *time, double *relerr) {
    *time = exp(sum->log_time);
    *relerr = root_sum(sum->error, relatives->apart_frac);
    return relatives->count > 0;
}

/* The nearest fits of a GEMM's numeric scheme. fp16 runs on the units of bf16, whose fit may lie
 * nearer; another architecture's low precision says nothing. */
static bool gemm_relatives(const orr_kernel_pricer *pricer, const orr_accelerator *a,
                           const char *scheme, orr_relatives *out) {
    orr_relatives_gemm(pricer->now, a, scheme, out);
    bool half = strcmp(scheme, "fp16") == 0;
    if (half) {
        orr_relatives bf16;
        orr_relatives_gemm(pricer->now, a, "bf16", &bf16);
        if (out->count == 0 || bf16.kin < out->kin) {
            *out = bf16; /* tables of fp16 come of other libraries than those of bf16 */
            out->apart_frac = root_sum(out->apart_frac, pricer->now->transfer.kernel_frac);
        }
    }
    return out->count > 0 && (half || strcmp(scheme, "bf16") == 0 || out->kin != ORR_KIN_OTHER);
}

/* Fits of another plain product: of elements as wide, else bf16's, at the rate that the sheet
 * states. For integers on NVIDIA's, whose rate by that of fp8 differs between boards, only where
 * the sheet states it. */
static bool gemm_alike(const orr_kernel_pricer *pricer, const orr_accelerator *a,
                       const char *scheme, orr_relatives *out) {
    static const char *const WIDE[2][4] = {{"fp8_row", "int8", "bf16", "fp8_dynquant"},
                                           {"mxfp4", "bf16", "nvfp4_dynquant"}};
    orr_dtype dtype;
    if (!orr_scheme_dtype(scheme, &dtype) || orr_dtype_bytes(dtype) > 1 ||
        (strncmp(scheme, "int", 3) == 0 && a->vendor == ORR_NVIDIA &&
         (strcmp(scheme, "int8") != 0 || !(a->peak_flops[ORR_INT8] > 0)))) {
        return false;
    }
    bool faster = orr_scheme_machine(a, scheme, dtype).peak_flops > a->peak_flops[ORR_BF16];
    const char *const *list = WIDE[orr_dtype_bytes(dtype) < 1];
    for (int i = 0; i < 4 && list[i] != NULL; i++) {
        if (strcmp(list[i], "bf16") == 0 && !faster) {
            continue; /* the sheet states no rate of the format, or one that its units emulate */
        }
        orr_relatives_gemm(pricer->now, a, list[i], out);
        if (out->count > 0 && out->kin != ORR_KIN_OTHER &&
            pricer->now->gemm[out->of[0].index].fit.rows > 0) { /* none by analogy of an analogy */
            out->apart_frac = root_sum(out->apart_frac, pricer->now->transfer.scheme_frac);
            return true;
        }
    }
    return false;
}

static bool price_gemm(orr_kernel_pricer *pricer, const orr_accelerator *a,
                       const orr_kernel_row *row, double *time, double *relerr) {
    orr_relatives relatives;
    bool alike = false;
    if (!gemm_relatives(pricer, a, row->dtype, &relatives)) {
        alike = gemm_alike(pricer, a, row->dtype, &relatives);
        if (!alike) {
            return false;
        }
    }
    mean sum = {.pricer = pricer};
    for (uint32_t i = 0; i < relatives.count; i++) {
        const orr_gemm_fit *fit = &pricer->now->gemm[relatives.of[i].index];
        orr_dtype dtype = (orr_dtype)fit->dtype;
        const char *scheme = alike ? row->dtype : fit->scheme;
        if (alike && dtype == ORR_BF16) {
            (void)orr_scheme_dtype(scheme, &dtype);
        }
        orr_gemm_constants c = orr_gemm_borrow(&pricer->now->transfer, fit, a);
        c.quantise_frac = alike ? 0 : c.quantise_frac; /* a plain product, as far as is known */
        orr_machine machine = orr_scheme_machine(a, scheme, dtype);
        orr_gemm_shape shape = {.m = row->shape.gemm.m,
                                .n = row->shape.gemm.n,
                                .k = row->shape.gemm.k,
                                .batch = row->shape.gemm.batch,
                                .in_bytes = orr_stored_bytes(dtype),
                                .out_bytes = row->shape.gemm.accumulates ? 8 : 2};
        double place[ORR_SURFACE_DIMS];
        orr_gemm_place(&shape, place);
        add(&sum, &relatives, i, &fit->fit, place,
            orr_gemm_time_s(&c, &machine, &shape, ORR_POWER_BENCHMARK), row);
    }
    return settle(&sum, &relatives, time, relerr);
}

/* A grouped product as a batch of plain ones, those that rows reach. */
static bool price_batch(orr_kernel_pricer *pricer, const orr_accelerator *a,
                        const orr_kernel_row *row, double *time) {
    orr_kernel_row batch = *row;
    double rows = row->shape.gemm.m * row->shape.gemm.batch, relerr = 0;
    batch.shape.gemm.m = orr_max_f64(1, row->shape.gemm.m);
    batch.shape.gemm.batch = rows / batch.shape.gemm.m;
    return price_gemm(pricer, a, &batch, time, &relerr);
}

/* Relatives' fits are often another library's, or another architecture's: what the device does with
 * plain products counts beside them, each by its doubt. */
static void join_batch(orr_kernel_pricer *pricer, const orr_accelerator *a,
                       const orr_kernel_row *row, orr_relatives *relatives, mean *sum) {
    double batch_s = 0, batch_frac = pricer->now->transfer.batch_frac;
    if (!(relatives->apart_frac > 0 && batch_frac > 0) || !price_batch(pricer, a, row, &batch_s)) {
        return;
    }
    double apart = 1 / root_sum(1 / relatives->apart_frac, 1 / batch_frac);
    double share = apart * apart / (batch_frac * batch_frac);
    sum->log_time += share * (log(batch_s) - sum->log_time);
    relatives->apart_frac = apart;
}

static bool price_experts(orr_kernel_pricer *pricer, orr_kernel_class class,
                          const orr_accelerator *a, const orr_kernel_row *row, double *time,
                          double *relerr) {
    orr_dtype dtype = ORR_BF16;
    if (!orr_scheme_dtype(row->dtype, &dtype)) {
        return false;
    }
    orr_relatives relatives;
    orr_relatives_kernel(pricer->now, a, "moe_fused", row->kernel, row->dtype, &relatives);
    orr_machine machine = orr_scheme_machine(a, row->dtype, dtype);
    orr_experts_shape shape = orr_kernel_experts(row, class, orr_stored_bytes(dtype));
    double place[ORR_SURFACE_DIMS];
    orr_experts_place(&shape, place);
    mean sum = {.pricer = pricer};
    for (uint32_t i = 0; i < relatives.count; i++) {
        const orr_experts_fit *fit = &pricer->now->experts[relatives.of[i].index];
        orr_experts_constants c =
            orr_experts_borrow(&pricer->now->transfer, fit, a, machine.peak_flops);
        add(&sum, &relatives, i, &fit->fit, place, orr_experts_time_s(&c, &machine, &shape), row);
    }
    if (class == ORR_KERNELS_GROUPED_GEMM && relatives.count > 0) {
        join_batch(pricer, a, row, &relatives, &sum);
    }
    return settle(&sum, &relatives, time, relerr);
}

static bool price_exchange(orr_kernel_pricer *pricer, const orr_accelerator *a,
                           const orr_kernel_row *row, double *time, double *relerr) {
    orr_exchange_shape shape = orr_kernel_exchange(row);
    orr_relatives relatives;
    orr_relatives_kernel(pricer->now, a, "ep_alltoall", row->kernel,
                         shape.nodes > 1 ? "across" : "inside", &relatives);
    double place[ORR_SURFACE_DIMS];
    orr_exchange_place(&shape, place);
    mean sum = {.pricer = pricer};
    for (uint32_t i = 0; i < relatives.count; i++) {
        const orr_exchange_fit *fit = &pricer->now->exchange[relatives.of[i].index];
        add(&sum, &relatives, i, &fit->fit, place, orr_exchange_time_s(&fit->constants, &shape),
            row);
    }
    return settle(&sum, &relatives, time, relerr);
}

static bool price_one_attention(orr_kernel_pricer *pricer, const orr_accelerator *a,
                                const orr_kernel_row *row, bool backward, double *time,
                                double *relerr) {
    static const double BACKWARD_FRAC = 0.85; /* efficiency of a backward by its forward */
    orr_attention_shape shape = row->shape.attention;
    shape.backward = backward;
    orr_relatives relatives;
    if (row->fit > 0) {
        orr_relatives_flash_of(pricer->now, a, row->fit - 1, row->dtype, &shape, &relatives);
    } else {
        orr_relatives_flash(pricer->now, a, row->kernel, row->dtype, &shape, &relatives);
    }
    orr_machine machine = orr_machine_of(a, ORR_BF16);
    double place[ORR_SURFACE_DIMS];
    orr_attention_place(&shape, place);
    mean sum = {.pricer = pricer};
    for (uint32_t i = 0; i < relatives.count; i++) {
        const orr_flash_fit *fit = &pricer->now->flash[relatives.of[i].index];
        orr_flash_constants c = orr_flash_borrow(&pricer->now->transfer, fit, a);
        double modelled = orr_flash_time_s(&c, &machine, &shape);
        modelled /= backward && !fit->backward ? BACKWARD_FRAC : 1;
        add(&sum, &relatives, i, &fit->fit, place, modelled, row);
    }
    return settle(&sum, &relatives, time, relerr);
}

static bool price_attention(orr_kernel_pricer *pricer, const orr_accelerator *a,
                            const orr_kernel_row *row, double *time, double *relerr) {
    if (row->stage != ORR_STAGE_BOTH) {
        return price_one_attention(pricer, a, row, row->stage == ORR_STAGE_BACKWARD, time, relerr);
    }
    double backward = 0;
    bool good = price_one_attention(pricer, a, row, false, time, relerr) &&
                price_one_attention(pricer, a, row, true, &backward, relerr);
    *time += backward;
    return good;
}

static bool price_memop(orr_kernel_pricer *pricer, const orr_accelerator *a,
                        const orr_kernel_row *row, double *time, double *relerr) {
    orr_relatives relatives;
    orr_relatives_kernel(pricer->now, a, "memops", row->kernel, NULL, &relatives);
    orr_machine machine = orr_machine_of(a, ORR_BF16);
    double bytes = row->shape.memop.bytes, rows = row->shape.memop.rows;
    double place[ORR_SURFACE_DIMS];
    orr_stream_place(bytes, rows, place);
    mean sum = {.pricer = pricer};
    for (uint32_t i = 0; i < relatives.count; i++) {
        const orr_stream_fit *fit = &pricer->now->stream[relatives.of[i].index];
        add(&sum, &relatives, i, &fit->fit, place,
            orr_stream_time_s(&fit->constants, &machine, bytes, rows), row);
    }
    return settle(&sum, &relatives, time, relerr);
}

static bool price_collective(orr_kernel_pricer *pricer, const orr_accelerator *a,
                             const orr_kernel_row *row, double *time, double *relerr) {
    const orr_collective_ask ask = {.accelerator = a,
                                    .site = row->device,
                                    .library = row->kernel,
                                    .op = (orr_collective)row->shape.collective.op,
                                    .ranks = row->shape.collective.ranks,
                                    .nodes = row->shape.collective.nodes};
    return orr_collective_price(pricer->now, &ask, row->shape.collective.bytes, time, relerr);
}

const char *orr_kernel_gap_text(orr_kernel_gap gap) {
    static const char *const TEXTS[ORR_GAP_COUNT] = {
        [ORR_GAP_NONE] = "priced",
        [ORR_GAP_SHAPE] = "the row does not say what is needed",
        [ORR_GAP_DEVICE] = "unknown device",
        [ORR_GAP_FORMAT] = "no fit of this numeric format on this device or a sibling",
        [ORR_GAP_FABRIC] = "between nodes: no fit of this system",
        [ORR_GAP_MODEL] = "no model for this kind of kernel on this device",
        [ORR_GAP_RANGE] = "sizes beyond what can be priced",
        [ORR_GAP_TIME] = "the row states no time",
    };
    return gap < ORR_GAP_COUNT ? TEXTS[gap] : "unknown";
}

orr_kernel_gap orr_kernel_price(orr_kernel_pricer *pricer, orr_kernel_class class,
                                const orr_kernel_row *row, double *time_s, double *relerr_frac) {
    if (!row->whole) {
        return ORR_GAP_SHAPE;
    }
    pricer->systems = class == ORR_KERNELS_COLLECTIVES || class == ORR_KERNELS_EP_ALLTOALL;
    const orr_accelerator *a = orr_kernel_accelerator(pricer, row->device);
    if (a == NULL) {
        return ORR_GAP_DEVICE;
    }
    bool priced = false;
    orr_kernel_gap gap = ORR_GAP_MODEL;
    switch (class) {
    case ORR_KERNELS_GEMM:
        priced = price_gemm(pricer, a, row, time_s, relerr_frac);
        gap = ORR_GAP_FORMAT;
        break;
    case ORR_KERNELS_GROUPED_GEMM:
    case ORR_KERNELS_MOE_FUSED:
        priced = price_experts(pricer, class, a, row, time_s, relerr_frac);
        gap = ORR_GAP_FORMAT;
        break;
    case ORR_KERNELS_ATTENTION:
        priced = price_attention(pricer, a, row, time_s, relerr_frac);
        break;
    case ORR_KERNELS_MEMOPS: priced = price_memop(pricer, a, row, time_s, relerr_frac); break;
    case ORR_KERNELS_COLLECTIVES:
        priced = price_collective(pricer, a, row, time_s, relerr_frac);
        gap = row->shape.collective.nodes > 1 ? ORR_GAP_FABRIC : ORR_GAP_MODEL;
        break;
    case ORR_KERNELS_EP_ALLTOALL:
        priced = price_exchange(pricer, a, row, time_s, relerr_frac);
        break;
    case ORR_KERNELS_COUNT: break;
    }
    if (!priced) {
        return gap;
    }
    return *time_s > 0 && isfinite(*time_s) ? ORR_GAP_NONE : ORR_GAP_RANGE;
}
