/* Kernels of one device as a trace lists them: classes, communication that nothing hides. */
#ifndef ORR_OBSERVE_KERNELS_H
#define ORR_OBSERVE_KERNELS_H

#include "observe/observe_int.h"

typedef enum kernel_class {
    KERNEL_GEMM = 0,
    KERNEL_ATTENTION,
    KERNEL_ELEMENTWISE,
    KERNEL_LOSS,
    KERNEL_OPTIMIZER,
    KERNEL_COPY,
    KERNEL_COMMUNICATION,
    KERNEL_CLASS_COUNT
} kernel_class;

typedef enum kernel_collective {
    KERNEL_ALL_REDUCE = 0,
    KERNEL_ALL_GATHER,
    KERNEL_REDUCE_SCATTER,
    KERNEL_SEND_RECV, /* all-to-all too, which libraries build from it */
    KERNEL_EXPERTS,   /* dispatch and combine kernels of their own */
    KERNEL_OTHER,
    KERNEL_COLLECTIVE_COUNT
} kernel_collective;

enum { KERNEL_NAME_BYTES = 256, MAX_KERNELS = 2 << 20, MAX_KERNEL_NAMES = 4096 };

typedef struct kernel_span {
    double start_s, end_s;
} kernel_span;
typedef struct kernel_spans {
    kernel_span *at;
    size_t count, capacity;
} kernel_spans;

/* All kernels of one name. */
typedef struct kernel_name {
    const char *name;
    double time_s;
    uint32_t count;
    uint8_t class;
} kernel_name;

typedef struct kernel_trace {
    orr_arena *arena;
    kernel_spans compute, communication;
    double class_s[KERNEL_CLASS_COUNT], collective_s[KERNEL_COLLECTIVE_COUNT];
    double first_s, last_s;
    uint64_t kernels, dropped;
    kernel_name *name; /* open addressing, 2 * MAX_KERNEL_NAMES slots */
    uint32_t names;
    /* steps that the trace marks */
    uint32_t steps;
    double first_step_s, last_step_s; /* starts */
    const char *device;
    int64_t rank, world;
} kernel_trace;

kernel_trace *orr_kernels_new(orr_arena *arena);
/* copy: a transfer rather than a kernel. */
void orr_kernels_add(kernel_trace *trace, const char *name, bool copy, double start_s,
                     double end_s);
void orr_kernels_step(kernel_trace *trace, double start_s);
/* kind TRACE, unless there was no kernel. */
void orr_kernels_finish(kernel_trace *trace, const char *format, orr_observation *out);

#endif
