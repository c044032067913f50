/* Raising errors. Messages are complete sentences without a final period: what is wrong, then what
 * was expected. A NULL err is fine everywhere. */
#ifndef ORR_BASE_ERR_H
#define ORR_BASE_ERR_H

#include "orrery/status.h"

/* Fills err and returns status, so that callers write `return orr_fail(err, ...)`. */
orr_status orr_fail(orr_err *err, orr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a place in an input. */
orr_status orr_fail_at(orr_err *err, orr_status status, orr_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds a hint to a failure just raised. */
void orr_hint(orr_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define ORR_TRY(call)                                                                              \
    do {                                                                                           \
        orr_status orr_try_ = (call);                                                              \
        if (orr_try_ != ORR_OK) {                                                                  \
            return orr_try_;                                                                       \
        }                                                                                          \
    } while (0)

#endif
