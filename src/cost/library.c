/* Whose kernel a benchmark runs: libraries by the words that people use for them (`libraries` of
 * data/calibration/devices.yaml), and which kernels do an operation. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "cost/calibration_int.h"
#include "cost/kernel_price.h"

static bool holds(const orr_tree *list, const char *name) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (strcmp(orr_tree_text(orr_tree_at(list, i), ""), name) == 0) {
            return true;
        }
    }
    return false;
}

/* "fwd:rms_norm" of "fwd:rms_norm cudnn". */
static bool does(orr_arena *arena, const orr_tree *operations, const char *kernel) {
    return holds(operations, orr_arena_format(arena, "%.*s", (int)strcspn(kernel, " "), kernel));
}

static orr_status find(orr_arena *arena, const orr_tree *libraries, const char *word,
                       const orr_tree **out, orr_err *err) {
    size_t count = orr_tree_size(libraries);
    const char **names = ORR_NEW_ARRAY(arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        names[i] = orr_tree_key(libraries, i);
        if (orr_name_equal(names[i], word)) {
            *out = orr_tree_at(libraries, i);
            return ORR_OK;
        }
    }
    orr_status status = orr_fail(err, ORR_E_NAME, "unknown library '%s'", word);
    int nearest = orr_name_nearest(word, names, count);
    if (nearest >= 0) {
        orr_hint(err, "did you mean '%s'?", names[nearest]);
    }
    return status;
}

/* The nearest fit of an operation by one of the kernels, of this architecture. */
static const orr_stream_fit *nearest_stream(orr_arena *arena, const orr_calibration *calibration,
                                            const orr_accelerator *accelerator,
                                            const orr_tree *kernels, const orr_tree *operations) {
    const orr_stream_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->stream_count; i++) {
        const orr_stream_fit *fit = &calibration->stream[i];
        double apart = orr_device_apart(&calibration->transfer, accelerator, &fit->fit);
        if (fit->fit.arch == accelerator->arch && holds(kernels, fit->kernel) &&
            does(arena, operations, fit->kernel) && apart < least) {
            least = apart;
            best = fit;
        }
    }
    return best;
}

/* 1 + the number of the nearest fit of attention by one of the kernels, of this architecture and in
 * elements as wide; 0: none. */
static uint32_t nearest_flash(const orr_calibration *calibration,
                              const orr_accelerator *accelerator, const orr_tree *kernels,
                              const orr_kernel_row *row) {
    uint32_t best = 0;
    double least = INFINITY;
    orr_dtype asked = ORR_BF16;
    (void)orr_scheme_dtype(row->dtype, &asked);
    for (uint32_t i = 0; i < calibration->flash_count; i++) {
        const orr_flash_fit *fit = &calibration->flash[i];
        orr_dtype dtype = ORR_BF16;
        bool fits = fit->fit.arch == accelerator->arch && holds(kernels, fit->kernel) &&
                    orr_scheme_dtype(fit->scheme, &dtype) &&
                    orr_stored_bytes(dtype) == orr_stored_bytes(asked);
        double doubt =
            orr_flash_doubt(calibration, accelerator, fit, row->dtype, &row->shape.attention);
        if (fits && doubt < least) {
            least = doubt;
            best = i + 1;
        }
    }
    return best;
}

/* Attention that nobody names a library for is by the usual one, or what comes nearest to it. */
static uint32_t usual_flash(const orr_calibration *calibration, const orr_accelerator *accelerator,
                            const orr_kernel_row *row) {
    orr_relatives relatives;
    orr_relatives_flash(calibration, accelerator, row->kernel, row->dtype, &row->shape.attention,
                        &relatives);
    return relatives.count > 0 ? 1 + relatives.of[0].index : 0;
}

orr_status orr_library_choose(orr_arena *arena, const orr_calibration *calibration,
                              const orr_accelerator *accelerator, orr_kernel_class class,
                              const orr_cost_ask *ask, orr_kernel_row *row, orr_library_fit *out,
                              orr_err *err) {
    const orr_tree *kernels = NULL;
    *out = (orr_library_fit){NULL, NULL, 0, false};
    if (ask != NULL && ask->library != NULL) {
        ORR_TRY(find(arena, calibration->libraries, ask->library, &kernels, err));
    }
    if (class == ORR_KERNELS_MEMOPS) {
        const orr_tree *operations = orr_tree_get(calibration->operations, ask->operation);
        const orr_stream_fit *fit =
            nearest_stream(arena, calibration, accelerator, kernels, operations);
        if (fit != NULL) {
            row->kernel = fit->kernel;
            *out = (orr_library_fit){fit->kernel, &fit->fit, fit->constants.start_s, false};
        }
        return ORR_OK;
    }
    row->fit = kernels != NULL ? nearest_flash(calibration, accelerator, kernels, row) : 0;
    uint32_t index = kernels != NULL ? row->fit : usual_flash(calibration, accelerator, row);
    if (index > 0) {
        const orr_flash_fit *fit = &calibration->flash[index - 1];
        bool turned = (fit->backward != 0) != row->shape.attention.backward;
        row->kernel = row->fit > 0 ? fit->kernel : row->kernel;
        *out = (orr_library_fit){fit->kernel, &fit->fit, fit->constants.start_s, turned};
    }
    return ORR_OK;
}
