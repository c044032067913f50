/* A back end that fails as its options say, for the tests of measuring. Built several times: with
 * FAULTY_ABI another version, with FAULTY_HOLE a function missing. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/backend.h"

#ifndef FAULTY_ABI
#define FAULTY_ABI ORR_BACKEND_ABI
#endif

static char mode[32];
static int runs;

static int open_faulty(const char *options, void **self, orr_backend_message *message) {
    (void)snprintf(mode, sizeof mode, "%s", options == NULL ? "" : options);
    *self = mode;
    if (strcmp(mode, "no-device") == 0) {
        (void)snprintf(message->text, sizeof message->text, "driver 470 is older than 525");
        return ORR_BACKEND_NO_DEVICE;
    }
    return ORR_BACKEND_OK;
}

static int identify(void *self, orr_backend_identity *out, orr_backend_message *message) {
    (void)self;
    (void)message;
    *out = (orr_backend_identity){.device = "faulty", .software = "test", .ranks = 1};
    return ORR_BACKEND_OK;
}

/* The tenth run goes wrong, so that some ops have been measured by then. */
static int prepare(void *self, const orr_backend_op *op, void **job, orr_backend_message *message) {
    (void)self;
    (void)message;
    if (strcmp(mode, "no-memory") == 0 && op->kind == ORR_BACKEND_GEMM) {
        return ORR_BACKEND_NO_MEMORY;
    }
    *job = mode;
    return ORR_BACKEND_OK;
}

static int run(void *self, void *job, double *seconds, orr_backend_message *message) {
    (void)self;
    (void)job;
    *seconds = 1e-3;
#ifdef FAULTY_WAITS
    (void)usleep(1000); /* as if others had the processor */
#endif
    if (++runs < 120) {
        return ORR_BACKEND_OK;
    }
    if (strcmp(mode, "hang") == 0) {
        for (;;) {
            (void)pause();
        }
    }
    if (strcmp(mode, "crash") == 0) {
        (void)raise(SIGSEGV);
    }
    if (strcmp(mode, "asked") == 0) { /* as a launcher does when another rank is gone */
        (void)kill(getppid(), SIGTERM);
        for (;;) {
            (void)pause();
        }
    }
    if (strcmp(mode, "exit") == 0) {
        _exit(3);
    }
    if (strcmp(mode, "lost") == 0) {
        (void)snprintf(message->text, sizeof message->text, "the device fell off the bus");
        return ORR_BACKEND_LOST;
    }
    return ORR_BACKEND_OK;
}

static void drop(void *self, void *job) {
    (void)self;
    (void)job;
}

static int meet(void *self, orr_backend_message *message) {
    (void)self;
    (void)message;
    return ORR_BACKEND_OK;
}

static void close_faulty(void *self) {
    (void)self;
}

static const orr_backend table = {.abi = FAULTY_ABI,
#ifndef FAULTY_WAITS
                                  .capabilities = ORR_BACKEND_HAS_CLOCK,
#endif
                                  .name = "faulty",
                                  .open = open_faulty,
                                  .identify = identify,
                                  .prepare = prepare,
                                  .run = run,
#ifndef FAULTY_HOLE
                                  .drop = drop,
#endif
                                  .meet = meet,
                                  .close = close_faulty};

#ifdef FAULTY_HOLE
extern void (*const faulty_drop)(void *self, void *job); /* there, but not in the table */
void (*const faulty_drop)(void *self, void *job) = drop;
#endif

__attribute__((visibility("default"))) const orr_backend *orr_backend_entry(void);
const orr_backend *orr_backend_entry(void) {
    return &table;
}
