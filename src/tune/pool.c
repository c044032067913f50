/* A parallel loop. Which thread takes an index never shows in what the job leaves behind. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/num.h"
#include "tune/tune_int.h"

enum { MAX_THREADS = 256 };

typedef struct pool {
    atomic_uint next;
    uint32_t count;
    tune_job_fn fn;
    void *user;
} pool;

typedef struct worker {
    pool *shared;
    uint32_t thread;
    pthread_t handle;
    bool started;
} worker;

static void *work(void *user) {
    const worker *self = (const worker *)user;
    pool *p = self->shared;
    for (;;) {
        uint32_t index = atomic_fetch_add(&p->next, 1);
        if (index >= p->count) {
            return NULL;
        }
        p->fn(p->user, self->thread, index);
    }
}

void tune_pool_run(uint32_t threads, uint32_t count, tune_job_fn fn, void *user) {
    pool shared = {.count = count, .fn = fn, .user = user};
    worker workers[MAX_THREADS];
    uint32_t used = orr_max_u32(1, orr_min_u32(orr_min_u32(threads, count), MAX_THREADS));
    for (uint32_t t = 0; t < used; t++) {
        workers[t] = (worker){.shared = &shared, .thread = t};
    }
    for (uint32_t t = 1; t < used; t++) { /* fewer threads do the same work */
        workers[t].started = pthread_create(&workers[t].handle, NULL, work, &workers[t]) == 0;
    }
    (void)work(&workers[0]);
    for (uint32_t t = 1; t < used; t++) {
        if (workers[t].started) {
            (void)pthread_join(workers[t].handle, NULL);
        }
    }
}

double tune_clock_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
