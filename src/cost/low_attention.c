/* Attention in 8 bits: no published run says what it takes in training, so a step's price in 16
 * bits is divided by what one library's kernels gain, measured alone at the op's own shape. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cost/cost_int.h"

enum { FP8 = 0, MXFP8 = 1 };
static const char *const SCHEMES[2] = {"fp8", "mxfp8"};

/* The fit of this device, else of a sibling; NULL: of neither. */
static const orr_flash_fit *find(const struct orr_prices_table *table, const char *scheme,
                                 bool backward, const char *kernel, bool *sibling) {
    const orr_calibration *calibration = table->calibration;
    const orr_flash_fit *found = NULL;
    for (uint32_t i = 0; i < calibration->flash_count; i++) {
        const orr_flash_fit *fit = &calibration->flash[i];
        bool right = strcmp(fit->scheme, scheme) == 0 && (fit->backward != 0) == backward &&
                     fit->fit.arch == table->accelerator->arch &&
                     (kernel == NULL || strcmp(fit->kernel, kernel) == 0);
        bool own = strcmp(fit->fit.device, table->accelerator->name) == 0;
        if (right && (found == NULL || own)) {
            found = fit;
            *sibling = !own;
        }
    }
    return found;
}

void orr_low_attention_init(struct orr_prices_table *table) {
    for (int scheme = 0; scheme < 2; scheme++) {
        for (int backward = 0; backward < 2; backward++) {
            orr_low_attention *of = &table->low_attention[scheme][backward];
            of->low = find(table, SCHEMES[scheme], backward != 0, NULL, &of->sibling);
            if (of->low != NULL) {
                bool sibling = false;
                of->wide = find(table, "bf16", backward != 0, of->low->kernel, &sibling);
            }
        }
    }
}

/* The machine that a fit was made on. */
static orr_machine machine_of(const orr_fit *fit, double l2_bytes) {
    return (orr_machine){.units = fit->units,
                         .peak_flops = fit->peak_flops,
                         .hbm_Bps = fit->hbm_Bps,
                         .l2_bytes = l2_bytes};
}

double orr_low_attention_gain(const orr_cost_table *table, const orr_op *op,
                              const orr_attention_shape *shape, const orr_low_attention **of) {
    *of = NULL;
    if (op->dtype != ORR_FP8 && op->dtype != ORR_MXFP8 && op->dtype != ORR_FP8_BLOCK) {
        return 1;
    }
    const orr_low_attention *known =
        &table->low_attention[op->dtype == ORR_MXFP8 ? MXFP8 : FP8][shape->backward ? 1 : 0];
    if (known->low == NULL || known->wide == NULL) {
        return 1;
    }
    *of = known;
    double l2_bytes = table->accelerator->l2_bytes;
    orr_machine low = machine_of(&known->low->fit, l2_bytes);
    orr_machine wide = machine_of(&known->wide->fit, l2_bytes);
    return orr_flash_time_s(&known->wide->constants, &wide, shape) /
           orr_flash_time_s(&known->low->constants, &low, shape);
}

double orr_low_attention_error(const orr_low_attention *of) {
    double low = of->low->fit.error_training_frac, wide = of->wide->fit.error_training_frac;
    double error = sqrt(low * low + wide * wide);
    return of->sibling || of->low->fit.rows < ORR_THIN_ROWS ? orr_max_f64(error, ORR_THIN_RELERR)
                                                            : error;
}
