/* A back end runs single ops of a training step on a device, for measuring.
 *
 * It is one table of functions. `null` and `replay` are built in; others are shared objects that
 * are loaded when asked for ("cpu": orrery-cpu.so) and export
 *
 *     const orr_backend *orr_backend_entry(void);
 *
 * The host first compares `abi`, which must be equal, then checks that every function is there.
 * Everything is called from one thread of a process that measures and nothing else. Functions
 * return an orr_backend_status; a failure leaves a sentence in the message that they are given. */
#ifndef ORRERY_BACKEND_H
#define ORRERY_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORR_BACKEND_ABI 2u
#define ORR_BACKEND_ENTRY "orr_backend_entry"

typedef enum orr_backend_status {
    ORR_BACKEND_OK = 0,
    ORR_BACKEND_UNSUPPORTED = 1, /* not this op: the rest can be measured */
    ORR_BACKEND_NO_MEMORY = 2,   /* not this op either */
    ORR_BACKEND_NO_DEVICE = 3,   /* nothing to measure on, or a library is missing */
    ORR_BACKEND_LOST = 4,        /* the device or another rank is gone: give up */
    ORR_BACKEND_FAILED = 5       /* anything else; give up */
} orr_backend_status;

/* The first five are the kinds of orr_op. */
typedef enum orr_backend_kind {
    ORR_BACKEND_GEMM = 0,         /* dim: m n k batch */
    ORR_BACKEND_GROUPED_GEMM = 1, /* dim: m n k groups; m rows (weight gradient: depth k) each */
    ORR_BACKEND_ATTENTION = 2,    /* dim: batch heads kv_heads head_dim v_dim window seq_q seq_kv */
    ORR_BACKEND_MEMORY = 3,       /* dim: bytes of traffic, launches; sub: family */
    ORR_BACKEND_COLLECTIVE = 4,   /* dim: rank bytes, ranks, domains, stride; sub: operation */
    ORR_BACKEND_SEND = 5,         /* dim: bytes, peer rank */
    ORR_BACKEND_RECEIVE = 6       /* dim: bytes, peer rank */
} orr_backend_kind;

/* Bits of `capabilities`. */
typedef enum orr_backend_capability {
    ORR_BACKEND_HAS_RANKS = 1 << 0, /* runs as several ranks, has collectives */
    ORR_BACKEND_HAS_CLOCK = 1 << 1, /* run() says how long the device took */
    ORR_BACKEND_HAS_CHECK = 1 << 2  /* check() proves results equal between ranks */
} orr_backend_capability;

typedef struct orr_backend_op {
    uint8_t kind;      /* orr_backend_kind */
    uint8_t phase;     /* 0 forward, 1 input gradient (attention: backward), 2 weight gradient */
    uint8_t dtype;     /* 0 bf16, 1 fp16, 2 fp32, 3 fp8, 4 mxfp8, 5 fp8 in blocks, 6 nvfp4 */
    uint8_t sub;       /* collective: 0 all-reduce, 1 all-gather, 2 reduce-scatter, 3 all-to-all,
                          4 send and receive, 5 broadcast; memory: family */
    uint8_t causal;    /* attention */
    uint8_t out_bytes; /* GEMM: bytes moved per output element; 8: adds into an fp32 sum */
    uint8_t reserved[2];
    uint64_t dim[8];
} orr_backend_op;

typedef struct orr_backend_identity {
    char device[128];   /* "NVIDIA H200" */
    char software[256]; /* libraries with versions */
    double memory_bytes;
    uint32_t rank, ranks;
    double clock_hz; /* of the device, now; 0: not known */
    uint32_t slowed; /* not 0: below what was asked for, by power, heat or the board */
} orr_backend_identity;

typedef struct orr_backend_message {
    char text[256];
} orr_backend_message;

typedef struct orr_backend {
    uint32_t abi;          /* ORR_BACKEND_ABI */
    uint32_t capabilities; /* orr_backend_capability bits */
    const char *name;
    /* options: text of the caller's, NULL when none ("replay": the file). */
    int (*open)(const char *options, void **self, orr_backend_message *message);
    int (*identify)(void *self, orr_backend_identity *out, orr_backend_message *message);
    /* Allocates and fills what an op reads and writes. *job is the back end's. */
    int (*prepare)(void *self, const orr_backend_op *op, void **job, orr_backend_message *message);
    /* Runs it once and waits until it is done. seconds: set by those that have a clock. */
    int (*run)(void *self, void *job, double *seconds, orr_backend_message *message);
    void (*drop)(void *self, void *job);
    /* All ranks reach this point. */
    int (*meet)(void *self, orr_backend_message *message);
    /* Largest relative difference between results on one rank and split over all; index counts the
     * cases from 0, name is set to the case's; ORR_BACKEND_UNSUPPORTED after the last. May be NULL
     * without HAS_CHECK. */
    int (*check)(void *self, uint32_t index, const char **name, double *difference,
                 orr_backend_message *message);
    void (*close)(void *self);
} orr_backend;

typedef const orr_backend *(*orr_backend_entry_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
