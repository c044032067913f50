/* What measuring needs of the operating system: a clock, a loaded module, and a child process that
 * cannot get stuck. */
#ifndef ORR_BASE_OS_RUN_H
#define ORR_BASE_OS_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "orrery/status.h"

/* Monotonic, seconds from an arbitrary start. */
double orr_os_clock_s(void);
/* Processor time of this process, seconds. */
double orr_os_cpu_s(void);
/* Today as "2026-08-14", UTC. */
const char *orr_os_date(orr_arena *arena);
/* Model of the processor and how many are online; "" when the system does not say. */
const char *orr_os_processor(orr_arena *arena);

/* Loads `name` from the folder of the running program, its ../lib/orrery, or as a path when it
 * contains '/', and finds a symbol in it. It stays loaded. ORR_E_IO with what was tried. */
orr_status orr_os_module(orr_arena *arena, const char *name, const char *symbol, void **out,
                         orr_err *err);

/* Runs `body` in a child process. It reports by orr_os_send; each message is `bytes` long (at most
 * 4096) and handed to `receive` as it comes. A child that sends nothing for `limit_s` seconds is
 * ended, and so are its own children. `body` returns the exit code. */
typedef int (*orr_os_body)(void *user, int channel);
typedef void (*orr_os_receive)(void *user, const void *message);
typedef struct orr_os_end {
    int code;         /* exit code; -1 when a signal ended it */
    int signal;       /* that ended it; 0: none */
    bool timed_out;   /* ended for being silent */
    bool interrupted; /* this process was asked to stop (SIGTERM, SIGINT): the child was ended */
} orr_os_end;
orr_status orr_os_child(orr_os_body body, void *body_user, orr_os_receive receive,
                        void *receive_user, size_t bytes, double limit_s, orr_os_end *end,
                        orr_err *err);
/* From the child: false when nobody listens any more. */
bool orr_os_send(int channel, const void *message, size_t bytes);

#endif
