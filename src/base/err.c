#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

const char *orr_status_name(orr_status status) {
    switch (status) {
    case ORR_OK: return "ok";
    case ORR_E_IO: return "io";
    case ORR_E_WRITE: return "write";
    case ORR_E_SYNTAX: return "syntax";
    case ORR_E_SCHEMA: return "schema";
    case ORR_E_NAME: return "name";
    case ORR_E_CONFLICT: return "conflict";
    case ORR_E_LIMIT: return "limit";
    case ORR_E_USAGE: return "usage";
    case ORR_E_INFEASIBLE: return "infeasible";
    case ORR_E_SCHEDULE: return "schedule";
    case ORR_E_CHECK: return "check";
    case ORR_E_CANCELLED: return "cancelled";
    case ORR_E_INTERNAL: return "internal";
    }
    return "unknown";
}

static void raise(orr_err *err, orr_status status, orr_span span, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));

static void raise(orr_err *err, orr_status status, orr_span span, const char *format,
                  va_list args) {
    if (err == NULL) {
        return;
    }
    err->status = status;
    err->line = span.line;
    err->column = span.column;
    (void)snprintf(err->file, sizeof err->file, "%s", span.file == NULL ? "" : span.file);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    err->hint[0] = '\0';
}

orr_status orr_fail(orr_err *err, orr_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    raise(err, status, (orr_span){0}, format, args);
    va_end(args);
    return status;
}

orr_status orr_fail_at(orr_err *err, orr_status status, orr_span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    raise(err, status, span, format, args);
    va_end(args);
    return status;
}

void orr_hint(orr_err *err, const char *format, ...) {
    if (err == NULL) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->hint, sizeof err->hint, format, args);
    va_end(args);
}
