#include "base/os_host.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double orr_os_now_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int64_t orr_os_unix_s(void) {
    return (int64_t)time(NULL);
}

void orr_os_sleep_s(double s) {
    if (s > 0) {
        time_t whole = (time_t)s;
        struct timespec wait = {.tv_sec = whole, .tv_nsec = (long)((s - (double)whole) * 1e9)};
        (void)nanosleep(&wait, NULL);
    }
}

const char *orr_os_env(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

void *orr_os_library(const char *name) {
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

orr_os_function orr_os_symbol(void *library, const char *name) {
    void *address = library == NULL ? NULL : dlsym(library, name);
    orr_os_function function = NULL;
    /* POSIX wants this to work; C has no cast for it. */
    memcpy(&function, &address, sizeof function);
    return function;
}
