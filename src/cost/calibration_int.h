/* Calibration's own: the fields of its records, and the lists of fits that it reads them into. */
#ifndef ORR_COST_CALIBRATION_INT_H
#define ORR_COST_CALIBRATION_INT_H

#include <string.h>

#include "cost/calibration.h"
#include "doc/doc.h"

/* Records that are no fits of kernels. */
extern const orr_schema orr_arch_schema, orr_transfer_schema, orr_likeness_schema,
    orr_left_out_schema;

/* One list of fits inside orr_calibration. Every record begins with its orr_fit. */
typedef struct orr_fit_list {
    const char *class[2]; /* of the files that fill it; the second may be NULL */
    const orr_schema *schema;
    size_t at, count_at, record_bytes;
    bool on_sheet; /* sheets are looked up: orr_fit.fp4_flops and what follows */
} orr_fit_list;
enum { ORR_FIT_LISTS = 6 };
extern const orr_fit_list orr_fit_lists[ORR_FIT_LISTS];
/* NULL: no fits are of this class. */
const orr_fit_list *orr_fit_list_of(const char *class);
static inline uint32_t orr_fit_count(const orr_fit_list *list, const orr_calibration *calibration) {
    uint32_t count;
    memcpy(&count, (const char *)calibration + list->count_at, sizeof count);
    return count;
}
static inline const orr_fit *orr_fit_at(const orr_fit_list *list,
                                        const orr_calibration *calibration, uint32_t index) {
    const void *record = (const char *)calibration + list->at + index * list->record_bytes;
    return record;
}

/* Names of accelerators and systems; what is wrong with an entry is said now. */
/* How little a fit says of another shape, scheme or device, the kernel being right. */
double orr_flash_doubt(const orr_calibration *calibration, const orr_accelerator *accelerator,
                       const orr_flash_fit *fit, const char *scheme,
                       const orr_attention_shape *shape);
/* As orr_relatives_flash, by one fit and those of the same kernel alone. */
void orr_relatives_flash_of(const orr_calibration *calibration, const orr_accelerator *accelerator,
                            uint32_t index, const char *scheme, const orr_attention_shape *shape,
                            orr_relatives *out);
orr_status orr_devices_add(orr_arena *arena, const orr_tree *file, orr_calibration *into,
                           orr_err *err);

#endif
