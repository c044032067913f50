/* Status codes and error reports, shared by every public function.
 *
 * A function that can fail returns an orr_status and takes an `orr_err *err` last (may be NULL).
 * On failure the error says what is wrong, where in the input, and what would be right; on success
 * it is left untouched. The library never prints and never exits. */
#ifndef ORRERY_STATUS_H
#define ORRERY_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ORR_API __attribute__((visibility("default")))
#else
#define ORR_API
#endif

/* Pinned values, grouped by tens; the command line maps the group to its exit code. */
typedef enum orr_status {
    ORR_OK = 0,
    ORR_E_IO = 10,     /* a file cannot be read, a library not loaded */
    ORR_E_WRITE = 11,  /* a file cannot be written */
    ORR_E_SYNTAX = 20, /* the text is not JSON, YAML, CSV ... */
    ORR_E_SCHEMA = 21, /* well-formed, but a field is unknown, missing, of a wrong type or range */
    ORR_E_NAME = 22,   /* an unknown model, accelerator, profile, command or option */
    ORR_E_CONFLICT = 23,   /* inputs contradict each other */
    ORR_E_LIMIT = 24,      /* an input exceeds a documented limit */
    ORR_E_USAGE = 25,      /* the command line or the call is wrong */
    ORR_E_INFEASIBLE = 30, /* illegal plan where a legal one is needed */
    ORR_E_SCHEDULE = 31,   /* an op order that is incomplete or deadlocks */
    ORR_E_CHECK = 40,      /* a validation fell short */
    ORR_E_CANCELLED = 50,  /* stopped by the caller */
    ORR_E_INTERNAL = 70    /* a bug in the library */
} orr_status;

/* A place in an input text. line and column count from 1; 0 means unknown. */
typedef struct orr_span {
    const char *file; /* borrowed; NULL when the input has no name */
    uint32_t line;
    uint32_t column;
} orr_span;

enum { ORR_ERR_TEXT = 640, ORR_ERR_FILE = 256 };

/* Caller-owned report of one failure; zero-initialise it. Strings are always terminated. */
typedef struct orr_err {
    orr_status status;
    uint32_t line, column;      /* of file, 0 when unknown */
    char file[ORR_ERR_FILE];    /* empty when the input has no name */
    char message[ORR_ERR_TEXT]; /* what is wrong, and what was expected */
    char hint[ORR_ERR_TEXT];    /* what to do about it; may be empty */
} orr_err;

/* Short lower-case name of a status ("schema", "io"); never NULL. */
ORR_API const char *orr_status_name(orr_status status);

#ifdef __cplusplus
}
#endif
#endif
