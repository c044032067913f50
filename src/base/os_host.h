/* What the host offers besides files: clocks, the environment, libraries found at run time. */
#ifndef ORR_BASE_OS_HOST_H
#define ORR_BASE_OS_HOST_H

#include <stdbool.h>
#include <stdint.h>

double orr_os_now_s(void);                /* monotonic, from an arbitrary start */
int64_t orr_os_unix_s(void);              /* seconds since 1970 */
void orr_os_sleep_s(double s);            /* signals may cut it short */
const char *orr_os_env(const char *name); /* NULL when unset or empty */

/* A shared library by its file name, or NULL. Never closed: its threads and handlers may live on.
 */
void *orr_os_library(const char *name);
/* A symbol's address as a function, to be cast to its type; NULL when absent. */
typedef void (*orr_os_function)(void);
orr_os_function orr_os_symbol(void *library, const char *name);

#endif
